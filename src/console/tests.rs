//! Key sequences against the app, without a terminal.

use std::sync::mpsc;

use coalmine_panes::PaneId;
use coalmine_sessions::{
    Ack, Command, CommandKind, EventKind, EventSender, Flag, FlagKind, Hello, Log, LogLevel, SessionChange,
    SessionPhase, Step, TOGGLES, TakesEffect, ToggleChange, ToggleName, ToggleValue, event_queue,
};
use crossterm::event::{KeyCode, KeyEvent, KeyEventKind, KeyModifiers, MouseButton, MouseEvent, MouseEventKind};
use ratatui::{Terminal, backend::TestBackend, buffer::Buffer, layout::Rect};
use tempfile::{TempDir, tempdir};

use super::{App, ConsoleOptions, Exit, Target, app::Request, commands::COMMANDS};

/// An app on a screen, with both of the target's ends.
struct Bench {
    app: App,
    events: Option<EventSender>,
    asked: mpsc::Receiver<Command>,
    terminal: Terminal<TestBackend>,
    clock_ns: u64,
    /// Whether the target was asked to hold.
    held: bool,
}

impl Bench {
    fn new(width: u16, height: u16) -> Self {
        Self::with(width, height, ConsoleOptions { pace: Some(50.0), ..ConsoleOptions::default() }, false)
    }

    fn with(width: u16, height: u16, options: ConsoleOptions, ask_first: bool) -> Self {
        let (commands, asked) = mpsc::channel();
        let (sender, events) = event_queue(1_024);
        Self {
            app: App::new(Target::Live { events, commands, ask_first }, options),
            events: Some(sender),
            asked,
            terminal: Terminal::new(TestBackend::new(width, height)).unwrap(),
            clock_ns: 0,
            held: false,
        }
    }

    /// A bench whose target has said what it is and run ten steps.
    fn started(width: u16, height: u16) -> Self {
        let mut bench = Self::new(width, height);
        bench.start();
        bench
    }

    fn start(&mut self) {
        let hello = Hello {
            target: "embedded engine".into(),
            model: "demo".into(),
            device: "virtual GPU".into(),
            lanes: vec!["main".into(), "indexer".into()],
            ..Hello::default()
        };
        self.say(EventKind::Hello(Box::new(hello)));
        for spec in TOGGLES {
            self.toggle(spec.name, spec.default, 0);
        }
        self.steps(0..10);
    }

