//! Heat maps: panels of cells with a colour scale in common, and a boundary between cells of two kinds.

use plotters::prelude::*;
use plotters::style::text_anchor::{HPos, Pos, VPos};

use super::axis::{LogAxis, tick_text};
use super::canvas::{Canvas, Caption, Drawn, GRID, Lettering, TEXT, document, frame, head, write};
use super::style::pixel;
use crate::error::Result;

const MARGIN: f64 = 24.0;
/// Left of a panel: tick labels and the axis' name.
const AXIS_WIDTH: f64 = 64.0;
const CELL: (f64, f64) = (34.0, 26.0);
/// Above a panel: its title.
const TITLE_HEIGHT: f64 = 30.0;
/// Below a panel: tick labels and the axis' name.
const FOOT_HEIGHT: f64 = 52.0;
const HEAD_HEIGHT: f64 = 124.0;
/// Of the bar that explains the colours.
const BAR: (f64, f64) = (360.0, 14.0);
const BAR_LEFT: f64 = MARGIN + 190.0;
const BAR_TOP: f64 = 76.0;
/// Of the line along a boundary.
const BOUNDARY: u32 = 4;
/// Seen on every colour of the scale.
const BOUNDARY_COLOUR: RGBColor = RGBColor(0xff, 0x3b, 0x30);

/// Colours from the least to the greatest, evenly spaced: viridis (Smith and van der Walt, matplotlib, CC0), which
/// grows lighter steadily and can be read with any colour vision.
const COLOURS: [RGBColor; 9] = [
    RGBColor(0x44, 0x01, 0x54),
    RGBColor(0x47, 0x2d, 0x7b),
    RGBColor(0x3b, 0x52, 0x8b),
    RGBColor(0x2c, 0x72, 0x8e),
    RGBColor(0x21, 0x91, 0x8c),
    RGBColor(0x28, 0xae, 0x80),
    RGBColor(0x5e, 0xc9, 0x62),
    RGBColor(0xad, 0xdc, 0x30),
    RGBColor(0xfd, 0xe7, 0x25),
];

/// Panels side by side and one above the other.
#[derive(Clone, Debug)]
pub struct HeatChart {
    /// Panels in a row.
    pub columns: usize,
    /// What colours mean, with the unit: thousands of the values.
    pub unit: String,
    /// What the boundary is between.
    pub boundary: String,
    /// The axis along, of all panels: its name, and a label for each column of cells.
    pub x: (String, Vec<String>),
    /// The axis upwards, likewise, from below.
    pub y: (String, Vec<String>),
    /// Row by row.
    pub panels: Vec<HeatPanel>,
}

/// One map.
#[derive(Clone, Debug)]
pub struct HeatPanel {
    /// Above it.
    pub title: String,
    /// Row by row from below, each from the left.
    pub cells: Vec<Vec<Cell>>,
}

/// One cell.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Cell {
    /// Its value; none is drawn grey.
    pub value: Option<u64>,
    /// Of which kind it is: between cells of two kinds is the boundary.
    pub kind: Option<bool>,
}

/// Draws `chart` as an SVG document.
///
/// # Errors
/// [`crate::Failure::Work`] when drawing fails, which it does not: it goes to memory.
pub fn heat_svg(chart: &HeatChart, caption: &Caption) -> Result<String> {
    let figure = Figure::of(chart);
    document(figure.size(), |canvas| figure.draw(canvas, caption))
}

struct Figure<'a> {
    chart: &'a HeatChart,
    columns: usize,
    panel: (f64, f64),
    axis: Option<LogAxis>,
}

impl<'a> Figure<'a> {
    fn of(chart: &'a HeatChart) -> Self {
        let cells = chart
            .panels
            .iter()
            .flat_map(|panel| panel.cells.iter().flatten());
        Self {
            chart,
            columns: chart.columns.max(1),
            panel: (
                chart.x.1.len() as f64 * CELL.0,
                chart.y.1.len() as f64 * CELL.1,
            ),
            axis: LogAxis::over(cells.filter_map(|cell| cell.value)),
        }
    }

