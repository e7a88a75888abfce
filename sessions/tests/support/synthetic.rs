//! A made-up stream of events, the same for the same seed; for tests and benchmarks.

use coalmine_sessions::*;

/// What the stream is like.
pub(crate) struct Shape {
    pub(crate) seed: u64,
    pub(crate) steps: u64,
    pub(crate) nodes: u32,
    pub(crate) sessions: u64,
    /// One batch of spans in so many is missing, as if dropped; 0 for none.
    pub(crate) spans_dropped: u64,
}

impl Default for Shape {
    fn default() -> Self {
        Self { seed: 7, steps: 60, nodes: 24, sessions: 12, spans_dropped: 0 }
    }
}

struct Stream {
    random: u64,
    time_ns: u64,
    events: Vec<Event>,
}

impl Stream {
    fn says(&mut self, kind: EventKind) {
        let sequence = self.events.len() as u64;
        self.events.push(Event { sequence, time_ns: self.time_ns, kind });
    }

    /// A number below `limit` (SplitMix64).
    fn below(&mut self, limit: u64) -> u64 {
        self.random = self.random.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.random;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        (mixed ^ (mixed >> 31)) % limit
    }
}

const LANES: [&str; 4] = ["main", "kv", "indexer", "compressor"];
const POOLS: u16 = 6;

pub(crate) fn events(shape: &Shape) -> Vec<Event> {
    let mut stream = Stream { random: shape.seed, time_ns: 0, events: Vec::new() };
    let pool = |layer| Pool { family: "index-k".into(), layer, pages: 64, page_bytes: 8_448 };
    stream.says(EventKind::Hello(Box::new(Hello {
        target: "synthetic".into(),
        model: "demo".into(),
        device: "virtual GPU".into(),
        instruction_set: "x86-64-v4".into(),
        seed: shape.seed,
        concurrency: shape.sessions as u32,
        layers: vec![LayerKind::Sliding, LayerKind::Ratio4, LayerKind::Ratio128],
        pools: (0..POOLS).map(pool).collect(),
        lanes: LANES.map(Sanitized::from).into(),
    })));
    for spec in TOGGLES {
        stream.says(EventKind::Toggle(ToggleChange { name: spec.name, value: spec.default, step: 0 }));
    }
    let nodes = (0..shape.nodes).map(|node| Sanitized::new(&format!("L{} node {node}", node % 61)));
    stream.says(EventKind::Graph(Graph { graph: 3, label: "bucket 80".into(), nodes: nodes.collect() }));
    stream.says(EventKind::Hazard(Hazard {
        graph: 3,
        first: 1,
        second: 2,
        bytes: 4_096,
        accesses: "read/write".into(),
    }));
    for session in 0..shape.sessions {
        let arrived = SessionChange { session, turns: 6, ..SessionChange::default() };
        stream.says(EventKind::Session(arrived));
    }
    for step in 0..shape.steps {
        one_step(&mut stream, shape, step);
    }
    stream.events
}

fn one_step(stream: &mut Stream, shape: &Shape, step: u64) {
    if step % 97 == 40 {
        let value = ToggleValue::Choice((step / 97 % 2) as u8);
        stream.says(EventKind::Ack(Ack { command: step, outcome: Ok(step) }));
        stream.says(EventKind::Toggle(ToggleChange { name: ToggleName::Overlap, value, step }));
    }
    let start_ns = stream.time_ns;
    let mut at = [start_ns; LANES.len()];
    let spans = (0..shape.nodes).map(|node| {
        let lane = if node % 9 < 5 { 0 } else { stream.below(LANES.len() as u64) as u8 };
        let duration_ns = 2_000 + u32::from(lane) * 700 + (node % 61) * 40 + stream.below(60) as u32;
        let start_ns = at[usize::from(lane)];
        at[usize::from(lane)] += u64::from(duration_ns) + 900;
        Span { node, lane, start_ns, duration_ns }
    });
    let spans = spans.collect();
    stream.time_ns = at.into_iter().max().unwrap_or(start_ns);
    if shape.spans_dropped == 0 || stream.below(shape.spans_dropped) != 0 {
        stream.says(EventKind::Spans(SpanBatch { step, graph: 3, spans }));
    } else {
        stream.says(EventKind::Gap(Gap { dropped: 1 }));
    }
    let page = |session: u64, pool: u16| PageRef { pool, page: 1 + ((step / 16 + session * 7) % 60) as u32 };
    let written = (0..POOLS).flat_map(|pool| (0..shape.sessions).map(move |session| page(session, pool)));
    let violations = if step % 53 == 11 { vec![PageRef { pool: 2, page: 5 }] } else { Vec::new() };
    let mut written: Vec<PageRef> = written.collect();
    written.sort_unstable();
    written.dedup();
    stream.says(EventKind::Canary(CanaryReport {
        step,
        pages_checked: written.len() as u32 + 40,
        written,
        violations,
    }));
    let hit = stream.below(23) == 0;
    let diverged: Vec<u64> = if hit { vec![step % shape.sessions, (step + 1) % shape.sessions] } else { Vec::new() };
    stream.says(EventKind::Step(Step {
        step,
        rows: shape.sessions as u32,
        bucket: 80,
        captured: true,
        overlapped: step.is_multiple_of(2),
        start_ns,
        end_ns: stream.time_ns,
        nodes: shape.nodes,
        oracle: true,
        diverged_rows: diverged.iter().map(|&session| session as u32).collect(),
        diverged_sessions: diverged.clone(),
        witnesses: diverged.len() as u32,
        witnessed_rows: diverged.len() as u32,
    }));
    for &session in &diverged {
        let largest = if step.is_multiple_of(2) { 0.1 + step as f32 } else { f32::INFINITY };
        let row = session as u32;
        let first_layer = Some(2);
        stream.says(EventKind::Differential(Divergence { step, row, session, first_layer, largest, flipped: true }));
    }
    for session in 0..shape.sessions {
        if stream.below(10) == 0 {
            let turn = (step / 40) as u32;
            let wrong = diverged.contains(&session);
            let flag = Flag { kind: FlagKind::WrongArgument, turn, step, expected: "A01".into(), found: "=B02".into() };
            stream.says(EventKind::Session(SessionChange {
                session,
                phase: if step % 31 == 30 { SessionPhase::Finished } else { SessionPhase::Thinking },
                slot: Some(session as u32),
                turn,
                turns: 6,
                tokens: 100 + step as u32,
                step,
                call: format!("fetch(item=amber-lamp, bin=A0{turn}, \"private\")").as_str().into(),
                flag: wrong.then_some(flag),
            }));
        }
    }
    if step.is_multiple_of(5) {
        stream.says(EventKind::Metric(Metric { name: "tokens_per_second".into(), value: 1e5 / (step as f64 + 3.0) }));
        stream.says(EventKind::Log(Log {
            level: LogLevel::Warning,
            text: "A private line, with \u{202e} in it.".into(),
        }));
    }
}

/// The event as it would come so many steps and events later.
#[allow(dead_code, reason = "tests are content with short streams")]
pub(crate) fn later(event: &Event, steps: u64, sequence: u64) -> Event {
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
