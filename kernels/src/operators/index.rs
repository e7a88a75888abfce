//! The ratio-4 indexer: scores of entries and the selection (dsv4.md 1.7).

use super::rows::{RowsMut, spread};
use super::{ExpandedMetadata, IndexBuffer, Tensor};
use crate::math::{index_scores, top_k};
use crate::{Access, ByteRange, Compute, Memory, Mode, Operator, Part, Views};

/// Scores every visible entry of every row.
#[derive(Debug)]
pub struct IndexLogits {
    accesses: [Access; 6],
    query: Tensor,
    weights: Tensor,
    logits: Tensor,
    page_table: Tensor,
    lengths: Tensor,
    keys: IndexBuffer,
    scale: f32,
}

impl IndexLogits {
    /// Scores `keys` for `query` with head `weights` (times `scale`) into `logits`.
    pub fn new(
        expanded: ExpandedMetadata,
        query: Tensor,
        weights: Tensor,
        scale: f32,
        keys: IndexBuffer,
        logits: Tensor,
    ) -> Self {
        let accesses = [
            expanded.page_table.read(),
            expanded.c4_lengths.read(),
            query.read(),
            weights.read(),
            Access::resolved(keys.range, Mode::Read),
            logits.write(),
        ];
        Self {
            accesses,
            query,
            weights,
            logits,
            page_table: expanded.page_table,
            lengths: expanded.c4_lengths,
            keys,
            scale,
        }
    }
}

impl Operator for IndexLogits {
    fn accesses(&self) -> &[Access] {
        &self.accesses
    }

    fn tiles(&self) -> usize {
        self.logits.rows()
    }

    fn run(&self, mut views: Views<'_>, part: Part, compute: Compute) {
        let pages = views.read::<i32>();
        let lengths = views.read::<i32>();
        let query = views.read::<f32>();
        let weights = views.read::<f32>();
        let keys = views.read::<u8>();
        let logits = views.write::<f32>();
        let rows = part.tiles(self.tiles());
        let (heads, dimension, width) = (self.weights.columns, self.keys.dimension, self.logits.columns);
        let slots = self.keys.layout.slots;
        spread(compute.workers, rows.clone(), RowsMut::new(logits, width, &rows), &|rows, mut out| {
            let mut transposed = vec![0f32; dimension * width];
            let mut scaled = vec![0f32; heads];
            for (index, row) in rows.enumerate() {
                let count = (lengths[row].max(0) as usize).min(width);
                let table = &pages[row * self.page_table.columns..][..self.page_table.columns];
                for entry in 0..count {
                    let slot = table[entry / slots].max(0) as usize * slots + entry % slots;
                    self.keys.load_transposed(keys, slot, &mut transposed, width, entry);
                }
                for (scaled, weight) in scaled.iter_mut().zip(&weights[row * heads..]) {
                    *scaled = weight * self.scale;
                }
                let q = &query[row * self.query.columns..][..heads * dimension];
                index_scores(
                    compute.cpu,
                    q,
                    &scaled,
                    heads,
                    dimension,
                    &transposed,
                    width,
                    count,
                    &mut out.row(index)[..count],
                );
            }
        });
    }

    fn resolve(&self, memory: &Memory, _access: usize, tile: usize, ranges: &mut Vec<ByteRange>) {
        let count = (memory.slice::<i32>(self.lengths.range)[tile].max(0) as usize).min(self.logits.columns);
        let table = &memory.slice::<i32>(self.page_table.range)[tile * self.page_table.columns..];
        let slots = self.keys.layout.slots;
        for page in &table[..count.div_ceil(slots)] {
            ranges.push(self.keys.range.part((*page).max(0) as usize * self.keys.layout.page, self.keys.layout.page));
        }
    }
}

/// Selects the entries with the largest scores, in ascending order of entry; the lowest entry wins ties.
#[derive(Debug)]
pub struct IndexTopK {
    accesses: [Access; 5],
    logits: Tensor,
    page_table: Tensor,
    selected: Tensor,
    slots: usize,
}

impl IndexTopK {
    /// Selects from `logits` into the shared slot table and, as logical entries, into `tap`.
    pub fn new(expanded: ExpandedMetadata, logits: Tensor, tap: Tensor, slots: usize) -> Self {
        let accesses = [
            expanded.page_table.read(),
            expanded.c4_lengths.read(),
            // A block loads its whole row of scores before it selects.
            logits.read(),
            expanded.c4_sparse_page_indices.write(),
            tap.write(),
        ];
        Self { accesses, logits, page_table: expanded.page_table, selected: expanded.c4_sparse_page_indices, slots }
    }
}

impl Operator for IndexTopK {
    fn accesses(&self) -> &[Access] {
        &self.accesses
    }

    fn tiles(&self) -> usize {
        self.logits.rows()
    }

    fn run(&self, mut views: Views<'_>, part: Part, compute: Compute) {
        let pages = views.read::<i32>();
        let lengths = views.read::<i32>();
        let logits = views.read::<f32>();
        let selected = views.write::<i32>();
        let tap = views.write::<i32>();
        let rows = part.tiles(self.tiles());
        let (width, k) = (self.logits.columns, self.selected.columns);
        let outputs = (RowsMut::new(selected, k, &rows), RowsMut::new(tap, k, &rows));
        spread(compute.workers, rows, outputs, &|rows, (mut selected, mut tap)| {
            for (index, row) in rows.enumerate() {
                let count = (lengths[row].max(0) as usize).min(width);
                let entries = tap.row(index);
                top_k(compute.cpu, &logits[row * width..][..count], k, entries);
                let table = &pages[row * self.page_table.columns..][..self.page_table.columns];
                for (slot, entry) in selected.row(index).iter_mut().zip(entries) {
                    *slot = usize::try_from(*entry)
                        .map_or(-1, |e| table[e / self.slots] * self.slots as i32 + (e % self.slots) as i32);
                }
            }
        });
    }
}

/// Columns of the score matrix of sequences that hold at most `context` tokens, a multiple of 64.
pub fn index_logits_columns(context: usize) -> usize {
    (context / 4).max(1).next_multiple_of(64)
}