    fn origin(&self, panel: usize) -> (f64, f64) {
        let (column, row) = (panel % self.columns, panel / self.columns);
        (
            MARGIN + AXIS_WIDTH + column as f64 * (AXIS_WIDTH + self.panel.0),
            HEAD_HEIGHT + TITLE_HEIGHT + row as f64 * (TITLE_HEIGHT + self.panel.1 + FOOT_HEIGHT),
        )
    }

    fn size(&self) -> (f64, f64) {
        let rows = self.chart.panels.len().div_ceil(self.columns).max(1);
        let panels = self.columns as f64 * (AXIS_WIDTH + self.panel.0);
        let right = MARGIN + panels + MARGIN;
        // The legend's bar, its labels and what it says of the boundary.
        let legend = BAR_LEFT + BAR.0 + 620.0;
        (
            right.max(legend),
            self.origin(rows * self.columns).1 - TITLE_HEIGHT + 8.0,
        )
    }

    fn draw(&self, canvas: &Canvas<'_>, caption: &Caption) -> Drawn {
        head(canvas, caption, MARGIN)?;
        self.legend(canvas)?;
        for (index, panel) in self.chart.panels.iter().enumerate() {
            self.panel(canvas, panel, self.origin(index))?;
        }
        Ok(())
    }

    fn legend(&self, canvas: &Canvas<'_>) -> Drawn {
        let middle = BAR_TOP + BAR.1 / 2.0;
        write(
            canvas,
            &self.chart.unit,
            (MARGIN, middle),
            &Lettering::left(13),
        )?;
        let steps = 90;
        for step in 0..steps {
            let at = |step: u32| BAR_LEFT + f64::from(step) / f64::from(steps) * BAR.0;
            let share = (f64::from(step) + 0.5) / f64::from(steps);
            let corners = [
                pixel((at(step), BAR_TOP)),
                pixel((at(step + 1), BAR_TOP + BAR.1)),
            ];
            canvas.draw(&Rectangle::new(corners, colour(share).filled()))?;
        }
        for (tick, labelled) in self.axis.iter().flat_map(|axis| &axis.ticks) {
            let Some(axis) = self.axis.as_ref().filter(|_| *labelled) else {
                continue;
            };
            let at = (BAR_LEFT + axis.share(*tick) * BAR.0, BAR_TOP + BAR.1 + 12.0);
            write(canvas, &tick_text(*tick), at, &Lettering::centred(11))?;
        }
        let x = BAR_LEFT + BAR.0 + 30.0;
        let stroke = BOUNDARY_COLOUR.stroke_width(BOUNDARY);
        let sample = vec![pixel((x, middle)), pixel((x + 34.0, middle))];
        canvas.draw(&PathElement::new(sample, stroke))?;
        write(
            canvas,
            &self.chart.boundary,
            (x + 44.0, middle),
            &Lettering::left(12),
        )
    }

    fn panel(&self, canvas: &Canvas<'_>, panel: &HeatPanel, origin: (f64, f64)) -> Drawn {
        let (left, top) = origin;
        let bottom = top + self.panel.1;
        let bold = Lettering {
            bold: true,
            ..Lettering::left(13)
        };
        write(canvas, &panel.title, (left, top - 12.0), &bold)?;
        let corner = |column: usize, row: usize| {
            (left + column as f64 * CELL.0, bottom - row as f64 * CELL.1)
        };
        for (row, cells) in panel.cells.iter().enumerate() {
            for (column, cell) in cells.iter().enumerate() {
                let corners = [
                    pixel(corner(column, row)),
                    pixel(corner(column + 1, row + 1)),
                ];
                self.cell(canvas, cell, corners)?;
            }
        }
        frame(canvas, origin, self.panel)?;
        for (from, to) in boundary(&panel.cells) {
            let path = vec![pixel(corner(from.0, from.1)), pixel(corner(to.0, to.1))];
            canvas.draw(&PathElement::new(
                path,
                BOUNDARY_COLOUR.stroke_width(BOUNDARY),
            ))?;
        }
        for (column, label) in self.chart.x.1.iter().enumerate() {
            let at = (left + (column as f64 + 0.5) * CELL.0, bottom + 13.0);
            write(canvas, label, at, &Lettering::centred(11))?;
        }
        for (row, label) in self.chart.y.1.iter().enumerate() {
            let at = (left - 7.0, bottom - (row as f64 + 0.5) * CELL.1);
            let beside = Lettering {
                anchor: Pos::new(HPos::Right, VPos::Center),
                ..Lettering::left(11)
            };
            write(canvas, label, at, &beside)?;
        }
        let below = (left + self.panel.0 / 2.0, bottom + 32.0);
        write(canvas, &self.chart.x.0, below, &Lettering::centred(12))?;
        let turned = Lettering {
            turned: true,
            ..Lettering::centred(12)
        };
        let beside = (left - 48.0, (top + bottom) / 2.0);
        write(canvas, &self.chart.y.0, beside, &turned)
    }

