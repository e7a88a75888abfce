//! A recorder that is killed leaves a recording of what it had written out. `benches/crash.rs` measures how much that is.

#![allow(clippy::unwrap_used, reason = "a test that cannot set itself up has failed")]

#[path = "support/binary.rs"]
#[expect(dead_code, reason = "its other half is for refusals of one line")]
mod binary;

use std::path::Path;
use std::thread;
use std::time::Duration;

use binary::{coalmine, code, run};
use coalmine_sessions::Event;
use coalmine_sessions::recording::Recording;

const WORKLOAD: [&str; 11] =
    ["run", "--seed", "5", "--sessions", "1000000", "--concurrency", "6", "--turns", "2", "--workers", "1"];

/// Records until the file has been seen to grow so often, then kills.
fn kill_after(growths: u32, file: &str) {
    let mut child = coalmine(WORKLOAD).args(["--record", file]).spawn().unwrap();
    let (mut length, mut left) = (0, growths);
    while left > 0 {
        assert!(child.try_wait().unwrap().is_none(), "the run ended by itself");
        let now = std::fs::metadata(file).map_or(0, |metadata| metadata.len());
        left -= u32::from(now > length);
        length = now;
        thread::sleep(Duration::from_millis(1));
    }
    child.kill().unwrap();
    child.wait().unwrap();
}

fn events(file: &str) -> (Vec<Event>, u64) {
    let (recording, _) = Recording::open(Path::new(file)).unwrap();
    (recording.events_in(0..=u64::MAX).map(Result::unwrap).collect(), recording.last_step())
}

#[test]
fn what_a_killed_recorder_leaves_is_how_an_undisturbed_run_begins() {
    let folder = tempfile::tempdir().unwrap();
    let path = |name: String| folder.path().join(name).to_str().unwrap().to_owned();
    // From the manifest alone to a few chunks.
    let killed: Vec<(Vec<Event>, u64)> = (1..=5)
        .map(|growths| {
            let file = path(format!("{growths}.mcap"));
            kill_after(growths, &file);
            events(&file)
        })
        .collect();
    assert!(killed.iter().any(|(events, _)| events.len() > 100));
    // What belongs to a step may be said as the next begins.
    let steps = (killed.iter().map(|(_, last)| last).max().unwrap() + 2).to_string();
    let whole = path("whole.mcap".to_owned());
    let mut arguments = WORKLOAD.to_vec();
    arguments.extend(["--steps", &steps, "--record", &whole]);
    assert_eq!(code(&run(&arguments)), 0);
    let (whole, _) = events(&whole);
    for (events, _) in killed {
        assert!(whole.starts_with(&events), "{} events are no beginning of the {}", events.len(), whole.len());
    }
}
