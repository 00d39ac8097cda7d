//! Tail latency as an SVG figure: a panel for each class and distribution or number of locks, a line for each lock.

mod axis;
pub mod bars;
mod canvas;
pub mod heat;
pub mod lines;
pub mod sensitivity;
mod style;
pub(crate) mod timeline;

use plotters::style::text_anchor::{HPos, Pos, VPos};

use axis::{LogAxis, tick_text};
pub use canvas::Caption;
use canvas::{
    Canvas, Drawn, FAINT_GRID, GRID, LETTER, Legend, Lettering, document, frame, head, line, write,
};
use style::Style;

use crate::error::Result;
use crate::latency::Percentile;
use crate::report::{Class, RunRow};
use crate::table::millions_text;

const MARGIN: f64 = 24.0;
/// Left of a panel: tick labels and the axis' name.
const AXIS_WIDTH: f64 = 74.0;
const PANEL_WIDTH: f64 = 420.0;
const PANEL_HEIGHT: f64 = 250.0;
/// Above a panel: its title.
const TITLE_HEIGHT: f64 = 34.0;
/// Below a panel: tick labels and the axis' name.
const FOOT_HEIGHT: f64 = 56.0;
/// Above the panels with one line of legend.
const HEAD_HEIGHT: f64 = 96.0;
const TABLE_LINE: f64 = 22.0;
/// Of the table's first column.
const TABLE_NAMES: f64 = 190.0;
const TABLE_COLUMN: f64 = 130.0;
/// Between the markers of two locks at one percentile, unless there are too many locks for it.
const ASIDE: f64 = 9.0;

/// Draws `rows` (the runs of one data path) as an SVG document.
///
/// # Errors
/// [`crate::Failure::Work`] when drawing fails, which it does not: it goes to memory.
pub fn tail_latency_svg(rows: &[RunRow], caption: &Caption) -> Result<String> {
    let figure = Figure::of(rows);
    document(figure.size(), |canvas| figure.draw(canvas, caption))
}

struct Figure<'a> {
    rows: &'a [RunRow],
    locks: Vec<&'a str>,
    /// Distributions, or numbers of locks.
    settings: Vec<String>,
    classes: Vec<Class>,
    /// One for all panels, so that they can be compared.
    axis: Option<LogAxis>,
}

impl<'a> Figure<'a> {
    fn of(rows: &'a [RunRow]) -> Self {
        let mut locks = Vec::new();
        let mut settings = Vec::new();
        for row in rows {
            if !locks.contains(&row.lock.as_str()) {
                locks.push(row.lock.as_str());
            }
            let setting = row.panel();
            if !settings.contains(&setting) {
                settings.push(setting);
            }
        }
        let classes = [Class::Local, Class::Remote]
            .into_iter()
            .filter(|class| rows.iter().any(|row| row.class == *class))
            .collect();
        let values = rows
            .iter()
            .filter(|row| row.class != Class::All)
            .flat_map(|row| row.latency_ns.percentiles())
            .flatten();
        Self {
            rows,
            locks,
            settings,
            classes,
            axis: LogAxis::over(values),
        }
    }

    fn row(&self, lock: &str, setting: &str, class: Class) -> Option<&RunRow> {
        self.rows
            .iter()
            .find(|row| row.lock == lock && row.panel() == setting && row.class == class)
    }

    fn panel_origin(&self, column: usize, line: usize) -> (f64, f64) {
        let head = HEAD_HEIGHT + self.legend().more_height();
        (
            MARGIN + AXIS_WIDTH + column as f64 * (PANEL_WIDTH + AXIS_WIDTH),
            head + TITLE_HEIGHT + line as f64 * (TITLE_HEIGHT + PANEL_HEIGHT + FOOT_HEIGHT),
        )
    }

    /// Right end of what is drawn. Two columns of panels at least: the title and the legend want
    /// the room also above a single panel.
    fn right(&self) -> f64 {
        let columns = self.classes.len().max(2) as f64;
        let panels = MARGIN + columns * (AXIS_WIDTH + PANEL_WIDTH);
        panels.max(MARGIN + TABLE_NAMES + self.locks.len() as f64 * self.table_column())
    }

    /// Wide enough for the longest name.
    fn table_column(&self) -> f64 {
        let longest = self.locks.iter().map(|lock| lock.chars().count()).max();
        TABLE_COLUMN.max(LETTER * longest.unwrap_or(0) as f64 + 24.0)
    }

    fn legend(&self) -> Legend {
        Legend::new(&self.locks, MARGIN, self.right())
    }

    fn table_top(&self) -> f64 {
        self.panel_origin(0, self.settings.len()).1 - TITLE_HEIGHT + 14.0
    }

    fn size(&self) -> (f64, f64) {
        let width = self.right() + MARGIN;
        let height =
            self.table_top() + (self.settings.len() as f64 + 2.0) * TABLE_LINE + MARGIN + 8.0;
        (width, height)
    }

