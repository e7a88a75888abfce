//! The reducer: what counts as what, and that no stream of events can hurt it.

#![allow(clippy::unwrap_used)]

use coalmine_sessions::limits::*;
use coalmine_sessions::*;
use proptest::prelude::*;

#[derive(Default)]
struct Target {
    state: State,
    sequence: u64,
}

impl Target {
    fn says(&mut self, kind: EventKind) -> &mut Self {
        self.state.apply(&Event { sequence: self.sequence, time_ns: self.sequence * 10, kind });
        self.sequence += 1;
        self
    }

    fn hello(&mut self, pools: &[u32]) -> &mut Self {
        let pools = pools.iter().map(|&pages| Pool { family: "index-k".into(), layer: 0, pages, page_bytes: 64 });
        self.says(EventKind::Hello(Box::new(Hello { seed: 7, pools: pools.collect(), ..Hello::default() })))
    }

    fn step(&mut self, step: u64, diverged: &[u64]) -> &mut Self {
        self.says(EventKind::Step(Step {
            step,
            rows: 80,
            diverged_rows: diverged.iter().map(|&session| session as u32).collect(),
            diverged_sessions: diverged.to_vec(),
            witnesses: diverged.len() as u32,
            ..Step::default()
        }))
    }

    fn overlap(&mut self, value: u8, step: u64) -> &mut Self {
        let change = ToggleChange { name: ToggleName::Overlap, value: ToggleValue::Choice(value), step };
        self.says(EventKind::Toggle(change))
    }

    fn call(&mut self, session: u64, turn: u32, step: u64) -> &mut Self {
        self.says(EventKind::Session(call(session, turn, step)))
    }

    fn wrong_call(&mut self, session: u64, turn: u32, step: u64) -> &mut Self {
        self.says(EventKind::Session(SessionChange { flag: Some(flag(turn, step)), ..call(session, turn, step) }))
    }

    fn enters(&mut self, session: u64, phase: SessionPhase, step: u64) -> &mut Self {
        self.says(EventKind::Session(SessionChange { session, phase, step, ..SessionChange::default() }))
    }
}

fn call(session: u64, turn: u32, step: u64) -> SessionChange {
    SessionChange {
        session,
        turn,
        turns: 6,
        step,
        phase: SessionPhase::Thinking,
        call: "fetch(item=amber-lamp, bin=A01)".into(),
        ..SessionChange::default()
    }
}

fn flag(turn: u32, step: u64) -> Flag {
    Flag { kind: FlagKind::WrongArgument, turn, step, expected: "A01".into(), found: "B02".into() }
}

#[test]
fn corrupt_and_diverged_are_counted_apart() {
    let mut target = Target::default();
    target.hello(&[8]).step(1, &[]).step(2, &[3, 4, 5]).step(3, &[4]).wrong_call(4, 0, 3).call(3, 0, 3).call(9, 0, 3);
    let totals = &target.state.totals;
    assert_eq!((totals.sessions, totals.corrupted, totals.diverged_sessions), (4, 1, 3));
    assert_eq!((totals.steps, totals.tokens, totals.hit_steps, totals.diverged_rows), (3, 240, 2, 4));
    assert_eq!(totals.rows_per_hit_step, [(1, 1), (3, 1)].into());
    assert_eq!((totals.witnesses, totals.witness_steps, totals.diverged_without_witness), (4, 2, 0));
    assert_eq!(totals.slots_hit, [3, 4, 5].into());
    assert_eq!(totals.calls, 3);
    assert_eq!(totals.flags, [(FlagKind::WrongArgument, 1)].into());
    let session = &target.state.sessions[&4];
    assert_eq!((session.diverged_steps, session.first_diverged, session.last_diverged), (2, Some(2), Some(3)));
    assert!(session.corrupt() && !target.state.sessions[&3].corrupt());
}

#[test]
fn a_step_that_diverged_without_a_witness_is_counted() {
    let mut target = Target::default();
    target.says(EventKind::Step(Step { diverged_rows: vec![0], diverged_sessions: vec![1], ..Step::default() }));
    assert_eq!(target.state.totals.diverged_without_witness, 1);
}

#[test]
fn a_resent_change_counts_once() {
    let mut target = Target::default();
    for _ in 0..3 {
        target.wrong_call(1, 2, 50).enters(1, SessionPhase::Finished, 51);
    }
    let totals = &target.state.totals;
    assert_eq!((totals.sessions, totals.corrupted, totals.calls), (1, 1, 3));
    assert_eq!(totals.flags[&FlagKind::WrongArgument], 1);
    assert_eq!(target.state.sessions[&1].flags.len(), 1);
}

