//! A pseudo-terminal with the program in it, and a terminal emulator that looks at it.
//!
//! Nothing here sleeps: a test waits for what the screen shows, or fails after a time that no machine should need.

use std::borrow::Cow;
use std::io::{Read, Write};
use std::num::NonZeroU16;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Condvar, Mutex};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use portable_pty::{Child, CommandBuilder, MasterPty, PtySize, SlavePty, native_pty_system};
use rustix::process::{Pid, Signal, kill_process};
use vt100::{MouseProtocolMode, Parser, Screen};

use crate::home::Home;

/// Far beyond what a loaded machine needs for anything here.
const PATIENCE: Duration = Duration::from_secs(120);
/// How often the end of a process is looked for, which cannot be waited for with a limit.
const LOOK: Duration = Duration::from_millis(20);

/// An engine that has little to do.
const LIGHT: [&str; 4] = ["--concurrency", "8", "--workers", "1"];

/// What the shell had written before.
const BEFORE: &str = "user@host:~$ coalmine";

/// What a terminal that knows synchronized updates takes for the beginning and the end of a frame.
const FRAME_BEGINS: &[u8] = b"\x1b[?2026h";
const FRAME_ENDS: &[u8] = b"\x1b[?2026l";

/// How the program is started.
pub(crate) struct Start<'a> {
    columns: u16,
    rows: u16,
    arguments: Vec<&'a str>,
    variables: Vec<(&'a str, &'a str)>,
    home: Option<&'a Home>,
    script: Option<&'a str>,
}

