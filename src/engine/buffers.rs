//! Persistent buffers of a pass: metadata, taps, logits. They lie outside the pool and are
//! always written, so that looking at them moves no address.

use coalmine_kernels::Memory;
use coalmine_kernels::operators::{ExpandedMetadata, RawMetadata, Tensor, index_logits_columns};

use super::checkpoint::{AttentionKind, ModelConfig};
use super::pools::Pools;

/// The persistent buffers of one kind of pass, for up to a number of rows.
#[derive(Clone, Debug)]
pub struct Buffers {
    /// Most rows.
    pub rows: usize,
    /// Written by the scheduler.
    pub raw: RawMetadata,
    /// Derived in the graph.
    pub expanded: ExpandedMetadata,
    /// Residual streams: entry 0 the embedding's, entry `n` layer `n - 1`'s output. These are the layer taps.
    pub streams: Vec<Tensor>,
    /// Selected entries by layer, logical, ascending: `[rows, index_topk]`.
    pub selections: Vec<Option<Tensor>>,
    /// Scores by layer, of the index formats that score into persistent buffers: `[rows, columns]`.
    pub index_logits: Vec<Option<Tensor>>,
    /// `[rows, vocabulary]`.
    pub logits: Tensor,
    /// The chosen tokens.
    pub tokens: Tensor,
}

fn tensor(memory: &mut Memory, rows: usize, columns: usize) -> Tensor {
    Tensor::new(memory.reserve(Tensor::bytes(rows, columns)), rows, columns)
}

fn first_rows(tensor: Tensor, rows: usize) -> Tensor {
    Tensor::new(tensor.range, rows, tensor.columns)
}

impl Buffers {
    /// Reserves buffers for passes of up to `rows` rows over `pools`.
    pub fn new(memory: &mut Memory, config: &ModelConfig, pools: &Pools, rows: usize) -> Self {
        let mut column = |columns| tensor(memory, rows, columns);
        // A sequence never holds more than the context, whatever a config asks for.
        let selected = config.index_topk.min(index_logits_columns(pools.sizes.context));
        let raw = RawMetadata {
            input_ids: column(1),
            req_pool_indices: column(1),
            seq_lens: column(1),
            out_cache_loc: column(1),
            req_to_token: pools.req_to_token,
            full_to_swa: pools.full_to_swa,
        };
        let expanded = ExpandedMetadata {
            swa_page_indices: column(pools.shape.window),
            swa_out_cache_loc: column(1),
            page_table: column(pools.shape.pages),
            c4_out_loc: column(1),
            c128_out_loc: column(1),
            c4_lengths: column(1),
            c128_page_indices: column(pools.shape.ratio128_width),
            c4_state_rows: column(8),
            c4_sparse_page_indices: column(selected),
        };
        let width = config.hyper_connections * config.hidden_size;
        Self {
            rows,
            raw,
            expanded,
            streams: (0..=config.layers.len()).map(|_| column(width)).collect(),
            selections: config
                .layers
                .iter()
                .map(|layer| (layer.attention == AttentionKind::Ratio4).then(|| column(selected)))
                .collect(),
            index_logits: config
                .layers
                .iter()
                .map(|layer| {
                    let columns = index_logits_columns(pools.sizes.context);
                    (layer.attention == AttentionKind::Ratio4).then(|| column(columns))
                })
                .collect(),
            logits: column(config.vocab_size),
            tokens: column(1),
        }
    }

    /// The same buffers, cut to their first `rows` rows.
    #[must_use]
    pub fn first(&self, rows: usize) -> Self {
        let cut = |t: Tensor| first_rows(t, rows);
        let (raw, expanded) = (self.raw, self.expanded);
        Self {
            rows,
            raw: RawMetadata {
                input_ids: cut(raw.input_ids),
                req_pool_indices: cut(raw.req_pool_indices),
                seq_lens: cut(raw.seq_lens),
                out_cache_loc: cut(raw.out_cache_loc),
                ..raw
            },
            expanded: ExpandedMetadata {
                swa_page_indices: cut(expanded.swa_page_indices),
                swa_out_cache_loc: cut(expanded.swa_out_cache_loc),
                page_table: cut(expanded.page_table),
                c4_out_loc: cut(expanded.c4_out_loc),
                c128_out_loc: cut(expanded.c128_out_loc),
                c4_lengths: cut(expanded.c4_lengths),
                c128_page_indices: cut(expanded.c128_page_indices),
                c4_state_rows: cut(expanded.c4_state_rows),
                c4_sparse_page_indices: cut(expanded.c4_sparse_page_indices),
            },
            streams: self.streams.iter().map(|t| cut(*t)).collect(),
            selections: self.selections.iter().map(|t| t.map(cut)).collect(),
            index_logits: self.index_logits.iter().map(|t| t.map(cut)).collect(),
            logits: cut(self.logits),
            tokens: cut(self.tokens),
        }
    }
}
