//! What has to be said of results that would mislead in silence.

use crate::report::{Class, RunRow};
use crate::settings::quantity::Time;

/// A line for each run that measured nothing.
pub(crate) fn nothing_measured(rows: &[RunRow]) -> String {
    rows.iter()
        .filter(|row| row.class == Class::All && row.ops == 0)
        .map(|row| {
            format!(
                "{}, {}: nothing was measured, as no operation began within the {} after \
                 the warm-up: raise --seconds\n",
                row.lock,
                row.setting(),
                Time::from_ns((row.seconds * 1e9).round() as u64),
            )
        })
        .collect()
}

/// A line for each run that ended before its time.
pub(crate) fn ended_early(rows: &[RunRow]) -> String {
    let told = |row: &RunRow| {
        let why = row.partial.as_ref().filter(|_| row.class == Class::All)?;
        Some(format!(
            "{}, {}: partial results, of {:.3} s: {why}\n",
            row.lock,
            row.setting(),
            row.seconds,
        ))
    };
    rows.iter().filter_map(told).collect()
}

/// How often the mean operation has to fit into the measured time.
const SHORT: f64 = 20.0;

/// A line for each run whose operations are not short against its window. Operations count where they begin and are all
/// waited for; so a window that is not long against them counts more of them than it had time for.
pub(crate) fn short_window(rows: &[RunRow]) -> String {
    rows.iter()
        // Given arrivals have no window.
        .filter(|row| row.class == Class::All && row.order.is_empty())
        .filter_map(|row| Some((row, row.latency_ns.mean?)))
        .filter(|(row, mean_ns)| mean_ns * SHORT > row.seconds * 1e9)
        .map(|(row, mean_ns)| {
            format!(
                "{}, {}: an operation takes {} on average, which is not short against the {} that are measured: the \
                 throughput is overstated, raise --seconds\n",
                row.lock,
                row.setting(),
                Time::from_ns(mean_ns.round() as u64),
                Time::from_ns((row.seconds * 1e9).round() as u64),
            )
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_window_that_is_short_is_told() {
        let row = |mean: Option<f64>| {
            let mut row = RunRow {
                class: Class::All,
                seconds: 1e-3,
                ..RunRow::for_test()
            };
            row.latency_ns.mean = mean;
            row
        };
        assert_eq!(short_window(&[row(None), row(Some(50_000.0))]), "");
        let text = short_window(&[row(Some(50_001.0))]);
        for part in ["50us", "1ms", "overstated", "--seconds"] {
            assert!(text.contains(part), "{part} is not in {text}");
        }
    }

    #[test]
    fn only_a_run_without_any_operation_is_told() {
        let row = |class, ops| RunRow {
            class,
            ops,
            ..RunRow::for_test()
        };
        // No local client got through, others did: that is a result.
        assert_eq!(
            nothing_measured(&[row(Class::Local, 0), row(Class::All, 5)]),
            ""
        );
        let text = nothing_measured(&[row(Class::Local, 0), row(Class::All, 0)]);
        assert_eq!(text.lines().count(), 1, "{text}");
        assert!(
            text.contains("farlock, uniform") && text.contains("--seconds"),
            "{text}"
        );
    }
}
