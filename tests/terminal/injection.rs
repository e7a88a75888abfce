//! A recording that wants to do something to the terminal of whoever looks at it.

use std::collections::BTreeMap;
use std::fs::{self, File};
use std::io::BufWriter;
use std::path::Path;

use mcap::WriteOptions;
use mcap::read::ChunkFlattener;
use mcap::records::{Metadata, Record};
use serde_json::Value;

use crate::binary;
use crate::home::Home;
use crate::synthetic::{self, STEPS};
use crate::terminal::{Start, contains};

/// What stands in a recording for what is put in its place.
const PLACE: &str = "PLACEHOLDER";

/// Sets the title, colours, moves the cursor, rings, asks for an answer, reorders, hides, and floods with accents.
const HOSTILE: &str = "evil\u{1b}]0;title\u{7}\u{1b}[31;5mred\u{1b}[2J\u{9b}1;1Hhome\u{90}q\u{9c}\u{1b}[6n\u{1b}c\u{8}\u{7f}\
    \u{202e}esrever\u{2066}\u{200b}\u{200f}\u{e0041}\u{2028}\r\nline\u{1b}]52;c;ZXZpbA==\u{1b}\\a\
    \u{301}\u{301}\u{301}\u{301}\u{301}\u{301}\u{301}\u{301}\u{301}\u{301}\u{301}\u{301}\u{301}\u{301}\u{301}live";

/// Fails if anything of [`HOSTILE`] is there that a terminal would act on.
fn assert_harmless(what: &str, output: &[u8]) {
    let markers: [&[u8]; 8] = [b"\x1b]", b"\x1b[31;5m", b"\x1b[6n", b"\x1bc", b"\x1b\\", b"\x07", b"\x08", b"\x7f"];
    for marker in markers {
        assert!(!contains(output, marker), "{what}: {marker:?}");
    }
    let text = String::from_utf8(output.to_vec()).unwrap();
    let controls = text.chars().find(|character| {
        matches!(character, '\u{80}'..='\u{9f}' | '\u{200b}'..='\u{200f}' | '\u{2028}'..='\u{202e}' | '\u{2066}'..='\u{2069}' | '\u{e0000}'..='\u{e007f}')
    });
    assert_eq!(controls, None, "{what}");
    assert!(!text.contains(&"\u{301}".repeat(4)), "{what}: a flood of accents");
}

/// Fails if anything in text that is no drawing could act on a terminal, escaped in JSON or not.
fn assert_harmless_text(what: &str, text: &str) {
    assert_harmless(what, text.as_bytes());
    let control = text.chars().find(|character| character.is_control() && *character != '\n');
    assert_eq!(control, None, "{what}");
    for line in text.lines() {
        if let Ok(value) = serde_json::from_str::<Value>(line) {
            assert_harmless_value(what, &value);
        }
    }
    if let Ok(value) = serde_json::from_str::<Value>(text) {
        assert_harmless_value(what, &value);
    }
}

fn assert_harmless_value(what: &str, value: &Value) {
    match value {
        Value::String(text) => {
            assert_harmless(what, text.as_bytes());
            assert!(!text.contains(char::is_control), "{what}: {text:?}");
        }
        Value::Array(values) => values.iter().for_each(|value| assert_harmless_value(what, value)),
        Value::Object(values) => values.iter().for_each(|(name, value)| {
            assert_harmless(what, name.as_bytes());
            assert_harmless_value(what, value);
        }),
        _ => {}
    }
}

