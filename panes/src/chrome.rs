//! What surrounds a pane: its rule with number and title.

use std::fmt;

use ratatui::{buffer::Buffer, layout::Rect};

use crate::{
    Filter, Ink, PaneId, Pen, Scene, Theme,
    pen::{text_width, width_of},
};

/// Cells that a note is worth cutting it off for.
const SHORTEST_NOTE: u16 = 8;

/// Draws the header rule of a pane and returns what is left for its content.
///
/// `note` stands at the right end of the rule, cut off where it does not fit beside the title.
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
    let title_end = 1 + 3 + text_width(id.title()) + 1;
    let note_width = width_of(note);
    let room = area.width.saturating_sub(title_end + 4);
    if note_width > 0 && room >= note_width.min(SHORTEST_NOTE) {
        let ink = if scene.focused { Ink::Focus } else { Ink::Dim };
        let style = scene.theme.ink(ink);
        let start = title_end + 1 + room.saturating_sub(note_width);
        let end = area.width - 1;
        pen.to(start).stop_at(end).put(style, format_args!(" {note} "));
        if note_width > room {
            pen.to(end - 2).put(style, format_args!("{} ", glyphs.ellipsis));
        }
    }
    below(area, 1)
}

/// `area` without its first `rows`.
pub(crate) fn below(area: Rect, rows: u16) -> Rect {
    let rows = rows.min(area.height);
    Rect { y: area.y + rows, height: area.height - rows, ..area }
}

/// Says that a filter hides everything.
pub(crate) fn no_match(scene: Scene<'_>, filter: &Filter, area: Rect, buffer: &mut Buffer) {
    Pen::new(buffer, area, 0)
        .skip(2)
        .text(scene.theme.ink(Ink::Warning), "nothing matches /")
        .text(scene.theme.ink(Ink::Warning), filter.text());
}

/// Clears `area` and draws a frame with a title around it.
pub(crate) fn frame(theme: Theme, title: &str, area: Rect, buffer: &mut Buffer) {
    let style = theme.ink(Ink::Focus);
    let [top_left, top_right, bottom_right, bottom_left, horizontal, vertical] = theme.glyphs.frame;
    for row in 0..area.height {
        let (left, middle, right) = match row {
            0 => (top_left, horizontal, top_right),
            row if row + 1 == area.height => (bottom_left, horizontal, bottom_right),
            _ => (vertical, " ", vertical),
        };
        Pen::new(buffer, area, row)
            .text(style, left)
            .repeat(style, middle, area.width.saturating_sub(2))
            .text(style, right);
    }
    let room = area.width.saturating_sub(6);
    if !title.is_empty() && room > 0 {
        Pen::new(buffer, area, 0)
            .to(2)
            .text(style, " ")
            .clip(style, title, room, theme.glyphs.ellipsis)
            .text(style, " ");
    }
}
