//! Text from outside reaches neither the screen nor a file as it came: what a terminal would obey, reorder or hide is
//! gone or written out wherever it may have stood.
#![allow(clippy::unwrap_used)]

#[allow(dead_code, reason = "shared with tests that use all of it")]
#[path = "support/binary.rs"]
mod binary;
#[allow(unreachable_pub, dead_code, reason = "a part of the fuzz targets' crate")]
#[path = "../fuzz/src/script.rs"]
mod script;

use std::{
    fs,
    path::{Path, PathBuf},
    sync::{Arc, mpsc},
    time::Duration,
};

use coalmine::{
    cast, config,
    console::{App, ConsoleOptions, Target, known_commands},
    playback::{ReplayHandle, ReplayRequest},
};
use coalmine_panes::{ThemeName, picture};
use coalmine_sessions::{
    Ack, Command, EventKind, EventSender, Hello, Log, LogLevel, Sanitized, State, event_queue,
    macros::{ConsoleOutcome, Player, Request, parse},
    recording::{
        Recording,
        export::{self, Table},
    },
};
use crossterm::event::{KeyCode, KeyEvent, KeyModifiers};
use ratatui::{buffer::Buffer, layout::Rect};
use serde_json::{Value, json};
use tempfile::{TempDir, tempdir_in};

/// Longer than anything here takes.
const PATIENCE: Duration = Duration::from_secs(60);

/// A text with everything in it that does harm, and the name of where it stands.
fn hostile(place: &str) -> String {
    let marks = "\u{301}".repeat(9);
    let vowels = "\u{1161}".repeat(9);
    format!(
        "{place}\u{202e}\u{2066}\u{200b}\u{1b}[31m\u{1b}]0;x\u{7}\u{9b}2J\r\u{8}a\u{200d}b e{marks}\u{1112}{vowels}\
         \u{3164}\u{feff}\u{e0041}\u{2028}\tx\u{85}y\u{7f}"
    )
}

/// The same as a file may be called, which may hold anything but a slash.
fn hostile_file(place: &str) -> String {
    hostile(place).replace('\u{2028}', "")
}

/// The same in quotes, as a line of a macro takes it.
fn quoted(place: &str) -> String {
    let text = hostile(place);
    let escaped = text.chars().map(|character| match character {
        control if control.is_control() => format!("\\u{{{:x}}}", u32::from(control)),
        plain => plain.to_string(),
    });
    format!("\"{}\"", escaped.collect::<String>())
}

#[track_caller]
fn assert_harmless(what: &str, text: &str) {
    for line in text.lines() {
        let characters: Vec<char> = line.chars().collect();
        // Sanitizing also shortens, and files may have long lines.
        for piece in characters.chunks(2_000).map(|piece| piece.iter().collect::<String>()) {
            assert_eq!(Sanitized::new(&piece).as_str(), piece, "{what}");
        }
    }
}

