//! Key sequences against the app, without a terminal.

use std::sync::mpsc;

use coalmine_panes::PaneId;
use coalmine_sessions::{
    Ack, Command, CommandKind, Event, EventKind, Flag, FlagKind, Hello, Log, LogLevel, SessionChange, SessionPhase,
    Step, TOGGLES, ToggleChange, ToggleName, ToggleValue,
};
use crossterm::event::{KeyCode, KeyEvent, KeyEventKind, KeyModifiers, MouseButton, MouseEvent, MouseEventKind};
use ratatui::{Terminal, backend::TestBackend};

use super::{
    App, ConsoleOptions, Exit,
    app::Request,
    commands::{Action, COMMANDS},
};

/// An app on a screen, with the target's end of its commands.
struct Bench {
    app: App,
    asked: mpsc::Receiver<Command>,
    terminal: Terminal<TestBackend>,
    sequence: u64,
}

impl Bench {
    fn new(width: u16, height: u16) -> Self {
        let (commands, asked) = mpsc::channel();
        let options = ConsoleOptions { pace: Some(50.0), ..ConsoleOptions::default() };
        Self {
            app: App::new(commands, &options),
            asked,
            terminal: Terminal::new(TestBackend::new(width, height)).unwrap(),
            sequence: 0,
        }
    }

    /// A bench whose target has said what it is and run ten steps.
    fn started(width: u16, height: u16) -> Self {
        let mut bench = Self::new(width, height);
        let hello = Hello {
            target: "embedded engine".into(),
            model: "demo".into(),
            device: "virtual GPU".into(),
            lanes: vec!["main".into(), "indexer".into()],
            ..Hello::default()
        };
        bench.say(EventKind::Hello(Box::new(hello)));
        for spec in TOGGLES {
            bench.toggle(spec.name, spec.default, 0);
        }
        bench.steps(0..10);
        bench
    }

    fn say(&mut self, kind: EventKind) {
        self.sequence += 1;
        self.app.receive([Event { sequence: self.sequence, time_ns: self.sequence, kind }]);
        while self.app.fold() {}
    }

    fn toggle(&mut self, name: ToggleName, value: ToggleValue, step: u64) {
        self.say(EventKind::Toggle(ToggleChange { name, value, step }));
    }

    fn steps(&mut self, steps: std::ops::Range<u64>) {
        for step in steps {
            self.say(EventKind::Step(Step {
                step,
                rows: 2,
                bucket: 2,
                captured: true,
                overlapped: true,
                ..Step::default()
            }));
        }
    }

    fn answer(&mut self, command: u64, outcome: Result<u64, &str>) {
        self.say(EventKind::Ack(Ack { command, outcome: outcome.map_err(Into::into) }));
    }

    fn key(&mut self, code: KeyCode, modifiers: KeyModifiers) {
        self.app.key(KeyEvent::new(code, modifiers));
    }

    /// Types characters, each by itself.
    fn keys(&mut self, text: &str) {
        for character in text.chars() {
            self.key(KeyCode::Char(character), KeyModifiers::NONE);
        }
    }

    fn asked(&self) -> Option<CommandKind> {
        self.asked.try_recv().ok().map(|command| command.kind)
    }

    fn screen(&mut self) -> String {
        self.terminal.draw(|frame| self.app.draw(frame.area(), frame.buffer_mut())).unwrap();
        self.terminal.backend().to_string()
    }

    fn assert_shows(&mut self, text: &str) {
        let screen = self.screen();
        assert!(screen.contains(text), "no {text:?} in\n{screen}");
    }

    fn assert_hides(&mut self, text: &str) {
        let screen = self.screen();
        assert!(!screen.contains(text), "{text:?} in\n{screen}");
    }
}

#[test]
fn the_first_frame_needs_no_event() {
    let mut bench = Bench::new(80, 24);
    bench.assert_shows("starting the engine");
    assert!(!bench.app.is_dirty());
}

#[test]
fn one_key_asks_for_overlap_off_and_shows_it_pending() {
    let mut bench = Bench::started(160, 48);
    bench.assert_shows("overlap on");
    bench.keys("o");
    let off = ToggleValue::Choice(0);
    assert_eq!(bench.asked(), Some(CommandKind::SetToggle(ToggleName::Overlap, off)));
    bench.assert_shows("1 → 0 pending");
    bench.assert_shows("→ overlap off pending");
    bench.toggle(ToggleName::Overlap, off, 12);
    bench.answer(1, Ok(12));
    bench.assert_shows("overlap = 0 from step 12 on");
    bench.assert_hides("pending");
    bench.assert_shows("since flip at 12");
}

