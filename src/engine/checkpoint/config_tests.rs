//! Configurations, in both vocabularies and in need of correction.

use proptest::prelude::*;
use proptest::sample::Index;
use serde_json::{Map, Value, json};

use super::rope::Rope;
use super::testing::{MODELS, config_text, config_with};
use super::{CheckpointError, ModelConfig, Routing};

fn parse(text: &str) -> Result<ModelConfig, CheckpointError> {
    ModelConfig::parse("somewhere/config.json", text)
}

fn tiny(changes: Value) -> Result<ModelConfig, CheckpointError> {
    parse(&config_with("tests/golden/tiny-a", changes))
}

#[track_caller]
fn refused(changes: Value, parts: &[&str]) {
    let message = tiny(changes.clone()).expect_err(&format!("{changes} must be refused")).to_string();
    for part in parts.iter().chain(&["somewhere/config.json"]) {
        assert!(message.contains(part), "{part:?} is not in: {message}");
    }
}

/// Takes out what only transformers writes and puts the released fields in.
fn as_released(more: Value) -> Value {
    let mut changes = json!({
        "layer_types": null, "mlp_layer_types": null, "compress_rates": null, "rope_parameters": null,
        "partial_rotary_factor": null,
    });
    for (field, value) in more.as_object().expect("an object") {
        changes[field] = value.clone();
    }
    changes
}

#[test]
fn the_models_of_the_repository_parse() {
    for name in MODELS {
        let config = parse(&config_text(name)).expect("a good configuration");
        assert_eq!(config.main_rope.inverse_frequencies.len(), config.rope_dim / 2);
        assert_eq!(config.compress_rope.inverse_frequencies.len(), config.rope_dim / 2);
    }
    let config = tiny(json!({})).expect("a good configuration");
    assert_eq!((config.vocab_size, config.hidden_size, config.heads, config.head_dim), (512, 128, 8, 64));
    assert_eq!((config.rope_dim, config.index_topk, config.sliding_window), (16, 8, 16));
    let attention: Vec<_> = config.layers.iter().map(|layer| layer.attention.ratio()).collect();
    assert_eq!(attention, [None, Some(4), Some(128), Some(4)]);
    assert_eq!(config.layers[0].routing, Routing::Hash);
    assert_eq!(config.layers[1].routing, Routing::Bias);
    assert_eq!((config.bos_token, config.eos_tokens), (Some(0), vec![1]));
}

#[test]
fn released_names_parse_to_the_same() {
    let expected = tiny(json!({})).expect("a good configuration");
    // The last two ratios belong to prediction layers.
    let released = as_released(json!({
        "compress_ratios": [0, 4, 128, 4, 0, 0], "num_hash_layers": 1, "qk_rope_head_dim": 16,
        "rope_theta": 10000, "compress_rope_theta": 160000,
    }));
    assert_eq!(tiny(released).expect("a good configuration"), expected);

    let name = "tests/golden/tiny-b";
    let expected = parse(&config_text(name)).expect("a good configuration");
    let released = as_released(json!({
        "compress_ratios": [0, 0, 4, 128, 4, 0], "num_hash_layers": 2, "qk_rope_head_dim": 8,
        "rope_scaling": {"type": "yarn", "factor": 16, "beta_fast": 32, "beta_slow": 1,
            "original_max_position_embeddings": 256, "rope_theta": 77.0},
    }));
    let released = parse(&config_with(name, released)).expect("a good configuration");
    assert_eq!(released, expected);
    // YaRN only where layers compress.
    assert_ne!(released.main_rope, released.compress_rope);
    assert_eq!(released.main_rope, Rope::new(10_000.0, 8, None));
}

#[test]
fn defaults_are_upstreams() {
    let config = tiny(json!({
        "rope_parameters": null, "mlp_layer_types": null, "max_position_embeddings": null, "hc_mult": null,
        "hc_sinkhorn_iters": null, "hc_eps": null, "rms_norm_eps": null, "swiglu_limit": null, "rope_theta": null,
        "compress_rope_theta": null, "sliding_window": null, "n_shared_experts": null, "bos_token_id": null,
        "eos_token_id": null, "routed_scaling_factor": null, "partial_rotary_factor": null, "qk_rope_head_dim": null,
    }))
    .expect("a good configuration");
    assert_eq!(config.rope_dim, 8);
    assert_eq!(config.main_rope.theta, 10_000.0);
    assert_eq!(config.compress_rope.theta, 160_000.0);
    assert_eq!((config.hyper_connections, config.sinkhorn_iterations), (4, 20));
    assert_eq!((config.sliding_window, config.max_position_embeddings), (128, 1 << 20));
    assert_eq!((config.swiglu_limit, config.routed_scaling_factor), (10.0, 1.5));
    assert_eq!((config.bos_token, config.eos_tokens), (Some(0), vec![1]));
    assert_eq!(config.layers.iter().filter(|layer| layer.routing == Routing::Hash).count(), 3);
}