/// A recording with hostile text wherever there is text, written as no writer of ours would.
fn recording(scratch: &TempDir) -> PathBuf {
    let mut script = String::new();
    // Lines of the script end at a line feed, which JSON escapes and a manifest could not hold here.
    for key in ["command_line", "target", "device", "instruction_set", "created", "coalmine", "redaction"] {
        script += &format!("m {key} {}\n", hostile(key));
    }
    let mut sequence = 0;
    let mut say = |channel: u16, step: u64, data: Value| {
        sequence += 1;
        let message =
            json!({ "step": step, "events": [{ "sequence": sequence, "time_ns": step * 1_000, "data": data }] });
        script += &format!("j {channel} {sequence} {} {message}\n", step * 1_000);
    };
    let (pools, lanes) = (
        json!([{ "family": hostile("family"), "layer": 0, "pages": 32, "page_bytes": 64 }]),
        json!([hostile("lane"), hostile("other lane")]),
    );
    say(
        1,
        0,
        json!({
            "target": hostile("target"), "model": hostile("model"), "device": hostile("device"),
            "instruction_set": hostile("set"), "seed": 1, "concurrency": 4, "layers": ["Ratio4"], "pools": pools,
            "lanes": lanes,
        }),
    );
    say(2, 0, json!({ "name": "Overlap", "value": { "Choice": 1 }, "step": 0 }));
    say(7, 0, json!({ "graph": 3, "label": hostile("label"), "nodes": [hostile("node"), hostile("other node")] }));
    say(8, 0, json!({ "graph": 3, "first": 0, "second": 1, "bytes": 64, "accesses": hostile("accesses") }));
    for step in 0..12_u64 {
        let columns = json!({ "step": step, "graph": 3, "lane": [0, 1], "start_delta_ns": [step * 1_000, 300],
            "duration_ns": [200, 400] });
        say(4, step, columns);
        say(5, step, json!({ "step": step, "pages_checked": 30, "written": [[0, 3]], "violations": [[0, 5]] }));
        let ended = json!({ "step": step, "rows": 2, "bucket": 2, "captured": true, "overlapped": true,
            "start_ns": step * 1_000, "end_ns": step * 1_000 + 900, "nodes": 2, "oracle": true, "diverged_rows": [0],
            "diverged_sessions": [7], "witnesses": 1, "witnessed_rows": 1 });
        say(3, step, ended);
        say(
            9,
            step,
            json!({ "step": step, "row": 0, "session": 7, "first_layer": 0, "largest": "inf", "flipped": true }),
        );
        let flag = json!({ "kind": "wrong-argument", "turn": step, "step": step, "expected": hostile("expected"),
            "found": hostile("found") });
        let change = json!({ "session": 7, "phase": "Decoding", "slot": 0, "turn": step, "turns": 20, "tokens": 9,
            "step": step, "call": hostile("call"), "flag": flag });
        say(6, step, change);
        say(10, step, json!({ "name": hostile("metric"), "value": 1.5 }));
        say(11, step, json!({ "level": "Error", "text": hostile("log") }));
        say(12, step, json!({ "command": 1, "outcome": { "Err": hostile("reason") } }));
    }
    let path = scratch.path().join(hostile_file("recording")).with_extension("mcap");
    fs::write(&path, script::pack(script.as_bytes())).unwrap();
    path
}

/// A console on a screen that is looked at.
struct Bench {
    app: App,
    woken: mpsc::Receiver<()>,
    size: (u16, u16),
    drawn: String,
}

impl Bench {
    fn new(target: Target, options: ConsoleOptions) -> Self {
        let mut app = App::new(target, options);
        let (wake, woken) = mpsc::channel();
        app.set_waker(Arc::new(move || {
            // The bench may have gone meanwhile.
            let _ = wake.send(());
        }));
        Self { app, woken, size: (160, 48), drawn: String::new() }
    }

    /// Waits until nothing is pending, then draws and looks at every cell.
    fn look(&mut self, what: &str) {
        let busy = |app: &mut App| app.fold() || !app.settled() || app.is_busy();
        while busy(&mut self.app) {
            let _ = self.woken.recv_timeout(PATIENCE);
        }
        self.draw(what);
    }

    fn draw(&mut self, what: &str) {
        let area = Rect::new(0, 0, self.size.0, self.size.1);
        let mut buffer = Buffer::empty(area);
        self.app.draw(area, &mut buffer);
        for cell in &buffer.content {
            assert_eq!(Sanitized::new(cell.symbol()).as_str(), cell.symbol(), "{what}");
        }
        let text = picture::text(&buffer);
        assert_harmless(what, &text);
        assert_harmless(what, &picture::svg(&buffer, ThemeName::Dark, &hostile("title")));
        self.drawn = text;
    }

    fn key(&mut self, code: KeyCode) {
        self.app.key(KeyEvent::new(code, KeyModifiers::NONE));
    }

