//! Prompt: the line at the bottom that a command or a filter is typed into, and what may come next.

use ratatui::{buffer::Buffer, layout::Rect, style::Style};
use unicode_segmentation::UnicodeSegmentation;

use coalmine_sessions::Sanitized;

use crate::{
    Ink, Pen, Theme,
    chrome::{below, frame},
    pane::Cursor,
    pen::text_width,
    sheet::Sheet,
    wrap,
};

/// Something that the text may be completed to.
#[derive(Clone, Debug, Default)]
pub struct Candidate {
    /// The text.
    pub text: String,
    /// One line on what it is.
    pub note: String,
}

/// What the prompt shows.
#[derive(Clone, Copy, Debug)]
pub struct Prompt<'a> {
    /// What stands before the text: `:` or `/`.
    pub prefix: char,
    /// What has been typed.
    pub text: &'a str,
    /// Where the next character goes: a byte of `text`, or its length.
    pub cursor: usize,
    /// What may come after the text, for example `<pane> [file]`.
    pub ghost: &'a str,
    /// Why the text means nothing, if it does not.
    pub error: Option<&'a str>,
    /// What it may be completed to, best first.
    pub candidates: &'a [Candidate],
    /// Which of the candidates is selected.
    pub selected: Option<usize>,
}

/// Candidates in view at most.
const CANDIDATES: u16 = 8;
/// Rows of an error at most.
const ERROR_ROWS: u16 = 3;
/// Cells that the texts of candidates take at most beside their notes.
const TEXT: u16 = 40;

/// Draws the prompt on `line`, and above it, within `screen`, what may come next.
pub fn draw_prompt(prompt: Prompt<'_>, theme: Theme, line: Rect, screen: Rect, buffer: &mut Buffer) {
    let line = line.intersection(buffer.area);
    Pen::new(buffer, line, 0).repeat(Style::reset(), " ", line.width);
    let mut prefix = [0; 4];
    Pen::new(buffer, line, 0).text(theme.ink(Ink::Key), prompt.prefix.encode_utf8(&mut prefix));
    let field = Rect { x: line.x + line.width.min(1), width: line.width.saturating_sub(1), ..line };
    draw_field(prompt.text, prompt.cursor, prompt.ghost, theme, field, buffer);
    let above = Rect { height: line.y.saturating_sub(screen.y).min(screen.height), ..screen };
    draw_box(prompt, theme, above.intersection(buffer.area), buffer);
}

/// Draws a text with a cursor on one row, scrolled so that the cursor is in view; what stands after it is dim.
pub(crate) fn draw_field(text: &str, cursor: usize, ghost: &str, theme: Theme, area: Rect, buffer: &mut Buffer) {
    let pieces = || text.grapheme_indices(true).map(|(at, grapheme)| (at, Piece::new(grapheme)));
    let (mut before, mut under) = (0, 1);
    for (at, piece) in pieces().take_while(|(at, _)| *at <= cursor) {
        if piece.holds(at, cursor) {
            under = piece.width();
        } else {
            before += piece.width();
        }
    }
    // Whole pieces leave at the left until the one under the cursor is in view.
    let mut hidden = (before + under).saturating_sub(area.width.into()).min(before);
    let mut pen = Pen::new(buffer, area, 0);
    let mut under_cursor = false;
    for (at, piece) in pieces() {
        if hidden > 0 {
            hidden = hidden.saturating_sub(piece.width());
            continue;
        }
        let here = piece.holds(at, cursor);
        under_cursor |= here;
        let style = if here { theme.cursor() } else { theme.ink(Ink::Text) };
        pen.text(style, piece.text());
    }
    if !under_cursor {
        pen.text(theme.cursor(), " ");
    }
    if !ghost.is_empty() {
        let gap = u16::from(under_cursor);
        let room = pen.skip(gap).room();
        pen.clip(theme.ink(Ink::Dim), ghost, room, theme.glyphs.ellipsis);
    }
}

/// One character as people count them, made visible where a terminal would obey or hide it.
struct Piece<'a> {
    plain: &'a str,
    escaped: Option<Sanitized>,
    length: usize,
}

impl<'a> Piece<'a> {
    fn new(grapheme: &'a str) -> Self {
        let length = grapheme.len();
        if grapheme.bytes().all(|byte| matches!(byte, b' '..=b'~')) {
            return Self { plain: grapheme, escaped: None, length };
        }
        let escaped = Sanitized::new(grapheme);
        // A mark with nothing to stand on, or a control character, would not be seen.
        if text_width(&escaped) == 0 {
            return Self { plain: "?", escaped: None, length };
        }
        Self { plain: "", escaped: Some(escaped), length }
    }

    /// Whether the byte at `cursor` is one of this piece, which begins at `start`.
    fn holds(&self, start: usize, cursor: usize) -> bool {
        (start..start + self.length).contains(&cursor)
    }

    fn text(&self) -> &str {
        self.escaped.as_ref().map_or(self.plain, Sanitized::as_str)
    }

    fn width(&self) -> usize {
        text_width(self.text()).into()
    }
}