#[test]
fn counts_start_anew_when_a_toggle_changes_its_value() {
    let mut target = Target::default();
    target.hello(&[]).overlap(1, 0).step(5, &[1]).call(1, 0, 5);
    assert_eq!((target.state.since_toggle.steps, target.state.toggle_step), (1, 0));
    target.overlap(1, 9);
    assert_eq!((target.state.since_toggle.steps, target.state.toggle_step), (1, 0), "the value is the same");
    target.overlap(0, 10);
    assert_eq!((target.state.since_toggle.steps, target.state.toggle_step), (0, 10));
    target.step(10, &[1]);
    assert_eq!((target.state.since_toggle.steps, target.state.totals.steps), (1, 2));
}

#[test]
fn only_what_happened_since_a_toggle_counts_against_it() {
    let mut target = Target::default();
    target.overlap(1, 0);
    target.step(5, &[1, 2, 3]).wrong_call(1, 0, 6).call(2, 0, 6).call(3, 0, 6).call(4, 0, 6);
    target.overlap(0, 10);
    // The end of step 9 is heard of late; it does not count as since.
    target.step(9, &[4]).wrong_call(5, 0, 9);
    target.wrong_call(1, 1, 12).wrong_call(2, 1, 12).call(4, 1, 12);
    target.step(13, &[4, 6]).wrong_call(6, 0, 14);
    let since = &target.state.since_toggle;
    assert_eq!(since.sessions, 4, "1, 2, 4 and 6 made a call since");
    assert_eq!(since.corrupted, 2, "2 and 6 were flagged for the first time");
    assert_eq!(since.corrupted_before, 1, "1 had been flagged");
    assert_eq!(since.carried_over, 1, "2 was damaged by step 5");
    assert_eq!(since.diverged_sessions, 2, "4 and 6");
    assert_eq!(since.calls, 4);
    assert!((since.corruption_rate().value - 2.0 / 3.0).abs() < 1e-12);
    let totals = &target.state.totals;
    assert_eq!((totals.sessions, totals.corrupted, totals.diverged_sessions, totals.calls), (6, 4, 5, 9));
}

#[test]
fn sessions_that_one_step_damaged_widen_the_interval() {
    let (mut together, mut apart) = (Target::default(), Target::default());
    for session in 0..80 {
        together.enters(session, SessionPhase::Decoding, 0);
        apart.enters(session, SessionPhase::Decoding, 0);
    }
    together.step(1, &[0, 1, 2, 3, 4, 5, 6, 7]);
    for session in 0..8 {
        apart.step(1 + session, &[session]).wrong_call(session, 0, 20);
        together.wrong_call(session, 0, 20);
    }
    let (together, apart) = (together.state.corruption_rate(), apart.state.corruption_rate());
    assert_eq!((together.value, apart.value), (0.1, 0.1));
    assert_eq!(apart, Rate::wilson(0.1, 80.0));
    assert_eq!(together, Rate::wilson(0.1, 10.0));
}

#[test]
fn a_flag_is_laid_to_the_first_divergence_of_its_turn() {
    let mut target = Target::default();
    target.enters(1, SessionPhase::Decoding, 0).step(3, &[1]).step(4, &[1]);
    assert_eq!(target.state.sessions[&1].damaging_step(0), Some(3));
    target.call(1, 0, 5).call(1, 1, 9);
    assert_eq!(target.state.sessions[&1].damaging_step(1), Some(4), "nothing diverged in turn 1");
    target.step(10, &[1]).step(11, &[1]);
    assert_eq!(target.state.sessions[&1].damaging_step(1), Some(10));
}

#[test]
fn finished_sessions_are_dropped_clean_ones_first_and_running_ones_never() {
    let mut target = Target::default();
    target.enters(0, SessionPhase::Decoding, 0);
    target.wrong_call(1, 0, 1).enters(1, SessionPhase::Finished, 2);
    target.step(2, &[2]).enters(2, SessionPhase::Finished, 2);
    let last = 3 * FINISHED_SESSIONS as u64;
    for session in 3..last {
        target.enters(session, SessionPhase::Finished, session);
    }
    let sessions = &target.state.sessions;
    assert_eq!(sessions.len(), FINISHED_SESSIONS + 1);
    assert!([0, 1, 2, last - 1].iter().all(|session| sessions.contains_key(session)) && !sessions.contains_key(&3));
    assert_eq!(target.state.totals.sessions, last);
    assert_eq!(target.state.totals.finished, last - 1);
}

