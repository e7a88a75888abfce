//! The model's weights as plain f32, every shape checked against the configuration.

use std::collections::{HashMap, HashSet};

use super::config::ModelConfig;
use super::error::{CheckpointError, shortened};
use super::names::{FUSED_DOWN, FUSED_GATE_UP, is_ignored, spellings};
use super::safetensors::{SafeTensors, TensorView};
use super::schedule::{AttentionKind, LayerConfig, Routing};

/// A matrix in row-major order; a weight has one row per output.
#[derive(Debug, Clone, PartialEq)]
pub struct Matrix {
    /// Number of rows.
    pub rows: usize,
    /// Number of columns.
    pub columns: usize,
    /// `rows * columns` values.
    pub data: Vec<f32>,
}

impl Matrix {
    /// One row. Panics past the last one.
    pub fn row(&self, row: usize) -> &[f32] {
        &self.data[row * self.columns..(row + 1) * self.columns]
    }
}

/// All weights of a model.
#[derive(Debug, Clone, PartialEq)]
pub struct ModelWeights {
    /// `[vocab_size, hidden_size]`.
    pub embedding: Matrix,
    /// `[vocab_size, hidden_size]`; a copy of the embedding where the two are tied.
    pub head: Matrix,
    /// Norm before the head, `[hidden_size]`.
    pub norm: Vec<f32>,
    /// Collapses the residual streams before that norm: function `[hc_mult, hc_mult * hidden_size]`, base `[hc_mult]`, scale `[1]`.
    pub hyper_head: HyperConnection,
    /// The layers, first to last.
    pub layers: Vec<LayerWeights>,
}

/// The weights of one hyper-connection.
#[derive(Debug, Clone, PartialEq)]
pub struct HyperConnection {
    /// `[hc_mult * (2 + hc_mult), hc_mult * hidden_size]`.
    pub function: Matrix,
    /// `[hc_mult * (2 + hc_mult)]`.
    pub base: Vec<f32>,
    /// Of collapsing, expanding and mixing: `[3]`.
    pub scale: Vec<f32>,
}

/// The weights of one layer.
#[derive(Debug, Clone, PartialEq)]
pub struct LayerWeights {
    /// Norm before attention, `[hidden_size]`.
    pub attn_norm: Vec<f32>,
    /// Norm before the experts, `[hidden_size]`.
    pub ffn_norm: Vec<f32>,
    /// Hyper-connection around attention.
    pub hyper_attention: HyperConnection,
    /// Hyper-connection around the experts.
    pub hyper_ffn: HyperConnection,
    /// Attention.
    pub attention: AttentionWeights,
    /// Of layers that compress: `head_dim` wide.
    pub compressor: Option<CompressorWeights>,
    /// Of layers of ratio 4.
    pub indexer: Option<IndexerWeights>,
    /// The experts.
    pub ffn: FfnWeights,
}

/// The weights of one layer's attention.
#[derive(Debug, Clone, PartialEq)]
pub struct AttentionWeights {
    /// To the latent query, `[q_lora_rank, hidden_size]`.
    pub wq_a: Matrix,
    /// Norm of the latent query, `[q_lora_rank]`.
    pub q_norm: Vec<f32>,
    /// To the query heads, `[heads * head_dim, q_lora_rank]`.
    pub wq_b: Matrix,
    /// To the one key, which is also the value, `[head_dim, hidden_size]`.
    pub wkv: Matrix,
    /// Norm of the key, `[head_dim]`.
    pub kv_norm: Vec<f32>,
    /// A logit per head that takes part in the softmax without a value, `[heads]`.
    pub sink: Vec<f32>,
    /// First output projection, one block of rows per group: `[o_groups * o_lora_rank, heads * head_dim / o_groups]`.
    pub wo_a: Matrix,
    /// Second output projection, `[hidden_size, o_groups * o_lora_rank]`.
    pub wo_b: Matrix,
}

/// The weights of one compressor of width `w` and `s` series (2 for ratio 4, 1 for ratio 128).
#[derive(Debug, Clone, PartialEq)]
pub struct CompressorWeights {
    /// To what is compressed, `[s * w, hidden_size]`.
    pub wkv: Matrix,
    /// To its softmax scores, `[s * w, hidden_size]`.
    pub wgate: Matrix,
    /// Norm of an entry, `[w]`.
    pub norm: Vec<f32>,
    /// Added to the scores by position in the window, `[ratio, s * w]`.
    pub ape: Matrix,
}

