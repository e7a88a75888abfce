//! Matrix products with weights packed once.
//!
//! A lane is an output column and every output is the chain `acc = fma(x[k], w[k], acc)` for k = 0, 1, .. from zero,
//! whatever the rows, panels or threads around it. So a row's result does not depend on the batch it sits in.

use super::cpu::{Cpu, Kernel, LANES, Lanes};
use std::ops::Range;

/// Rows of `x` that pass over a group of panels before the next group; they stay in the second-level cache.
const ROWS_A_PASS: usize = 96;

/// Most rows that one tile holds in registers.
const TILE_ROWS: usize = 12;

/// A weight matrix `[outputs, inputs]` laid out for [`matmul`]: panels of [`PackedMatrix::panel_width`] outputs,
/// each contiguous as `[inputs][width]`, the last one padded with zeros.
#[derive(Clone, Debug)]
pub struct PackedMatrix {
    outputs: usize,
    inputs: usize,
    /// `[panel][input]`.
    columns: Vec<[f32; LANES]>,
}

impl PackedMatrix {
    /// Packs row-major `weights` of shape `[rows_out, columns_in]`, as checkpoints store a linear layer.
    ///
    /// # Panics
    /// If `weights` does not have `rows_out * columns_in` elements.
    pub fn pack(rows_out: usize, columns_in: usize, weights: &[f32]) -> Self {
        assert_eq!(weights.len(), rows_out * columns_in, "weights are not [{rows_out}, {columns_in}]");
        let panels = rows_out.div_ceil(LANES);
        let mut columns = vec![[0.0; LANES]; panels * columns_in];
        for output in 0..rows_out {
            let (panel, lane) = (output / LANES, output % LANES);
            let row = &weights[output * columns_in..][..columns_in];
            for (column, &weight) in columns[panel * columns_in..].iter_mut().zip(row) {
                column[lane] = weight;
            }
        }
        Self { outputs: rows_out, inputs: columns_in, columns }
    }

    /// N, the length of an output row.
    pub fn outputs(&self) -> usize {
        self.outputs
    }

    /// K, the length of an input row.
    pub fn inputs(&self) -> usize {
        self.inputs
    }

    /// Outputs in one panel.
    pub const fn panel_width() -> usize {
        LANES
    }

    /// Number of panels, the last one possibly partly padding.
    pub fn panels(&self) -> usize {
        self.outputs.div_ceil(LANES)
    }

    /// Bytes of the packed weights, padding included.
    pub fn bytes(&self) -> usize {
        size_of_val(self.columns.as_slice())
    }

    #[inline(always)]
    fn panel(&self, panel: usize) -> &[[f32; LANES]] {
        &self.columns[panel * self.inputs..][..self.inputs]
    }
}

/// `y[r][n] = sum_k x[r][k] * W[n][k]` for `rows` rows: row `r` of `x` starts at `r * x_stride`, of `y` at
/// `r * y_stride`. Elements of `y` between rows are left alone.
///
/// # Panics
/// If a stride is shorter than its row or a slice too short for `rows`.
pub fn matmul(cpu: Cpu, x: &[f32], x_stride: usize, rows: usize, w: &PackedMatrix, y: &mut [f32], y_stride: usize) {
    matmul_panels(cpu, x, x_stride, rows, w, 0..w.panels(), y, y_stride);
}

/// As [`matmul`], but computes and writes only the output columns of `panels`, that is
/// `panels.start * width .. min(panels.end * width, N)`, at their place in the full-width `y`.
///
/// # Panics
/// As [`matmul`], and if `panels` reaches past [`PackedMatrix::panels`].
pub fn matmul_panels(
    cpu: Cpu,
    x: &[f32],
    x_stride: usize,
    rows: usize,
    w: &PackedMatrix,
    panels: Range<usize>,
    y: &mut [f32],
    y_stride: usize,
) {
    let last = rows.saturating_sub(1);
    check(w, &panels, rows, y, y_stride);
    assert!(
        rows == 0 || (x_stride >= w.inputs && x.len() >= last * x_stride + w.inputs),
        "x is too short for {rows} rows of {}",
        w.inputs
    );
    cpu.run(Product { x, x_stride, rows, indices: None, w, panels, y, y_stride });
}

