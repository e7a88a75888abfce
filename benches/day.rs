//! Whether the console's memory stays flat: a day of 20 steps a second, with everything that a console keeps of it.
//!
//! Prints the resident memory and the time a step took, hour by hour of the simulated day.

#![allow(clippy::unwrap_used, reason = "a benchmark that cannot set itself up has failed")]

#[path = "support/engine.rs"]
mod engine;

use std::sync::mpsc;
use std::time::Instant;

use coalmine::console::{App, ConsoleOptions, Target};
use coalmine_sessions::{Event, EventKind, event_queue};
use ratatui::{buffer::Buffer, layout::Rect};

/// Steps of the engine's that the day is made of, over and over.
const RECORDED: u64 = 400;
const STEPS_AN_HOUR: u64 = 3_600 * 20;
/// Hours of the day, unless a number is given: `cargo bench --bench day -- 2`.
const HOURS: u64 = 24;

/// The same event a number of rounds later: later steps, later times, other sessions.
fn later(event: &Event, rounds: u64) -> Event {
    const SESSIONS: u64 = 1_000;
    let (steps, time_ns, sessions) = (rounds * RECORDED, rounds * 20_000_000_000, rounds * SESSIONS);
    let mut event = event.clone();
    event.time_ns += time_ns;
    match &mut event.kind {
        EventKind::Step(step) => {
            step.step += steps;
            step.start_ns += time_ns;
            step.end_ns += time_ns;
            step.diverged_sessions.iter_mut().for_each(|session| *session += sessions);
        }
        EventKind::Spans(batch) => {
            batch.step += steps;
            batch.spans.iter_mut().for_each(|span| span.start_ns += time_ns);
        }
        EventKind::Canary(report) => report.step += steps,
        EventKind::Session(change) => {
            change.step += steps;
            change.session += sessions;
            if let Some(flag) = &mut change.flag {
                flag.step += steps;
            }
        }
        EventKind::Differential(divergence) => {
            divergence.step += steps;
            divergence.session += sessions;
        }
        _ => {}
    }
    event
}

/// Resident memory, MB.
fn resident() -> u64 {
    let statm = std::fs::read_to_string("/proc/self/statm").unwrap();
    statm.split(' ').nth(1).unwrap().parse::<u64>().unwrap() * 4_096 / 1_000_000
}

fn main() {
    let template = engine::events(RECORDED);
    let (sender, events) = event_queue(1 << 16);
    let (commands, _asked) = mpsc::channel();
    let mut app = App::new(Target::Live { events, commands, ask_first: false }, ConsoleOptions::default());
    let area = Rect::new(0, 0, 200, 60);
    let mut buffer = Buffer::empty(area);
    let mut drawn = Vec::new();
    println!("hour  resident MB  us a step");
    let (mut rounds, mut begin, mut first) = (0, Instant::now(), 0);
    let hours = std::env::args().find_map(|argument| argument.parse().ok()).unwrap_or(HOURS);
    for hour in 0..hours {
        while rounds * RECORDED < (hour + 1) * STEPS_AN_HOUR {
            for event in &template {
                let event = if rounds == 0 { event.clone() } else { later(event, rounds) };
                // A target introduces itself and its graphs once.
                if rounds > 0 && matches!(event.kind, EventKind::Hello(_) | EventKind::Graph(_) | EventKind::Toggle(_))
                {
                    continue;
                }
                sender.send(event.kind, event.time_ns);
            }
            while app.fold() {}
            buffer.reset();
            let drawing = Instant::now();
            app.draw(area, &mut buffer);
            drawn.push(drawing.elapsed());
            rounds += 1;
        }
        let us = begin.elapsed().as_secs_f64() * 1e6 / STEPS_AN_HOUR as f64;
        println!("{:>4}  {:>11}  {us:>9.1}", hour + 1, resident());
        begin = Instant::now();
        if hour == 0 {
            first = resident();
        }
    }
    drawn.sort_unstable();
    let [median, p99] = [50, 99].map(|percent| drawn[drawn.len() * percent / 100].as_secs_f64() * 1e3);
    println!("draw at 200x60, {} frames: median {median:.2} ms, p99 {p99:.2} ms", drawn.len());
    println!("grown since the first hour: {} MB", resident() as i64 - first as i64);
}