/// The weights of one indexer.
#[derive(Debug, Clone, PartialEq)]
pub struct IndexerWeights {
    /// From the latent query to the index queries, `[index_heads * index_head_dim, q_lora_rank]`.
    pub wq_b: Matrix,
    /// To a weight per head, `[index_heads, hidden_size]`.
    pub weights_proj: Matrix,
    /// Its own compressor, `index_head_dim` wide.
    pub compressor: CompressorWeights,
}

/// The experts of one layer.
#[derive(Debug, Clone, PartialEq)]
pub struct FfnWeights {
    /// To the router's logits, `[experts, hidden_size]`.
    pub gate: Matrix,
    /// How the logits choose.
    pub routing: RoutingWeights,
    /// The expert that every token uses, `shared_experts` times as wide as the others.
    pub shared: Expert,
    /// The routed experts.
    pub experts: Vec<Expert>,
}

/// What a router needs beside its gate.
#[derive(Debug, Clone, PartialEq)]
pub enum RoutingWeights {
    /// Experts by token id, `[vocab_size, experts_per_token]` in row-major order; every entry is below `experts`.
    HashTable(Vec<u32>),
    /// Added to the scores for choosing only, `[experts]`.
    Bias(Vec<f32>),
}

/// One expert: `w2 (silu(w1 x) * (w3 x))`.
#[derive(Debug, Clone, PartialEq)]
pub struct Expert {
    /// Gate, `[intermediate, hidden_size]`.
    pub w1: Matrix,
    /// Down, `[hidden_size, intermediate]`.
    pub w2: Matrix,
    /// Up, `[intermediate, hidden_size]`.
    pub w3: Matrix,
}

impl ModelWeights {
    /// Takes the weights out of the files; also the names of the tensors that the model has no use for.
    pub(super) fn load(config: &ModelConfig, files: &[SafeTensors]) -> Result<(Self, Vec<String>), CheckpointError> {
        let mut tensors = Tensors::new(files)?;
        let mut top = Scope { tensors: &mut tensors, prefix: String::new() };
        let vocabulary = [config.vocab_size, config.hidden_size];
        const VOCABULARY: &str = "[vocab_size, hidden_size]";
        let embedding = top.matrix("embed.weight", vocabulary, VOCABULARY)?;
        let head = if config.tie_word_embeddings && !top.has("head.weight") {
            embedding.clone()
        } else {
            top.matrix("head.weight", vocabulary, VOCABULARY)?
        };
        let norm = top.vector("norm.weight", config.hidden_size, "[hidden_size]")?;
        let streams = config.hyper_connections;
        let hyper_head = HyperConnection {
            function: top.matrix(
                "hc_head_fn",
                [streams, streams * config.hidden_size],
                "[hc_mult, hc_mult * hidden_size]",
            )?,
            base: top.vector("hc_head_base", streams, "[hc_mult]")?,
            scale: top.vector("hc_head_scale", 1, "[1]")?,
        };
        let layers = (0..).zip(&config.layers).map(|(number, kind)| {
            layer(&mut Scope { tensors: &mut tensors, prefix: format!("layers.{number}.") }, config, *kind)
        });
        let layers = layers.collect::<Result<_, _>>()?;
        Ok((Self { embedding, head, norm, hyper_head, layers }, tensors.unused()))
    }
}

fn layer(scope: &mut Scope<'_, '_>, config: &ModelConfig, kind: LayerConfig) -> Result<LayerWeights, CheckpointError> {
    let hidden = config.hidden_size;
    let compressor = match kind.attention.ratio() {
        Some(ratio) => Some(compressor(scope, config, ratio, "attn.compressor", config.head_dim)?),
        None => None,
    };
    let indexer = match kind.attention {
        AttentionKind::Ratio4 => Some(indexer(scope, config)?),
        AttentionKind::Sliding | AttentionKind::Ratio128 => None,
    };
    Ok(LayerWeights {
        attn_norm: scope.vector("attn_norm.weight", hidden, "[hidden_size]")?,
        ffn_norm: scope.vector("ffn_norm.weight", hidden, "[hidden_size]")?,
        hyper_attention: hyper_connection(scope, config, "hc_attn")?,
        hyper_ffn: hyper_connection(scope, config, "hc_ffn")?,
        attention: attention(scope, config)?,
        compressor,
        indexer,
        ffn: ffn(scope, config, kind.routing)?,
    })
}

