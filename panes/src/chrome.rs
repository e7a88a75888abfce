//! What surrounds a pane: its rule with number and title.

use std::fmt;

use ratatui::{buffer::Buffer, layout::Rect, style::Style};

use crate::{
    Ink, PaneId, Pen, Scene,
    pen::{text_width, width_of},
};

/// Draws the header rule of a pane and returns what is left for its content.
///
/// `note` stands at the right end of the rule if it fits beside the title.
pub(crate) fn header(scene: Scene<'_>, id: PaneId, note: fmt::Arguments<'_>, area: Rect, buffer: &mut Buffer) -> Rect {
    let area = area.intersection(buffer.area);
    let glyphs = scene.theme.glyphs;
    let (rule, rule_style, title_style) = if scene.focused {
        let focus = scene.theme.ink(Ink::Focus);
        (glyphs.heavy_rule, focus, focus)
    } else {
        let theme = scene.theme;
        (glyphs.rule, theme.ink(Ink::Rule), theme.ink(Ink::Text))
    };
    let mut pen = Pen::new(buffer, area, 0);
    pen.repeat(rule_style, rule, 1)
        .put(title_style, format_args!(" {} {} ", id.number(), id.title()))
        .repeat(rule_style, rule, area.width);
    let note_width = width_of(note);
    let title_end = 1 + 3 + text_width(id.title()) + 1;
    if note_width > 0 && area.width >= title_end + note_width + 4 {
        let ink = if scene.focused { Ink::Focus } else { Ink::Dim };
        let style = scene.theme.ink(ink);
        pen.to(area.width - note_width - 3).put(style, format_args!(" {note} "));
    }
    below(area, 1)
}

/// `area` without its first `rows`.
pub(crate) fn below(area: Rect, rows: u16) -> Rect {
    let rows = rows.min(area.height);
    Rect { y: area.y + rows, height: area.height - rows, ..area }
}

/// Writes `text` broken at spaces into `area`.
pub(crate) fn wrapped(buffer: &mut Buffer, area: Rect, style: Style, text: &str) {
    let mut row = 0;
    let mut column = 0;
    for word in text.split_whitespace() {
        let width = text_width(word);
        if column > 0 && column + 1 + width > area.width {
            row += 1;
            column = 0;
        }
        let gap = u16::from(column > 0);
        Pen::new(buffer, area, row).to(column + gap).text(style, word);
        column = column.saturating_add(gap + width);
    }
}
