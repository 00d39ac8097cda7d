//! Who waited from when to when, and held the lock until when: a bar each, in the order of service.

use plotters::prelude::*;
use plotters::style::text_anchor::{HPos, Pos, VPos};

use super::canvas::{
    Canvas, Caption, Drawn, FAINT_GRID, Lettering, document, frame, head, line, write,
};
use super::style::pixel;
use crate::error::Result;

const MARGIN: f64 = 24.0;
/// Left of a panel: the names of its bars.
const NAMES_WIDTH: f64 = 34.0;
/// Between two panels.
const GAP: f64 = 18.0;
const PANEL_WIDTH: f64 = 300.0;
/// Of one bar, and the room to the next.
const BAR: f64 = 9.0;
const NEXT: f64 = 11.0;
/// Above a panel: two lines.
const TITLE_HEIGHT: f64 = 52.0;
const FOOT_HEIGHT: f64 = 50.0;
const HEAD_HEIGHT: f64 = 100.0;
/// Ticks of the axis of time are no more than these.
const TICKS: f64 = 6.0;

/// Colours of waiting and holding; of the locks' figures, which can be told apart with any colour vision.
const LOCAL: RGBColor = RGBColor(0xd5, 0x5e, 0x00);
const REMOTE: RGBColor = RGBColor(0x00, 0x72, 0xb2);

/// Panels of bars, side by side and one above the other.
#[derive(Clone, Debug)]
pub struct BarChart {
    /// Panels in a row.
    pub columns: usize,
    /// Row by row.
    pub panels: Vec<BarPanel>,
}

/// One run.
#[derive(Clone, Debug)]
pub struct BarPanel {
    /// Above it.
    pub title: String,
    /// Below that.
    pub subtitle: String,
    /// From above to below.
    pub bars: Vec<Bar>,
}

/// One request; times in µs.
#[derive(Clone, Copy, Debug)]
pub struct Bar {
    /// Whether it is of a local client.
    pub is_local: bool,
    /// When it was made.
    pub asked: f64,
    /// When the lock was granted.
    pub granted: f64,
    /// When it was given back.
    pub ended: f64,
}

/// Draws `chart` as an SVG document; all panels have one axis of time.
///
/// # Errors
/// [`crate::Failure::Work`] when drawing fails, which it does not: it goes to memory.
pub fn bars_svg(chart: &BarChart, caption: &Caption) -> Result<String> {
    let figure = Figure::of(chart);
    document(figure.size(), |canvas| figure.draw(canvas, caption))
}

struct Figure<'a> {
    chart: &'a BarChart,
    columns: usize,
    /// The most bars of a panel.
    most: usize,
    /// The end of the axis of time, and between its ticks.
    end: f64,
    step: f64,
}

impl<'a> Figure<'a> {
    fn of(chart: &'a BarChart) -> Self {
        let bars = || chart.panels.iter().flat_map(|panel| &panel.bars);
        let last = bars().map(|bar| bar.ended).fold(1.0, f64::max);
        let rough = last / TICKS;
        let power = 10f64.powf(rough.log10().floor());
        let steps = [1.0, 2.0, 5.0, 10.0].map(|factor| factor * power);
        let step = steps.into_iter().find(|step| *step >= rough);
        let step = step.unwrap_or(10.0 * power);
        Self {
            chart,
            columns: chart.columns.max(1),
            most: chart
                .panels
                .iter()
                .map(|panel| panel.bars.len())
                .max()
                .unwrap_or(0),
            end: (last / step).ceil() * step,
            step,
        }
    }

    fn panel_height(&self) -> f64 {
        self.most as f64 * NEXT + 6.0
    }

    fn origin(&self, panel: usize) -> (f64, f64) {
        let (column, row) = (panel % self.columns, panel / self.columns);
        let height = TITLE_HEIGHT + self.panel_height() + FOOT_HEIGHT;
        (
            MARGIN + NAMES_WIDTH + column as f64 * (NAMES_WIDTH + PANEL_WIDTH + GAP),
            HEAD_HEIGHT + TITLE_HEIGHT + row as f64 * height,
        )
    }

