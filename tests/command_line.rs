//! The program as scripts use it: exit codes, one clear line for what is wrong, JSON for what is found.

#![allow(clippy::unwrap_used, reason = "a test that cannot set itself up has failed")]

#[path = "support/binary.rs"]
mod binary;
#[path = "support/model_directory.rs"]
mod model_directory;

use std::process::Stdio;

use binary::{assert_refused, coalmine, code, run, text};
use coalmine_sessions::TOGGLES;
use coalmine_sessions::workload::Vocabulary;
use model_directory::ModelDirectory;
use serde_json::Value;

const WEIGHTS: &str = "model.safetensors";
const REFERENCE: &str = "reference.safetensors";

/// A directory that `model verify` and `run --model` must both refuse.
fn assert_model_refused(model: &ModelDirectory, words: &[&str]) {
    assert_refused(&["model", "verify", model.argument()], words);
    assert_refused(&["run", "--model", model.argument()], words);
}

fn tiny_a() -> String {
    format!("{}/tests/golden/tiny-a", env!("CARGO_MANIFEST_DIR"))
}

#[test]
fn a_missing_directory_is_named() {
    let missing = format!("{}/no-such-model", env!("CARGO_TARGET_TMPDIR"));
    let words = [missing.as_str(), "There is no directory", "config.json"];
    assert_refused(&["model", "verify", &missing], &words);
    assert_refused(&["run", "--model", &missing], &words);
    // The console reads it before it asks for a terminal.
    assert_refused(&["--model", &missing], &words);
}

#[test]
fn a_file_in_place_of_a_directory_is_named() {
    let file = format!("{}/config.json", tiny_a());
    assert_refused(&["model", "verify", &file], &[&file, "is not a directory"]);
}

#[test]
fn a_directory_without_config_says_which_file_is_missing() {
    let model = ModelDirectory::copy_of("tiny-a");
    assert_model_refused(model.remove("config.json"), &[model.argument(), "config.json", "does not exist"]);
}

#[test]
fn a_directory_without_weights_or_reference_says_which_file_is_missing() {
    let model = ModelDirectory::copy_of("tiny-a");
    model.remove(REFERENCE);
    assert_refused(&["model", "verify", model.argument()], &[REFERENCE, "does not exist"]);
    assert_model_refused(model.remove(WEIGHTS), &[WEIGHTS, "does not exist"]);
}

#[test]
fn a_config_that_is_no_json_is_named() {
    let model = ModelDirectory::copy_of("tiny-a");
    assert_model_refused(model.truncate("config.json", 100), &["config.json", "is not valid", "line"]);
}

#[test]
fn a_truncated_safetensors_file_is_named_with_both_sizes() {
    for length in [1_000_000, 5_000, 8, 4, 0] {
        let model = ModelDirectory::copy_of("tiny-a");
        let found = format!("the file has {length} bytes");
        assert_model_refused(model.truncate(WEIGHTS, length), &[WEIGHTS, "is cut short", &found]);
    }
    let model = ModelDirectory::copy_of("tiny-a");
    model.truncate(REFERENCE, 500_000);
    assert_refused(&["model", "verify", model.argument()], &[REFERENCE, "is cut short", "the file has 500000 bytes"]);
}

#[test]
fn a_header_that_is_no_header_is_refused() {
    let model = ModelDirectory::copy_of("tiny-a");
    model.edit(WEIGHTS, |bytes| bytes[..8].copy_from_slice(&u64::MAX.to_le_bytes()));
    assert_model_refused(&model, &[WEIGHTS]);
    let model = ModelDirectory::copy_of("tiny-a");
    model.edit(WEIGHTS, |bytes| bytes[8..64].fill(b'?'));
    assert_model_refused(&model, &[WEIGHTS, "is not a usable safetensors file"]);
}