impl<'a> Start<'a> {
    /// In a terminal of this size.
    pub(crate) fn new(columns: u16, rows: u16, arguments: &[&'a str]) -> Self {
        let variables = vec![("TERM", "xterm-256color"), ("LANG", "C.UTF-8")];
        Self { columns, rows, arguments: arguments.to_vec(), variables, home: None, script: None }
    }

    /// With an engine that leaves the processor to other tests.
    pub(crate) fn engine(columns: u16, rows: u16, arguments: &[&'a str]) -> Self {
        Self::new(columns, rows, &[&LIGHT, arguments].concat())
    }

    /// With this home, which may be one that the program has been at before.
    pub(crate) fn home(mut self, home: &'a Home) -> Self {
        self.home = Some(home);
        self
    }

    /// With an environment variable more, or another value of one.
    pub(crate) fn variable(mut self, name: &'a str, value: &'a str) -> Self {
        self.variables.push((name, value));
        self
    }

    /// By a shell that runs this script; the program and its arguments are `"$0" "$@"`.
    pub(crate) fn script(mut self, script: &'a str) -> Self {
        self.script = Some(script);
        self
    }

    pub(crate) fn open(self) -> Terminal {
        let own_home = if self.home.is_none() { Some(Home::new()) } else { None };
        let home = self.home.or(own_home.as_ref()).unwrap().path().to_owned();
        let pair = native_pty_system().openpty(size(self.columns, self.rows)).unwrap();
        let modes = modes(&*pair.master);
        let program = env!("CARGO_BIN_EXE_coalmine");
        let mut command = match self.script {
            None => CommandBuilder::new(program),
            Some(script) => {
                let mut shell = CommandBuilder::new("sh");
                shell.args(["-c", script, program]);
                shell
            }
        };
        command.args(&self.arguments);
        command.env_clear();
        command.env("HOME", &home);
        command.env("PATH", std::env::var_os("PATH").unwrap_or_default());
        command.cwd(&home);
        self.variables.iter().for_each(|(name, value)| command.env(name, value));
        // A terminal that loses height keeps what is above.
        let mut parser = Parser::new(cells(self.rows), cells(self.columns), 10);
        parser.process(BEFORE.as_bytes());
        parser.process(b"\r\n");
        let shown = Shown { parser, output: Vec::new(), within_frame: false };
        let seen = Arc::new(Seen { shown: Mutex::new(shown), changed: Condvar::new(), ends: AtomicBool::new(false) });
        let output = pair.master.try_clone_reader().unwrap();
        let input = pair.master.take_writer().unwrap();
        let child = pair.slave.spawn_command(command).unwrap();
        let told = Arc::clone(&seen);
        let reader = std::thread::spawn(move || told.read(output));
        Terminal {
            master: Some(pair.master),
            slave: Some(pair.slave),
            child,
            input,
            seen,
            reader: Some(reader),
            modes,
            fewest_columns: self.columns.into(),
            _own_home: own_home,
        }
    }
}

/// The program in a pseudo-terminal.
pub(crate) struct Terminal {
    /// None once it has vanished.
    master: Option<Box<dyn MasterPty + Send>>,
    /// Kept while the program runs, so that the terminal outlives it and can be examined.
    slave: Option<Box<dyn SlavePty + Send>>,
    child: Box<dyn Child + Send + Sync>,
    input: Box<dyn Write + Send>,
    seen: Arc<Seen>,
    reader: Option<JoinHandle<()>>,
    /// The line discipline's modes before the program ran.
    modes: String,
    /// Fewest columns that the terminal has had: it loses what it cuts off.
    fewest_columns: usize,
    /// The home that only this start has.
    _own_home: Option<Home>,
}

struct Seen {
    shown: Mutex<Shown>,
    changed: Condvar,
    /// Whether the terminal is to be read no further.
    ends: AtomicBool,
}

struct Shown {
    parser: Parser,
    /// Everything that was sent to the terminal.
    output: Vec<u8>,
    /// Whether a frame has begun and not ended.
    within_frame: bool,
}

impl Seen {
    fn read(&self, mut output: impl Read) {
        let mut bytes = [0; 65_536];
        // The terminal's end reads as an error or as nothing.
        while let Ok(count @ 1..) = output.read(&mut bytes) {
            self.shown.lock().unwrap().take(&bytes[..count]);
            self.changed.notify_all();
            if self.ends.load(Ordering::SeqCst) {
                return;
            }
        }
    }
}

impl Shown {
    fn take(&mut self, bytes: &[u8]) {
        self.parser.process(bytes);
        // What begins or ends a frame may have come in two parts.
        let from = self.output.len().saturating_sub(FRAME_BEGINS.len() - 1);
        self.output.extend_from_slice(bytes);
        let last =
            self.output[from..].windows(FRAME_BEGINS.len()).rfind(|part| *part == FRAME_BEGINS || *part == FRAME_ENDS);
        if let Some(last) = last {
            self.within_frame = last == FRAME_BEGINS;
        }
    }
}

/// How the program left the terminal.
pub(crate) struct Left {
    pub(crate) code: u32,
    /// Text of the main screen.
    pub(crate) text: String,
    /// Whether everything that the program changed is as before.
    pub(crate) restored: Result<(), String>,
    /// Everything that was sent to the terminal.
    pub(crate) output: Vec<u8>,
    before: &'static str,
}

/// The line discipline's modes.
fn modes(master: &(dyn MasterPty + Send)) -> String {
    format!("{:?}", master.get_termios())
}

fn cells(count: u16) -> NonZeroU16 {
    NonZeroU16::new(count).unwrap()
}

fn size(columns: u16, rows: u16) -> PtySize {
    PtySize { rows, cols: columns, pixel_width: 0, pixel_height: 0 }
}

/// What a screen shows, a line a row, each as wide as the screen.
pub(crate) fn rows(screen: &Screen) -> Vec<String> {
    let (_, columns) = screen.size();
    screen.rows(0, columns.get()).collect()
}

/// Whether `part` is somewhere in `bytes`.
pub(crate) fn contains(bytes: &[u8], part: &[u8]) -> bool {
    bytes.windows(part.len()).any(|window| window == part)
}

impl Terminal {
    /// Starts the program with a light engine in a terminal of this size, with a home of its own.
    pub(crate) fn open(columns: u16, rows: u16, arguments: &[&str]) -> Self {
        Start::engine(columns, rows, arguments).open()
    }

    fn master(&self) -> &(dyn MasterPty + Send) {
        self.master.as_deref().unwrap()
    }

    /// Types.
    pub(crate) fn keys(&mut self, keys: &str) {
        self.input.write_all(keys.as_bytes()).unwrap();
        self.input.flush().unwrap();
    }

    /// Types a line after `:` and enters it.
    pub(crate) fn line(&mut self, line: &str) {
        self.keys(&format!(":{line}\r"));
    }

    /// Presses the left button where the screen shows a word, and lets go.
    pub(crate) fn click(&mut self, word: &str) {
        self.shows(&[word]);
        let shown = self.seen.shown.lock().unwrap();
        let rows = rows(shown.parser.screen());
        let (row, text) = rows.iter().enumerate().find(|(_, text)| text.contains(word)).unwrap();
        let column = text[..text.find(word).unwrap()].chars().count() + 1;
        drop(shown);
        let at = format!("{column};{}", row + 1);
        self.keys(&format!("\x1b[<0;{at}M\x1b[<0;{at}m"));
    }

    /// Gives the terminal another size, as dragging its corner does.
    pub(crate) fn resize(&mut self, columns: u16, rows: u16) {
        self.fewest_columns = self.fewest_columns.min(columns.into());
        // The emulator first: what the program draws for the new size must find it.
        self.seen.shown.lock().unwrap().parser.set_size(cells(rows), cells(columns));
        self.master().resize(size(columns, rows)).unwrap();
    }

    /// Sends what was started a signal.
    pub(crate) fn signal(&self, signal: Signal) {
        let pid = self.child.process_id().and_then(|pid| Pid::from_raw(pid as i32));
        kill_process(pid.unwrap(), signal).unwrap();
    }

    /// Bytes sent to the terminal so far.
    pub(crate) fn sent(&self) -> usize {
        self.seen.shown.lock().unwrap().output.len()
    }

    /// What the whole screen shows now.
    pub(crate) fn rows(&self) -> Vec<String> {
        rows(self.seen.shown.lock().unwrap().parser.screen())
    }

    /// Waits until, between two frames, something holds of the screen and of all that was sent.
    fn wait_for(&mut self, wish: &str, holds: impl Fn(&Screen, &[u8]) -> bool) {
        let end = Instant::now() + PATIENCE;
        let mut shown = self.seen.shown.lock().unwrap();
        while shown.within_frame || !holds(shown.parser.screen(), &shown.output) {
            let left = end.saturating_duration_since(Instant::now());
            // What ended will not draw any more; but what it drew last may still have to be read.
            let ended = self.child.try_wait().unwrap();
            if left.is_zero() || ended.is_some() {
                panic!("waited in vain for {wish} (ended: {ended:?}):\n{}", shown.parser.screen().contents());
            }
            shown = self.seen.changed.wait_timeout(shown, left.min(Duration::from_secs(1))).unwrap().0;
        }
    }

    /// Waits until the screen is as wished.
    pub(crate) fn wait(&mut self, wish: &str, holds: impl Fn(&Screen) -> bool) {
        self.wait_for(wish, |screen, _| holds(screen));
    }

    /// Waits until these bytes were sent, after the first `from`.
    pub(crate) fn sends(&mut self, from: usize, bytes: &[u8]) {
        let wish = format!("{:?} in the output", String::from_utf8_lossy(bytes));
        self.wait_for(&wish, |_, output| contains(&output[from..], bytes));
    }

    /// Waits until the screen shows every one of these words.
    pub(crate) fn shows(&mut self, words: &[&str]) {
        self.wait(&format!("{words:?}"), |screen| {
            let text = screen.contents();
            words.iter().all(|word| text.contains(word))
        });
    }

    /// Waits until a message says every one of these words, however they are broken into rows.
    pub(crate) fn says(&mut self, words: &[&str]) {
        let dense = |text: &str| text.split_whitespace().collect::<String>();
        let wished: Vec<_> = words.iter().map(|word| dense(word)).collect();
        self.wait(&format!("{words:?}"), |screen| {
            let text = dense(&screen.contents());
            wished.iter().all(|word| text.contains(word))
        });
    }

    /// Waits until the screen no longer shows a word.
    pub(crate) fn hides(&mut self, word: &str) {
        self.wait(&format!("the end of {word:?}"), |screen| !screen.contents().contains(word));
    }

    /// Waits until the last line shows a word.
    pub(crate) fn last_line_shows(&mut self, word: &str) {
        self.wait(&format!("{word:?} in the last line"), |screen| {
            rows(screen).last().is_some_and(|line| line.contains(word))
        });
    }

    /// Waits until the terminal is the shell's again, and shows a word.
    pub(crate) fn hands_back(&mut self, word: &str) {
        self.shows(&[word]);
        assert_eq!(self.restored(&modes(self.master())), Ok(()), "{:?}", self.rows());
    }

    /// What is left at least of what the shell had written before.
    fn before(&self) -> &'static str {
        &BEFORE[..self.fewest_columns.min(BEFORE.len())]
    }

    /// Whether everything that the program changes of a terminal is as before, given its modes now.
    fn restored(&self, modes: &str) -> Result<(), String> {
        let shown = self.seen.shown.lock().unwrap();
        let screen = shown.parser.screen();
        let checks = [
            ("the alternate screen is left", !screen.alternate_screen()),
            ("the cursor is shown", !screen.hide_cursor()),
            ("the mouse is released", screen.mouse_protocol_mode() == MouseProtocolMode::None),
            ("pastes are not bracketed", !screen.bracketed_paste()),
            ("keys are normal", !screen.application_cursor() && !screen.application_keypad()),
            ("colours are the terminal's", screen.fgcolor() == vt100::Color::Default && !screen.inverse()),
            ("the line discipline is as before", modes == self.modes),
            ("no frame is open", !shown.within_frame),
            ("the main screen begins as before", screen.contents().starts_with(self.before())),
        ];
        let failed: Vec<&str> = checks.iter().filter(|(_, holds)| !holds).map(|(check, _)| *check).collect();
        if failed.is_empty() { Ok(()) } else { Err(format!("does not hold: {}", failed.join(", "))) }
    }

    /// Waits for the end of what was started, and gives its exit code.
    fn code(&mut self) -> u32 {
        let end = Instant::now() + PATIENCE;
        loop {
            if let Some(status) = self.child.try_wait().unwrap() {
                assert_eq!(status.signal(), None, "a signal ended it");
                return status.exit_code();
            }
            let shown = self.seen.shown.lock().unwrap();
            assert!(Instant::now() < end, "the program does not end:\n{}", shown.parser.screen().contents());
            drop(self.seen.changed.wait_timeout(shown, LOOK).unwrap());
        }
    }

    /// Waits for the program's end.
    pub(crate) fn left(mut self) -> Left {
        let code = self.code();
        let modes = modes(self.master());
        // With the last user of the terminal gone, the reader comes to its end.
        drop(self.slave.take());
        self.reader.take().unwrap().join().unwrap();
        let restored = self.restored(&modes);
        let mut shown = self.seen.shown.lock().unwrap();
        let output = std::mem::take(&mut shown.output);
        Left { code, text: shown.parser.screen().contents(), restored, output, before: self.before() }
    }

    /// Takes the terminal away while the program draws on it, and gives the program's exit code.
    pub(crate) fn vanish(mut self) -> u32 {
        self.seen.ends.store(true, Ordering::SeqCst);
        // Ends with the next thing that is drawn.
        self.reader.take().unwrap().join().unwrap();
        self.slave = None;
        self.input = Box::new(std::io::sink());
        self.master = None;
        self.code()
    }
}

impl Left {
    /// Asserts the exit code, and that the terminal is as it was, without a character more.
    pub(crate) fn assert_clean(&self, code: u32) {
        self.assert_restored(code);
        let text = self.text.trim_end();
        assert!(BEFORE.starts_with(text) && text.starts_with(self.before), "{text}");
    }

    /// Asserts the exit code, and that the terminal is as it was, but for what was printed.
    pub(crate) fn assert_restored(&self, code: u32) {
        assert_eq!(self.restored, Ok(()), "{}", self.text);
        assert_eq!(self.code, code, "{}", self.text);
    }

    /// What was printed after the program was started.
    pub(crate) fn printed(&self) -> Cow<'_, str> {
        self.text.strip_prefix(self.before).unwrap_or(&self.text).trim().into()
    }
}

impl Drop for Terminal {
    fn drop(&mut self) {
        // A failed test leaves nothing behind. A program that has ended is not there to be killed.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
