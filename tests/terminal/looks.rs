//! Colours, characters and the mouse.

use vt100::MouseProtocolMode;

use crate::terminal::{Left, Start, Terminal, contains, rows};

/// Colours among the parameters of every `SGR` sequence, but for those that take the terminal's own.
fn colours(output: &[u8]) -> Vec<String> {
    let text = String::from_utf8_lossy(output);
    let sequences = text.split("\x1b[").skip(1).filter_map(|rest| {
        let end = rest.find(|character: char| !matches!(character, '0'..='9' | ';' | ':'))?;
        rest[end..].starts_with('m').then(|| &rest[..end])
    });
    let coloured = sequences.filter(|parameters| {
        parameters
            .split([';', ':'])
            .any(|number| matches!(number.parse(), Ok(30..=38 | 40..=48 | 58 | 90..=97 | 100..=107)))
    });
    coloured.map(str::to_owned).collect()
}

/// Looks at every pane, the help and a message, and quits.
fn looked_at(start: Start<'_>) -> Left {
    let mut terminal = start.open();
    terminal.shows(&["running"]);
    for key in ["2", "3", "4", "5", "6", "1"] {
        terminal.keys(key);
        terminal.wait("the pane in the focus", |screen| screen.contents().contains(&format!("{key} ")));
        terminal.keys("j\r");
    }
    terminal.keys("?");
    terminal.shows(&["type to filter"]);
    terminal.keys("\x1b");
    terminal.hides("type to filter");
    terminal.keys(":foc\t");
    terminal.shows(&[":focus"]);
    terminal.keys("\x03:set overlap off\r");
    terminal.shows(&["overlap = 0 from step"]);
    terminal.keys("q");
    let left = terminal.left();
    left.assert_clean(0);
    left
}

#[test]
fn colours_are_used_where_they_are_wanted() {
    let dark = looked_at(Start::engine(160, 48, &[]));
    let light = looked_at(Start::engine(160, 48, &["--theme", "light"]));
    let (dark, light) = (colours(&dark.output), colours(&light.output));
    assert!(!dark.is_empty() && !light.is_empty());
    assert_ne!(dark.first(), light.first());
    // A theme that is asked for comes before what the environment says of colours.
    let asked = looked_at(Start::engine(160, 48, &["--theme", "dark"]).variable("NO_COLOR", "1"));
    assert!(!colours(&asked.output).is_empty());
}

#[test]
fn no_colour_is_used_where_none_is_wanted() {
    for start in [
        Start::engine(160, 48, &[]).variable("NO_COLOR", "1"),
        Start::engine(160, 48, &["--theme", "mono"]),
        Start::engine(80, 24, &[]).variable("TERM", "dumb"),
    ] {
        let left = looked_at(start);
        assert_eq!(colours(&left.output), Vec::<String>::new());
    }
}

#[test]
fn only_ascii_is_drawn_where_nothing_else_can_be_shown() {
    for start in [
        Start::engine(160, 48, &["--ascii"]),
        Start::engine(80, 24, &[]).variable("TERM", "dumb"),
        Start::engine(160, 48, &[]).variable("LANG", "de_DE.ISO-8859-1"),
    ] {
        let left = looked_at(start);
        let text = String::from_utf8(left.output).unwrap();
        let beyond: String = text.chars().filter(|character| !character.is_ascii()).collect();
        assert_eq!(beyond, "");
    }
}

#[test]
fn the_mouse_focuses_scrolls_and_drags() {
    let mut terminal = Terminal::open(160, 48, &[]);
    terminal.shows(&["━ 1 Overview ", "running"]);
    terminal.wait("mouse reports", |screen| screen.mouse_protocol_mode() != MouseProtocolMode::None);
    terminal.click("2 Sessions");
    terminal.shows(&["━ 2 Sessions "]);
    terminal.click("4 Timeline");
    terminal.shows(&["━ 4 Timeline "]);
    // The wheel, over whatever is there.
    terminal.keys("\x1b[<64;20;20M\x1b[<65;20;20M\x1b[<65;159;47M\x1b[<64;1;1M");
    // Far outside of the screen.
    terminal.keys("\x1b[<0;999;999M\x1b[<32;999;999M\x1b[<0;999;999m");
    terminal.resize(80, 24);
    terminal.shows(&["1 Overview 2 Sessions"]);
    terminal.click("3 Canary");
    terminal.shows(&["━ 3 Canary "]);
    terminal.keys("q");
    terminal.left().assert_clean(0);
}

/// Column and row at which the screen shows a word, counted from 1 as the mouse does.
fn place(rows: &[String], word: &str) -> (usize, usize) {
    let (row, text) = rows.iter().enumerate().find(|(_, text)| text.contains(word)).unwrap();
    (text[..text.find(word).unwrap()].chars().count() + 1, row + 1)
}

#[test]
fn the_mouse_drags_the_edges_of_panes() {
    const SESSIONS: &str = "─ 2 Sessions ";
    const TIMELINE: &str = "─ 4 Timeline ";
    let mut terminal = Terminal::open(160, 48, &[]);
    terminal.shows(&["━ 1 Overview ", SESSIONS, TIMELINE, "running"]);

    // The gap in front of the sessions.
    let (column, row) = place(&terminal.rows(), SESSIONS);
    let gap = column - 1;
    terminal.keys(&format!("\x1b[<0;{gap};{0}M\x1b[<32;{1};{0}M", row + 3, gap - 4));
    terminal.wait("wider sessions", |screen| place(&rows(screen), SESSIONS) == (column - 4, row));
    // Let go of, it stays.
    terminal.keys(&format!("\x1b[<0;{1};{0}m\x1b[<32;{2};{0}M6", row + 3, gap - 4, gap - 20));
    terminal.shows(&["━ 6 Log "]);
    assert_eq!(place(&terminal.rows(), SESSIONS), (column - 4, row));

    // The rule above the timeline.
    let (column, row) = place(&terminal.rows(), TIMELINE);
    terminal.keys(&format!("\x1b[<0;{0};{row}M\x1b[<32;{0};{1}M\x1b[<0;{0};{1}m1", column + 40, row - 2));
    terminal.wait("a higher timeline", |screen| {
        let rows = rows(screen);
        rows.iter().any(|row| row.contains(TIMELINE)) && place(&rows, TIMELINE) == (column, row - 2)
    });
    terminal.keys("q");
    terminal.left().assert_clean(0);
}

#[test]
fn the_mouse_is_left_alone_when_it_is_not_wanted() {
    let left = looked_at(Start::engine(160, 48, &["--no-mouse"]));
    for report in ["9", "1000", "1001", "1002", "1003", "1005", "1006", "1015", "1016"] {
        assert!(!contains(&left.output, format!("\x1b[?{report}h").as_bytes()), "{report}");
    }
}