    fn draw(&self, canvas: &Canvas<'_>, caption: &Caption) -> Drawn {
        head(canvas, caption, MARGIN)?;
        self.legend().draw(canvas, &self.locks, 82.0)?;
        for (line, setting) in self.settings.iter().enumerate() {
            for (column, class) in self.classes.iter().enumerate() {
                self.panel(canvas, setting, *class, self.panel_origin(column, line))?;
            }
        }
        self.throughput(canvas)
    }

    fn panel(&self, canvas: &Canvas<'_>, setting: &str, class: Class, origin: (f64, f64)) -> Drawn {
        let (left, top) = origin;
        let (right, bottom) = (left + PANEL_WIDTH, top + PANEL_HEIGHT);
        let title = format!("{setting}, {class} clients");
        write(
            canvas,
            &title,
            (left, top - 14.0),
            &Lettering {
                bold: true,
                ..Lettering::left(14)
            },
        )?;
        let column = PANEL_WIDTH / Percentile::ALL.len() as f64;
        let x = |index: usize| left + column * (index as f64 + 0.5);
        for (index, percentile) in Percentile::ALL.iter().enumerate() {
            line(canvas, (x(index), top), (x(index), bottom), FAINT_GRID)?;
            write(
                canvas,
                percentile.name,
                (x(index), bottom + 15.0),
                &Lettering::centred(12),
            )?;
        }
        write(
            canvas,
            "percentile",
            ((left + right) / 2.0, bottom + 36.0),
            &Lettering::centred(12),
        )?;
        let name = Lettering {
            turned: true,
            ..Lettering::centred(12)
        };
        write(
            canvas,
            "latency (µs, log scale)",
            (left - 58.0, (top + bottom) / 2.0),
            &name,
        )?;
        let has_values = |row: &RunRow| row.latency_ns.percentiles().iter().any(Option::is_some);
        let is_empty = !self
            .locks
            .iter()
            .any(|lock| self.row(lock, setting, class).is_some_and(has_values));
        if is_empty {
            write(
                canvas,
                "too few samples",
                ((left + right) / 2.0, (top + bottom) / 2.0),
                &Lettering::centred(14),
            )?;
        }
        let Some(axis) = &self.axis else {
            return frame(canvas, origin, (PANEL_WIDTH, PANEL_HEIGHT));
        };
        let y = |value: f64| bottom - axis.share(value) * PANEL_HEIGHT;
        for (tick, labelled) in &axis.ticks {
            line(
                canvas,
                (left, y(*tick)),
                (right, y(*tick)),
                if *labelled { GRID } else { FAINT_GRID },
            )?;
            if *labelled {
                let label = Lettering {
                    anchor: Pos::new(HPos::Right, VPos::Center),
                    ..Lettering::left(12)
                };
                write(canvas, &tick_text(*tick), (left - 8.0, y(*tick)), &label)?;
            }
        }
        frame(canvas, origin, (PANEL_WIDTH, PANEL_HEIGHT))?;
        // Side by side, so that equal values do not hide each other, and within the percentile's
        // column.
        let step = ASIDE.min((column - 2.0 * ASIDE) / self.locks.len() as f64);
        for (index, lock) in self.locks.iter().enumerate() {
            let Some(row) = self.row(lock, setting, class) else {
                continue;
            };
            let aside = (index as f64 - (self.locks.len() as f64 - 1.0) / 2.0) * step;
            let points: Vec<_> = row
                .latency_ns
                .percentiles()
                .into_iter()
                .enumerate()
                .filter_map(|(at, value)| Some((x(at) + aside, y(value? as f64))))
                .collect();
            Style::of(index).draw(canvas, &points)?;
        }
        Ok(())
    }

    /// A line for each setting, a column for each lock, and the figure's footnote.
    fn throughput(&self, canvas: &Canvas<'_>) -> Drawn {
        let mut y = self.table_top() + TABLE_LINE / 2.0;
        let bold = Lettering {
            bold: true,
            ..Lettering::left(13)
        };
        write(canvas, "all clients, M operations/s", (MARGIN, y), &bold)?;
        let x =
            |index: usize| MARGIN + TABLE_NAMES + (index as f64 + 1.0) * self.table_column() - 20.0;
        let right = Lettering {
            anchor: Pos::new(HPos::Right, VPos::Center),
            ..Lettering::left(13)
        };
        for (index, lock) in self.locks.iter().enumerate() {
            write(
                canvas,
                lock,
                (x(index), y),
                &Lettering {
                    bold: true,
                    ..right
                },
            )?;
        }
        for setting in &self.settings {
            y += TABLE_LINE;
            write(canvas, setting, (MARGIN, y), &Lettering::left(13))?;
            for (index, lock) in self.locks.iter().enumerate() {
                let row = self.row(lock, setting, Class::All);
                let value =
                    row.map_or_else(|| "–".to_owned(), |row| millions_text(row.throughput_ops_s));
                write(canvas, &value, (x(index), y), &right)?;
            }
        }
        let note = "A percentile with fewer than ten operations beyond it has no point.";
        write(
            canvas,
            note,
            (MARGIN, y + TABLE_LINE + 4.0),
            &Lettering::left(11),
        )
    }
}

#[cfg(test)]
mod tests;
