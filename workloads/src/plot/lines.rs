//! Lines over a common axis: latencies or throughputs over the number of locks, nodes or threads.

use plotters::prelude::*;
use plotters::style::text_anchor::{HPos, Pos, VPos};

use super::axis::{LogAxis, tick_text};
use super::canvas::{
    Canvas, Caption, Drawn, FAINT_GRID, GRID, Legend, Lettering, TEXT, document, frame, head, line,
    write,
};
use super::style::{Style, pixel};
use crate::error::Result;

const MARGIN: f64 = 24.0;
/// Left of a panel: tick labels and the axis' name.
const AXIS_WIDTH: f64 = 78.0;
const PANEL: (f64, f64) = (420.0, 230.0);
/// Above a panel: its title.
const TITLE_HEIGHT: f64 = 34.0;
/// Below a panel: tick labels and the axis' name.
const FOOT_HEIGHT: f64 = 56.0;
/// Above the panels with one line of legend.
const HEAD_HEIGHT: f64 = 96.0;
/// Between the outermost points and the edge of a panel, as a share of its width.
const INSET: f64 = 0.06;
/// Half the end of a whisker.
const WHISKER: f64 = 3.0;
/// Ticks of a linear axis are no more than these.
const TICKS: f64 = 6.0;

/// Panels side by side and one above the other, with a legend for all.
#[derive(Clone, Debug)]
pub struct LineChart {
    /// Panels in a row.
    pub columns: usize,
    /// The axis along, of all panels.
    pub x: XAxis,
    /// Names in the legend; a line has the style of its name in every panel.
    pub names: Vec<String>,
    /// Row by row.
    pub panels: Vec<Panel>,
}

/// The axis along.
#[derive(Clone, Debug)]
pub struct XAxis {
    /// What it is, with its unit.
    pub name: String,
    /// Whether equal factors are equally long; equal differences otherwise.
    pub is_log: bool,
}

/// One panel.
#[derive(Clone, Debug)]
pub struct Panel {
    /// Above it.
    pub title: String,
    /// The axis upwards.
    pub y: YAxis,
    /// What is drawn, in the order of [`LineChart::names`]; some may be empty.
    pub lines: Vec<Vec<Point>>,
    /// Below it, instead of points, when there are none.
    pub empty: &'static str,
}

/// The axis upwards.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct YAxis {
    /// What it is, with its unit.
    pub name: &'static str,
    /// How values are laid out.
    pub scale: Scale,
}

/// How values are laid out.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Scale {
    /// Logarithmic; labels are thousands of the values: microseconds of nanoseconds. What is below 1 has no point.
    LogThousands,
    /// From 0 on.
    Linear,
}

/// A value, and how far the seeds lie apart.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Point {
    /// Along.
    pub x: f64,
    /// Upwards; none leaves a gap.
    pub y: Option<f64>,
    /// The least and the greatest, of several seeds.
    pub span: Option<(f64, f64)>,
}

/// Draws `chart` as an SVG document. Panels with the same axis have the same ends, so that they can be compared.
///
/// # Errors
/// [`crate::Failure::Work`] when drawing fails, which it does not: it goes to memory.
pub fn lines_svg(chart: &LineChart, caption: &Caption) -> Result<String> {
    let figure = Figure::of(chart);
    document(figure.size(), |canvas| figure.draw(canvas, caption))
}

/// An axis upwards with its ends.
enum Axis {
    Log(LogAxis),
    Linear { step: f64, steps: u32 },
}

impl Axis {
    fn of(scale: Scale, values: impl Iterator<Item = f64>) -> Option<Self> {
        match scale {
            Scale::LogThousands => {
                let seen = values.filter(|value| *value >= 1.0);
                LogAxis::over(seen.map(|value| value as u64)).map(Self::Log)
            }
            Scale::Linear => {
                let most = values.fold(None, |most: Option<f64>, value| {
                    Some(most.map_or(value, |most| most.max(value)))
                })?;
                let rough = (most * 1.03 / TICKS).max(f64::MIN_POSITIVE);
                let power = 10f64.powf(rough.log10().floor());
                let step = [1.0, 2.0, 5.0, 10.0]
                    .map(|factor| factor * power)
                    .into_iter()
                    .find(|step| *step >= rough)
                    .unwrap_or(10.0 * power);
                let steps = (most * 1.03 / step).ceil().max(1.0) as u32;
                Some(Self::Linear { step, steps })
            }
        }
    }

