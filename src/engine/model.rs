//! A checkpoint packed for the operators.

use std::sync::Arc;

use coalmine_kernels::math::{PackedMatrix, RotaryTable};
use coalmine_kernels::operators::{CompressorWeights, Expert, HyperWeights, Router};

use super::checkpoint::{self, AttentionKind, Checkpoint, Matrix, ModelConfig, RoutingWeights};

/// A model ready to run.
#[derive(Debug)]
pub struct Model {
    /// Shapes and constants.
    pub config: ModelConfig,
    /// `[vocabulary, hidden]`.
    pub embedding: Arc<Vec<f32>>,
    /// `[vocabulary, hidden]`.
    pub head: Arc<PackedMatrix>,
    /// Norm before the head.
    pub norm: Arc<Vec<f32>>,
    /// Collapses the streams before that norm.
    pub hyper_head: HyperWeights,
    /// The layers, first to last.
    pub layers: Vec<Layer>,
    /// Positions that the rotary tables cover.
    pub positions: usize,
}

/// One layer.
#[derive(Debug)]
pub struct Layer {
    /// What it attends to.
    pub kind: AttentionKind,
    /// Hyper-connection around attention.
    pub hyper_attention: HyperWeights,
    /// Norm before attention.
    pub attention_norm: Arc<Vec<f32>>,
    /// Latent query and KV projections as one: `[q_lora_rank + head, hidden]`.
    pub wq_a_wkv: Arc<PackedMatrix>,
    /// Norm of the latent query.
    pub q_norm: Arc<Vec<f32>>,
    /// Norm of the KV row.
    pub kv_norm: Arc<Vec<f32>>,
    /// Latent query to heads.
    pub wq_b: Arc<PackedMatrix>,
    /// Attention sinks, one a head.
    pub sinks: Arc<Vec<f32>>,
    /// Grouped output projection.
    pub wo_a: Vec<Arc<PackedMatrix>>,
    /// Output projection.
    pub wo_b: Arc<PackedMatrix>,
    /// Rotary angles of this layer's queries, keys and entries.
    pub rotary: Arc<RotaryTable>,
    /// Core compressor.
    pub compressor: Option<Compressor>,
    /// Indexer of a ratio-4 layer.
    pub indexer: Option<Indexer>,
    /// Hyper-connection around the experts.
    pub hyper_ffn: HyperWeights,
    /// Norm before the experts.
    pub ffn_norm: Arc<Vec<f32>>,
    /// Router logits.
    pub gate: Arc<PackedMatrix>,
    /// How logits choose.
    pub router: Router,
    /// Routed experts.
    pub experts: Vec<Expert>,
    /// The expert of every token.
    pub shared: Expert,
}

/// A compressor.
#[derive(Debug)]
pub struct Compressor {
    /// Values then scores: `[2 * series * dimension, hidden]`.
    pub wkv_gate: Arc<PackedMatrix>,
    /// The rest.
    pub weights: CompressorWeights,
}

/// An indexer.
#[derive(Debug)]
pub struct Indexer {
    /// Latent query to index heads.
    pub wq_b: Arc<PackedMatrix>,
    /// To a weight a head.
    pub weights_proj: Arc<PackedMatrix>,
    /// Its own compressor.
    pub compressor: Compressor,
}

fn pack(matrix: &Matrix) -> Arc<PackedMatrix> {
    Arc::new(PackedMatrix::pack(matrix.rows, matrix.columns, &matrix.data))
}

fn stack(first: &Matrix, second: &Matrix) -> Arc<PackedMatrix> {
    let data = [first.data.as_slice(), second.data.as_slice()].concat();
    Arc::new(PackedMatrix::pack(first.rows + second.rows, first.columns, &data))
}

fn expert(weights: &checkpoint::Expert) -> Expert {
    Expert { gate_up: stack(&weights.w1, &weights.w3), down: pack(&weights.w2) }
}

fn hyper(weights: &checkpoint::HyperConnection) -> HyperWeights {
    HyperWeights {
        function: pack(&weights.function),
        base: Arc::new(weights.base.clone()),
        scale: Arc::new(weights.scale.clone()),
    }
}

impl Model {
    /// Packs a checkpoint for sequences of up to `positions` tokens.
    pub fn new(checkpoint: &Checkpoint, positions: usize) -> Self {
        let config = checkpoint.config.clone();
        let weights = &checkpoint.weights;
        let main = Arc::new(RotaryTable::new(&config.main_rope.inverse_frequencies, positions));
        let compressed = Arc::new(RotaryTable::new(&config.compress_rope.inverse_frequencies, positions));
        let layers = config
            .layers
            .iter()
            .zip(&weights.layers)
            .map(|(kind, weights)| {
                let rotary =
                    if kind.attention == AttentionKind::Sliding { Arc::clone(&main) } else { Arc::clone(&compressed) };
                let compressor = |weights: &checkpoint::CompressorWeights| Compressor {
                    wkv_gate: stack(&weights.wkv, &weights.wgate),
                    weights: CompressorWeights {
                        norm: Arc::new(weights.norm.clone()),
                        position_bias: Arc::new(weights.ape.data.clone()),
                        epsilon: config.rms_epsilon,
                        rotary: Arc::clone(&compressed),
                        rope: config.rope_dim,
                    },
                };
                let attention = &weights.attention;
                let group = attention.wo_a.rows / config.o_groups;
                Layer {
                    kind: kind.attention,
                    hyper_attention: hyper(&weights.hyper_attention),
                    attention_norm: Arc::new(weights.attn_norm.clone()),
                    wq_a_wkv: stack(&attention.wq_a, &attention.wkv),
                    q_norm: Arc::new(attention.q_norm.clone()),
                    kv_norm: Arc::new(attention.kv_norm.clone()),
                    wq_b: pack(&attention.wq_b),
                    sinks: Arc::new(attention.sink.clone()),
                    wo_a: attention
                        .wo_a
                        .data
                        .chunks_exact(group * attention.wo_a.columns)
                        .map(|rows| Arc::new(PackedMatrix::pack(group, attention.wo_a.columns, rows)))
                        .collect(),
                    wo_b: pack(&attention.wo_b),
                    rotary,
                    compressor: weights.compressor.as_ref().map(compressor),
                    indexer: weights.indexer.as_ref().map(|indexer| Indexer {
                        wq_b: pack(&indexer.wq_b),
                        weights_proj: pack(&indexer.weights_proj),
                        compressor: compressor(&indexer.compressor),
                    }),
                    hyper_ffn: hyper(&weights.hyper_ffn),
                    ffn_norm: Arc::new(weights.ffn_norm.clone()),
                    gate: pack(&weights.ffn.gate),
                    router: match &weights.ffn.routing {
                        RoutingWeights::HashTable(table) => Router::Hash(Arc::new(table.clone())),
                        RoutingWeights::Bias(bias) => Router::Bias(Arc::new(bias.clone())),
                    },
                    experts: weights.ffn.experts.iter().map(expert).collect(),
                    shared: expert(&weights.ffn.shared),
                }
            })
            .collect();
        Self {
            embedding: Arc::new(weights.embedding.data.clone()),
            head: pack(&weights.head),
            norm: Arc::new(weights.norm.clone()),
            hyper_head: hyper(&weights.hyper_head),
            layers,
            positions,
            config,
        }
    }
}
