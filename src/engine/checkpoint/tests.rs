//! Whole checkpoints: every naming, every layout of files, and what is said when something is wrong.

use std::fs;
use std::path::Path;

use half::bf16;
use serde_json::json;

use super::testing::{
    MODELS, Scratch, Tensor, config_text, config_with, model, put_together, take_apart, tensor, weights,
};
use super::{Checkpoint, CheckpointError, Reference, RoutingWeights, SafeTensors};

const TINY_A: &str = "tests/golden/tiny-a";
const TINY_B: &str = "tests/golden/tiny-b";

fn load(name: &str) -> Checkpoint {
    Checkpoint::open(&model(name)).expect("a good model")
}

fn from_tensors(config: &str, tensors: &[Tensor]) -> Result<Checkpoint, CheckpointError> {
    Checkpoint::from_parts(config, vec![("memory", put_together(tensors))])
}

/// The message for tiny-a with some of its tensors changed.
fn refusal(change: impl FnOnce(&mut Vec<Tensor>)) -> String {
    let mut tensors = weights(TINY_A);
    change(&mut tensors);
    from_tensors(&config_text(TINY_A), &tensors).expect_err("must be refused").to_string()
}

fn named<'a>(tensors: &'a mut [Tensor], name: &str) -> &'a mut Tensor {
    tensors.iter_mut().find(|tensor| tensor.name == name).expect("the tensor is there")
}

#[track_caller]
fn assert_says(message: &str, parts: &[&str]) {
    for part in parts {
        assert!(message.contains(part), "{part:?} is not in: {message}");
    }
}

#[test]
fn every_model_of_the_repository_loads() {
    for name in MODELS {
        let checkpoint = load(name);
        assert!(checkpoint.unused_tensors.is_empty(), "{:?}", checkpoint.unused_tensors);
        let config = &checkpoint.config;
        assert_eq!(checkpoint.weights.layers.len(), config.layers.len());
        let reference = Reference::open(&model(name)).expect("a good reference");
        reference.check_against(config).expect("the model's own reference");
        assert_eq!(reference.prefill_logits.rows, reference.prompt.len());
        assert_eq!(reference.decode_logits.rows, reference.decode_tokens.len());
        assert_eq!(reference.index_topk.len(), 2);
    }
    let hidden = Reference::open(&model(TINY_B)).expect("a good reference").hidden;
    assert_eq!(hidden.len(), 6);
    assert_eq!((hidden[&0].rows, hidden[&0].columns), (8, 4 * 96));
    assert_eq!((hidden[&5].rows, hidden[&5].columns), (8, 96));
}

#[test]
fn values_are_those_in_the_file() {
    let checkpoint = load(TINY_A);
    let mut tensors = weights(TINY_A);
    let expected: Vec<f32> = named(&mut tensors, "model.layers.3.attn.wq_b.weight")
        .bytes
        .chunks(2)
        .map(|pair| bf16::from_le_bytes([pair[0], pair[1]]).to_f32())
        .collect();
    let wq_b = &checkpoint.weights.layers[3].attention.wq_b;
    assert_eq!((wq_b.rows, wq_b.columns), (512, 64));
    assert_eq!(wq_b.data, expected);
    assert_eq!(wq_b.row(2), &expected[128..192]);
    let RoutingWeights::HashTable(table) = &checkpoint.weights.layers[0].ffn.routing else {
        panic!("layer 0 routes by hash");
    };
    let expected = named(&mut tensors, "model.layers.0.ffn.gate.tid2eid").bytes.clone();
    assert_eq!(table.len(), 512 * 2);
    assert!(table.iter().zip(expected.chunks(8)).all(|(entry, bytes)| *entry == u32::from(bytes[0])));
}

/// From the mixture in the repository's files to the released names.
fn released(name: &str) -> String {
    let name = name.strip_prefix("model.").unwrap_or(name);
    let name = name.replace("embed_tokens", "embed").replace(".attn.norm.", ".attn.kv_norm.");
    name.replace("hc_head.hc_", "hc_head_")
}

