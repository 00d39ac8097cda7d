//! Fairness as a table for people.

use std::fmt::Write as _;

use comfy_table::Cell;

use crate::report::RunRow;
use crate::table::{NOTHING, new_table, right};

/// The fairness of each run that tells of it, a table for each number of locks.
pub fn fairness_text(rows: &[RunRow]) -> String {
    let mut text = String::new();
    let mut settings: Vec<String> = Vec::new();
    let told = || rows.iter().filter(|row| row.fairness.is_some());
    for setting in told().map(RunRow::setting) {
        if !settings.contains(&setting) {
            settings.push(setting);
        }
    }
    for setting in settings {
        let mut table = new_table();
        let numbers = [
            "overtaken: mean",
            "P99",
            "max",
            "displacement sd",
            "longest run",
            "l→l",
            "l→r",
            "r→l",
            "r→r",
        ];
        table.set_header(
            ["lock", "class"]
                .map(Cell::new)
                .into_iter()
                .chain(numbers.map(right)),
        );
        for row in told().filter(|row| row.setting() == setting) {
            let Some(fairness) = row.fairness else {
                continue;
            };
            let overtaken = fairness.overtaken;
            let shares = match fairness.hand_overs {
                Some(hand_overs) => hand_overs.each().map(|of| match of.share {
                    Some(share) => format!("{:.1} %", share * 100.0),
                    None => NOTHING.to_owned(),
                }),
                None => [const { String::new() }; 4],
            };
            let numbers = [
                decimal(overtaken.mean),
                whole(overtaken.p99),
                whole(overtaken.max),
                decimal(fairness.displacement_sd),
                whole(fairness.longest_run),
            ];
            table.add_row(
                [Cell::new(&row.lock), Cell::new(row.class)]
                    .into_iter()
                    .chain(numbers.into_iter().chain(shares).map(right)),
            );
        }
        // Writing to a String does not fail.
        let _ = writeln!(
            text,
            "{setting}; fairness: earlier requests still waiting at a grant (overtaken), deviation of the order of grants\n\
             from that of requests, longest run of a class' grants, hand-overs between local (l) and remote (r)\n{table}\n"
        );
    }
    text
}

fn whole(number: Option<u64>) -> String {
    number.map_or_else(|| NOTHING.to_owned(), |number| number.to_string())
}

fn decimal(number: Option<f64>) -> String {
    number.map_or_else(|| NOTHING.to_owned(), |number| format!("{number:.2}"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::lock_bench::Fairness;
    use crate::report::Class;
    use dmtree_lock::Cohort;

    #[test]
    fn what_is_not_known_is_a_dash_and_trees_have_no_fairness() {
        assert_eq!(fairness_text(&[RunRow::for_test()]), "");
        let mut fairness = Fairness::new(1, 2);
        fairness.asks(0, 0);
        fairness.asks(0, 1);
        fairness.granted(0, 1, Cohort::Remote, true);
        fairness.granted(0, 0, Cohort::Local, true);
        let rows = [Class::Local, Class::All].map(|class| RunRow {
            class,
            distribution: None,
            data_path: None,
            lock_count: 1,
            fairness: Some(fairness.tally().row(class)),
            ..RunRow::for_test()
        });
        let text = fairness_text(&rows);
        assert!(text.starts_with("1 lock; fairness"), "{text}");
        let cells = |class: &str| -> Vec<&str> {
            let mut lines = text.lines().filter(|line| line.contains('┆'));
            let line = lines.find(|line| line.contains(class)).unwrap();
            line.trim_matches('│').split('┆').map(str::trim).collect()
        };
        let all = cells(" all ");
        assert_eq!(all[2..7], ["0.50", NOTHING, "1", "1.00", "1"]);
        assert_eq!(all[7..], ["0.0 %", "0.0 %", "100.0 %", "0.0 %"]);
        assert_eq!(cells(" local ")[7..], [""; 4]);
    }
}
