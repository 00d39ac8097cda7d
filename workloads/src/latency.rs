//! Latency histograms and the percentiles that may be read from them.

use hdrhistogram::Histogram;
use serde::Serialize;

/// Latencies up to this are kept with three significant digits without the histogram having to
/// grow.
const USUAL_MAX_NS: u64 = 60_000_000_000;

/// Samples that must lie beyond a percentile for it to mean anything.
const SAMPLES_BEYOND: u64 = 10;

/// A percentile that results are reported at.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Percentile {
    /// What people call it.
    pub name: &'static str,
    /// Its share, in hundred-thousandths.
    pub of_100_000: u64,
}

impl Percentile {
    /// P50, P95, P99, P99.9, P99.99, P99.999.
    pub const ALL: [Percentile; 6] = [
        Percentile {
            name: "P50",
            of_100_000: 50_000,
        },
        Percentile {
            name: "P95",
            of_100_000: 95_000,
        },
        Percentile {
            name: "P99",
            of_100_000: 99_000,
        },
        Percentile {
            name: "P99.9",
            of_100_000: 99_900,
        },
        Percentile {
            name: "P99.99",
            of_100_000: 99_990,
        },
        Percentile {
            name: "P99.999",
            of_100_000: 99_999,
        },
    ];

    /// Whether enough of `samples` samples lie beyond it.
    pub fn is_meaningful(self, samples: u64) -> bool {
        let beyond = u128::from(samples) * u128::from(100_000 - self.of_100_000) / 100_000;
        beyond >= u128::from(SAMPLES_BEYOND)
    }
}

/// The latencies of one class of operations, in nanoseconds with three significant digits.
#[derive(Clone, Debug)]
pub struct Latencies {
    histogram: Histogram<u64>,
    /// Exact, unlike what the histogram's buckets would give.
    sum_ns: u128,
}

impl Default for Latencies {
    fn default() -> Self {
        Self::new()
    }
}

impl Latencies {
    /// Nothing recorded yet; some 200 KB.
    pub fn new() -> Self {
        let mut histogram = Histogram::new_with_bounds(1, USUAL_MAX_NS, 3)
            .expect("1 ns to 60 s at 3 digits is a valid range");
        // An operation that took longer makes the histogram larger, it is not cut off.
        histogram.auto(true);
        Self {
            histogram,
            sum_ns: 0,
        }
    }

    /// Records one operation.
    pub fn record(&mut self, ns: u64) {
        self.histogram
            .record(ns)
            .expect("an automatic histogram grows to any value");
        self.sum_ns += u128::from(ns);
    }

    /// Adds all of `other`'s samples: the same as if they had been recorded here.
    pub fn merge(&mut self, other: &Self) {
        self.histogram
            .add(&other.histogram)
            .expect("an automatic histogram grows to any value");
        self.sum_ns += other.sum_ns;
    }

    /// How many operations were recorded.
    pub fn count(&self) -> u64 {
        self.histogram.len()
    }

    /// The value at `percentile` in nanoseconds, to three significant digits; none when fewer than
    /// ten samples lie beyond it.
    pub fn at(&self, percentile: Percentile) -> Option<u64> {
        percentile.is_meaningful(self.count()).then(|| {
            self.histogram
                .value_at_quantile(percentile.of_100_000 as f64 / 100_000.0)
        })
    }

    /// The figures that are reported.
    pub fn summary(&self) -> Summary {
        let [p50, p95, p99, p99_9, p99_99, p99_999] =
            Percentile::ALL.map(|percentile| self.at(percentile));
        let some = self.count() > 0;
        Summary {
            mean: some.then(|| self.sum_ns as f64 / self.count() as f64),
            p50,
            p95,
            p99,
            p99_9,
            p99_99,
            p99_999,
            max: some.then(|| self.histogram.max()),
        }
    }

    pub(crate) fn histogram(&self) -> &Histogram<u64> {
        &self.histogram
    }

    pub(crate) fn sum_ns(&self) -> u128 {
        self.sum_ns
    }

    /// Of a histogram that [`Latencies::histogram`] gave and its [`Latencies::sum_ns`]; none when it is of another
    /// resolution.
    pub(crate) fn from_parts(mut histogram: Histogram<u64>, sum_ns: u128) -> Option<Self> {
        let usual = Self::new().histogram;
        let same = histogram.low() == usual.low() && histogram.sigfig() == usual.sigfig();
        histogram.auto(true);
        same.then_some(Self { histogram, sum_ns })
    }
}

