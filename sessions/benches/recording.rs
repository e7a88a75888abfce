//! What a recording of an hour costs: its size, writing it, opening it and going to a step. Takes a minute and 400 MB of
//! the folder for temporary files: `cargo bench -p coalmine-sessions --bench recording`.

#![allow(clippy::unwrap_used, reason = "a benchmark that cannot set itself up has failed")]

use std::path::Path;
use std::time::{Duration, Instant};

use coalmine_sessions::Event;
use coalmine_sessions::recording::{Manifest, Recording, RecordingWriter, Replay};

#[path = "../tests/support/synthetic.rs"]
mod synthetic;

use synthetic::{Shape, events, later};

/// Decode steps a second.
const PACE: f64 = 33.0;

/// 33 steps a second: an hour of the demo's, and an hour of 100,000 spans a second.
fn main() {
    let folder = std::env::temp_dir().join(format!("coalmine-recording-bench-{}", std::process::id()));
    std::fs::create_dir_all(&folder).unwrap();
    let path = folder.join("hour.mcap");
    for (steps, nodes) in [(120_000, 160), (12_000, 3_000)] {
        write(&path, steps, nodes);
        read(&path, steps);
        std::fs::remove_file(&path).unwrap();
    }
    std::fs::remove_dir_all(&folder).unwrap();
}

fn write(path: &Path, steps: u64, nodes: u32) {
    let shape = Shape { steps: 500, nodes, sessions: 80, ..Shape::default() };
    let stream = events(&shape);
    let mut writer = RecordingWriter::create(path, Manifest::default()).unwrap();
    let mut spent = 0.0;
    let (wall, per_step) = (Instant::now(), stream.len() as u64 / shape.steps);
    for round in 0..steps / shape.steps {
        let first = usize::from(round > 0);
        let laid = |event| later(event, round * shape.steps, round * stream.len() as u64);
        let stream: Vec<Event> = stream[first..].iter().map(laid).collect();
        let before = processor_seconds();
        for event in &stream {
            writer.record(event, wall + Duration::from_millis(event.sequence / per_step * 30)).unwrap();
        }
        spent += processor_seconds() - before;
    }
    let before = processor_seconds();
    let recorded = writer.finish().unwrap();
    let (finish, spans) = (processor_seconds() - before, steps * u64::from(nodes));
    println!("{nodes} nodes a step, {steps} steps, {spans} spans, {recorded:?}");
    println!("  {:.1} bytes a span, all channels together", recorded.bytes as f64 / spans as f64);
    println!("  record: {:.2}% of a core at {PACE} steps a second", spent / steps as f64 * PACE * 100.0);
    println!("  finish: {:.1} ms", finish * 1e3);
}

fn read(path: &Path, steps: u64) {
    for seek in [300, steps / 2, steps / 2 + 100, steps / 2 + 200, steps - 1] {
        let (mut opened, mut sought, mut held) = (f64::INFINITY, f64::INFINITY, (0, 0));
        // The least of several, which other work on the machine does not lengthen.
        for _ in 0..7 {
            let start = Instant::now();
            let (recording, _) = Recording::open(path).unwrap();
            opened = opened.min(start.elapsed().as_secs_f64());
            let state = recording.state_at(seek).unwrap();
            sought = sought.min(start.elapsed().as_secs_f64());
            held = (state.steps.len(), state.spans.iter().map(|batch| batch.spans.len()).sum::<usize>());
        }
        let (steps, spans) = held;
        println!(
            "  open {:.1} ms, and seek to {seek} {:.1} ms ({steps} steps, {spans} spans held)",
            opened * 1e3,
            sought * 1e3
        );
    }
    let mut replay = Replay::new(Recording::open(path).unwrap().0).unwrap();
    replay.goto_step(steps / 2).unwrap();
    let mut back = f64::INFINITY;
    for _ in 0..7 {
        let start = Instant::now();
        replay.step_back().unwrap();
        back = back.min(start.elapsed().as_secs_f64());
    }
    println!("  one step back {:.1} ms", back * 1e3);
    let bytes = std::fs::read(path).unwrap();
    std::fs::write(path, &bytes[..bytes.len() - 100]).unwrap();
    let before = processor_seconds();
    let (_, recovery) = Recording::open(path).unwrap();
    println!("  open without the index {:.1} s: {recovery:?}", processor_seconds() - before);
}

/// Time that this thread has run, which other work on the machine does not lengthen; to a few milliseconds.
fn processor_seconds() -> f64 {
    let run = std::fs::read_to_string("/proc/thread-self/schedstat").unwrap();
    run.split(' ').next().unwrap().parse::<f64>().unwrap() / 1e9
}
