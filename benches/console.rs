//! How fast the console folds events and draws: on what the embedded engine said in a run of the incident.

#![allow(clippy::unwrap_used, reason = "a benchmark that cannot set itself up has failed")]
#![allow(missing_docs, reason = "criterion's macros make items without")]

#[path = "support/engine.rs"]
mod engine;

use std::hint::black_box;
use std::sync::mpsc;
use std::time::Duration;

use coalmine::console::{App, ConsoleOptions, Target};
use coalmine_sessions::{Event, EventKind, State, event_queue};
use criterion::{BatchSize, Criterion, Throughput, criterion_group, criterion_main};
use crossterm::event::{KeyCode, KeyEvent, KeyModifiers};
use ratatui::{buffer::Buffer, layout::Rect};

const STEPS: u64 = 160;

fn spans(events: &[Event]) -> u64 {
    let count = |event: &Event| match &event.kind {
        EventKind::Spans(batch) => batch.spans.len() as u64,
        _ => 0,
    };
    events.iter().map(count).sum()
}

fn fold(criterion: &mut Criterion) {
    let events = engine::events(STEPS);
    let mut group = criterion.benchmark_group("fold");
    group.warm_up_time(Duration::from_secs(1)).measurement_time(Duration::from_secs(3)).sample_size(30);
    let all = |events: Vec<Event>| {
        let mut state = State::default();
        for event in events {
            state.apply_owned(event);
        }
        state
    };
    // The elements are events; each step has one batch of spans.
    group.throughput(Throughput::Elements(events.len() as u64));
    group.bench_function("events", |bencher| bencher.iter_batched(|| events.clone(), all, BatchSize::LargeInput));
    let batches: Vec<Event> =
        events.iter().filter(|event| matches!(event.kind, EventKind::Spans(_))).cloned().collect();
    group.throughput(Throughput::Elements(spans(&batches)));
    group.bench_function("spans", |bencher| bencher.iter_batched(|| batches.clone(), all, BatchSize::LargeInput));
    group.bench_function("spans, by reference", |bencher| {
        bencher.iter(|| {
            let mut state = State::default();
            for event in &batches {
                state.apply(event);
            }
            state
        });
    });
}

fn draw(criterion: &mut Criterion) {
    let events = engine::events(STEPS);
    let mut group = criterion.benchmark_group("draw, 200x60");
    group.warm_up_time(Duration::from_secs(1)).measurement_time(Duration::from_secs(3)).sample_size(50);
    let area = Rect::new(0, 0, 200, 60);
    // All panes side by side, then each with the whole screen.
    for (name, keys) in [
        ("all panes", ""),
        ("overview", "1z"),
        ("sessions", "2z"),
        ("canary", "3z"),
        ("timeline", "4z"),
        ("toggles", "5z"),
        ("help", "?"),
    ] {
        let (sender, receiver) = event_queue(events.len());
        let (commands, _asked) = mpsc::channel();
        let target = Target::Live { events: receiver, commands, ask_first: false };
        let mut app = App::new(target, ConsoleOptions::default());
        for event in &events {
            sender.send(event.kind.clone(), event.time_ns);
        }
        while app.fold() {}
        for key in keys.chars() {
            app.key(KeyEvent::new(KeyCode::Char(key), KeyModifiers::NONE));
        }
        let mut buffer = Buffer::empty(area);
        group.bench_function(name, |bencher| {
            bencher.iter(|| {
                buffer.reset();
                app.draw(area, black_box(&mut buffer));
            });
        });
    }
}

criterion_group!(benches, fold, draw);
criterion_main!(benches);
