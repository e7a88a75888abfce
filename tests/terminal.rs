//! The console as a person has it: the real program in a real (pseudo-)terminal.

#![allow(clippy::unwrap_used, reason = "a test that cannot set itself up has failed")]

#[path = "support/terminal.rs"]
mod terminal;

use rustix::process::Signal;
use terminal::Terminal;
use vt100::Screen;

/// The last line of the screen.
fn last_line(screen: &Screen) -> String {
    let (_, columns) = screen.size();
    screen.rows(0, columns.get()).last().unwrap()
}

#[test]
fn it_opens_reacts_resizes_and_quits() {
    let mut terminal = Terminal::open(160, 48, &["--seed", "1"]);
    terminal.shows(&["1 Overview", "q quit", "overlap on", "captured"]);
    terminal.wait("the alternate screen without a cursor", |screen| screen.alternate_screen() && screen.hide_cursor());
    // The engine runs.
    terminal.shows(&["running", "2 Sessions", "3 Canary", "4 Timeline", "5 Toggles", "main", "indexer"]);

    terminal.keys("o");
    terminal.shows(&["overlap off", "overlap = 0 from step"]);
    terminal.hides("pending");
    terminal.keys("o");
    terminal.shows(&["overlap on", "overlap = 1 from step"]);

    terminal.keys("?");
    terminal.shows(&["type to filter", "Turns multi-stream overlap on or off."]);
    terminal.keys("q");
    terminal.hides("type to filter");

    let tabs = "1 Overview 2 Sessions 3 Canary 4 Timeline 5 Toggles 6 Log";
    terminal.resize(80, 24);
    terminal.shows(&[tabs]);
    terminal.wait("the key bar in the last line", |screen| last_line(screen).contains("q quit"));
    terminal.keys("3");
    terminal.shows(&["━ 3 Canary "]);

    terminal.resize(160, 48);
    terminal.hides(tabs);
    terminal.shows(&["━ 3 Canary ", "─ 2 Sessions ", "─ 4 Timeline "]);
    terminal.wait("the key bar in the last line", |screen| last_line(screen).contains("q quit"));

    terminal.keys("q");
    terminal.left().assert_clean(0);
}

#[test]
fn a_screen_too_small_says_so_and_recovers() {
    let mut terminal = Terminal::open(40, 10, &[]);
    terminal.shows(&["coalmine needs 60x15"]);
    terminal.resize(100, 30);
    terminal.shows(&["1 Overview", "q quit", "overlap on"]);
    terminal.keys("\x03");
    terminal.left().assert_clean(0);
}

#[test]
fn a_termination_signal_restores_the_terminal() {
    let mut terminal = Terminal::open(120, 40, &["--pace", "max"]);
    terminal.shows(&["overlap on", "running"]);
    terminal.signal(Signal::TERM);
    terminal.left().assert_clean(143);
}

#[test]
fn a_bad_option_is_said_without_taking_the_screen() {
    for (arguments, words) in [
        (&["--concurrency", "0"][..], &["--concurrency", "between 1 and"][..]),
        (&["--turns", "99999"], &["--turns", "between 1 and"]),
        (&["--set", "overlap=maybe"], &["maybe", "0, 1"]),
    ] {
        let left = Terminal::open(120, 40, arguments).left();
        assert_eq!(left.restored, Ok(()), "{}", left.text);
        assert_eq!(left.code, 2, "{}", left.text);
        for word in words {
            assert!(left.text.contains(word), "no {word:?} in\n{}", left.text);
        }
    }
}
