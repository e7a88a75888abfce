//! Signals, and the shell's job control.

use std::str::FromStr;

use rustix::process::{Pid, Signal, kill_process};

use crate::home::Home;
use crate::terminal::{Start, Terminal};

#[test]
fn a_signal_that_ends_the_program_restores_the_terminal() {
    for (signal, code) in [(Signal::TERM, 143), (Signal::HUP, 129), (Signal::INT, 130), (Signal::QUIT, 131)] {
        let mut terminal = Terminal::open(120, 40, &["--pace", "max"]);
        terminal.shows(&["overlap on", "running"]);
        terminal.signal(signal);
        terminal.left().assert_clean(code);
    }
}

/// A shell with job control that starts the program, waits for a key when it has stopped, and continues it.
const JOB_CONTROL: &str = r#"
    set -m
    stops=0
    sh -c 'echo $$ >pid; exec "$0" "$@"' "$0" "$@"
    while [ $? -gt 128 ]; do
        stops=$((stops + 1))
        echo "stopped $stops"
        read line
        fg >continued
    done
    echo "ended"
"#;

fn assert_suspends(suspend: impl Fn(&mut Terminal, Pid)) {
    let home = Home::new();
    let mut terminal = Start::engine(120, 40, &[]).home(&home).script(JOB_CONTROL).open();
    terminal.shows(&["running", "q quit"]);
    let pid = Pid::from_raw(i32::from_str(home.read("pid").trim()).unwrap()).unwrap();
    for stops in 1..=2 {
        suspend(&mut terminal, pid);
        terminal.hands_back(&format!("stopped {stops}"));
        let sent = terminal.sent();
        terminal.keys("\r");
        // Everything is taken again, and drawn.
        terminal.sends(sent, b"\x1b[?1049h");
        terminal.sends(sent, b"\x1b[?2004h");
        terminal.sends(sent, b"\x1b[?1000h");
        terminal.shows(&["1 Overview", "running"]);
        terminal.last_line_shows("q quit");
        terminal.keys("o");
        terminal.shows(&[" from step "]);
        // Any key takes the message away.
        terminal.keys("1");
        terminal.last_line_shows("q quit");
    }
    terminal.keys("q");
    let left = terminal.left();
    left.assert_restored(0);
    assert_eq!(
        left.printed().lines().map(str::trim).filter(|line| !line.is_empty()).collect::<Vec<_>>().last(),
        Some(&"ended")
    );
}

#[test]
fn a_key_hands_the_terminal_to_the_shell() {
    assert_suspends(|terminal, _| terminal.keys("\x1a"));
}

#[test]
fn a_stop_from_outside_hands_the_terminal_to_the_shell() {
    assert_suspends(|_, pid| kill_process(pid, Signal::TSTP).unwrap());
}

/// What was typed for the shell changes nothing here when the shell hands the terminal back.
#[test]
fn what_is_typed_after_the_key_that_suspends_is_forgotten() {
    let mut terminal = Start::engine(120, 40, &["--pace", "max"]).script(JOB_CONTROL).open();
    terminal.shows(&["running", "q quit"]);
    terminal.keys("\x1a?4zo");
    terminal.hands_back("stopped 1");
    let sent = terminal.sent();
    terminal.keys("\r");
    terminal.sends(sent, b"\x1b[?1049h");
    terminal.shows(&["━ 1 Overview ", "overlap on", "q quit"]);
    terminal.hides("type to filter");
    terminal.keys("q");
    terminal.left().assert_restored(0);
}

/// A shell that ends the program while that is suspended.
const ENDS_A_JOB: &str = r#"
    set -m
    "$0" "$@"
    echo "stopped"
    read signal
    kill -$signal %1
    kill -CONT %1
    # As long as it counts as stopped, waiting for it returns at once.
    while wait %1; code=$?; [ $code = 147 ]; do :; done
    echo "ended with $code"
"#;

#[test]
fn what_is_suspended_can_be_ended() {
    for (signal, code) in [("TERM", 143), ("HUP", 129), ("INT", 130)] {
        let mut terminal = Start::engine(120, 40, &[]).script(ENDS_A_JOB).open();
        terminal.shows(&["running", "q quit"]);
        terminal.keys("\x1a");
        terminal.hands_back("stopped");
        terminal.keys(&format!("{signal}\r"));
        let left = terminal.left();
        left.assert_restored(0);
        assert!(left.printed().ends_with(&format!("ended with {code}")), "{}", left.printed());
    }
}

#[test]
fn without_a_shell_there_is_nobody_to_suspend_to() {
    let mut terminal = Terminal::open(120, 40, &[]);
    terminal.shows(&["running"]);
    terminal.keys("\x1a");
    terminal.shows(&["There is no shell to suspend to."]);
    terminal.keys("o");
    terminal.hides("There is no shell");
    terminal.signal(Signal::TSTP);
    terminal.shows(&["There is no shell to suspend to."]);
    // Stopped in a way that no program can notice, and continued: whoever did it may have used the terminal.
    let sent = terminal.sent();
    terminal.signal(Signal::STOP);
    terminal.signal(Signal::CONT);
    terminal.sends(sent, b"\x1b[?1049h");
    terminal.shows(&["1 Overview"]);
    terminal.keys("1");
    terminal.last_line_shows("q quit");
    terminal.keys("q");
    terminal.left().assert_clean(0);
}