/// Row `i` of `y` is `x[row_indices[i]] W^T`: an expert on the tokens routed to it. Each row is bit for bit what
/// [`matmul`] gives for it.
///
/// # Panics
/// As [`matmul`], and if an index points past the end of `x`.
pub fn matmul_gather(
    cpu: Cpu,
    x: &[f32],
    x_stride: usize,
    row_indices: &[u32],
    w: &PackedMatrix,
    y: &mut [f32],
    y_stride: usize,
) {
    let panels = 0..w.panels();
    let rows = row_indices.len();
    check(w, &panels, rows, y, y_stride);
    for &row in row_indices {
        assert!(x.len() >= row as usize * x_stride + w.inputs, "row {row} is past the end of x");
    }
    cpu.run(Product { x, x_stride, rows, indices: Some(row_indices), w, panels, y, y_stride });
}

/// `y[i] = fma(scale, x[i], y[i])`: adds one expert's output with its routing weight.
///
/// # Panics
/// If the lengths differ.
pub fn add_scaled(cpu: Cpu, scale: f32, x: &[f32], y: &mut [f32]) {
    assert_eq!(x.len(), y.len(), "add_scaled: lengths differ");
    cpu.run(AddScaled { scale, x, y });
}

fn check(w: &PackedMatrix, panels: &Range<usize>, rows: usize, y: &[f32], y_stride: usize) {
    assert!(panels.start <= panels.end && panels.end <= w.panels(), "panels {panels:?} of {}", w.panels());
    assert!(
        rows == 0 || (y_stride >= w.outputs && y.len() >= (rows - 1) * y_stride + w.outputs),
        "y is too short for {rows} rows of {}",
        w.outputs
    );
}

struct Product<'a> {
    x: &'a [f32],
    x_stride: usize,
    rows: usize,
    /// Where row `i` of the product lies in `x`; `None`: at `i`.
    indices: Option<&'a [u32]>,
    w: &'a PackedMatrix,
    panels: Range<usize>,
    y: &'a mut [f32],
    y_stride: usize,
}

impl Kernel for Product<'_> {
    type Output = ();

    #[inline(always)]
    fn run<L: Lanes>(mut self, lanes: L) {
        let tile_rows = TILE_ROWS.min(L::ACCUMULATORS);
        for start in (0..self.rows).step_by(ROWS_A_PASS) {
            let end = self.rows.min(start + ROWS_A_PASS);
            // Tiles of nearly equal height: 13 rows are 7 and 6, not 12 and 1.
            let tiles = (end - start).div_ceil(tile_rows);
            let height = (end - start).div_ceil(tiles);
            let group = group_of::<L>(height);
            let mut panel = self.panels.start;
            while panel < self.panels.end {
                let left = self.panels.end - panel;
                // Powers of two up to the group that the registers hold.
                let width = group.min(1 << left.ilog2());
                let mut row = start;
                while row < end {
                    let here = height.min(end - row);
                    self.tile_of(lanes, row, here, panel, width);
                    row += here;
                }
                panel += width;
            }
        }
    }
}

/// How many panels a tile of `rows` rows covers: as many accumulators as the registers hold, since few rows need
/// several chains in flight to hide the latency of the additions.
#[inline(always)]
fn group_of<L: Lanes>(rows: usize) -> usize {
    let fit = (L::ACCUMULATORS / rows).max(1);
    (1 << fit.ilog2()).min(8)
}

