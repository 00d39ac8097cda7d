//! The sensitivity study as an SVG figure: a panel for each claim, a line for each setting.

use plotters::prelude::*;
use plotters::style::text_anchor::{HPos, Pos, VPos};

use super::axis::{LogAxis, tick_text};
use super::canvas::{Canvas, Caption, Drawn, FAINT_GRID, GRID, Lettering, TEXT, line, write};
use super::style::pixel;
use crate::claims::{Claim, Range, Verdict, published_range};
use crate::error::{Failure, Result};
use crate::sensitivity::{Study, StudyRow};

const MARGIN: f64 = 24.0;
/// Of a setting.
const ROW: f64 = 19.0;
/// Above a parameter's first setting.
const GROUP_GAP: f64 = 6.0;
/// Of the parameters' names.
const PARAMETERS: f64 = 216.0;
/// Of their values.
const VALUES: f64 = 190.0;
const PANEL: f64 = 220.0;
const BETWEEN_PANELS: f64 = 34.0;
/// Title, conditions, legend, and the panels' titles.
const HEAD: f64 = 162.0;
/// The axes.
const FOOT: f64 = 74.0;
/// Of a marker, from its middle.
const MARK: i32 = 5;
const BAND: RGBColor = RGBColor(0xf3, 0xe3, 0xb3);
const STRIPE: RGBColor = RGBColor(0xf6, 0xf6, 0xf6);
const BAR: RGBColor = RGBColor(0x55, 0x55, 0x55);
/// Ratios as the axis takes them: whole numbers, of which a thousand are one.
const ONE: f64 = 1000.0;

/// Draws `study` as an SVG document.
///
/// # Errors
/// [`Failure::Work`] when drawing fails, which it does not: it goes to memory.
pub fn sensitivity_svg(study: &Study, caption: &Caption) -> Result<String> {
    let figure = Figure::of(study);
    let mut text = String::new();
    let size = (figure.width() as u32, figure.height() as u32);
    figure
        .draw(
            &SVGBackend::with_string(&mut text, size).into_drawing_area(),
            caption,
        )
        .map_err(|error| Failure::Work(format!("cannot draw the figure: {error}")))?;
    Ok(text)
}

struct Figure<'a> {
    study: &'a Study,
    /// Those of the base.
    claims: &'a [Claim],
    /// The middle of each setting's line.
    rows: Vec<f64>,
    bottom: f64,
}

impl<'a> Figure<'a> {
    fn of(study: &'a Study) -> Self {
        let mut y = HEAD;
        let mut rows = Vec::new();
        let mut before = None;
        for row in &study.rows {
            if before != Some(row.setting.parameter) {
                y += GROUP_GAP;
                before = Some(row.setting.parameter);
            }
            rows.push(y + ROW / 2.0);
            y += ROW;
        }
        Self {
            study,
            claims: study.base().map_or(&[], |base| &base.claims),
            rows,
            bottom: y + GROUP_GAP,
        }
    }

    fn panel_left(&self, index: usize) -> f64 {
        MARGIN + PARAMETERS + VALUES + index as f64 * (PANEL + BETWEEN_PANELS)
    }

    fn right(&self) -> f64 {
        self.panel_left(self.claims.len().max(2)) - BETWEEN_PANELS
    }

    fn width(&self) -> f64 {
        self.right() + MARGIN
    }

    fn height(&self) -> f64 {
        self.bottom + FOOT
    }

    fn draw(&self, canvas: &Canvas<'_>, caption: &Caption) -> Drawn {
        canvas.fill(&WHITE)?;
        let title = Lettering {
            bold: true,
            ..Lettering::left(19)
        };
        write(canvas, &caption.title, (MARGIN, 28.0), &title)?;
        let base = format!("The base: {}", caption.subtitle);
        write(canvas, &base, (MARGIN, 51.0), &Lettering::left(13))?;
        legend(canvas)?;
        self.stripes(canvas)?;
        self.labels(canvas)?;
        for (index, claim) in self.claims.iter().enumerate() {
            self.panel(canvas, claim, self.panel_left(index))?;
        }
        canvas.present()
    }

