//! HdrHistogram percentile text (`.hgrm`), as its plotters read it.

use std::fmt::Write as _;

use crate::latency::Latencies;

/// Values are written in microseconds.
const NS_A_UNIT: f64 = 1000.0;

/// Steps for every halving of the distance to 100 %, as HdrHistogram's own tools write.
const TICKS_PER_HALF: u32 = 5;

/// The percentile distribution in HdrHistogram's text format: values in MICROSECONDS, one line a
/// step.
pub fn percentile_text(latencies: &Latencies) -> String {
    let histogram = latencies.histogram();
    let mut text = String::from("       Value     Percentile TotalCount 1/(1-Percentile)\n\n");
    let mut total = 0;
    for step in histogram.iter_quantiles(TICKS_PER_HALF) {
        total += step.count_since_last_iteration();
        let value = step.value_iterated_to() as f64 / NS_A_UNIT;
        let quantile = step.quantile_iterated_to();
        // Writing to a String does not fail.
        let _ = if quantile < 1.0 {
            writeln!(
                text,
                "{value:12.3} {quantile:14.12} {total:10} {:14.2}",
                1.0 / (1.0 - quantile)
            )
        } else {
            writeln!(text, "{value:12.3} {quantile:14.12} {total:10}")
        };
    }
    let mean = latencies.summary().mean.unwrap_or(0.0) / NS_A_UNIT;
    let deviation = histogram.stdev() / NS_A_UNIT;
    let max = histogram.max() as f64 / NS_A_UNIT;
    let _ = writeln!(
        text,
        "#[Mean    = {mean:12.3}, StdDeviation   = {deviation:12.3}]"
    );
    let _ = writeln!(
        text,
        "#[Max     = {max:12.3}, Total count    = {:12}]",
        histogram.len()
    );
    let _ = writeln!(
        text,
        "#[Buckets = {:12}, SubBuckets     = {:12}]",
        histogram.buckets(),
        // The number of linear steps a bucket at three significant digits.
        2048
    );
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_text_has_the_standard_form() {
        let mut latencies = Latencies::new();
        (1..=1000).for_each(|us| latencies.record(us * 1000));
        let text = percentile_text(&latencies);
        let mut lines = text.lines();
        assert_eq!(
            lines.next().unwrap().split_whitespace().collect::<Vec<_>>(),
            ["Value", "Percentile", "TotalCount", "1/(1-Percentile)"]
        );
        assert_eq!(lines.next(), Some(""));
        let rows: Vec<Vec<f64>> = lines
            .by_ref()
            .take_while(|line| !line.starts_with('#'))
            .map(|line| {
                line.split_whitespace()
                    .map(|field| field.parse().unwrap())
                    .collect()
            })
            .collect();
        assert!(rows.len() > 20);
        assert!(
            rows.windows(2)
                .all(|pair| pair[0][0] <= pair[1][0] && pair[0][1] < pair[1][1])
        );
        let (last, others) = rows.split_last().unwrap();
        assert!(
            others
                .iter()
                .all(|row| row.len() == 4 && (row[3] - 1.0 / (1.0 - row[1])).abs() <= 0.01)
        );
        // The last line is 100 %, whose fourth column would be infinite.
        assert_eq!(last.len(), 3);
        assert!(
            (last[0] / 1000.0 - 1.0).abs() < 1e-3,
            "in microseconds: {last:?}"
        );
        assert_eq!((last[1], last[2]), (1.0, 1000.0));
        let half = rows.iter().find(|row| row[1] >= 0.5).unwrap();
        assert!((half[0] / 500.0 - 1.0).abs() < 2e-3, "{half:?}");
    }

    #[test]
    fn an_empty_histogram_has_no_rows() {
        let text = percentile_text(&Latencies::new());
        assert_eq!(
            text.lines()
                .filter(|line| line.starts_with(' ') && !line.contains("Value"))
                .count(),
            0
        );
    }
}
