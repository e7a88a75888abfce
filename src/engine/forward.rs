//! One forward pass as launches: the order, lanes, events and joins of upstream (dsv4.md 2.10, 7.1).

use std::sync::Arc;

use coalmine_kernels::operators::{
    ArgMax, Compress, CompressedEntries, Embed, EntryPool, ExpandMetadata, Experts, GroupedLinear, HyperHead,
    HyperPost, HyperPre, HyperShape, HyperWeights, IndexFormat, IndexLogits, IndexQuery, IndexTopK, Linear,
    NormRotateQuery, NormRows, PAGE_TOKENS, Ratio, Route, SharedExpert, SparseAttention, StoreKv, Tensor,
};
use coalmine_kernels::{Cost, Extent, Lane, NodeIndex, Recorder, Transient};

use super::buffers::Buffers;
use super::checkpoint::AttentionKind;
use super::model::{Layer, Model};
use super::pools::{LayerPools, Pools, RATIO128_RING};
use super::served::{LayerCosts, ServedShape};

/// Numbers of weights, activations and pools in cost keys.
mod key {
    pub(super) const STREAMS: u8 = 0;
    pub(super) const INPUT: u8 = 1;
    pub(super) const QKV: u8 = 2;
    pub(super) const LATENT: u8 = 3;
    pub(super) const QUERY: u8 = 4;
    pub(super) const INDEX_STATE: u8 = 5;
    pub(super) const INDEX_QUERY: u8 = 6;
    pub(super) const INDEX_LOGITS: u8 = 7;
    pub(super) const SELECTED: u8 = 8;
    pub(super) const STATE: u8 = 9;
    pub(super) const ATTENDED: u8 = 10;
    pub(super) const GROUPED: u8 = 11;
    pub(super) const SUBLAYER: u8 = 12;
    pub(super) const SHARED: u8 = 13;
    pub(super) const LOGITS: u8 = 14;
    pub(super) const SWA: u8 = 0;
    pub(super) const ENTRIES: u8 = 1;
    pub(super) const INDEX_K: u8 = super::super::served::INDEX_KEYS;
}

/// The two nodes of the incident in a ratio-4 layer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RacePair {
    /// The layer.
    pub layer: usize,
    /// R: the top-k, which reads the transient scores T on the indexer lane.
    pub reader: NodeIndex,
    /// W: the q projection, whose output takes T's address on the main lane.
    pub writer: NodeIndex,
}

/// What a forward pass runs on.
#[derive(Clone, Copy, Debug)]
pub(super) struct Pass<'a> {
    /// The model.
    pub model: &'a Model,
    /// Where keys and values lie.
    pub pools: &'a Pools,
    /// Metadata, taps and outputs, cut to the rows of the pass.
    pub buffers: &'a Buffers,
    /// Costs.
    pub served: &'a ServedShape,
    /// The lead of W (see `CostProfile::incident_margin_us`).
    pub margin_us: f64,
}