#[test]
fn a_key_pressed_twice_goes_on_from_what_was_asked() {
    let mut bench = Bench::started(160, 48);
    bench.keys("KK");
    let ask = |value| CommandKind::SetToggle(ToggleName::IndexK, ToggleValue::Choice(value));
    assert_eq!(bench.asked(), Some(ask(1)));
    assert_eq!(bench.asked(), Some(ask(2)));
    // The answer to the first leaves the second pending.
    bench.answer(1, Ok(12));
    bench.assert_shows("bf16 → f32 pending");
    bench.answer(2, Err("the pools are busy"));
    bench.assert_shows("Refused: index-k = f32: the pools are busy");
    bench.assert_hides("pending");
}

#[test]
fn the_toggles_pane_cycles_what_is_selected() {
    let mut bench = Bench::started(80, 24);
    bench.keys("5jt");
    let eager = ToggleValue::Choice(1);
    assert_eq!(bench.asked(), Some(CommandKind::SetToggle(ToggleName::Eager, eager)));
}

#[test]
fn freezing_pins_the_view_and_collection_goes_on() {
    let mut bench = Bench::started(120, 30);
    bench.assert_shows("step 9 ");
    bench.keys(" ");
    bench.steps(10..25);
    bench.assert_shows("FROZEN, 15 steps behind");
    bench.assert_shows("step 9 ");
    assert_eq!(bench.app.state().totals.steps, 25);
    bench.keys(" ");
    bench.assert_hides("FROZEN");
    bench.assert_shows("step 24 ");
}

#[test]
fn holding_stepping_and_pacing() {
    let mut bench = Bench::started(160, 48);
    bench.keys(".");
    bench.assert_shows("Hold the engine first");
    assert_eq!(bench.asked(), None);
    bench.keys("p");
    assert_eq!(bench.asked(), Some(CommandKind::Hold(true)));
    bench.assert_hides("HELD");
    bench.answer(1, Ok(10));
    bench.assert_shows("HELD");
    bench.assert_shows(". one step");
    bench.keys(".");
    assert_eq!(bench.asked(), Some(CommandKind::SingleStep));
    bench.keys("p");
    assert_eq!(bench.asked(), Some(CommandKind::Hold(false)));
    bench.keys("+");
    assert_eq!(bench.asked(), Some(CommandKind::Pace(Some(100.0))));
    bench.keys("--");
    assert_eq!(bench.asked(), Some(CommandKind::Pace(Some(50.0))));
    assert_eq!(bench.asked(), Some(CommandKind::Pace(Some(20.0))));
}

#[test]
fn help_filters_and_runs_and_q_closes_it_first() {
    let mut bench = Bench::started(120, 60);
    bench.keys("?");
    bench.assert_shows("type to filter");
    bench.assert_shows("Gives the focused pane the whole screen");
    bench.keys("q");
    bench.assert_hides("type to filter");
    assert_eq!(bench.app.take_request(), None);

    // With something typed, `q` and `?` are typed too.
    bench.keys("?multi-stream");
    bench.assert_shows("1 of");
    bench.assert_hides("Gives the focused pane the whole screen");
    bench.key(KeyCode::Enter, KeyModifiers::NONE);
    bench.assert_hides("filter multi-stream");
    assert!(matches!(bench.asked(), Some(CommandKind::SetToggle(ToggleName::Overlap, _))));

    bench.keys("?eq");
    bench.assert_shows("filter eq");
    bench.key(KeyCode::Esc, KeyModifiers::NONE);
    bench.assert_shows("type to filter");
    bench.key(KeyCode::Esc, KeyModifiers::NONE);
    bench.assert_hides("type to filter");
}

#[test]
fn the_registry_is_all_of_the_help() {
    let mut bench = Bench::started(120, 80);
    bench.keys("?");
    let screen = bench.screen();
    for command in COMMANDS {
        assert!(screen.contains(command.name), "{}", command.name);
    }
}

#[test]
fn q_and_control_c_quit() {
    let quit = Some(Request::Exit(Exit::Quit));
    let mut bench = Bench::started(80, 24);
    bench.keys("q");
    assert_eq!(bench.app.take_request(), quit);
    assert_eq!(bench.app.take_request(), None);
    bench.keys("?");
    bench.key(KeyCode::Char('c'), KeyModifiers::CONTROL);
    assert_eq!(bench.app.take_request(), quit);
    assert_eq!(Exit::Quit.code(), 0);
    assert_eq!(Exit::Signal(15).code(), 143);
}

#[test]
fn only_presses_count() {
    let mut bench = Bench::started(80, 24);
    for kind in [KeyEventKind::Release, KeyEventKind::Repeat] {
        let code = KeyCode::Char('q');
        bench.app.key(KeyEvent::new_with_kind(code, KeyModifiers::NONE, kind));
    }
    assert_eq!(bench.app.take_request(), None);
}

