//! [`Command`]: what `bench`, `lock-bench` and the figures are, each as a value.

use std::collections::BTreeMap;

use crate::claims::Claim;
use crate::error::Result;
use crate::perform::figure_text;
use crate::plan::Results;
use crate::plot::{Caption, tail_latency_svg};
use crate::report::RunRow;
use crate::results::conditions;
use crate::settings::choice::path_name;
use crate::settings::{Options, Settings, Subject, quick_options};

/// A command that runs a sweep and reports it.
#[derive(Debug)]
pub struct Command {
    /// As typed, and in the report.
    pub name: &'static str,
    /// What its clients work on.
    pub subject: Subject,
    /// Of its result files.
    pub file_name: &'static str,
    /// Above its figures.
    pub title: &'static str,
    /// What it changes of the general defaults, where those options are given.
    pub defaults: fn(&Options) -> Options,
    /// What `--quick` changes of them.
    pub quick: fn() -> Options,
    /// What `--paper` changes of them; none where there is no such thing.
    pub paper: Option<fn() -> Options>,
    /// What it runs one after the other, by the options that were given: a name of each part, and the options that make
    /// it. Nothing where all runs have the same settings but for what options list themselves.
    pub parts: fn(&Options) -> Vec<PartOptions>,
    /// Finds its claims in the rows of its runs.
    pub judge: fn(&Settings, &[RunRow]) -> Vec<Claim>,
    /// A line about what its rows show, if there is something to say.
    pub remark: fn(&Settings, &[RunRow]) -> Option<String>,
    /// Tells its results to people.
    pub tell: fn(&Results<'_>) -> String,
    /// Whether each run has `.hgrm` files: where there are not too many for a person to look at.
    pub percentiles: bool,
    /// Draws its figures.
    pub draw: fn(&Results<'_>) -> Result<Vec<Drawing>>,
}

/// The options that make a part of a command.
#[derive(Clone, Debug)]
pub struct PartOptions {
    /// In words, within the command: `4 nodes`.
    pub name: String,
    /// Over those of the command.
    pub options: Options,
    /// Where it lies in the command's figure, by axis.
    pub at: Coordinates,
}

/// Numbers by the name of the axis, with its unit.
pub type Coordinates = BTreeMap<&'static str, f64>;

/// A drawn figure.
#[derive(Clone, Debug)]
pub struct Drawing {
    /// Of its file, behind the command's: `-cpu`, or nothing.
    pub suffix: String,
    /// An SVG document.
    pub svg: String,
}

impl Drawing {
    /// The only one.
    pub fn only(svg: String) -> Vec<Self> {
        let suffix = String::new();
        vec![Self { suffix, svg }]
    }
}

/// `dmtree bench`.
pub const BENCH: Command = Command {
    name: "bench",
    subject: Subject::Tree,
    file_name: "bench",
    title: "Latency of the tree's operations, by lock",
    defaults: |_| Options::default(),
    quick: quick_options,
    paper: None,
    parts: |_| Vec::new(),
    judge: |_, _| Vec::new(),
    remark: |_, _| None,
    tell: figure_text,
    percentiles: true,
    draw: draw_tails,
};

/// Tail latencies: of a tree, a drawing for each data path.
///
/// # Errors
/// [`crate::Failure::Work`] when drawing fails, which it does not.
pub fn draw_tails(results: &Results<'_>) -> Result<Vec<Drawing>> {
    let rows = &results.report.runs;
    let conditions = conditions(&results.settings());
    let caption = |subtitle| Caption {
        title: results.command().title.to_owned(),
        subtitle,
    };
    let settings = results.base();
    if settings.subject() == Subject::Locks {
        return Ok(Drawing::only(tail_latency_svg(rows, &caption(conditions))?));
    }
    let paths = settings.data_paths.each().iter();
    paths
        .map(|path| {
            let of_path: Vec<RunRow> = rows
                .iter()
                .filter(|row| row.data_path == Some(*path))
                .cloned()
                .collect();
            let path = path_name(*path);
            let caption = caption(format!("{conditions}, local page data by {path}"));
            Ok(Drawing {
                suffix: format!("-{path}"),
                svg: tail_latency_svg(&of_path, &caption)?,
            })
        })
        .collect()
}
