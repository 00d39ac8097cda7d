//! The claims about Figure 12: Sherman's tree with its own lock and with FARLock (Hu et al., OSDI 2026, section 6).

use dmtree_lock::DataPath;

use super::judge::{ABOUT_THE_SAME, Rule, Statement, View, rows_with};
use super::{Claim, Range, Unit};
use crate::report::{Class, RunRow};

/// What a claim is about.
enum About {
    /// Sherman's tail latency over FARLock's, published as a range.
    Tail {
        distribution: &'static str,
        class: Class,
        published: Range,
    },
    /// FARLock's throughput over Sherman's, published as about the same, over these distributions.
    Throughput {
        distributions: &'static [&'static str],
    },
}

struct Published {
    id: &'static str,
    text: &'static str,
    about: About,
}

const UNIFORM: &str = "uniform";
const ZIPF: &str = "zipf:0.99";

const CLAIMS: [Published; 5] = [
    Published {
        id: "f12-local-uniform",
        text: "uniform: local tail 11–14× lower",
        about: About::Tail {
            distribution: UNIFORM,
            class: Class::Local,
            published: Range {
                min: 11.0,
                max: 14.0,
            },
        },
    },
    Published {
        id: "f12-local-zipf",
        text: "Zipf 0.99: local tail 3.6–11× lower",
        about: About::Tail {
            distribution: ZIPF,
            class: Class::Local,
            published: Range {
                min: 3.6,
                max: 11.0,
            },
        },
    },
    Published {
        id: "f12-remote-uniform",
        text: "uniform: remote tail 1.7–6× lower",
        about: About::Tail {
            distribution: UNIFORM,
            class: Class::Remote,
            published: Range { min: 1.7, max: 6.0 },
        },
    },
    Published {
        id: "f12-remote-zipf",
        text: "Zipf 0.99: remote tail 1.8–3.5× lower",
        about: About::Tail {
            distribution: ZIPF,
            class: Class::Remote,
            published: Range { min: 1.8, max: 3.5 },
        },
    },
    Published {
        id: "f12-throughput",
        text: "total throughput about the same",
        about: About::Throughput {
            distributions: &[UNIFORM, ZIPF],
        },
    },
];

/// Between what ratios the claim `id` was published; none when there is no such claim.
pub fn published_range(id: &str) -> Option<Range> {
    let claim = CLAIMS.iter().find(|claim| claim.id == id)?;
    Some(match claim.about {
        About::Tail { published, .. } => published,
        About::Throughput { .. } => ABOUT_THE_SAME,
    })
}

/// Judges the claims about Figure 12 on the runs of one data path. Claims whose runs are not all
/// there are left out.
pub fn judge_figure_12(rows: &[RunRow], data_path: DataPath) -> Vec<Claim> {
    let row = |lock: &str, distribution: &str, class: Class| {
        rows_with(rows, lock, class).find(|row| {
            row.distribution.as_deref() == Some(distribution) && row.data_path == Some(data_path)
        })
    };
    let pair = |distribution: &str, class: Class| {
        Some((
            row("sherman", distribution, class)?,
            row("farlock", distribution, class)?,
        ))
    };
    let judge = |claim: &Published| {
        let (pairs, rule): (Vec<_>, _) = match claim.about {
            About::Tail {
                distribution,
                class,
                published,
            } => (vec![pair(distribution, class)?], Rule::Between(published)),
            About::Throughput { distributions } => {
                let pairs = distributions
                    .iter()
                    .map(|distribution| pair(distribution, Class::All))
                    .collect::<Option<_>>()?;
                (pairs, Rule::Same)
            }
        };
        let values = |view: View| {
            let mut ratios = Vec::new();
            for (sherman, farlock) in &pairs {
                match claim.about {
                    About::Tail { .. } => ratios.extend(view.tail_ratios(sherman, farlock)?),
                    About::Throughput { .. } => {
                        ratios.push(view.throughput_ratio(farlock, sherman)?);
                    }
                }
            }
            Some(ratios)
        };
        let statement = Statement {
            id: claim.id,
            published: claim.text,
            data_path: Some(data_path),
            part: None,
            unit: Unit::Ratio,
            rule,
            rows: pairs
                .iter()
                .flat_map(|(sherman, farlock)| [*sherman, *farlock])
                .collect(),
            values: &values,
        };
        Some(statement.judge())
    };
    CLAIMS.iter().filter_map(judge).collect()
}