/// The error and the candidates in a box at the lower end of `above`.
fn draw_box(prompt: Prompt<'_>, theme: Theme, above: Rect, buffer: &mut Buffer) {
    let width = above.width.min(box_width(prompt));
    let inner = width.saturating_sub(4);
    let error = prompt.error.map_or(0, |error| wrap::lines(error, inner).count() as u16).min(ERROR_ROWS);
    let rows = (prompt.candidates.len().min(CANDIDATES.into()) as u16 + error).min(above.height.saturating_sub(2));
    if rows == 0 || width < 8 {
        return;
    }
    let outer = Rect { y: above.bottom() - rows - 2, width, height: rows + 2, ..above };
    frame(theme, "", outer, buffer);
    let area = Rect { x: outer.x + 2, y: outer.y + 1, width: inner, height: rows };
    let list = Rect { height: rows.saturating_sub(error), ..area };
    let count = prompt.candidates.len();
    let mut cursor = Cursor { selected: prompt.selected.unwrap_or(0), ..Cursor::default() };
    cursor.settle(count, list.height.into());
    let text = prompt.candidates.iter().map(|candidate| text_width(&candidate.text)).max().unwrap_or(0);
    let text = text.min(TEXT).min(inner.saturating_sub(2));
    for (row, (index, candidate)) in (0..list.height).zip(prompt.candidates.iter().enumerate().skip(cursor.offset)) {
        let selected = prompt.selected == Some(index);
        let mut pen = Pen::new(buffer, list, row);
        if selected {
            pen.text(theme.ink(Ink::Focus), theme.glyphs.cursor);
        }
        let ink = if selected { Ink::Strong } else { Ink::Text };
        pen.to(2).clip(theme.ink(ink), &candidate.text, text, theme.glyphs.ellipsis).to(2 + text + 2);
        let room = pen.room();
        pen.clip(theme.ink(Ink::Dim), &candidate.note, room, theme.glyphs.ellipsis);
        if selected {
            pen.to(0).tint_row(theme.ink(Ink::Selected));
        }
    }
    if let (Some(words), 1..) = (prompt.error, error) {
        Sheet::new(buffer, below(area, list.height), 0).text(theme.ink(Ink::Warning), 0, words, |_| {});
    }
}

/// Cells that the box takes where there is room.
fn box_width(prompt: Prompt<'_>) -> u16 {
    let texts = prompt.candidates.iter().map(|candidate| text_width(&candidate.text).min(TEXT)).max();
    let notes = prompt.candidates.iter().map(|candidate| text_width(&candidate.note)).max();
    let candidates = texts.map_or(0, |texts| texts + 4).saturating_add(notes.unwrap_or(0));
    candidates.max(prompt.error.map_or(0, text_width)).saturating_add(5)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// The row as text with the cursor's cell in brackets.
    fn field(text: &str, cursor: usize, ghost: &str, width: u16) -> String {
        let theme = Theme::default();
        let area = Rect::new(0, 0, width, 1);
        let mut buffer = Buffer::empty(area);
        draw_field(text, cursor, ghost, theme, area, &mut buffer);
        let cells = buffer.content.iter().map(|cell| match cell.bg == theme.cursor().bg.unwrap() {
            true => format!("[{}]", cell.symbol()),
            false => cell.symbol().to_owned(),
        });
        cells.collect::<String>().trim_end().to_owned()
    }

    #[test]
    fn the_cursor_is_seen() {
        assert_eq!(field("", 0, "", 10), "[ ]");
        assert_eq!(field("abc", 3, "", 10), "abc[ ]");
        assert_eq!(field("abc", 1, "", 10), "a[b]c");
        assert_eq!(field("go ", 3, "<step>", 12), "go [ ]<step>");
        assert_eq!(field("go ", 0, "<step>", 12), "[g]o  <step>");
    }

    #[test]
    fn a_long_text_is_scrolled_by_whole_characters() {
        assert_eq!(field("abcdefgh", 8, "", 5), "efgh[ ]");
        assert_eq!(field("abcdefgh", 2, "", 5), "ab[c]de");
        // The cursor inside of what is one character to people stands on all of it.
        assert_eq!(field("e\u{301}x", 1, "", 5), "[e\u{301}]x");
        assert_eq!(field("\u{65e5}\u{672c}\u{8a9e}", 9, "", 6), "\u{672c} \u{8a9e} [ ]");
    }

    #[test]
    fn what_a_terminal_would_obey_is_seen() {
        assert_eq!(field("a\u{202e}b", 5, "", 20), "a<U+202E>b[ ]");
        assert_eq!(field("\u{301}\u{1b}", 2, "", 20), "?[?]");
    }

    proptest! {
        #[test]
        fn the_cursor_is_always_in_view(text in "[a-z\u{65e5}\u{202e}e\u{301} ]{0,30}", at in 0usize..31, width in 3u16..20) {
            let cursor = text.char_indices().nth(at).map_or(text.len(), |(at, _)| at);
            let line = field(&text, cursor, "ghost", width);
            prop_assert!(line.contains('['), "{}", line);
        }
    }
}
