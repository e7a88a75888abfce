//! Lines that are typed after `:`.

use crate::home::Home;
use crate::terminal::{Start, Terminal};

fn quit(mut terminal: Terminal) {
    terminal.keys("q");
    terminal.left().assert_clean(0);
}

#[test]
fn the_target_is_changed_held_and_stepped() {
    let mut terminal = Terminal::open(160, 48, &[]);
    terminal.shows(&["running", "overlap on"]);
    terminal.line("set overlap off");
    terminal.shows(&["overlap = 0 from step", "overlap off"]);
    terminal.line("toggle overlap");
    terminal.shows(&["overlap = 1 from step", "overlap on"]);
    terminal.line("pace 50");
    terminal.shows(&["pace: 50 steps/s"]);
    terminal.line("step");
    terminal.shows(&["Hold the engine first (p)."]);
    terminal.line("hold");
    terminal.shows(&["HELD"]);
    terminal.line("step 3");
    terminal.shows(&["HELD", "`step 3` is done."]);
    terminal.line("expect step >= 3");
    terminal.shows(&["`expect step >= 3` holds"]);
    terminal.line("run");
    terminal.hides("HELD");
    quit(terminal);
}

#[test]
fn the_view_goes_back_in_time_and_to_now() {
    let mut terminal = Terminal::open(160, 48, &["--pace", "100"]);
    terminal.shows(&["running"]);
    terminal.line("goto 100000");
    terminal.shows(&["Step 100000 has not run yet"]);
    terminal.line("wait step > 20");
    terminal.shows(&["`wait step > 20` holds"]);
    terminal.line("goto 10");
    terminal.shows(&["FROZEN at 10,"]);
    terminal.line("mark here");
    terminal.shows(&["`here` marks step 10."]);
    terminal.keys("[");
    terminal.shows(&["FROZEN at 9,"]);
    terminal.keys("]]");
    terminal.shows(&["FROZEN at 11,"]);
    terminal.line("goto.mark here");
    terminal.shows(&["FROZEN at 10,"]);
    terminal.line("goto first");
    terminal.shows(&["FROZEN at 0,"]);
    terminal.line("goto now");
    terminal.hides("FROZEN");
    terminal.keys(" ");
    terminal.shows(&["FROZEN at "]);
    terminal.line("now");
    terminal.hides("FROZEN");
    terminal.line("speed 2");
    terminal.shows(&["A live target has a pace and no speed"]);
    quit(terminal);
}

#[test]
fn rows_are_exported() {
    let home = Home::new();
    home.write("there.csv", "what was here before");
    let mut terminal = Start::engine(160, 48, &[]).home(&home).open();
    terminal.shows(&["running"]);
    terminal.line("wait running >= 6");
    terminal.shows(&["`wait running >= 6` holds"]);
    terminal.keys("2");
    for (file, begin) in
        [("sessions.csv", "session,"), ("sessions.json", "["), ("sessions.txt", ""), ("there.csv", "session,")]
    {
        terminal.line(&format!("export {file}"));
        terminal.shows(&[&format!("{file} is written.")]);
        let text = home.read(file);
        assert!(text.starts_with(begin), "{file}: {text}");
        assert!(text.lines().count() > 4, "{file}: {text}");
        assert!(!home.has(&format!("{file}.part")));
    }
    let json: serde_json::Value = serde_json::from_str(&home.read("sessions.json")).unwrap();
    assert!(json[0].is_object(), "{json}");

    // The key asks for the name.
    terminal.keys("5x");
    terminal.last_line_shows(":export toggles.csv");
    terminal.keys("\r");
    terminal.shows(&["toggles.csv is written."]);
    assert!(home.read("toggles.csv").contains("overlap"));

    for (file, words) in [
        ("sessions.png", "An export is a .csv, .json or .txt file"),
        ("nowhere/sessions.csv", "nowhere/sessions.csv cannot be written"),
        (".", "An export is a .csv"),
    ] {
        terminal.line(&format!("export {file}"));
        terminal.shows(&[words]);
    }
    quit(terminal);
}

#[test]
fn the_screen_is_written_as_text_and_as_a_picture() {
    let home = Home::new();
    let mut terminal = Start::engine(160, 48, &[]).home(&home).open();
    terminal.shows(&["running"]);
    terminal.keys("p");
    terminal.shows(&["HELD", "p run"]);
    // What is on screen is what is in the file.
    let rows = terminal.rows();
    terminal.line("snapshot screen.txt");
    terminal.shows(&["screen.txt is written."]);
    let text = home.read("screen.txt");
    let lines: Vec<&str> = text.lines().collect();
    assert_eq!(lines.len(), 48, "{text}");
    for (line, row) in lines.iter().zip(&rows).take(40) {
        assert_eq!(line.trim_end(), row.trim_end());
    }
    terminal.line("snapshot screen.svg");
    terminal.shows(&["screen.svg is written."]);
    let picture = home.read("screen.svg");
    assert!(picture.contains("<svg ") && picture.trim_end().ends_with("</svg>") && picture.contains("Overview"));
    terminal.line("snapshot screen.png");
    terminal.shows(&["A snapshot is an .svg or a .txt file"]);
    terminal.line("snapshot nowhere/screen.txt");
    terminal.shows(&["nowhere/screen.txt cannot be written"]);
    quit(terminal);
}

#[test]
fn a_row_is_copied_through_the_terminal() {
    let mut terminal = Terminal::open(160, 48, &[]);
    terminal.shows(&["running"]);
    terminal.keys("2");
    terminal.shows(&["━ 2 Sessions "]);
    let sent = terminal.sent();
    terminal.keys("y");
    terminal.shows(&["No row is selected: pick one with j or k first."]);
    terminal.keys("jy");
    terminal.sends(sent, b"\x1b]52;c;");
    terminal.shows(&["The row is in the clipboard"]);
    quit(terminal);
}
