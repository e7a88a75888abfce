//! The `coalmine` program as a test runs it: without a terminal.

use std::process::{Command, Output, Stdio};

/// The program with arguments, nothing to read, and an environment that does not depend on who runs the tests.
pub(crate) fn coalmine<'a>(arguments: impl IntoIterator<Item = &'a str>) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_coalmine"));
    command.args(arguments).stdin(Stdio::null()).env_remove("RUST_BACKTRACE").env_remove("RUST_LOG");
    command
}

/// Runs the program to its end.
pub(crate) fn run(arguments: &[&str]) -> Output {
    coalmine(arguments.iter().copied()).output().unwrap()
}

/// What the program wrote, as text.
pub(crate) fn text(bytes: &[u8]) -> &str {
    std::str::from_utf8(bytes).unwrap()
}

/// The exit code; a signal is a failure of its own.
pub(crate) fn code(output: &Output) -> i32 {
    output.status.code().unwrap_or_else(|| panic!("ended by a signal: {output:?}"))
}

/// Runs the program on bad input: it must exit with 2, say so in one line on standard error that holds every one of
/// `words`, and print nothing else.
pub(crate) fn assert_refused(arguments: &[&str], words: &[&str]) {
    let output = run(arguments);
    let said = text(&output.stderr);
    let shown = format!("coalmine {}\n{said}", arguments.join(" "));
    assert_eq!(code(&output), 2, "{shown}");
    assert_eq!(text(&output.stdout), "", "{shown}");
    assert!(said.starts_with("coalmine: "), "the program does not say who speaks: {shown}");
    assert!(said.ends_with('\n') && said.lines().count() == 1, "not one line: {shown}");
    assert!(!said.contains("panicked"), "{shown}");
    for word in words {
        assert!(said.contains(word), "{word:?} is not named: {shown}");
    }
}
