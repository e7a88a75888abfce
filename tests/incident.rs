//! The incident at reduced size: the same engine, model, device and race as a run of `coalmine run`.
//!
//! Rates are asserted within the bounds that one seed must keep. What the model says by itself (margin, costs) is
//! read, never written down here.

#![allow(clippy::unwrap_used, reason = "a test that cannot set itself up has failed")]

use coalmine::engine::EngineOptions;
use coalmine::{demo_checkpoint, headless};
use coalmine_kernels::Compute;
use coalmine_kernels::math::Cpu;
use coalmine_sessions::{Summary, ToggleAssignment, Toggles};

const SESSIONS: u64 = 80;
const SEED: u64 = 1;

/// Runs sessions of so many turns to their end, at most `concurrency` at once.
fn run(assignments: &[&str], sessions: u64, concurrency: usize, turns: u32) -> Summary {
    let mut toggles = Toggles::default();
    for assignment in assignments {
        let assignment = ToggleAssignment::parse(assignment).unwrap();
        toggles.set(assignment.name, assignment.value).unwrap();
    }
    // The tests of this file run beside each other.
    let compute = Compute { cpu: Cpu::detect(), workers: 1 };
    let options = EngineOptions {
        concurrency,
        sessions: Some(sessions),
        turns,
        seed: SEED,
        toggles,
        ..EngineOptions::incident(compute)
    };
    let (report, _) = headless::run(&demo_checkpoint().unwrap(), options, None, |_| ()).unwrap();
    assert_eq!(report.summary.finished, sessions);
    report.summary
}

/// The incident's load.
fn agents(assignments: &[&str], turns: u32) -> Summary {
    run(assignments, SESSIONS, SESSIONS as usize, turns)
}

/// Nothing diverged, every call was right, and nothing raced.
fn assert_clean(summary: &Summary) {
    assert_eq!((summary.corrupted, summary.diverged_sessions, summary.hit_steps), (0, 0, 0), "{summary:#?}");
    assert!(summary.flags.values().all(|count| *count == 0), "{summary:#?}");
    assert_eq!((summary.witnesses, summary.canary_hits), (0, 0), "{summary:#?}");
    assert!(summary.calls >= summary.sessions, "{summary:#?}");
}

#[test]
fn captured_overlapped_and_bf16_corrupts_some_sessions_and_leaves_the_pools_alone() {
    let summary = agents(&[], 6);
    assert_eq!(summary.sessions, SESSIONS);
    let rate = summary.rate.value;
    assert!((0.02..=0.35).contains(&rate), "{rate}: {summary:#?}");
    assert!(summary.rate.low <= rate && rate <= summary.rate.high, "{summary:#?}");
    assert_eq!(summary.flags.values().filter(|count| **count > 0).count().min(1), 1, "{summary:#?}");

    // A race and not a rule: some steps and not all, each with a witness, and rows all over the batch.
    assert!(summary.hit_steps > 0 && summary.hit_steps < summary.steps, "{summary:#?}");
    assert_eq!(summary.diverged_without_witness, 0, "{summary:#?}");
    assert!(summary.witness_steps >= summary.hit_steps, "{summary:#?}");
    assert!(2 * summary.slots_hit > u64::from(summary.slots_seen), "{summary:#?}");
    assert!(summary.median_rows_per_hit_step.unwrap() <= 4.0, "{summary:#?}");

    // The buffers are pristine.
    assert_eq!(summary.canary_hits, 0, "{summary:#?}");
    assert!(summary.pages_checked > 0, "{summary:#?}");
    assert!(summary.diverged_sessions >= summary.corrupted, "{summary:#?}");
}

#[test]
fn without_overlap_all_is_well() {
    assert_clean(&agents(&["overlap=0"], 2));
}

#[test]
fn eagerly_all_is_well() {
    assert_clean(&agents(&["eager=1"], 2));
}

#[test]
fn with_fp8_index_keys_all_is_well() {
    assert_clean(&agents(&["index-k=fp8"], 2));
}

#[test]
fn one_session_at_a_time_all_is_well() {
    let summary = run(&[], 6, 1, 2);
    assert_eq!((summary.corrupted, summary.slots_seen), (0, 1), "{summary:#?}");
}

#[test]
fn delaying_the_writer_closes_the_race() {
    let summary = agents(&["nudge-main=3us"], 2);
    assert!(summary.rate.value < 0.02, "{summary:#?}");
    assert_eq!(summary.diverged_without_witness, 0, "{summary:#?}");
}

#[test]
fn delaying_the_reader_opens_it_wide() {
    let summary = agents(&["nudge-indexer=3us"], 2);
    assert!(summary.rate.value > 0.9, "{summary:#?}");
    assert_eq!((summary.diverged_without_witness, summary.canary_hits), (0, 0), "{summary:#?}");
}