/// From the mixture in the repository's files to transformers' module names.
fn module(name: &str) -> String {
    [
        ("head.weight", "lm_head.weight"),
        (".attn.", ".self_attn."),
        (".ffn.", ".mlp."),
        (".indexer.compressor.", ".compressor.indexer."),
        (".self_attn.indexer.weights_proj", ".self_attn.compressor.indexer.scorer.weights_proj"),
        (".self_attn.indexer.wq_b", ".self_attn.compressor.indexer.q_b_proj"),
        (".attn_norm.", ".input_layernorm."),
        (".ffn_norm.", ".post_attention_layernorm."),
        (".hc_attn_", ".attn_hc."),
        (".hc_ffn_", ".ffn_hc."),
        (".attn_sink", ".sinks"),
        (".norm.", ".kv_norm."),
        ("model.kv_norm", "model.norm"),
        (".ape", ".position_bias"),
        (".wq_a.", ".q_a_proj."),
        (".wq_b.", ".q_b_proj."),
        (".wkv.", ".kv_proj."),
        (".wgate.", ".gate_proj."),
        (".wo_a.", ".o_a_proj."),
        (".wo_b.", ".o_b_proj."),
        (".q_norm.", ".q_a_norm."),
        (".gate.bias", ".gate.e_score_correction_bias"),
        (".w1.", ".gate_proj."),
        (".w2.", ".down_proj."),
        (".w3.", ".up_proj."),
    ]
    .iter()
    .fold(name.to_owned(), |name, (from, to)| name.replace(from, to))
}

/// Replaces the experts' matrices by transformers' two tensors a layer.
fn fuse(tensors: Vec<Tensor>, layers: usize, experts: usize, hidden: usize, width: usize) -> Vec<Tensor> {
    let (mut kept, separate): (Vec<_>, Vec<_>) =
        tensors.into_iter().partition(|tensor| !tensor.name.contains(".mlp.experts."));
    for layer in 0..layers {
        let bytes = |parts: &[&str]| {
            let names = (0..experts).flat_map(|expert| {
                parts.iter().map(move |part| format!("model.layers.{layer}.mlp.experts.{expert}.{part}.weight"))
            });
            let bytes = names.map(|name| &separate.iter().find(|tensor| tensor.name == name).expect("an expert").bytes);
            bytes.flatten().copied().collect::<Vec<u8>>()
        };
        let name = |part| format!("model.layers.{layer}.mlp.experts.{part}");
        let gate_up = bytes(&["gate_proj", "up_proj"]);
        kept.push(tensor(&name("gate_up_proj"), "BF16", &[experts, 2 * width, hidden], gate_up));
        kept.push(tensor(&name("down_proj"), "BF16", &[experts, hidden, width], bytes(&["down_proj"])));
    }
    kept
}

#[test]
fn every_naming_loads_to_the_same_weights() {
    for name in MODELS {
        let expected = load(name);
        let config = &expected.config;
        let renamed = |rename: &dyn Fn(&str) -> String| {
            let mut tensors = weights(name);
            tensors.iter_mut().for_each(|tensor| tensor.name = rename(&tensor.name));
            tensors
        };
        let modules = renamed(&module);
        let fused =
            fuse(modules.clone(), config.layers.len(), config.experts, config.hidden_size, config.moe_intermediate);
        let prefixed = renamed(&|name| format!("model.{}", released(name)));
        for tensors in [renamed(&released), prefixed, modules, fused] {
            assert_eq!(from_tensors(&config_text(name), &tensors).expect("the same model"), expected);
        }
    }
}

#[test]
fn wider_formats_load_to_the_same_weights() {
    let mut tensors = weights(TINY_B);
    for tensor in &mut tensors {
        match tensor.data_type.as_str() {
            "BF16" => {
                let values = tensor.bytes.chunks(2).map(|pair| bf16::from_le_bytes([pair[0], pair[1]]).to_f32());
                tensor.bytes = values.flat_map(f32::to_le_bytes).collect();
                tensor.data_type = "F32".to_owned();
            }
            _ => {
                tensor.bytes = tensor.bytes.chunks(8).flat_map(|eight| eight[..4].to_vec()).collect();
                tensor.data_type = "I32".to_owned();
            }
        }
    }
    assert_eq!(from_tensors(&config_text(TINY_B), &tensors).expect("the same model"), load(TINY_B));
}