    fn cell(&self, canvas: &Canvas<'_>, cell: &Cell, corners: [(i32, i32); 2]) -> Drawn {
        let [(left, bottom), (right, top)] = corners;
        let centre = (f64::from(left + right) / 2.0, f64::from(top + bottom) / 2.0);
        let (Some(value), Some(axis)) = (cell.value, &self.axis) else {
            canvas.draw(&Rectangle::new(corners, GRID.filled()))?;
            return write(canvas, "–", centre, &Lettering::centred(10));
        };
        let share = axis.share(value as f64);
        let fill = colour(share);
        canvas.draw(&Rectangle::new(corners, fill.filled()))?;
        // On dark cells white letters.
        let ink = if luminance(fill) < 0.45 { WHITE } else { TEXT };
        let font = FontDesc::new(FontFamily::SansSerif, 10.0 * 1.24, FontStyle::Normal);
        let style = TextStyle::from(font)
            .color(&ink)
            .pos(Pos::new(HPos::Center, VPos::Center));
        canvas.draw(&Text::new(value_text(value), pixel(centre), style))
    }
}

/// Thousands, with at most three letters where that can be: `0.8`, `12`, `870`, `12k`.
fn value_text(value: u64) -> String {
    let thousands = value as f64 / 1000.0;
    match thousands {
        _ if thousands < 9.95 => format!("{thousands:.1}"),
        _ if thousands < 9_999.5 => format!("{thousands:.0}"),
        _ => format!("{:.0}k", thousands / 1000.0),
    }
}

/// The colour at `share` of the way from the least to the greatest.
fn colour(share: f64) -> RGBColor {
    let along = share.clamp(0.0, 1.0) * (COLOURS.len() - 1) as f64;
    let from = (along as usize).min(COLOURS.len() - 2);
    let part = along - from as f64;
    let (low, high) = (COLOURS[from], COLOURS[from + 1]);
    let mix = |low: u8, high: u8| {
        (f64::from(low) + (f64::from(high) - f64::from(low)) * part).round() as u8
    };
    RGBColor(mix(low.0, high.0), mix(low.1, high.1), mix(low.2, high.2))
}

/// How light people see it, from 0 to 1.
fn luminance(RGBColor(red, green, blue): RGBColor) -> f64 {
    (0.299 * f64::from(red) + 0.587 * f64::from(green) + 0.114 * f64::from(blue)) / 255.0
}

/// The edges between cells of two kinds, by column and row of their corners.
fn boundary(cells: &[Vec<Cell>]) -> Vec<((usize, usize), (usize, usize))> {
    let kind = |column: usize, row: usize| cells.get(row)?.get(column)?.kind;
    let differ = |one: Option<bool>, other: Option<bool>| matches!((one, other), (Some(one), Some(other)) if one != other);
    let mut edges = Vec::new();
    for (row, of_row) in cells.iter().enumerate() {
        for column in 0..of_row.len() {
            let own = kind(column, row);
            if differ(own, kind(column + 1, row)) {
                edges.push(((column + 1, row), (column + 1, row + 1)));
            }
            if differ(own, kind(column, row + 1)) {
                edges.push(((column, row + 1), (column + 1, row + 1)));
            }
        }
    }
    edges
}

