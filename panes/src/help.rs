//! Help: every command with its keys, filtered by what is typed.

use ratatui::{buffer::Buffer, layout::Rect};

use crate::{
    Ink, Input, Pen, Theme,
    pane::Cursor,
    pen::{text_width, width_of},
};

/// One command as the help shows it. The console makes these from its registry.
#[derive(Clone, Debug)]
pub struct HelpEntry {
    /// Keys, for example `g g or Home`.
    pub keys: String,
    /// The command's name.
    pub name: &'static str,
    /// Where its keys work, for example `timeline`; empty when everywhere.
    pub scope: &'static str,
    /// One line on what it does.
    pub doc: &'static str,
    /// Whether it changes the target.
    pub mutates: bool,
}

impl HelpEntry {
    fn matches(&self, filter: &str) -> bool {
        let found = |text: &str| {
            filter.is_empty()
                || text.as_bytes().windows(filter.len()).any(|part| part.eq_ignore_ascii_case(filter.as_bytes()))
        };
        [self.keys.as_str(), self.name, self.scope, self.doc].into_iter().any(found)
    }
}

/// View of the help overlay.
#[derive(Clone, Debug, Default)]
pub struct HelpView {
    filter: String,
    cursor: Cursor,
}

/// Widest the overlay gets.
const WIDTH: u16 = 116;
/// Longest filter.
const FILTER: usize = 40;

impl HelpView {
    /// What has been typed.
    pub fn filter(&self) -> &str {
        &self.filter
    }

    /// Adds a character to the filter.
    pub fn push(&mut self, character: char) {
        if self.filter.len() < FILTER && !character.is_control() {
            self.filter.push(character);
            self.cursor.selected = 0;
        }
    }

    /// Takes the last character off the filter; `false` when there was none.
    pub fn pop(&mut self) -> bool {
        self.cursor.selected = 0;
        self.filter.pop().is_some()
    }

    /// Empties the filter; `false` when it was empty.
    pub fn clear(&mut self) -> bool {
        let filtered = !self.filter.is_empty();
        self.filter.clear();
        self.cursor.selected = 0;
        filtered
    }

    /// Moves the cursor; `false` when the input says nothing of rows.
    pub fn handle(&mut self, entries: &[HelpEntry], input: Input) -> bool {
        let count = self.shown(entries).count();
        self.cursor.handle(input, count)
    }

    /// The entry under the cursor, by its place in `entries`.
    pub fn selected(&self, entries: &[HelpEntry]) -> Option<usize> {
        self.shown(entries).nth(self.cursor.selected)
    }

    fn shown(&self, entries: &[HelpEntry]) -> impl Iterator<Item = usize> {
        let matching = entries.iter().enumerate();
        matching.filter(|(_, entry)| entry.matches(&self.filter)).map(|(index, _)| index)
    }

    /// Draws the overlay in the middle of `area`.
    pub fn draw(&mut self, entries: &[HelpEntry], theme: Theme, area: Rect, buffer: &mut Buffer) {
        let area = area.intersection(buffer.area);
        let count = self.shown(entries).count();
        let width = WIDTH.min(area.width.saturating_sub(2));
        let height = (entries.len() as u16 + 5).min(area.height.saturating_sub(2));
        if width < 8 || height < 4 {
            return;
        }
        let overlay =
            Rect { x: area.x + (area.width - width) / 2, y: area.y + (area.height - height) / 2, width, height };
        frame(theme, overlay, buffer);
        let inner = Rect { x: overlay.x + 2, y: overlay.y + 1, width: width - 4, height: height - 2 };
        self.draw_filter(theme, count, entries.len(), inner, buffer);
        let list = Rect { y: inner.y + 2.min(inner.height), height: inner.height.saturating_sub(2), ..inner };
        self.cursor.settle(count, list.height as usize);
        let rows = self.shown(entries).enumerate().skip(self.cursor.offset);
        for (row, (index, entry)) in (0..list.height).zip(rows) {
            let selected = index == self.cursor.selected;
            draw_entry(theme, &entries[entry], selected, list, row, buffer);
        }
        if count == 0 {
            Pen::new(buffer, list, 0).text(theme.ink(Ink::Dim), "no command matches");
        }
    }

    fn draw_filter(&self, theme: Theme, count: usize, all: usize, area: Rect, buffer: &mut Buffer) {
        let dim = theme.ink(Ink::Dim);
        let mut pen = Pen::new(buffer, area, 0);
        if self.filter.is_empty() {
            pen.text(dim, "type to filter");
        } else {
            pen.text(dim, "filter ").text(theme.ink(Ink::Strong), &self.filter);
        }
        pen.text(theme.cursor(), " ");
        let hint = format_args!("{count} of {all}   enter runs   esc closes");
        if pen.room() > width_of(hint) + 1 {
            pen.to(area.width - width_of(hint)).put(dim, hint);
        }
    }
}

fn frame(theme: Theme, area: Rect, buffer: &mut Buffer) {
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
    Pen::new(buffer, area, 0).to(2).text(style, " Help ");
}

fn draw_entry(theme: Theme, entry: &HelpEntry, selected: bool, area: Rect, row: u16, buffer: &mut Buffer) {
    let (text, dim) = (theme.ink(Ink::Text), theme.ink(Ink::Dim));
    let wide = area.width >= 76;
    let mut pen = Pen::new(buffer, area, row);
    if selected {
        pen.text(theme.ink(Ink::Focus), theme.glyphs.cursor);
    }
    pen.to(2).clip(theme.ink(Ink::Key), &entry.keys, 15, theme.glyphs.ellipsis).to(18);
    if wide {
        pen.text(dim, entry.name).to(38);
    }
    pen.text(text, entry.doc);
    let note = match (entry.mutates, entry.scope) {
        (true, _) if pen.room() >= 20 => "changes the target",
        (true, _) => "target",
        (false, scope) => scope,
    };
    if !note.is_empty() && pen.room() > text_width(note) + 1 {
        let ink = if entry.mutates { Ink::Warning } else { Ink::Dim };
        pen.to(area.width - text_width(note)).text(theme.ink(ink), note);
    }
    if selected {
        pen.tint_row(theme.ink(Ink::Selected));
    }
}