#[test]
fn the_canary_keeps_the_last_write_of_each_page_and_every_hit() {
    let mut target = Target::default();
    let page = |pool, page| PageRef { pool, page };
    target.hello(&[4, 2]).says(EventKind::Canary(CanaryReport {
        step: 3,
        pages_checked: 6,
        written: vec![page(0, 1), page(1, 1), page(1, 2), page(9, 0)],
        violations: vec![page(0, 3)],
    }));
    let canary = &target.state.canary;
    let written: Vec<Vec<_>> = canary.last_written.iter().map(|table| table.iter().collect()).collect();
    assert_eq!(written, [vec![None, Some(3), None, Some(3)], vec![None, Some(3)]]);
    assert_eq!(canary.violations, [(3, page(0, 3))]);
    assert_eq!((target.state.totals.canary_hits, target.state.totals.pages_checked), (1, 6));
    assert_eq!(target.state.refused, 2, "pages that do not exist");
}

#[test]
fn a_second_hello_is_another_stream() {
    let mut target = Target::default();
    target.hello(&[4]).step(1, &[1]).hello(&[2]);
    assert_eq!(target.state.totals.steps, 0);
    assert!(target.state.sessions.is_empty());
    assert_eq!(target.state.canary.last_written, [LastWrites::new(2)]);
}

#[test]
fn the_first_layer_is_known_whichever_comes_first() {
    for divergence_first in [false, true] {
        let mut target = Target::default();
        target.enters(1, SessionPhase::Decoding, 0);
        let divergence = Divergence { step: 4, row: 0, session: 1, first_layer: Some(2), largest: 0.5, flipped: true };
        if divergence_first {
            target.says(EventKind::Differential(divergence)).step(4, &[1]);
        } else {
            target.step(4, &[1]).says(EventKind::Differential(divergence));
        }
        assert_eq!(target.state.sessions[&1].first_layer, Some(2));
        assert_eq!(target.state.divergences.len(), 1);
    }
}

#[test]
fn a_graph_recaptured_takes_its_hazards_along() {
    let graph = |label: &str| EventKind::Graph(Graph { graph: 1, label: label.into(), nodes: vec!["a".into()] });
    let hazard = Hazard { graph: 1, first: 0, second: 9, bytes: 4, accesses: "read/write".into() };
    let mut target = Target::default();
    target.says(graph("x")).says(EventKind::Hazard(hazard.clone())).says(EventKind::Hazard(hazard)).says(graph("x"));
    assert_eq!(target.state.hazards.len(), 1, "resent as they were");
    target.says(graph("y"));
    assert_eq!(target.state.hazards.len(), 0);
}

#[test]
fn an_absurd_hello_allocates_little() {
    let mut target = Target::default();
    target.hello(&[u32::MAX; 5_000]);
    assert_eq!(target.state.hello.as_ref().unwrap().pools.len(), POOLS);
    assert!(target.state.canary.last_written.iter().all(LastWrites::is_empty));
    assert_eq!(target.state.refused, POOLS as u64);
    target.hello(&[CANARY_PAGES as u32 - 1, 2, 1]);
    assert_eq!(
        target.state.canary.last_written.iter().map(LastWrites::len).collect::<Vec<_>>(),
        [CANARY_PAGES - 1, 0, 1]
    );
}

#[test]
fn every_collection_is_bounded() {
    let mut target = Target::default();
    target.hello(&[1]);
    let long = Sanitized::new(&"x".repeat(5_000));
    for index in 0..10_000_u32 {
        let session = u64::from(index);
        target.enters(session, SessionPhase::Decoding, 0);
        target.wrong_call(0, index, session).step(session, &[session, session + 1_000_000]);
        target.says(EventKind::Graph(Graph { graph: index, label: long.clone(), nodes: vec![long.clone(); 40] }));
        target.says(EventKind::Hazard(Hazard { graph: index, first: 9, second: 1, bytes: 1, accesses: long.clone() }));
        target.says(EventKind::Metric(Metric { name: format!("m{index}").into(), value: f64::NAN }));
        target.says(EventKind::Log(Log { level: LogLevel::Error, text: "x".into() }));
        target.says(EventKind::Spans(SpanBatch { step: session, graph: index, spans: vec![SPAN; 10] }));
        target.says(EventKind::Canary(CanaryReport {
            violations: vec![PageRef { pool: 7, page: index }],
            ..CanaryReport::default()
        }));
        let divergence = Divergence { step: 0, row: 0, session, first_layer: None, largest: 0.0, flipped: false };
        target.says(EventKind::Differential(divergence));
    }
    let state = &target.state;
    assert_eq!(state.sessions.len(), SESSIONS);
    assert_eq!(state.sessions[&0].flags.len(), FLAGS_PER_SESSION);
    assert_eq!((state.steps.len(), state.spans.len(), state.log.len()), (WINDOW_STEPS, WINDOW_STEPS, LOG_LINES));
    assert_eq!((state.graphs.len(), state.metrics.len()), (GRAPHS, METRICS));
    assert!(state.hazards.len() <= HAZARDS);
    assert_eq!((state.divergences.len(), state.canary.violations.len()), (DIVERGENCES, CANARY_VIOLATIONS));
    assert!(state.graphs.values().all(|graph| graph.nodes[0].chars().count() == NAME_CHARACTERS));
    assert!(state.totals.slots_hit.len() <= LARGEST_BATCH);
}

