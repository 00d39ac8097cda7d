//! Which claims hold or fail whatever is varied, and which hang on what.
//!
//! A setting is held against the base on the percentiles that both have samples for: with more of them a claim is judged
//! by more percentiles, and another verdict would say nothing of the parameter.

use std::fmt::Write as _;

use serde::Serialize;

use crate::claims::{Claim, Verdict};

/// The claims of one setting.
#[derive(Clone, Copy, Debug)]
pub struct Judged<'a> {
    /// The parameter that is varied.
    pub parameter: &'a str,
    /// Its value.
    pub value: &'a str,
    /// What was found.
    pub claims: &'a [Claim],
    /// The same on the percentiles that the base has, too.
    pub alike: &'a [Claim],
    /// The base's claims on the percentiles that this setting has, too.
    pub base_alike: &'a [Claim],
}

/// Another verdict than the base's.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Change {
    /// The parameter that brings it about, varied alone.
    pub parameter: String,
    /// Its value.
    pub value: String,
    /// The verdict.
    pub verdict: Verdict,
}

/// What a claim's verdict depends on.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Dependence {
    /// The claim.
    pub id: &'static str,
    /// Its verdict in the base; null with too few samples there.
    pub base: Option<Verdict>,
    /// In how many settings, the base among them, there is a verdict.
    pub judged: usize,
    /// In how many there are too few samples for one.
    pub unjudged: usize,
    /// The settings with another verdict than the base.
    pub changes: Vec<Change>,
}

impl Dependence {
    /// Whether no setting has another verdict than the base.
    pub fn is_robust(&self) -> bool {
        self.base.is_some() && self.changes.is_empty()
    }

    /// The parameters that change the verdict, in the order of the study.
    pub fn parameters(&self) -> Vec<&str> {
        let mut parameters: Vec<&str> = Vec::new();
        for change in &self.changes {
            if !parameters.contains(&change.parameter.as_str()) {
                parameters.push(&change.parameter);
            }
        }
        parameters
    }
}