#[test]
fn a_tensor_of_the_wrong_shape_is_named_with_both_shapes() {
    let model = ModelDirectory::copy_of("tiny-a");
    let name = "layers.1.attn.wkv.weight";
    model.retensor(WEIGHTS, |tensors| tensors.named(name).shape.reverse());
    assert_model_refused(&model, &[name, WEIGHTS, "[128, 64]", "[64, 128]", "is expected"]);

    let model = ModelDirectory::copy_of("tiny-a");
    model.retensor(WEIGHTS, |tensors| tensors.named("embed_tokens.weight").keep_rows(511));
    assert_model_refused(&model, &["embed_tokens.weight", "[511, 128]", "[512, 128]"]);

    let model = ModelDirectory::copy_of("tiny-a");
    model.retensor(REFERENCE, |tensors| tensors.named("prefill_logits").keep_rows(299));
    assert_refused(&["model", "verify", model.argument()], &["prefill_logits", REFERENCE, "[299, 512]", "[300, 512]"]);
}

#[test]
fn a_missing_tensor_is_named() {
    let model = ModelDirectory::copy_of("tiny-a");
    model.retensor(WEIGHTS, |tensors| tensors.remove("layers.2.ffn.gate.weight"));
    assert_model_refused(&model, &["layers.2.ffn.gate.weight", WEIGHTS, "is missing"]);
}

#[test]
fn an_unknown_layer_type_is_named_with_the_known_ones() {
    let model = ModelDirectory::copy_of("tiny-a");
    model.configure(|config| config["layer_types"][1] = "wishful_attention".into());
    let words = ["config.json", "layer_types", "wishful_attention", "sliding_attention", "compressed_sparse_attention"];
    assert_model_refused(&model, &words);

    let model = ModelDirectory::copy_of("tiny-a");
    model.configure(|config| config["mlp_layer_types"][3] = "dense".into());
    assert_model_refused(&model, &["config.json", "mlp_layer_types", "dense", "hash_moe"]);
}

#[test]
fn a_config_value_that_cannot_be_is_named() {
    for (field, value) in [("hidden_size", 0), ("num_attention_heads", -1), ("hc_mult", 1_000), ("vocab_size", 0)] {
        let model = ModelDirectory::copy_of("tiny-a");
        model.configure(|config| config[field] = value.into());
        assert_model_refused(&model, &[field, &value.to_string()]);
    }
}

#[test]
fn a_reference_token_outside_the_vocabulary_is_named() {
    for (tensor, index, token) in [("prompt", 17, 512), ("decode_tokens", 3, 70_000), ("prompt", 0, -1)] {
        let model = ModelDirectory::copy_of("tiny-a");
        model.retensor(REFERENCE, |tensors| tensors.named(tensor).set(index, token));
        let (token, element) = (format!("token {token}"), format!("element {index}"));
        let words = [REFERENCE, tensor, &token, &element, "512 entries"];
        assert_refused(&["model", "verify", model.argument()], &words);
    }
}

/// A copy of tiny-a that knows only its first tokens.
fn with_vocabulary(size: usize) -> ModelDirectory {
    let model = ModelDirectory::copy_of("tiny-a");
    model.configure(|config| config["vocab_size"] = size.into());
    model.retensor(WEIGHTS, |tensors| {
        for name in ["embed_tokens.weight", "head.weight", "tid2eid"] {
            tensors.named(name).keep_rows(size);
        }
    });
    model
}

#[test]
fn a_model_with_fewer_tokens_than_the_task_or_the_reference_is_refused() {
    let needed = Vocabulary::demo().size();
    let (largest, entries) = ((needed - 1).to_string(), format!("{} entries", needed - 1));
    let model = with_vocabulary(needed - 1);
    assert_refused(&["run", "--model", model.argument()], &["vocabulary", &entries, &largest]);
    assert_refused(&["--model", model.argument()], &["vocabulary", &entries, &largest]);
    assert_refused(&["model", "verify", model.argument()], &[REFERENCE, "vocabulary", &entries]);

    let model = with_vocabulary(needed);
    let arguments = ["run", "--model", model.argument(), "--sessions", "1", "--turns", "1", "--steps", "3"];
    assert_eq!(code(&run(&arguments)), 0, "one token more is enough");
}

