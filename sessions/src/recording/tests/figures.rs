//! Sizes, and on request times at the size of an hour.

use std::time::{Duration, Instant};

use super::{Scratch, open};
use crate::Event;
use crate::recording::{Manifest, Recording, RecordingWriter};
use crate::synthetic::{Shape, events, later};

#[test]
fn a_span_takes_at_most_30_bytes() {
    let scratch = Scratch::new("size");
    for (steps, nodes, sessions) in [(400, 160, 80), (40, 3_000, 80)] {
        let path = scratch.file(&format!("{nodes}.mcap"));
        let events = events(&Shape { steps, nodes, sessions, ..Shape::default() });
        super::record(&path, Manifest::default(), &events, Duration::from_millis(1));
        let bytes = std::fs::metadata(&path).unwrap().len() as f64 / (steps * u64::from(nodes)) as f64;
        println!("{nodes} nodes a step, {sessions} sessions: {bytes:.1} bytes a span, all channels together");
        assert!(bytes <= 30.0);
    }
}

/// An hour of 33 steps a second, and six minutes of steps of a large model.
/// Run with `--release -- --ignored --nocapture an_hour`.
#[test]
#[ignore = "takes a minute and 400 MB"]
fn an_hour() {
    let scratch = Scratch::new("hour");
    for (steps, nodes) in [(120_000_u64, 160_u32), (12_000, 3_000)] {
        let path = scratch.file(&format!("{nodes}.mcap"));
        let shape = Shape { steps: 500, nodes, sessions: 80, ..Shape::default() };
        let stream = events(&shape);
        let mut writer = RecordingWriter::create(&path, Manifest::default()).unwrap();
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
        println!("  record: {:.2}% of a core at 33 steps a second", spent / steps as f64 * 33.0 * 100.0);
        println!("  finish: {:.1} ms", finish * 1e3);
        for seek in [steps / 2, steps - 1, 300] {
            let before = processor_seconds();
            let recording = open(&path);
            let opened = processor_seconds() - before;
            let state = recording.state_at(seek).unwrap();
            let sought = processor_seconds() - before;
            let held: usize = state.spans.iter().map(|batch| batch.spans.len()).sum();
            println!("  open {:.1} ms, and seek to {seek} {:.1} ms ({held} spans held)", opened * 1e3, sought * 1e3);
        }
        let bytes = std::fs::read(&path).unwrap();
        std::fs::write(&path, &bytes[..bytes.len() - 100]).unwrap();
        let before = processor_seconds();
        let (_, recovery) = Recording::open(&path).unwrap();
        println!("  open without the index {:.1} s: {recovery:?}", processor_seconds() - before);
    }
}

/// Time that this thread has run, which other work on the machine does not lengthen.
fn processor_seconds() -> f64 {
    let run = std::fs::read_to_string("/proc/thread-self/schedstat").unwrap();
    run.split(' ').next().unwrap().parse::<f64>().unwrap() / 1e9
}
