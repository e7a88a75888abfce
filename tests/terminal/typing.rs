//! What is typed arrives, in whatever pieces, and nothing that is typed holds the console.

use crate::terminal::Start;

/// A terminal hands on what is typed in the pieces it comes in, and a piece may come while the one before it is read.
#[test]
fn keys_that_come_in_pieces_arrive() {
    let mut terminal = Start::engine(160, 48, &["--pace", "max"]).open();
    terminal.shows(&["running"]);
    for round in 0..100 {
        let mark = format!("mark{round}");
        for key in format!(":mark {mark}\r").chars() {
            terminal.keys(key.encode_utf8(&mut [0; 4]));
        }
        terminal.last_line_shows(&format!("`{mark}`"));
    }
    terminal.keys("q");
    terminal.left().assert_clean(0);
}

/// The reader hears of both at once.
#[test]
fn keys_that_come_with_a_change_of_size_arrive() {
    let mut terminal = Start::engine(160, 48, &["--pace", "max"]).open();
    terminal.shows(&["running"]);
    for round in 0..40 {
        terminal.resize(if round % 2 == 0 { 120 } else { 160 }, 48);
        let mark = format!("mark{round}");
        terminal.line(&format!("mark {mark}"));
        terminal.last_line_shows(&format!("`{mark}`"));
    }
    terminal.keys("q");
    terminal.left().assert_clean(0);
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
