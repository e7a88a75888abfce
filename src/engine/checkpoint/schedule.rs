//! What each layer is: its attention and its routing.

use serde_json::{Value, json};

use super::error::CheckpointError;
use super::fields::Fields;

/// What one layer attends to beside the sliding window.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum AttentionKind {
    /// Nothing: the window only.
    Sliding,
    /// Entries compressed 4 to 1, selected by an indexer.
    Ratio4,
    /// Entries compressed 128 to 1, all of them.
    Ratio128,
}

impl AttentionKind {
    /// Tokens per compressed entry; none for a layer that does not compress.
    pub fn ratio(self) -> Option<usize> {
        match self {
            Self::Sliding => None,
            Self::Ratio4 => Some(4),
            Self::Ratio128 => Some(128),
        }
    }
}

/// How one layer chooses its experts.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Routing {
    /// By a table from token id to experts.
    Hash,
    /// By the best scores after adding a bias.
    Bias,
}

/// The kind of one layer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct LayerConfig {
    /// What it attends to.
    pub attention: AttentionKind,
    /// How it chooses experts.
    pub routing: Routing,
}

const SLIDING: &str = "sliding_attention";
const RATIO_4: &str = "compressed_sparse_attention";
const RATIO_128: &str = "heavily_compressed_attention";

/// The first `layers` entries of a per-layer list; what follows belongs to multi-token-prediction layers.
fn per_layer<'a>(
    fields: &Fields<'_>,
    name: &str,
    list: &'a [Value],
    layers: usize,
) -> Result<&'a [Value], CheckpointError> {
    list.get(..layers).ok_or_else(|| {
        fields.inconsistent(format!(
            "{} has {} entries, but num_hidden_layers is {layers}; give at least one entry a layer",
            fields.path_of(name),
            list.len()
        ))
    })
}

pub(super) fn attention_kinds(fields: &Fields<'_>) -> Result<Vec<AttentionKind>, CheckpointError> {
    let layers = fields.size(&["num_hidden_layers"], "number of layers")?;
    refuse_other_ratios(fields)?;
    // As in transformers, names win over ratios where both are given.
    if let Some(list) = fields.list("layer_types")? {
        let list = per_layer(fields, "layer_types", list, layers)?;
        let kind = |(layer, value): (usize, &Value)| match value.as_str() {
            Some(SLIDING) => Ok(AttentionKind::Sliding),
            Some(RATIO_4) => Ok(AttentionKind::Ratio4),
            Some(RATIO_128) => Ok(AttentionKind::Ratio128),
            _ => Err(fields.wrong(
                &format!("layer_types[{layer}]"),
                value,
                format!("for layer {layer} one of {SLIDING:?}, {RATIO_4:?} and {RATIO_128:?}"),
            )),
        };
        return list.iter().enumerate().map(kind).collect();
    }
    if let Some(list) = fields.list("compress_ratios")? {
        let list = per_layer(fields, "compress_ratios", list, layers)?;
        let kind = |(layer, value): (usize, &Value)| match value.as_u64() {
            Some(0) => Ok(AttentionKind::Sliding),
            Some(4) => Ok(AttentionKind::Ratio4),
            Some(128) => Ok(AttentionKind::Ratio128),
            _ => Err(fields.wrong(
                &format!("compress_ratios[{layer}]"),
                value,
                format!("for layer {layer} one of 0 (sliding window only), 4 and 128"),
            )),
        };
        return list.iter().enumerate().map(kind).collect();
    }
    Err(fields.missing(&["compress_ratios", "layer_types"], "what each layer attends to"))
}

/// The ratios of the two compressed kinds can be set in transformers, but only 4 and 128 exist.
fn refuse_other_ratios(fields: &Fields<'_>) -> Result<(), CheckpointError> {
    fields.only("compress_rate_csa", &json!(4))?;
    fields.only("compress_rate_hca", &json!(128))?;
    if let Some(rates) = fields.object("compress_rates")? {
        rates.only(RATIO_4, &json!(4))?;
        rates.only(RATIO_128, &json!(128))?;
    }
    Ok(())
}

pub(super) fn routing_kinds(fields: &Fields<'_>, layers: usize) -> Result<Vec<Routing>, CheckpointError> {
    if let Some(list) = fields.list("mlp_layer_types")? {
        let list = per_layer(fields, "mlp_layer_types", list, layers)?;
        let kind = |(layer, value): (usize, &Value)| match value.as_str() {
            Some("hash_moe") => Ok(Routing::Hash),
            Some("moe") => Ok(Routing::Bias),
            _ => Err(fields.wrong(
                &format!("mlp_layer_types[{layer}]"),
                value,
                format!("for layer {layer} one of \"hash_moe\" and \"moe\""),
            )),
        };
        return list.iter().enumerate().map(kind).collect();
    }
    let hashed = match fields.raw("num_hash_layers").filter(|value| !value.is_null()) {
        None => 3,
        Some(value) => value
            .as_u64()
            .ok_or_else(|| fields.wrong("num_hash_layers", value, "a whole number of layers, 0 or more"))?,
    };
    Ok((0..layers as u64).map(|layer| if layer < hashed { Routing::Hash } else { Routing::Bias }).collect())
}
