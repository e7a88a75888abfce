//! Sizes, and on request times at the size of an hour.

use std::time::{Duration, Instant};

use super::synthetic::{Shape, events};
use super::{Scratch, open};
use crate::recording::{Manifest, Recording, RecordingWriter};
use crate::{Event, EventKind};

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

/// 120,000 steps of 160 spans: an hour of 33 steps a second. Run with `--release --ignored --nocapture`.
#[test]
#[ignore = "takes a minute and gigabytes"]
fn an_hour() {
    let scratch = Scratch::new("hour");
    for (steps, nodes) in [(120_000_u64, 160_u32), (12_000, 3_000)] {
        let path = scratch.file(&format!("{nodes}.mcap"));
        let shape = Shape { steps: 500, nodes, sessions: 80, ..Shape::default() };
        let stream = events(&shape);
        let mut writer = RecordingWriter::create(&path, Manifest::default()).unwrap();
        let mut spent = Duration::ZERO;
        let wall = Instant::now();
        for round in 0..steps / shape.steps {
            for event in &stream {
                if round > 0 && matches!(event.kind, EventKind::Hello(_)) {
                    continue;
                }
                let event = later(event, round * shape.steps, round * stream.len() as u64);
                let step = event.sequence / (stream.len() as u64 / shape.steps);
                let before = Instant::now();
                writer.record(&event, wall + Duration::from_millis(step * 30)).unwrap();
                spent += before.elapsed();
            }
        }
        let before = Instant::now();
        let recorded = writer.finish().unwrap();
        let finish = before.elapsed();
        let spans = steps * u64::from(nodes);
        println!("{nodes} nodes a step, {steps} steps, {spans} spans, {recorded:?}");
        let share = spent.as_secs_f64() / spans as f64 * 1e5 * 100.0;
        println!("  record: {:.1} s, {share:.2}% of a core at 100,000 spans a second", spent.as_secs_f64());
        println!("  finish: {finish:?}; {:.1} bytes a span", recorded.bytes as f64 / spans as f64);
        for seek in [steps / 2, steps - 1, 300] {
            let before = Instant::now();
            let recording = open(&path);
            let opened = before.elapsed();
            let state = recording.state_at(seek).unwrap();
            println!(
                "  open {opened:?}, open and seek to {seek} {:?} ({} spans held)",
                before.elapsed(),
                state.spans.iter().map(|batch| batch.spans.len()).sum::<usize>()
            );
        }
        let bytes = std::fs::read(&path).unwrap();
        std::fs::write(&path, &bytes[..bytes.len() - 100]).unwrap();
        let before = Instant::now();
        let (_, recovery) = Recording::open(&path).unwrap();
        println!("  open without the index {:?}: {recovery:?}", before.elapsed());
    }
}

/// The event as it would come so many steps later.
fn later(event: &Event, steps: u64, sequence: u64) -> Event {
    let mut event = event.clone();
    event.sequence += sequence;
    event.time_ns += steps * 30_000_000;
    match &mut event.kind {
        EventKind::Toggle(change) => change.step += steps,
        EventKind::Step(step) => step.step += steps,
        EventKind::Spans(batch) => {
            batch.step += steps;
            batch.spans.iter_mut().for_each(|span| span.start_ns += steps * 30_000_000);
        }
        EventKind::Canary(report) => report.step += steps,
        EventKind::Session(change) => change.step += steps,
        EventKind::Differential(divergence) => divergence.step += steps,
        _ => {}
    }
    event
}
