//! That what is gone back to is what was.

use std::collections::BTreeMap;

use proptest::prelude::*;

use super::*;
use crate::synthetic::{Shape, events};
use crate::*;

/// A live console: its state, its history, and what the state was after each step.
struct Live {
    state: State,
    history: History,
    was: BTreeMap<u64, State>,
}

impl Live {
    fn new(limit: usize) -> Self {
        Self { state: State::default(), history: History::with_bytes(limit), was: BTreeMap::new() }
    }

    fn hears(&mut self, event: Event) {
        let hello = self.state.hello.clone();
        let greets = matches!(event.kind, EventKind::Hello(_));
        self.state.apply(&event);
        if greets && hello.is_some() && hello != self.state.hello {
            self.was.clear();
        }
        let step = event.kind.belongs_to(self.was.last_key_value().map_or(0, |(step, _)| *step));
        self.history.push(Arc::new(event), &self.state);
        self.was.insert(step, self.state.clone());
    }

    /// What the state was at the end of a step.
    fn was(&self, step: u64) -> &State {
        self.was.range(..=step).next_back().unwrap().1
    }
}

/// Everything of a state but its windows, and these apart.
fn parts(state: &State) -> (String, Vec<Step>, Vec<SpanBatch>) {
    let mut rest = state.clone();
    let steps = std::mem::take(&mut rest.steps).into();
    let spans = std::mem::take(&mut rest.spans).into();
    (format!("{rest:?}"), steps, spans)
}

/// Whether two states are the same; the windows of the one gone back to may begin later if `cut` says so.
fn same(gone_back: &State, was: &State, cut: bool) -> bool {
    let (rest, steps, spans) = parts(gone_back);
    let (other_rest, other_steps, other_spans) = parts(was);
    let windows = if cut {
        other_steps.ends_with(&steps) && other_spans.ends_with(&spans)
    } else {
        other_steps == steps && other_spans == spans
    };
    rest == other_rest && windows
}

/// Small numbers, so that events of different kinds meet.
fn kind() -> impl Strategy<Value = EventKind> {
    (0_u8..16, 0_u64..40, 0_u32..4).prop_map(|(kind, step, number)| {
        let page = PageRef { pool: number as u16, page: step as u32 };
        match kind {
            0 if step < 4 => EventKind::Hello(Box::new(Hello {
                seed: step / 3,
                pools: vec![Pool { family: "index-k".into(), layer: 0, pages: 30, page_bytes: 64 }; 3],
                ..Hello::default()
            })),
            0 | 1 => EventKind::Toggle(ToggleChange {
                name: ToggleName::Overlap,
                value: ToggleValue::Choice((number % 2) as u8),
                step,
            }),
            2..=4 => EventKind::Step(Step {
                step,
                rows: number,
                diverged_rows: (0..number / 2).collect(),
                diverged_sessions: (0..u64::from(number / 2)).collect(),
                ..Step::default()
            }),
            5..=7 => EventKind::Spans(SpanBatch { step, graph: number, spans: vec![span(step); number as usize] }),
            8 | 9 => EventKind::Canary(CanaryReport {
                step,
                pages_checked: 9,
                written: vec![page],
                violations: if number == 3 { vec![page] } else { Vec::new() },
            }),
            10 | 11 => EventKind::Session(SessionChange {
                session: u64::from(number),
                turn: number,
                step,
                call: "fetch".into(),
                flag: (step % 5 == 0).then(|| Flag {
                    kind: FlagKind::MalformedCall,
                    turn: number,
                    step,
                    expected: "A".into(),
                    found: "B".into(),
                }),
                ..SessionChange::default()
            }),
            12 => EventKind::Graph(Graph { graph: number, label: "g".into(), nodes: vec!["n".into(); step as usize] }),
            13 => EventKind::Hazard(Hazard {
                graph: number,
                first: 1,
                second: 2,
                bytes: step,
                accesses: "read/write".into(),
            }),
            14 => EventKind::Differential(Divergence {
                step,
                row: number,
                session: 1,
                first_layer: None,
                largest: 0.5,
                flipped: false,
            }),
            _ => match number {
                0 => EventKind::Metric(Metric { name: "m".into(), value: step as f64 }),
                1 => EventKind::Log(Log { level: LogLevel::Info, text: "A line.".into() }),
                2 => EventKind::Ack(Ack { command: step, outcome: Err("no".into()) }),
                _ => EventKind::Gap(Gap { dropped: step }),
            },
        }
    })
}

fn span(start_ns: u64) -> Span {
    Span { node: 0, lane: 0, start_ns, duration_ns: 3 }
}