/// Copies a recording as another program would, with every message and everything that it says about itself changed.
/// It then has no index, and is read as a file of another program.
fn rewrite(from: &Path, to: &Path, change: impl Fn(&str) -> String) {
    let bytes = fs::read(from).unwrap();
    let options = WriteOptions::new().profile("coalmine").chunk_size(None).disable_seeking(true).compression_threads(0);
    let mut file = options.create(BufWriter::new(File::create(to).unwrap())).unwrap();
    let mut batch = 0;
    for record in ChunkFlattener::new(&bytes).unwrap() {
        match record.unwrap() {
            Record::Metadata(Metadata { name, metadata }) => {
                let metadata: BTreeMap<_, _> =
                    metadata.into_iter().map(|(name, value)| (name, value.replace(PLACE, HOSTILE))).collect();
                file.write_metadata(&Metadata { name, metadata }).unwrap();
                file.flush().unwrap();
            }
            Record::Schema { header, data } => {
                file.add_schema_with_id(header.id, &header.name, &header.encoding, &data).unwrap();
            }
            Record::Channel(channel) => {
                let (id, schema) = (channel.id, channel.schema_id);
                file.add_channel_with_id(id, schema, &channel.topic, &channel.message_encoding, &channel.metadata)
                    .unwrap();
            }
            Record::Message { header, data } => {
                // Several chunks, but no batch of messages in two of them.
                if header.sequence / 16 != batch / 16 {
                    file.flush().unwrap();
                }
                batch = header.sequence;
                let changed = change(std::str::from_utf8(&data).unwrap());
                file.write_to_known_channel(&header, changed.as_bytes()).unwrap();
            }
            // What comes after the messages is made anew, but for the index.
            Record::DataEnd(_) => break,
            _ => {}
        }
    }
    file.finish().unwrap();
}

/// Text as it stands in a string of JSON.
fn escaped(text: &str) -> String {
    let quoted = serde_json::to_string(text).unwrap();
    quoted[1..quoted.len() - 1].to_owned()
}

fn hostile(json: &str) -> String {
    json.replace(PLACE, &escaped(HOSTILE))
}

fn hostile_recording(home: &Home) {
    synthetic::write(&home.path().join("plain.mcap"), PLACE);
    rewrite(&home.path().join("plain.mcap"), &home.path().join("evil.mcap"), hostile);
    fs::remove_file(home.path().join("plain.mcap")).unwrap();
}

#[test]
fn what_a_recording_says_is_never_sent_to_the_terminal_as_it_is() {
    let home = Home::new();
    hostile_recording(&home);
    for (columns, rows) in [(200, 60), (80, 24)] {
        let mut terminal = Start::new(columns, rows, &["replay", "evil.mcap", "--step", "50"]).home(&home).open();
        terminal.shows(&["REPLAY step 50/59", "evil]0;title"]);
        for pane in ["1 Overview", "2 Sessions", "3 Canary", "4 Timeline", "5 Toggles", "6 Log"] {
            terminal.keys(&pane[..1]);
            terminal.shows(&[&format!("━ {pane} ")]);
            // Its rows one by one, what is in them, and what is found among them.
            terminal.keys("gg\rjjk");
            terminal.keys("/evil\r");
            terminal.last_line_shows("q quit");
            terminal.keys("z");
            terminal.hides("1 Overview 2 Sessions");
            terminal.line("goto corruption");
            terminal.shows(&["REPLAY step 40/59"]);
            terminal.keys("wwl.}");
            terminal.shows(&["There is no later anomaly."]);
            terminal.line(&format!("export pane-{}.txt", &pane[..1]));
            terminal.shows(&["is written."]);
            terminal.line(&format!("snapshot screen-{}.svg", &pane[..1]));
            terminal.shows(&["screen-", "is written."]);
            terminal.keys("z");
            terminal.line("filter");
            terminal.keys("\x15\r");
            terminal.line("goto 50");
            terminal.shows(&["REPLAY step 50/59"]);
        }
        terminal.keys("q");
        let left = terminal.left();
        left.assert_clean(0);
        assert_harmless("the console", &left.output);
        for pane in 1..=6 {
            for file in [format!("pane-{pane}.txt"), format!("screen-{pane}.svg")] {
                assert_harmless_text(&file, &home.read(&file));
            }
        }
    }
}

