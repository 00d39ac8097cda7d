//! What of a run that does not fit into memory would fit.

use std::time::Duration;

use crate::mix::{Mix, Operation};
use crate::run::{RunSpec, bytes_needed, nanos};
use crate::settings::quantity::Count;
use crate::settings::{Settings, Subject};

/// Bytes of memory that the largest of `runs` takes.
///
/// # Errors
/// [`crate::Failure::Usage`] where it cannot be laid out, for another reason than its size.
pub(crate) fn needed(settings: &Settings, runs: &[RunSpec]) -> crate::Result<u128> {
    runs.iter().try_fold(0, |most: u128, spec| {
        Ok(most.max(bytes_needed(settings, spec)?))
    })
}

/// A usual fill of leaves: the default.
const FILL: f64 = 0.8;

/// An option that memory depends on.
struct Knob {
    flag: &'static str,
    value: u64,
    least: u64,
    set: fn(&mut Settings, u64),
    text: fn(u64) -> String,
}

fn knobs(settings: &Settings) -> Vec<Knob> {
    let number: fn(u64) -> String = |value| value.to_string();
    let mut knobs = Vec::new();
    let mut add = |flag, value, least, set, text| {
        knobs.push(Knob {
            flag,
            value,
            least,
            set,
            text,
        });
    };
    if settings.subject() == Subject::Tree {
        add(
            "--keys",
            settings.keys,
            1,
            |s, v| s.keys = v,
            |v| Count(v).short(),
        );
        // How long it takes matters where a run keeps something of each operation.
        if settings.mix.share(Operation::Insert) > 0.0 || settings.verify {
            let seconds = |v| format!("{}", v as f64 / 1e9);
            let set = |s: &mut Settings, v| s.window = Duration::from_nanos(v);
            add("--seconds", nanos(settings.window), 1, set, seconds);
        }
        let budget = settings.cache_budget;
        add(
            "--cache-budget",
            budget,
            0,
            |s, v| s.cache_budget = v,
            number,
        );
    }
    let count = settings.lock_count.into();
    add(
        "--lock-count",
        count,
        1,
        |s, v| s.lock_count = v as u32,
        number,
    );
    let nodes = settings.nodes.into();
    add("--nodes", nodes, 1, |s, v| s.nodes = v as u16, number);
    let threads = settings.threads.into();
    add("--threads", threads, 1, |s, v| s.threads = v as u16, number);
    let coroutines = settings.coroutines.into();
    add(
        "--coroutines",
        coroutines,
        1,
        |s, v| s.coroutines = v as u16,
        number,
    );
    knobs
}

/// Changes of one option each, with which the largest of `runs` fits into `usable` bytes: as flags.
fn changes(settings: &Settings, runs: &[RunSpec], usable: u64) -> Vec<String> {
    let fits =
        |changed: &Settings| needed(changed, runs).is_ok_and(|bytes| bytes <= u128::from(usable));
    let with = |change: &dyn Fn(&mut Settings)| {
        let mut changed = settings.clone();
        change(&mut changed);
        changed
    };
    let mut found = Vec::new();
    for knob in knobs(settings) {
        let at = |value| fits(&with(&|changed| (knob.set)(changed, value)));
        if knob.value <= knob.least || !at(knob.least) {
            continue;
        }
        // The last is known to fit, the first not to.
        let (mut too_much, mut enough) = (knob.value, knob.least);
        while too_much - enough > 1 {
            let middle = enough + (too_much - enough) / 2;
            if at(middle) {
                enough = middle;
            } else {
                too_much = middle;
            }
        }
        let rounded = two_digits(enough).max(knob.least);
        found.push(format!("{} {}", knob.flag, (knob.text)(rounded)));
    }
    let default = dmtree_index::DEFAULT_PAGE_BYTES;
    if settings.page_bytes > default && fits(&with(&|changed| changed.page_bytes = default)) {
        found.push(format!("--page-bytes {default}"));
    }
    if settings.fill < FILL && fits(&with(&|changed| changed.fill = FILL)) {
        found.push(format!("--fill {FILL}"));
    }
    let inserts = settings.mix.share(Operation::Insert) > 0.0;
    if inserts && settings.keys > 0 && fits(&with(&|changed| changed.mix = Mix::update())) {
        found.push("a --mix without inserts".to_owned());
    }
    if settings.verify && fits(&with(&|changed| changed.verify = false)) {
        found.push("--verify off".to_owned());
    }
    found
}

