//! `config.json`, parsed into what the engine needs and nothing it has to doubt. Both vocabularies are understood: the field names of
//! the released checkpoints and those that transformers writes.

use serde_json::{Value, json};

use super::error::CheckpointError;
use super::fields::{DIMENSION_LIMIT, Fields};
use super::rope::Rope;
use super::rope_settings::{rope_dimension, ropes};
use super::schedule::{AttentionKind, LayerConfig, attention_kinds, routing_kinds};

/// How router logits become scores.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Scoring {
    /// The square root of softplus.
    SqrtSoftplus,
}

/// A DeepSeek-V4 model's shape and constants. Every dimension is at least 1, and the widths that are products of two of them
/// (`heads * head_dim` and the like) are at most 2^24, so products of two widths fit in 64 bits.
#[derive(Debug, Clone, PartialEq)]
pub struct ModelConfig {
    /// Entries of the vocabulary.
    pub vocab_size: usize,
    /// Width of one residual stream.
    pub hidden_size: usize,
    /// The layers, first to last; multi-token-prediction layers are left out.
    pub layers: Vec<LayerConfig>,
    /// Query heads; there is one head of keys, which are also the values.
    pub heads: usize,
    /// Width of a head, rotary part included.
    pub head_dim: usize,
    /// Width of the rotary part, the last of each head. Even.
    pub rope_dim: usize,
    /// Width of the latent query.
    pub q_lora_rank: usize,
    /// Groups of the output projection; divides `heads * head_dim`.
    pub o_groups: usize,
    /// Width of each group of the output projection.
    pub o_lora_rank: usize,
    /// Query heads of the indexer.
    pub index_heads: usize,
    /// Width of an indexer head, rotary part included.
    pub index_head_dim: usize,
    /// Compressed entries that the indexer selects.
    pub index_topk: usize,
    /// Tokens that a row sees uncompressed, itself included.
    pub sliding_window: usize,
    /// Routed experts a layer.
    pub experts: usize,
    /// Routed experts that a token uses.
    pub experts_per_token: usize,
    /// Shared experts; stored as one of this many times the width.
    pub shared_experts: usize,
    /// Inner width of an expert.
    pub moe_intermediate: usize,
    /// Factor on the routed experts' weights.
    pub routed_scaling_factor: f32,
    /// Bound on an expert's gate and up values before the activation.
    pub swiglu_limit: f32,
    /// How router logits become scores.
    pub scoring: Scoring,
    /// Whether a token's expert weights are divided by their sum.
    pub norm_topk_prob: bool,
    /// Residual streams of the hyper-connections.
    pub hyper_connections: usize,
    /// Rounds of the Sinkhorn normalisation.
    pub sinkhorn_iterations: usize,
    /// Added in the hyper-connections' normalisations.
    pub hc_epsilon: f32,
    /// Added under the root of RMS norms.
    pub rms_epsilon: f32,
    /// Rotary embedding of layers that only slide.
    pub main_rope: Rope,
    /// Rotary embedding of layers that compress, their indexers included.
    pub compress_rope: Rope,
    /// Positions that the model was made for.
    pub max_position_embeddings: usize,
    /// The token that starts a text.
    pub bos_token: Option<u32>,
    /// The tokens that end a text.
    pub eos_tokens: Vec<u32>,
    /// Whether the head may be left out of the file because it is the embedding.
    pub tie_word_embeddings: bool,
}

