//! Events of every kind with anything in them: folded, remembered, recorded and drawn, with keys in between.

use std::{sync::Arc, time::Instant};

use coalmine::console::Arrangement;
use coalmine_sessions::{
    Ack, CanaryReport, Divergence, Event, EventKind, Flag, FlagKind, Gap, Graph, Hazard, Hello, History, LayerKind,
    Log, LogLevel, Metric, PageRef, Pool, Sanitized, SessionChange, SessionPhase, Span, SpanBatch, State, Step,
    ToggleChange, ToggleName, ToggleValue,
    macros::{Line, QUANTITIES, parse},
    recording::{Manifest, Recording, RecordingWriter},
};
use crossterm::event::{KeyCode, KeyModifiers, MouseButton, MouseEvent, MouseEventKind};

use super::{console::Bench, scratch::with_directory};

/// Events of one input.
const MOST: usize = 400;
/// Keys that leave no file behind: what opens a line to type is closed again before anything is entered.
const KEYS: &[KeyCode] = &[
    KeyCode::Up,
    KeyCode::Down,
    KeyCode::Left,
    KeyCode::Right,
    KeyCode::Home,
    KeyCode::End,
    KeyCode::PageUp,
    KeyCode::PageDown,
    KeyCode::Tab,
    KeyCode::BackTab,
    KeyCode::Esc,
    KeyCode::Enter,
    KeyCode::Char(' '),
    KeyCode::Char('s'),
    KeyCode::Char('S'),
    KeyCode::Char('w'),
    KeyCode::Char('a'),
    KeyCode::Char('d'),
    KeyCode::Char('f'),
    KeyCode::Char('b'),
    KeyCode::Char(','),
    KeyCode::Char('.'),
    KeyCode::Char('['),
    KeyCode::Char(']'),
    KeyCode::Char('{'),
    KeyCode::Char('}'),
    KeyCode::Char('n'),
    KeyCode::Char('z'),
    KeyCode::Char('y'),
    KeyCode::Char('H'),
    KeyCode::Char('J'),
    KeyCode::Char('K'),
    KeyCode::Char('L'),
    KeyCode::Char('1'),
    KeyCode::Char('2'),
    KeyCode::Char('3'),
    KeyCode::Char('4'),
    KeyCode::Char('5'),
    KeyCode::Char('6'),
];
const SIZES: [(u16, u16); 6] = [(60, 15), (80, 24), (120, 28), (160, 48), (300, 70), (10, 3)];

/// Events and keys as the bytes say.
pub fn events(bytes: &[u8]) {
    let mut bytes = Bytes(bytes);
    let (mut state, mut history) = (State::default(), History::with_bytes(1 << 20));
    let mut bench = Bench::new(Arrangement::default());
    let mut events = Vec::new();
    while !bytes.0.is_empty() && events.len() < MOST {
        match bytes.byte() {
            0..=13 => press(&mut bench, &mut bytes),
            14..=16 => {
                let (width, height) = SIZES[usize::from(bytes.byte()) % SIZES.len()];
                bench.fold();
                bench.draw(width, height);
            }
            _ => {
                let (kind, time_ns) = (bytes.kind(), bytes.number());
                bench.say(kind.clone(), time_ns);
                let event = Arc::new(Event { sequence: events.len() as u64, time_ns, kind });
                state.apply(&event);
                history.push(Arc::clone(&event), &state);
                events.push(event);
            }
        }
    }
    look_at(&state);
    look_back(&history, &events);
    bench.fold();
    for pane in '1'..='6' {
        bench.key(KeyCode::Char(pane), KeyModifiers::NONE);
        for key in [KeyCode::Enter, KeyCode::Enter, KeyCode::Down] {
            bench.key(key, KeyModifiers::NONE);
            bench.draw(160, 48);
        }
        bench.draw(60, 15);
    }
    with_directory(|directory| record(&directory.join("events.mcap"), &events));
}

fn press(bench: &mut Bench, bytes: &mut Bytes<'_>) {
    match bytes.byte() {
        250 => {
            for code in [KeyCode::Char('/'), KeyCode::Char(char::from(bytes.byte())), KeyCode::Enter] {
                bench.key(code, KeyModifiers::NONE);
            }
        }
        251 => bench.key(KeyCode::Right, KeyModifiers::CONTROL),
        252 => bench.key(KeyCode::Down, KeyModifiers::CONTROL),
        253.. => {
            let (column, row) = (bytes.byte().into(), (bytes.byte() % 64).into());
            for kind in [
                MouseEventKind::Down(MouseButton::Left),
                MouseEventKind::Drag(MouseButton::Left),
                MouseEventKind::Up(MouseButton::Left),
                MouseEventKind::ScrollUp,
            ] {
                bench.app.mouse(MouseEvent { kind, column, row, modifiers: KeyModifiers::NONE });
            }
        }
        key => bench.key(KEYS[usize::from(key) % KEYS.len()], KeyModifiers::NONE),
    }
}

