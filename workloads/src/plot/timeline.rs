//! A timeline as an SVG figure: panels one above the other that share the axis of time.

use plotters::prelude::*;
use plotters::style::text_anchor::{HPos, Pos, VPos};

use super::canvas::{Canvas, Caption, Drawn, FAINT_GRID, GRID, Lettering, TEXT, line, write};
use super::style::pixel;
use crate::error::{Failure, Result};
use crate::timeline::{Sample, Samples};

const MARGIN: f64 = 24.0;
/// Left of the panels: tick labels.
const AXIS_WIDTH: f64 = 56.0;
const WIDTH: f64 = 900.0;
const PANEL_HEIGHT: f64 = 110.0;
/// Above a panel: what it shows.
const TITLE_HEIGHT: f64 = 34.0;
/// Above the panels.
const HEAD_HEIGHT: f64 = 72.0;
/// Below them: tick labels and the axis' name.
const FOOT_HEIGHT: f64 = 56.0;
/// Ticks of an axis are fewer than these.
const TICKS_DOWN: f64 = 6.0;
const TICKS_ALONG: f64 = 10.0;
/// Room in a panel's title for a line's name.
const NAME_WIDTH: f64 = 150.0;

/// Those of the locks' figures: they can be told apart with any colour vision.
const LOCAL: RGBColor = RGBColor(0xd5, 0x5e, 0x00);
const REMOTE: RGBColor = RGBColor(0x00, 0x72, 0xb2);

