//! The `coalmine` program as a test runs it: without a terminal.

use std::process::{Command, Output, Stdio};
use std::sync::mpsc;
use std::time::Duration;

use rustix::process::{Pid, Signal, kill_process};

/// Far beyond what a loaded machine needs for anything here.
const PATIENCE: Duration = Duration::from_secs(120);

/// The program with arguments, nothing to read, and an environment that does not depend on who runs the tests.
pub(crate) fn coalmine<'a>(arguments: impl IntoIterator<Item = &'a str>) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_coalmine"));
    command.args(arguments).stdin(Stdio::null()).env_remove("RUST_BACKTRACE").env_remove("RUST_LOG");
    // Nobody's own files: a home that does not exist has none.
    command.env("HOME", concat!(env!("CARGO_TARGET_TMPDIR"), "/nobody"));
    for variable in ["XDG_CONFIG_HOME", "XDG_DATA_HOME", "XDG_STATE_HOME", "XDG_CACHE_HOME"] {
        command.env_remove(variable);
    }
    command
}

/// Runs the program to its end; one that does not end is killed, so that the test fails and does not hang.
pub(crate) fn run(arguments: &[&str]) -> Output {
    let mut command = coalmine(arguments.iter().copied());
    let child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    let pid = Pid::from_child(&child);
    let (ended, end) = mpsc::channel::<()>();
    std::thread::scope(|scope| {
        scope.spawn(move || {
            if end.recv_timeout(PATIENCE) == Err(mpsc::RecvTimeoutError::Timeout) {
                kill_process(pid, Signal::KILL).unwrap();
            }
        });
        let output = child.wait_with_output().unwrap();
        drop(ended);
        output
    })
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