fn hyper_connection(
    scope: &mut Scope<'_, '_>,
    config: &ModelConfig,
    name: &str,
) -> Result<HyperConnection, CheckpointError> {
    let streams = config.hyper_connections;
    let coefficients = streams * (2 + streams);
    Ok(HyperConnection {
        function: scope.matrix(
            &format!("{name}_fn"),
            [coefficients, streams * config.hidden_size],
            "[hc_mult * (2 + hc_mult), hc_mult * hidden_size]",
        )?,
        base: scope.vector(&format!("{name}_base"), coefficients, "[hc_mult * (2 + hc_mult)]")?,
        scale: scope.vector(&format!("{name}_scale"), 3, "[3]")?,
    })
}

fn attention(scope: &mut Scope<'_, '_>, config: &ModelConfig) -> Result<AttentionWeights, CheckpointError> {
    let (hidden, latent, width) = (config.hidden_size, config.q_lora_rank, config.heads * config.head_dim);
    let output = config.o_groups * config.o_lora_rank;
    Ok(AttentionWeights {
        wq_a: scope.matrix("attn.wq_a.weight", [latent, hidden], "[q_lora_rank, hidden_size]")?,
        q_norm: scope.vector("attn.q_norm.weight", latent, "[q_lora_rank]")?,
        wq_b: scope.matrix("attn.wq_b.weight", [width, latent], "[num_attention_heads * head_dim, q_lora_rank]")?,
        wkv: scope.matrix("attn.wkv.weight", [config.head_dim, hidden], "[head_dim, hidden_size]")?,
        kv_norm: scope.vector("attn.kv_norm.weight", config.head_dim, "[head_dim]")?,
        sink: scope.vector("attn.attn_sink", config.heads, "[num_attention_heads]")?,
        wo_a: scope.matrix(
            "attn.wo_a.weight",
            [output, width / config.o_groups],
            "[o_groups * o_lora_rank, num_attention_heads * head_dim / o_groups]",
        )?,
        wo_b: scope.matrix("attn.wo_b.weight", [hidden, output], "[hidden_size, o_groups * o_lora_rank]")?,
    })
}

fn compressor(
    scope: &mut Scope<'_, '_>,
    config: &ModelConfig,
    ratio: usize,
    name: &str,
    width: usize,
) -> Result<CompressorWeights, CheckpointError> {
    // Windows of ratio 4 overlap their neighbour: each token contributes one series to its own window and one to the next.
    let both = if ratio == 4 { 2 * width } else { width };
    const PROJECTION: &str = "[width, hidden_size] with width = head_dim or index_head_dim, doubled for ratio 4";
    const POSITIONS: &str = "[ratio, width] with width = head_dim or index_head_dim, doubled for ratio 4";
    Ok(CompressorWeights {
        wkv: scope.matrix(&format!("{name}.wkv.weight"), [both, config.hidden_size], PROJECTION)?,
        wgate: scope.matrix(&format!("{name}.wgate.weight"), [both, config.hidden_size], PROJECTION)?,
        norm: scope.vector(&format!("{name}.norm.weight"), width, "[head_dim] or [index_head_dim]")?,
        ape: scope.matrix(&format!("{name}.ape"), [ratio, both], POSITIONS)?,
    })
}

fn indexer(scope: &mut Scope<'_, '_>, config: &ModelConfig) -> Result<IndexerWeights, CheckpointError> {
    let (heads, width) = (config.index_heads, config.index_head_dim);
    Ok(IndexerWeights {
        wq_b: scope.matrix(
            "attn.indexer.wq_b.weight",
            [heads * width, config.q_lora_rank],
            "[index_n_heads * index_head_dim, q_lora_rank]",
        )?,
        weights_proj: scope.matrix(
            "attn.indexer.weights_proj.weight",
            [heads, config.hidden_size],
            "[index_n_heads, hidden_size]",
        )?,
        compressor: compressor(scope, config, 4, "attn.indexer.compressor", width)?,
    })
}