#[test]
fn a_tied_head_is_the_embedding() {
    let tied = config_with(TINY_A, json!({"tie_word_embeddings": true}));
    let mut tensors = weights(TINY_A);
    tensors.retain(|tensor| tensor.name != "head.weight");
    let checkpoint = from_tensors(&tied, &tensors).expect("a tied model");
    assert_eq!(checkpoint.weights.head, checkpoint.weights.embedding);
    // A head that is there is used, and without the tie it has to be there.
    assert_eq!(from_tensors(&tied, &weights(TINY_A)).expect("a model").weights.head, load(TINY_A).weights.head);
    let message = from_tensors(&config_text(TINY_A), &tensors).expect_err("no head").to_string();
    assert_says(&message, &["\"head.weight\" is missing", "lm_head.weight", "model.head.weight", "\"memory\""]);
}

#[test]
fn several_shared_experts_are_one_wide_one() {
    let mut tensors = weights(TINY_A);
    for tensor in &mut tensors {
        if tensor.name.contains("shared_experts.w2") {
            // Columns double: each row is followed by itself.
            tensor.shape[1] *= 2;
            tensor.bytes = tensor.bytes.chunks(2 * 64).flat_map(|row| [row, row].concat()).collect();
        } else if tensor.name.contains("shared_experts") {
            tensor.shape[0] *= 2;
            tensor.bytes.extend_from_within(..);
        }
    }
    let checkpoint = from_tensors(&config_with(TINY_A, json!({"n_shared_experts": 2})), &tensors).expect("a model");
    let shared = &checkpoint.weights.layers[1].ffn.shared;
    assert_eq!((shared.w1.rows, shared.w2.columns, shared.w3.rows), (128, 128, 128));
}

#[test]
fn other_tensors_are_reported_and_prediction_layers_are_not() {
    let mut tensors = weights(TINY_A);
    for name in ["mtp.0.norm.weight", "model.mtp.0.norm.weight", "model.layers.4.attn_norm.weight"] {
        // A format that cannot be read does no harm where nothing is read.
        tensors.push(tensor(name, "F8_E4M3", &[2], vec![0, 0]));
    }
    let checkpoint = from_tensors(&config_text(TINY_A), &tensors).expect("a model");
    assert_eq!(checkpoint.unused_tensors, ["model.layers.4.attn_norm.weight"]);
}

#[test]
fn shards_load_with_and_without_an_index() {
    let expected = load(TINY_B);
    let tensors = weights(TINY_B);
    let (first, second) = tensors.split_at(tensors.len() / 2);
    let names = ["model-00001-of-00002.safetensors", "model-00002-of-00002.safetensors"];
    let scratch = Scratch::new();
    let open = || Checkpoint::open(scratch.path());
    scratch.write("config.json", config_text(TINY_B));
    assert_says(&open().expect_err("no weights").to_string(), &["model.safetensors\" does not exist", "other formats"]);
    scratch.write(names[1], put_together(second));
    assert_says(&open().expect_err("half the weights").to_string(), &[names[0], "does not exist", "Other shards"]);
    scratch.write(names[0], put_together(first));
    assert_eq!(open().expect("two shards"), expected);

    // With an index, only what it names is read.
    scratch.write("model-00001-of-00009.safetensors", b"of another model");
    assert_says(&open().expect_err("two sets").to_string(), &["different sets of shards"]);
    let index = |first: &str| json!({"weight_map": {"head.weight": first, "model.norm.weight": names[1]}}).to_string();
    scratch.write("model.safetensors.index.json", index(names[0]));
    assert_eq!(open().expect("two shards and an index"), expected);
    scratch.write("model.safetensors.index.json", index("model-00007-of-00009.safetensors"));
    assert_says(
        &open().expect_err("a shard too few").to_string(),
        &["model-00007-of-00009.safetensors\" does not exist"],
    );
    for hostile in ["../model.safetensors", "/etc/passwd", "..", "a/b", ""] {
        scratch.write("model.safetensors.index.json", index(hostile));
        assert_says(&open().expect_err("outside").to_string(), &["weight_map.head.weight", "bare name of a file"]);
    }
    scratch.write("model.safetensors.index.json", "{}");
    assert_says(&open().expect_err("no map").to_string(), &["lacks the field \"weight_map\""]);

    let twice = vec![("one", put_together(first)), ("two", put_together(first))];
    let message = Checkpoint::from_parts(&config_text(TINY_B), twice).expect_err("twice").to_string();
    assert_says(&message, &["is both in \"one\" and in \"two\""]);
}