#[test]
fn panes_are_focused_by_number_by_tab_and_by_click() {
    let mut bench = Bench::started(80, 24);
    bench.keys("3");
    bench.assert_shows("━ 3 Canary ");
    bench.key(KeyCode::Tab, KeyModifiers::NONE);
    bench.assert_shows("━ 4 Timeline ");
    bench.key(KeyCode::BackTab, KeyModifiers::SHIFT);
    bench.assert_shows("━ 3 Canary ");
    let click = |column, row| MouseEvent {
        kind: MouseEventKind::Down(MouseButton::Left),
        column,
        row,
        modifiers: KeyModifiers::NONE,
    };
    bench.app.mouse(click(14, 2));
    bench.assert_shows("━ 2 Sessions ");

    let mut bench = Bench::started(160, 48);
    bench.screen();
    bench.app.mouse(click(150, 40));
    bench.assert_shows("━ 4 Timeline ");
    bench.assert_shows("─ 2 Sessions ");
}

#[test]
fn zoom_gives_one_pane_the_screen_and_escape_takes_it_back() {
    let mut bench = Bench::started(160, 48);
    bench.keys("2z");
    bench.assert_hides("Overview");
    bench.key(KeyCode::Esc, KeyModifiers::NONE);
    bench.assert_shows("1 Overview");
}

#[test]
fn an_unfinished_sequence_does_not_swallow_the_next_key() {
    let mut bench = Bench::started(80, 24);
    bench.keys("gq");
    assert_eq!(bench.app.take_request(), Some(Request::Exit(Exit::Quit)));
}

#[test]
fn corrupt_text_and_divergence_are_counted_apart() {
    let mut bench = Bench::started(120, 30);
    for session in 0..4 {
        bench.say(EventKind::Session(SessionChange {
            session,
            phase: SessionPhase::Decoding,
            turns: 6,
            step: 9,
            call: "fetch item=iron-coil bin=A07".into(),
            ..SessionChange::default()
        }));
    }
    bench.say(EventKind::Step(Step {
        step: 10,
        rows: 4,
        bucket: 4,
        diverged_rows: vec![0, 1, 2],
        diverged_sessions: vec![0, 1, 2],
        witnesses: 3,
        ..Step::default()
    }));
    bench.say(EventKind::Session(SessionChange {
        session: 1,
        phase: SessionPhase::Thinking,
        turns: 6,
        step: 11,
        call: "fetch item=iron-coil bin=B11".into(),
        flag: Some(Flag {
            kind: FlagKind::WrongArgument,
            turn: 0,
            step: 11,
            expected: "A07".into(),
            found: "B11".into(),
        }),
        ..SessionChange::default()
    }));
    bench.assert_shows("✗ 1 CORRUPT (25.0%)  ≠ 3 diverged");
    bench.keys("1z");
    bench.assert_shows("✗ s1    turn 1 step 11      wrong-argument expected A07  found B11");
}

#[test]
fn a_target_that_ends_does_not_end_the_console() {
    let mut bench = Bench::started(120, 30);
    bench.app.target_ended();
    bench.assert_shows("TARGET ENDED");
    let (_, asked) = mpsc::channel();
    bench.asked = asked;
    bench.keys("o");
    bench.assert_shows("takes no commands");
}

#[test]
fn a_small_screen_says_what_it_needs() {
    let mut bench = Bench::started(59, 15);
    bench.assert_shows("coalmine needs 60x15, this is 59x15");
    for size in [(1, 1), (10, 2), (60, 15), (60, 60), (300, 15)] {
        let mut bench = Bench::started(size.0, size.1);
        for pane in PaneId::ALL {
            bench.keys(&pane.number().to_string());
            bench.screen();
            bench.keys("?");
            bench.screen();
            bench.keys("q");
        }
    }
}

#[test]
fn the_key_bar_names_keys_that_are_valid_now() {
    let mut bench = Bench::started(160, 48);
    bench.assert_hides("one step");
    bench.assert_hides("zoom in");
    bench.keys("4");
    bench.assert_shows("w zoom in");
    bench.assert_shows("? help");
    bench.assert_shows("q quit");
    let toggles = COMMANDS.iter().filter(|command| matches!(command.action, Action::Cycle(_)));
    assert!(toggles.count() >= 4);
}

#[test]
fn a_target_that_fails_to_start_says_why() {
    let mut bench = Bench::new(120, 30);
    let text = "The engine ended: config.json lacks hidden_size.";
    bench.say(EventKind::Log(Log { level: LogLevel::Error, text: text.into() }));
    bench.app.target_ended();
    bench.assert_shows(text);
    bench.assert_hides("starting the engine");
    bench.keys("j");
    bench.assert_shows(text);
}
