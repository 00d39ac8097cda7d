//! What all drawings are made of: an SVG document, texts, lines, a legend.

use plotters::coord::Shift;
use plotters::prelude::*;
use plotters::style::text_anchor::{HPos, Pos, VPos};

use super::style::{Style, pixel};
use crate::error::{Failure, Result};

pub(super) const GRID: RGBColor = RGBColor(0xdd, 0xdd, 0xdd);
pub(super) const FAINT_GRID: RGBColor = RGBColor(0xf0, 0xf0, 0xf0);
pub(super) const TEXT: RGBColor = RGBColor(0x22, 0x22, 0x22);
/// A sample of a line with its markers in a legend, and the room beside it.
const LEGEND_SAMPLE: f64 = 56.0;
pub(super) const LEGEND_LINE: f64 = 22.0;
/// A letter of a name in a legend, generously: fonts differ.
pub(super) const LETTER: f64 = 9.0;

pub(super) type Canvas<'a> = DrawingArea<SVGBackend<'a>, Shift>;
pub(super) type Drawn = std::result::Result<(), DrawingAreaErrorKind<std::io::Error>>;

/// What a figure is told beside the results. `title` and `subtitle` are one line each.
#[derive(Clone, Debug)]
pub struct Caption {
    /// What is shown.
    pub title: String,
    /// Under which conditions.
    pub subtitle: String,
}

/// An SVG document of `size` pixels, as `draw` draws it.
///
/// # Errors
/// [`Failure::Work`] when drawing fails, which it does not: it goes to memory.
pub(super) fn document(
    size: (f64, f64),
    draw: impl FnOnce(&Canvas<'_>) -> Drawn,
) -> Result<String> {
    let mut text = String::new();
    let size = (size.0.ceil() as u32, size.1.ceil() as u32);
    let canvas = SVGBackend::with_string(&mut text, size).into_drawing_area();
    canvas
        .fill(&WHITE)
        .and_then(|()| draw(&canvas))
        .and_then(|()| canvas.present())
        .map_err(|error| Failure::Work(format!("cannot draw the figure: {error}")))?;
    drop(canvas);
    Ok(text)
}

/// Title and subtitle, at the left upper corner.
pub(super) fn head(canvas: &Canvas<'_>, caption: &Caption, left: f64) -> Drawn {
    let bold = Lettering {
        bold: true,
        ..Lettering::left(19)
    };
    write(canvas, &caption.title, (left, 30.0), &bold)?;
    write(
        canvas,
        &caption.subtitle,
        (left, 54.0),
        &Lettering::left(13),
    )
}

/// Where the entries of a legend stand: by line, as many a line as fit.
pub(super) struct Legend {
    /// Left end and line of each.
    places: Vec<(f64, usize)>,
    left: f64,
}

impl Legend {
    /// Of `names`, between `left` and `right`.
    pub(super) fn new(names: &[&str], left: f64, right: f64) -> Self {
        let (mut x, mut line) = (left, 0);
        let mut places = Vec::new();
        for name in names {
            let width = LEGEND_SAMPLE + LETTER * name.chars().count() as f64;
            if x > left && x + width > right {
                (x, line) = (left, line + 1);
            }
            places.push((x, line));
            x += width + 28.0;
        }
        Self { places, left }
    }

    /// How high all lines are but the first.
    pub(super) fn more_height(&self) -> f64 {
        self.places.last().map_or(0, |(_, line)| *line) as f64 * LEGEND_LINE
    }

    /// Draws it from `top` on, each name with a sample of its style.
    pub(super) fn draw(&self, canvas: &Canvas<'_>, names: &[&str], top: f64) -> Drawn {
        for (index, (name, (x, line))) in names.iter().zip(&self.places).enumerate() {
            let y = top + *line as f64 * LEGEND_LINE;
            let x = x.max(self.left);
            Style::of(index).draw(canvas, &[(x + 4.0, y), (x + 24.0, y), (x + 44.0, y)])?;
            write(canvas, name, (x + LEGEND_SAMPLE, y), &Lettering::left(14))?;
        }
        Ok(())
    }
}

/// How a text is set.
#[derive(Clone, Copy)]
pub(super) struct Lettering {
    pub(super) size: u32,
    pub(super) bold: bool,
    pub(super) turned: bool,
    pub(super) anchor: Pos,
}

impl Lettering {
    pub(super) fn left(size: u32) -> Self {
        Self {
            size,
            bold: false,
            turned: false,
            anchor: Pos::new(HPos::Left, VPos::Center),
        }
    }

    pub(super) fn centred(size: u32) -> Self {
        Self {
            anchor: Pos::new(HPos::Center, VPos::Center),
            ..Self::left(size)
        }
    }
}

pub(super) fn write(
    canvas: &Canvas<'_>,
    text: &str,
    at: (f64, f64),
    lettering: &Lettering,
) -> Drawn {
    let weight = if lettering.bold {
        FontStyle::Bold
    } else {
        FontStyle::Normal
    };
    // plotters' SVG writer divides by 1.24.
    let size = f64::from(lettering.size) * 1.24;
    let font = FontDesc::new(FontFamily::SansSerif, size, weight);
    let font = if lettering.turned {
        font.transform(FontTransform::Rotate270)
    } else {
        font
    };
    let style = TextStyle::from(font).color(&TEXT).pos(lettering.anchor);
    canvas.draw(&Text::new(text.to_owned(), pixel(at), style))
}

pub(super) fn line(
    canvas: &Canvas<'_>,
    from: (f64, f64),
    to: (f64, f64),
    colour: RGBColor,
) -> Drawn {
    canvas.draw(&PathElement::new(
        vec![pixel(from), pixel(to)],
        colour.stroke_width(1),
    ))
}

/// The edge of a panel, from its left upper corner.
pub(super) fn frame(
    canvas: &Canvas<'_>,
    (left, top): (f64, f64),
    (width, height): (f64, f64),
) -> Drawn {
    let corners = [pixel((left, top)), pixel((left + width, top + height))];
    canvas.draw(&Rectangle::new(corners, TEXT.stroke_width(1)))
}