#[test]
fn what_is_wrong_with_a_path_is_said() {
    let scratch = Scratch::new();
    let message = |path: &Path| Checkpoint::open(path).expect_err("must be refused").to_string();
    assert_says(&message(&scratch.path().join("nowhere")), &["There is no directory", "nowhere"]);
    assert_says(&message(&model(TINY_A).join("config.json")), &["config.json\" is not a directory"]);
    assert_says(&message(scratch.path()), &["config.json\" does not exist", "Hugging Face layout"]);
    scratch.write("config.json", [0xff, 0xfe]);
    assert_says(&message(scratch.path()), &["config.json\" is not valid", "UTF-8"]);
    scratch.write("config.json", config_text(TINY_A));
    fs::create_dir(scratch.path().join("model.safetensors")).expect("writable");
    assert_says(&message(scratch.path()), &["model.safetensors\" is not a regular file"]);
    fs::remove_dir(scratch.path().join("model.safetensors")).expect("writable");
    let whole = fs::read(model(TINY_A).join("model.safetensors")).expect("readable");
    scratch.write("model.safetensors", &whole[..whole.len() / 2]);
    assert_says(&message(scratch.path()), &["is cut short", "download it again"]);
    let message = Reference::open(scratch.path()).expect_err("no reference").to_string();
    assert_says(&message, &["reference.safetensors\" does not exist", "checking an engine"]);
}

#[test]
fn wrong_tensors_are_named() {
    let message = refusal(|tensors| tensors.retain(|tensor| !tensor.name.contains("layers.2.attn.wq_a")));
    assert_says(
        &message,
        &[
            "\"layers.2.attn.wq_a.weight\" is missing",
            "model.layers.2.self_attn.q_a_proj.weight",
            "describes another model",
        ],
    );
    let message = refusal(|tensors| tensors.retain(|tensor| !tensor.name.contains("experts.5.w3")));
    assert_says(&message, &["layers.0.ffn.experts.5.w3.weight", "model.layers.0.mlp.experts.gate_up_proj"]);

    let message = refusal(|tensors| {
        named(tensors, "model.layers.1.attn.wkv.weight").shape = vec![128, 64];
    });
    assert_says(
        &message,
        &["model.layers.1.attn.wkv.weight", "[128, 64]", "[64, 128] is expected", "[head_dim, hidden_size]"],
    );
    let message = refusal(|tensors| named(tensors, "model.layers.0.hc_ffn_base").shape = vec![24, 1]);
    assert_says(&message, &["hc_ffn_base", "[24, 1]", "[24] is expected"]);

    let message = refusal(|tensors| {
        let gate = named(tensors, "model.layers.1.ffn.gate.weight");
        gate.data_type = "F8_E4M3".to_owned();
        gate.bytes.truncate(8 * 128);
    });
    assert_says(&message, &["model.layers.1.ffn.gate.weight", "\"F8_E4M3\"", "BF16, F32 and F16", "Convert"]);

    for (bits, shown) in [(0x7f80u16, "inf"), (0xff80, "-inf"), (0x7fc0, "NaN")] {
        let message = refusal(|tensors| {
            named(tensors, "model.norm.weight").bytes[14..16].copy_from_slice(&bits.to_le_bytes());
        });
        assert_says(&message, &["\"model.norm.weight\"", &format!("holds {shown} at element 7"), "finite"]);
    }

    for entry in [8i64, -1, i64::MAX] {
        let message = refusal(|tensors| {
            let table = named(tensors, "model.layers.0.ffn.gate.tid2eid");
            table.bytes[24..32].copy_from_slice(&entry.to_le_bytes());
        });
        assert_says(&message, &["tid2eid", &format!("holds {entry} at element 3"), "must lie in 0..8"]);
    }
    let message = refusal(|tensors| {
        let table = named(tensors, "model.layers.0.ffn.gate.tid2eid");
        table.data_type = "F32".to_owned();
        table.bytes.truncate(512 * 2 * 4);
    });
    assert_says(&message, &["tid2eid", "\"F32\"", "I64 and I32"]);
}