const SPAN: Span = Span { node: u32::MAX, lane: 255, start_ns: u64::MAX, duration_ns: u32::MAX };

#[test]
fn spans_and_nodes_are_bounded_in_total() {
    let mut target = Target::default();
    for index in 0..5 {
        target.says(EventKind::Spans(SpanBatch { step: 0, graph: 0, spans: vec![SPAN; WINDOW_SPANS / 2 - 1] }));
        let nodes = vec![Sanitized::new("n"); GRAPH_NODES / 2 - 1];
        target.says(EventKind::Graph(Graph { graph: index, label: "g".into(), nodes }));
    }
    assert_eq!((target.state.spans.len(), target.state.graphs.len()), (2, 2));
    target.says(EventKind::Spans(SpanBatch { step: 0, graph: 0, spans: vec![SPAN; WINDOW_SPANS + 1] }));
    assert_eq!((target.state.spans.len(), target.state.spans[0].spans.len()), (1, WINDOW_SPANS));
}

fn number() -> impl Strategy<Value = u64> {
    prop_oneof![0_u64..6, Just(u64::MAX), any::<u64>()]
}

fn small() -> impl Strategy<Value = u32> {
    prop_oneof![0_u32..6, Just(u32::MAX)]
}

fn anything() -> impl Strategy<Value = EventKind> {
    let phase = proptest::sample::select(vec![SessionPhase::Decoding, SessionPhase::Thinking, SessionPhase::Finished]);
    let name = proptest::sample::select(TOGGLES.map(|spec| spec.name).to_vec());
    let value = prop_oneof![any::<u8>().prop_map(ToggleValue::Choice), any::<u32>().prop_map(ToggleValue::Nanoseconds)];
    let pages =
        || proptest::collection::vec((any::<u16>(), small()).prop_map(|(pool, page)| PageRef { pool, page }), 0..4);
    prop_oneof![
        1 => proptest::collection::vec(small(), 0..4).prop_map(|pages| {
            let pools = pages.iter().map(|&pages| Pool { family: "p".into(), layer: 9, pages, page_bytes: pages });
            EventKind::Hello(Box::new(Hello { pools: pools.collect(), ..Hello::default() }))
        }),
        6 => (name, value, number()).prop_map(|(name, value, step)| EventKind::Toggle(ToggleChange { name, value, step })),
        12 => (number(), small(), proptest::collection::vec(number(), 0..5)).prop_map(|(step, rows, diverged_sessions)| {
            let diverged_rows = diverged_sessions.iter().map(|&session| session as u32).collect();
            EventKind::Step(Step { step, rows, diverged_rows, diverged_sessions, ..Step::default() })
        }),
        12 => (number(), phase, small(), small(), number(), any::<bool>(), any::<bool>()).prop_map(
            |(session, phase, turn, turns, step, speaks, wrong)| {
                let call = if speaks { "call".into() } else { Sanitized::default() };
                let flag = wrong.then(|| flag(turn, step));
                EventKind::Session(SessionChange { session, phase, turn, turns, step, call, flag, ..SessionChange::default() })
            },
        ),
        4 => (number(), small(), pages(), pages()).prop_map(|(step, pages_checked, written, violations)| {
            EventKind::Canary(CanaryReport { step, pages_checked, written, violations })
        }),
        2 => (small(), small(), small(), number()).prop_map(|(graph, first, second, bytes)| {
            EventKind::Hazard(Hazard { graph, first, second, bytes, accesses: "write/write".into() })
        }),
        1 => number().prop_map(|dropped| EventKind::Gap(Gap { dropped })),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(256))]

    #[test]
    fn any_stream_keeps_the_counts_in_order(events in proptest::collection::vec(anything(), 0..60)) {
        let mut target = Target::default();
        for kind in events {
            target.says(kind);
        }
        let summary = target.state.summary();
        let totals = &target.state.totals;
        prop_assert!(totals.corrupted <= totals.sessions && totals.diverged_sessions <= totals.sessions);
        prop_assert_eq!(totals.corrupted, totals.clusters.members());
        prop_assert!(totals.hit_steps <= totals.steps);
        prop_assert!(totals.carried_over <= totals.corrupted);
        prop_assert!(0.0 <= summary.rate.low && summary.rate.high <= 1.0);
        prop_assert!(serde_json::to_string(&summary).is_ok());
        let since = target.state.since_toggle.corruption_rate();
        prop_assert!(since.low <= since.value && since.value <= since.high);
    }
}