#[test]
fn what_a_damaged_recording_says_is_not_sent_either() {
    let home = Home::new();
    synthetic::write(&home.path().join("plain.mcap"), PLACE);
    // What is wrong with it is quoted in what is said about it.
    rewrite(&home.path().join("plain.mcap"), &home.path().join("evil.mcap"), |json| {
        let warns = json.starts_with(&format!(r#"{{"step":{},"#, synthetic::WARNS));
        if warns {
            hostile(&json.replace(r#""level":"Warning""#, &format!(r#""level":"{PLACE}""#)))
        } else {
            hostile(json)
        }
    });
    let mut terminal = Start::new(200, 60, &["replay", "evil.mcap"]).home(&home).open();
    terminal.shows(&["REPLAY step 0/59"]);
    terminal.line("goto 58");
    terminal.shows(&["evil.mcap is damaged at byte", "unknown variant `evil"]);
    terminal.keys("q");
    let left = terminal.left();
    left.assert_clean(0);
    assert_harmless("the console", &left.output);

    let output = binary::run(&["export", &home.file("evil.mcap"), "--json"]);
    assert_eq!(binary::code(&output), 2);
    assert_harmless_text("the refusal", binary::text(&output.stderr));
}

#[test]
fn what_a_recording_says_is_harmless_in_every_export() {
    let home = Home::new();
    hostile_recording(&home);
    let recording = home.file("evil.mcap");
    for form in [&["--perfetto"][..], &["--json"], &["--csv", "steps"], &["--csv", "sessions"], &["--csv", "spans"]] {
        let output = binary::run(&[&["export", &recording], form].concat());
        let what = format!("{form:?}");
        assert_eq!(binary::code(&output), 0, "{what}: {output:?}");
        assert_harmless_text(&what, binary::text(&output.stdout));
        assert_harmless_text(&what, binary::text(&output.stderr));
        // What was said is there all the same.
        assert!(contains(&output.stdout, b"evil") || form.contains(&"steps"), "{what}");
    }

    // A cast is made of escape sequences: the console's.
    let output = binary::run(&["export", &recording, "--cast", "--size", "200x60", "--speed", "0.01"]);
    assert_eq!(binary::code(&output), 0, "{output:?}");
    let cast = binary::text(&output.stdout);
    assert_harmless("the cast", cast.as_bytes());
    let mut frames = cast.lines().map(|line| serde_json::from_str::<Value>(line).unwrap());
    assert_harmless_value("the cast's header", &frames.next().unwrap());
    let drawn: String = frames.map(|frame| frame[2].as_str().unwrap().to_owned()).collect();
    assert!(drawn.contains("evil"));
    assert_harmless("the cast's frames", drawn.as_bytes());
}

#[test]
fn names_of_recordings_are_listed_harmlessly() {
    let home = Home::new();
    hostile_recording(&home);
    fs::copy(home.path().join("evil.mcap"), home.path().join(HOSTILE.replace('/', "") + ".mcap")).unwrap();
    let directory = home.file("");
    for format in ["text", "json"] {
        let output = binary::run(&["recordings", &directory, "--format", format]);
        assert_eq!(binary::code(&output), 0, "{output:?}");
        assert!(binary::text(&output.stdout).matches("evil").count() >= 2, "{output:?}");
        assert_harmless_text(format, binary::text(&output.stdout));
        assert_harmless_text(format, binary::text(&output.stderr));
    }
}

#[test]
fn what_a_macro_says_is_not_sent_as_it_is() {
    let home = Home::new();
    let name = "\u{202e}orcam\u{2066}.macro";
    home.write(name, "# \u{202e}\u{2066}\nfocus log\nfilter evil\u{202e}esrever\nwait step >= 100000000\n");
    home.write("wrong.macro", format!("filter \u{1b}[31;5mred\n\u{202e}nonsense {HOSTILE}\n"));
    let mut terminal = Start::engine(160, 48, &["--macro", name]).home(&home).open();
    terminal.shows(&[" MACRO ", "━ 6 Log "]);
    terminal.keys("\x1b");
    terminal.shows(&["It was stopped with esc."]);
    terminal.line("play wrong.macro");
    terminal.shows(&["wrong.macro:"]);
    terminal.line("play nowhere\u{202e}");
    terminal.shows(&["nowhere"]);
    terminal.line("mark evil\u{202e}");
    terminal.shows(&["marks step"]);
    terminal.line("marks");
    terminal.shows(&["Marks"]);
    terminal.keys("\x1b");
    terminal.hides("Marks");
    terminal.keys("q");
    let left = terminal.left();
    left.assert_clean(0);
    assert_harmless("the console", &left.output);
    let left = Start::engine(160, 48, &["--macro", "wrong.macro"]).home(&home).open().left();
    left.assert_restored(2);
    assert_harmless("the refusal", &left.output);
}

#[test]
fn the_recording_that_is_played_here_is_a_whole_one() {
    let home = Home::new();
    hostile_recording(&home);
    let (recording, recovery) = coalmine_sessions::recording::Recording::open(&home.path().join("evil.mcap")).unwrap();
    assert!(!recovery.truncated, "{recovery:?}");
    assert_eq!(recording.last_step(), STEPS - 1);
}
