//! The incident, recorded and replayed: the same findings at the same steps, and the same panes whichever way one came.

#![allow(clippy::unwrap_used, reason = "a test that cannot set itself up has failed")]

use std::path::{Path, PathBuf};
use std::sync::mpsc::{Receiver, channel};
use std::sync::{Arc, OnceLock};
use std::time::{Duration, Instant};

use coalmine::console::{App, ConsoleOptions, Target};
use coalmine::demo_checkpoint;
use coalmine::engine::EngineOptions;
use coalmine::headless::run_observed;
use coalmine::playback::{ReplayHandle, ReplayRequest};
use coalmine_kernels::Compute;
use coalmine_kernels::math::Cpu;
use coalmine_panes::PaneId;
use coalmine_sessions::recording::{Manifest, Recording, RecordingWriter};
use coalmine_sessions::{Event, EventKind, State};
use crossterm::event::{KeyCode, KeyEvent, KeyModifiers};
use ratatui::buffer::Buffer;
use ratatui::layout::Rect;

/// What a run of the incident said, and where it is recorded.
struct Incident {
    path: PathBuf,
    events: Vec<Event>,
}

impl Incident {
    /// The same for all tests of this file.
    fn recorded() -> &'static Self {
        static INCIDENT: OnceLock<Incident> = OnceLock::new();
        INCIDENT.get_or_init(|| {
            // What lives as long as the process is never dropped, so the file lies where builds leave theirs.
            let path = Path::new(env!("CARGO_TARGET_TMPDIR")).join("replay.mcap");
            let _ = std::fs::remove_file(&path);
            let compute = Compute { cpu: Cpu::detect(), workers: 2 };
            let options = EngineOptions { sessions: Some(80), turns: 4, seed: 5, ..EngineOptions::incident(compute) };
            let mut writer = RecordingWriter::create(&path, Manifest::default()).unwrap();
            let mut events = Vec::new();
            let mut now = Instant::now();
            run_observed(
                &demo_checkpoint().unwrap(),
                options,
                None,
                |_| (),
                |event| {
                    // As if at a pace that a person can follow.
                    now += Duration::from_millis(5);
                    writer.record(event, now).unwrap();
                    events.push(event.clone());
                },
            )
            .unwrap();
            writer.finish().unwrap();
            Self { path, events }
        })
    }
}

/// Every flag with the step at the end of which it is first known.
fn flags(state: &State, step: u64) -> Vec<(u64, String)> {
    let sessions = state.sessions.iter();
    sessions.flat_map(|(id, session)| session.flags.iter().map(move |flag| (step, format!("s{id} {flag:?}")))).collect()
}

#[test]
fn a_replayed_incident_shows_the_same_flags_at_the_same_steps() {
    let incident = Incident::recorded();
    let (recording, recovery) = Recording::open(&incident.path).unwrap();
    assert!(!recovery.truncated);
    let mut live = State::default();
    let mut events = incident.events.iter().peekable();
    let mut seen = 0;
    for step in recording.first_step()..=recording.last_step() {
        // The events of a step: up to the first that names a later one.
        while let Some(event) = events.next_if(|event| named(&event.kind).is_none_or(|named| named <= step)) {
            live.apply(event);
        }
        if step % 7 == 0 || step == recording.last_step() {
            let replayed = recording.state_at(step).unwrap();
            assert_eq!(flags(&replayed, step), flags(&live, step), "step {step}");
            assert_eq!(replayed.totals.diverged_rows, live.totals.diverged_rows, "step {step}");
            seen = flags(&live, step).len();
        }
    }
    assert!(seen > 0, "the incident corrupted nobody");
    let first = recording.first_corruption().unwrap();
    assert!(
        recording.state_at(first - 1).unwrap().totals.corrupted < recording.state_at(first).unwrap().totals.corrupted
    );
}

/// The step that an event names, if it names one.
fn named(kind: &EventKind) -> Option<u64> {
    match kind {
        EventKind::Toggle(change) => Some(change.step),
        EventKind::Step(step) => Some(step.step),
        EventKind::Spans(batch) => Some(batch.step),
        EventKind::Canary(report) => Some(report.step),
        EventKind::Session(change) => Some(change.step),
        EventKind::Differential(divergence) => Some(divergence.step),
        _ => None,
    }
}

/// The console on a recording.
struct Console {
    app: App,
    woken: Receiver<()>,
}

impl Console {
    fn open(path: &Path) -> Self {
        let (handle, ..) = ReplayHandle::open(path).unwrap();
        let mut app = App::new(Target::Replay(handle), ConsoleOptions::default());
        let (wake, woken) = channel();
        app.set_waker(Arc::new(move || {
            let _ = wake.send(());
        }));
        Self { app, woken }
    }

    fn ask(&mut self, request: ReplayRequest) {
        self.app.ask_replay(request);
        while !self.app.settled() {
            self.woken.recv_timeout(Duration::from_secs(120)).unwrap();
            self.app.fold();
        }
        self.app.fold();
    }

    /// Every pane with the screen to itself, then all side by side.
    fn panes(&mut self) -> Vec<Buffer> {
        let press = |app: &mut App, key: char| app.key(KeyEvent::new(KeyCode::Char(key), KeyModifiers::NONE));
        let mut drawn = Vec::new();
        for pane in PaneId::ALL {
            press(&mut self.app, char::from_digit(pane.number() as u32, 10).unwrap());
            press(&mut self.app, 'z');
            drawn.push(self.draw(100, 30));
            press(&mut self.app, 'z');
        }
        press(&mut self.app, '1');
        drawn.push(self.draw(200, 60));
        drawn
    }

    fn draw(&mut self, width: u16, height: u16) -> Buffer {
        let area = Rect::new(0, 0, width, height);
        let mut buffer = Buffer::empty(area);
        self.app.draw(area, &mut buffer);
        buffer
    }
}

#[test]
fn every_pane_is_the_same_whichever_way_one_came() {
    let incident = Incident::recorded();
    let (handle, ..) = ReplayHandle::open(&incident.path).unwrap();
    let (first, last) = (handle.first_step(), handle.last_step());
    drop(handle);
    let mut played = Console::open(&incident.path);
    let mut gone_to = Console::open(&incident.path);
    let mut step = first;
    // A step here and there, from the far end as well as from the near one.
    while step < last {
        gone_to.ask(ReplayRequest::Step(last - step / 2));
        gone_to.ask(ReplayRequest::Step(step));
        let (one, other) = (played.panes(), gone_to.panes());
        for (pane, (one, other)) in one.iter().zip(&other).enumerate() {
            assert_eq!(one, other, "step {step}, drawing {pane}");
        }
        let stride = 1 + step % 5;
        (0..stride).for_each(|_| played.ask(ReplayRequest::Forward));
        step = (step + stride).min(last);
    }
    // And back again, one by one.
    for _ in 0..20 {
        played.ask(ReplayRequest::Back);
        step -= 1;
    }
    gone_to.ask(ReplayRequest::Step(first));
    gone_to.ask(ReplayRequest::Step(step));
    assert_eq!(played.panes(), gone_to.panes());
}