fn ffn(scope: &mut Scope<'_, '_>, config: &ModelConfig, routing: Routing) -> Result<FfnWeights, CheckpointError> {
    let gate =
        scope.matrix("ffn.gate.weight", [config.experts, config.hidden_size], "[n_routed_experts, hidden_size]")?;
    let routing = match routing {
        Routing::Hash => RoutingWeights::HashTable(scope.hash_table("ffn.gate.tid2eid", config)?),
        Routing::Bias => RoutingWeights::Bias(scope.vector("ffn.gate.bias", config.experts, "[n_routed_experts]")?),
    };
    let shared_width = config.shared_experts * config.moe_intermediate;
    let shared = expert(scope, "ffn.shared_experts", config.hidden_size, shared_width)?;
    let experts = if scope.has(FUSED_GATE_UP) {
        fused_experts(scope, config)?
    } else {
        (0..config.experts)
            .map(|number| expert(scope, &format!("ffn.experts.{number}"), config.hidden_size, config.moe_intermediate))
            .collect::<Result<_, _>>()?
    };
    Ok(FfnWeights { gate, routing, shared, experts })
}

fn expert(scope: &mut Scope<'_, '_>, name: &str, hidden: usize, width: usize) -> Result<Expert, CheckpointError> {
    const INWARD: &str =
        "[width, hidden_size] with width = moe_intermediate_size, for shared experts times n_shared_experts";
    const OUTWARD: &str =
        "[hidden_size, width] with width = moe_intermediate_size, for shared experts times n_shared_experts";
    Ok(Expert {
        w1: scope.matrix(&format!("{name}.w1.weight"), [width, hidden], INWARD)?,
        w2: scope.matrix(&format!("{name}.w2.weight"), [hidden, width], OUTWARD)?,
        w3: scope.matrix(&format!("{name}.w3.weight"), [width, hidden], INWARD)?,
    })
}

/// Transformers' form: gate and up of all experts in one tensor (gate first), down in another.
fn fused_experts(scope: &mut Scope<'_, '_>, config: &ModelConfig) -> Result<Vec<Expert>, CheckpointError> {
    let (experts, width, hidden) = (config.experts, config.moe_intermediate, config.hidden_size);
    let gate_up = scope.floats(
        FUSED_GATE_UP,
        &[experts, 2 * width, hidden],
        "[n_routed_experts, 2 * moe_intermediate_size, hidden_size]",
    )?;
    let down = scope.floats(
        FUSED_DOWN,
        &[experts, hidden, width],
        "[n_routed_experts, hidden_size, moe_intermediate_size]",
    )?;
    let inward = |data: &[f32]| Matrix { rows: width, columns: hidden, data: data.to_vec() };
    let one_size = width * hidden;
    let experts = gate_up.chunks_exact(2 * one_size).zip(down.chunks_exact(one_size)).map(|(gate_up, down)| Expert {
        w1: inward(&gate_up[..one_size]),
        w2: Matrix { rows: hidden, columns: width, data: down.to_vec() },
        w3: inward(&gate_up[one_size..]),
    });
    Ok(experts.collect())
}

/// All tensors of all files, and which of them have been asked for.
struct Tensors<'a> {
    files: &'a [SafeTensors],
    by_name: HashMap<&'a str, &'a SafeTensors>,
    used: HashSet<&'a str>,
}

impl<'a> Tensors<'a> {
    fn new(files: &'a [SafeTensors]) -> Result<Self, CheckpointError> {
        let mut by_name = HashMap::new();
        for file in files {
            for name in file.names() {
                if let Some(first) = by_name.insert(name, file) {
                    return Err(CheckpointError::DuplicateTensor {
                        tensor: shortened(name),
                        first: first.file().to_owned(),
                        second: file.file().to_owned(),
                    });
                }
            }
        }
        Ok(Self { files, by_name, used: HashSet::new() })
    }

