//! Results as CSV: one line a class of a run.

use serde::Serialize;
use serde_json::Value;

use crate::error::{Failure, Result};
use crate::lock_bench::fairness::{HandOver, HandOvers};
use crate::report::{Class, Report, RunRow};
use crate::seeds::{LatencySpans, Span};
use dmtree_lock::DataPath;

#[derive(Serialize)]
struct Line<'a> {
    command: &'a str,
    fabric: &'a str,
    profile: Option<&'a str>,
    lock: &'a str,
    /// `name=value` pairs.
    lock_params: String,
    distribution: Option<&'a str>,
    mix: Option<&'a str>,
    keys: Option<u64>,
    nodes: u16,
    threads: u16,
    lock_count: u32,
    seed: u64,
    page_format: Option<&'a str>,
    data_path: Option<DataPath>,
    warmup_s: f64,
    seconds: f64,
    class: Class,
    ops: u64,
    throughput_ops_s: f64,
    mean_ns: Option<f64>,
    p50_ns: Option<u64>,
    p95_ns: Option<u64>,
    p99_ns: Option<u64>,
    p99_9_ns: Option<u64>,
    p99_99_ns: Option<u64>,
    p99_999_ns: Option<u64>,
    max_ns: Option<u64>,
    seeds: u32,
    throughput_ops_s_min: Option<f64>,
    throughput_ops_s_max: Option<f64>,
    p50_ns_min: Option<u64>,
    p50_ns_max: Option<u64>,
    p95_ns_min: Option<u64>,
    p95_ns_max: Option<u64>,
    p99_ns_min: Option<u64>,
    p99_ns_max: Option<u64>,
    p99_9_ns_min: Option<u64>,
    p99_9_ns_max: Option<u64>,
    p99_99_ns_min: Option<u64>,
    p99_99_ns_max: Option<u64>,
    p99_999_ns_min: Option<u64>,
    p99_999_ns_max: Option<u64>,
    verbs_per_insert: Option<f64>,
    coroutines: String,
    jitter: String,
    hostile: String,
    swap: String,
    qp_cache: String,
    lock_memory: String,
    cache_budget: String,
    fill: String,
    page_bytes: String,
    /// `NAME=VALUE` pairs.
    set: String,
    critical_section_local: Option<&'a str>,
    critical_section_remote: Option<&'a str>,
    arrivals: String,
    gap: String,
    grants: Option<u64>,
    overtaken_mean: Option<f64>,
    overtaken_p99: Option<u64>,
    overtaken_max: Option<u64>,
    displacement_sd: Option<f64>,
    longest_run: Option<u64>,
    local_local: Option<u64>,
    local_local_share: Option<f64>,
    local_remote: Option<u64>,
    local_remote_share: Option<f64>,
    remote_local: Option<u64>,
    remote_local_share: Option<f64>,
    remote_remote: Option<u64>,
    remote_remote_share: Option<f64>,
    part: Option<&'a str>,
    /// Why it is not whole.
    partial: Option<&'a str>,
}

/// The ends of what the seeds span; none with one seed, and where one has too few samples.
fn ends<T>(span: Option<Span<T>>) -> (Option<T>, Option<T>) {
    span.map(|Span(least, greatest)| (least, greatest)).unzip()
}

/// A setting of `run` as the config file has it; of a list, its items one behind the other.
fn setting(report: &Report, run: &RunRow, name: &str) -> String {
    fn text(value: &Value) -> String {
        match value {
            Value::Null => String::new(),
            Value::String(text) => text.clone(),
            Value::Bool(on) => if *on { "on" } else { "off" }.to_owned(),
            Value::Array(items) => items.iter().map(text).collect::<Vec<_>>().join(" "),
            other => other.to_string(),
        }
    }
    // Parameters of the profile that a part sets come on top of those that all have.
    let both = (name == "set").then_some(&report.config[name]);
    let own = run.varied.get(name);
    let told = own.or(Some(&report.config[name])).into_iter();
    let texts: Vec<String> = match (both, own) {
        (Some(common), Some(own)) => vec![text(common), text(own)],
        _ => told.map(text).collect(),
    };
    texts.join(" ").trim().to_owned()
}