    fn keys(&mut self, text: &str) {
        text.chars().for_each(|character| self.key(KeyCode::Char(character)));
    }

    /// Enters a line and looks at what comes of it.
    fn line(&mut self, line: &str) {
        self.key(KeyCode::Esc);
        self.keys(":");
        self.app.paste(line);
        self.draw(line);
        self.key(KeyCode::Enter);
        self.look(line);
        self.look(line);
        self.key(KeyCode::Esc);
    }

    #[track_caller]
    fn assert_shows(&self, text: &str) {
        assert!(self.drawn.contains(text), "no {text:?} in\n{}", self.drawn);
    }
}

fn read(path: &Path) -> String {
    String::from_utf8(fs::read(path).unwrap_or_else(|error| panic!("{error}: {path:?}"))).unwrap()
}

#[test]
fn of_a_recording_nothing_raw_is_exported() {
    let scratch = tempdir_in(env!("CARGO_TARGET_TMPDIR")).unwrap();
    let path = recording(&scratch);
    let (recording, _) = Recording::open(&path).unwrap();
    assert_harmless("manifest", &recording.manifest().target);
    let written = |export: &dyn Fn(&mut Vec<u8>)| {
        let mut bytes = Vec::new();
        export(&mut bytes);
        String::from_utf8(bytes).unwrap()
    };
    let exports = [
        written(&|out| export::perfetto(&recording, out).unwrap()),
        written(&|out| export::json(&recording, out).unwrap()),
        written(&|out| export::csv(&recording, Table::Sessions, out).unwrap()),
        written(&|out| export::csv(&recording, Table::Spans, out).unwrap()),
        written(&|out| export::csv(&recording, Table::Steps, out).unwrap()),
        written(&|out| cast::write(&path, (160, 48), Some(f64::MAX), out).unwrap()),
    ];
    for (export, word) in exports.iter().zip(["found", "reason", "expected", "node", "step", "target"]) {
        assert!(export.contains(word), "no {word}: {export}");
        assert_harmless(word, export);
    }
    // What the cast shows is what a terminal is sent: without our own sequences nothing is left for it to obey.
    for line in exports[5].lines().skip(1) {
        let frame: (f64, String, String) = serde_json::from_str(line).unwrap();
        let mut plain = String::new();
        for (number, part) in frame.2.split("\u{1b}[").enumerate() {
            let sequence = part.find(|end: char| !(end.is_ascii_digit() || matches!(end, ';' | ':' | '?')));
            plain += if number == 0 { part } else { &part[sequence.unwrap_or(0) + 1..] };
        }
        assert_harmless("cast", &plain);
    }
    for listed in coalmine::recordings::list(scratch.path()).unwrap() {
        assert_harmless("list", &listed.to_string());
        assert_harmless("list", &serde_json::to_string(&listed).unwrap());
    }
}

#[test]
fn of_a_recording_nothing_raw_is_drawn() {
    let scratch = tempdir_in(env!("CARGO_TARGET_TMPDIR")).unwrap();
    let (handle, ..) = ReplayHandle::open(&recording(&scratch)).unwrap();
    let last = handle.last_step();
    let mut bench = Bench::new(Target::Replay(handle), ConsoleOptions::default());
    bench.app.ask_replay(ReplayRequest::Step(last));
    bench.look("all panes");
    bench.assert_shows("target");
    for size in [(160, 48), (60, 15)] {
        bench.size = size;
        for pane in '1'..='6' {
            bench.keys(&pane.to_string());
            bench.keys("z");
            // Up selects what is not selected, and enter drills twice where there are two levels.
            for code in [KeyCode::Up, KeyCode::Enter, KeyCode::Down, KeyCode::Enter, KeyCode::Char('n'), KeyCode::Enter]
            {
                bench.key(code);
                bench.look(&format!("pane {pane}, {code:?}"));
            }
            bench.keys("y");
            bench.look("copied");
            if let Some(coalmine::console::Request::Copy(row)) = bench.app.take_request() {
                // Tabs stand between its cells.
                assert_harmless("clipboard", &row.replace('\t', " "));
            }
            for _ in 0..4 {
                bench.key(KeyCode::Esc);
            }
        }
    }
    for pane in ["overview", "sessions", "canary", "timeline", "toggles", "log"] {
        for form in ["csv", "json", "txt"] {
            let path = scratch.path().join(format!("{pane}.{form}"));
            bench.line(&format!("focus {pane}"));
            bench.line(&format!("export {}", path.display()));
            assert_harmless(pane, &read(&path));
        }
    }
    for form in ["svg", "txt"] {
        let path = scratch.path().join(format!("screen.{form}"));
        bench.line(&format!("snapshot {}", path.display()));
        assert_harmless(form, &read(&path));
    }
}

