//! How the locks are told apart: by colour, dashes and marker, each enough on its own.

use plotters::prelude::*;

use super::canvas::{Canvas, Drawn};

/// The eight colours of Okabe and Ito, which people with any colour vision can tell apart; the
/// yellow, too pale on white, comes last.
const COLOURS: [RGBColor; 8] = [
    RGBColor(0xd5, 0x5e, 0x00),
    RGBColor(0x00, 0x72, 0xb2),
    RGBColor(0x00, 0x9e, 0x73),
    RGBColor(0xcc, 0x79, 0xa7),
    RGBColor(0x00, 0x00, 0x00),
    RGBColor(0x56, 0xb4, 0xe9),
    RGBColor(0xe6, 0x9f, 0x00),
    RGBColor(0xb8, 0xa9, 0x10),
];

/// Lengths of dash and gap in pixels; an empty one is a solid line.
const DASHES: [&[f64]; 4] = [&[], &[9.0, 5.0], &[2.5, 4.0], &[12.0, 4.0, 2.5, 4.0]];

const MARKERS: [Marker; 5] = [
    Marker::Circle,
    Marker::Square,
    Marker::Triangle,
    Marker::Diamond,
    Marker::Cross,
];

#[derive(Clone, Copy)]
enum Marker {
    Circle,
    Square,
    Triangle,
    Diamond,
    Cross,
}

/// The look of one lock's line.
#[derive(Clone, Copy)]
pub(super) struct Style {
    colour: RGBColor,
    dashes: &'static [f64],
    marker: Marker,
}

impl Style {
    /// The look of the lock at `index` in the legend.
    pub(super) fn of(index: usize) -> Self {
        Self {
            colour: COLOURS[index % COLOURS.len()],
            dashes: DASHES[index % DASHES.len()],
            marker: MARKERS[index % MARKERS.len()],
        }
    }

    /// Draws a line through `points` with a marker at each.
    pub(super) fn draw(&self, canvas: &Canvas<'_>, points: &[(f64, f64)]) -> Drawn {
        for pair in points.windows(2) {
            self.segment(canvas, pair[0], pair[1])?;
        }
        points
            .iter()
            .try_for_each(|point| self.mark(canvas, *point))
    }

    fn segment(&self, canvas: &Canvas<'_>, from: (f64, f64), to: (f64, f64)) -> Drawn {
        let stroke = self.colour.stroke_width(2);
        let length = (to.0 - from.0).hypot(to.1 - from.1);
        let at = |along: f64| {
            let share = if length > 0.0 { along / length } else { 0.0 };
            pixel((
                from.0 + (to.0 - from.0) * share,
                from.1 + (to.1 - from.1) * share,
            ))
        };
        if self.dashes.is_empty() {
            return canvas.draw(&PathElement::new(vec![at(0.0), at(length)], stroke));
        }
        let (mut along, mut index) = (0.0, 0);
        while along < length {
            let end = (along + self.dashes[index % self.dashes.len()]).min(length);
            if index % 2 == 0 {
                canvas.draw(&PathElement::new(vec![at(along), at(end)], stroke))?;
            }
            along = end;
            index += 1;
        }
        Ok(())
    }

    fn mark(&self, canvas: &Canvas<'_>, at: (f64, f64)) -> Drawn {
        let (x, y) = pixel(at);
        let fill = self.colour.filled();
        match self.marker {
            Marker::Circle => canvas.draw(&Circle::new((x, y), 5, fill)),
            Marker::Square => canvas.draw(&Rectangle::new([(x - 5, y - 5), (x + 5, y + 5)], fill)),
            Marker::Triangle => canvas.draw(&Polygon::new(
                vec![(x, y - 6), (x + 6, y + 5), (x - 6, y + 5)],
                fill,
            )),
            Marker::Diamond => canvas.draw(&Polygon::new(
                vec![(x, y - 7), (x + 6, y), (x, y + 7), (x - 6, y)],
                fill,
            )),
            Marker::Cross => canvas.draw(&Cross::new((x, y), 5, self.colour.stroke_width(3))),
        }
    }
}

pub(super) fn pixel(at: (f64, f64)) -> (i32, i32) {
    (at.0.round() as i32, at.1.round() as i32)
}