/// The reported figures of one class, in nanoseconds; what has too few samples is null.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize)]
pub struct Summary {
    /// The exact mean; null without samples.
    pub mean: Option<f64>,
    /// Percentile 50, and so on.
    pub p50: Option<u64>,
    /// Percentile 95.
    pub p95: Option<u64>,
    /// Percentile 99.
    pub p99: Option<u64>,
    /// Percentile 99.9.
    pub p99_9: Option<u64>,
    /// Percentile 99.99.
    pub p99_99: Option<u64>,
    /// Percentile 99.999.
    pub p99_999: Option<u64>,
    /// The largest, to three significant digits; null without samples.
    pub max: Option<u64>,
}

impl Summary {
    /// These, without the percentiles that `other` lacks.
    #[must_use]
    pub fn where_also(self, other: &Self) -> Self {
        fn both<T>(one: Option<T>, other: Option<T>) -> Option<T> {
            other.and(one)
        }
        Self {
            p50: both(self.p50, other.p50),
            p95: both(self.p95, other.p95),
            p99: both(self.p99, other.p99),
            p99_9: both(self.p99_9, other.p99_9),
            p99_99: both(self.p99_99, other.p99_99),
            p99_999: both(self.p99_999, other.p99_999),
            ..self
        }
    }

    /// Percentiles 95, 99, 99.9 and 99.999: those that the FARLock paper compares.
    pub fn tail(&self) -> [Option<u64>; 4] {
        [self.p95, self.p99, self.p99_9, self.p99_999]
    }

    /// The percentiles in the order of [`Percentile::ALL`].
    pub fn percentiles(&self) -> [Option<u64>; 6] {
        [
            self.p50,
            self.p95,
            self.p99,
            self.p99_9,
            self.p99_99,
            self.p99_999,
        ]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_percentile_needs_ten_samples_beyond_it() {
        for (samples, meaningful) in [
            (19, 0),
            (20, 1),
            (199, 1),
            (200, 2),
            (1_000, 3),
            (10_000, 4),
            (99_999, 4),
            (100_000, 5),
            (999_999, 5),
            (1_000_000, 6),
        ] {
            let count = Percentile::ALL
                .iter()
                .filter(|percentile| percentile.is_meaningful(samples))
                .count();
            assert_eq!(count, meaningful, "{samples}");
        }
        let mut latencies = Latencies::new();
        assert_eq!(latencies.summary(), Summary::default());
        (0..20).for_each(|ns| latencies.record(ns));
        assert_eq!(
            latencies.summary().percentiles(),
            [Some(9), None, None, None, None, None]
        );
    }

    #[test]
    fn percentiles_are_right_to_three_digits() {
        let mut latencies = Latencies::new();
        for ns in 1..=1_000_000u64 {
            latencies.record(ns * 10);
        }
        let summary = latencies.summary();
        for (value, percentile) in summary.percentiles().into_iter().zip(Percentile::ALL) {
            let exact = percentile.of_100_000 as f64 * 100.0;
            let value = value.unwrap() as f64;
            assert!(
                (value / exact - 1.0).abs() < 1e-3,
                "{}: {value} for {exact}",
                percentile.name
            );
        }
        assert_eq!(summary.mean, Some(5_000_005.0));
    }

    #[test]
    fn merging_is_exact() {
        let (mut all, mut odd, mut even) = (Latencies::new(), Latencies::new(), Latencies::new());
        let mut ns = 1u64;
        for index in 0..300_000u64 {
            ns = ns
                .wrapping_mul(6_364_136_223_846_793_005)
                .wrapping_add(1_442_695_040_888_963_407);
            let value = 1_000 + (ns >> 40) * (index % 7);
            all.record(value);
            if index % 2 == 0 {
                even.record(value)
            } else {
                odd.record(value)
            }
        }
        odd.merge(&even);
        assert_eq!(odd.histogram(), all.histogram());
        assert_eq!(odd.summary(), all.summary());
    }

    #[test]
    fn nothing_is_cut_off_at_the_top() {
        let mut latencies = Latencies::new();
        let ten_minutes = 600_000_000_000;
        latencies.record(ten_minutes);
        latencies.record(1);
        let max = latencies.summary().max.unwrap() as f64;
        assert!((max / ten_minutes as f64 - 1.0).abs() < 1e-3);
        let mut short = Latencies::new();
        short.record(5);
        short.merge(&latencies);
        assert_eq!(short.count(), 3);
        assert_eq!(short.summary().max, latencies.summary().max);
    }
}
