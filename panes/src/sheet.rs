//! Rows written one below the other, more of them than fit, and how far they are scrolled.

use std::fmt;

use ratatui::{buffer::Buffer, layout::Rect, style::Style};

use crate::{Grouped, Input, Pen, Theme, pane::Cursor, wrap};

/// A sheet of rows, of which those in view are drawn.
pub(crate) struct Sheet<'a> {
    buffer: &'a mut Buffer,
    area: Rect,
    /// Rows above those in view.
    offset: usize,
    /// Rows written so far.
    row: usize,
}

impl<'a> Sheet<'a> {
    pub(crate) fn new(buffer: &'a mut Buffer, area: Rect, offset: usize) -> Self {
        let area = area.intersection(buffer.area);
        Self { buffer, area, offset, row: 0 }
    }

    /// Rows written so far.
    pub(crate) fn row(&self) -> usize {
        self.row
    }

    /// Cells of a row.
    pub(crate) fn width(&self) -> u16 {
        self.area.width
    }

    /// Rows that would be left if nothing were scrolled.
    pub(crate) fn room(&self) -> usize {
        usize::from(self.area.height).saturating_sub(self.row)
    }

    /// A pen on the next row. Out of view it writes nothing.
    pub(crate) fn line(&mut self) -> Pen<'_> {
        self.row += 1;
        self.same_line()
    }

    /// A pen on the row written last.
    pub(crate) fn same_line(&mut self) -> Pen<'_> {
        self.line_at(self.row.saturating_sub(1))
    }

    /// A pen on any row.
    fn line_at(&mut self, row: usize) -> Pen<'_> {
        let place = row.checked_sub(self.offset).and_then(|place| u16::try_from(place).ok());
        Pen::new(self.buffer, self.area, place.unwrap_or(u16::MAX))
    }

    /// An empty row.
    pub(crate) fn space(&mut self) {
        self.row += 1;
    }

    /// Writes `count` rows, of which only those in view are drawn.
    pub(crate) fn list(&mut self, count: usize, mut draw: impl FnMut(&mut Pen<'_>, usize)) {
        let first = self.row;
        self.row += count;
        let end = self.offset + usize::from(self.area.height);
        for row in self.offset.clamp(first, self.row)..end.clamp(first, self.row) {
            draw(&mut self.line_at(row), row - first);
        }
    }

    /// Writes all of `text` from `column` on, in as many rows as it takes but at least one;
    /// `start` writes what stands before it.
    pub(crate) fn text(&mut self, style: Style, column: u16, text: &str, start: impl Fn(&mut Pen<'_>)) {
        let width = self.area.width.saturating_sub(column + 1);
        let mut first = true;
        for line in wrap::lines(text, width).chain(text.trim().is_empty().then_some("")) {
            let mut pen = self.line();
            if std::mem::take(&mut first) {
                start(&mut pen);
            }
            pen.to(column).text(style, line);
        }
    }
}

/// How far a sheet is scrolled.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Scroll {
    offset: usize,
    /// Rows of the sheet when last drawn.
    rows: usize,
    /// Rows in view when last drawn.
    page: usize,
}

impl Scroll {
    /// Draws a sheet. `draw` gives the row that has to be in view, if one has.
    pub(crate) fn show(
        &mut self,
        area: Rect,
        buffer: &mut Buffer,
        mut draw: impl FnMut(&mut Sheet<'_>) -> Option<usize>,
    ) {
        let area = area.intersection(buffer.area);
        self.page = area.height.into();
        loop {
            let mut sheet = Sheet::new(buffer, area, self.offset);
            let wanted = draw(&mut sheet);
            self.rows = sheet.row;
            let before = self.offset;
            if let Some(row) = wanted {
                self.offset = self.offset.min(row).max((row + 1).saturating_sub(self.page));
            }
            self.offset = self.offset.min(self.rows.saturating_sub(self.page));
            // Twice at most: what is written does not depend on how far it is scrolled.
            if self.offset == before {
                return;
            }
            for place in area.positions() {
                buffer[place].reset();
            }
        }
    }

    /// Scrolls as `input` says; `false` when it says nothing of rows.
    pub(crate) fn handle(&mut self, input: Input) -> bool {
        let mut cursor = Cursor { selected: self.offset, offset: 0, page: self.page };
        let understood = cursor.handle(input, self.rows.saturating_sub(self.page) + 1);
        self.offset = cursor.selected;
        understood
    }

    /// Back to the top.
    pub(crate) fn reset(&mut self) {
        self.offset = 0;
    }

    /// The row of the sheet that is drawn on a row of the screen.
    pub(crate) fn row_at(&self, row: u16) -> usize {
        self.offset + usize::from(row)
    }

    /// Whether a row is in view.
    pub(crate) fn shows(&self, row: usize) -> bool {
        (self.offset..self.offset + self.page).contains(&row)
    }

    /// Which rows are in view, for a header: `3–12 of 40 · `, or nothing when all are.
    pub(crate) fn note(&self, theme: Theme) -> impl fmt::Display + use<> {
        let (offset, rows, page) = (self.offset, self.rows, self.page);
        fmt::from_fn(move |formatter| {
            if rows <= page {
                return Ok(());
            }
            let (first, last) = (Grouped(offset as u64 + 1), Grouped((offset + page).min(rows) as u64));
            let (range, dot) = (theme.glyphs.range, theme.glyphs.dot);
            write!(formatter, "rows {first}{range}{last} of {} {dot} ", Grouped(rows as u64))
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn drawn(scroll: &mut Scroll, height: u16, rows: usize, wanted: Option<usize>) -> String {
        let area = Rect::new(0, 0, 3, height);
        let mut buffer = Buffer::empty(area);
        scroll.show(area, &mut buffer, |sheet| {
            for row in 0..rows {
                sheet.line().put(Style::new(), format_args!("{row}"));
            }
            wanted
        });
        buffer.content.iter().map(|cell| cell.symbol()).collect::<String>().replace(' ', "")
    }

    #[test]
    fn a_sheet_that_shrinks_is_not_left_out_of_view() {
        let mut scroll = Scroll::default();
        assert_eq!(drawn(&mut scroll, 2, 6, None), "01");
        scroll.handle(Input::Last);
        assert_eq!(drawn(&mut scroll, 2, 6, None), "45");
        scroll.handle(Input::Down);
        assert_eq!(drawn(&mut scroll, 2, 6, None), "45");
        assert_eq!(drawn(&mut scroll, 2, 3, None), "12");
        assert_eq!(drawn(&mut scroll, 4, 3, None), "012");
    }

    #[test]
    fn the_row_wanted_is_brought_into_view() {
        let mut scroll = Scroll::default();
        assert_eq!(drawn(&mut scroll, 2, 12, Some(8)), "78");
        assert_eq!(drawn(&mut scroll, 3, 12, Some(8)), "789");
        assert_eq!(drawn(&mut scroll, 2, 12, Some(3)), "34");
        assert_eq!(drawn(&mut scroll, 0, 12, Some(3)), "");
        assert_eq!(drawn(&mut scroll, 2, 12, Some(99)), "1011");
    }

    #[test]
    fn only_rows_in_view_are_drawn() {
        let area = Rect::new(0, 0, 3, 4);
        let mut buffer = Buffer::empty(area);
        let mut sheet = Sheet::new(&mut buffer, area, 3);
        sheet.space();
        let mut drawn = Vec::new();
        sheet.list(1_000, |_, row| drawn.push(row));
        sheet.list(5, |_, row| drawn.push(row));
        assert_eq!(drawn, [2, 3, 4, 5]);
        assert_eq!(sheet.row(), 1_006);
    }
}