#[test]
fn several_end_tokens_are_kept() {
    let config = tiny(json!({"eos_token_id": [1, 7]})).expect("a good configuration");
    assert_eq!(config.eos_tokens, [1, 7]);
    refused(json!({"eos_token_id": [1, 512]}), &["\"eos_token_id\" is 512", "below vocab_size = 512"]);
    refused(json!({"bos_token_id": -1}), &["\"bos_token_id\" is -1"]);
}

#[test]
fn missing_fields_are_named() {
    for field in [
        "vocab_size",
        "hidden_size",
        "num_hidden_layers",
        "num_attention_heads",
        "head_dim",
        "q_lora_rank",
        "o_groups",
        "o_lora_rank",
        "index_n_heads",
        "index_head_dim",
        "index_topk",
        "n_routed_experts",
        "num_experts_per_tok",
        "moe_intermediate_size",
        "layer_types",
    ] {
        refused(json!({field: null}), &["lacks the field", field]);
    }
    // Without a layer that selects, the indexer's shape does not matter.
    let sliding = json!({"layer_types": null, "compress_ratios": [0, 128, 128, 0], "index_topk": null});
    assert_eq!(tiny(sliding).expect("a good configuration").index_topk, 512);
}

#[test]
fn unusable_values_are_named() {
    refused(json!({"hidden_size": 0}), &["\"hidden_size\" is 0", "from 1 to 16777216"]);
    refused(json!({"hidden_size": -5}), &["\"hidden_size\" is -5"]);
    refused(json!({"hidden_size": 1.5}), &["\"hidden_size\" is 1.5"]);
    refused(json!({"hidden_size": "128"}), &["\"hidden_size\" is \"128\""]);
    refused(json!({"vocab_size": 1u64 << 40}), &["\"vocab_size\" is 1099511627776"]);
    refused(json!({"rms_norm_eps": 0.0}), &["\"rms_norm_eps\" is 0.0", "positive"]);
    refused(json!({"swiglu_limit": 1e300}), &["\"swiglu_limit\" is 1e+300", "float32"]);
    refused(json!({"norm_topk_prob": 1}), &["\"norm_topk_prob\" is 1", "true or false"]);
    refused(json!({"scoring_func": "softmax"}), &["\"scoring_func\" is \"softmax\"", "sqrtsoftplus"]);
    refused(json!({"model_type": "deepseek_v41"}), &["deepseek_v41", "\"deepseek_v4\""]);
    refused(json!({"num_key_value_heads": 2}), &["\"num_key_value_heads\" is 2"]);
    refused(json!({"quantization_config": {"quant_method": "fp8"}}), &["quantization_config", "BF16"]);
    refused(json!({"rope_theta": 1.0, "rope_parameters": null}), &["\"rope_theta\" is 1.0", "above 1"]);
    let long = "x".repeat(100_000);
    assert!(tiny(json!({"scoring_func": long})).expect_err("refused").to_string().len() < 1000);
}

#[test]
fn schedules_name_the_layer() {
    let types =
        |third: &str| json!({"layer_types": ["sliding_attention", "sliding_attention", third, "sliding_attention"]});
    refused(types("full_attention"), &["layer_types[2]", "\"full_attention\"", "layer 2"]);
    refused(json!({"layer_types": ["sliding_attention"]}), &["layer_types has 1 entries", "num_hidden_layers is 4"]);
    refused(
        json!({"layer_types": null, "compress_ratios": [0, 4, 8, 4]}),
        &["compress_ratios[2]", "is 8", "layer 2", "0 (sliding window only), 4 and 128"],
    );
    refused(json!({"layer_types": null, "compress_ratios": [0, 4]}), &["compress_ratios has 2 entries"]);
    refused(json!({"layer_types": null, "compress_ratios": 4}), &["\"compress_ratios\" is 4", "a list"]);
    refused(json!({"mlp_layer_types": ["moe", "dense", "moe", "moe"]}), &["mlp_layer_types[1]", "\"dense\""]);
    refused(json!({"mlp_layer_types": null, "num_hash_layers": -1}), &["\"num_hash_layers\" is -1"]);
    refused(
        json!({"compress_rates": {"compressed_sparse_attention": 8}}),
        &["compress_rates.compressed_sparse_attention", "is 8", "must be 4"],
    );
    refused(json!({"compress_rate_hca": 64}), &["compress_rate_hca"]);
}