#[test]
fn a_toggle_that_cannot_be_set_is_named() {
    for (assignment, words) in [
        ("overlapp=0", &["`overlapp`", "did you mean `overlap`?", "index-k"][..]),
        ("zebra=1", &["`zebra`", "The toggles are", "nudge-main"]),
        ("=1", &["no toggle", "The toggles are"]),
        ("overlap=2", &["SGLANG_OPT_USE_MULTI_STREAM_OVERLAP", "`2`", "0, 1"]),
        ("index-k=fp16", &["`index-k`", "`fp16`", "bf16, fp8, f32"]),
        ("padding=", &["`padding`", "sentinel, skip, scatter"]),
        ("nudge-main=2ms", &["`nudge-main`", "`2ms`", "3us"]),
        ("nudge-main=-1", &["`nudge-main`", "`-1`", "3us"]),
        ("overlap", &["`overlap`", "NAME=VALUE"]),
        ("", &["NAME=VALUE"]),
    ] {
        assert_refused(&["run", "--set", assignment], words);
    }
    assert_refused(&["--set", "overlap=maybe"], &["`maybe`", "0, 1"]);
    assert_refused(&["run", "--set", "overlap=1", "--set", "eager"], &["`eager`", "NAME=VALUE"]);
}

#[test]
fn a_name_that_would_steer_the_terminal_is_shown_harmlessly() {
    let output = run(&["run", "--set", "\x1b[2J\x07zebra=1"]);
    assert_eq!(code(&output), 2);
    assert!(!output.stderr.iter().any(|byte| byte.is_ascii_control() && *byte != b'\n'), "{output:?}");
    let output = run(&["model", "verify", "/tmp/\x1b[2J"]);
    assert_eq!(code(&output), 2);
    assert!(!output.stderr.iter().any(|byte| byte.is_ascii_control() && *byte != b'\n'), "{output:?}");
}

#[test]
fn a_number_out_of_range_is_named_with_the_range() {
    for (option, value, words) in [
        ("--concurrency", "0", &["between 1 and"][..]),
        ("--concurrency", "100000000", &["between 1 and"]),
        ("--concurrency", "99999999999999999999999", &[]),
        ("--turns", "0", &["between 1 and"]),
        ("--turns", "99999", &["between 1 and"]),
        ("--turns", "99999999999", &[]),
    ] {
        assert_refused(&["run", option, value], &[&[option, value], words].concat());
    }
}

#[test]
fn what_is_no_number_is_named() {
    for option in ["--seed", "--concurrency", "--turns", "--sessions", "--steps", "--workers", "--margin-us"] {
        assert_refused(&["run", option, "x"], &[option, "x", "number"]);
    }
    assert_refused(&["run", "--seed=-1"], &["--seed", "-1"]);
    assert_refused(&["run", "--seed=1.5"], &["--seed", "1.5"]);
    assert_refused(&["run", "--workers", "0"], &["--workers", "0"]);
    assert_refused(&["--pace", "0"], &["--pace", "0", "0.01", "max"]);
    assert_refused(&["run", "--margin-us", "nan"], &["--margin-us"]);
}

#[test]
fn what_is_no_command_or_option_is_named() {
    assert_refused(&["frobnicate"], &["frobnicate"]);
    assert_refused(&["model", "frobnicate"], &["frobnicate"]);
    assert_refused(&["run", "--frobnicate"], &["--frobnicate"]);
    assert_refused(&["run", "--format", "yaml"], &["--format", "yaml", "text", "json"]);
    assert_refused(&["run", "--sessions"], &["--sessions"]);
    assert_refused(&["model", "verify"], &["DIRECTORY"]);
    assert_refused(&["model"], &["verify"]);
}

#[test]
fn the_console_needs_a_terminal() {
    assert_refused(&[], &["needs a terminal", "standard input", "coalmine run"]);
}