/// Everything that reports and conditions read.
fn look_at(state: &State) {
    let _ = format!("{:?}", state.summary());
    for quantity in &QUANTITIES {
        let line = format!("expect {} >= 0", quantity.name);
        let script = parse("quantity", &line, &[]).expect("a quantity's name can be compared");
        if let Line::Expect(condition) = &script.lines[0].line {
            let _ = condition.evaluate(state).to_string();
        }
    }
}

fn look_back(history: &History, events: &[Arc<Event>]) {
    let ends = [history.oldest_step(), history.newest_step()].into_iter().flatten();
    let named = events.iter().filter_map(|event| event.kind.named_step());
    for step in ends.chain([0, u64::MAX]).chain(named.take(3)) {
        let _ = history.state_at(step);
        let _ = (history.previous_anomaly(step), history.next_anomaly(step), history.step_at_time(step));
        let _ = history.last_write_of(PageRef { pool: 0, page: 1 }, step);
    }
}

/// What was recorded is all there.
fn record(path: &std::path::Path, events: &[Arc<Event>]) {
    // It may be left from the input before.
    let _ = std::fs::remove_file(path);
    let mut writer = RecordingWriter::create(path, Manifest::default()).expect("there is room for temporary files");
    let now = Instant::now();
    for event in events {
        writer.record(event, now).expect("no event is too large");
    }
    writer.finish().expect("there is room for temporary files");
    let (recording, recovery) = Recording::open(path).expect("what was written is read");
    assert!(!recovery.truncated);
    let mut read = 0;
    for (event, found) in events.iter().zip(recording.events_in(0..=u64::MAX)) {
        let found = found.expect("what was written is read");
        assert_eq!((found.sequence, found.time_ns), (event.sequence, event.time_ns));
        read += 1;
    }
    assert_eq!(read, events.len());
    for step in [0, recording.last_step(), u64::MAX] {
        recording.state_at(step).expect("what was written is read");
    }
}

/// Bytes that decide; when there are no more, they are all zero.
struct Bytes<'a>(&'a [u8]);