    /// How far up `value` lies; none below a logarithmic axis.
    fn share(&self, value: f64) -> Option<f64> {
        match self {
            Self::Log(axis) => (value >= 1.0).then(|| axis.share(value)),
            Self::Linear { step, steps } => Some(value / (step * f64::from(*steps))),
        }
    }

    /// Values, and what is written beside them, if anything.
    fn ticks(&self) -> Vec<(f64, Option<String>)> {
        match self {
            Self::Log(axis) => {
                let ticks = axis.ticks.iter();
                ticks
                    .map(|(at, labelled)| (*at, labelled.then(|| tick_text(*at))))
                    .collect()
            }
            Self::Linear { step, steps } => (0..=*steps)
                .map(|number| f64::from(number) * step)
                .map(|at| (at, Some(short(at))))
                .collect(),
        }
    }
}

/// Without useless digits.
fn short(value: f64) -> String {
    let text = format!("{value:.3}");
    text.trim_end_matches('0').trim_end_matches('.').to_owned()
}

struct Figure<'a> {
    chart: &'a LineChart,
    names: Vec<&'a str>,
    /// The values along, from the least to the greatest.
    xs: Vec<f64>,
    /// By panel.
    axes: Vec<Option<Axis>>,
}

impl<'a> Figure<'a> {
    fn of(chart: &'a LineChart) -> Self {
        let mut xs: Vec<f64> = Vec::new();
        for point in chart
            .panels
            .iter()
            .flat_map(|panel| panel.lines.iter().flatten())
        {
            if !xs.contains(&point.x) {
                xs.push(point.x);
            }
        }
        xs.sort_by(f64::total_cmp);
        let axes = chart
            .panels
            .iter()
            .map(|panel| {
                let alike = chart.panels.iter().filter(|other| other.y == panel.y);
                let points = alike.flat_map(|other| other.lines.iter().flatten());
                let values = points.flat_map(|point| {
                    let ends = point.span.map(|(least, greatest)| [least, greatest]);
                    point.y.into_iter().chain(ends.into_iter().flatten())
                });
                Axis::of(panel.y.scale, values)
            })
            .collect();
        Self {
            chart,
            names: chart.names.iter().map(String::as_str).collect(),
            xs,
            axes,
        }
    }

    /// The title and the legend want the room of two panels at least.
    fn right(&self) -> f64 {
        MARGIN + self.chart.columns.max(2) as f64 * (AXIS_WIDTH + PANEL.0)
    }

    fn legend(&self) -> Legend {
        Legend::new(&self.names, MARGIN, self.right())
    }

    fn origin(&self, panel: usize) -> (f64, f64) {
        let columns = self.chart.columns.max(1);
        let (column, row) = (panel % columns, panel / columns);
        (
            MARGIN + AXIS_WIDTH + column as f64 * (PANEL.0 + AXIS_WIDTH),
            HEAD_HEIGHT
                + self.legend().more_height()
                + TITLE_HEIGHT
                + row as f64 * (TITLE_HEIGHT + PANEL.1 + FOOT_HEIGHT),
        )
    }

    fn size(&self) -> (f64, f64) {
        let rows = self.chart.panels.len().div_ceil(self.chart.columns.max(1));
        let bottom = self.origin(rows.max(1) * self.chart.columns.max(1)).1 - TITLE_HEIGHT;
        (self.right() + MARGIN, bottom + MARGIN)
    }

    fn draw(&self, canvas: &Canvas<'_>, caption: &Caption) -> Drawn {
        head(canvas, caption, MARGIN)?;
        self.legend().draw(canvas, &self.names, 82.0)?;
        for (index, panel) in self.chart.panels.iter().enumerate() {
            self.panel(canvas, panel, self.axes[index].as_ref(), self.origin(index))?;
        }
        Ok(())
    }

