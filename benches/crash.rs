//! How much a killed recorder loses: `cargo bench --bench crash` records a hundred times what the engine says as fast as
//! it goes, kills it at a random moment with SIGKILL, and opens what is left.

#![allow(clippy::unwrap_used, reason = "a benchmark that cannot set itself up has failed")]

use std::path::Path;
use std::process::{Command, Stdio};
use std::thread;
use std::time::{Duration, SystemTime};

use coalmine_sessions::recording::Recording;

const KILLS: u64 = 100;
/// The longest that a recorder lives after its file is there, ms.
const LONGEST_MS: u64 = 3_000;

struct Outcome {
    events: u64,
    /// From when the last event that is left was recorded until the kill, s; with none left, from the file's beginning.
    lost_seconds: f64,
}

fn main() {
    let folder = std::env::temp_dir().join(format!("coalmine-crash-bench-{}", std::process::id()));
    std::fs::create_dir_all(&folder).unwrap();
    let mut outcomes = Vec::new();
    for seed in 0..KILLS {
        let path = folder.join(format!("{seed}.mcap"));
        let outcome = kill(&path, seed);
        match outcome {
            Ok(outcome) => outcomes.push(outcome),
            Err(error) => println!("seed {seed} does not open: {error}"),
        }
        std::fs::remove_file(&path).unwrap();
    }
    std::fs::remove_dir_all(&folder).unwrap();
    outcomes.sort_by(|one, other| one.lost_seconds.total_cmp(&other.lost_seconds));
    let seconds = |at: usize| outcomes.get(at).map_or(0.0, |outcome| outcome.lost_seconds);
    println!("{} of {KILLS} open", outcomes.len());
    println!(
        "lost: largest {:.0} ms, median {:.0} ms of what was said until the kill",
        seconds(outcomes.len().saturating_sub(1)) * 1e3,
        seconds(outcomes.len() / 2) * 1e3
    );
    let (none, events) = outcomes
        .iter()
        .fold((0, 0), |(none, events), outcome| (none + u64::from(outcome.events == 0), events + outcome.events));
    println!("{events} events are left in all; {none} files hold none, as they were killed before the first flush");
}

fn kill(path: &Path, seed: u64) -> Result<Outcome, coalmine_sessions::recording::RecordingError> {
    let mut child = Command::new(env!("CARGO_BIN_EXE_coalmine"))
        .args(["run", "--sessions", "1000000", "--seed", &seed.to_string(), "--record"])
        .arg(path)
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    // The file is there when its manifest is; before that nothing has been said.
    while std::fs::metadata(path).map_or(0, |metadata| metadata.len()) == 0 {
        assert!(child.try_wait().unwrap().is_none(), "the run ended by itself");
        thread::sleep(Duration::from_millis(1));
    }
    let begun = wall_ns();
    thread::sleep(Duration::from_millis(random(seed) % LONGEST_MS));
    let killed = wall_ns();
    child.kill().unwrap();
    child.wait().unwrap();

    let (_, recovery) = Recording::open(path)?;
    let until = last_published(path).unwrap_or(begun);
    Ok(Outcome { events: recovery.events, lost_seconds: killed.saturating_sub(until) as f64 / 1e9 })
}

/// When the last event that can be read was recorded.
fn last_published(path: &Path) -> Option<u64> {
    let bytes = std::fs::read(path).unwrap();
    let cut_off = mcap::read::Options::IgnoreEndMagic.into();
    let messages = mcap::MessageStream::new_with_options(&bytes, cut_off).unwrap();
    messages.map_while(Result::ok).map(|message| message.publish_time).max()
}

fn wall_ns() -> u64 {
    SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap().as_nanos() as u64
}

/// SplitMix64.
fn random(seed: u64) -> u64 {
    let mut mixed = seed.wrapping_add(1).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    mixed ^ (mixed >> 31)
}