    /// Behind every other parameter, so that the eye finds its line in the last panel.
    fn stripes(&self, canvas: &Canvas<'_>) -> Drawn {
        let mut group = 0;
        for (index, row) in self.study.rows.iter().enumerate() {
            let first =
                index == 0 || self.study.rows[index - 1].setting.parameter != row.setting.parameter;
            group += usize::from(first);
            if group % 2 == 0 {
                let above = if first { GROUP_GAP / 2.0 } else { 0.0 };
                let y = self.rows[index];
                let corners = [
                    pixel((MARGIN, y - ROW / 2.0 - above)),
                    pixel((self.right(), y + ROW / 2.0 + GROUP_GAP / 2.0)),
                ];
                canvas.draw(&Rectangle::new(corners, STRIPE.filled()))?;
            }
        }
        Ok(())
    }

    fn labels(&self, canvas: &Canvas<'_>) -> Drawn {
        let bold = Lettering {
            bold: true,
            ..Lettering::left(13)
        };
        let mut before = None;
        for (row, y) in self.study.rows.iter().zip(&self.rows) {
            let setting = &row.setting;
            if before != Some(setting.parameter) {
                write(canvas, setting.parameter, (MARGIN, *y), &bold)?;
                before = Some(setting.parameter);
            }
            let at = (MARGIN + PARAMETERS, *y);
            write(canvas, &setting.value, at, &Lettering::left(13))?;
        }
        Ok(())
    }

    /// The ratios that `row` found for `claim`, and their verdict.
    fn found(row: &'a StudyRow, claim: &Claim) -> Option<(Range, Verdict)> {
        let found = row.claims.iter().find(|other| other.id == claim.id)?;
        Some((found.measured?, found.verdict?))
    }

    fn panel(&self, canvas: &Canvas<'_>, claim: &Claim, left: f64) -> Drawn {
        let (top, bottom) = (HEAD, self.bottom);
        let right = left + PANEL;
        let bold = Lettering {
            bold: true,
            ..Lettering::left(13)
        };
        write(canvas, claim.id, (left, top - 40.0), &bold)?;
        let small = Lettering::left(12);
        let published = claim.published;
        write(canvas, published, (left, top - 22.0), &small)?;

        let published = published_range(claim.id);
        let measured = self.study.rows.iter().filter_map(|row| {
            let (range, _) = Self::found(row, claim)?;
            Some(range)
        });
        let ends = measured
            .chain(published)
            .chain([Range { min: 1.0, max: 1.0 }])
            .flat_map(|range| [range.min, range.max])
            .map(|ratio| (ratio * ONE) as u64);
        let Some(axis) = LogAxis::over(ends) else {
            return Ok(());
        };
        let x = |ratio: f64| left + axis.share(ratio * ONE) * PANEL;
        if let Some(range) = published {
            let corners = [pixel((x(range.min), top)), pixel((x(range.max), bottom))];
            canvas.draw(&Rectangle::new(corners, BAND.filled()))?;
        }
        let all = axis.ticks.len() <= 8;
        for (tick, _) in &axis.ticks {
            let at = left + axis.share(*tick) * PANEL;
            let label = tick_text(*tick);
            let labelled = all || label.trim_matches(['0', '.']) == "1";
            let colour = if labelled { GRID } else { FAINT_GRID };
            line(canvas, (at, top), (at, bottom), colour)?;
            if labelled {
                let at = (at, bottom + 14.0);
                write(canvas, &label, at, &Lettering::centred(12))?;
            }
        }
        line(canvas, (x(1.0), top), (x(1.0), bottom), TEXT)?;
        let corners = [pixel((left, top)), pixel((right, bottom))];
        canvas.draw(&Rectangle::new(corners, TEXT.stroke_width(1)))?;
        let (what, lesser, greater) = if claim.id == "f12-throughput" {
            (
                "FARLock's throughput / Sherman's",
                "← FARLock slower",
                "FARLock faster →",
            )
        } else {
            (
                "Sherman's latency / FARLock's",
                "← FARLock slower",
                "FARLock faster →",
            )
        };
        let middle = (left + right) / 2.0;
        let centred = Lettering::centred(12);
        write(canvas, what, (middle, bottom + 34.0), &centred)?;
        write(canvas, lesser, (left, bottom + 53.0), &Lettering::left(11))?;
        let end = Lettering {
            anchor: Pos::new(HPos::Right, VPos::Center),
            ..Lettering::left(11)
        };
        write(canvas, greater, (right, bottom + 53.0), &end)?;
        for (row, y) in self.study.rows.iter().zip(&self.rows) {
            match Self::found(row, claim) {
                Some((range, verdict)) => {
                    bar(canvas, x(range.min), x(range.max), *y)?;
                    let at = x((range.min * range.max).sqrt());
                    mark(canvas, verdict, (at, *y))?;
                }
                None => write(
                    canvas,
                    "too few samples",
                    (middle, *y),
                    &Lettering::centred(11),
                )?,
            }
        }
        Ok(())
    }
}