    /// How far along `x` lies in a panel.
    fn along(&self, x: f64) -> f64 {
        let place = |x: f64| if self.chart.x.is_log { x.ln() } else { x };
        let (first, last) = match (self.xs.first(), self.xs.last()) {
            (Some(first), Some(last)) if first < last => (place(*first), place(*last)),
            _ => return 0.5,
        };
        INSET + (place(x) - first) / (last - first) * (1.0 - 2.0 * INSET)
    }

    fn panel(
        &self,
        canvas: &Canvas<'_>,
        panel: &Panel,
        axis: Option<&Axis>,
        origin: (f64, f64),
    ) -> Drawn {
        let (left, top) = origin;
        let (right, bottom) = (left + PANEL.0, top + PANEL.1);
        let bold = Lettering {
            bold: true,
            ..Lettering::left(14)
        };
        write(canvas, &panel.title, (left, top - 14.0), &bold)?;
        for x in &self.xs {
            let at = left + self.along(*x) * PANEL.0;
            line(canvas, (at, top), (at, bottom), FAINT_GRID)?;
            write(
                canvas,
                &short(*x),
                (at, bottom + 15.0),
                &Lettering::centred(12),
            )?;
        }
        let middle = (left + right) / 2.0;
        let below = (middle, bottom + 36.0);
        write(canvas, &self.chart.x.name, below, &Lettering::centred(12))?;
        let turned = Lettering {
            turned: true,
            ..Lettering::centred(12)
        };
        let beside = (left - 60.0, (top + bottom) / 2.0);
        write(canvas, panel.y.name, beside, &turned)?;
        let has_points = panel.lines.iter().flatten().any(|point| point.y.is_some());
        if !has_points {
            let centre = (middle, (top + bottom) / 2.0);
            write(canvas, panel.empty, centre, &Lettering::centred(14))?;
        }
        let Some(axis) = axis else {
            return frame(canvas, origin, PANEL);
        };
        for (tick, label) in axis.ticks() {
            let Some(share) = axis.share(tick) else {
                continue;
            };
            let y = bottom - share * PANEL.1;
            let colour = if label.is_some() { GRID } else { FAINT_GRID };
            line(canvas, (left, y), (right, y), colour)?;
            if let Some(label) = label {
                let to_the_left = Lettering {
                    anchor: Pos::new(HPos::Right, VPos::Center),
                    ..Lettering::left(12)
                };
                write(canvas, &label, (left - 8.0, y), &to_the_left)?;
            }
        }
        frame(canvas, origin, PANEL)?;
        for (index, points) in panel.lines.iter().enumerate() {
            let place = |point: &Point, value: f64| {
                let share = axis.share(value)?;
                Some((
                    left + self.along(point.x) * PANEL.0,
                    bottom - share * PANEL.1,
                ))
            };
            for point in points {
                let ends = point.span.and_then(|(least, greatest)| {
                    Some((place(point, least)?, place(point, greatest)?))
                });
                if let Some((low, high)) = ends {
                    whisker(canvas, low, high)?;
                }
            }
            // A gap ends a line.
            for run in points.split(|point| point.y.is_none()) {
                let places: Vec<_> = run
                    .iter()
                    .filter_map(|point| place(point, point.y?))
                    .collect();
                Style::of(index).draw(canvas, &places)?;
            }
        }
        Ok(())
    }
}

/// From the least to the greatest, if a person can see that they differ.
fn whisker(canvas: &Canvas<'_>, low: (f64, f64), high: (f64, f64)) -> Drawn {
    if low.1 - high.1 < 2.0 {
        return Ok(());
    }
    let stroke = TEXT.stroke_width(1);
    for (from, to) in [
        (low, high),
        ((low.0 - WHISKER, low.1), (low.0 + WHISKER, low.1)),
        ((high.0 - WHISKER, high.1), (high.0 + WHISKER, high.1)),
    ] {
        canvas.draw(&PathElement::new(vec![pixel(from), pixel(to)], stroke))?;
    }
    Ok(())
}
