//! A logarithmic axis of latencies.

/// The ends of the axis and its ticks, in nanoseconds.
#[derive(Debug, PartialEq)]
pub(super) struct LogAxis {
    low: f64,
    high: f64,
    /// Value, and whether it has a label.
    pub(super) ticks: Vec<(f64, bool)>,
}

impl LogAxis {
    /// An axis over all of `values` that ends at 1, 2 or 5 times a power of ten; none without
    /// values.
    pub(super) fn over(values: impl Iterator<Item = u64>) -> Option<Self> {
        let (least, most) = values.fold(None, |ends: Option<(u64, u64)>, value| {
            let value = value.max(1);
            Some(ends.map_or((value, value), |(least, most)| {
                (least.min(value), most.max(value))
            }))
        })?;
        let steps = steps();
        let below = steps
            .iter()
            .rposition(|step| *step <= least as f64 * 0.97)
            .unwrap_or(0);
        let above = steps
            .iter()
            .position(|step| *step >= most as f64 * 1.03)
            .unwrap_or(steps.len() - 1);
        let shown = &steps[below..=above];
        // Labels at 1, 2 and 5 while they are few, at powers of ten beyond.
        let all = shown.len() <= 12;
        let ticks = shown
            .iter()
            .map(|step| (*step, all || is_power_of_ten(*step)))
            .collect();
        Some(Self {
            low: shown[0],
            high: shown[shown.len() - 1],
            ticks,
        })
    }

    /// Where `value` lies: 0 at the lower end, 1 at the upper.
    pub(super) fn share(&self, value: f64) -> f64 {
        (value.max(self.low).ln() - self.low.ln()) / (self.high.ln() - self.low.ln())
    }
}

/// 1, 2 and 5 times every power of ten of 64 bits.
fn steps() -> Vec<f64> {
    (0..20)
        .flat_map(|exponent| [1.0, 2.0, 5.0].map(|factor| factor * 10f64.powi(exponent)))
        .collect()
}

fn is_power_of_ten(step: f64) -> bool {
    let exponent = step.log10();
    (exponent - exponent.round()).abs() < 1e-9
}

/// `ns` in microseconds without useless digits: `0.5`, `20`, `1000`.
pub(super) fn tick_text(ns: f64) -> String {
    let us = ns / 1000.0;
    // Ticks have one digit that counts; f64's shortest form shows it.
    let text = format!("{us:.3}");
    text.trim_end_matches('0').trim_end_matches('.').to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_axis_spans_its_values_with_sensible_ticks() {
        let axis = LogAxis::over([760, 84_000].into_iter()).unwrap();
        assert_eq!((axis.low, axis.high), (500.0, 100_000.0));
        let labels: Vec<_> = axis
            .ticks
            .iter()
            .filter(|(_, label)| *label)
            .map(|(at, _)| tick_text(*at))
            .collect();
        assert_eq!(labels, ["0.5", "1", "2", "5", "10", "20", "50", "100"]);
        let wide = LogAxis::over([760, 8_700_000].into_iter()).unwrap();
        let labels: Vec<_> = wide
            .ticks
            .iter()
            .filter(|(_, label)| *label)
            .map(|(at, _)| tick_text(*at))
            .collect();
        assert_eq!(labels, ["1", "10", "100", "1000", "10000"]);
        assert_eq!(wide.ticks.len(), 14);
        assert!(LogAxis::over(std::iter::empty()).is_none());
    }

    #[test]
    fn one_value_still_has_an_axis() {
        let axis = LogAxis::over([1_000].into_iter()).unwrap();
        assert!(axis.low < 1_000.0 && axis.high > 1_000.0, "{axis:?}");
        let zero = LogAxis::over([0, 1].into_iter()).unwrap();
        assert!(zero.share(0.0).is_finite() && zero.share(1.0) < 1.0);
    }
}