/// The runs as CSV text with a header; a percentile with too few samples is an empty field.
///
/// # Errors
/// None in practice: it is written to memory.
pub fn csv_text(report: &Report) -> Result<String> {
    let failed =
        |error: &dyn std::fmt::Display| Failure::Work(format!("cannot write CSV: {error}"));
    let mut writer = csv::Writer::from_writer(Vec::new());
    for run in &report.runs {
        let params: Vec<String> = run
            .lock_params
            .iter()
            .map(|(name, value)| format!("{name}={value}"))
            .collect();
        let latency = run.latency_ns;
        let over = run.over_seeds.as_ref();
        let (throughput_ops_s_min, throughput_ops_s_max) =
            ends(over.map(|over| over.throughput_ops_s));
        let percentile = |of: fn(&LatencySpans) -> Option<Span<u64>>| {
            ends(over.and_then(|over| of(&over.latency_ns)))
        };
        let (p50_ns_min, p50_ns_max) = percentile(|spans| spans.p50);
        let (p95_ns_min, p95_ns_max) = percentile(|spans| spans.p95);
        let (p99_ns_min, p99_ns_max) = percentile(|spans| spans.p99);
        let (p99_9_ns_min, p99_9_ns_max) = percentile(|spans| spans.p99_9);
        let (p99_99_ns_min, p99_99_ns_max) = percentile(|spans| spans.p99_99);
        let (p99_999_ns_min, p99_999_ns_max) = percentile(|spans| spans.p99_999);
        let fairness = run.fairness.as_ref();
        let overtaken = fairness.map(|row| row.overtaken);
        let hand_overs = fairness.and_then(|row| row.hand_overs);
        let hand_over = |of: fn(&HandOvers) -> HandOver| {
            let of = hand_overs.as_ref().map(of);
            (of.map(|of| of.count), of.and_then(|of| of.share))
        };
        let (local_local, local_local_share) = hand_over(|of| of.local_local);
        let (local_remote, local_remote_share) = hand_over(|of| of.local_remote);
        let (remote_local, remote_local_share) = hand_over(|of| of.remote_local);
        let (remote_remote, remote_remote_share) = hand_over(|of| of.remote_remote);
        writer
            .serialize(Line {
                command: &report.command,
                fabric: &report.fabric,
                profile: report.profile.as_deref(),
                lock: &run.lock,
                lock_params: params.join(" "),
                distribution: run.distribution.as_deref(),
                mix: run.mix.as_deref(),
                keys: run.keys,
                nodes: run.nodes,
                threads: run.threads,
                lock_count: run.lock_count,
                seed: run.seed,
                page_format: run.page_format.as_deref(),
                data_path: run.data_path,
                warmup_s: run.warmup_s,
                seconds: run.seconds,
                class: run.class,
                ops: run.ops,
                throughput_ops_s: run.throughput_ops_s,
                mean_ns: latency.mean,
                p50_ns: latency.p50,
                p95_ns: latency.p95,
                p99_ns: latency.p99,
                p99_9_ns: latency.p99_9,
                p99_99_ns: latency.p99_99,
                p99_999_ns: latency.p99_999,
                max_ns: latency.max,
                seeds: run.seeds,
                throughput_ops_s_min,
                throughput_ops_s_max,
                p50_ns_min,
                p50_ns_max,
                p95_ns_min,
                p95_ns_max,
                p99_ns_min,
                p99_ns_max,
                p99_9_ns_min,
                p99_9_ns_max,
                p99_99_ns_min,
                p99_99_ns_max,
                p99_999_ns_min,
                p99_999_ns_max,
                verbs_per_insert: run.verbs_per_insert.and_then(|verbs| verbs.total),
                coroutines: setting(report, run, "coroutines"),
                jitter: setting(report, run, "jitter"),
                hostile: setting(report, run, "hostile"),
                swap: setting(report, run, "swap"),
                qp_cache: setting(report, run, "qp-cache"),
                lock_memory: setting(report, run, "lock-memory"),
                cache_budget: setting(report, run, "cache-budget"),
                fill: setting(report, run, "fill"),
                page_bytes: setting(report, run, "page-bytes"),
                set: setting(report, run, "set"),
                critical_section_local: run.critical_section_local.as_deref(),
                critical_section_remote: run.critical_section_remote.as_deref(),
                arrivals: setting(report, run, "arrivals"),
                gap: setting(report, run, "gap"),
                grants: fairness.map(|row| row.grants),
                overtaken_mean: overtaken.and_then(|row| row.mean),
                overtaken_p99: overtaken.and_then(|row| row.p99),
                overtaken_max: overtaken.and_then(|row| row.max),
                displacement_sd: fairness.and_then(|row| row.displacement_sd),
                longest_run: fairness.and_then(|row| row.longest_run),
                local_local,
                local_local_share,
                local_remote,
                local_remote_share,
                remote_local,
                remote_local_share,
                remote_remote,
                remote_remote_share,
                part: run.part.as_deref(),
                partial: run.partial.as_deref(),
            })
            .map_err(|error| failed(&error))?;
    }
    let bytes = writer.into_inner().map_err(|error| failed(&error))?;
    String::from_utf8(bytes).map_err(|error| failed(&error))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::report::{RunRow, SCHEMA, Simulator};

    #[test]
    fn every_run_is_a_line_under_the_header() {
        let mut row = RunRow {
            lock: "alock:20,5".to_owned(),
            ..RunRow::for_test()
        };
        row.lock_params.insert("local_budget", Value::from(20));
        row.lock_params.insert("swap", Value::from("cas"));
        row.latency_ns.p50 = Some(1234);
        let report = Report {
            schema: SCHEMA,
            command: "bench".to_owned(),
            version: "0",
            fabric: "sim".to_owned(),
            time: "virtual",
            profile: Some("cx3-fdr".to_owned()),
            config: serde_json::json!({
                "hostile": true, "fill": 0.8, "cache-budget": 524_288_000, "jitter": "2us",
                "set": ["wire_ns=5", "qp_cache=9"],
            }),
            runs: vec![row.clone(), row],
            simulator: Some(Simulator::default()),
            claims: Vec::new(),
        };
        let text = csv_text(&report).unwrap();
        let mut reader = csv::Reader::from_reader(text.as_bytes());
        let header = reader.headers().unwrap().clone();
        let column = |name: &str| header.iter().position(|other| other == name).unwrap();
        let lines: Vec<_> = reader.records().map(|record| record.unwrap()).collect();
        assert_eq!(lines.len(), 2);
        assert_eq!(&lines[0][column("lock")], "alock:20,5");
        assert_eq!(
            &lines[0][column("lock_params")],
            "local_budget=20 swap=\"cas\""
        );
        assert_eq!(&lines[0][column("p50_ns")], "1234");
        assert_eq!(&lines[0][column("p99_ns")], "");
        assert_eq!(&lines[0][column("data_path")], "cpu");
        assert_eq!(&lines[0][column("seeds")], "1");
        assert_eq!(&lines[0][column("p50_ns_min")], "");
        for (name, value) in [
            ("hostile", "on"),
            ("fill", "0.8"),
            ("cache_budget", "524288000"),
            ("jitter", "2us"),
            ("set", "wire_ns=5 qp_cache=9"),
            ("verbs_per_insert", ""),
        ] {
            assert_eq!(&lines[0][column(name)], value, "{name}");
        }
    }
}
