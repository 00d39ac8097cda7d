//! From what the runs found to the report and its files.

use std::path::Path;

use dmtree_index::tree::DEFAULT_SEARCH_NS;
use dmtree_lock::Cohort;
use serde_json::Value;

use crate::csv_text::csv_text;
use crate::error::{Failure, Result};
use crate::files::write_whole;
use crate::hgrm::percentile_text;
use crate::inserts::InsertVerbs;
use crate::latency::Latencies;
use crate::lock_bench::Order;
use crate::lock_memory;
use crate::plan::{Part, Plan, Results};
use crate::report::{Class, Report, RunRow, SCHEMA, Simulator};
use crate::run::{RunOutcome, WorkSpec, lock_options, nanos};
use crate::seeds::{OverSeeds, SeedFigures, by_run, pool};
use crate::settings::choice::{Fabric, PageFormat, Swap};
use crate::settings::quantity::{Count, Time, bytes_text};
use crate::settings::{Options, Settings};

/// The classes of a run that have clients, each with its latencies; all of them together come last.
pub fn classes(outcome: &RunOutcome, settings: &Settings) -> Vec<(Class, Latencies)> {
    let mut all = outcome.local.clone();
    all.merge(&outcome.remote);
    let mut classes = vec![(Class::Local, outcome.local.clone())];
    if settings.nodes > 1 {
        classes.push((Class::Remote, outcome.remote.clone()));
    }
    classes.push((Class::All, all));
    classes
}

/// How long a run measured, in seconds: its window, or what there was of it; of given arrivals the time until all were
/// served, the mean of its seeds.
fn measured_s(outcome: &RunOutcome, settings: &Settings) -> f64 {
    if let Some(partial) = &outcome.partial {
        // What nothing was measured in had no operations either.
        return partial.measured.as_secs_f64().max(f64::MIN_POSITIVE);
    }
    match outcome.order.as_slice() {
        [] => settings.window.as_secs_f64(),
        orders => {
            let ns: u64 = orders.iter().map(Order::end_ns).sum();
            ns as f64 / 1e9 / orders.len() as f64
        }
    }
}

/// The rows of one run of `part`, of all its seeds; none of no seeds.
fn rows_of(seeds: &[RunOutcome], part: &Part) -> Vec<RunRow> {
    let settings = &part.settings;
    let Some(outcome) = pool(seeds) else {
        return Vec::new();
    };
    let spec = &outcome.spec;
    let params = spec.lock.params(&lock_options(settings, spec));
    let mut lock_params: std::collections::BTreeMap<_, _> = params
        .into_iter()
        .map(|(name, value)| (name, serde_json::to_value(value).unwrap_or(Value::Null)))
        .collect();
    if settings.handover_limit.0.is_none()
        && let Some(handover) = lock_params.get_mut("handover")
    {
        *handover = Value::from("none");
    }
    let seconds = measured_s(&outcome, settings);
    let of_seeds: Vec<_> = seeds.iter().map(|seed| classes(seed, settings)).collect();
    let each_seed = |class: usize| -> Vec<SeedFigures> {
        of_seeds
            .iter()
            .zip(seeds)
            .map(|(classes, seed)| {
                let (class, latencies) = &classes[class];
                let fairness = seed.fairness.as_ref().map(|tally| tally.row(*class));
                SeedFigures {
                    throughput_ops_s: latencies.count() as f64 / measured_s(seed, settings),
                    latency_ns: latencies.summary(),
                    longest_run: fairness.and_then(|fairness| fairness.longest_run),
                }
            })
            .collect()
    };
    let tree = match spec.work {
        WorkSpec::Tree {
            distribution,
            data_path,
        } => Some((distribution, data_path)),
        WorkSpec::Locks { .. } => None,
    };
    let of_tree = |value: &dyn ToString| tree.map(|_| value.to_string());
    let sections = settings.lock_bench.as_ref().map(|bench| &bench.sections);
    let section = |cohort: Cohort| sections.map(|of| of[cohort as usize].to_string());
    classes(&outcome, settings)
        .into_iter()
        .enumerate()
        .map(|(number, class)| (class, each_seed(number)))
        .map(|((class, latencies), each_seed)| RunRow {
            part: (!part.name.is_empty()).then(|| part.name.clone()),
            varied: part.varied.clone(),
            at: part.at.clone(),
            lock: spec.lock.to_string(),
            lock_params: lock_params.clone(),
            distribution: tree.map(|(distribution, _)| distribution.to_string()),
            mix: of_tree(&settings.mix),
            keys: tree.map(|_| settings.keys),
            nodes: settings.nodes,
            threads: settings.threads,
            lock_count: spec.lock_count(settings),
            seed: spec.seed,
            seeds: seeds.len() as u32,
            page_format: of_tree(&settings.page_format),
            data_path: tree.map(|(_, data_path)| data_path),
            critical_section_local: section(Cohort::Local),
            critical_section_remote: section(Cohort::Remote),
            warmup_s: settings.warmup.as_secs_f64(),
            seconds,
            class,
            ops: latencies.count(),
            throughput_ops_s: latencies.count() as f64 / seconds / seeds.len() as f64,
            latency_ns: latencies.summary(),
            over_seeds: OverSeeds::of(&each_seed),
            each_seed,
            verbs_per_insert: InsertVerbs::of(&outcome.growth, outcome.verbs, &settings.mix)
                .filter(|_| class == Class::All),
            verified: outcome.verified.filter(|_| class == Class::All),
            partial: outcome.partial.as_ref().map(|partial| partial.why.clone()),
            fairness: outcome.fairness.as_ref().map(|tally| tally.row(class)),
            order: match class {
                Class::All => outcome.order.clone(),
                Class::Local | Class::Remote => Vec::new(),
            },
        })
        .collect()
}

