//! Sparse attention over the window and the compressed entries (dsv4.md 1.4).

use std::sync::Arc;

use super::rows::{RowsMut, spread};
use super::{ExpandedMetadata, KvBuffer, Tensor};
use crate::math::{RotaryTable, attention_row};
use crate::{Access, ByteRange, Compute, Memory, Mode, Operator, Part, Views};

/// Compressed entries that a layer attends to beside its window.
#[derive(Clone, Copy, Debug)]
pub struct CompressedEntries {
    /// Their pool.
    pub pool: KvBuffer,
    /// Their slots, ascending, negative ones skipped: `[rows, most]`.
    pub slots: Tensor,
}

/// Joint softmax over window and entries with a sink, then the rotary part turned back.
#[derive(Debug)]
pub struct SparseAttention {
    accesses: Vec<Access>,
    query: Tensor,
    window: Tensor,
    window_pool: KvBuffer,
    entries: Option<CompressedEntries>,
    sinks: Arc<Vec<f32>>,
    rotary: Arc<RotaryTable>,
}

impl SparseAttention {
    /// Attention of `query` into `output`, `[rows, heads * head]` both.
    pub fn new(
        seq_lens: Tensor,
        expanded: ExpandedMetadata,
        query: Tensor,
        window_pool: KvBuffer,
        entries: Option<CompressedEntries>,
        sinks: Arc<Vec<f32>>,
        rotary: Arc<RotaryTable>,
        output: Tensor,
    ) -> Self {
        let window = expanded.swa_page_indices;
        let mut accesses = vec![
            seq_lens.read(),
            window.read(),
            query.read(),
            Access::resolved(window_pool.range, Mode::Read),
            output.write(),
        ];
        if let Some(entries) = &entries {
            accesses.push(entries.slots.read());
            accesses.push(Access::resolved(entries.pool.range, Mode::Read));
        }
        Self { accesses, query, window, window_pool, entries, sinks, rotary }
    }
}

impl Operator for SparseAttention {
    fn accesses(&self) -> &[Access] {
        &self.accesses
    }

    fn tiles(&self) -> usize {
        self.query.rows()
    }

    fn run(&self, mut views: Views<'_>, part: Part, compute: Compute) {
        let lengths = views.read::<i32>();
        let window = views.read::<i32>();
        let query = views.read::<f32>();
        let window_pool = views.read::<u8>();
        let output = views.write::<f32>();
        let entries = self.entries.as_ref().map(|e| (e, views.read::<i32>(), views.read::<u8>()));
        let rows = part.tiles(self.tiles());
        let columns = self.query.columns;
        let (head, rope) = (self.window_pool.head, self.window_pool.rope);
        let heads = columns / head;
        let scale = 1.0 / (head as f32).sqrt();
        let most = self.window.columns + entries.as_ref().map_or(0, |(e, ..)| e.slots.columns);
        spread(compute.workers, rows.clone(), RowsMut::new(output, columns, &rows), &|rows, mut out| {
            let mut kv = vec![0f32; most * head];
            let mut scores = vec![0f32; most * heads];
            for (index, row) in rows.enumerate() {
                let mut keys = 0;
                let mut gather = |pool: &KvBuffer, bytes: &[u8], slots: &[i32]| {
                    for slot in slots {
                        if let Ok(slot) = usize::try_from(*slot) {
                            pool.load(bytes, slot, &mut kv[keys * head..][..head]);
                            keys += 1;
                        }
                    }
                };
                let slots = &window[row * self.window.columns..][..self.window.columns];
                gather(&self.window_pool, window_pool, slots);
                if let Some((entries, slots, bytes)) = &entries {
                    gather(&entries.pool, bytes, &slots[row * entries.slots.columns..][..entries.slots.columns]);
                }
                let out = out.row(index);
                attention_row(
                    compute.cpu,
                    &query[row * columns..][..columns],
                    heads,
                    head,
                    &kv[..keys * head],
                    keys,
                    &self.sinks,
                    scale,
                    &mut scores[..heads * keys],
                    out,
                );
                let position = (lengths[row].max(1) - 1) as usize;
                for head_out in out.chunks_exact_mut(head) {
                    self.rotary.unrotate(&mut head_out[head - rope..], position);
                }
            }
        });
    }

    fn resolve(&self, memory: &Memory, access: usize, tile: usize, ranges: &mut Vec<ByteRange>) {
        let (pool, table) = match (&self.entries, access) {
            (Some(entries), 6) => (&entries.pool, entries.slots),
            _ => (&self.window_pool, self.window),
        };
        for slot in &memory.slice::<i32>(table.range)[tile * table.columns..][..table.columns] {
            if let Ok(slot) = usize::try_from(*slot) {
                pool.layout.slot_ranges(pool.range, slot, ranges);
            }
        }
        ranges.sort_unstable();
    }
}