#[test]
fn help_and_version_are_no_errors() {
    for arguments in [&["--help"][..], &["run", "--help"], &["help", "model"]] {
        let output = run(arguments);
        assert_eq!((code(&output), text(&output.stderr)), (0, ""), "{arguments:?}");
        assert!(text(&output.stdout).contains("Usage: coalmine"), "{arguments:?}");
    }
    assert_eq!(text(&run(&["--version"]).stdout), format!("coalmine {}\n", env!("CARGO_PKG_VERSION")));
}

fn json(arguments: &[&str]) -> Value {
    let output = run(arguments);
    assert_eq!((code(&output), text(&output.stderr)), (0, ""), "{arguments:?}");
    serde_json::from_slice(&output.stdout).unwrap()
}

/// A small run's JSON.
fn small_run(more: &[&str]) -> Value {
    let small = ["run", "--sessions", "8", "--concurrency", "8", "--turns", "2", "--format", "json"];
    json(&[&small, more].concat())
}

/// The same without what depends on how fast the machine is.
fn without_wall_time(mut report: Value) -> Value {
    let fields = report.as_object_mut().unwrap();
    for field in ["tokens_per_second", "seconds"] {
        assert!(fields.remove(field).unwrap().as_f64().unwrap() > 0.0, "{field}");
    }
    report
}

#[test]
fn a_run_reports_its_findings_as_json() {
    let report = small_run(&["--seed", "5", "--set", "overlap=0"]);
    for field in [
        "sessions",
        "finished",
        "corrupted",
        "diverged_sessions",
        "hit_steps",
        "witnesses",
        "diverged_without_witness",
        "steps",
        "tokens",
        "canary_hits",
        "graph_nodes",
        "seed",
    ] {
        assert!(report[field].is_u64(), "{field}: {}", report[field]);
    }
    assert_eq!((&report["sessions"], &report["finished"], &report["seed"]), (&8.into(), &8.into(), &5.into()));
    assert!(report["rows_per_hit_step"].is_object());
    assert!(report["tokens_per_second"].as_f64().unwrap() > 0.0);
    assert!(report["graph_nodes"].as_u64().unwrap() > 0);
    assert!(report["tokens"].as_u64().unwrap() > 100);
    assert!(!report["instruction_set"].as_str().unwrap().is_empty());
    let rate = |bound| report["rate"][bound].as_f64().unwrap();
    assert!(0.0 <= rate("low") && rate("low") <= rate("value") && rate("value") <= rate("high") && rate("high") <= 1.0);
    assert!(rate("high") > 0.0, "none of eight does not mean never");
    for kind in ["wrong-argument", "malformed-call"] {
        assert!(report["flags"][kind].is_u64(), "{kind}");
    }
    let toggles = report["toggles"].as_object().unwrap();
    assert_eq!(toggles.len(), TOGGLES.len());
    for spec in &TOGGLES {
        let expected = if spec.long == "SGLANG_OPT_USE_MULTI_STREAM_OVERLAP" {
            "0".into()
        } else {
            spec.show(spec.default).into_owned()
        };
        assert_eq!(toggles[spec.long], expected, "{}", spec.long);
    }
}

#[test]
fn a_run_follows_from_its_seed_alone() {
    let first = without_wall_time(small_run(&["--seed", "3", "--workers", "1"]));
    for workers in ["1", "2"] {
        assert_eq!(without_wall_time(small_run(&["--seed", "3", "--workers", workers])), first, "{workers} workers");
    }
    let mut other = without_wall_time(small_run(&["--seed", "4"]));
    assert_ne!(other, first);
    other["seed"] = first["seed"].clone();
    assert_ne!(other, first, "the seed changes more than what is said of it");
}

#[test]
fn a_step_limit_ends_a_run_early() {
    let report = small_run(&["--steps", "5"]);
    assert!(report["steps"].as_u64().unwrap() <= 5);
    assert_eq!(report["finished"], 0);
}