/// A target that has said what it is, and a console that looks at it.
fn live(options: ConsoleOptions, ask_first: bool) -> (Bench, EventSender, mpsc::Receiver<Command>) {
    let (commands, asked) = mpsc::channel();
    let (sender, events) = event_queue(64);
    sender.send(EventKind::Hello(Box::new(Hello { target: hostile("target").into(), ..Hello::default() })), 0);
    sender.send(EventKind::Step(coalmine_sessions::Step { rows: 1, ..Default::default() }), 1);
    (Bench::new(Target::Live { events, commands, ask_first }, options), sender, asked)
}

#[test]
fn of_what_is_typed_or_named_nothing_raw_is_drawn() {
    let scratch = tempdir_in(env!("CARGO_TARGET_TMPDIR")).unwrap();
    let text = format!("[keys]\n'ctrl-y' = 'mark {}'\n'g o' = ['mark {}', 'zoom']\n", quoted("x"), quoted("y"));
    let keymap = config::parse("config.toml", &text).unwrap().keymap;
    let options = ConsoleOptions {
        keymap,
        notice: Some(hostile("notice")),
        recordings: scratch.path().to_owned(),
        recorded_macro: scratch.path().join("recorded.macro"),
        ..ConsoleOptions::default()
    };
    let (mut bench, sender, _asked) = live(options, false);
    bench.look("notice");
    bench.assert_shows("notice");
    let directory = scratch.path().display();
    for (line, shown) in [
        (hostile("nonsense"), "nonsense"),
        (format!("mark {}", quoted("name")), "name"),
        (format!("goto.mark {}", quoted("nowhere")), "nowhere"),
        (format!("snapshot {}", quoted("picture")), "picture"),
        (format!("export {}", quoted("table")), "table"),
        (format!("play {}", quoted("absent")), "absent"),
        (format!("set {} 0", quoted("toggle")), "toggle"),
        (format!("set overlap {}", quoted("value")), "value"),
        (format!("focus {}", quoted("pane")), "pane"),
        (format!("export \"{directory}/{}.csv\"", quoted("written").trim_matches('"')), "written"),
        (format!("record \"{directory}/{}.mcap\"", quoted("recorded").trim_matches('"')), "recorded"),
        ("record again".to_owned(), "recorded"),
        ("record.stop".to_owned(), "recorded"),
    ] {
        bench.line(&line);
        // What went well is on screen for a while; what did not stands above the line.
        assert!(!bench.drawn.is_empty(), "{shown}");
    }
    for open in [":marks", "?", "g"] {
        let (first, rest) = open.split_at(1);
        bench.keys(first);
        if !rest.is_empty() {
            bench.app.paste(rest);
            bench.key(KeyCode::Enter);
        }
        bench.look(open);
        for character in hostile("").chars() {
            bench.key(KeyCode::Char(character));
        }
        bench.look(open);
        (0..3).for_each(|_| bench.key(KeyCode::Esc));
    }
    bench.keys("6/");
    bench.app.paste(&hostile("filter"));
    bench.look("filter");
    bench.key(KeyCode::Enter);
    bench.look("filtered");
    bench.assert_shows("filter");
    bench.key(KeyCode::Esc);
    sender.send(EventKind::Log(Log { level: LogLevel::Error, text: hostile("last words").into() }), 2);
    drop(sender);
    bench.look("ended");
}

