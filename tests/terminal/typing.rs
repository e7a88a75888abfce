//! What is typed arrives, in whatever pieces, and nothing that is typed holds the console.

use crate::terminal::{Start, Terminal};

/// Marks a step again and again, each time by a line that is typed in this way, and sees every mark set.
fn assert_arrives(rounds: usize, mut enter: impl FnMut(&mut Terminal, usize, &str)) {
    let mut terminal = Start::engine(160, 48, &["--pace", "max"]).open();
    terminal.shows(&["running"]);
    for round in 0..rounds {
        enter(&mut terminal, round, &format!("mark mark{round}"));
        terminal.last_line_shows(&format!("`mark{round}`"));
    }
    terminal.keys("q");
    terminal.left().assert_clean(0);
}

/// A terminal hands on what is typed in the pieces it comes in, and a piece may come while the one before it is read.
#[test]
fn keys_that_come_in_pieces_arrive() {
    assert_arrives(100, |terminal, _, line| {
        format!(":{line}\r").chars().for_each(|key| terminal.keys(key.encode_utf8(&mut [0; 4])));
    });
}

/// The reader hears of both at once.
#[test]
fn keys_that_come_with_a_change_of_size_arrive() {
    assert_arrives(40, |terminal, round, line| {
        terminal.resize(if round % 2 == 0 { 120 } else { 160 }, 48);
        terminal.line(line);
    });
}

/// Alt-[ is also how a longer sequence begins.
#[test]
fn an_unfinished_sequence_does_not_hold_the_console() {
    let mut terminal = Start::engine(160, 48, &["--pace", "max"]).open();
    terminal.shows(&["running"]);
    for _ in 0..10 {
        terminal.keys("\x1b[");
        // The engine runs, so frames go on being drawn.
        for _ in 0..5 {
            terminal.sends(terminal.sent(), b"\x1b[?2026l");
        }
        // The rest of it: the key up.
        terminal.keys("A");
    }
    terminal.keys("q");
    terminal.left().assert_clean(0);
}

/// These take every key that follows, until one comes that ends them.
#[test]
fn there_is_a_way_out_of_an_unfinished_sequence() {
    for begun in ["\x1b[<", "\x1b[200~pasted", "\x1b[?"] {
        let mut terminal = Start::engine(160, 48, &["--pace", "max"]).open();
        terminal.shows(&["running"]);
        terminal.keys(begun);
        terminal.keys("q\x03");
        for _ in 0..5 {
            terminal.sends(terminal.sent(), b"\x1b[?2026l");
        }
        terminal.keys("\x1c");
        terminal.left().assert_clean(131);
    }
}
