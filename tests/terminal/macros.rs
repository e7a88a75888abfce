//! Macros: from the start, from a file, recorded; and what stops them.

use crate::home::Home;
use crate::terminal::Start;

const CONTROL_C: &str = "\x03";
const ESCAPE: &str = "\x1b";

#[test]
fn one_is_played_from_the_start() {
    let home = Home::new();
    home.write("start.macro", "focus canary\nwait step >= 5\nset overlap off\nmark here\nexpect step >= 5\n");
    let mut terminal = Start::engine(160, 48, &["--macro", "start.macro"]).home(&home).open();
    terminal.shows(&["━ 3 Canary ", "overlap off", "start.macro passed: 5 lines"]);
    terminal.line("marks");
    terminal.shows(&["Marks", "here"]);
    terminal.keys("\r");
    terminal.shows(&["FROZEN at "]);
    terminal.keys("q");
    terminal.left().assert_clean(0);
}

#[test]
fn one_is_played_from_a_file_and_stopped() {
    let home = Home::new();
    home.write("endless.macro", "focus log\nzoom\nwait step >= 100000000\n");
    home.write("fails.macro", "# A comment.\nexpect step > 100000000\n");
    home.write("wrong.macro", "focus log\nfocus nowhere\nzoooom\n");
    let mut terminal = Start::engine(160, 48, &["--pace", "max"]).home(&home).open();
    terminal.shows(&["running"]);
    terminal.line("play endless.macro");
    terminal.shows(&["━ 6 Log ", " MACRO ", "endless.macro:3: wait step >= 100000000", "esc ends it"]);
    // It has the target to itself.
    terminal.keys("o");
    terminal.shows(&["A macro is playing and has the target to itself; esc ends it."]);
    terminal.line("play endless.macro");
    terminal.shows(&["A macro is playing already"]);
    terminal.keys(ESCAPE);
    terminal.shows(&["endless.macro:3: `wait step >= 100000000` failed: It was stopped with esc."]);
    terminal.keys("z");
    terminal.shows(&["━ 6 Log ", "─ 1 Overview "]);
    terminal.keys("o");
    terminal.shows(&["overlap = 0 from step"]);

    terminal.line("play fails.macro");
    terminal.shows(&["fails.macro:2: `expect step > 100000000` failed"]);
    terminal.line("play wrong.macro");
    terminal.shows(&["wrong.macro:2:7: ", "(1 more)"]);
    terminal.line("play nowhere.macro");
    terminal.shows(&["nowhere.macro: cannot be read: "]);
    // Keys are the console's, and nobody else reads them.
    for name in ["/dev/tty", "/dev/stdin"] {
        terminal.line(&format!("play {name}"));
        terminal.shows(&[&format!("{name}: is a device and no file of text.")]);
    }
    terminal.line("play ~/fails.macro");
    terminal.says(&["fails.macro:2: `expect step > 100000000` failed"]);
    // One that plays does not keep a person from leaving.
    terminal.line("play endless.macro");
    terminal.shows(&[" MACRO "]);
    terminal.keys(CONTROL_C);
    terminal.left().assert_clean(0);
}

#[test]
fn what_one_says_stays_beside_the_panes_until_it_ends() {
    let home = Home::new();
    home.write("says.macro", "focus timeline\nsay The lanes. Look at the last row.\nwait step >= 100000000\n");
    for (columns, rows) in [(160, 48), (80, 24)] {
        let mut terminal = Start::engine(columns, rows, &[]).home(&home).open();
        terminal.shows(&["running"]);
        terminal.keys("4");
        terminal.shows(&["lanes busy"]);
        terminal.line("play says.macro");
        terminal.last_line_shows("says.macro:3: wait");
        let shown = terminal.rows();
        assert!(shown[shown.len() - 2].contains("The lanes. Look at the last row."), "{shown:#?}");
        // It has a row of its own: the pane ends above it.
        terminal.shows(&["lanes busy", "0 us", ", . pick a span"]);
        terminal.keys(ESCAPE);
        terminal.hides("The lanes.");
        terminal.line("say A word.");
        terminal.last_line_shows("A word.");
        terminal.keys("q");
        terminal.left().assert_clean(0);
    }
}

#[test]
fn one_is_recorded_played_and_saved() {
    let home = Home::new();
    let mut terminal = Start::engine(160, 48, &[]).home(&home).open();
    terminal.shows(&["running"]);
    terminal.keys("@");
    terminal.shows(&["recorded.macro"]);
    terminal.keys("Q");
    terminal.shows(&["REC MACRO", "Commands are recorded as a macro"]);
    terminal.keys("3z:set overlap off\r");
    terminal.shows(&["overlap = 0 from step"]);
    terminal.keys("Q");
    terminal.says(&["recorded.macro is written."]);
    terminal.hides("REC MACRO");
    assert_eq!(home.read(".local/state/coalmine/recorded.macro"), "focus canary\nzoom\nset overlap 0\n");

    terminal.keys("z1o");
    terminal.shows(&["━ 1 Overview ", "overlap = 1 from step"]);
    terminal.keys("@");
    terminal.shows(&["━ 3 Canary ", "overlap off"]);
    terminal.hides("MACRO");
    terminal.hides("─ 1 Overview ");

    terminal.line("macro.save kept.macro");
    terminal.shows(&["kept.macro is written."]);
    assert_eq!(home.read("kept.macro"), home.read(".local/state/coalmine/recorded.macro"));
    home.write("file", "no directory");
    terminal.line("macro.save file/kept.macro");
    terminal.shows(&["file/kept.macro cannot be written"]);
    terminal.keys("QQ");
    terminal.shows(&["Nothing was done, so there is no macro."]);
    terminal.keys("q");
    terminal.left().assert_clean(0);
}
