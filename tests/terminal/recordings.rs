//! Recordings: made, replayed, cut off.

use std::fs;

use coalmine_sessions::recording::Recording;

use crate::home::Home;
use crate::synthetic::{self, CORRUPTED, DIVERGES, STEPS};
use crate::terminal::Start;

#[test]
fn what_was_recorded_is_replayed() {
    let home = Home::new();
    let mut terminal = Start::engine(160, 48, &["--pace", "max"]).home(&home).open();
    terminal.shows(&["running"]);
    terminal.line("record.stop");
    terminal.shows(&["Nothing is being recorded."]);
    terminal.line("record run.mcap");
    terminal.shows(&["Recording to run.mcap.", "REC 0."]);
    terminal.line("record other.mcap");
    terminal.shows(&["A recording to run.mcap goes on"]);
    terminal.line("wait step > 30");
    terminal.shows(&["`wait step > 30` holds"]);
    terminal.line("record.stop");
    terminal.shows(&["run.mcap holds ", " steps in "]);
    terminal.hides("REC 0.");
    // Never over a file that is there.
    terminal.line("record run.mcap");
    terminal.shows(&["run.mcap exists already"]);
    terminal.line("record nowhere/run.mcap");
    terminal.shows(&["Could not create nowhere/run.mcap"]);
    // Without a name.
    terminal.line("record");
    terminal.says(&["Recording to ", ".local/share/coalmine/recordings"]);
    terminal.keys("q");
    terminal.left().assert_clean(0);
    let unnamed = fs::read_dir(home.path().join(".local/share/coalmine/recordings")).unwrap();
    assert_eq!(unnamed.count(), 1);

    let (recording, recovery) = Recording::open(&home.path().join("run.mcap")).unwrap();
    assert!(!recovery.truncated);
    let mut terminal = Start::new(160, 48, &["replay", "run.mcap"]).home(&home).open();
    terminal.shows(&[&format!("REPLAY step {}/{}", recording.first_step(), recording.last_step()), "embedded engine"]);
    terminal.keys("q");
    terminal.left().assert_clean(0);

    // From the start, too, it is said before the screen is taken.
    let left = Start::engine(160, 48, &["--record", "run.mcap"]).home(&home).open().left();
    left.assert_restored(2);
    assert!(left.printed().starts_with("coalmine: run.mcap exists already"), "{}", left.text);
}

#[test]
fn a_recording_that_cannot_be_begun_is_said() {
    let left = Start::engine(160, 48, &["--record", "nowhere/run.mcap"]).open().left();
    assert_eq!(left.restored, Ok(()), "{}", left.text);
    assert_eq!(left.code, 2, "{}", left.text);
    assert!(left.text.contains("nowhere is no directory to record into."), "{}", left.text);

    let mut terminal = Start::engine(160, 48, &[]).open();
    terminal.shows(&["running"]);
    terminal.line("record nowhere/run.mcap");
    terminal.shows(&["Could not create nowhere/run.mcap"]);
    terminal.keys("q");
    terminal.left().assert_clean(0);
}