#[test]
fn a_run_says_in_words_what_it_found() {
    let output = run(&["run", "--sessions", "4", "--concurrency", "4", "--turns", "1"]);
    assert_eq!((code(&output), text(&output.stderr)), (0, ""));
    let said = text(&output.stdout);
    for words in ["of 4 sessions corrupted by their text", "95% between", "witnesses", "canary", "toggles", "seed"] {
        assert!(said.contains(words), "no {words:?} in\n{said}");
    }
}

#[test]
fn toggles_lists_every_toggle_with_its_names_values_and_effect() {
    let output = run(&["toggles"]);
    assert_eq!((code(&output), text(&output.stderr)), (0, ""));
    let said = text(&output.stdout);
    for spec in &TOGGLES {
        let words = spec.aliases.iter().chain(spec.values).chain([&spec.long, &spec.doc]);
        for word in words.copied().chain([spec.takes_effect.describe()]) {
            assert!(said.contains(word), "no {word:?} in\n{said}");
        }
    }
}

#[test]
fn a_reader_that_went_away_is_no_error() {
    for arguments in [
        &["toggles"][..],
        &["--help"],
        &["run", "--sessions", "1", "--turns", "1", "--steps", "2"],
        &["run", "--sessions", "1", "--turns", "1", "--steps", "2", "--format", "json"],
        &["model", "verify", &tiny_a()],
    ] {
        let (reader, writer) = std::io::pipe().unwrap();
        drop(reader);
        let child = coalmine(arguments.iter().copied()).stdout(writer).stderr(Stdio::piped()).spawn().unwrap();
        let output = child.wait_with_output().unwrap();
        assert_eq!((code(&output), text(&output.stderr)), (0, ""), "{arguments:?}");
    }
}

#[test]
fn a_model_that_agrees_with_its_reference_verifies() {
    let report = json(&["model", "verify", &tiny_a(), "--format", "json"]);
    assert_eq!(report["within_tolerance"], true);
    assert_eq!((&report["tokens_agreeing"], &report["tokens"]), (&64.into(), &64.into()));
    assert_eq!(report["selections_differing"], 0);
    assert!(report["selections_agreeing"].as_u64().unwrap() > 500);
    for field in ["prefill_largest_difference", "decode_largest_difference"] {
        let difference = report[field].as_f64().unwrap();
        assert!((0.0..=2e-3).contains(&difference), "{field}: {difference}");
    }

    let output = run(&["model", "verify", &tiny_a()]);
    assert_eq!((code(&output), text(&output.stderr)), (0, ""));
    assert!(text(&output.stdout).contains("64 of 64"));
    assert!(text(&output.stdout).ends_with("within tolerance\n"));
}

#[test]
fn a_reference_that_differs_fails_and_says_where() {
    for (tensor, field) in
        [("prefill_logits", "prefill_largest_difference"), ("decode_logits", "decode_largest_difference")]
    {
        let model = ModelDirectory::copy_of("tiny-a");
        model.retensor(REFERENCE, |tensors| tensors.named(tensor).add(12_345, 0.1));
        let output = run(&["model", "verify", model.argument(), "--format", "json"]);
        assert_eq!((code(&output), text(&output.stderr)), (1, ""), "{tensor}");
        let report: Value = serde_json::from_slice(&output.stdout).unwrap();
        assert_eq!(report["within_tolerance"], false);
        let difference = report[field].as_f64().unwrap();
        assert!((0.09..0.11).contains(&difference), "{field}: {difference}");
    }

    let model = ModelDirectory::copy_of("tiny-a");
    model.retensor(REFERENCE, |tensors| tensors.named("decode_logits").add(0, 0.1));
    let output = run(&["model", "verify", model.argument()]);
    assert_eq!((code(&output), text(&output.stderr)), (1, ""));
    assert!(text(&output.stdout).contains("OUTSIDE TOLERANCE"));
}

