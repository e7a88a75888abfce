//! A matrix in device memory.

use crate::{Access, ByteRange};

/// Rows of four-byte values (f32 or i32) in device memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Tensor {
    /// The bytes of all rows.
    pub range: ByteRange,
    /// Values in a row.
    pub columns: usize,
}

impl Tensor {
    /// Bytes that `rows` rows of `columns` values take.
    pub fn bytes(rows: usize, columns: usize) -> usize {
        rows * columns * 4
    }

    /// The first `rows` rows of `columns` values at `range`.
    ///
    /// # Panics
    /// When they do not fit.
    pub fn new(range: ByteRange, rows: usize, columns: usize) -> Self {
        Self { range: range.part(0, Self::bytes(rows, columns)), columns }
    }

    /// Bytes of one row.
    pub fn stride(&self) -> usize {
        self.columns * 4
    }

    /// Number of rows.
    pub fn rows(&self) -> usize {
        self.range.length / self.stride()
    }

    /// Each tile reads its row.
    pub fn read(&self) -> Access {
        Access::read_rows(self.range, self.stride())
    }

    /// Each tile reads all rows.
    pub fn read_whole(&self) -> Access {
        Access::read(self.range)
    }

    /// Each tile writes its row.
    pub fn write(&self) -> Access {
        Access::write_rows(self.range, self.stride())
    }

    /// Each tile changes its row in place.
    pub fn change(&self) -> Access {
        Access::change_rows(self.range, self.stride())
    }
}
