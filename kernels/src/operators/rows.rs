//! Spreading rows over workers.

use std::ops::Range;

/// Something that divides at a row.
pub(crate) trait SplitRows: Sized + Send {
    /// The first `rows` rows and the rest.
    fn split(self, rows: usize) -> (Self, Self);
}

/// Output rows.
pub(crate) struct RowsMut<'a, T> {
    pub(crate) data: &'a mut [T],
    stride: usize,
}

impl<'a, T> RowsMut<'a, T> {
    /// The rows `range` of a matrix with `stride` values a row.
    pub(crate) fn new(data: &'a mut [T], stride: usize, range: &Range<usize>) -> Self {
        Self { data: &mut data[range.start * stride..range.end * stride], stride }
    }

    /// One row of this part.
    pub(crate) fn row(&mut self, index: usize) -> &mut [T] {
        &mut self.data[index * self.stride..(index + 1) * self.stride]
    }
}

impl<T: Send> SplitRows for RowsMut<'_, T> {
    fn split(self, rows: usize) -> (Self, Self) {
        let (a, b) = self.data.split_at_mut(rows * self.stride);
        (Self { data: a, stride: self.stride }, Self { data: b, stride: self.stride })
    }
}

impl<A: SplitRows, B: SplitRows> SplitRows for (A, B) {
    fn split(self, rows: usize) -> (Self, Self) {
        let ((a, c), (b, d)) = (self.0.split(rows), self.1.split(rows));
        ((a, b), (c, d))
    }
}

impl<A: SplitRows, B: SplitRows, C: SplitRows> SplitRows for (A, B, C) {
    fn split(self, rows: usize) -> (Self, Self) {
        let ((a, d), (b, e), (c, f)) = (self.0.split(rows), self.1.split(rows), self.2.split(rows));
        ((a, b, c), (d, e, f))
    }
}

/// Below this many rows a worker costs more than it brings.
const FEWEST_ROWS: usize = 4;

/// Calls `run` on parts of `rows`, at most one a worker, at the same time.
pub(crate) fn spread<S: SplitRows>(
    workers: usize,
    rows: Range<usize>,
    output: S,
    run: &(impl Fn(Range<usize>, S) + Sync),
) {
    if workers <= 1 || rows.len() < 2 * FEWEST_ROWS {
        return run(rows, output);
    }
    let left = workers / 2;
    let middle = rows.start + (rows.len() * left).div_ceil(workers);
    let (first, second) = output.split(middle - rows.start);
    rayon::join(
        || spread(left, rows.start..middle, first, run),
        || spread(workers - left, middle..rows.end, second, run),
    );
}