#[test]
fn a_recorded_run_can_be_exported_and_is_never_written_over() {
    let directory = std::env::temp_dir().join(format!("coalmine-record-{}", std::process::id()));
    std::fs::create_dir_all(&directory).unwrap();
    let path = directory.join("run.mcap");
    let file = path.to_str().unwrap();
    let arguments = ["run", "--sessions", "3", "--concurrency", "3", "--turns", "1", "--record", file];
    assert_eq!(code(&run(&arguments)), 0);
    for form in [
        &["--perfetto"][..],
        &["--json"],
        &["--csv", "steps"],
        &["--csv", "sessions"],
        &["--csv", "spans"],
        &["--cast", "--size", "80x24"],
    ] {
        let output = run(&[&["export", file], form].concat());
        assert_eq!((code(&output), text(&output.stderr)), (0, ""), "{form:?}");
        assert!(output.stdout.len() > 100, "{form:?}: {}", text(&output.stdout));
    }
    let steps = run(&["export", file, "--csv", "steps"]);
    assert!(text(&steps.stdout).starts_with("step,start_ns,end_ns,rows,bucket"));
    assert_refused(&arguments, &["run.mcap", "never written over"]);
    assert_refused(&["export", "/nonexistent.mcap", "--json"], &["/nonexistent.mcap"]);
    assert_refused(&["export", file], &["--perfetto", "--cast"]);
    assert_refused(&["export", file, "--cast", "--size", "9x9"], &["60x15"]);
    assert_refused(&["export", file, "--cast", "--speed", "0.000001"], &["would last"]);
    let listed = run(&["recordings", directory.to_str().unwrap()]);
    assert!(text(&listed.stdout).contains("run.mcap"), "{}", text(&listed.stdout));
    assert_refused(&["recordings", "/nonexistent"], &["/nonexistent"]);
    // Without a terminal it is refused before the recording is shown, and a bad one before that.
    assert_refused(&["replay", file], &["needs a terminal"]);
    assert_refused(&["replay", "/nonexistent.mcap"], &["/nonexistent.mcap"]);
    std::fs::remove_dir_all(&directory).unwrap();
}

#[test]
fn what_can_be_looked_up_is_printed() {
    for (arguments, words) in [
        (&["keys", "--defaults"][..], &["ctrl-p", "toggle overlap", "Gives overlap its next value"][..]),
        (&["keys", "--defaults", "--format", "json"], &["\"mutates-target\""]),
        (&["config"], &["[keys]", "[look]"]),
        (&["man"], &[".TH coalmine", "COMMANDS OF THE CONSOLE"]),
        (&["completions", "bash"], &["complete", "coalmine"]),
        (&["completions", "zsh"], &["#compdef coalmine"]),
        (&["doctor"], &["configuration", "virtual GPU", "CUDA"]),
    ] {
        let output = run(arguments);
        assert_eq!((code(&output), text(&output.stderr)), (0, ""), "{arguments:?}");
        for word in words {
            assert!(text(&output.stdout).contains(word), "{arguments:?} lacks {word}");
        }
    }
}

#[test]
fn a_configuration_that_is_wrong_is_said_with_its_places() {
    let directory = std::env::temp_dir().join(format!("coalmine-config-{}", std::process::id()));
    std::fs::create_dir_all(&directory).unwrap();
    let path = directory.join("config.toml");
    std::fs::write(&path, "[keys]\nx = \"quti\"\n[lok]\n").unwrap();
    let file = path.to_str().unwrap();
    let output = run(&["--config", file]);
    assert_eq!((code(&output), text(&output.stdout)), (2, ""));
    for words in ["config.toml:2:5: ", "did you mean `quit`?", "config.toml:3:2: "] {
        assert!(text(&output.stderr).contains(words), "{}", text(&output.stderr));
    }
    assert_refused(&["keys", "--config", "/nonexistent.toml"], &["/nonexistent.toml"]);
    std::fs::remove_dir_all(&directory).unwrap();
}
