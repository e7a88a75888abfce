//! The configuration file, and what is remembered from one start to the next.

use crate::home::Home;
use crate::terminal::{Start, contains};

const CONFIG: &str = ".config/coalmine/config.toml";

#[test]
fn keys_stand_for_what_the_configuration_says() {
    let home = Home::new();
    home.write(
        CONFIG,
        "[look]\nmouse = false\nascii = true\n\n[keys]\n\"ctrl-t\" = [\"focus timeline\", \"zoom\"]\n\"g o\" = \"set overlap off\"\nE = \"\"\n",
    );
    let mut terminal = Start::engine(160, 48, &[]).home(&home).open();
    terminal.shows(&["running", "captured"]);
    terminal.keys("\x14");
    terminal.shows(&["4 Timeline"]);
    terminal.hides("1 Overview");
    terminal.keys("g");
    terminal.last_line_shows("o set overlap");
    terminal.keys("o");
    terminal.shows(&["overlap = 0 from step"]);
    // No longer bound to anything.
    terminal.keys("Eo");
    terminal.shows(&["overlap = 1 from step", "captured"]);
    terminal.keys("q");
    let left = terminal.left();
    left.assert_clean(0);
    assert!(!contains(&left.output, b"\x1b[?1000h"));
    assert!(left.output.is_ascii());
}

#[test]
fn what_is_wrong_with_the_configuration_is_said_with_its_place() {
    let home = Home::new();
    home.write(CONFIG, "[look]\ntheme = \"pink\"\n[keys]\nx = \"quti\"\n");
    home.write("other.toml", "[lok]\n");
    let place = home.file(CONFIG);
    for (arguments, words) in [
        (&[][..], vec![format!("{place}:2:9: "), format!("{place}:4:5: "), "did you mean `quit`?".to_owned()]),
        (&["--config", "other.toml"], vec!["other.toml:1:2: ".to_owned(), "did you mean `look`?".to_owned()]),
        (&["--config", "nowhere.toml"], vec!["nowhere.toml cannot be read".to_owned()]),
    ] {
        let left = Start::engine(250, 40, arguments).home(&home).open().left();
        left.assert_restored(2);
        assert!(!left.output.contains(&0x1b), "the screen was taken: {}", left.text);
        for word in words {
            assert!(left.text.contains(&word), "no {word:?} in\n{}", left.text);
        }
    }
}

#[test]
fn the_panes_stand_as_they_were_left() {
    let home = Home::new();
    let mut terminal = Start::engine(160, 48, &[]).home(&home).open();
    terminal.shows(&["━ 1 Overview ", "running"]);
    let edge = |terminal: &crate::terminal::Terminal| {
        terminal
            .rows()
            .iter()
            .find_map(|row| row.split_once(" 2 Sessions ").map(|(left, _)| left.chars().count()))
            .unwrap()
    };
    let first = edge(&terminal);
    terminal.keys("3\x1b[1;5C\x1b[1;5C");
    terminal.shows(&["━ 3 Canary "]);
    terminal.wait("a wider pane", |screen| {
        let row = crate::terminal::rows(screen).into_iter().find(|row| row.contains(" 2 Sessions ")).unwrap();
        row.split_once(" 2 Sessions ").unwrap().0.chars().count() + 4 == first
    });
    terminal.keys("q");
    terminal.left().assert_clean(0);

    let mut terminal = Start::engine(160, 48, &[]).home(&home).open();
    terminal.shows(&["━ 3 Canary ", "running"]);
    assert_eq!(edge(&terminal) + 4, first);
    terminal.line("resize reset");
    terminal.keys("4z");
    terminal.hides("1 Overview");
    terminal.keys("q");
    terminal.left().assert_clean(0);

    let mut terminal = Start::engine(160, 48, &[]).home(&home).open();
    // A zoom is for the moment: whoever comes back sees everything.
    terminal.shows(&["━ 4 Timeline ", "─ 1 Overview ", "running"]);
    assert_eq!(edge(&terminal), first);
    terminal.keys("q");
    terminal.left().assert_clean(0);
}
