//! Ends that nobody asked for: a panic, a terminal that is gone.

use std::path::Path;

use coalmine_sessions::recording::Recording;
use rustix::process::Signal;

use crate::home::Home;
use crate::terminal::{Start, Terminal};

/// Opens a recording that must be complete, and gives its number of steps.
fn complete(path: &Path) -> u64 {
    let (recording, recovery) = Recording::open(path).unwrap();
    assert!(!recovery.truncated, "{recovery:?}");
    recording.last_step() - recording.first_step() + 1
}

#[test]
fn a_panic_in_a_pane_is_said_on_the_restored_terminal() {
    let home = Home::new();
    let mut terminal = Start::engine(120, 40, &["--record", "run.mcap"]).home(&home).open();
    terminal.shows(&["REC 0.", "running"]);
    terminal.keys("3");
    terminal.shows(&["━ 3 Canary "]);
    terminal.line("debug.panic");
    let left = terminal.left();
    left.assert_restored(101);
    let printed = left.printed();
    assert!(printed.contains("panicked at") && printed.contains("`debug.panic` was asked for"), "{printed}");
    assert!(complete(&home.path().join("run.mcap")) > 0);
}

#[test]
fn a_panic_under_a_macro_and_an_overlay_restores_the_terminal() {
    let home = Home::new();
    home.write("endless.macro", "wait step >= 100000000\n");
    let mut terminal = Start::engine(80, 24, &["--macro", "endless.macro"]).home(&home).open();
    terminal.shows(&[" MACRO "]);
    terminal.keys(":debug.panic");
    terminal.shows(&[":debug.panic"]);
    terminal.keys("\r");
    let left = terminal.left();
    left.assert_restored(101);
    assert!(left.printed().contains("`debug.panic` was asked for"), "{}", left.printed());
}

#[test]
fn a_terminal_that_vanishes_ends_the_program_and_the_recording() {
    let home = Home::new();
    let mut terminal = Start::engine(120, 40, &["--record", "run.mcap"]).home(&home).open();
    terminal.shows(&["REC 0.", "running", "step 1"]);
    assert_eq!(terminal.vanish(), 129);
    let (recording, _) = Recording::open(&home.path().join("run.mcap")).unwrap();
    assert!(recording.last_step() > 0);
}

#[test]
fn a_terminal_that_vanishes_under_an_overlay_ends_the_program() {
    let mut terminal = Terminal::open(80, 24, &["--pace", "max"]);
    terminal.shows(&["running"]);
    terminal.keys(":set overlap");
    terminal.last_line_shows(":set overlap");
    assert_eq!(terminal.vanish(), 129);
}

#[test]
fn a_signal_ends_a_recording_whole() {
    for (signal, code) in [(Signal::TERM, 143), (Signal::INT, 130)] {
        let home = Home::new();
        let mut terminal = Start::engine(120, 40, &["--record", "run.mcap"]).home(&home).open();
        terminal.shows(&["REC 0.", "running"]);
        terminal.signal(signal);
        terminal.left().assert_clean(code);
        assert!(complete(&home.path().join("run.mcap")) > 0);
    }
}

#[test]
fn what_is_being_written_is_written_before_the_end() {
    let home = Home::new();
    let mut terminal = Start::engine(120, 40, &["--record", "run.mcap"]).home(&home).open();
    terminal.shows(&["REC 0.", "running"]);
    terminal.keys(":record.stop\r:export rows.csv\rq");
    terminal.left().assert_clean(0);
    assert!(complete(&home.path().join("run.mcap")) > 0);
    assert!(home.has("rows.csv") && !home.has("rows.csv.part"));
}