    fn find(&self, released: &str) -> Option<TensorView<'a>> {
        spellings(released).iter().find_map(|name| self.by_name.get(name.as_str())?.tensor(name))
    }

    fn unused(&self) -> Vec<String> {
        let mut names: Vec<_> = (self.by_name.keys())
            .filter(|name| !self.used.contains(*name) && !is_ignored(name))
            .map(|name| (*name).to_owned())
            .collect();
        names.sort_unstable();
        names
    }

    fn missing(&self, released: &str) -> CheckpointError {
        let mut tried = spellings(released);
        if let Some((layer, _)) = released.split_once("ffn.experts.") {
            tried.extend(spellings(&format!("{layer}{FUSED_GATE_UP}")));
        }
        let file = match self.files {
            [] => "no file".to_owned(),
            [only] => only.file().to_owned(),
            [first, others @ ..] => format!("{} and {} more", first.file(), others.len()),
        };
        CheckpointError::TensorMissing { file, tensor: released.to_owned(), tried: tried.join(", ") }
    }
}

/// The tensors below one prefix of released names.
struct Scope<'t, 'a> {
    tensors: &'t mut Tensors<'a>,
    prefix: String,
}

impl<'a> Scope<'_, 'a> {
    fn has(&self, name: &str) -> bool {
        self.tensors.find(&format!("{}{name}", self.prefix)).is_some()
    }

    /// The tensor of that released name, if it has the given shape.
    fn take(&mut self, name: &str, shape: &[usize], meaning: &'static str) -> Result<TensorView<'a>, CheckpointError> {
        let name = format!("{}{name}", self.prefix);
        let view = self.tensors.find(&name).ok_or_else(|| self.tensors.missing(&name))?;
        check_shape(&view, shape, meaning)?;
        self.tensors.used.insert(view.name());
        Ok(view)
    }

    fn floats(&mut self, name: &str, shape: &[usize], meaning: &'static str) -> Result<Vec<f32>, CheckpointError> {
        finite(&self.take(name, shape, meaning)?)
    }

    fn vector(&mut self, name: &str, length: usize, meaning: &'static str) -> Result<Vec<f32>, CheckpointError> {
        self.floats(name, &[length], meaning)
    }

    fn matrix(&mut self, name: &str, shape: [usize; 2], meaning: &'static str) -> Result<Matrix, CheckpointError> {
        let [rows, columns] = shape;
        Ok(Matrix { rows, columns, data: self.floats(name, &shape, meaning)? })
    }

    fn hash_table(&mut self, name: &str, config: &ModelConfig) -> Result<Vec<u32>, CheckpointError> {
        let shape = [config.vocab_size, config.experts_per_token];
        let view = self.take(name, &shape, "[vocab_size, num_experts_per_tok]")?;
        let entries = integers(&view, "an expert's number", 0, config.experts as i64)?;
        Ok(entries.into_iter().map(|entry| entry as u32).collect())
    }
}

/// Refuses a tensor of another shape.
pub(super) fn check_shape(
    view: &TensorView<'_>,
    expected: &[usize],
    meaning: &'static str,
) -> Result<(), CheckpointError> {
    if view.shape() == expected {
        return Ok(());
    }
    Err(CheckpointError::Shape {
        file: view.file().to_owned(),
        tensor: shortened(view.name()),
        // A hostile file can claim thousands of dimensions of size 1.
        found: view.shape().iter().take(8).copied().collect(),
        expected: expected.to_vec(),
        meaning,
    })
}

/// The values of a tensor, none infinite and none NaN.
pub(super) fn finite(view: &TensorView<'_>) -> Result<Vec<f32>, CheckpointError> {
    let values = view.to_f32()?;
    // Without a branch per value, so that it vectorises; the place is looked for only when there is one.
    if values.iter().fold(true, |all, value| all & value.is_finite()) {
        return Ok(values);
    }
    let (index, value) = values.iter().enumerate().find(|(_, value)| !value.is_finite()).unwrap_or((0, &f32::NAN));
    Err(CheckpointError::NotFinite {
        file: view.file().to_owned(),
        tensor: shortened(view.name()),
        index,
        value: *value,
    })
}

/// The values of an integer tensor, all in `least..end`.
pub(super) fn integers(
    view: &TensorView<'_>,
    meaning: &'static str,
    least: i64,
    end: i64,
) -> Result<Vec<i64>, CheckpointError> {
    let values = view.to_i64()?;
    match values.iter().position(|value| !(least..end).contains(value)) {
        None => Ok(values),
        Some(index) => Err(CheckpointError::OutOfRange {
            file: view.file().to_owned(),
            tensor: shortened(view.name()),
            index,
            value: values[index],
            meaning,
            least,
            end,
        }),
    }
}