impl Pass<'_> {
    /// Records the pass and returns where the race of each ratio-4 layer would be.
    pub(super) fn record(&self, recorder: &mut Recorder<'_>) -> Vec<RacePair> {
        let (model, buffers) = (self.model, self.buffers);
        let costs = LayerCosts { shape: self.served, layer: 0 };
        let hidden = self.served.hidden;
        recorder.launch(
            Lane::MAIN,
            "metadata".to_owned(),
            ExpandMetadata::new(buffers.raw, buffers.expanded, self.pools.shape),
            Cost { fixed_us: 2.5, ..Cost::default() },
        );
        recorder.launch(
            Lane::MAIN,
            "embed".to_owned(),
            Embed::new(
                buffers.raw.input_ids,
                Arc::clone(&model.embedding),
                model.config.hidden_size,
                buffers.streams[0],
            ),
            costs.elementwise(key::INPUT, key::STREAMS, hidden, self.served.streams * hidden),
        );
        let mut races = Vec::new();
        for (number, (layer, pools)) in model.layers.iter().zip(&self.pools.layers).enumerate() {
            self.layer(recorder, number, layer, pools, &mut races);
        }
        let last = model.layers.len();
        let collapsed = self.transient(recorder, Lane::MAIN, "head input", model.config.hidden_size);
        let input = self.rows(&collapsed, model.config.hidden_size);
        recorder.launch(
            Lane::MAIN,
            "head collapse".to_owned(),
            HyperHead::new(
                buffers.streams[last],
                model.hyper_head.clone(),
                self.hyper_shape(),
                Arc::clone(&model.norm),
                input,
            ),
            costs.elementwise(key::STREAMS, key::INPUT, self.served.streams * hidden, hidden),
        );
        recorder.launch(
            Lane::MAIN,
            "head".to_owned(),
            Linear::new(input, Arc::clone(&model.head), buffers.logits),
            costs.product(63, key::INPUT, key::LOGITS, hidden, self.served.vocabulary / 4, 16),
        );
        recorder.launch(
            Lane::MAIN,
            "choose".to_owned(),
            ArgMax::new(buffers.logits, buffers.tokens),
            costs.elementwise(key::LOGITS, key::INPUT, self.served.vocabulary, 1),
        );
        recorder.free(collapsed);
        races
    }

    fn transient(&self, recorder: &mut Recorder<'_>, lane: Lane, name: &str, columns: usize) -> Transient {
        recorder.allocate(lane, name, Tensor::bytes(self.buffers.rows, columns))
    }

    fn rows(&self, transient: &Transient, columns: usize) -> Tensor {
        Tensor::new(transient.range(), self.buffers.rows, columns)
    }

    fn hyper_shape(&self) -> HyperShape {
        let config = &self.model.config;
        HyperShape {
            streams: config.hyper_connections,
            hidden: config.hidden_size,
            norm_epsilon: config.rms_epsilon,
            epsilon: config.hc_epsilon,
            iterations: config.sinkhorn_iterations,
        }
    }

    fn layer(
        &self,
        recorder: &mut Recorder<'_>,
        number: usize,
        layer: &Layer,
        pools: &LayerPools,
        races: &mut Vec<RacePair>,
    ) {
        let config = &self.model.config;
        let streams = config.hyper_connections;
        let post = self.transient(recorder, Lane::MAIN, "post", streams);
        let comb = self.transient(recorder, Lane::MAIN, "comb", streams * streams);
        // The streams between attention and experts: the layer's own output buffer serves for both,
        // so the mixed streams after attention go through a transient.
        let between = self.transient(recorder, Lane::MAIN, "streams", streams * config.hidden_size);
        let mixing = Mixing {
            post: self.rows(&post, streams),
            comb: self.rows(&comb, streams * streams),
            between: self.rows(&between, streams * config.hidden_size),
        };
        self.attention(recorder, number, layer, pools, &mixing, races);
        self.experts(recorder, number, layer, &mixing);
        recorder.free(between);
        recorder.free(comb);
        recorder.free(post);
    }

    /// Collapses the streams to a sublayer's input.
    fn collapse(
        &self,
        recorder: &mut Recorder<'_>,
        name: String,
        costs: LayerCosts<'_>,
        weights: &HyperWeights,
        norm: &Arc<Vec<f32>>,
        streams: Tensor,
        input: Tensor,
        mixing: &Mixing,
    ) {
        let width = self.served.streams * self.served.hidden;
        let operator = HyperPre::new(
            streams,
            weights.clone(),
            self.hyper_shape(),
            Arc::clone(norm),
            input,
            mixing.post,
            mixing.comb,
        );
        let cost = costs.elementwise(key::STREAMS, key::INPUT, width, self.served.hidden);
        recorder.launch(Lane::MAIN, name, operator, Cost { fixed_us: 4.5, ..cost });
    }

    fn attention(
        &self,
        recorder: &mut Recorder<'_>,
        number: usize,
        layer: &Layer,
        pools: &LayerPools,
        mixing: &Mixing,
        races: &mut Vec<RacePair>,
    ) {
        let (config, served, buffers) = (&self.model.config, self.served, self.buffers);
        let costs = LayerCosts { shape: served, layer: number as u64 + 1 };
        let name = |node: &str| format!("L{number} {node}");
        let (lens, expanded) = (buffers.raw.seq_lens, buffers.expanded);
        let (hidden, head, rank) = (served.hidden, served.head, served.q_lora_rank);
        let query_columns = config.heads * config.head_dim;

        let input = self.transient(recorder, Lane::MAIN, "attention input", config.hidden_size);
        let x = self.rows(&input, config.hidden_size);
        self.collapse(
            recorder,
            name("mhc pre attention"),
            costs,
            &layer.hyper_attention,
            &layer.attention_norm,
            buffers.streams[number],
            x,
            mixing,
        );

        // 1. Fork the kv, compressor and indexer lanes.
        for lane in [Lane::KV, Lane::COMPRESSOR, Lane::INDEXER] {
            recorder.wait(lane, Lane::MAIN);
        }
        // 2. and 3. Latent projections, and the norm of the latent query.
        let qkv_a = self.transient(recorder, Lane::MAIN, "qkv_a", config.q_lora_rank + config.head_dim);
        let qkv = self.rows(&qkv_a, config.q_lora_rank + config.head_dim);
        recorder.launch(
            Lane::MAIN,
            name("wq_a wkv"),
            Linear::new(x, Arc::clone(&layer.wq_a_wkv), qkv),
            costs.product(0, key::INPUT, key::QKV, hidden, rank + head, 8),
        );
        let projected = recorder.record(Lane::MAIN);
        let latent_block = self.transient(recorder, Lane::MAIN, "q latent", config.q_lora_rank);
        let latent = self.rows(&latent_block, config.q_lora_rank);
        recorder.launch(
            Lane::MAIN,
            name("q_norm"),
            NormRows::new(qkv, Arc::clone(&layer.q_norm), config.rms_epsilon, latent),
            costs.elementwise(key::QKV, key::LATENT, rank, rank),
        );
        let normed = recorder.record(Lane::MAIN);

        // 4. to 7. The indexer, on three lanes.
        let mut held: Vec<Transient> = Vec::new();
        let mut reader = None;
        if let (Some(indexer), Some(index), Some(index_state), Some(persistent)) =
            (&layer.indexer, pools.index, pools.index_state, buffers.index_logits[number])
        {
            recorder.wait(Lane::INDEXER_Q, Lane::INDEXER);
            recorder.wait(Lane::INDEXER_WEIGHTS, Lane::INDEXER);
            let state_columns = 4 * config.index_head_dim;
            let state = self.transient(recorder, Lane::INDEXER, "index kv and score", state_columns);
            let state_rows = self.rows(&state, state_columns);
            let served_state = 4 * served.index_head;
            recorder.launch(
                Lane::INDEXER,
                name("indexer wkv wgate"),
                Linear::new(x, Arc::clone(&indexer.compressor.wkv_gate), state_rows),
                costs.product(1, key::INPUT, key::INDEX_STATE, hidden, served_state, 16),
            );
            recorder.launch(
                Lane::INDEXER,
                name("indexer compress store"),
                Compress::new(
                    buffers.raw,
                    expanded,
                    state_rows,
                    index_state.range,
                    Ratio::Four,
                    EntryPool::Index(index),
                    indexer.compressor.weights.clone(),
                ),
                costs.store(key::INDEX_STATE, served_state, key::INDEX_K, served_state * 4),
            );
            let weights = self.transient(recorder, Lane::INDEXER_WEIGHTS, "index weights", config.index_heads);
            let head_weights = self.rows(&weights, config.index_heads);
            recorder.launch(
                Lane::INDEXER_WEIGHTS,
                name("weights_proj"),
                Linear::new(x, Arc::clone(&indexer.weights_proj), head_weights),
                costs.product(2, key::INPUT, key::SELECTED, hidden, served.index_heads, 16),
            );
            let weighted = recorder.record(Lane::INDEXER_WEIGHTS);
            recorder.wait_event(Lane::INDEXER_Q, &normed);
            recorder.wait_event(Lane::INDEXER_Q, &weighted);
            let query_columns = config.index_heads * config.index_head_dim;
            let query = self.transient(recorder, Lane::INDEXER_Q, "index query", query_columns);
            let index_query = self.rows(&query, query_columns);
            recorder.launch(
                Lane::INDEXER_Q,
                name("indexer wq_b"),
                Linear::new(latent, Arc::clone(&indexer.wq_b), index_query),
                costs.product(3, key::LATENT, key::INDEX_QUERY, rank, served.index_query, 8),
            );
            recorder.launch(
                Lane::INDEXER_Q,
                name("indexer q rope"),
                IndexQuery::new(
                    lens,
                    index_query,
                    config.index_head_dim,
                    config.rope_dim,
                    index.format,
                    Arc::clone(&layer.rotary),
                ),
                costs.elementwise(key::INDEX_QUERY, key::INDEX_QUERY, served.index_query, served.index_query),
            );
            recorder.wait(Lane::INDEXER, Lane::INDEXER_Q);
            // The bf16 reader keeps its scores in a transient, T. It is allocated on the lane that
            // calls the indexer, main, and given back as soon as its last reader is launched, on
            // the indexer lane: nobody tells the allocator of that use. The other formats score
            // into a persistent buffer.
            let transient = (index.format == IndexFormat::Bf16)
                .then(|| self.transient(recorder, Lane::MAIN, "T index logits", persistent.columns));
            let logits = transient.as_ref().map_or(persistent, |block| self.rows(block, persistent.columns));
            let scale = 1.0 / ((config.index_head_dim * config.index_heads) as f32).sqrt();
            recorder.launch(
                Lane::INDEXER,
                name("indexer logits"),
                IndexLogits::new(expanded, index_query, head_weights, scale, index, logits),
                costs.index_logits(index.format, key::INDEX_QUERY, key::INDEX_LOGITS, key::INDEX_K),
            );
            let tap = buffers.selections[number].unwrap_or(expanded.c4_sparse_page_indices);
            reader = Some(recorder.launch(
                Lane::INDEXER,
                name("indexer top-k"),
                IndexTopK::new(expanded, logits, tap, PAGE_TOKENS / 4),
                costs.top_k(key::INDEX_LOGITS, key::SELECTED),
            ));
            if let Some(transient) = transient {
                recorder.free(transient);
            }
            held.extend([state, weights, query]);
        }

        // 8. The token's KV row.
        recorder.wait_event(Lane::KV, &projected);
        recorder.launch(
            Lane::KV,
            name("kv norm rope store"),
            StoreKv::new(
                lens,
                expanded.swa_out_cache_loc,
                qkv,
                pools.swa,
                Arc::clone(&layer.kv_norm),
                config.rms_epsilon,
                Arc::clone(&layer.rotary),
            ),
            costs.store(key::QKV, head, key::SWA, served.kv_row),
        );
        // 9. The core compressor.
        let mut entries = None;
        if let (Some(compressor), Some(pool), Some(state_buffer)) = (&layer.compressor, pools.compressed, pools.state) {
            let (ratio, series) = match layer.kind {
                AttentionKind::Ratio128 => (Ratio::OneHundredTwentyEight { ring: RATIO128_RING }, 1),
                AttentionKind::Ratio4 | AttentionKind::Sliding => (Ratio::Four, 2),
            };
            let columns = 2 * series * config.head_dim;
            let served_columns = 2 * series * head;
            let state = self.transient(recorder, Lane::COMPRESSOR, "kv and score", columns);
            let state_rows = self.rows(&state, columns);
            recorder.launch(
                Lane::COMPRESSOR,
                name("compressor wkv wgate"),
                Linear::new(x, Arc::clone(&compressor.wkv_gate), state_rows),
                costs.product(4, key::INPUT, key::STATE, hidden, served_columns, 16),
            );
            recorder.launch(
                Lane::COMPRESSOR,
                name("compress store"),
                Compress::new(
                    buffers.raw,
                    expanded,
                    state_rows,
                    state_buffer.range,
                    ratio,
                    EntryPool::Kv(pool),
                    compressor.weights.clone(),
                ),
                costs.store(key::STATE, served_columns, key::ENTRIES, served_columns * 4),
            );
            held.push(state);
            let (slots, extent) = match layer.kind {
                AttentionKind::Ratio128 => (expanded.c128_page_indices, Extent::PerRatio128Entry(served.kv_row as f64)),
                AttentionKind::Ratio4 | AttentionKind::Sliding => {
                    (expanded.c4_sparse_page_indices, Extent::PerRow((served.index_topk * served.kv_row) as f64))
                }
            };
            entries = Some((CompressedEntries { pool, slots }, extent));
        }

        // 10. W: the query takes the first block of its size that main has, and that is T's.
        let query = self.transient(recorder, Lane::MAIN, "query", query_columns);
        let q = self.rows(&query, query_columns);
        let lead_us = if reader.is_some() { self.margin_us } else { 0.0 };
        let writer = recorder.launch(
            Lane::MAIN,
            name("wq_b"),
            Linear::new(latent, Arc::clone(&layer.wq_b), q),
            Cost { lead_us, ..costs.product(5, key::LATENT, key::QUERY, rank, served.query, 8) },
        );
        races.extend(reader.map(|reader| RacePair { layer: number, reader, writer }));
        recorder.launch(
            Lane::MAIN,
            name("q norm rope"),
            NormRotateQuery::new(
                lens,
                q,
                config.head_dim,
                config.rope_dim,
                config.rms_epsilon,
                Arc::clone(&layer.rotary),
            ),
            costs.elementwise(key::QUERY, key::QUERY, served.query, served.query),
        );

        // 11. Join, then attend.
        for lane in [Lane::KV, Lane::COMPRESSOR, Lane::INDEXER] {
            recorder.wait(Lane::MAIN, lane);
        }
        let attended = self.transient(recorder, Lane::MAIN, "attended", query_columns);
        let o = self.rows(&attended, query_columns);
        recorder.launch(
            Lane::MAIN,
            name("attention"),
            SparseAttention::new(
                lens,
                expanded,
                q,
                pools.swa,
                entries.map(|(entries, _)| entries),
                Arc::clone(&layer.sinks),
                Arc::clone(&layer.rotary),
                o,
            ),
            costs.attention(key::QUERY, key::ATTENDED, key::SWA, entries.map(|(_, extent)| (key::ENTRIES, extent))),
        );
        let grouped_columns = config.o_groups * config.o_lora_rank;
        let grouped = self.transient(recorder, Lane::MAIN, "grouped output", grouped_columns);
        let g = self.rows(&grouped, grouped_columns);
        recorder.launch(
            Lane::MAIN,
            name("wo_a"),
            GroupedLinear::new(o, layer.wo_a.clone(), g),
            costs.product(6, key::ATTENDED, key::GROUPED, served.query / 8, served.o_lora, 8),
        );
        let output = self.transient(recorder, Lane::MAIN, "attention output", config.hidden_size);
        let y = self.rows(&output, config.hidden_size);
        recorder.launch(
            Lane::MAIN,
            name("wo_b"),
            Linear::new(g, Arc::clone(&layer.wo_b), y),
            costs.product(7, key::GROUPED, key::SUBLAYER, served.o_lora, hidden, 8),
        );
        recorder.launch(
            Lane::MAIN,
            name("mhc post attention"),
            HyperPost::new(
                self.hyper_shape(),
                buffers.streams[number],
                y,
                None,
                mixing.post,
                mixing.comb,
                mixing.between,
            ),
            costs.elementwise(key::SUBLAYER, key::STREAMS, hidden, served.streams * hidden),
        );
        held.extend([output, grouped, attended, query, latent_block, qkv_a, input]);
        for transient in held {
            recorder.free(transient);
        }
    }

    fn experts(&self, recorder: &mut Recorder<'_>, number: usize, layer: &Layer, mixing: &Mixing) {
        let (config, served, buffers) = (&self.model.config, self.served, self.buffers);
        let costs = LayerCosts { shape: served, layer: number as u64 + 1 };
        let name = |node: &str| format!("L{number} {node}");
        let hidden = served.hidden;
        let input = self.transient(recorder, Lane::MAIN, "expert input", config.hidden_size);
        let x = self.rows(&input, config.hidden_size);
        self.collapse(
            recorder,
            name("mhc pre experts"),
            costs,
            &layer.hyper_ffn,
            &layer.ffn_norm,
            mixing.between,
            x,
            mixing,
        );
        // The shared expert runs beside the routed ones, on the kv lane.
        recorder.wait(Lane::KV, Lane::MAIN);
        let shared_block = self.transient(recorder, Lane::KV, "shared expert output", config.hidden_size);
        let shared = self.rows(&shared_block, config.hidden_size);
        recorder.launch(
            Lane::KV,
            name("shared expert"),
            SharedExpert::new(x, layer.shared.clone(), config.swiglu_limit, shared),
            costs.product(8, key::INPUT, key::SHARED, hidden, 3 * served.intermediate, 8),
        );
        let choices = config.experts_per_token;
        let chosen_block = self.transient(recorder, Lane::MAIN, "chosen experts", choices);
        let weights_block = self.transient(recorder, Lane::MAIN, "expert weights", choices);
        let (chosen, weights) = (self.rows(&chosen_block, choices), self.rows(&weights_block, choices));
        recorder.launch(
            Lane::MAIN,
            name("route"),
            Route::new(
                buffers.raw.input_ids,
                x,
                Arc::clone(&layer.gate),
                layer.router.clone(),
                config.norm_topk_prob,
                config.routed_scaling_factor,
                chosen,
                weights,
            ),
            costs.product(9, key::INPUT, key::SELECTED, hidden, 256, 16),
        );
        let output = self.transient(recorder, Lane::MAIN, "expert output", config.hidden_size);
        let y = self.rows(&output, config.hidden_size);
        recorder.launch(
            Lane::MAIN,
            name("experts"),
            Experts::new(x, chosen, weights, layer.experts.clone(), config.swiglu_limit, y),
            costs.experts(10, key::INPUT, key::SUBLAYER),
        );
        recorder.wait(Lane::MAIN, Lane::KV);
        recorder.launch(
            Lane::MAIN,
            name("mhc post experts"),
            HyperPost::new(
                self.hyper_shape(),
                mixing.between,
                y,
                Some(shared),
                mixing.post,
                mixing.comb,
                buffers.streams[number + 1],
            ),
            costs.elementwise(key::SUBLAYER, key::STREAMS, hidden, served.streams * hidden),
        );
        for transient in [output, weights_block, chosen_block, shared_block, input] {
            recorder.free(transient);
        }
    }
}

/// Transients that both sublayers of a layer share.
struct Mixing {
    post: Tensor,
    comb: Tensor,
    between: Tensor,
}