impl ModelConfig {
    /// Parses the text of `config.json`. `file` is the name that errors give.
    ///
    /// Defaults are upstream's; what decides the shape of a tensor has none.
    pub fn parse(file: &str, text: &str) -> Result<Self, CheckpointError> {
        let json_error = |problem: String| CheckpointError::Json { file: file.to_owned(), problem };
        let value: Value = serde_json::from_str(text).map_err(|cause| json_error(cause.to_string()))?;
        let Value::Object(map) = &value else {
            return Err(json_error("the top level is not an object".to_owned()));
        };
        let fields = Fields::new(file, map);
        refuse_other_models(&fields)?;

        let attention = attention_kinds(&fields)?;
        let routing = routing_kinds(&fields, attention.len())?;
        let layers: Vec<_> =
            attention.into_iter().zip(routing).map(|(attention, routing)| LayerConfig { attention, routing }).collect();
        let head_dim = fields.size(&["head_dim"], "width of an attention head")?;
        let rope_dim = rope_dimension(&fields, head_dim)?;
        let max_position_embeddings = fields.optional_size(&["max_position_embeddings"])?.unwrap_or(1 << 20);
        let (main_rope, compress_rope) = ropes(&fields, rope_dim, max_position_embeddings)?;
        let vocab_size = fields.size(&["vocab_size"], "entries of the vocabulary")?;
        let (bos_token, eos_tokens) = special_tokens(&fields, vocab_size)?;

        // The indexer's shape matters only to models that have one.
        let has_indexer = layers.iter().any(|layer| layer.attention == AttentionKind::Ratio4);
        let index_size = |name, default, meaning| match fields.optional_size(&[name])? {
            Some(size) => Ok(size),
            None if has_indexer => Err(fields.missing(&[name], meaning)),
            None => Ok(default),
        };
        let config = Self {
            vocab_size,
            hidden_size: fields.size(&["hidden_size"], "width of the residual stream")?,
            heads: fields.size(&["num_attention_heads"], "number of query heads")?,
            head_dim,
            rope_dim,
            q_lora_rank: fields.size(&["q_lora_rank"], "width of the latent query")?,
            o_groups: fields.size(&["o_groups"], "groups of the output projection")?,
            o_lora_rank: fields.size(&["o_lora_rank"], "width of a group of the output projection")?,
            index_heads: index_size("index_n_heads", 64, "query heads of the indexer")?,
            index_head_dim: index_size("index_head_dim", 128, "width of an indexer head")?,
            index_topk: index_size("index_topk", 512, "entries that the indexer selects")?,
            sliding_window: fields.optional_size(&["sliding_window"])?.unwrap_or(128),
            experts: fields.size(&["n_routed_experts", "num_local_experts"], "routed experts of a layer")?,
            experts_per_token: fields.size(&["num_experts_per_tok"], "routed experts that a token uses")?,
            shared_experts: fields.optional_size(&["n_shared_experts"])?.unwrap_or(1),
            moe_intermediate: fields
                .size(&["moe_intermediate_size", "intermediate_size"], "inner width of an expert")?,
            routed_scaling_factor: fields.number("routed_scaling_factor", 1.5)? as f32,
            swiglu_limit: fields.number("swiglu_limit", 10.0)? as f32,
            scoring: scoring(&fields)?,
            norm_topk_prob: fields.flag("norm_topk_prob", true)?,
            hyper_connections: fields.optional_size(&["hc_mult"])?.unwrap_or(4),
            sinkhorn_iterations: fields.optional_size(&["hc_sinkhorn_iters"])?.unwrap_or(20),
            hc_epsilon: fields.number("hc_eps", 1e-6)? as f32,
            rms_epsilon: fields.number("rms_norm_eps", 1e-6)? as f32,
            main_rope,
            compress_rope,
            max_position_embeddings,
            bos_token,
            eos_tokens,
            tie_word_embeddings: fields.flag("tie_word_embeddings", false)?,
            layers,
        };
        config.check_widths(&fields)?;
        config.check_agreement(&fields, has_indexer)?;
        Ok(config)
    }

    /// Bounds every width that is a product, and the number of weights, so that nothing later overflows.
    fn check_widths(&self, fields: &Fields<'_>) -> Result<(), CheckpointError> {
        let streams = self.hyper_connections;
        for (what, left, right) in [
            ("num_attention_heads * head_dim", self.heads, self.head_dim),
            ("index_n_heads * index_head_dim", self.index_heads, self.index_head_dim),
            ("o_groups * o_lora_rank", self.o_groups, self.o_lora_rank),
            ("hc_mult * hidden_size", streams, self.hidden_size),
            ("hc_mult * (2 + hc_mult)", streams, streams + 2),
            ("n_shared_experts * moe_intermediate_size", self.shared_experts, self.moe_intermediate),
            ("2 * moe_intermediate_size", 2, self.moe_intermediate),
            ("2 * head_dim", 2, self.head_dim),
            ("2 * index_head_dim", 2, self.index_head_dim),
        ] {
            // Both factors are at most 2^24 + 2.
            let product = left * right;
            if product > DIMENSION_LIMIT {
                return Err(fields.inconsistent(format!(
                    "{what} = {product} is absurd, at most {DIMENSION_LIMIT} is accepted; correct the fields"
                )));
            }
        }
        // A lower bound on the weights; the largest released model has 2^41.
        const WEIGHT_LIMIT: u128 = 1 << 44;
        let wide = |size: usize| size as u128;
        let expert = 3 * wide(self.hidden_size) * wide(self.moe_intermediate);
        let queries = wide(self.q_lora_rank) * wide(self.heads * self.head_dim);
        let layer = wide(self.experts) * expert + queries;
        let weights = wide(self.layers.len()) * layer + wide(self.vocab_size) * wide(self.hidden_size);
        if weights > WEIGHT_LIMIT {
            return Err(fields.inconsistent(format!(
                "its dimensions call for at least {weights} weights, which is absurd; correct hidden_size, n_routed_experts, \
                 moe_intermediate_size, num_attention_heads, q_lora_rank or vocab_size"
            )));
        }
        Ok(())
    }