/// The report of `plan` over all runs, whose outcomes are `by_part`.
///
/// # Errors
/// [`Failure::Work`] when the settings have no JSON form; they have.
pub(crate) fn report(plan: &Plan, by_part: &[Vec<RunOutcome>]) -> Result<Report> {
    let parts = plan.parts().iter().zip(by_part);
    let runs: Vec<RunRow> = parts
        .flat_map(|(part, outcomes)| by_run(outcomes).flat_map(|seeds| rows_of(seeds, part)))
        .collect();
    let settings = plan.base();
    let is_simulated = settings.fabric == Fabric::Sim;
    let outcomes = || by_part.iter().flatten();
    Ok(Report {
        schema: SCHEMA,
        command: plan.command.name.to_owned(),
        version: env!("CARGO_PKG_VERSION"),
        fabric: settings.fabric.to_string(),
        time: if is_simulated { "virtual" } else { "wall" },
        profile: is_simulated.then(|| settings.profile.name.to_owned()),
        config: plan.reported_options()?,
        claims: (plan.command.judge)(settings, &runs),
        runs,
        simulator: is_simulated.then(|| Simulator {
            events: outcomes().map(|outcome| outcome.events).sum(),
            folded: outcomes().map(|outcome| outcome.folded).sum(),
            verbs: outcomes().map(|outcome| outcome.verbs).sum(),
            wall_s: outcomes()
                .map(|outcome| outcome.event_loop.as_secs_f64())
                .sum(),
        }),
    })
}

/// The report as JSON text.
///
/// # Errors
/// [`Failure::Work`]; none in practice.
pub fn json_text(report: &Report) -> Result<String> {
    report
        .to_json()
        .map_err(|error| Failure::Work(format!("cannot write JSON: {error}")))
}

/// Writes everything into `directory`: `NAME.json`, `NAME.csv`, `NAME.svg` (of a tree `NAME-PATH.svg` for each data
/// path), and the percentile distribution of each class of each run as `.hgrm`.
///
/// # Errors
/// [`Failure::Work`] naming the file that could not be written.
pub(crate) fn write_all(directory: &Path, results: &Results<'_>) -> Result<()> {
    let name = results.command().file_name;
    let report = &results.report;
    write_whole(&directory.join(format!("{name}.json")), &json_text(report)?)?;
    write_whole(&directory.join(format!("{name}.csv")), &csv_text(report)?)?;
    for drawing in results.drawings()? {
        let file = format!("{name}{}.svg", drawing.suffix);
        write_whole(&directory.join(file), &drawing.svg)?;
    }
    for (part, outcomes) in results.parts() {
        let kept = results.command().percentiles.then_some(outcomes);
        for outcome in by_run(kept.unwrap_or_default()).filter_map(pool) {
            for (class, latencies) in classes(&outcome, &part.settings) {
                let run = outcome.spec.file_name();
                let file = format!("{}{run}-{class}.hgrm", part.file_prefix());
                write_whole(&directory.join(file), &percentile_text(&latencies))?;
            }
        }
    }
    Ok(())
}

