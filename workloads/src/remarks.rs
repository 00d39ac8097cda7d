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

#[cfg(test)]
mod tests {
    use super::*;

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