impl Product<'_> {
    #[inline(always)]
    fn tile_of<L: Lanes>(&mut self, lanes: L, row: usize, rows: usize, panel: usize, width: usize) {
        macro_rules! choose {
            ($($rows:literal: $($width:literal)+;)+) => {
                match (rows, width) {
                    $($(($rows, $width) if $rows * $width <= L::ACCUMULATORS => {
                        self.tile::<L, $rows, $width>(lanes, row, panel)
                    })+)+
                    _ => unreachable!("no tile of {rows} rows and {width} panels"),
                }
            };
        }
        choose! {
            1: 1 2 4 8;
            2: 1 2 4 8;
            3: 1 2 4 8;
            4: 1 2 4;
            5: 1 2 4;
            6: 1 2 4;
            7: 1 2;
            8: 1 2;
            9: 1 2;
            10: 1 2;
            11: 1 2;
            12: 1 2;
        }
    }

    /// `R` rows by `P` panels, in registers.
    #[inline(always)]
    fn tile<L: Lanes, const R: usize, const P: usize>(&mut self, lanes: L, row: usize, panel: usize) {
        let inputs = self.w.inputs;
        let x: [&[f32]; R] = std::array::from_fn(
            #[inline(always)]
            |r| {
                let row = self.indices.map_or(row + r, |indices| indices[row + r] as usize);
                &self.x[row * self.x_stride..][..inputs]
            },
        );
        let w: [&[[f32; LANES]]; P] = std::array::from_fn(
            #[inline(always)]
            |p| &self.w.panel(panel + p)[..inputs],
        );
        let mut sums = [[lanes.zero(); P]; R];
        for k in 0..inputs {
            let mut columns = [lanes.zero(); P];
            for p in 0..P {
                columns[p] = lanes.load(&w[p][k]);
            }
            for r in 0..R {
                let value = lanes.splat(x[r][k]);
                for p in 0..P {
                    sums[r][p] = lanes.fma(value, columns[p], sums[r][p]);
                }
            }
        }
        for r in 0..R {
            let y = &mut self.y[(row + r) * self.y_stride..][..self.w.outputs];
            for p in 0..P {
                let values = lanes.store(sums[r][p]);
                let y = &mut y[(panel + p) * LANES..];
                match y.first_chunk_mut::<LANES>() {
                    Some(full) => *full = values,
                    None => {
                        let width = y.len();
                        y.copy_from_slice(&values[..width]);
                    }
                }
            }
        }
    }
}

struct AddScaled<'a> {
    scale: f32,
    x: &'a [f32],
    y: &'a mut [f32],
}

