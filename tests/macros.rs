//! The shipped macros hold on the demo model, and the same macro gives the same report every time.

#![allow(clippy::unwrap_used, reason = "a test that cannot set itself up has failed")]

#[path = "support/binary.rs"]
#[expect(dead_code, reason = "its other half is for refusals of one line")]
mod binary;

use std::fs;
use std::path::Path;

use coalmine::console::known_commands;
use coalmine::demo_checkpoint;
use coalmine::engine::EngineOptions;
use coalmine::macro_run::{MacroRun, load_macro, play, read_source};
use coalmine_kernels::Compute;
use coalmine_kernels::math::Cpu;
use coalmine_sessions::macros::{Macro, Source, Verdict, load};

fn play_on_engine(script: Macro, concurrency: usize, sessions: Option<u64>) -> MacroRun {
    // The tests of this file run beside each other.
    let compute = Compute { cpu: Cpu::detect(), workers: 1 };
    let options = EngineOptions { concurrency, sessions, ..EngineOptions::incident(compute) };
    play(&demo_checkpoint().unwrap(), options, script, |_| ()).unwrap()
}

fn text(text: &str) -> Macro {
    let source = Source { name: "test.macro".to_owned(), text: text.to_owned() };
    load(&source, &known_commands(), &mut read_source).unwrap()
}

fn lines(run: &MacroRun) -> String {
    run.report.outcomes.iter().map(|outcome| format!("{outcome}\n")).collect()
}

#[test]
fn the_incident_is_reproduced_and_the_fix_proved() {
    let run = play_on_engine(load_macro("coalmine:prove-the-fix").unwrap(), 80, None);
    assert!(run.report.passed, "{}", lines(&run));
    let verdicts = run.report.outcomes.iter().map(|outcome| outcome.verdict);
    assert_eq!(verdicts.filter(|verdict| *verdict == Verdict::Passed).count(), run.report.outcomes.len());
}

#[test]
fn the_tour_goes_through_without_a_console() {
    let run = play_on_engine(load_macro("coalmine:tour").unwrap(), 80, None);
    assert!(run.report.passed, "{}", lines(&run));
    assert!(run.report.outcomes.iter().any(|outcome| outcome.verdict == Verdict::Skipped), "{}", lines(&run));
}

#[test]
fn the_same_macro_gives_the_same_report() {
    let script = text(
        "wait calls >= 10 10s\nset index-k fp8\nexpect toggle index-k == fp8\nstep 10\ntoggle overlap\n\
         expect toggle overlap == off\nmark end\nkeys gg\nexpect tokens < 0",
    );
    let [first, second] = [(); 2].map(|()| play_on_engine(script.clone(), 8, None));
    assert_eq!(first, second);
    assert_eq!(first.report.junit(), second.report.junit());
    let verdicts: Vec<_> = first.report.outcomes.iter().map(|outcome| outcome.verdict).collect();
    let mut expected = [Verdict::Passed; 9];
    expected[7] = Verdict::Skipped;
    expected[8] = Verdict::Failed;
    assert_eq!(verdicts, expected, "{}", lines(&first));
    assert!(!first.report.passed);
}

#[test]
fn an_engine_without_sessions_left_ends_the_macro() {
    let run = play_on_engine(text("wait step > 5000 5000 steps\nmark never"), 2, Some(2));
    let last = run.report.outcomes.last().unwrap();
    assert!(last.detail.contains("all its turns"), "{last}");
    assert_eq!((run.report.passed, run.report.not_run), (false, 1));
}

/// Plays text as a file of the given name; gives the exit code, standard output and standard error.
fn program(name: &str, text: &str, arguments: &[&str]) -> (i32, String, String) {
    let file = Path::new(env!("CARGO_TARGET_TMPDIR")).join(name);
    fs::write(&file, text).unwrap();
    let file = file.to_str().unwrap();
    let output = binary::run(&[&["run", "--concurrency", "4", "--macro", file], arguments].concat());
    (binary::code(&output), binary::text(&output.stdout).to_owned(), binary::text(&output.stderr).to_owned())
}

#[test]
fn exit_codes_tell_what_held_from_what_did_not_and_from_what_could_not_be_read() {
    let junit = format!("{}/macro.xml", env!("CARGO_TARGET_TMPDIR"));
    let json = format!("{}/macro.json", env!("CARGO_TARGET_TMPDIR"));
    let reports = ["--report-junit", &junit, "--report-json", &json];

    let (code, out, _) = program("holds.macro", "wait tokens > 5\nexpect canary_hits == 0\nkeys gg\n", &reports);
    assert_eq!(code, 0, "{out}");
    assert!(out.contains("✓ ") && out.contains("holds.macro:2 expect canary_hits == 0  [canary_hits was 0]"), "{out}");
    assert!(out.contains("- ") && out.contains("passed: 3 lines, 0 failed, 1 skipped"), "{out}");
    assert!(fs::read_to_string(&junit).unwrap().contains("failures=\"0\""));
    let report: serde_json::Value = serde_json::from_slice(&fs::read(&json).unwrap()).unwrap();
    assert_eq!((&report["passed"], &report["outcomes"][2]["verdict"]), (&true.into(), &"skipped".into()));
    assert!(report["summary"]["tokens"].as_u64().unwrap() > 5);

    let (code, out, _) = program("fails.macro", "step 3\nexpect tokens > 9000\n", &reports);
    assert_eq!(code, 1, "{out}");
    assert!(out.contains("✗ ") && out.contains(", expected > 9000]"), "{out}");
    assert!(fs::read_to_string(&junit).unwrap().contains("failures=\"1\""));

    let (code, out, error) = program("bad.macro", "expect corupted == 0\nholf\n", &[]);
    assert_eq!((code, out.as_str()), (2, ""), "{error}");
    assert!(error.contains("bad.macro:1:8: ") && error.contains("bad.macro:2:1: "), "{error}");
    assert!(error.contains("did you mean `hold`?") && error.contains("^^^^"), "{error}");
}
