//! Norms and rotary positions of queries.

use std::sync::Arc;

use super::rows::{RowsMut, spread};
use super::{IndexFormat, Tensor, fp8_scale};
use crate::math::{Cpu, RotaryTable, bf16_decode, bf16_encode, e4m3_decode, e4m3_encode, hadamard, rms_norm};
use crate::{Access, Compute, Operator, Part, Views};

/// RMS norm of (the first columns of) rows.
#[derive(Debug)]
pub struct NormRows {
    accesses: [Access; 2],
    input: Tensor,
    output: Tensor,
    weight: Arc<Vec<f32>>,
    epsilon: f32,
}

impl NormRows {
    /// Normalises the first `output.columns` columns of `input`.
    pub fn new(input: Tensor, weight: Arc<Vec<f32>>, epsilon: f32, output: Tensor) -> Self {
        Self { accesses: [input.read(), output.write()], input, output, weight, epsilon }
    }
}

impl Operator for NormRows {
    fn accesses(&self) -> &[Access] {
        &self.accesses
    }

    fn tiles(&self) -> usize {
        self.output.rows()
    }

    fn run(&self, mut views: Views<'_>, part: Part, compute: Compute) {
        let (input, output) = (views.read::<f32>(), views.write::<f32>());
        let columns = self.output.columns;
        for row in part.tiles(self.tiles()) {
            let x = &input[row * self.input.columns..][..columns];
            let out = &mut output[row * columns..][..columns];
            rms_norm(compute.cpu, x, Some(&self.weight), self.epsilon, out);
        }
    }
}

/// Norm without weight and rotary positions of every query head, in place (dsv4.md 1.4).
#[derive(Debug)]
pub struct NormRotateQuery {
    accesses: [Access; 2],
    query: Tensor,
    head: usize,
    rope: usize,
    epsilon: f32,
    rotary: Arc<RotaryTable>,
}

impl NormRotateQuery {
    /// Changes `query`, heads of `head` values with `rope` rotary ones at the end.
    pub fn new(
        seq_lens: Tensor,
        query: Tensor,
        head: usize,
        rope: usize,
        epsilon: f32,
        rotary: Arc<RotaryTable>,
    ) -> Self {
        Self { accesses: [seq_lens.read(), query.change()], query, head, rope, epsilon, rotary }
    }
}

impl Operator for NormRotateQuery {
    fn accesses(&self) -> &[Access] {
        &self.accesses
    }

    fn tiles(&self) -> usize {
        self.query.rows()
    }

    fn run(&self, mut views: Views<'_>, part: Part, compute: Compute) {
        let (lengths, query) = (views.read::<i32>(), views.write::<f32>());
        let rows = part.tiles(self.tiles());
        let columns = self.query.columns;
        spread(compute.workers, rows.clone(), RowsMut::new(query, columns, &rows), &|rows, mut out| {
            let mut normed = vec![0f32; self.head];
            for (index, row) in rows.enumerate() {
                let position = (lengths[row].max(1) - 1) as usize;
                for head in out.row(index).chunks_exact_mut(self.head) {
                    rms_norm(compute.cpu, head, None, self.epsilon, &mut normed);
                    head.copy_from_slice(&normed);
                    self.rotary.rotate(&mut head[self.head - self.rope..], position);
                }
            }
        });
    }
}

/// Rotary positions, Hadamard and quantisation of every index query head, in place (dsv4.md 1.7).
#[derive(Debug)]
pub struct IndexQuery {
    accesses: [Access; 2],
    query: Tensor,
    dimension: usize,
    rope: usize,
    format: IndexFormat,
    rotary: Arc<RotaryTable>,
}

impl IndexQuery {
    /// Changes `query`, heads of `dimension` values; what the format cannot hold is rounded away.
    pub fn new(
        seq_lens: Tensor,
        query: Tensor,
        dimension: usize,
        rope: usize,
        format: IndexFormat,
        rotary: Arc<RotaryTable>,
    ) -> Self {
        Self { accesses: [seq_lens.read(), query.change()], query, dimension, rope, format, rotary }
    }
}

impl Operator for IndexQuery {
    fn accesses(&self) -> &[Access] {
        &self.accesses
    }

    fn tiles(&self) -> usize {
        self.query.rows()
    }

    fn run(&self, mut views: Views<'_>, part: Part, compute: Compute) {
        let (lengths, query) = (views.read::<i32>(), views.write::<f32>());
        let rows = part.tiles(self.tiles());
        let columns = self.query.columns;
        spread(compute.workers, rows.clone(), RowsMut::new(query, columns, &rows), &|rows, mut out| {
            for (index, row) in rows.enumerate() {
                let position = (lengths[row].max(1) - 1) as usize;
                for head in out.row(index).chunks_exact_mut(self.dimension) {
                    self.rotary.rotate(&mut head[self.dimension - self.rope..], position);
                    transform(compute.cpu, head);
                    match self.format {
                        IndexFormat::F32 => {}
                        IndexFormat::Bf16 => {
                            head.iter_mut().for_each(|value| *value = bf16_decode(bf16_encode(*value)));
                        }
                        IndexFormat::Fp8 => {
                            let scale = fp8_scale(head);
                            head.iter_mut().for_each(|value| *value = e4m3_decode(e4m3_encode(*value / scale)) * scale);
                        }
                    }
                }
            }
        });
    }
}

/// The Hadamard transform that spreads index vectors before rounding. It is orthonormal, so
/// products of two transformed vectors are products of the vectors; a dimension that is no
/// power of two goes without.
pub(super) fn transform(cpu: Cpu, vector: &mut [f32]) {
    if vector.len().is_power_of_two() {
        hadamard(cpu, vector);
    }
}