#[test]
fn of_a_macro_nothing_raw_is_drawn_or_reported() {
    let scratch = tempdir_in(env!("CARGO_TARGET_TMPDIR")).unwrap();
    let path = scratch.path().join(hostile_file("script")).with_extension("macro");
    let text = format!("mark {}\nset overlap off\nfilter {}\nexpect step < 0\n", quoted("mark"), quoted("filter"));
    fs::write(&path, &text).unwrap();
    let script = coalmine::macro_run::load_macro(path.to_str().unwrap()).unwrap();

    let options = ConsoleOptions { play: Some(script.clone()), ..ConsoleOptions::default() };
    let (mut bench, sender, asked) = live(options, true);
    while bench.app.fold() {}
    bench.draw("question");
    bench.assert_shows("changes the target");
    bench.keys("y");
    let mut lines = 0;
    while bench.app.is_busy() {
        while let Ok(command) = asked.try_recv() {
            sender.send(EventKind::Ack(Ack { command: command.id, outcome: Ok(1) }), 3);
        }
        while bench.app.fold() {}
        bench.draw("playing");
        lines += usize::from(bench.drawn.contains("MACRO"));
        bench.app.work();
    }
    assert!(lines > 0);
    bench.draw("played");
    bench.assert_shows("failed");

    let mut player = Player::new(script);
    loop {
        match player.poll(&State::default()) {
            Request::Finished => break,
            Request::Console(_) => player.done(ConsoleOutcome::Failed(hostile("why")), &State::default()),
            _ => player.answered(Err(&hostile("refused")), &State::default()),
        }
    }
    let report = player.report();
    assert!(!report.passed);
    assert_harmless("JUnit", &report.junit());
    assert_harmless("JSON", &serde_json::to_string_pretty(&report).unwrap());
    for line in report.outcomes.iter().map(ToString::to_string).chain([report.verdict()]) {
        assert_harmless("report", &line);
    }

    let errors = parse(
        &hostile("file"),
        &format!("{}\nexpect {} > 1\nkeys <{}>", quoted("verb"), quoted("quantity"), hostile("key")),
        &known_commands(),
    )
    .unwrap_err();
    assert_harmless("errors", &errors.to_string());
    let wrong = format!(
        "[{0}]\n'{0}' = 3\n[keys]\n'{0}' = 'quit'\nq = '{0}'\n",
        hostile("section").replace(char::is_control, "")
    );
    assert_harmless("configuration", &config::parse(&hostile("file"), &wrong).unwrap_err().to_string());
}

#[test]
fn of_file_names_nothing_raw_is_printed() {
    let scratch = tempdir_in(env!("CARGO_TARGET_TMPDIR")).unwrap();
    let (directory, recording) = (scratch.path().join(hostile_file("directory")), recording(&scratch));
    fs::create_dir(&directory).unwrap();
    let none = directory.join(hostile_file("none"));
    let [directory, none, recording] = [&directory, &none, &recording].map(|path| path.to_str().unwrap());
    for arguments in [
        &["recordings", directory][..],
        &["recordings", none],
        &["recordings", scratch.path().to_str().unwrap()],
        &["replay", none],
        &["replay", recording],
        &["export", "--json", none],
        &["export", "--json", recording, "--output", &format!("{none}/x")],
        &["run", "--macro", none],
        &["model", "verify", directory],
        &[none],
    ] {
        let output = binary::run(arguments);
        let said = format!("{}{}", binary::text(&output.stdout), binary::text(&output.stderr));
        assert!(!said.contains("panicked"), "{said}");
        assert_harmless(&arguments.join(" "), &said);
    }
}
