//! A terminal whose corner is dragged about.

use crate::terminal::Terminal;

const CONTROL_L: &str = "\x0c";

/// Asserts that nothing on screen is left from before, by having every cell drawn anew.
fn assert_drawn_right(terminal: &mut Terminal) {
    terminal.keys("p");
    terminal.shows(&["HELD"]);
    let shown = |terminal: &Terminal| terminal.rows().iter().map(|row| row.trim_end().to_owned()).collect::<Vec<_>>();
    let before = shown(terminal);
    let sent = terminal.sent();
    terminal.keys(CONTROL_L);
    terminal.sends(sent, b"\x1b[2J");
    terminal.shows(&["HELD"]);
    assert_eq!(before, shown(terminal));
    terminal.keys("p");
    terminal.hides("HELD");
}

#[test]
fn the_last_of_many_sizes_is_drawn_right() {
    let mut terminal = Terminal::open(160, 48, &["--pace", "max"]);
    terminal.shows(&["running"]);
    // Any numbers do; these come of a linear congruential generator.
    let mut seed = 20_260_101_u64;
    let mut below = |limit: u64| {
        seed = seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        1 + ((seed >> 33) % limit) as u16
    };
    for number in 0..50 {
        terminal.resize(below(250), below(80));
        // Some are seen, most are not.
        if number % 10 == 0 {
            let sent = terminal.sent();
            terminal.sends(sent, b"\x1b[?2026l");
        }
    }
    terminal.resize(160, 48);
    terminal.last_line_shows("q quit");
    assert_drawn_right(&mut terminal);
    terminal.resize(80, 24);
    terminal.shows(&["1 Overview 2 Sessions 3 Canary 4 Timeline 5 Toggles 6 Log"]);
    terminal.last_line_shows("q quit");
    assert_drawn_right(&mut terminal);
    terminal.resize(1, 1);
    terminal.resize(60, 15);
    terminal.last_line_shows("q quit");
    assert_drawn_right(&mut terminal);
    terminal.keys("q");
    terminal.left().assert_clean(0);
}

#[test]
fn a_size_that_was_another_for_a_moment_is_drawn_anew() {
    let mut terminal = Terminal::open(100, 30, &[]);
    terminal.shows(&["running"]);
    for _ in 0..10 {
        // The terminal forgets what it cut off, whether or not the program ever saw the smaller size.
        let sent = terminal.sent();
        terminal.resize(61, 16);
        terminal.resize(100, 30);
        terminal.sends(sent, b"\x1b[2J");
        terminal.last_line_shows("q quit");
    }
    assert_drawn_right(&mut terminal);
    terminal.keys("q");
    terminal.left().assert_clean(0);
}