#[test]
fn contradictions_are_explained() {
    refused(json!({"o_groups": 3}), &["num_attention_heads * head_dim = 512", "o_groups = 3"]);
    refused(json!({"num_experts_per_tok": 9}), &["num_experts_per_tok = 9", "n_routed_experts = 8"]);
    refused(json!({"index_head_dim": 8}), &["index_head_dim = 8", "16 rotary"]);
    refused(json!({"qk_rope_head_dim": 32}), &["qk_rope_head_dim gives 32", "partial_rotary_factor gives 16"]);
    let only = |dimension: usize| as_released(json!({"qk_rope_head_dim": dimension, "compress_ratios": [0, 0, 0, 0]}));
    refused(only(15), &["gives 15 rotary", "even number from 2 to head_dim = 64"]);
    refused(only(66), &["gives 66 rotary"]);
    refused(json!({"num_attention_heads": 1 << 20}), &["num_attention_heads * head_dim", "absurd"]);
    refused(
        json!({"n_routed_experts": 1 << 24, "moe_intermediate_size": 1 << 20, "hidden_size": 1 << 20}),
        &["weights", "absurd"],
    );
}

#[test]
fn rotary_settings_are_checked() {
    let nested = |compress: Value| json!({"rope_parameters": {"main": {"rope_type": "default"}, "compress": compress}});
    refused(nested(json!({"rope_type": "linear"})), &["rope_parameters.compress.rope_type", "\"linear\"", "yarn"]);
    refused(nested(json!({"rope_type": "yarn"})), &["lacks the field", "rope_parameters.compress.factor"]);
    refused(nested(json!({"rope_type": "yarn", "factor": 0.5})), &["compress.factor", "at least 1"]);
    refused(
        nested(json!({"rope_type": "yarn", "factor": 4, "attention_factor": 1.28})),
        &["compress.attention_factor", "is 1.28"],
    );
    refused(
        nested(json!({"rope_type": "yarn", "factor": 4, "beta_fast": 1, "beta_slow": 2})),
        &["compress.beta_fast", "at least beta_slow"],
    );
    refused(json!({"rope_parameters": {"main": {}}}), &["lacks the field", "rope_parameters.compress"]);
    refused(json!({"rope_parameters": 3}), &["\"rope_parameters\" is 3", "an object"]);
    // Zero betas and a null factor stand for the defaults.
    let spelt = json!({"rope_type": "yarn", "factor": 32.0, "beta_fast": 32, "beta_slow": 1,
        "original_max_position_embeddings": 128, "rope_theta": 160000});
    let short = json!({"rope_type": "yarn", "factor": null, "beta_fast": 0, "beta_slow": 0,
        "original_max_position_embeddings": 128, "rope_theta": 160000});
    assert_eq!(tiny(nested(spelt)).expect("good"), tiny(nested(short)).expect("good"));
}

#[test]
fn text_that_is_no_configuration_is_refused() {
    for text in ["", "[]", "{", "null", "{\"vocab_size\": NaN}"] {
        let message = parse(text).expect_err("must be refused").to_string();
        assert!(message.contains("somewhere/config.json\" is not valid"), "{message}");
    }
    assert!(parse(&"[".repeat(100_000)).is_err());
}

/// Any JSON that a field may be given, most often a number.
fn any_json() -> impl Strategy<Value = Value> {
    prop_oneof![
        any::<u64>().prop_map(Value::from),
        (0u64..200).prop_map(Value::from),
        any::<i64>().prop_map(Value::from),
        any::<f64>().prop_map(Value::from),
        Just(json!(null)),
        Just(json!([0, 4, 128, 4])),
        Just(json!({"rope_type": "yarn", "factor": 1e9, "original_max_position_embeddings": 1})),
        "[a-z_]{0,9}".prop_map(Value::from),
    ]
}

proptest! {
    #[test]
    fn changed_fields_never_panic(
        changes in proptest::collection::vec((any::<Index>(), any_json()), 1..5),
        released in any::<bool>(),
    ) {
        let extra = if released { as_released(json!({"compress_ratios": [0, 4, 128, 4]})) } else { json!({}) };
        let text = config_with("tests/golden/tiny-a", extra);
        let mut config: Map<String, Value> = serde_json::from_str(&text).expect("valid JSON");
        for (field, value) in changes {
            let field = config.keys().nth(field.index(config.len())).expect("within bounds").clone();
            config.insert(field, value);
        }
        let _ = parse(&Value::Object(config).to_string());
    }

    #[test]
    fn changed_text_never_panics(place in any::<Index>(), with in "[0-9a-z\"{}\\[\\],:. -]{0,5}") {
        let mut text = config_text("tests/golden/tiny-b");
        let start = place.index(text.len());
        let end = (start + with.len()).min(text.len());
        text.replace_range(start..end, &with);
        let _ = parse(&text);
    }
}