proptest! {
    #[test]
    fn every_step_that_is_held_is_as_it_was(
        kinds in proptest::collection::vec(kind(), 1..150),
        limit in prop_oneof![Just(HISTORY_BYTES), 0_usize..60_000],
    ) {
        let mut live = Live::new(limit);
        for (sequence, kind) in (0..).zip(kinds) {
            live.hears(Event { sequence, time_ns: sequence * 10, kind });
        }
        let (oldest, newest) = (live.history.oldest_step().unwrap(), live.history.newest_step().unwrap());
        prop_assert_eq!(newest, *live.was.last_key_value().unwrap().0);
        if limit == HISTORY_BYTES {
            prop_assert_eq!(oldest, *live.was.first_key_value().unwrap().0);
        }
        for step in 0..=newest + 1 {
            let gone_back = live.history.state_at(step);
            prop_assert_eq!(gone_back.is_some(), (oldest..=newest).contains(&step));
            if let Some(gone_back) = gone_back {
                prop_assert!(same(&gone_back, live.was(step), limit < HISTORY_BYTES), "differs at step {}", step);
                let page = PageRef { pool: 1, page: 3 };
                let expected = step.checked_sub(1).filter(|&before| before >= oldest);
                let expected = expected.and_then(|before| live.was(before).canary.last_write(page));
                prop_assert_eq!(live.history.last_write_of(page, step), expected);
            }
        }
    }

    #[test]
    fn anomalies_are_those_of_the_stream(kinds in proptest::collection::vec(kind(), 1..100)) {
        let mut live = Live::new(HISTORY_BYTES);
        let (mut step, mut wrong, mut hello) = (0, std::collections::BTreeSet::new(), None);
        for (sequence, kind) in (0..).zip(kinds) {
            if let EventKind::Hello(said) = &kind
                && hello.replace(said.seed).is_some_and(|before| before != said.seed)
            {
                (step, wrong) = (0, Default::default());
            }
            step = kind.belongs_to(step);
            if Anomaly::of(step, &kind).is_some() {
                wrong.insert(step);
            }
            live.hears(Event { sequence, time_ns: 0, kind });
        }
        for from in 0..42 {
            prop_assert_eq!(live.history.next_anomaly(from), wrong.range(from + 1..).next().copied());
            prop_assert_eq!(live.history.previous_anomaly(from), wrong.range(..from).next_back().copied());
        }
    }
}

#[test]
fn windows_that_slide_are_as_they_were() {
    let mut live = Live::new(HISTORY_BYTES);
    let shape = Shape { steps: 1_300, nodes: 2, sessions: 3, spans_dropped: 3, ..Shape::default() };
    events(&shape).into_iter().for_each(|event| live.hears(event));
    let edges = [0, 63, 64, 65, 510, 511, 512, 513, 514, 1_023, 1_024, 1_299];
    for step in edges.into_iter().chain((0..1_300).step_by(97)) {
        assert!(same(&live.history.state_at(step).unwrap(), live.was(step), false), "differs at step {step}");
    }
}

#[test]
fn windows_full_of_spans_are_as_they_were() {
    let mut live = Live::new(1 << 30);
    for step in 0..4 {
        let spans = vec![span(step); limits::WINDOW_SPANS / 3 + 1];
        let kind = EventKind::Spans(SpanBatch { step, graph: 0, spans });
        live.hears(Event { sequence: step, time_ns: step, kind });
    }
    for step in 0..4 {
        let gone_back = live.history.state_at(step).unwrap();
        let held = |state: &State| state.spans.iter().map(|batch| batch.step).collect::<Vec<_>>();
        assert_eq!(held(&gone_back), held(live.was(step)));
    }
    assert_eq!(live.state.spans.len(), 2);
}

#[test]
fn memory_is_bounded_and_the_newest_steps_are_kept() {
    for limit in [0, 300_000, 2 << 20] {
        let mut live = Live::new(limit);
        for event in events(&Shape { steps: 600, nodes: 300, ..Shape::default() }) {
            live.state.apply(&event);
            live.history.push(Arc::new(event), &live.state);
            let history = &live.history;
            let state = history.checkpoints.back().map_or(0, |last| last.bytes + last.shared().bytes);
            assert!(history.bytes <= limit.max(3 * state), "{} bytes of {limit}", history.bytes);
            assert!(history.newest_step().is_some());
        }
        let history = &live.history;
        let mut shared: Vec<_> = history.checkpoints.iter().map(|held| Arc::as_ptr(held.shared())).collect();
        shared.dedup();
        let shared_bytes = history.checkpoints[0].shared().bytes;
        let counted = history.events.iter().map(|held| held.bytes).sum::<usize>()
            + history.checkpoints.iter().map(|held| held.bytes).sum::<usize>();
        assert_eq!(history.bytes, counted + shared.len() * shared_bytes);
        assert_eq!(history.newest_step(), Some(599));
        let oldest = history.oldest_step().unwrap();
        assert!(oldest > 0 && history.state_at(oldest).is_some() && history.state_at(oldest - 1).is_none());
        assert_eq!(history.previous_anomaly(oldest), None);
    }
}

#[test]
fn a_time_is_found_as_long_as_it_is_held() {
    let mut live = Live::new(HISTORY_BYTES);
    for step in 0..300 {
        let kind = EventKind::Step(Step { step: 2 * step, ..Step::default() });
        live.hears(Event { sequence: step, time_ns: 1_000 + step * 10, kind });
    }
    let history = &live.history;
    let steps = [999, 1_000, 1_009, 1_010, 2_000, u64::MAX].map(|time| history.step_at_time(time));
    assert_eq!(steps, [None, Some(0), Some(0), Some(2), Some(200), Some(598)]);
    assert_eq!(History::default().step_at_time(5), None);
    assert!(History::default().state_at(0).is_none() && History::default().oldest_step().is_none());
}