/// What to do about `runs` that do not fit into `usable` bytes.
pub(crate) fn advice(settings: &Settings, runs: &[RunSpec], usable: u64) -> String {
    let changes = changes(settings, runs, usable);
    if changes.is_empty() {
        let mut flags: Vec<_> = knobs(settings).into_iter().map(|knob| knob.flag).collect();
        if settings.subject() == Subject::Tree {
            flags.extend(["--page-bytes", "--mix", "--verify"]);
            if settings.fill < FILL {
                flags.push("--fill (to be raised)");
            }
        }
        format!(
            "no one flag alone makes it fit: lower several of {}",
            flags.join(", ")
        )
    } else {
        format!("any one of these would fit: {}", changes.join(", "))
    }
}

/// Rounded down to two digits, so that it can be read.
fn two_digits(value: u64) -> u64 {
    let power = 10u64.pow(value.max(1).ilog10().saturating_sub(1));
    value / power * power
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::run::runs_of;
    use crate::settings::Options;

    fn settings(options: &[(&str, &str)]) -> Settings {
        let mut table = toml::Table::new();
        for (name, value) in options {
            table.insert((*name).to_owned(), toml::Value::from(*value));
        }
        let options: Options = table.try_into().expect("options");
        Settings::of(options).expect("settings")
    }

    #[test]
    fn what_is_advised_fits_and_a_tenth_more_does_not() {
        const GIB: u64 = 1 << 30;
        for (options, flags) in [
            (&[("keys", "500M")][..], &["--keys"][..]),
            (
                &[("mix", "insert"), ("seconds", "100")],
                &["--seconds", "a --mix without inserts"],
            ),
            (
                &[
                    ("mix", "insert"),
                    ("keys", "100M"),
                    ("fill", "0.5"),
                    ("seconds", "9"),
                ],
                &[],
            ),
            (&[("fill", "0.01")], &["--fill 0.8", "--keys"]),
            (&[("lock-count", "4G")], &["--lock-count"]),
            (
                &[("nodes", "256"), ("prefill-cache", "off"), ("keys", "20M")],
                &["--cache-budget", "--nodes"],
            ),
            (&[("threads", "12000")], &["--nodes", "--threads"]),
            (
                &[("keys", "20M"), ("verify", "on"), ("seconds", "5")],
                &["--keys", "--verify off"],
            ),
        ] {
            let settings = settings(options);
            let runs = runs_of(&settings);
            assert!(
                needed(&settings, &runs).expect("laid out") > u128::from(GIB),
                "{options:?}"
            );
            let found = changes(&settings, &runs, GIB);
            for flag in flags {
                assert!(
                    found.iter().any(|change| change.starts_with(flag)),
                    "{options:?}: {found:?}"
                );
            }
            for knob in knobs(&settings) {
                let Some(value) = found
                    .iter()
                    .find_map(|change| change.strip_prefix(knob.flag))
                else {
                    continue;
                };
                let value = value.trim();
                let value = match knob.flag {
                    "--seconds" => (value.parse::<f64>().expect("seconds") * 1e9) as u64,
                    _ => value.parse::<Count>().expect("a count").0,
                };
                let at = |value| {
                    let mut changed = settings.clone();
                    (knob.set)(&mut changed, value);
                    // What cannot even be laid out needs too much.
                    needed(&changed, &runs).unwrap_or(u128::MAX)
                };
                assert!(at(value) <= u128::from(GIB), "{} {value}", knob.flag);
                let more = value + value / 5 + 1;
                assert!(
                    at(more) > u128::from(GIB),
                    "{} {value} is not the most",
                    knob.flag
                );
            }
        }
    }

    #[test]
    fn where_no_flag_alone_would_do_all_are_named() {
        let settings = settings(&[("mix", "insert"), ("keys", "1G"), ("seconds", "1000")]);
        let advice = advice(&settings, &runs_of(&settings), 1 << 20);
        for flag in [
            "--keys",
            "--seconds",
            "--mix",
            "--page-bytes",
            "--cache-budget",
            "--nodes",
            "--threads",
        ] {
            assert!(advice.contains(flag), "{flag}: {advice}");
        }
    }
}