/// What all runs have in common, in one line, of the settings of all parts.
pub fn conditions(parts: &[&Settings]) -> String {
    let Some(settings) = parts.first() else {
        return String::new();
    };
    let coroutines = match settings.coroutines {
        1 => String::new(),
        more => format!(" × {}", counted(more, "coroutine")),
    };
    let jitter = match settings.jitter.as_nanos() {
        0 => String::new(),
        ns => format!(", jitter {}", Time::from_ns(ns as u64)),
    };
    let swap = match settings.swap {
        Swap::Cas => "",
        Swap::Native => ", native swap",
    };
    let format = match settings.page_format {
        PageFormat::Sequence => "",
        PageFormat::Sherman => ", Sherman's page format",
    };
    let budget = match settings.cache_budget {
        bytes if bytes == dmtree_index::DEFAULT_CACHE_BYTES as u64 => String::new(),
        bytes => format!(", index caches of {}", bytes_text(u128::from(bytes))),
    };
    let pages = match settings.page_bytes {
        dmtree_index::DEFAULT_PAGE_BYTES => String::new(),
        bytes => format!(", pages of {bytes} bytes"),
    };
    let search = match nanos(settings.search_time) {
        DEFAULT_SEARCH_NS => String::new(),
        ns => format!(", {} to search a page", Time::from_ns(ns)),
    };
    let set: String = settings
        .options
        .set
        .iter()
        .filter(|item| parts.iter().all(|part| part.options.set.contains(item)))
        .map(|item| format!(", {item}"))
        .collect();
    let is_alike = |part: &&Settings| part.options.gap == settings.options.gap;
    let has_one_gap = parts.iter().all(is_alike);
    let mut works: Vec<String> = Vec::new();
    for part in parts {
        let work = work_text(part, has_one_gap);
        if !works.contains(&work) {
            works.push(work);
        }
    }
    // More than two say what is varied, which the parts' names say better.
    let works = match works.as_slice() {
        [one] => format!("{one}, "),
        [one, other] => format!("{one}; {other}; "),
        _ => String::new(),
    };
    let cluster = match settings.fabric {
        Fabric::Sim => settings.profile.name.to_owned(),
        Fabric::Tcp => "over TCP".to_owned(),
        Fabric::Verbs => "over RDMA verbs".to_owned(),
    };
    format!(
        "{cluster}, {} × {}{coroutines}, {works}{}{jitter}{}{}{swap}{pages}{format}{search}{budget}{set}",
        counts(parts, "node", |settings| settings.nodes),
        counts(parts, "thread", |settings| settings.threads),
        seeds_text(settings),
        if settings.hostile { ", hostile" } else { "" },
        if settings.profile.qp_cache_on {
            ""
        } else {
            ", no queue-pair cache"
        },
    )
}

/// What clients do, and how long.
fn work_text(settings: &Settings, with_gap: bool) -> String {
    let measured = format!("{} measured", seconds_text(settings.window.as_secs_f64()));
    match &settings.lock_bench {
        None => format!(
            "{} keys, {}, {measured}",
            Count(settings.keys).short(),
            settings.mix
        ),
        Some(bench) => {
            let gap = settings.options.gap.filter(|_| with_gap);
            bench.conditions(
                &Options {
                    gap,
                    ..settings.options.clone()
                },
                &measured,
            )
        }
    }
}

/// `10 nodes`, or from the least to the greatest of the parts, `2–10 nodes`.
fn counts(parts: &[&Settings], what: &str, of: fn(&Settings) -> u16) -> String {
    let numbers = || parts.iter().map(|settings| of(settings));
    match (numbers().min(), numbers().max()) {
        (Some(least), Some(most)) if least < most => format!("{least}–{most} {what}s"),
        (least, _) => counted(least.unwrap_or(0), what),
    }
}

/// What the settings do not say by themselves, a line each.
pub fn notes(settings: &Settings) -> String {
    if settings.fabric != Fabric::Sim {
        // What is assumed of an RNIC is assumed of none.
        return String::new();
    }
    let profile = &settings.profile;
    let memory = lock_memory::note(
        settings.asked_lock_memory,
        settings.lock_memory,
        &settings.locks,
        settings.lock_count,
        profile,
    );
    let swap = (settings.swap == Swap::Native && !profile.masked_cas.value).then(|| {
        format!(
            "native swaps are assumed: {} has no masked CAS",
            profile.name
        )
    });
    memory
        .into_iter()
        .chain(swap)
        .map(|line| format!("{line}\n"))
        .collect()
}

fn counted(number: u16, what: &str) -> String {
    format!("{number} {what}{}", if number == 1 { "" } else { "s" })
}

fn seeds_text(settings: &Settings) -> String {
    let first = settings.seed;
    match settings.seeds().last() {
        Some(last) if last > first => format!("seeds {first} to {last} pooled"),
        _ => format!("seed {first}"),
    }
}

fn seconds_text(seconds: f64) -> String {
    if seconds < 0.1 {
        format!("{} ms", seconds * 1e3)
    } else {
        format!("{seconds} s")
    }
}