/// A line: name, colour, its value in an interval.
type Line = (&'static str, RGBColor, fn(&Sample) -> f64);

struct Panel {
    title: &'static str,
    lines: Vec<Line>,
    /// Of what is counted within an interval; the others are of its end.
    is_rate: bool,
}

/// Draws `samples` as an SVG document.
///
/// # Errors
/// [`Failure::Work`] when drawing fails, which it does not: it goes to memory.
pub(crate) fn timeline_svg(samples: &Samples, caption: &Caption) -> Result<String> {
    let panels = panels(samples.has_tickets);
    let height =
        HEAD_HEIGHT + panels.len() as f64 * (TITLE_HEIGHT + PANEL_HEIGHT) + FOOT_HEIGHT + 8.0;
    let mut text = String::new();
    let size = ((2.0 * MARGIN + AXIS_WIDTH + WIDTH) as u32, height as u32);
    let canvas = SVGBackend::with_string(&mut text, size).into_drawing_area();
    draw(&canvas, samples, caption, &panels)
        .map_err(|error| Failure::Work(format!("cannot draw the timeline: {error}")))?;
    drop(canvas);
    Ok(text)
}

fn panels(has_tickets: bool) -> Vec<Panel> {
    let panel = |title, local, remote, is_rate| Panel {
        title,
        lines: vec![("local", LOCAL, local), ("remote", REMOTE, remote)],
        is_rate,
    };
    let mut panels = vec![panel(
        "clients waiting for a lock",
        |row| row.waiting[0] as f64,
        |row| row.waiting[1] as f64,
        false,
    )];
    if has_tickets {
        panels.push(panel(
            "of them, with a ticket",
            |row| row.with_ticket[0] as f64,
            |row| row.with_ticket[1] as f64,
            false,
        ));
    }
    panels.push(Panel {
        title: "clients waiting for the lock that most wait for",
        lines: vec![("all", TEXT, |row| row.longest_queue as f64)],
        is_rate: false,
    });
    if has_tickets {
        panels.push(panel(
            "tickets taken per µs",
            |row| row.tickets[0] as f64 / row.length_us(),
            |row| row.tickets[1] as f64 / row.length_us(),
            true,
        ));
    }
    panels.push(panel(
        "grants per µs",
        |row| row.grants[0] as f64 / row.length_us(),
        |row| row.grants[1] as f64 / row.length_us(),
        true,
    ));
    panels
}

/// The axis of time: unit, its picoseconds, and the ends.
struct Time {
    unit: &'static str,
    unit_ps: f64,
    from: f64,
    to: f64,
}

impl Time {
    fn of(samples: &Samples) -> Self {
        let from = samples.rows.first().map_or(0, |row| row.from_ps) as f64;
        let to = samples.rows.last().map_or(1, |row| row.to_ps) as f64;
        let (unit, unit_ps) = match to - from {
            length if length >= 1e12 => ("s", 1e12),
            length if length >= 1e9 => ("ms", 1e9),
            _ => ("µs", 1e6),
        };
        Self {
            unit,
            unit_ps,
            from,
            to,
        }
    }

    fn x(&self, ps: f64) -> f64 {
        MARGIN + AXIS_WIDTH + (ps - self.from) / (self.to - self.from) * WIDTH
    }
}

fn draw(canvas: &Canvas<'_>, samples: &Samples, caption: &Caption, panels: &[Panel]) -> Drawn {
    canvas.fill(&WHITE)?;
    let bold = Lettering {
        bold: true,
        ..Lettering::left(18)
    };
    write(canvas, &caption.title, (MARGIN, 28.0), &bold)?;
    write(
        canvas,
        &caption.subtitle,
        (MARGIN, 52.0),
        &Lettering::left(12),
    )?;
    let time = Time::of(samples);
    let ticks = ticks(
        time.from / time.unit_ps,
        time.to / time.unit_ps,
        TICKS_ALONG,
    );
    let mut top = HEAD_HEIGHT;
    for panel in panels {
        top += TITLE_HEIGHT;
        for tick in &ticks {
            let x = time.x(tick * time.unit_ps);
            line(canvas, (x, top), (x, top + PANEL_HEIGHT), FAINT_GRID)?;
        }
        panel.draw(canvas, samples, &time, top)?;
        top += PANEL_HEIGHT;
    }
    for tick in &ticks {
        let at = (time.x(tick * time.unit_ps), top + 16.0);
        write(canvas, &number(*tick), at, &Lettering::centred(12))?;
    }
    let name = format!("time since the beginning of the run ({})", time.unit);
    let middle = MARGIN + AXIS_WIDTH + WIDTH / 2.0;
    write(canvas, &name, (middle, top + 38.0), &Lettering::centred(12))?;
    canvas.present()
}

impl Panel {
    fn draw(&self, canvas: &Canvas<'_>, samples: &Samples, time: &Time, top: f64) -> Drawn {
        let (left, right) = (MARGIN + AXIS_WIDTH, MARGIN + AXIS_WIDTH + WIDTH);
        let bottom = top + PANEL_HEIGHT;
        let title = Lettering {
            bold: true,
            ..Lettering::left(13)
        };
        write(canvas, self.title, (left, top - 13.0), &title)?;
        let values = samples
            .rows
            .iter()
            .flat_map(|row| self.lines.iter().map(|(_, _, value)| value(row)));
        let most = values.fold(0.0, f64::max);
        // Something to draw where all is 0.
        let most = if most > 0.0 { most } else { 1.0 };
        let step = step(most, TICKS_DOWN);
        let high = (most / step).ceil() * step;
        let y = |value: f64| bottom - value / high * PANEL_HEIGHT;
        for tick in ticks(0.0, high, TICKS_DOWN) {
            line(canvas, (left, y(tick)), (right, y(tick)), GRID)?;
            let label = Lettering {
                anchor: Pos::new(HPos::Right, VPos::Center),
                ..Lettering::left(12)
            };
            write(canvas, &number(tick), (left - 8.0, y(tick)), &label)?;
        }
        for (place, (name, colour, value)) in self.lines.iter().enumerate() {
            let points = samples.rows.iter().map(|row| {
                let (from, to) = (row.from_ps as f64, row.to_ps as f64);
                let at = if self.is_rate { (from + to) / 2.0 } else { to };
                pixel((time.x(at), y(value(row))))
            });
            canvas.draw(&PathElement::new(
                points.collect::<Vec<_>>(),
                colour.stroke_width(1),
            ))?;
            let x = right - (self.lines.len() - place) as f64 * NAME_WIDTH;
            let sample = [pixel((x, top - 13.0)), pixel((x + 22.0, top - 13.0))];
            canvas.draw(&PathElement::new(sample.to_vec(), colour.stroke_width(3)))?;
            let count = samples.rows.len().max(1) as f64;
            let mean = samples.rows.iter().map(value).sum::<f64>() / count;
            let name = format!("{name}, mean {}", three_digits(mean));
            write(canvas, &name, (x + 28.0, top - 13.0), &Lettering::left(12))?;
        }
        let corners = [pixel((left, top)), pixel((right, bottom))];
        canvas.draw(&Rectangle::new(corners, TEXT.stroke_width(1)))
    }
}

/// 1, 2 or 5 times a power of ten, of which `length` has fewer than `count`.
fn step(length: f64, count: f64) -> f64 {
    let power = 10f64.powf((length / count).log10().floor());
    [1.0, 2.0, 5.0]
        .map(|factor| factor * power)
        .into_iter()
        .find(|step| length / step < count)
        .unwrap_or(10.0 * power)
}

/// The multiples of a step from `from` to `to`.
fn ticks(from: f64, to: f64, count: f64) -> Vec<f64> {
    let step = step(to - from, count);
    // A multiple that rounding has put just beyond an end is there.
    let first = (from / step - 1e-9).ceil() as i64;
    let last = (to / step + 1e-9).floor() as i64;
    (first..=last)
        .map(|multiple| multiple as f64 * step)
        .collect()
}

/// Without the digits that a sum of binary fractions has too many.
fn number(value: f64) -> String {
    let text = format!("{value:.6}");
    let text = text.trim_end_matches('0').trim_end_matches('.');
    text.to_owned()
}

fn three_digits(value: f64) -> String {
    match value {
        _ if value >= 99.95 => format!("{value:.0}"),
        _ if value >= 9.995 => format!("{value:.1}"),
        _ if value >= 0.9995 => format!("{value:.2}"),
        _ => format!("{value:.3}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ticks_are_round_and_few() {
        assert_eq!(ticks(0.0, 108.0, 5.0), [0.0, 50.0, 100.0]);
        assert_eq!(
            ticks(50.0, 60.0, 10.0),
            [50.0, 52.0, 54.0, 56.0, 58.0, 60.0]
        );
        let texts: Vec<_> = ticks(0.0, 0.6, 5.0).into_iter().map(number).collect();
        assert_eq!(texts, ["0", "0.2", "0.4", "0.6"]);
        for length in [1e-6, 0.3, 1.0, 7.0, 12.0, 1e9] {
            let count = ticks(0.0, length, 5.0).len();
            assert!((2..=5).contains(&count), "{length}: {count}");
        }
    }
}
