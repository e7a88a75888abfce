//! A recording whose steps are known, written by the program's own writer.

use std::path::Path;
use std::time::{Duration, Instant};

use coalmine_sessions::recording::{Manifest, RecordingWriter};
use coalmine_sessions::{
    Ack, CanaryReport, Divergence, Event, EventKind, Flag, FlagKind, Graph, Hazard, Hello, LayerKind, Log, LogLevel,
    Metric, PageRef, Pool, SessionChange, SessionPhase, Span, SpanBatch, Step, TOGGLES, ToggleChange,
};

/// Steps of the recording, from 0 on.
pub(crate) const STEPS: u64 = 60;
/// The step in which two rows diverge.
pub(crate) const DIVERGES: u64 = 20;
/// The step in which a session is found to be corrupted.
pub(crate) const CORRUPTED: u64 = 40;

/// The step in which a warning is logged.
pub(crate) const WARNS: u64 = 30;

/// Writes a recording in which everything that names something says `text`.
pub(crate) fn write(path: &Path, text: &str) {
    let manifest = Manifest {
        command_line: text.into(),
        target: text.into(),
        device: text.into(),
        seed: 7,
        instruction_set: text.into(),
        created: text.into(),
        coalmine: text.into(),
        ..Manifest::default()
    };
    let mut writer = RecordingWriter::create(path, manifest).unwrap();
    let now = Instant::now();
    for (sequence, kind) in (0..).zip(events(text)) {
        let time_ns = kind.named_step().unwrap_or(0) * 1_000_000;
        // Ten steps a second by the host's clock, so that there are several chunks.
        let then = now + Duration::from_nanos(100 * time_ns);
        writer.record(&Event { sequence, time_ns, kind }, then).unwrap();
    }
    writer.finish().unwrap();
}

fn events(text: &str) -> Vec<EventKind> {
    let pool = Pool { family: text.into(), layer: 1, pages: 8, page_bytes: 256 };
    let mut events = vec![EventKind::Hello(Box::new(Hello {
        target: text.into(),
        model: text.into(),
        device: text.into(),
        instruction_set: text.into(),
        seed: 7,
        concurrency: 4,
        layers: vec![LayerKind::Sliding, LayerKind::Ratio4],
        pools: vec![pool.clone(), Pool { layer: 0, ..pool }],
        lanes: vec![text.into(), text.into()],
    }))];
    events.extend(
        TOGGLES.iter().map(|spec| EventKind::Toggle(ToggleChange { name: spec.name, value: spec.default, step: 0 })),
    );
    events.push(EventKind::Graph(Graph { graph: 1, label: text.into(), nodes: vec![text.into(); 6] }));
    events.push(EventKind::Hazard(Hazard { graph: 1, first: 1, second: 3, bytes: 64, accesses: text.into() }));
    for level in [LogLevel::Info, LogLevel::Warning, LogLevel::Error] {
        events.push(EventKind::Log(Log { level, text: text.into() }));
    }
    events.push(EventKind::Metric(Metric { name: text.into(), value: 1.5 }));
    events.push(EventKind::Ack(Ack { command: 1, outcome: Err(text.into()) }));
    for step in 0..STEPS {
        events.extend(events_of(step, text));
    }
    events
}

fn events_of(step: u64, text: &str) -> Vec<EventKind> {
    let start_ns = step * 1_000_000;
    let session = |session: u64, call: &str, flag| {
        EventKind::Session(SessionChange {
            session,
            phase: SessionPhase::Decoding,
            slot: Some(session as u32),
            turns: 6,
            tokens: 100 + step as u32,
            step,
            call: call.into(),
            flag,
            ..SessionChange::default()
        })
    };
    let mut events: Vec<_> = (0..4).map(|number| session(number, if step == 0 { text } else { "" }, None)).collect();
    let spans = (0..6).map(|node| Span {
        node,
        lane: (node % 2) as u8,
        start_ns: start_ns + u64::from(node) * 100_000,
        duration_ns: 90_000,
    });
    events.push(EventKind::Spans(SpanBatch { step, graph: 1, spans: spans.collect() }));
    let page = |page| PageRef { pool: 0, page };
    let violations = if step == CORRUPTED { vec![page(5)] } else { Vec::new() };
    events.push(EventKind::Canary(CanaryReport { step, pages_checked: 8, written: vec![page(1)], violations }));
    let diverged = if step == DIVERGES { vec![1, 2] } else { Vec::new() };
    for &row in &diverged {
        let session = row.into();
        events.push(EventKind::Differential(Divergence {
            step,
            row,
            session,
            first_layer: Some(1),
            largest: 0.5,
            flipped: true,
        }));
    }
    if step == WARNS {
        events.push(EventKind::Log(Log { level: LogLevel::Warning, text: text.into() }));
    }
    if step == CORRUPTED {
        let flag = Flag { kind: FlagKind::WrongArgument, turn: 0, step, expected: text.into(), found: text.into() };
        events.push(session(1, text, Some(flag)));
    }
    events.push(EventKind::Step(Step {
        step,
        rows: 4,
        bucket: 4,
        captured: true,
        overlapped: true,
        start_ns,
        end_ns: start_ns + 900_000,
        nodes: 6,
        oracle: true,
        diverged_sessions: diverged.iter().map(|row| u64::from(*row)).collect(),
        diverged_rows: diverged,
        witnesses: 0,
        witnessed_rows: 0,
    }));
    events
}
