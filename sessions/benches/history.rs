//! What it costs a live console to fold events and to remember them: `cargo bench -p coalmine-sessions --bench history`.

use std::sync::Arc;
use std::time::Instant;

use coalmine_sessions::{Event, EventKind, HISTORY_BYTES, History, State};

#[path = "../tests/support/synthetic.rs"]
mod synthetic;

use synthetic::{Shape, events, later};

const ROUNDS: u64 = 8;

fn main() {
    for nodes in [160, 3_000] {
        let shape = Shape { steps: 500, nodes, sessions: 80, ..Shape::default() };
        let stream = events(&shape);
        let mut rounds = (0..ROUNDS).map(|round| {
            let laid = |event| Arc::new(later(event, round * shape.steps, round * stream.len() as u64));
            stream[usize::from(round > 0)..].iter().map(laid).collect::<Vec<Arc<Event>>>()
        });
        // The first round fills windows and ring.
        let (mut state, mut history) = (State::default(), History::default());
        fold(&rounds.next().unwrap_or_default(), &mut state, Some(&mut history));
        let mut bare_state = state.clone();
        let (mut events, mut spans, mut bare, mut with) = (0, 0, 0.0, 0.0);
        for round in rounds {
            events += round.len();
            spans += round.iter().map(|event| span_count(event)).sum::<usize>();
            bare += fold(&round, &mut bare_state, None);
            with += fold(&round, &mut state, Some(&mut history));
        }
        println!("{nodes} nodes a step, {events} events, {spans} spans:");
        for (what, seconds) in [("fold", bare), ("fold and remember", with), ("remember", with - bare)] {
            let (event, span) = (seconds / events as f64 * 1e9, seconds / spans as f64 * 1e9);
            println!("  {what}: {event:.0} ns an event, {span:.2} ns a span");
        }
        println!("  {:.1} million spans a second with the history on", spans as f64 / with / 1e6);
        let (oldest, newest) = (history.oldest_step().unwrap_or(0), history.newest_step().unwrap_or(0));
        println!("  {} steps held in {} MiB", newest - oldest + 1, HISTORY_BYTES >> 20);
        for step in [newest, newest - 1, (oldest + newest) / 2, oldest] {
            let start = Instant::now();
            let held =
                history.state_at(step).map_or(0, |state| state.spans.iter().map(|batch| batch.spans.len()).sum());
            println!("  back to {step}: {:.1} ms ({held} spans)", start.elapsed().as_secs_f64() * 1e3);
        }
    }
}

fn span_count(event: &Event) -> usize {
    if let EventKind::Spans(batch) = &event.kind { batch.spans.len() } else { 0 }
}

/// Seconds that it takes.
fn fold(events: &[Arc<Event>], state: &mut State, mut history: Option<&mut History>) -> f64 {
    let start = Instant::now();
    for event in events {
        state.apply(event);
        if let Some(history) = &mut history {
            history.push(Arc::clone(event), state);
        }
    }
    start.elapsed().as_secs_f64()
}
