//! Tokens to residual streams.

use std::sync::Arc;

use super::Tensor;
use crate::{Access, Compute, Operator, Part, Views};

/// Copies a token's embedding into each of its residual streams.
#[derive(Debug)]
pub struct Embed {
    accesses: [Access; 2],
    streams: Tensor,
    table: Arc<Vec<f32>>,
    hidden: usize,
}

impl Embed {
    /// Looks `input_ids` up in `table`, `[vocabulary, hidden]`, and fills every stream of `streams`.
    pub fn new(input_ids: Tensor, table: Arc<Vec<f32>>, hidden: usize, streams: Tensor) -> Self {
        Self { accesses: [input_ids.read(), streams.write()], streams, table, hidden }
    }
}

impl Operator for Embed {
    fn accesses(&self) -> &[Access] {
        &self.accesses
    }

    fn tiles(&self) -> usize {
        self.streams.rows()
    }

    fn run(&self, mut views: Views<'_>, part: Part, _compute: Compute) {
        let (ids, streams) = (views.read::<i32>(), views.write::<f32>());
        let last = self.table.len() / self.hidden - 1;
        for row in part.tiles(self.tiles()) {
            let token = (ids[row].max(0) as usize).min(last);
            let embedding = &self.table[token * self.hidden..][..self.hidden];
            for stream in streams[row * self.streams.columns..][..self.streams.columns].chunks_exact_mut(self.hidden) {
                stream.copy_from_slice(embedding);
            }
        }
    }
}
