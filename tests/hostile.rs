//! Hostile input: what the fuzz targets do, over random changes of their corpora, on the stable toolchain.
//!
//! Nothing may panic, and no input may make a decoder hold more than [`ROOM`]: beyond it the allocator refuses, which
//! ends the process. The last input of each target is left in the build directory, so that it can be looked at then.
#![allow(clippy::unwrap_used)]

#[path = "support/mutation.rs"]
mod mutation;
#[allow(unreachable_pub, dead_code, reason = "a crate of its own elsewhere")]
#[path = "../fuzz/src/lib.rs"]
mod targets;

use std::{
    alloc::System,
    fs,
    panic::{AssertUnwindSafe, catch_unwind},
    path::{Path, PathBuf},
    sync::{Mutex, PoisonError},
};

use cap::Cap;
use mutation::Random;
use targets::TARGETS;

/// Bytes that handling one input may take.
const ROOM: usize = 256 << 20;
/// Bytes that a recording of a few kilobytes unpacks to, and that handling it may take.
const MUCH: usize = 4 << 20;
const ROOM_FOR_MUCH: usize = 48 << 20;

#[global_allocator]
static ALLOCATOR: Cap<System> = Cap::new(System, usize::MAX);

/// Runs a target over inputs, one test at a time: they share one allocator.
fn run(target: &str, room: usize, inputs: impl Iterator<Item = Vec<u8>>) {
    static ALONE: Mutex<()> = Mutex::new(());
    let _alone = ALONE.lock().unwrap_or_else(PoisonError::into_inner);
    let (_, function) = TARGETS.into_iter().find(|(name, _)| *name == target).unwrap();
    let last = Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!("hostile-{target}"));
    for (number, input) in inputs.enumerate() {
        fs::write(&last, &input).unwrap();
        ALLOCATOR.set_limit(ALLOCATOR.allocated() + room).unwrap();
        let outcome = catch_unwind(AssertUnwindSafe(|| function(&input)));
        ALLOCATOR.set_limit(usize::MAX).unwrap();
        assert!(outcome.is_ok(), "input {number} of {target} panics; it is in {}", last.display());
    }
}

/// The corpus of a target.
fn seeds(target: &str) -> Vec<Vec<u8>> {
    let directory = Path::new(env!("CARGO_MANIFEST_DIR")).join("fuzz/corpus").join(target);
    let mut files: Vec<PathBuf> = fs::read_dir(directory).unwrap().map(|entry| entry.unwrap().path()).collect();
    files.sort();
    files.iter().map(|file| fs::read(file).unwrap()).collect()
}

/// The seeds as they are, then so many random changes of them.
fn mutated(target: &str, count: usize) {
    let mut seeds = seeds(target);
    assert!(!seeds.is_empty(), "{target} has no corpus");
    if target == "recording" {
        // Too large for a corpus, and as real as it gets.
        let early = Path::new(env!("CARGO_MANIFEST_DIR")).join("sessions/recordings/version-1.mcap");
        seeds.push(fs::read(early).unwrap());
    }
    let mut random = Random::new(target);
    let changed = (0..count).map(|_| mutation::mutated(&seeds, &mut random));
    run(target, ROOM, seeds.iter().cloned().chain(changed));
}

/// Recordings of a few kilobytes that unpack to megabytes, each of one thing in absurd numbers.
#[test]
fn recordings_that_unpack_to_much() {
    let message = |channel: u16, data: &str| {
        format!("j {channel} 0 0 {{\"step\":0,\"events\":[{{\"sequence\":0,\"time_ns\":0,\"data\":{data}}}]}}\n")
    };
    // `#` stands for so many of what comes after it.
    let many = |text: &str, item: &str| text.replace('#', item.repeat(MUCH / item.len()).trim_end_matches(','));
    let step = |rows: &str| {
        format!(
            "{{\"step\":0,\"rows\":1,\"bucket\":1,\"captured\":true,\"overlapped\":true,\"start_ns\":0,\"end_ns\":0,\
             \"nodes\":0,\"oracle\":true,\"diverged_rows\":[{rows}],\"diverged_sessions\":[],\"witnesses\":0,\
             \"witnessed_rows\":0}}"
        )
    };
    let hello = "{\"target\":\"\",\"model\":\"\",\"device\":\"\",\"instruction_set\":\"\",\"seed\":0,\"concurrency\":0,\
                 \"layers\":[],\"pools\":[],\"lanes\":[#]}";
    let spans = "{\"step\":0,\"graph\":0,\"lane\":[#],\"start_delta_ns\":[],\"duration_ns\":[]}";
    let pages = "{\"step\":0,\"pages_checked\":0,\"written\":[],\"violations\":[#]}";
    let one_step = message(3, &step("0,".repeat(1 << 17).trim_end_matches(',')));
    let inputs = [
        many(&message(1, hello), "\"\","),
        many(&message(3, &step("#")), "0,"),
        many(&message(4, spans), "0,"),
        many(&message(5, pages), "[],"),
        many(&message(5, &pages.replace('#', "[0,#]")), "1,"),
        many(&message(7, "{\"graph\":0,\"label\":\"\",\"nodes\":[#]}"), "\"\","),
        many(&message(10, "{\"name\":\"\",\"value\":[#]}"), "0,"),
        many(&message(11, "{\"level\":\"Info\",\"text\":\"#\"}"), "\\u202e"),
        many("j 13 0 0 {\"step\":0,\"events\":[#]}\n", "{\"sequence\":0,\"time_ns\":0,\"data\":{\"dropped\":0}},"),
        many("j 13 0 0 #\n", "["),
        many("j 14 0 0 #\n", " "),
        many("#", "j 13 0 0 {\"step\":0,\"events\":[]}\n"),
        many("i {\"end\":0,\"events\":0,\"steps\":0,\"chunks\":[#],\"keyframes\":[],\"anomalies\":[]}", "[0,0,0,0],"),
        // Each within bounds, but what is kept of them must be as well.
        format!("{one_step}c\n").repeat(120),
    ];
    run("recording_script", ROOM_FOR_MUCH, inputs.into_iter().map(String::into_bytes));
}

/// Each hello begins another stream, with tables for as many pages as may be.
#[test]
fn hellos_in_a_row() {
    let hello = "{\"sequence\":0,\"time_ns\":0,\"data\":{\"target\":\"\",\"model\":\"\",\"device\":\"\",\
                 \"instruction_set\":\"\",\"seed\":0,\"concurrency\":0,\"layers\":[],\"lanes\":[],\
                 \"pools\":[{\"family\":\"\",\"layer\":0,\"pages\":4194304,\"page_bytes\":1}]}}";
    let hellos = vec![hello; 4_000].join(",");
    run("recording_script", ROOM, [format!("j 1 0 0 {{\"step\":0,\"events\":[{hellos}]}}\n").into_bytes()].into_iter());
}

#[test]
fn recordings() {
    mutated("recording", 500);
}

#[test]
fn recordings_with_right_checksums() {
    mutated("recording_script", 400);
}

#[test]
fn macros() {
    mutated("macro_text", 1_000);
}

#[test]
fn conditions() {
    mutated("condition", 5_000);
}

#[test]
fn configurations() {
    mutated("config", 1_000);
}

#[test]
fn keys() {
    mutated("keys", 5_000);
}

#[test]
fn typed_lines() {
    mutated("line", 300);
}

#[test]
fn arrangements() {
    mutated("arrangement", 300);
}

#[test]
fn checkpoints() {
    mutated("checkpoint", 200);
}

#[test]
fn toggles() {
    mutated("toggle", 5_000);
}

#[test]
fn events() {
    mutated("events", 200);
}