/// What the claims of `settings` depend on; the first is the base.
pub fn dependences(settings: &[Judged<'_>]) -> Vec<Dependence> {
    let Some((base, varied)) = settings.split_first() else {
        return Vec::new();
    };
    base.claims
        .iter()
        .map(|claim| {
            let verdict_in = |claims: &[Claim]| {
                let found = claims.iter().find(|other| other.id == claim.id);
                found.and_then(|found| found.verdict)
            };
            let verdicts = settings.iter().filter_map(|one| verdict_in(one.claims));
            let judged = verdicts.count();
            let changes = varied.iter().filter_map(|setting| {
                // Without a verdict in the base there is nothing to differ from.
                let (base, verdict) = (verdict_in(setting.base_alike)?, verdict_in(setting.alike)?);
                (base != verdict).then(|| Change {
                    parameter: setting.parameter.to_owned(),
                    value: setting.value.to_owned(),
                    verdict,
                })
            });
            Dependence {
                id: claim.id,
                base: claim.verdict,
                judged,
                unjudged: settings.len() - judged,
                changes: changes.collect(),
            }
        })
        .collect()
}

/// A line for each claim.
pub fn dependences_text(dependences: &[Dependence]) -> String {
    let mut text = String::new();
    for dependence in dependences {
        // Writing to a String does not fail.
        let _ = writeln!(text, "{}", line(dependence));
    }
    text
}

fn line(dependence: &Dependence) -> String {
    let Dependence {
        id,
        base,
        judged,
        unjudged,
        changes,
    } = dependence;
    let few = match unjudged {
        0 => String::new(),
        settings => format!("; too few samples in {settings}"),
    };
    let Some(base) = base else {
        return format!("{id}: too few samples in the base{few}");
    };
    let parameters = dependence.parameters();
    let depends = match parameters.len() {
        0 => return format!("{id}: robust: {base} in all {judged} settings{few}"),
        1 => format!("hangs on one parameter, {}", parameters[0]),
        several => format!("hangs on {several} parameters"),
    };
    let list: Vec<String> = parameters
        .iter()
        .map(|parameter| {
            let values: Vec<String> = changes
                .iter()
                .filter(|change| change.parameter == *parameter)
                .map(|change| format!("{}: {}", change.value, change.verdict))
                .collect();
            format!("{parameter} ({})", values.join(", "))
        })
        .collect();
    format!(
        "{id}: {depends}: {base} in {} of {judged} settings, the base among them; changed by {}{few}",
        judged - changes.len(),
        list.join(", ")
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::claims::Unit;
    use dmtree_lock::DataPath;

    fn claim(id: &'static str, verdict: Option<Verdict>) -> Claim {
        Claim {
            id,
            data_path: Some(DataPath::Loopback),
            part: None,
            unit: Unit::Ratio,
            published: "",
            measured: None,
            over_seeds: None,
            verdict,
        }
    }

    #[test]
    fn what_is_robust_and_what_hangs_on_what() {
        use Verdict::{Direction, Fails, Holds};
        let table = [
            (
                "base",
                "",
                [Some(Fails), Some(Direction), Some(Fails), None],
            ),
            (
                "swap",
                "native",
                [Some(Fails), Some(Direction), Some(Fails), Some(Holds)],
            ),
            (
                "cache",
                "off",
                [Some(Fails), Some(Holds), Some(Direction), None],
            ),
            (
                "cache",
                "verb",
                [Some(Fails), Some(Fails), Some(Fails), None],
            ),
            (
                "keys",
                "8M",
                [Some(Fails), Some(Direction), Some(Holds), None],
            ),
            ("keys", "80M", [None, Some(Direction), Some(Fails), None]),
        ];
        let claims: Vec<Vec<Claim>> = table
            .iter()
            .map(|(_, _, verdicts)| {
                let ids = ["a", "b", "c", "d"].into_iter();
                ids.zip(verdicts)
                    .map(|(id, verdict)| claim(id, *verdict))
                    .collect()
            })
            .collect();
        let claims_of_base = claims[0].clone();
        let settings: Vec<Judged<'_>> = table
            .iter()
            .zip(&claims)
            .map(|((parameter, value, _), claims)| Judged {
                parameter,
                value,
                claims,
                alike: claims,
                base_alike: &claims_of_base,
            })
            .collect();
        let found = dependences(&settings);
        assert_eq!(found.len(), 4);
        assert!(found[0].is_robust());
        assert_eq!((found[0].judged, found[0].unjudged), (5, 1));
        assert!(!found[1].is_robust());
        assert_eq!(found[1].parameters(), ["cache"]);
        assert_eq!(found[1].changes[1].verdict, Fails);
        assert_eq!(found[2].parameters(), ["cache", "keys"]);
        assert!(!found[3].is_robust() && found[3].changes.is_empty());
        let text = dependences_text(&found);
        let lines: Vec<_> = text.lines().collect();
        assert_eq!(
            lines,
            [
                "a: robust: fails in all 5 settings; too few samples in 1",
                "b: hangs on one parameter, cache: direction in 4 of 6 settings, the base among them; changed by \
                 cache (off: holds, verb: fails)",
                "c: hangs on 2 parameters: fails in 4 of 6 settings, the base among them; changed by \
                 cache (off: direction), keys (8M: holds)",
                "d: too few samples in the base; too few samples in 5",
            ]
        );
    }

    #[test]
    fn verdicts_of_other_percentiles_are_no_difference() {
        use Verdict::{Direction, Fails};
        let verdict = |verdict| vec![claim("a", Some(verdict))];
        let (base, more) = (verdict(Direction), verdict(Fails));
        let judged = |claims, alike| Judged {
            parameter: "seconds",
            value: "10",
            claims,
            alike,
            base_alike: &base,
        };
        let found = |alike| dependences(&[judged(&base, &base), judged(&more, alike)]);
        assert!(found(&base)[0].is_robust());
        assert_eq!(found(&more)[0].parameters(), ["seconds"]);
    }

    #[test]
    fn nothing_depends_on_nothing() {
        assert_eq!(dependences(&[]), []);
    }
}