    fn say(&mut self, kind: EventKind) {
        self.clock_ns += 1_000_000;
        self.events.as_ref().unwrap().send(kind, self.clock_ns);
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

    /// The target ends.
    fn end(&mut self) {
        self.events = None;
        while self.app.fold() {}
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

    /// Types a line after `:` and enters it.
    fn line(&mut self, text: &str) {
        self.keys(":");
        self.keys(text);
        self.key(KeyCode::Enter, KeyModifiers::NONE);
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
    bench.keys("ii");
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
    bench.assert_shows("FROZEN at 9, 15 steps behind");
    bench.assert_shows("step 9 ");
    assert_eq!(bench.app.state().totals.steps, 25);
    // The toggles are never of an earlier step.
    bench.keys("5");
    bench.assert_shows("as of now");
    bench.keys(" ");
    bench.assert_hides("FROZEN");
    bench.assert_hides("as of now");
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
    let mut bench = Bench::started(120, 140);
    bench.keys("?");
    bench.assert_shows("type to filter");
    bench.assert_shows("Gives the focused pane the whole screen");
    bench.keys("q");
    bench.assert_hides("type to filter");
    assert_eq!(bench.app.take_request(), None);

    // With something typed, `q` and `?` are typed too.
    bench.keys("?overlap its next");
    bench.assert_shows("1 of");
    bench.assert_hides("Gives the focused pane the whole screen");
    bench.key(KeyCode::Enter, KeyModifiers::NONE);
    bench.assert_hides("overlap its next");
    assert!(matches!(bench.asked(), Some(CommandKind::SetToggle(ToggleName::Overlap, _))));

    bench.keys("?eq");
    bench.assert_hides("type to filter");
    bench.key(KeyCode::Esc, KeyModifiers::NONE);
    bench.assert_shows("type to filter");
    bench.key(KeyCode::Esc, KeyModifiers::NONE);
    bench.assert_hides("type to filter");
}

#[test]
fn the_registry_is_all_of_the_help() {
    let mut bench = Bench::started(120, 140);
    bench.keys("?");
    let screen = bench.screen();
    for command in COMMANDS.iter().filter(|command| !command.name.starts_with("debug.")) {
        assert!(screen.contains(command.name), "{}", command.name);
    }
    // What a key stands for with arguments of its own is there too.
    assert!(screen.contains("toggle overlap") && screen.contains("focus canary"));
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
    bench.end();
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
}

#[test]
fn a_target_that_fails_to_start_says_why() {
    let mut bench = Bench::new(120, 30);
    let text = "The engine ended: config.json lacks hidden_size.";
    bench.say(EventKind::Log(Log { level: LogLevel::Error, text: text.into() }));
    bench.end();
    bench.assert_shows(text);
    bench.assert_hides("starting the engine");
    bench.keys("j");
    bench.assert_shows(text);
}

#[test]
fn a_line_is_completed_corrected_and_carried_out() {
    let mut bench = Bench::started(120, 30);
    bench.keys(":foc");
    bench.assert_shows("focus.next");
    bench.keys("us can");
    bench.key(KeyCode::Tab, KeyModifiers::NONE);
    bench.key(KeyCode::Enter, KeyModifiers::NONE);
    bench.assert_shows("━ 3 Canary ");

    bench.line("set overlap maybe");
    bench.assert_shows("maybe");
    bench.assert_shows("set overlap maybe");
    assert_eq!(bench.asked(), None);
    bench.key(KeyCode::Char('w'), KeyModifiers::CONTROL);
    bench.keys("off");
    bench.key(KeyCode::Enter, KeyModifiers::NONE);
    let off = ToggleValue::Choice(0);
    assert_eq!(bench.asked(), Some(CommandKind::SetToggle(ToggleName::Overlap, off)));

    bench.line("quti");
    bench.assert_shows("did you mean `quit`?");
    bench.key(KeyCode::Esc, KeyModifiers::NONE);
    bench.keys(":");
    bench.key(KeyCode::Up, KeyModifiers::NONE);
    bench.assert_shows(":quti");
    bench.key(KeyCode::Esc, KeyModifiers::NONE);
    bench.line("span.next");
    bench.assert_shows("works in the timeline pane");
}

#[test]
fn the_palette_finds_by_a_few_letters() {
    let mut bench = Bench::started(120, 30);
    bench.key(KeyCode::Char('p'), KeyModifiers::CONTROL);
    bench.keys("focnex");
    bench.key(KeyCode::Enter, KeyModifiers::NONE);
    bench.assert_shows("━ 2 Sessions ");
    // What lacks an argument asks for it.
    bench.key(KeyCode::Char('p'), KeyModifiers::CONTROL);
    bench.keys("goto.time");
    bench.key(KeyCode::Enter, KeyModifiers::NONE);
    bench.assert_shows(":goto.time ");
}

#[test]
fn the_view_goes_back_over_what_was_said_and_on_again() {
    let mut bench = Bench::started(120, 30);
    bench.steps(10..40);
    bench.assert_shows("step 39 ");
    bench.keys("]");
    bench.assert_shows("This is the newest step.");
    bench.assert_hides("FROZEN");
    bench.keys("[[");
    bench.assert_shows("FROZEN at 37, 2 steps behind");
    bench.assert_shows("step 37 ");
    bench.steps(40..50);
    bench.assert_shows("FROZEN at 37, 12 steps behind");
    bench.keys("]");
    bench.assert_shows("step 38 ");
    bench.line("goto 12");
    bench.assert_shows("step 12 ");
    bench.line("goto 9999");
    bench.assert_shows("has not run yet; the newest is 49");
    bench.line("goto first");
    bench.keys("[");
    bench.assert_shows("Step 0 is the first there is.");
    bench.line("goto now");
    bench.assert_hides("FROZEN");
    bench.assert_shows("step 49 ");
    // Escape leaves what is pinned too.
    bench.keys("[");
    bench.key(KeyCode::Esc, KeyModifiers::NONE);
    bench.assert_hides("FROZEN");
}

#[test]
fn anomalies_are_gone_to() {
    let mut bench = Bench::started(120, 30);
    bench.keys("}");
    bench.assert_shows("Nothing has been wrong since this step.");
    bench.say(EventKind::Step(Step { step: 10, rows: 2, diverged_rows: vec![0], ..Step::default() }));
    bench.steps(11..20);
    bench.keys("{");
    bench.assert_shows("FROZEN at 10, 9 steps behind");
    bench.line("goto corruption");
    bench.assert_shows("No flag is among the steps that are kept.");
}

#[test]
fn steps_are_marked_by_letter_or_name() {
    let mut bench = Bench::started(120, 30);
    bench.keys("ma");
    bench.assert_shows("`a` marks step 9.");
    bench.steps(10..20);
    bench.line("mark after");
    bench.keys("'a");
    bench.assert_shows("FROZEN at 9, 10 steps behind");
    bench.keys("'z");
    bench.assert_shows("There is no mark `z`.");
    bench.line("marks");
    bench.assert_shows("step 19");
    bench.key(KeyCode::Down, KeyModifiers::NONE);
    bench.key(KeyCode::Enter, KeyModifiers::NONE);
    bench.assert_shows("FROZEN at 19");
}

impl Bench {
    /// Plays what there is to play, with a target that answers everything and runs a step when asked to. `false` when
    /// the macro still plays after many turns.
    fn play(&mut self) -> bool {
        let mut step = self.app.state().totals.steps;
        let mut draining: Vec<(u64, ToggleName, ToggleValue, u32)> = Vec::new();
        for _ in 0..20_000 {
            self.app.work();
            while let Ok(command) = self.asked.try_recv() {
                match command.kind {
                    CommandKind::SingleStep => {
                        self.steps(step..step + 1);
                        step += 1;
                        // What waits for sessions to drain is done after a few steps, and only then.
                        for (id, name, value) in draining
                            .extract_if(.., |(.., left)| {
                                *left -= 1;
                                *left == 0
                            })
                            .map(|(id, name, value, _)| (id, name, value))
                            .collect::<Vec<_>>()
                        {
                            self.toggle(name, value, step);
                            self.answer(id, Ok(step));
                        }
                    }
                    CommandKind::SetToggle(name, value) if name.spec().takes_effect == TakesEffect::AfterDrain => {
                        draining.push((command.id, name, value, 5));
                        continue;
                    }
                    CommandKind::SetToggle(name, value) => self.toggle(name, value, step),
                    CommandKind::Hold(hold) => self.held = hold,
                    _ => {}
                }
                self.answer(command.id, Ok(step));
            }
            self.app.fold();
            self.screen();
            if !self.app.is_busy() {
                return true;
            }
            std::thread::yield_now();
        }
        false
    }
}

#[test]
fn a_macro_plays_marks_and_says_what_did_not_hold() {
    let scratch = tempdir().unwrap();
    let file = scratch.path().join("good.macro");
    let snapshot = scratch.path().join("screen.txt");
    let text = format!(
        "focus canary\nset overlap off\nwait step >= 20\nmark there\nexpect toggle overlap == off\nkeys 2z\n\
         snapshot {}\nexpect step >= 20\n",
        snapshot.display()
    );
    std::fs::write(&file, text).unwrap();
    let mut bench = Bench::started(120, 30);
    bench.line(&format!("play {}", file.display()));
    assert!(bench.play());
    bench.assert_shows("good.macro passed: 8 lines");
    bench.assert_shows("━ 2 Sessions ");
    bench.keys("'t");
    bench.keys("'");
    let screen = std::fs::read_to_string(&snapshot).unwrap();
    assert!(screen.contains("2 Sessions"), "{screen}");
    assert!(!screen.contains("0 Sessions"));

    let file = scratch.path().join("bad.macro");
    std::fs::write(&file, "expect step >= 1\nexpect step >= 100000\n").unwrap();
    let mut bench = Bench::started(120, 30);
    bench.line(&format!("play {}", file.display()));
    assert!(bench.play());
    bench.assert_shows("bad.macro:2: `expect step >= 100000` failed");

    std::fs::write(&file, "zoom\nfocus nowhere\n").unwrap();
    bench.line(&format!("play {}", file.display()));
    assert!(bench.play());
    bench.assert_shows("bad.macro:2:7: ");
    bench.line("play /nowhere/at/all.macro");
    assert!(bench.play());
    bench.assert_shows("cannot be read");
}

#[test]
fn escape_ends_a_macro_and_it_has_the_target_to_itself() {
    let mut bench = Bench::started(120, 30);
    bench.line("wait step >= 1000000");
    bench.app.work();
    assert_eq!(bench.asked(), Some(CommandKind::Hold(true)));
    bench.screen();
    bench.assert_shows(" MACRO ");
    bench.keys("o");
    bench.assert_shows("has the target to itself");
    assert_eq!(bench.asked(), None);
    bench.key(KeyCode::Esc, KeyModifiers::NONE);
    assert!(bench.play());
    bench.assert_shows("stopped with esc");
}

#[test]
fn expectations_can_be_typed() {
    let mut bench = Bench::started(120, 30);
    bench.line("expect step >= 9");
    assert!(bench.play());
    bench.assert_shows("`expect step >= 9` holds: ");
    bench.line("expect corrupted > 0");
    assert!(bench.play());
    bench.assert_shows("failed");
}

#[test]
fn what_was_done_is_recorded_played_and_can_be_edited() {
    let scratch = tempdir().unwrap();
    let options = ConsoleOptions { recorded_macro: scratch.path().join("recorded.macro"), ..ConsoleOptions::default() };
    let mut bench = Bench::with(120, 30, options, false);
    bench.start();
    bench.keys("Q3o?q:");
    bench.keys("filter kv");
    bench.key(KeyCode::Enter, KeyModifiers::NONE);
    bench.keys("z");
    bench.assert_shows("REC MACRO");
    bench.keys("Q");
    assert!(bench.play());
    let text = std::fs::read_to_string(scratch.path().join("recorded.macro")).unwrap();
    assert_eq!(
        text,
        "focus canary\nset SGLANG_OPT_USE_MULTI_STREAM_OVERLAP 0\nfilter kv\nzoom\n"
            .replace("SGLANG_OPT_USE_MULTI_STREAM_OVERLAP", "overlap")
    );
    std::fs::write(scratch.path().join("recorded.macro"), "focus log\nmark edited\n").unwrap();
    bench.keys("@");
    assert!(bench.play());
    bench.assert_shows("━ 6 Log ");
    // It did not record itself.
    bench.keys("Q1Q@");
    assert!(bench.play());
    assert_eq!(std::fs::read_to_string(scratch.path().join("recorded.macro")).unwrap(), "focus overview\n");
}

#[test]
fn a_macro_that_changes_somebody_s_server_asks_once() {
    let scratch = tempdir().unwrap();
    let file = scratch.path().join("change.macro");
    std::fs::write(&file, "set overlap off\n").unwrap();
    let mut bench = Bench::with(120, 30, ConsoleOptions::default(), true);
    bench.start();
    bench.line(&format!("play {}", file.display()));
    assert!(bench.play());
    bench.assert_shows("changes the target. Play it?");
    assert_eq!(bench.asked(), None);
    bench.keys("n");
    assert!(bench.play());
    assert_eq!(bench.asked(), None);
    bench.line(&format!("play {}", file.display()));
    assert!(bench.play());
    bench.keys("y");
    assert!(bench.play());
    bench.assert_shows("overlap off");

    let mut bench = Bench::with(120, 30, ConsoleOptions { allow_mutations: true, ..ConsoleOptions::default() }, true);
    bench.start();
    bench.line(&format!("play {}", file.display()));
    assert!(bench.play());
    bench.assert_shows("overlap off");
}

#[test]
fn a_pane_is_filtered_copied_and_exported() {
    let scratch = tempdir().unwrap();
    let mut bench = Bench::started(200, 48);
    for (session, call) in [(1, "fetch item=iron-coil bin=A07"), (2, "store item=copper")] {
        let change = SessionChange { session, turns: 6, step: 9, call: call.into(), ..SessionChange::default() };
        bench.say(EventKind::Session(change));
    }
    bench.keys("2/copper");
    bench.assert_hides("iron-coil");
    bench.key(KeyCode::Enter, KeyModifiers::NONE);
    bench.assert_hides("iron-coil");
    let file = scratch.path().join("rows.csv");
    bench.line(&format!("export {}", file.display()));
    assert!(bench.play());
    let rows = std::fs::read_to_string(&file).unwrap();
    assert!(rows.contains("store item=copper") && !rows.contains("iron-coil"), "{rows}");
    bench.keys("j");
    bench.keys("y");
    let copied = bench.app.take_request();
    assert!(matches!(&copied, Some(Request::Copy(row)) if row.contains("copper")), "{copied:?}");
    bench.key(KeyCode::Esc, KeyModifiers::NONE);
    bench.key(KeyCode::Esc, KeyModifiers::NONE);
    bench.assert_shows("iron-coil");
    bench.line("export rows.exe");
    bench.assert_shows("`rows.exe` is none");
}

#[test]
fn panes_are_resized_and_the_pointer_drags() {
    let mut bench = Bench::started(160, 48);
    bench.screen();
    let height = |bench: &Bench| bench.app.arrangement().shape.timeline;
    bench.keys("4");
    bench.key(KeyCode::Up, KeyModifiers::CONTROL);
    assert_eq!(height(&bench), 1);
    bench.line("resize reset");
    assert_eq!(height(&bench), 0);
    bench.screen();
    let rule = bench.app.layout.unwrap().panes[PaneId::Timeline as usize].unwrap().y;
    let mouse = |kind, row| MouseEvent { kind, column: 20, row, modifiers: KeyModifiers::NONE };
    bench.app.mouse(mouse(MouseEventKind::Down(MouseButton::Left), rule));
    bench.app.mouse(mouse(MouseEventKind::Drag(MouseButton::Left), rule - 3));
    bench.app.mouse(mouse(MouseEventKind::Up(MouseButton::Left), rule - 3));
    assert_eq!(height(&bench), 3);
}

#[test]
fn a_binding_can_be_several_lines_and_keys_can_stand_for_keys() {
    let mut options = ConsoleOptions::default();
    let text = "[keys]\nF5 = [\"focus canary\", \"zoom\"]\nF6 = \"keys 2z\"\nF7 = \"keys <f7>\"\n";
    options.keymap = crate::config::parse("config.toml", text).unwrap().keymap;
    let mut bench = Bench::with(120, 30, options, false);
    bench.start();
    bench.key(KeyCode::F(5), KeyModifiers::NONE);
    bench.assert_shows("━ 3 Canary ");
    bench.assert_hides("1 Overview");
    bench.key(KeyCode::F(6), KeyModifiers::NONE);
    bench.assert_shows("━ 2 Sessions ");
    bench.key(KeyCode::F(7), KeyModifiers::NONE);
    bench.assert_shows("end after 8 times");
}

#[test]
fn an_unfinished_sequence_shows_how_it_goes_on() {
    let mut bench = Bench::started(120, 30);
    bench.keys("g");
    bench.assert_shows("g first");
    bench.assert_shows("c goto corruption");
}

#[test]
fn text_that_is_pasted_only_goes_where_text_is_typed() {
    let mut bench = Bench::started(120, 30);
    bench.app.paste("q");
    assert_eq!(bench.app.take_request(), None);
    bench.keys(":");
    bench.app.paste("set overlap\n off\u{1b}[31m");
    bench.assert_shows(":set overlap off[31m");
}

/// Plays a macro of these lines to its end.
fn play_lines(bench: &mut Bench, scratch: &TempDir, lines: &str) {
    let file = scratch.path().join("lines.macro");
    std::fs::write(&file, lines).unwrap();
    bench.line(&format!("play {}", file.display()));
    assert!(bench.play(), "{lines} does not end:\n{}", bench.screen());
}

#[test]
fn a_macro_waits_for_what_has_to_drain_and_gives_it_steps() {
    let scratch = tempdir().unwrap();
    let mut bench = Bench::started(120, 30);
    play_lines(&mut bench, &scratch, "set index-k fp8\nexpect toggle index-k == fp8\n");
    bench.assert_shows("lines.macro passed");
    assert!(!bench.held, "the target was not let go");
    // Asked for by keys, too.
    play_lines(&mut bench, &scratch, "focus toggles\nkeys jj<enter>\nexpect toggle index-k == f32\n");
    bench.assert_shows("lines.macro passed");
    // What a person asked for before does not hold a macro up.
    bench.keys("i");
    bench.line("expect corrupted == 0");
    assert!(bench.play());
    bench.assert_shows("holds");
}

#[test]
fn a_macro_leaves_the_target_as_it_was_or_as_it_says() {
    let scratch = tempdir().unwrap();
    let mut bench = Bench::started(120, 30);
    play_lines(&mut bench, &scratch, "step 2\n");
    assert!(!bench.held);
    play_lines(&mut bench, &scratch, "step 2\nhold\n");
    assert!(bench.held);
    bench.assert_shows("HELD");
    play_lines(&mut bench, &scratch, "step 2\n");
    assert!(bench.held);
    play_lines(&mut bench, &scratch, "run\nstep 2\n");
    assert!(!bench.held);
    bench.assert_hides("HELD");
}

#[test]
fn a_step_answered_after_the_release_does_not_hold() {
    let mut bench = Bench::started(120, 30);
    bench.keys("p");
    bench.answer(1, Ok(10));
    bench.keys("..p");
    // A step is answered when it has run, a release at once.
    bench.answer(4, Ok(10));
    bench.answer(2, Ok(11));
    bench.answer(3, Ok(12));
    bench.assert_hides("HELD");
}

#[test]
fn a_macro_marks_the_step_that_is_shown() {
    let scratch = tempdir().unwrap();
    let mut bench = Bench::started(120, 30);
    bench.steps(10..30);
    play_lines(&mut bench, &scratch, "goto 12\nmark there\nnow\n");
    bench.line("marks");
    bench.assert_shows("step 12");
}

#[test]
fn what_is_recorded_is_what_came_of_it() {
    let scratch = tempdir().unwrap();
    let options = ConsoleOptions { recorded_macro: scratch.path().join("recorded.macro"), ..ConsoleOptions::default() };
    let mut bench = Bench::with(120, 30, options, false);
    bench.start();
    bench.keys("Q");
    // A filter as it was typed to its end; what failed, not at all; a toggle by what it became; a wait as it was said.
    bench.keys("2/wrong");
    bench.key(KeyCode::Enter, KeyModifiers::NONE);
    bench.keys("]");
    bench.keys("5");
    bench.key(KeyCode::Enter, KeyModifiers::NONE);
    bench.line("expect step >= 1");
    assert!(bench.play());
    bench.keys("Q");
    assert!(bench.play());
    let text = std::fs::read_to_string(scratch.path().join("recorded.macro")).unwrap();
    assert_eq!(text, "focus sessions\nfilter wrong\nfocus toggles\nset overlap 0\nexpect step >= 1\n");
}

#[test]
fn whoever_sees_the_target_held_is_told_how_it_goes_on() {
    for (width, height) in [(60, 15), (80, 24)] {
        let mut bench = Bench::started(width, height);
        bench.keys("p");
        bench.answer(1, Ok(10));
        bench.assert_shows("p run  . one step");
    }
    let mut bench = Bench::started(80, 24);
    bench.keys("[");
    bench.assert_shows("FROZEN at 8, 1 step behind");
}

#[test]
fn a_message_is_read_whole_on_every_screen() {
    let words: Vec<String> = (0..40).map(|number| format!("word{number:02}")).collect();
    for (width, height) in [(60, 15), (80, 24), (200, 60)] {
        let mut bench = Bench::started(width, height);
        bench.app.warn(words.join(" "));
        words.iter().for_each(|word| bench.assert_shows(word));
        // What it covered comes back.
        bench.keys("1");
        bench.assert_hides("word");
    }
    // One that fills the screen says that it goes on.
    let mut bench = Bench::started(60, 15);
    bench.app.warn(vec![words.join(" "); 10].join(" "));
    bench.assert_shows("\u{2026}");
    bench.assert_shows("1 Overview");
}

#[test]
fn what_a_macro_says_fits_every_screen() {
    let scratch = tempdir().unwrap();
    let file = scratch.path().join("says.macro");
    std::fs::write(&file, format!("say {}\nwait step >= 100000\n", "word ".repeat(100))).unwrap();
    let mut bench = Bench::started(120, 30);
    bench.line(&format!("play {}", file.display()));
    for _ in 0..10_000 {
        if bench.screen().contains("word word") {
            break;
        }
        bench.app.fold();
        while let Ok(command) = bench.asked.try_recv() {
            bench.answer(command.id, Ok(10));
        }
        bench.app.work();
    }
    bench.assert_shows("word word");
    for (width, height) in [(0, 0), (1, 1), (3, 2), (60, 15), (60, 16), (120, 28), (200, 60)] {
        let area = Rect::new(0, 0, width, height);
        bench.app.draw(area, &mut Buffer::empty(area));
    }
}

#[test]
fn escape_in_the_middle_of_a_sequence_ends_only_that() {
    let mut bench = Bench::started(120, 30);
    bench.keys("[g");
    bench.key(KeyCode::Esc, KeyModifiers::NONE);
    bench.assert_shows("FROZEN");
}

#[test]
fn any_letter_can_be_a_mark() {
    let mut bench = Bench::started(120, 30);
    for letter in ["\"", "#", "'", "\u{e9}", "\\"] {
        bench.keys(&format!("m{letter}"));
        bench.assert_shows("marks step 9.");
        bench.keys(&format!("'{letter}"));
        bench.assert_shows("FROZEN at 9");
        bench.keys("gn");
    }
}

#[test]
fn a_view_frozen_before_the_first_event_can_be_moved() {
    let mut bench = Bench::new(120, 30);
    bench.keys(" ");
    bench.start();
    bench.line("goto 5");
    bench.assert_shows("FROZEN at 5");
    bench.keys("gn");
    bench.assert_hides("FROZEN");
}

#[test]
fn keys_that_stand_for_many_keys_end() {
    let mut options = ConsoleOptions::default();
    let text = format!("[keys]\nf7 = \"keys {}\"\n", "<f7>".repeat(8));
    options.keymap = crate::config::parse("config.toml", &text).unwrap().keymap;
    let mut bench = Bench::with(120, 30, options, false);
    bench.start();
    bench.key(KeyCode::F(7), KeyModifiers::NONE);
    bench.assert_shows("end after 8 times, or 1000 keys");
}

#[test]
fn what_cannot_be_seen_is_not_resized() {
    let mut bench = Bench::started(160, 48);
    bench.keys("4");
    bench.screen();
    for _ in 0..200 {
        bench.line("resize taller");
        bench.screen();
    }
    let most = bench.app.layout.unwrap().panes[PaneId::Timeline as usize].unwrap().height;
    bench.line("resize shorter");
    bench.screen();
    assert_eq!(bench.app.layout.unwrap().panes[PaneId::Timeline as usize].unwrap().height, most - 1);
}
