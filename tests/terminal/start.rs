//! It opens, or says why it does not.

use crate::home::Home;
use crate::terminal::{Start, Terminal};

#[test]
fn it_opens_reacts_resizes_and_quits() {
    // The whole engine, as it is for whoever just starts it.
    let mut terminal = Start::new(160, 48, &["--seed", "1"]).open();
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
    terminal.shows(&["type to filter", "Gives overlap its next value, of 0, 1."]);
    terminal.keys("q");
    terminal.hides("type to filter");

    let tabs = "1 Overview 2 Sessions 3 Canary 4 Timeline 5 Toggles 6 Log";
    terminal.resize(80, 24);
    terminal.shows(&[tabs]);
    terminal.last_line_shows("q quit");
    terminal.keys("3");
    terminal.shows(&["━ 3 Canary "]);

    terminal.resize(160, 48);
    terminal.hides(tabs);
    terminal.shows(&["━ 3 Canary ", "─ 2 Sessions ", "─ 4 Timeline "]);
    terminal.last_line_shows("q quit");

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
fn a_bad_option_is_said_without_taking_the_screen() {
    for (arguments, words) in [
        (&["--concurrency", "0"][..], &["--concurrency", "between 1 and"][..]),
        (&["--turns", "99999"], &["--turns", "between 1 and"]),
        (&["--set", "overlap=maybe"], &["maybe", "0, 1"]),
        (&["--macro", "nowhere.macro"], &["nowhere.macro"]),
        (&["replay", "nowhere.mcap"], &["nowhere.mcap"]),
        (&["--log", "nowhere/log"], &["nowhere/log cannot be written"]),
    ] {
        let left = Start::new(120, 40, arguments).open().left();
        left.assert_restored(2);
        assert!(!left.output.contains(&0x1b), "the screen was taken: {}", left.text);
        for word in words {
            assert!(left.text.contains(word), "no {word:?} in\n{}", left.text);
        }
    }
}

#[test]
fn what_is_no_terminal_is_refused_in_a_sentence() {
    for (script, stream) in [
        (r#"{ "$0" "$@"; echo "exit code $?"; } </dev/null"#, "standard input"),
        (r#"{ "$0" "$@"; echo "exit code $?" >&2; } | cat"#, "standard output"),
    ] {
        let home = Home::new();
        home.write("empty.macro", "focus log\n");
        let start = Start::engine(120, 40, &["--macro", "empty.macro"]).home(&home).script(script);
        let left = start.open().left();
        left.assert_restored(0);
        let printed = left.printed();
        let sentence = format!("coalmine: the console needs a terminal, and {stream} is none");
        assert!(printed.starts_with(&sentence), "{printed}");
        assert!(printed.ends_with("exit code 2") && printed.lines().count() == 2, "{printed}");
        assert!(!left.output.contains(&0x1b), "the screen was taken: {printed}");
    }
}
