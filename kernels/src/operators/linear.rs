//! Dense matrix products.

use std::sync::Arc;

use super::Tensor;
use super::rows::{RowsMut, spread};
use crate::math::{PackedMatrix, matmul, matmul_panels};
use crate::{Access, Compute, Operator, Part, Views};

/// Columns that a tile of a product covers, as a served GEMM's blocks do.
pub const PRODUCT_TILE_COLUMNS: usize = 128;

/// Panels of a packed matrix in one tile.
const TILE_PANELS: usize = PRODUCT_TILE_COLUMNS / PackedMatrix::panel_width();

/// `y = x W^T`, every tile some columns of all rows, as a tiled GEMM writes.
#[derive(Debug)]
pub struct Linear {
    accesses: [Access; 2],
    input: Tensor,
    output: Tensor,
    weight: Arc<PackedMatrix>,
}

impl Linear {
    /// The product of the rows of `input` with `weight`, into `output`.
    pub fn new(input: Tensor, weight: Arc<PackedMatrix>, output: Tensor) -> Self {
        assert_eq!((input.columns, output.columns), (weight.inputs(), weight.outputs()), "shapes of a product");
        let width = PRODUCT_TILE_COLUMNS * 4;
        let accesses = [input.read_whole(), Access::write_columns(output.range, output.stride(), width)];
        Self { accesses, input, output, weight }
    }
}

impl Operator for Linear {
    fn accesses(&self) -> &[Access] {
        &self.accesses
    }

    fn tiles(&self) -> usize {
        self.weight.panels().div_ceil(TILE_PANELS)
    }

    fn row_of_tile(&self, _tile: usize) -> Option<usize> {
        None
    }

    fn run(&self, mut views: Views<'_>, part: Part, compute: Compute) {
        let (input, output) = (views.read::<f32>(), views.write::<f32>());
        let (inputs, outputs, rows) = (self.input.columns, self.output.columns, self.output.rows());
        match part {
            Part::Tiles(tiles) => {
                let panels = tiles.start * TILE_PANELS..(tiles.end * TILE_PANELS).min(self.weight.panels());
                matmul_panels(compute.cpu, input, inputs, rows, &self.weight, panels, output, outputs);
            }
            Part::All => {
                let all = 0..rows;
                spread(compute.workers, all.clone(), RowsMut::new(output, outputs, &all), &|rows, out| {
                    let x = &input[rows.start * inputs..rows.end * inputs];
                    matmul(compute.cpu, x, inputs, rows.len(), &self.weight, out.data, outputs);
                });
            }
        }
    }
}

/// The grouped low-rank output projection: each group of heads times its own block (dsv4.md 1.4).
#[derive(Debug)]
pub struct GroupedLinear {
    accesses: [Access; 2],
    input: Tensor,
    output: Tensor,
    groups: Vec<Arc<PackedMatrix>>,
}

impl GroupedLinear {
    /// Products of the consecutive groups of a row of `input` with one matrix each, concatenated.
    pub fn new(input: Tensor, groups: Vec<Arc<PackedMatrix>>, output: Tensor) -> Self {
        assert_eq!(groups.iter().map(|g| g.inputs()).sum::<usize>(), input.columns, "groups cover the input");
        assert_eq!(groups.iter().map(|g| g.outputs()).sum::<usize>(), output.columns, "groups cover the output");
        Self { accesses: [input.read(), output.write()], input, output, groups }
    }
}

impl Operator for GroupedLinear {
    fn accesses(&self) -> &[Access] {
        &self.accesses
    }

    fn tiles(&self) -> usize {
        self.output.rows()
    }

    fn run(&self, mut views: Views<'_>, part: Part, compute: Compute) {
        let (input, output) = (views.read::<f32>(), views.write::<f32>());
        let (inputs, outputs) = (self.input.columns, self.output.columns);
        let rows = part.tiles(self.tiles());
        spread(compute.workers, rows.clone(), RowsMut::new(output, outputs, &rows), &|rows, out| {
            let (mut from, mut to) = (rows.start * inputs, 0);
            for group in &self.groups {
                matmul(compute.cpu, &input[from..], inputs, rows.len(), group, &mut out.data[to..], outputs);
                from += group.inputs();
                to += group.outputs();
            }
        });
    }
}