#[test]
fn a_configuration_of_another_model_is_noticed() {
    let refused = |changes| {
        let config = config_with(TINY_A, changes);
        from_tensors(&config, &weights(TINY_A)).expect_err("must be refused").to_string()
    };
    assert_says(
        &refused(json!({"vocab_size": 513})),
        &["embed_tokens.weight", "[512, 128]", "[513, 128]", "[vocab_size"],
    );
    assert_says(&refused(json!({"n_shared_experts": 2})), &["shared_experts.w1", "[128, 128] is expected"]);
    let more_hashed = json!({"mlp_layer_types": ["hash_moe", "hash_moe", "moe", "moe"]});
    assert_says(&refused(more_hashed), &["layers.1.ffn.gate.tid2eid", "missing"]);
    let message = Checkpoint::from_parts(&config_text(TINY_A), Vec::<(String, Vec<u8>)>::new());
    assert_says(&message.expect_err("no files").to_string(), &["\"embed.weight\" is missing from \"no file\""]);
}

/// The reference of tiny-a with one tensor changed.
fn reference_with(change: impl FnOnce(&mut Vec<Tensor>)) -> Result<Reference, CheckpointError> {
    let bytes = fs::read(model(TINY_A).join("reference.safetensors")).expect("readable");
    let mut tensors = take_apart(&bytes);
    change(&mut tensors);
    Reference::from_tensors(&SafeTensors::from_bytes("memory", put_together(&tensors))?)
}

#[test]
fn a_wrong_reference_is_refused() {
    let message = |change: &dyn Fn(&mut Vec<Tensor>)| reference_with(change).expect_err("must be refused").to_string();
    for token in [512i32, -1, i32::MAX] {
        let message = message(&|tensors| {
            named(tensors, "decode_tokens").bytes[8..12].copy_from_slice(&token.to_le_bytes());
        });
        assert_says(
            &message,
            &["The vocabulary is smaller than a token id", &format!("token {token} at element 2"), "ids 0 to 511"],
        );
    }
    assert_says(&message(&|tensors| tensors.retain(|tensor| tensor.name != "prompt")), &["\"prompt\" is missing"]);
    assert_says(&message(&|tensors| named(tensors, "prompt").shape = vec![300, 1]), &["\"prompt\" has 2 dimensions"]);
    assert_says(
        &message(&|tensors| named(tensors, "prefill_logits").shape = vec![150, 1024]),
        &["prefill_logits", "[150, 1024]", "[300, 1024] is expected", "one row per token"],
    );
    assert_says(
        &message(&|tensors| named(tensors, "decode_logits").shape = vec![128, 256]),
        &["decode_logits", "[64, 512] is expected"],
    );
    assert_says(
        &message(&|tensors| named(tensors, "index_topk.1").shape = vec![8, 300]),
        &["index_topk.1", "[300, 300] is expected"],
    );
    for entry in [75i32, -2] {
        let message = message(&|tensors| {
            named(tensors, "index_topk.3").bytes[..4].copy_from_slice(&entry.to_le_bytes());
        });
        assert_says(&message, &["index_topk.3", &format!("holds {entry} at element 0"), "-1..75"]);
    }
    let empty = message(&|tensors| {
        named(tensors, "prompt").shape = vec![0];
        named(tensors, "prompt").bytes.clear();
    });
    assert_says(&empty, &["its prompt or its vocabulary is empty"]);
}

#[test]
fn a_reference_of_another_model_is_refused() {
    let reference = Reference::open(&model(TINY_A)).expect("a good reference");
    let refused = |changes| {
        let config = super::ModelConfig::parse("config.json", &config_with(TINY_A, changes)).expect("a good model");
        reference.check_against(&config).expect_err("must be refused").to_string()
    };
    assert_says(&refused(json!({"vocab_size": 8})), &["The vocabulary is smaller than a token id", "has 8 entries"]);
    assert_says(&refused(json!({"vocab_size": 600})), &["logits for 512 tokens", "600"]);
    assert_says(&refused(json!({"index_topk": 4})), &["index_topk.1 selects 8", "is 4"]);
    let sliding = json!({"layer_types": null, "compress_ratios": [0, 4, 128, 0]});
    assert_says(&refused(sliding), &["index_topk.3", "not of ratio 4"]);
}
