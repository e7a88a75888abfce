//! Texts that a person writes or is given: macros, conditions, the configuration, keys, toggles, the arrangement.

use coalmine::{
    config as configuration,
    console::{Arrangement, known_commands, parse_keys},
};
use coalmine_sessions::{
    State, ToggleAssignment,
    macros::{Line, MACRO_LINES, Macro, MacroErrors, Source, load, parse},
};

use super::scratch::with_file;

/// A macro; after a line of `%%`, what its first `play` finds, and so on.
pub fn macro_text(bytes: &[u8]) {
    let text = String::from_utf8_lossy(bytes);
    let mut parts = text.split("\n%%\n");
    let source = |name: &str, text: &str| Source { name: name.to_owned(), text: text.to_owned() };
    let first = source("first.macro", parts.next().unwrap_or_default());
    let commands = known_commands();
    match parse(&first.name, &first.text, &commands) {
        Ok(script) => {
            // What is read can be written and read again.
            let written = script.to_string();
            assert_eq!(parse(&first.name, &written, &commands).map(|again| again.to_string()), Ok(written));
        }
        Err(errors) => look_at(&errors),
    }
    let others: Vec<&str> = parts.collect();
    let mut read = |from: &str, path: &str| match others.get(path.len().wrapping_sub(1)) {
        Some(text) => Ok(source(path, text)),
        // A macro that plays itself.
        None if path == "." => Ok(source(from, &first.text)),
        None => Err(format!("There is no {path}.")),
    };
    match load(&first, &commands, &mut read) {
        Ok(Macro { lines, .. }) => assert!(lines.len() <= MACRO_LINES),
        Err(errors) => look_at(&errors),
    }
}

/// A condition, with a bound or without one.
pub fn condition(bytes: &[u8]) {
    let text = String::from_utf8_lossy(bytes);
    for verb in ["expect", "wait"] {
        match parse("condition", &format!("{verb} {text}"), &[]) {
            Ok(script) => {
                for line in &script.lines {
                    if let Line::Expect(condition) | Line::Wait { condition, .. } = &line.line {
                        let evaluation = condition.evaluate(&State::default());
                        assert_eq!(evaluation.holds, condition.holds(&State::default()));
                        let _ = evaluation.to_string();
                    }
                }
            }
            Err(errors) => look_at(&errors),
        }
    }
}

/// The text of a configuration file.
pub fn config(bytes: &[u8]) {
    if let Err(errors) = configuration::parse("config.toml", &String::from_utf8_lossy(bytes)) {
        look_at(&errors);
    }
}

/// Keys as the configuration writes them.
pub fn keys(bytes: &[u8]) {
    let text = String::from_utf8_lossy(bytes);
    let _ = parse_keys(&text);
    if let Err(errors) = parse("keys", &format!("keys {text}"), &[]) {
        look_at(&errors);
    }
}

/// A `NAME=VALUE` of the command line.
pub fn toggle(bytes: &[u8]) {
    match ToggleAssignment::parse(&String::from_utf8_lossy(bytes)) {
        Ok(ToggleAssignment { name, value }) => assert!(name.spec().accepts(value)),
        Err(error) => drop(error.to_string()),
    }
}

/// The file that remembers how the panes stood.
pub fn arrangement(bytes: &[u8]) {
    with_file("arrangement.toml", bytes, |path| {
        if let Some(arrangement) = Arrangement::load(path) {
            super::console::draw_arranged(arrangement);
        }
    });
}

fn look_at(errors: &MacroErrors) {
    assert!(!errors.0.is_empty());
    let _ = errors.to_string();
}