impl Kernel for AddScaled<'_> {
    type Output = ();

    #[inline(always)]
    fn run<L: Lanes>(self, lanes: L) {
        let scale = lanes.splat(self.scale);
        let (x, x_rest) = self.x.as_chunks::<LANES>();
        let (y, y_rest) = self.y.as_chunks_mut::<LANES>();
        for (x, y) in x.iter().zip(y) {
            *y = lanes.store(lanes.fma(scale, lanes.load(x), lanes.load(y)));
        }
        for (x, y) in x_rest.iter().zip(y_rest) {
            *y = self.scale.mul_add(*x, *y);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::testing::{bits, close, levels, same_everywhere, values};
    use super::*;

    /// Every output as the chain that the module promises.
    fn chain(x: &[f32], x_stride: usize, rows: usize, weights: &[f32], k: usize) -> Vec<f32> {
        let n = weights.len() / k;
        let mut y = Vec::new();
        for r in 0..rows {
            for o in 0..n {
                y.push((0..k).fold(0.0, |sum: f32, i| x[r * x_stride + i].mul_add(weights[o * k + i], sum)));
            }
        }
        y
    }

    fn full(cpu: Cpu, x: &[f32], x_stride: usize, rows: usize, w: &PackedMatrix) -> Vec<f32> {
        let mut y = vec![9.0; rows * w.outputs()];
        matmul(cpu, x, x_stride, rows, w, &mut y, w.outputs());
        y
    }

    #[test]
    fn every_element_is_its_chain() {
        for (k, n) in [(32, 4), (48, 16), (33, 24), (7, 150), (64, 129), (1, 1)] {
            let weights = values(k as u64, k * n);
            let w = PackedMatrix::pack(n, k, &weights);
            for rows in [0, 1, 2, 3, 5, 6, 7, 11, 13, 16, 64, 99, 200] {
                if rows * k * n > 300_000 {
                    continue;
                }
                let x = values(rows as u64, rows * (k + 3));
                let expected = chain(&x, k + 3, rows, &weights, k);
                for cpu in levels() {
                    let y = full(cpu, &x, k + 3, rows, &w);
                    assert_eq!(bits(&y), bits(&expected), "{} {k} {n} {rows}", cpu.level());
                }
            }
        }
    }

    #[test]
    fn close_to_exact() {
        let (k, n) = (768, 24);
        let (weights, x) = (values(1, k * n), values(2, k * 3));
        let w = PackedMatrix::pack(n, k, &weights);
        let exact: Vec<f64> = (0..3 * n)
            .map(|i| {
                let (x, w) = (&x[i / n * k..][..k], &weights[i % n * k..][..k]);
                x.iter().zip(w).map(|(&x, &w)| f64::from(x) * f64::from(w)).sum()
            })
            .collect();
        close(&full(Cpu::detect(), &x, k, 3, &w), &exact, 2e-5);
    }

    #[test]
    fn a_row_does_not_depend_on_the_batch() {
        let (k, n, rows) = (40, 72, 123);
        let (weights, x) = (values(3, k * n), values(4, k * rows));
        let w = PackedMatrix::pack(n, k, &weights);
        for cpu in levels() {
            let all = full(cpu, &x, k, rows, &w);
            for count in [1, 2, 4, 9, 12, 17, 97] {
                for start in [0, 1, rows - count] {
                    let some = full(cpu, &x[start * k..], k, count, &w);
                    assert_eq!(bits(&some), bits(&all[start * n..][..count * n]));
                }
            }
        }
    }

    #[test]
    fn panels_write_their_columns_only() {
        let (k, n, rows, stride) = (20, 70, 14, 75);
        let (weights, x) = (values(5, k * n), values(6, k * rows));
        let w = PackedMatrix::pack(n, k, &weights);
        for cpu in levels() {
            let all = full(cpu, &x, k, rows, &w);
            for panels in [0..0, 0..1, 1..4, 2..5, 4..5, 0..w.panels()] {
                let columns =
                    panels.start * PackedMatrix::panel_width()..n.min(panels.end * PackedMatrix::panel_width());
                let mut y = vec![7.0; rows * stride];
                matmul_panels(cpu, &x, k, rows, &w, panels, &mut y, stride);
                for (i, &value) in y.iter().enumerate() {
                    let (r, column) = (i / stride, i % stride);
                    if columns.contains(&column) {
                        assert_eq!(value.to_bits(), all[r * n + column].to_bits());
                    } else {
                        assert_eq!(value, 7.0, "row {r} column {column} was written");
                    }
                }
            }
        }
    }

    #[test]
    fn gathered_rows_are_the_rows() {
        let (k, n) = (36, 40);
        let (weights, x) = (values(7, k * n), values(8, k * 10));
        let w = PackedMatrix::pack(n, k, &weights);
        let rows = [3, 3, 9, 0, 7, 1, 2];
        for cpu in levels() {
            let all = full(cpu, &x, k, 10, &w);
            let mut y = vec![0.0; rows.len() * n];
            matmul_gather(cpu, &x, k, &rows, &w, &mut y, n);
            for (y, row) in y.chunks(n).zip(rows) {
                assert_eq!(bits(y), bits(&all[row as usize * n..][..n]));
            }
        }
    }

    #[test]
    fn scaled_rows_add_up() {
        for length in [0, 5, 16, 50] {
            let (x, y) = (values(9, length), values(10, length));
            let expected: Vec<f32> = x.iter().zip(&y).map(|(x, y)| x.mul_add(0.3, *y)).collect();
            let sum = same_everywhere(|cpu| {
                let mut y = y.clone();
                add_scaled(cpu, 0.3, &x, &mut y);
                y
            });
            assert_eq!(bits(&sum), bits(&expected));
        }
    }

    #[test]
    #[should_panic(expected = "x is too short for 2 rows")]
    fn short_input_is_refused() {
        let w = PackedMatrix::pack(4, 8, &[0.0; 32]);
        matmul(Cpu::detect(), &[0.0; 15], 8, 2, &w, &mut [0.0; 8], 4);
    }
}