impl Bytes<'_> {
    fn byte(&mut self) -> u8 {
        let (first, rest) = self.0.split_first().unwrap_or((&0, &[]));
        self.0 = rest;
        *first
    }

    fn flag(&mut self) -> bool {
        self.byte() % 2 == 1
    }

    /// Small, or near to what a type can hold.
    fn number(&mut self) -> u64 {
        let (class, byte) = (self.byte(), u64::from(self.byte()));
        match class {
            0..=149 => byte,
            150..=179 => byte << 8 | u64::from(self.byte()),
            180..=199 => byte * 1_000_000,
            200..=209 => u64::from(u32::MAX) - byte,
            210..=219 => u64::from(u32::MAX) + byte,
            220..=229 => i64::MAX as u64 - byte,
            230..=239 => i64::MAX as u64 + byte,
            240.. => u64::MAX - byte,
        }
    }

    fn short(&mut self) -> u32 {
        let number = self.number();
        u32::try_from(number).unwrap_or(u32::MAX - number as u32 % 256)
    }

    fn float(&mut self) -> f64 {
        match self.byte() % 8 {
            0 => f64::NAN,
            1 => f64::INFINITY,
            2 => f64::NEG_INFINITY,
            3 => f64::MIN_POSITIVE / 2.0,
            4 => -(self.number() as f64),
            5 => f64::MAX,
            _ => self.number() as f64 / 7.0,
        }
    }

    fn text(&mut self) -> Sanitized {
        let text = match self.byte() % 8 {
            0 => "",
            1 => "\u{202e}\u{1b}[31m\u{9b}2J",
            2 => "e\u{301}\u{301}\u{301}\u{301}\u{301}\u{1100}\u{1160}\u{1160}",
            3 => "\u{65e5}\u{672c}\u{1f468}\u{200d}\u{1f469}",
            4 => "main",
            5 => "L1 indexer top-k",
            6 => return Sanitized::new(&"\u{65e5}".repeat(usize::from(self.byte()) * 8)),
            _ => {
                let length = usize::from(self.byte() % 16).min(self.0.len());
                let (text, rest) = self.0.split_at(length);
                self.0 = rest;
                return Sanitized::new(&String::from_utf8_lossy(text));
            }
        };
        Sanitized::new(text)
    }

    fn list<T>(&mut self, most: u8, mut item: impl FnMut(&mut Self) -> T) -> Vec<T> {
        (0..self.byte() % most).map(|_| item(self)).collect()
    }

    fn page(&mut self) -> PageRef {
        PageRef { pool: self.number() as u16, page: self.short() }
    }

    fn kind(&mut self) -> EventKind {
        match self.byte() % 32 {
            0 => EventKind::Hello(Box::new(self.hello())),
            1 => EventKind::Gap(Gap { dropped: self.number() }),
            2 => EventKind::Metric(Metric { name: self.text(), value: self.float() }),
            3 | 4 => EventKind::Log(Log {
                level: [LogLevel::Info, LogLevel::Warning, LogLevel::Error][usize::from(self.byte() % 3)],
                text: self.text(),
            }),
            5 => EventKind::Ack(Ack {
                command: self.number(),
                outcome: if self.flag() { Ok(self.number()) } else { Err(self.text()) },
            }),
            6 | 7 => EventKind::Toggle(ToggleChange {
                name: ToggleName::all().nth(usize::from(self.byte() % 9)).expect("there are nine"),
                value: match self.flag() {
                    true => ToggleValue::Choice(self.byte() % 4),
                    false => ToggleValue::Nanoseconds(self.short()),
                },
                step: self.number(),
            }),
            8 | 9 => EventKind::Graph(Graph {
                graph: self.byte().into(),
                label: self.text(),
                nodes: self.list(24, Self::text),
            }),
            10 | 11 => EventKind::Hazard(Hazard {
                graph: self.byte().into(),
                first: self.short(),
                second: self.short(),
                bytes: self.number(),
                accesses: self.text(),
            }),
            12 | 13 => EventKind::Differential(Divergence {
                step: self.number(),
                row: self.short(),
                session: self.number(),
                first_layer: self.flag().then(|| self.number() as u16),
                largest: self.float() as f32,
                flipped: self.flag(),
            }),
            14..=16 => EventKind::Canary(CanaryReport {
                step: self.number(),
                pages_checked: self.short(),
                written: self.list(12, Self::page),
                violations: self.list(6, Self::page),
            }),
            17..=20 => EventKind::Spans(SpanBatch {
                step: self.number(),
                graph: self.byte().into(),
                spans: self.list(32, |bytes| Span {
                    node: bytes.short(),
                    lane: bytes.byte(),
                    start_ns: bytes.number(),
                    duration_ns: bytes.short(),
                }),
            }),
            21..=25 => EventKind::Step(Step {
                step: self.number(),
                rows: self.short(),
                bucket: self.short(),
                captured: self.flag(),
                overlapped: self.flag(),
                start_ns: self.number(),
                end_ns: self.number(),
                nodes: self.short(),
                oracle: self.flag(),
                diverged_rows: self.list(6, Self::short),
                diverged_sessions: self.list(6, Self::number),
                witnesses: self.short(),
                witnessed_rows: self.short(),
            }),
            _ => EventKind::Session(self.session()),
        }
    }

    fn hello(&mut self) -> Hello {
        Hello {
            target: self.text(),
            model: self.text(),
            device: self.text(),
            instruction_set: self.text(),
            seed: self.number(),
            concurrency: self.short(),
            layers: self.list(6, |bytes| {
                [LayerKind::Sliding, LayerKind::Ratio4, LayerKind::Ratio128][usize::from(bytes.byte() % 3)]
            }),
            pools: self.list(6, |bytes| Pool {
                family: bytes.text(),
                layer: bytes.number() as u16,
                // Tables for four million pages a hello would leave no time for anything else.
                pages: if bytes.byte() > 250 { bytes.short() } else { bytes.byte().into() },
                page_bytes: bytes.short(),
            }),
            lanes: self.list(12, Self::text),
        }
    }

    fn session(&mut self) -> SessionChange {
        const PHASES: [SessionPhase; 6] = [
            SessionPhase::Waiting,
            SessionPhase::Prefill,
            SessionPhase::Transfer,
            SessionPhase::Decoding,
            SessionPhase::Thinking,
            SessionPhase::Finished,
        ];
        SessionChange {
            session: self.number(),
            phase: PHASES[usize::from(self.byte()) % PHASES.len()],
            slot: self.flag().then(|| self.short()),
            turn: self.short(),
            turns: self.short(),
            tokens: self.short(),
            step: self.number(),
            call: self.text(),
            flag: self.flag().then(|| Flag {
                kind: FlagKind::ALL[usize::from(self.byte() % 2)],
                turn: self.short(),
                step: self.number(),
                expected: self.text(),
                found: self.text(),
            }),
        }
    }
}
