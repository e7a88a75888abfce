//! Compressors: running state of every token, and the pooled entry of every full window (dsv4.md 1.6, 2.4).

use std::sync::Arc;

use super::query::transform;
use super::{ExpandedMetadata, IndexBuffer, KvBuffer, RATIO4_REACH, RawMetadata, Tensor};
use crate::math::{PoolSlot, RotaryTable, compress_pool, rms_norm};
use crate::{Access, ByteRange, Compute, Memory, Mode, Operator, Part, Views};

/// Where pooled entries go.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum EntryPool {
    /// KV rows that attention reads.
    Kv(KvBuffer),
    /// Keys that the indexer reads.
    Index(IndexBuffer),
}

impl EntryPool {
    fn range(&self) -> ByteRange {
        match self {
            Self::Kv(pool) => pool.range,
            Self::Index(pool) => pool.range,
        }
    }
}

/// How many tokens make an entry.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ratio {
    /// Four, overlapping the four before.
    Four,
    /// 128, with this many state rows a request.
    OneHundredTwentyEight {
        /// State rows of a request.
        ring: usize,
    },
}

impl Ratio {
    /// Tokens of an entry.
    pub fn tokens(self) -> usize {
        match self {
            Self::Four => 4,
            Self::OneHundredTwentyEight { .. } => 128,
        }
    }
}

/// Weights of a compressor beside its projections.
#[derive(Clone, Debug)]
pub struct CompressorWeights {
    /// Norm of the pooled entry, `[dimension]`.
    pub norm: Arc<Vec<f32>>,
    /// Score bias of each position in a window, `[ratio, c * dimension]`.
    pub position_bias: Arc<Vec<f32>>,
    /// Epsilon of the norm.
    pub epsilon: f32,
    /// Rotary angles of entries.
    pub rotary: Arc<RotaryTable>,
    /// Rotary values of an entry, the last ones.
    pub rope: usize,
}

/// Writes each token's state row and, where a window is full, its entry.
///
/// A row's input is its state row: for ratio 4 `kv A, kv B, score A, score B`, for ratio 128 `kv, score`.
#[derive(Debug)]
pub struct Compress {
    accesses: [Access; 7],
    rows: usize,
    columns: usize,
    locations: Tensor,
    ratio: Ratio,
    dimension: usize,
    pool: EntryPool,
    weights: CompressorWeights,
}

impl Compress {
    /// A compressor of `input` rows with `state` rows, storing to `pool`.
    pub fn new(
        raw: RawMetadata,
        expanded: ExpandedMetadata,
        input: Tensor,
        state: ByteRange,
        ratio: Ratio,
        pool: EntryPool,
        weights: CompressorWeights,
    ) -> Self {
        let locations = match ratio {
            Ratio::Four => expanded.c4_out_loc,
            Ratio::OneHundredTwentyEight { .. } => expanded.c128_out_loc,
        };
        let accesses = [
            raw.seq_lens.read(),
            raw.req_pool_indices.read(),
            locations.read(),
            expanded.c4_state_rows.read(),
            input.read(),
            Access::resolved(state, Mode::ReadWrite),
            Access::resolved(pool.range(), Mode::Write),
        ];
        let dimension = match pool {
            EntryPool::Kv(pool) => pool.head,
            EntryPool::Index(pool) => pool.dimension,
        };
        Self { accesses, rows: raw.seq_lens.rows(), columns: input.columns, locations, ratio, dimension, pool, weights }
    }

    fn pool_window(&self, state: &[f32], rows: &[usize], compute: Compute, entry: &mut [f32]) {
        let (dimension, columns) = (self.dimension, self.columns);
        let half = columns / 2;
        let slot = |index: usize| {
            let row = rows[index];
            // A window of ratio 4 pools series A of the tokens before it and series B of its own.
            let (series, bias_row) = match self.ratio {
                Ratio::Four => (usize::from(index + 4 >= rows.len()) * dimension, index % 4),
                Ratio::OneHundredTwentyEight { .. } => (0, index),
            };
            PoolSlot {
                values: &state[row * columns + series..][..dimension],
                scores: &state[row * columns + half + series..][..dimension],
                biases: &self.weights.position_bias[bias_row * half + series..][..dimension],
            }
        };
        compress_pool(compute.cpu, rows.len(), slot, entry);
    }
}

impl Operator for Compress {
    fn accesses(&self) -> &[Access] {
        &self.accesses
    }

    fn tiles(&self) -> usize {
        self.rows
    }

    fn run(&self, mut views: Views<'_>, part: Part, compute: Compute) {
        let lengths = views.read::<i32>();
        let requests = views.read::<i32>();
        let locations = views.read::<i32>();
        let state_rows = views.read::<i32>();
        let input = views.read::<f32>();
        let state = views.write::<f32>();
        let pool = views.write::<u8>();
        let mut entry = vec![0f32; self.dimension];
        let mut normed = vec![0f32; self.dimension];
        let mut rows = [0usize; 128];
        // In order: the tokens of one request follow each other in a prefill.
        for row in part.tiles(self.rows) {
            let Ok(slot) = usize::try_from(locations[row]) else { continue };
            let length = lengths[row].max(1) as usize;
            let written = match self.ratio {
                Ratio::Four => state_rows[(row + 1) * RATIO4_REACH - 1].max(0) as usize,
                Ratio::OneHundredTwentyEight { ring } => requests[row].max(0) as usize * ring + (length - 1) % ring,
            };
            state[written * self.columns..][..self.columns]
                .copy_from_slice(&input[row * self.columns..][..self.columns]);
            let ratio = self.ratio.tokens();
            if !length.is_multiple_of(ratio) {
                continue;
            }
            let count = match self.ratio {
                Ratio::Four => {
                    let mut count = 0;
                    for &source in &state_rows[row * RATIO4_REACH..][..RATIO4_REACH] {
                        if let Ok(source) = usize::try_from(source) {
                            rows[count] = source;
                            count += 1;
                        }
                    }
                    count
                }
                Ratio::OneHundredTwentyEight { ring } => {
                    let request = requests[row].max(0) as usize;
                    for (index, cell) in rows.iter_mut().enumerate() {
                        *cell = request * ring + (length - 128 + index) % ring;
                    }
                    128
                }
            };
            self.pool_window(state, &rows[..count], compute, &mut entry);
            rms_norm(compute.cpu, &entry, Some(&self.weights.norm), self.weights.epsilon, &mut normed);
            self.weights.rotary.rotate(&mut normed[self.dimension - self.weights.rope..], length - ratio);
            match &self.pool {
                EntryPool::Kv(buffer) => buffer.store(pool, slot, &normed),
                EntryPool::Index(buffer) => {
                    transform(compute.cpu, &mut normed);
                    buffer.store(pool, slot, &normed);
                }
            }
        }
    }

    fn resolve(&self, memory: &Memory, access: usize, tile: usize, ranges: &mut Vec<ByteRange>) {
        if access != 6 {
            // State rows of one window lie in up to two pages; the whole pool is the honest bound.
            ranges.push(self.accesses[access].range);
            return;
        }
        let Ok(slot) = usize::try_from(memory.slice::<i32>(self.locations.range)[tile]) else { return };
        match &self.pool {
            EntryPool::Kv(buffer) => buffer.layout.slot_ranges(buffer.range, slot, ranges),
            EntryPool::Index(buffer) => buffer.layout.slot_ranges(buffer.range, slot, ranges),
        }
    }
}
