//! Menu: a list over everything else to choose from; the help, the palette and every picker.

use std::borrow::Cow;

use ratatui::{buffer::Buffer, layout::Rect};

use crate::{
    Grouped, Ink, Input, Pen, Theme,
    chrome::{below, frame},
    pane::Cursor,
    pen::{text_width, width_of},
    prompt::draw_field,
    sheet::Sheet,
    wrap,
};

/// One thing to choose.
#[derive(Clone, Debug, Default)]
pub struct MenuEntry {
    /// Keys that do the same, for example `g g or Home`; may be empty.
    pub keys: String,
    /// Its name.
    pub name: String,
    /// A word or two at the end of its row, for example where its keys work; may be empty.
    pub note: Cow<'static, str>,
    /// One line on what it is or does; may be empty.
    pub doc: String,
    /// Whether choosing it changes the target.
    pub mutates: bool,
}

/// What a menu shows.
#[derive(Clone, Copy, Debug)]
pub struct Menu<'a> {
    /// What it is a menu of.
    pub title: &'a str,
    /// What has been typed to find an entry.
    pub query: &'a str,
    /// All there is to choose.
    pub entries: &'a [MenuEntry],
    /// Which of `entries` are shown, the best match first.
    pub shown: &'a [usize],
    /// Keys of the menu itself, for example `enter runs   esc closes`.
    pub hint: &'a str,
}

/// View of a menu: which entry is selected, how far it is scrolled.
#[derive(Clone, Copy, Debug, Default)]
pub struct MenuView {
    cursor: Cursor,
}

/// Widest the menu gets.
const WIDTH: u16 = 116;
/// Cells that a doc is worth beginning in.
const SHORTEST_DOC: u16 = 24;
/// Rows below which none is left empty.
const SMALL: u16 = 18;
/// Rows of the selected entry's doc at most.
const DOC_ROWS: u16 = 3;

impl MenuView {
    /// Moves the cursor among so many entries; `false` when the input says nothing of rows.
    pub fn handle(&mut self, shown: usize, input: Input) -> bool {
        self.cursor.handle(input, shown)
    }

    /// Where among those shown the selected entry is.
    pub fn selected(&self) -> usize {
        self.cursor.selected
    }

    /// Back to the first entry, as what is shown changes with every letter typed.
    pub fn reset(&mut self) {
        self.cursor = Cursor { page: self.cursor.page, ..Cursor::default() };
    }

    /// Draws the menu in the middle of `area`.
    pub fn draw(&mut self, menu: Menu<'_>, theme: Theme, area: Rect, buffer: &mut Buffer) {
        let area = area.intersection(buffer.area);
        let width = WIDTH.min(area.width.saturating_sub(2));
        if width < 8 || area.height < 4 {
            return;
        }
        let columns = Columns::new(menu.entries, width - 4);
        // Frame, query and an empty row; the height stays as it is while something is typed.
        let wanted = (menu.entries.len() as u16).saturating_add(4 + columns.footer);
        let margin = if area.height < SMALL { 0 } else { 2 };
        let height = wanted.min(area.height - margin);
        let overlay =
            Rect { x: area.x + (area.width - width) / 2, y: area.y + (area.height - height) / 2, width, height };
        frame(theme, menu.title, overlay, buffer);
        let inner = Rect { x: overlay.x + 2, y: overlay.y + 1, width: width - 4, height: height - 2 };
        draw_query(menu, theme, inner, buffer);
        let empty = u16::from(inner.height > SMALL);
        let list = below(inner, 1 + empty);
        // A few rows of the list come before the doc.
        let footer = columns.footer.min(list.height.saturating_sub(3));
        let list = Rect { height: list.height - footer, ..list };
        self.cursor.settle(menu.shown.len(), list.height.into());
        let rows = menu.shown.iter().enumerate().skip(self.cursor.offset);
        for (row, (position, entry)) in (0..list.height).zip(rows) {
            if let Some(entry) = menu.entries.get(*entry) {
                let selected = position == self.cursor.selected;
                columns.draw(theme, entry, selected, Pen::new(buffer, list, row));
            }
        }
        if menu.shown.is_empty() {
            let words = if menu.entries.is_empty() { "there is nothing to choose" } else { "nothing matches" };
            Pen::new(buffer, list, 0).text(theme.ink(Ink::Warning), words);
        }
        let selected = menu.shown.get(self.cursor.selected).and_then(|entry| menu.entries.get(*entry));
        if let (Some(entry), 2..) = (selected, footer) {
            let area = below(list, list.height);
            let area = Rect { y: area.y + 1, height: footer - 1, ..area };
            Sheet::new(buffer, area, 0).text(theme.ink(Ink::Text), 0, &entry.doc, |_| {});
        }
    }
}

