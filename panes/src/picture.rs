//! What is on the screen, as a picture or a text to keep.

use std::fmt::{self, Display, Write};

use coalmine_sessions::Sanitized;
use ratatui::{
    buffer::{Buffer, Cell},
    style::{Color, Modifier},
};

use crate::{ThemeName, pen::text_width};

/// Size of a cell and of its font, and how far below the top of a cell text stands, in pixels.
const CELL: (f32, f32) = (8.4, 17.0);
const FONT: f32 = 14.0;
const BASELINE: f32 = 13.0;
/// Around the screen, and above it for the title.
const MARGIN: f32 = 12.0;
const TITLE: f32 = 24.0;

/// The screen as a text: rows without the spaces at their ends.
pub fn text(buffer: &Buffer) -> String {
    let mut text = String::new();
    for row in rows(buffer) {
        let start = text.len();
        row.for_each(|(_, cell)| text += symbol(cell));
        text.truncate(start + text[start..].trim_end().len());
        text.push('\n');
    }
    text
}

/// The screen as a self-contained SVG, in the colours of a dark or a light terminal.
///
/// Every run of cells with one style is stretched to the cells that it takes, so that it looks
/// the same in any monospaced font.
pub fn svg(buffer: &Buffer, theme: ThemeName, title: &str) -> String {
    let palette = Palette::new(theme);
    let (width, height) = (f32::from(buffer.area.width) * CELL.0, f32::from(buffer.area.height) * CELL.1);
    let (outer_width, outer_height) = (width + 2.0 * MARGIN, height + 2.0 * MARGIN + TITLE);
    let mut out = String::new();
    // Writing into a string cannot fail.
    let _ = write!(
        out,
        r##"<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {outer_width:.1} {outer_height:.1}" width="{outer_width:.0}" height="{outer_height:.0}" font-family="ui-monospace,'DejaVu Sans Mono',Menlo,Consolas,'Liberation Mono',monospace" font-size="{FONT}">
<title>{title}</title>
<rect width="100%" height="100%" rx="8" fill="{background}"/>
<text x="{middle:.1}" y="{title_y}" text-anchor="middle" fill="{foreground}" opacity="0.7">{title}</text>
<g transform="translate({MARGIN},{top})" shape-rendering="crispEdges">
"##,
        title = Escaped(title),
        background = Hex(palette.background),
        foreground = Hex(palette.foreground),
        middle = outer_width / 2.0,
        title_y = MARGIN + 10.0,
        top = MARGIN + TITLE,
    );
    for (number, row) in rows(buffer).enumerate() {
        let runs = runs(row, &palette);
        let top = number as f32 * CELL.1;
        for run in runs.iter().filter(|run| run.look.background != palette.background) {
            let (x, width) = (run.column as f32 * CELL.0, f32::from(run.cells) * CELL.0);
            let fill = Hex(run.look.background);
            let height = CELL.1;
            let _ =
                writeln!(out, r#"<rect x="{x:.1}" y="{top:.1}" width="{width:.1}" height="{height}" fill="{fill}"/>"#);
        }
        let mut seen = runs.iter().filter(|run| !run.text.trim().is_empty()).peekable();
        if seen.peek().is_some() {
            let _ = write!(out, r#"<text y="{:.1}" xml:space="preserve">"#, top + BASELINE);
            seen.for_each(|run| run.write(&mut out));
            out += "</text>\n";
        }
    }
    out += "</g>\n</svg>\n";
    out
}

/// The rows of a buffer: cells with their columns, less those that a wide character covers.
fn rows(buffer: &Buffer) -> impl Iterator<Item = impl Iterator<Item = (usize, &Cell)>> {
    let rows = buffer.content.chunks(usize::from(buffer.area.width).max(1));
    rows.take(buffer.area.height.into()).map(|row| {
        let mut covered = 0u16;
        row.iter().enumerate().filter(move |(_, cell)| {
            let free = covered == 0;
            covered = if free { cells_of(cell) - 1 } else { covered - 1 };
            free
        })
    })
}

fn cells_of(cell: &Cell) -> u16 {
    text_width(symbol(cell)).max(1)
}

/// What a cell shows, if it is something to be seen.
fn symbol(cell: &Cell) -> &str {
    let symbol = cell.symbol();
    if symbol.bytes().all(|byte| matches!(byte, b' '..=b'~')) && !symbol.is_empty() {
        return symbol;
    }
    // No XML may hold the last two.
    let harmful = Sanitized::new(symbol).as_str() != symbol || symbol.contains(['\u{fffe}', '\u{ffff}']);
    match text_width(symbol) {
        0 => " ",
        _ if harmful => "\u{fffd}",
        _ => symbol,
    }
}

/// How a run of cells looks.
#[derive(Clone, Copy, PartialEq)]
struct Look {
    foreground: u32,
    background: u32,
    modifier: Modifier,
}

/// Cells with one look.
struct Run {
    column: usize,
    cells: u16,
    look: Look,
    text: String,
}

/// Splits a row where its look changes, and around each character that fonts may have in another width.
fn runs<'b>(row: impl Iterator<Item = (usize, &'b Cell)>, palette: &Palette) -> Vec<Run> {
    let mut runs: Vec<Run> = Vec::new();
    for (column, cell) in row {
        let (look, symbol) = (palette.look(cell), symbol(cell));
        match runs.last_mut() {
            Some(run) if run.look == look && continues(&run.text, symbol) => {
                run.cells += cells_of(cell);
                run.text += symbol;
            }
            _ => runs.push(Run { column, cells: cells_of(cell), look, text: symbol.to_owned() }),
        }
    }
    runs
}

