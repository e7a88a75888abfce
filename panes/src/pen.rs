//! Writing text into a buffer, cell by cell, without allocating.

use std::fmt::{self, Write};

use ratatui::{buffer::Buffer, layout::Rect, style::Style, text::Span};

/// Writes along one row of an area and never past its right edge.
///
/// Everything goes through [`Buffer::set_stringn`], which drops control characters.
pub struct Pen<'a> {
    buffer: &'a mut Buffer,
    left: u16,
    x: u16,
    y: u16,
    right: u16,
    style: Style,
}

impl<'a> Pen<'a> {
    /// A pen at the start of `row` of `area`; outside of the buffer it writes nothing.
    pub fn new(buffer: &'a mut Buffer, area: Rect, row: u16) -> Self {
        let area = area.intersection(buffer.area);
        let inside = row < area.height;
        Self {
            left: area.x,
            x: area.x,
            y: if inside { area.y + row } else { area.y },
            right: if inside { area.right() } else { area.x },
            buffer,
            style: Style::new(),
        }
    }

    /// Writes `text`, whose cells take on `style` alone, whatever they looked like before.
    pub fn text(&mut self, style: Style, text: &str) -> &mut Self {
        self.write(style, text, self.room())
    }

    fn write(&mut self, style: Style, text: &str, cells: u16) -> &mut Self {
        if cells > 0 {
            let style = Style::reset().patch(style);
            let (x, _) = self.buffer.set_stringn(self.x, self.y, text, cells.into(), style);
            self.x = x;
        }
        self
    }

    /// Writes formatted text.
    pub fn put(&mut self, style: Style, arguments: fmt::Arguments<'_>) -> &mut Self {
        self.style = style;
        // Writing into cells cannot fail, and text past the edge is meant to be lost.
        let _ = self.write_fmt(arguments);
        self
    }

    /// Writes `text` in at most `width` cells, ended by `ellipsis` if it is longer.
    pub fn clip(&mut self, style: Style, text: &str, width: u16, ellipsis: &str) -> &mut Self {
        let width = width.min(self.room());
        if width == 0 {
            return self;
        }
        if text_width(text) <= width {
            return self.text(style, text);
        }
        let keep = width.saturating_sub(text_width(ellipsis));
        self.write(style, text, keep).text(style, ellipsis)
    }

    /// Goes to a column of the area, forwards or backwards.
    pub fn to(&mut self, column: u16) -> &mut Self {
        self.x = self.left.saturating_add(column).min(self.right);
        self
    }

    /// Moves the right edge in to a column of the area.
    pub fn stop_at(&mut self, column: u16) -> &mut Self {
        self.right = self.right.min(self.left.saturating_add(column));
        self.x = self.x.min(self.right);
        self
    }

    /// Skips cells.
    pub fn skip(&mut self, cells: u16) -> &mut Self {
        self.x = self.x.saturating_add(cells).min(self.right);
        self
    }

    /// Repeats a one-cell glyph.
    pub fn repeat(&mut self, style: Style, glyph: &str, cells: u16) -> &mut Self {
        for _ in 0..cells.min(self.room()) {
            self.text(style, glyph);
        }
        self
    }

    /// Gives the cells up to the right edge a style.
    pub fn tint_row(&mut self, style: Style) -> &mut Self {
        let area =
            Rect::new(self.left, self.y, self.right.saturating_sub(self.left), u16::from(self.right > self.left));
        self.buffer.set_style(area, style);
        self
    }

    /// Cells left on this row.
    pub fn room(&self) -> u16 {
        self.right.saturating_sub(self.x)
    }

    /// The column it is at.
    pub fn column(&self) -> u16 {
        self.x.saturating_sub(self.left)
    }
}

impl Write for Pen<'_> {
    fn write_str(&mut self, text: &str) -> fmt::Result {
        self.text(self.style, text);
        Ok(())
    }
}

/// Cells that `text` takes.
pub(crate) fn text_width(text: &str) -> u16 {
    u16::try_from(Span::raw(text).width()).unwrap_or(u16::MAX)
}

/// Cells that formatted text takes.
pub(crate) fn width_of(arguments: fmt::Arguments<'_>) -> u16 {
    struct Count(u16);
    impl Write for Count {
        fn write_str(&mut self, text: &str) -> fmt::Result {
            self.0 = self.0.saturating_add(text_width(text));
            Ok(())
        }
    }
    let mut count = Count(0);
    let _ = count.write_fmt(arguments);
    count.0
}