    fn check_agreement(&self, fields: &Fields<'_>, has_indexer: bool) -> Result<(), CheckpointError> {
        let width = self.heads * self.head_dim;
        if !width.is_multiple_of(self.o_groups) {
            return Err(fields.inconsistent(format!(
                "num_attention_heads * head_dim = {width} cannot be divided into o_groups = {} equal groups; correct one of them",
                self.o_groups
            )));
        }
        if has_indexer && self.rope_dim > self.index_head_dim {
            return Err(fields.inconsistent(format!(
                "the indexer's heads have index_head_dim = {} values, fewer than the {} rotary ones that layers of ratio 4 need; \
                 correct index_head_dim or qk_rope_head_dim",
                self.index_head_dim, self.rope_dim
            )));
        }
        if self.experts_per_token > self.experts {
            return Err(fields.inconsistent(format!(
                "a token uses num_experts_per_tok = {} experts, but there are only n_routed_experts = {}; correct one of them",
                self.experts_per_token, self.experts
            )));
        }
        Ok(())
    }
}

/// Refuses settings under which the weights would mean something else than what this engine computes.
fn refuse_other_models(fields: &Fields<'_>) -> Result<(), CheckpointError> {
    fields.only("model_type", &json!("deepseek_v4"))?;
    fields.only("num_key_value_heads", &json!(1))?;
    fields.only("hidden_act", &json!("silu"))?;
    fields.only("attention_bias", &json!(false))?;
    fields.only("mlp_bias", &json!(false))?;
    fields.only("topk_method", &json!("noaux_tc"))?;
    // Said here, before hundreds of gigabytes of quantised shards are read only to refuse their first tensor.
    match fields.raw("quantization_config") {
        Some(value) if !value.is_null() => Err(fields.wrong(
            "quantization_config",
            value,
            "absent: quantised weights are not read, convert the checkpoint to BF16 first",
        )),
        _ => Ok(()),
    }
}

fn scoring(fields: &Fields<'_>) -> Result<Scoring, CheckpointError> {
    fields.only("scoring_func", &json!("sqrtsoftplus"))?;
    Ok(Scoring::SqrtSoftplus)
}

fn special_tokens(fields: &Fields<'_>, vocab_size: usize) -> Result<(Option<u32>, Vec<u32>), CheckpointError> {
    let token = |name: &str, value: &Value| {
        let token = value.as_u64().and_then(|token| u32::try_from(token).ok());
        token
            .filter(|token| (*token as usize) < vocab_size)
            .ok_or_else(|| fields.wrong(name, value, format!("a token id below vocab_size = {vocab_size}, or null")))
    };
    let in_vocabulary = |token: u32| (token as usize) < vocab_size;
    let bos = match fields.raw("bos_token_id") {
        None => Some(0),
        Some(Value::Null) => None,
        Some(value) => Some(token("bos_token_id", value)?),
    };
    let eos = match fields.raw("eos_token_id") {
        None => Some(1).filter(|token| in_vocabulary(*token)).into_iter().collect(),
        Some(Value::Null) => Vec::new(),
        Some(Value::Array(list)) => list.iter().map(|value| token("eos_token_id", value)).collect::<Result<_, _>>()?,
        Some(value) => vec![token("eos_token_id", value)?],
    };
    Ok((bos, eos))
}
