//! One tensor, many spellings: the released checkpoints' names, transformers' module names, and the mixture that transformers saves.

/// Released name within a layer (or at the top), and what else it is called. `attn.norm.weight` is what transformers really writes for
/// the key norm: its renaming rules cannot be undone exactly.
const SPELLINGS: &[(&str, &[&str])] = &[
    ("embed.weight", &["embed_tokens.weight"]),
    ("head.weight", &["lm_head.weight"]),
    ("hc_head_fn", &["hc_head.hc_fn"]),
    ("hc_head_base", &["hc_head.hc_base"]),
    ("hc_head_scale", &["hc_head.hc_scale"]),
    ("attn_norm.weight", &["input_layernorm.weight"]),
    ("ffn_norm.weight", &["post_attention_layernorm.weight"]),
    ("hc_attn_fn", &["attn_hc.fn"]),
    ("hc_attn_base", &["attn_hc.base"]),
    ("hc_attn_scale", &["attn_hc.scale"]),
    ("hc_ffn_fn", &["ffn_hc.fn"]),
    ("hc_ffn_base", &["ffn_hc.base"]),
    ("hc_ffn_scale", &["ffn_hc.scale"]),
    ("attn.wq_a.weight", &["self_attn.q_a_proj.weight"]),
    ("attn.q_norm.weight", &["self_attn.q_a_norm.weight"]),
    ("attn.wq_b.weight", &["self_attn.q_b_proj.weight"]),
    ("attn.wkv.weight", &["self_attn.kv_proj.weight"]),
    ("attn.kv_norm.weight", &["attn.norm.weight", "self_attn.kv_norm.weight"]),
    ("attn.attn_sink", &["self_attn.sinks"]),
    ("attn.wo_a.weight", &["self_attn.o_a_proj.weight"]),
    ("attn.wo_b.weight", &["self_attn.o_b_proj.weight"]),
    ("attn.compressor.wkv.weight", &["self_attn.compressor.kv_proj.weight"]),
    ("attn.compressor.wgate.weight", &["self_attn.compressor.gate_proj.weight"]),
    ("attn.compressor.norm.weight", &["self_attn.compressor.kv_norm.weight"]),
    ("attn.compressor.ape", &["self_attn.compressor.position_bias"]),
    ("attn.indexer.wq_b.weight", &["self_attn.compressor.indexer.q_b_proj.weight"]),
    (
        "attn.indexer.weights_proj.weight",
        &[
            "self_attn.compressor.indexer.scorer.weights_proj.weight",
            "self_attn.compressor.indexer.weights_proj.weight",
        ],
    ),
    ("attn.indexer.compressor.wkv.weight", &["self_attn.compressor.indexer.kv_proj.weight"]),
    ("attn.indexer.compressor.wgate.weight", &["self_attn.compressor.indexer.gate_proj.weight"]),
    ("attn.indexer.compressor.norm.weight", &["self_attn.compressor.indexer.kv_norm.weight"]),
    ("attn.indexer.compressor.ape", &["self_attn.compressor.indexer.position_bias"]),
    ("ffn.gate.weight", &["mlp.gate.weight"]),
    ("ffn.gate.bias", &["mlp.gate.e_score_correction_bias"]),
    ("ffn.gate.tid2eid", &["mlp.gate.tid2eid"]),
    ("ffn.shared_experts.w1.weight", &["mlp.shared_experts.gate_proj.weight"]),
    ("ffn.shared_experts.w2.weight", &["mlp.shared_experts.down_proj.weight"]),
    ("ffn.shared_experts.w3.weight", &["mlp.shared_experts.up_proj.weight"]),
    (FUSED_GATE_UP, &["mlp.experts.gate_up_proj"]),
    (FUSED_DOWN, &["mlp.experts.down_proj"]),
];

/// All experts' first and third matrices of a layer in one tensor, which only transformers writes.
pub(super) const FUSED_GATE_UP: &str = "ffn.experts.gate_up_proj";
/// All experts' second matrices of a layer in one tensor.
pub(super) const FUSED_DOWN: &str = "ffn.experts.down_proj";

/// The names of one expert's matrices in transformers, when they are not fused.
const EXPERT_SPELLINGS: &[(&str, &str)] =
    &[("w1.weight", "gate_proj.weight"), ("w2.weight", "down_proj.weight"), ("w3.weight", "up_proj.weight")];

/// Every name that the tensor of the given released name may have in a file, the released one first.
pub(super) fn spellings(released: &str) -> Vec<String> {
    let (layer, name) = split_layer(released);
    let mut names = vec![name.to_owned()];
    if let Some((_, others)) = SPELLINGS.iter().find(|(known, _)| *known == name) {
        names.extend(others.iter().map(|other| (*other).to_owned()));
    }
    if let Some((expert, part)) = name.strip_prefix("ffn.experts.").and_then(|rest| rest.split_once('.'))
        && let Some((_, other)) = EXPERT_SPELLINGS.iter().find(|(known, _)| *known == part)
    {
        names.push(format!("mlp.experts.{expert}.{other}"));
    }
    ["", "model."].iter().flat_map(|prefix| names.iter().map(move |name| format!("{prefix}{layer}{name}"))).collect()
}

/// `layers.3.` and the rest, or nothing and the whole name.
fn split_layer(name: &str) -> (&str, &str) {
    let end = name.strip_prefix("layers.").and_then(|rest| rest.find('.')).map_or(0, |dot| "layers.".len() + dot + 1);
    name.split_at(end)
}

/// Whether a tensor belongs to multi-token prediction, which the engine does not do.
pub(super) fn is_ignored(name: &str) -> bool {
    name.strip_prefix("model.").unwrap_or(name).starts_with("mtp.")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_family_of_names_is_spelt() {
        assert_eq!(
            spellings("layers.12.attn.kv_norm.weight"),
            [
                "layers.12.attn.kv_norm.weight",
                "layers.12.attn.norm.weight",
                "layers.12.self_attn.kv_norm.weight",
                "model.layers.12.attn.kv_norm.weight",
                "model.layers.12.attn.norm.weight",
                "model.layers.12.self_attn.kv_norm.weight",
            ]
        );
        assert!(
            spellings("layers.0.ffn.experts.7.w3.weight")
                .contains(&"model.layers.0.mlp.experts.7.up_proj.weight".into())
        );
        assert!(spellings("hc_head_fn").contains(&"model.hc_head.hc_fn".into()));
        assert_eq!(spellings("norm.weight"), ["norm.weight", "model.norm.weight"]);
        assert!(is_ignored("mtp.0.enorm.weight") && is_ignored("model.mtp.0.norm.weight"));
        assert!(!is_ignored("model.norm.weight"));
    }
}