#[cfg(test)]
mod tests {
    use super::*;

    fn cells(rows: &[&str]) -> Vec<Vec<Cell>> {
        let cell = |letter| Cell {
            value: Some(1_000),
            kind: match letter {
                'y' => Some(true),
                'n' => Some(false),
                _ => None,
            },
        };
        rows.iter()
            .map(|row| row.chars().map(cell).collect())
            .collect()
    }

    #[test]
    fn the_boundary_is_between_the_kinds() {
        assert_eq!(boundary(&cells(&["yyy", "yyy"])), []);
        assert_eq!(boundary(&cells(&["yn"])), [((1, 0), (1, 1))]);
        assert_eq!(boundary(&cells(&["y", "n"])), [((0, 1), (1, 1))]);
        assert_eq!(boundary(&cells(&["y?n"])), [], "not beside what is unknown");
        assert_eq!(boundary(&cells(&["yn", "nn"])).len(), 2);
    }

    #[test]
    fn values_are_short_and_colours_have_ends() {
        for (value, text) in [
            (760, "0.8"),
            (9_960, "10"),
            (869_900, "870"),
            (1_210_000, "1210"),
            (12_400_000, "12k"),
        ] {
            assert_eq!(value_text(value), text);
        }
        assert_eq!(colour(-1.0), COLOURS[0]);
        assert_eq!(colour(0.5), COLOURS[4]);
        assert_eq!(colour(2.0), COLOURS[8]);
    }

    /// A chart of two panels with this many columns of cells.
    fn chart(columns: usize) -> HeatChart {
        let panel = |title: &str, cells: Vec<Cell>| HeatPanel {
            title: title.to_owned(),
            cells: vec![cells],
        };
        let last = format!("{columns} µs");
        let mut labels = vec!["1 µs".to_owned(); columns - 1];
        labels.push(last);
        HeatChart {
            columns: 2,
            unit: "P99.9 (µs)".to_owned(),
            boundary: "the end of protection".to_owned(),
            x: ("section".to_owned(), labels),
            y: ("round trip".to_owned(), vec!["× 0.5".to_owned()]),
            panels: vec![
                panel("one", cells(&["yn"]).remove(0)),
                panel("other", vec![Cell::default(); columns]),
            ],
        }
    }

    #[test]
    fn everything_is_written_within_the_figure_and_apart() {
        let caption = Caption {
            title: "Title & more".to_owned(),
            subtitle: "conditions".to_owned(),
        };
        for columns in [2, 5, 30] {
            let svg = heat_svg(&chart(columns), &caption).unwrap();
            let document = roxmltree::Document::parse(&svg).unwrap();
            let number = |node: &roxmltree::Node<'_, '_>, name| -> Option<f64> {
                node.attribute(name)?.parse().ok()
            };
            let root = document.root_element();
            let (width, height) = (
                number(&root, "width").unwrap(),
                number(&root, "height").unwrap(),
            );
            let mut texts = Vec::new();
            for node in document
                .descendants()
                .filter(|node| node.has_tag_name("text"))
            {
                let (x, y) = (number(&node, "x").unwrap(), number(&node, "y").unwrap());
                assert!((1.0..width - 1.0).contains(&x) && (1.0..height).contains(&y));
                texts.push((node.text().unwrap_or_default().trim().to_owned(), x));
            }
            for text in [
                "Title & more",
                "conditions",
                "one",
                "other",
                "P99.9 (µs)",
                "the end of protection",
                "section",
                "round trip",
                "× 0.5",
                "1.0",
                "–",
            ] {
                let is_there = texts.iter().any(|(found, _)| found == text);
                assert!(is_there, "{text} in {texts:?}");
            }
            // The last columns of both panels, with a panel between them.
            let last = format!("{columns} µs");
            let at: Vec<f64> = texts
                .iter()
                .filter(|(text, _)| *text == last)
                .map(|(_, x)| *x)
                .collect();
            assert_eq!(at.len(), 2);
            assert!(at[1] - at[0] > CELL.0 * columns as f64, "{at:?}");
        }
    }
}