#[test]
fn a_recording_is_gone_back_and_forth_in() {
    let home = Home::new();
    synthetic::write(&home.path().join("run.mcap"), "demo");
    let at = |step: u64| format!("REPLAY step {step}/{}", STEPS - 1);
    let mut terminal = Start::new(160, 48, &["replay", "run.mcap", "--step", "10"]).home(&home).open();
    terminal.shows(&[&at(10), "1 Overview"]);
    terminal.keys("]");
    terminal.shows(&[&at(11)]);
    terminal.keys("[[[");
    terminal.shows(&[&at(8)]);
    terminal.keys("}");
    terminal.shows(&[&at(DIVERGES)]);
    terminal.keys("}");
    terminal.shows(&[&at(CORRUPTED)]);
    terminal.keys("}");
    terminal.shows(&[&at(CORRUPTED), "There is no later anomaly."]);
    terminal.keys("{");
    terminal.shows(&[&at(DIVERGES)]);
    terminal.keys("gc");
    terminal.shows(&[&at(CORRUPTED), "CORRUPT"]);
    terminal.keys("ma");
    terminal.shows(&[&format!("`a` marks step {CORRUPTED}.")]);
    terminal.line("goto first");
    terminal.shows(&[&at(0)]);
    terminal.keys("[");
    terminal.shows(&["This is the first step."]);
    terminal.line("goto.time 5ms");
    terminal.shows(&[&at(5)]);
    terminal.keys("'a");
    terminal.shows(&[&at(CORRUPTED)]);
    terminal.line("goto 1000");
    terminal.shows(&["Step 1000 is not in the recording; its last is 59."]);

    for change in ["o", "p", ":set overlap off\r", ":pace 5\r", ":hold\r"] {
        terminal.keys("]");
        terminal.hides("A recording cannot be changed.");
        terminal.keys(change);
        terminal.shows(&["A recording cannot be changed."]);
    }
    terminal.line("record again.mcap");
    terminal.shows(&["A recording is not recorded again; copy its file."]);

    terminal.line("goto 2");
    terminal.shows(&[&at(2)]);
    terminal.line("speed 0.1");
    terminal.shows(&["x0.1"]);
    terminal.keys(" ");
    terminal.shows(&["PLAYING"]);
    terminal.keys("++++++++");
    terminal.shows(&[&format!("REPLAY step {0}/{0} x50", STEPS - 1)]);
    terminal.keys("-");
    terminal.shows(&["x20"]);
    terminal.keys(" ");
    terminal.shows(&["This is the last step."]);
    for pane in ["2 Sessions", "3 Canary", "4 Timeline", "5 Toggles", "6 Log"] {
        terminal.keys(&pane[..1]);
        terminal.shows(&[&format!("━ {pane} ")]);
    }
    terminal.keys("q");
    terminal.left().assert_clean(0);
}

#[test]
fn a_macro_plays_on_a_recording() {
    let home = Home::new();
    synthetic::write(&home.path().join("run.mcap"), "demo");
    home.write("look.macro", "goto corruption\nexpect step == 40\nfocus canary\nmark there\ngoto first\n");
    home.write("change.macro", "set overlap off\n");
    let mut terminal = Start::new(160, 48, &["replay", "run.mcap", "--macro", "look.macro"]).home(&home).open();
    terminal.shows(&["━ 3 Canary ", "REPLAY step 0/59", "look.macro passed: 5 lines"]);
    terminal.line("goto.mark there");
    terminal.shows(&["REPLAY step 40/59"]);
    terminal.line("play change.macro");
    terminal.shows(&["A recording cannot be changed."]);
    terminal.keys("q");
    terminal.left().assert_clean(0);
}

#[test]
fn a_recording_that_was_cut_off_opens_with_what_is_left() {
    let home = Home::new();
    let path = home.path().join("run.mcap");
    let text: String = (0..2_000).map(|number| format!("{:x} ", number * number)).collect();
    synthetic::write(&path, &text);
    let bytes = fs::read(&path).unwrap();
    home.write("cut.mcap", &bytes[..bytes.len() - bytes.len() / 3]);
    home.write("front.mcap", &bytes[..20]);
    home.write("none.mcap", "no recording at all");
    let mut terminal = Start::new(160, 48, &["replay", "cut.mcap"]).home(&home).open();
    terminal.shows(&["REPLAY step 0/", "The recording was cut off: ", " events are left"]);
    terminal.keys("]");
    terminal.shows(&["REPLAY step 1/"]);
    terminal.keys("q");
    terminal.left().assert_clean(0);
    for (file, words) in [("front.mcap", "front.mcap"), ("none.mcap", "none.mcap is not a recording of Coalmine")] {
        let left = Start::new(160, 48, &["replay", file]).home(&home).open().left();
        left.assert_restored(2);
        assert!(left.printed().starts_with("coalmine: ") && left.printed().contains(words), "{}", left.text);
        assert!(!left.output.contains(&0x1b), "the screen was taken: {}", left.text);
    }
}