    fn size(&self) -> (f64, f64) {
        let rows = self.chart.panels.len().div_ceil(self.columns).max(1);
        // The legend wants the room of three panels.
        let columns = self.columns.max(3) as f64;
        let right = MARGIN + columns * (NAMES_WIDTH + PANEL_WIDTH + GAP);
        (
            right,
            self.origin(rows * self.columns).1 - TITLE_HEIGHT + 8.0,
        )
    }

    fn draw(&self, canvas: &Canvas<'_>, caption: &Caption) -> Drawn {
        head(canvas, caption, MARGIN)?;
        legend(canvas)?;
        for (index, panel) in self.chart.panels.iter().enumerate() {
            self.panel(canvas, panel, self.origin(index))?;
        }
        Ok(())
    }

    fn panel(&self, canvas: &Canvas<'_>, panel: &BarPanel, origin: (f64, f64)) -> Drawn {
        let (left, top) = origin;
        let bottom = top + self.panel_height();
        let bold = Lettering {
            bold: true,
            ..Lettering::left(14)
        };
        write(canvas, &panel.title, (left, top - 32.0), &bold)?;
        write(
            canvas,
            &panel.subtitle,
            (left, top - 13.0),
            &Lettering::left(12),
        )?;
        let x = |us: f64| left + us / self.end * PANEL_WIDTH;
        let ticks = (self.end / self.step).round() as u32;
        for tick in 0..=ticks {
            let us = f64::from(tick) * self.step;
            line(canvas, (x(us), top), (x(us), bottom), FAINT_GRID)?;
            let text = format!("{us:.2}");
            let text = text.trim_end_matches('0').trim_end_matches('.');
            write(
                canvas,
                text,
                (x(us), bottom + 14.0),
                &Lettering::centred(11),
            )?;
        }
        let name = "time since the first request (µs)";
        let below = (left + PANEL_WIDTH / 2.0, bottom + 32.0);
        write(canvas, name, below, &Lettering::centred(12))?;
        frame(canvas, origin, (PANEL_WIDTH, self.panel_height()))?;
        for (number, bar) in panel.bars.iter().enumerate() {
            let y = top + 4.0 + number as f64 * NEXT;
            let beside = Lettering {
                anchor: Pos::new(HPos::Right, VPos::Center),
                ..Lettering::left(9)
            };
            let letter = if bar.is_local { "L" } else { "R" };
            write(canvas, letter, (left - 6.0, y + BAR / 2.0), &beside)?;
            draw_bar(
                canvas,
                bar.is_local,
                y,
                [bar.asked, bar.granted, bar.ended].map(x),
            )?;
        }
        Ok(())
    }
}

/// Waiting pale with an edge, holding full; at least a pixel of it.
fn draw_bar(
    canvas: &Canvas<'_>,
    is_local: bool,
    y: f64,
    [asked, granted, ended]: [f64; 3],
) -> Drawn {
    let colour = if is_local { LOCAL } else { REMOTE };
    let area = |from: f64, to: f64| [pixel((from, y)), pixel((to, y + BAR))];
    canvas.draw(&Rectangle::new(
        area(asked, granted),
        colour.mix(0.25).filled(),
    ))?;
    canvas.draw(&Rectangle::new(
        area(asked, granted),
        colour.mix(0.6).stroke_width(1),
    ))?;
    canvas.draw(&Rectangle::new(
        area(granted, ended.max(granted + 1.5)),
        colour.filled(),
    ))
}

fn legend(canvas: &Canvas<'_>) -> Drawn {
    let mut x = MARGIN;
    for (is_local, name) in [(true, "L: local request"), (false, "R: remote request")] {
        draw_bar(canvas, is_local, 78.0, [x, x + 28.0, x + 40.0])?;
        write(canvas, name, (x + 48.0, 82.0), &Lettering::left(13))?;
        x += 200.0;
    }
    let text = "pale while it waits, full while it holds the lock; from above to below in the order of service";
    write(canvas, text, (x, 82.0), &Lettering::left(12))
}