/// From the least to the greatest ratio, with end marks.
fn bar(canvas: &Canvas<'_>, from: f64, to: f64, y: f64) -> Drawn {
    let stroke = BAR.stroke_width(2);
    let between = vec![pixel((from, y)), pixel((to, y))];
    canvas.draw(&PathElement::new(between, stroke))?;
    for end in [from, to] {
        let across = vec![pixel((end, y - 4.0)), pixel((end, y + 4.0))];
        canvas.draw(&PathElement::new(across, stroke))?;
    }
    Ok(())
}

/// A verdict, by shape as well as by colour (Okabe and Ito).
fn mark(canvas: &Canvas<'_>, verdict: Verdict, at: (f64, f64)) -> Drawn {
    let (x, y) = pixel(at);
    match verdict {
        Verdict::Holds => {
            let colour = RGBColor(0x00, 0x9e, 0x73);
            canvas.draw(&Circle::new((x, y), MARK, colour.filled()))
        }
        Verdict::Direction => {
            let colour = RGBColor(0x00, 0x72, 0xb2);
            let corners = [
                (x, y - MARK - 1),
                (x + MARK + 1, y + MARK),
                (x - MARK - 1, y + MARK),
            ];
            canvas.draw(&Polygon::new(corners, WHITE.filled()))?;
            let outline = [corners[0], corners[1], corners[2], corners[0]];
            canvas.draw(&PathElement::new(outline, colour.stroke_width(2)))
        }
        Verdict::Fails => {
            let colour = RGBColor(0xd5, 0x5e, 0x00);
            canvas.draw(&Cross::new((x, y), MARK, colour.stroke_width(3)))
        }
    }
}

fn legend(canvas: &Canvas<'_>) -> Drawn {
    let y = 78.0;
    let mut x = MARGIN;
    for (verdict, words) in [
        (Verdict::Holds, "the claim holds"),
        (Verdict::Direction, "right direction, wrong size"),
        (Verdict::Fails, "the claim fails"),
    ] {
        mark(canvas, verdict, (x + 8.0, y))?;
        write(canvas, words, (x + 22.0, y), &Lettering::left(13))?;
        x += 34.0 + 8.0 * words.chars().count() as f64;
    }
    bar(canvas, x, x + 40.0, y)?;
    let words = "least to greatest ratio of P95, P99, P99.9, P99.999, or of the two throughputs";
    write(canvas, words, (x + 50.0, y), &Lettering::left(13))?;
    x += 66.0 + 7.3 * words.chars().count() as f64;
    let corners = [pixel((x, y - 8.0)), pixel((x + 26.0, y + 8.0))];
    canvas.draw(&Rectangle::new(corners, BAND.filled()))?;
    let words = "as published";
    write(canvas, words, (x + 34.0, y), &Lettering::left(13))
}