fn draw_query(menu: Menu<'_>, theme: Theme, area: Rect, buffer: &mut Buffer) {
    let dim = theme.ink(Ink::Dim);
    let (shown, all) = (Grouped(menu.shown.len() as u64), Grouped(menu.entries.len() as u64));
    let hint = format_args!("{shown} of {all}   {}", menu.hint);
    let hint_start = area.width.saturating_sub(width_of(hint));
    // What is typed comes before what else there is to say.
    let typed = text_width(menu.query).saturating_add(1);
    let field = if typed < hint_start { Rect { width: hint_start, ..area } } else { area };
    let ghost = if menu.query.is_empty() { "type to filter" } else { "" };
    draw_field(menu.query, menu.query.len(), ghost, theme, field, buffer);
    if field.width < area.width {
        Pen::new(buffer, area, 0).to(hint_start).put(dim, hint);
    }
}

/// Where each part of an entry stands, the same in all rows.
struct Columns {
    keys: u16,
    name: u16,
    /// Cells for docs, if they are worth beginning.
    doc: u16,
    /// Rows for the selected entry's doc and the empty one above, when it is not in its row in full.
    footer: u16,
}

impl Columns {
    fn new(entries: &[MenuEntry], width: u16) -> Self {
        let widest = |part: fn(&MenuEntry) -> &str| entries.iter().map(|entry| text_width(part(entry))).max();
        let widest = |part| widest(part).unwrap_or(0);
        let gap = |cells: u16| if cells > 0 { cells + 2 } else { 0 };
        let keys = gap(widest(|entry| &entry.keys).min(15));
        let name = gap(widest(|entry| &entry.name).min(width.saturating_sub(2 + keys).max(8)));
        let notes = entries.iter().map(|entry| text_width(note(entry, width))).max().unwrap_or(0);
        let doc = width.saturating_sub(2 + keys + name + gap(notes));
        let longest = widest(|entry| &entry.doc);
        let rows = entries.iter().map(|entry| wrap::lines(&entry.doc, width.saturating_sub(1)).count() as u16);
        let footer = if longest > doc { rows.max().unwrap_or(0).min(DOC_ROWS) + 1 } else { 0 };
        Self { keys, name, doc: if doc >= SHORTEST_DOC { doc } else { 0 }, footer }
    }

    fn draw(&self, theme: Theme, entry: &MenuEntry, selected: bool, mut pen: Pen<'_>) {
        let (text, dim, ellipsis) = (theme.ink(Ink::Text), theme.ink(Ink::Dim), theme.glyphs.ellipsis);
        if selected {
            pen.text(theme.ink(Ink::Focus), theme.glyphs.cursor);
        }
        pen.to(2).clip(theme.ink(Ink::Key), &entry.keys, self.keys.saturating_sub(2), ellipsis);
        let style = if self.doc > 0 { dim } else { text };
        pen.to(2 + self.keys).clip(style, &entry.name, self.name.saturating_sub(2), ellipsis);
        if self.doc > 0 {
            pen.to(2 + self.keys + self.name).clip(text, &entry.doc, self.doc, ellipsis);
        }
        let end = pen.column() + pen.room();
        let note = note(entry, end);
        if !note.is_empty() && pen.room() > text_width(note) + 1 {
            let ink = if entry.mutates { Ink::Warning } else { Ink::Dim };
            pen.to(end - text_width(note)).text(theme.ink(ink), note);
        }
        if selected {
            pen.to(0).tint_row(theme.ink(Ink::Selected));
        }
    }
}

/// The note of an entry in a row of so many cells; that it changes the target comes first.
fn note(entry: &MenuEntry, width: u16) -> &str {
    match (entry.mutates, width) {
        (true, 90..) => "changes the target",
        (true, _) => "target",
        (false, _) => &entry.note,
    }
}