/// ASCII goes on with ASCII, and a repeated character with itself: their widths are stretched evenly.
fn continues(text: &str, symbol: &str) -> bool {
    let last = text.chars().next_back();
    (text.is_ascii() && symbol.is_ascii()) || symbol.chars().eq(last)
}

impl Run {
    /// Writes what can be seen of it, each piece between blanks at a place of its own: not every viewer keeps a row of
    /// blanks as wide as it is.
    fn write(&self, out: &mut String) {
        if !self.text.is_ascii() {
            return self.write_piece(self.column, self.cells, &self.text, out);
        }
        let mut column = 0;
        for piece in self.text.split("  ") {
            let seen = piece.trim_ascii();
            if !seen.is_empty() {
                // A run of ASCII has a byte a cell, and no more of them than a row has.
                let blanks = piece.len() - piece.trim_ascii_start().len();
                self.write_piece(self.column + column + blanks, seen.len() as u16, seen, out);
            }
            column += piece.len() + 2;
        }
    }

    fn write_piece(&self, column: usize, cells: u16, text: &str, out: &mut String) {
        let Look { foreground, modifier, .. } = self.look;
        let (x, length) = (column as f32 * CELL.0, f32::from(cells) * CELL.0);
        let fill = Hex(foreground);
        let _ =
            write!(out, r#"<tspan x="{x:.1}" textLength="{length:.1}" lengthAdjust="spacingAndGlyphs" fill="{fill}""#);
        for (flag, attribute) in [
            (Modifier::BOLD, r#" font-weight="bold""#),
            (Modifier::ITALIC, r#" font-style="italic""#),
            (Modifier::DIM, r#" fill-opacity="0.6""#),
            (Modifier::UNDERLINED, r#" text-decoration="underline""#),
        ] {
            if modifier.contains(flag) {
                *out += attribute;
            }
        }
        let _ = write!(out, ">{}</tspan>", Escaped(text));
    }
}

/// What the colours that a terminal names look like.
struct Palette {
    foreground: u32,
    background: u32,
    named: [u32; 16],
}

impl Palette {
    fn new(theme: ThemeName) -> Self {
        match theme {
            ThemeName::Dark | ThemeName::Mono => Self {
                foreground: 0xd4d4d4,
                background: 0x16181d,
                named: [
                    0x2b2e36, 0xe06c75, 0x98c379, 0xe5c07b, 0x61afef, 0xc678dd, 0x56b6c2, 0xd4d4d4, 0x6b717d, 0xff7b86,
                    0xb1e18b, 0xffd68a, 0x7cc3ff, 0xde8ff2, 0x6fd3df, 0xffffff,
                ],
            },
            ThemeName::Light => Self {
                foreground: 0x24292e,
                background: 0xffffff,
                named: [
                    0x24292e, 0xb31d28, 0x22863a, 0x9a6700, 0x005cc5, 0x6f42c1, 0x1b7c83, 0x6a737d, 0x586069, 0xcb2431,
                    0x28a745, 0xb08800, 0x2188ff, 0x8a63d2, 0x3192aa, 0xd1d5da,
                ],
            },
        }
    }

    fn look(&self, cell: &Cell) -> Look {
        let foreground = self.colour(cell.fg).unwrap_or(self.foreground);
        let background = self.colour(cell.bg).unwrap_or(self.background);
        let (mut foreground, background) = match cell.modifier.contains(Modifier::REVERSED) {
            true => (background, foreground),
            false => (foreground, background),
        };
        if cell.modifier.contains(Modifier::HIDDEN) {
            foreground = background;
        }
        Look { foreground, background, modifier: cell.modifier }
    }

    /// A colour as red, green and blue, unless it is the terminal's own.
    fn colour(&self, colour: Color) -> Option<u32> {
        let index = match colour {
            Color::Reset => return None,
            Color::Rgb(red, green, blue) => return Some(u32::from_be_bytes([0, red, green, blue])),
            Color::Indexed(index) => index,
            Color::Black => 0,
            Color::Red => 1,
            Color::Green => 2,
            Color::Yellow => 3,
            Color::Blue => 4,
            Color::Magenta => 5,
            Color::Cyan => 6,
            Color::Gray => 7,
            Color::DarkGray => 8,
            Color::LightRed => 9,
            Color::LightGreen => 10,
            Color::LightYellow => 11,
            Color::LightBlue => 12,
            Color::LightMagenta => 13,
            Color::LightCyan => 14,
            Color::White => 15,
        };
        Some(match index {
            0..16 => self.named[usize::from(index)],
            // A cube of six levels a colour, then a ramp of greys.
            16..232 => {
                let level = |place: u8| match (index - 16) / place % 6 {
                    0 => 0,
                    level => 55 + 40 * level,
                };
                u32::from_be_bytes([0, level(36), level(6), level(1)])
            }
            232.. => 0x01_01_01 * u32::from(8 + 10 * (index - 232)),
        })
    }
}

/// A colour as XML and CSS have it.
struct Hex(u32);

impl Display for Hex {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "#{:06x}", self.0)
    }
}

/// A text as XML has it.
struct Escaped<'a>(&'a str);

impl Display for Escaped<'_> {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        for character in Sanitized::new(self.0).chars() {
            match character {
                '&' => formatter.write_str("&amp;")?,
                '<' => formatter.write_str("&lt;")?,
                '>' => formatter.write_str("&gt;")?,
                '\u{fffe}' | '\u{ffff}' => formatter.write_char('\u{fffd}')?,
                _ => formatter.write_char(character)?,
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use ratatui::{layout::Rect, style::Style};

    use super::*;

    #[test]
    fn runs_are_stretched_to_their_cells() {
        let mut buffer = Buffer::empty(Rect::new(3, 2, 12, 2));
        buffer.set_string(3, 2, "a<b", Style::new().bold());
        buffer.set_string(7, 2, "\u{2501}\u{2501}\u{2501}", Style::new().fg(Color::Indexed(203)));
        buffer.set_string(3, 3, "\u{65e5}x", Style::new().reversed());
        let picture = svg(&buffer, ThemeName::Dark, "a & b");
        let document = roxmltree::Document::parse(&picture).unwrap();
        let spans: Vec<_> = document.descendants().filter(|node| node.has_tag_name("tspan")).collect();
        let attribute = |index: usize, name: &str| spans[index].attribute(name).unwrap_or("").to_owned();
        assert_eq!(
            spans.iter().map(|span| span.text().unwrap()).collect::<Vec<_>>(),
            ["a<b", "\u{2501}\u{2501}\u{2501}", "\u{65e5}", "x"]
        );
        assert_eq!((attribute(0, "font-weight"), attribute(0, "textLength")), ("bold".to_owned(), "25.2".to_owned()));
        assert_eq!((attribute(1, "fill"), attribute(1, "x")), ("#ff5f5f".to_owned(), "33.6".to_owned()));
        assert_eq!((attribute(2, "fill"), attribute(2, "textLength")), ("#16181d".to_owned(), "16.8".to_owned()));
        assert_eq!(attribute(3, "x"), "16.8");
        // The page, and what is reversed.
        let boxes = document.descendants().filter(|node| node.has_tag_name("rect"));
        assert_eq!(
            boxes.filter_map(|node| node.attribute("fill")).collect::<Vec<_>>(),
            ["#16181d", "#d4d4d4", "#d4d4d4"]
        );
        let blanks = Buffer::with_lines(["  one two   three "]);
        let picture = svg(&blanks, ThemeName::Dark, "");
        let document = roxmltree::Document::parse(&picture).unwrap();
        let spans = document.descendants().filter(|node| node.has_tag_name("tspan"));
        let placed: Vec<_> = spans.map(|span| (span.text().unwrap(), span.attribute("x").unwrap())).collect();
        assert_eq!(placed, [("one two", "16.8"), ("three", "100.8")]);
        assert_eq!(text(&buffer), "a<b \u{2501}\u{2501}\u{2501}\n\u{65e5}x\n");
    }

    fn cell() -> impl Strategy<Value = Cell> {
        let symbol = prop_oneof![
            "[ -~\u{2500}\u{65e5}]{1}",
            any::<String>(),
            Just("\u{202e}x".to_owned()),
            Just("\u{ffff}".to_owned()),
            Just("\u{1b}[2J".to_owned()),
        ];
        let colour = prop_oneof![
            Just(Color::Reset),
            Just(Color::LightBlue),
            any::<u8>().prop_map(Color::Indexed),
            any::<[u8; 3]>().prop_map(|[red, green, blue]| Color::Rgb(red, green, blue)),
        ];
        (symbol, colour.clone(), colour, any::<u16>()).prop_map(|(symbol, foreground, background, flags)| {
            let mut cell = Cell::EMPTY;
            cell.set_symbol(&symbol).set_fg(foreground).set_bg(background);
            cell.modifier = Modifier::from_bits_truncate(flags);
            cell
        })
    }

    proptest! {
        /// Even of a buffer that was not written through a pen.
        #[test]
        fn any_screen_is_a_picture(
            cells in proptest::collection::vec(cell(), 0..40),
            width in 1u16..9,
            title in any::<String>(),
            light: bool,
        ) {
            let height = cells.len() as u16 / width;
            let mut buffer = Buffer::empty(Rect::new(0, 0, width, height));
            for (place, cell) in buffer.content.iter_mut().zip(cells) {
                *place = cell;
            }
            let picture = svg(&buffer, if light { ThemeName::Light } else { ThemeName::Dark }, &title);
            let document = roxmltree::Document::parse(&picture);
            prop_assert!(document.is_ok(), "{:?} in {}", document, picture);
            for line in picture.lines().chain(text(&buffer).lines()) {
                prop_assert!(Sanitized::new(line).as_str().len() >= 4_096 || Sanitized::new(line).as_str() == line, "{}", line);
            }
            prop_assert_eq!(text(&buffer).lines().count(), usize::from(height));
        }
    }
}
