//! A pseudo-terminal with the program in it, and a terminal emulator that looks at it.
//!
//! Nothing here sleeps: a test waits for what the screen shows, or fails after a time that no machine should need.

use std::io::{Read, Write};
use std::num::NonZeroU16;
use std::sync::{Arc, Condvar, Mutex};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use portable_pty::{Child, CommandBuilder, MasterPty, PtySize, SlavePty, native_pty_system};
use rustix::process::{Pid, Signal, kill_process};
use vt100::{MouseProtocolMode, Parser, Screen};

/// Far beyond what a loaded machine needs for anything here.
const PATIENCE: Duration = Duration::from_secs(120);

/// What the shell had written before.
const BEFORE: &str = "user@host:~$ coalmine";

/// The program in a pseudo-terminal.
pub(crate) struct Terminal {
    master: Box<dyn MasterPty + Send>,
    /// Kept while the program runs, so that the terminal outlives it and can be examined.
    slave: Option<Box<dyn SlavePty + Send>>,
    child: Box<dyn Child + Send + Sync>,
    input: Box<dyn Write + Send>,
    seen: Arc<Seen>,
    reader: Option<JoinHandle<()>>,
    /// The line discipline's modes before the program ran.
    modes: String,
}

struct Seen {
    parser: Mutex<Parser>,
    changed: Condvar,
}

/// How the program left the terminal.
pub(crate) struct Left {
    pub(crate) code: u32,
    /// Text of the main screen.
    pub(crate) text: String,
    /// Whether everything that the program changed is as before.
    pub(crate) restored: Result<(), String>,
}

fn cells(count: u16) -> NonZeroU16 {
    NonZeroU16::new(count).unwrap()
}

fn size(columns: u16, rows: u16) -> PtySize {
    PtySize { rows, cols: columns, pixel_width: 0, pixel_height: 0 }
}

impl Terminal {
    /// Starts the program in a terminal of this size.
    pub(crate) fn open(columns: u16, rows: u16, arguments: &[&str]) -> Self {
        let pair = native_pty_system().openpty(size(columns, rows)).unwrap();
        let modes = format!("{:?}", pair.master.get_termios());
        let mut command = CommandBuilder::new(env!("CARGO_BIN_EXE_coalmine"));
        command.args(arguments);
        command.env_clear();
        command.env("TERM", "xterm-256color");
        command.env("LANG", "C.UTF-8");
        let mut parser = Parser::new(cells(rows), cells(columns), 0);
        parser.process(BEFORE.as_bytes());
        parser.process(b"\r\n");
        let seen = Arc::new(Seen { parser: Mutex::new(parser), changed: Condvar::new() });
        let mut output = pair.master.try_clone_reader().unwrap();
        let input = pair.master.take_writer().unwrap();
        let child = pair.slave.spawn_command(command).unwrap();
        let told = Arc::clone(&seen);
        let reader = std::thread::spawn(move || {
            let mut bytes = [0; 65_536];
            // The terminal's end reads as an error or as nothing.
            while let Ok(count @ 1..) = output.read(&mut bytes) {
                told.parser.lock().unwrap().process(&bytes[..count]);
                told.changed.notify_all();
            }
        });
        Self { master: pair.master, slave: Some(pair.slave), child, input, seen, reader: Some(reader), modes }
    }

    /// Types.
    pub(crate) fn keys(&mut self, keys: &str) {
        self.input.write_all(keys.as_bytes()).unwrap();
        self.input.flush().unwrap();
    }

    /// Gives the terminal another size, as dragging its corner does.
    pub(crate) fn resize(&self, columns: u16, rows: u16) {
        // The emulator first: what the program draws for the new size must find it.
        self.seen.parser.lock().unwrap().set_size(cells(rows), cells(columns));
        self.master.resize(size(columns, rows)).unwrap();
    }

    /// Sends the program a signal.
    pub(crate) fn signal(&self, signal: Signal) {
        let pid = self.child.process_id().and_then(|pid| Pid::from_raw(pid as i32));
        kill_process(pid.unwrap(), signal).unwrap();
    }

    /// Waits until the screen is as wished.
    pub(crate) fn wait(&mut self, wish: &str, holds: impl Fn(&Screen) -> bool) {
        let end = Instant::now() + PATIENCE;
        let mut parser = self.seen.parser.lock().unwrap();
        while !holds(parser.screen()) {
            let left = end.saturating_duration_since(Instant::now());
            // What ended will not draw any more; but what it drew last may still have to be read.
            let ended = self.child.try_wait().unwrap();
            if left.is_zero() || ended.is_some() {
                panic!("waited in vain for {wish} (ended: {ended:?}):\n{}", parser.screen().contents());
            }
            parser = self.seen.changed.wait_timeout(parser, left.min(Duration::from_secs(1))).unwrap().0;
        }
    }

    /// Waits until the screen shows every one of these words.
    pub(crate) fn shows(&mut self, words: &[&str]) {
        self.wait(&format!("{words:?}"), |screen| {
            let text = screen.contents();
            words.iter().all(|word| text.contains(word))
        });
    }

    /// Waits until the screen no longer shows a word.
    pub(crate) fn hides(&mut self, word: &str) {
        self.wait(&format!("the end of {word:?}"), |screen| !screen.contents().contains(word));
    }

    /// Waits for the program's end.
    pub(crate) fn left(mut self) -> Left {
        let end = Instant::now() + PATIENCE;
        let status = loop {
            if let Some(status) = self.child.try_wait().unwrap() {
                break status;
            }
            // The program's last words wake this up; its end itself cannot be waited for with a limit.
            let parser = self.seen.parser.lock().unwrap();
            assert!(Instant::now() < end, "the program does not end:\n{}", parser.screen().contents());
            drop(self.seen.changed.wait_timeout(parser, Duration::from_millis(20)).unwrap());
        };
        let modes = format!("{:?}", self.master.get_termios());
        // With the last user of the terminal gone, the reader comes to its end.
        drop(self.slave.take());
        self.reader.take().unwrap().join().unwrap();
        let parser = self.seen.parser.lock().unwrap();
        let screen = parser.screen();
        let checks = [
            ("the alternate screen is left", !screen.alternate_screen()),
            ("the cursor is shown", !screen.hide_cursor()),
            ("the mouse is released", screen.mouse_protocol_mode() == MouseProtocolMode::None),
            ("pastes are not bracketed", !screen.bracketed_paste()),
            ("keys are normal", !screen.application_cursor() && !screen.application_keypad()),
            ("colours are the terminal's", screen.fgcolor() == vt100::Color::Default && !screen.inverse()),
            ("the line discipline is as before", modes == self.modes),
            ("the main screen begins as before", screen.contents().starts_with(BEFORE)),
        ];
        let failed: Vec<&str> = checks.iter().filter(|(_, holds)| !holds).map(|(check, _)| *check).collect();
        Left {
            code: status.exit_code(),
            text: screen.contents(),
            restored: if failed.is_empty() { Ok(()) } else { Err(format!("does not hold: {}", failed.join(", "))) },
        }
    }
}

impl Left {
    /// Asserts the exit code, and that the terminal is as it was, without a character more.
    pub(crate) fn assert_clean(&self, code: u32) {
        assert_eq!(self.restored, Ok(()), "{}", self.text);
        assert_eq!(self.text.trim_end(), BEFORE);
        assert_eq!(self.code, code);
    }
}

impl Drop for Terminal {
    fn drop(&mut self) {
        // A failed test leaves nothing behind. A program that has ended is not there to be killed.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
