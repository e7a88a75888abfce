//! A recording as the console shows it, as an [asciicast v3](https://docs.asciinema.org/manual/asciicast/v3/) file.

use std::{
    cell::RefCell,
    io::{self, Write},
    path::Path,
    rc::Rc,
    sync::{
        Arc,
        mpsc::{Receiver, channel},
    },
    time::Duration,
};

use coalmine_sessions::recording::RecordingError;
use crossterm::style;
use ratatui::{Terminal, TerminalOptions, Viewport, backend::CrosstermBackend, layout::Rect};

use crate::{
    console::{App, ConsoleOptions, Target},
    playback::{ReplayHandle, ReplayRequest},
};

/// Frames a second of the cast.
const FRAMES: f64 = 10.0;
/// How long a cast lasts whose speed was left open, s.
const USUAL_SECONDS: f64 = 60.0;
/// How long one step may take to be read.
const PATIENCE: Duration = Duration::from_secs(60);
/// Frames of one cast.
const MOST_FRAMES: u64 = 36_000;

/// Why a cast could not be made.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum CastError {
    /// The recording cannot be read.
    #[error(transparent)]
    Recording(#[from] RecordingError),
    /// The cast cannot be written.
    #[error("the cast cannot be written: {0}")]
    Write(#[from] io::Error),
    /// It would be longer than anybody looks at.
    #[error("at this speed the cast would last {seconds:.0} s; it may last {} s at most", MOST_FRAMES as f64 / FRAMES)]
    TooLong {
        /// How long it would last.
        seconds: f64,
    },
}

/// Writes the console playing a recording, on a screen of so many columns and rows, `speed` times faster than its
/// target was on its own clock; by default so that it lasts a minute.
///
/// # Errors
/// When the recording cannot be read or the cast cannot be written.
pub fn write(
    path: &Path,
    (columns, rows): (u16, u16),
    speed: Option<f64>,
    mut out: impl Write,
) -> Result<(), CastError> {
    let (handle, ..) = ReplayHandle::open(path)?;
    let (first, last) = (handle.first_step(), handle.last_step());
    let mut player = Player::new(handle, columns, rows)?;
    let end_ns = player.at(ReplayRequest::Step(last));
    let start_ns = player.at(ReplayRequest::Step(first));
    let length = end_ns.saturating_sub(start_ns) as f64 / 1e9;
    let seconds = speed.map_or(USUAL_SECONDS, |speed| length / speed);
    let frames = (seconds * FRAMES).ceil().max(1.0) as u64;
    if frames > MOST_FRAMES {
        return Err(CastError::TooLong { seconds });
    }
    let header = serde_json::json!({
        "version": 3,
        "term": { "cols": columns, "rows": rows },
        "title": "coalmine",
    });
    writeln!(out, "{header}")?;
    for frame in 0..=frames {
        let time_ns = start_ns + (length * 1e9 * frame as f64 / frames as f64) as u64;
        player.at(ReplayRequest::Time(time_ns));
        let mut drawn = player.draw()?;
        if frame == 0 {
            // The console has no cursor.
            drawn.insert_str(0, "\u{1b}[?25l");
        }
        let interval = if frame == 0 { 0.0 } else { 1.0 / FRAMES };
        writeln!(out, "{}", serde_json::json!([interval, "o", drawn]))?;
    }
    Ok(out.flush()?)
}

/// The console on a screen that is a piece of memory.
struct Player {
    app: App,
    woken: Receiver<()>,
    terminal: Terminal<CrosstermBackend<Screen>>,
    screen: Screen,
}

impl Player {
    fn new(handle: ReplayHandle, columns: u16, rows: u16) -> Result<Self, CastError> {
        // A cast has its colours whatever the terminal that it is made from.
        style::force_color_output(true);
        let screen = Screen::default();
        let viewport = Viewport::Fixed(Rect::new(0, 0, columns, rows));
        let terminal =
            Terminal::with_options(CrosstermBackend::new(Screen::clone(&screen)), TerminalOptions { viewport })?;
        let mut app = App::new(Target::Replay(handle), ConsoleOptions::default());
        let (wake, woken) = channel();
        app.set_waker(Arc::new(move || {
            // The player may have gone meanwhile.
            let _ = wake.send(());
        }));
        Ok(Self { app, woken, terminal, screen })
    }

    /// Goes to a place and says what time it is there, ns on the target's clock.
    fn at(&mut self, request: ReplayRequest) -> u64 {
        self.app.ask_replay(request);
        while !self.app.settled() {
            // Woken or not, what there is to see is looked at: a thread that died never wakes anybody.
            if self.woken.recv_timeout(PATIENCE).is_err() {
                break;
            }
            self.app.fold();
        }
        self.app.state().time_ns
    }

    /// What a terminal has to be sent to show what is so now.
    fn draw(&mut self) -> io::Result<String> {
        self.terminal.draw(|frame| self.app.draw(frame.area(), frame.buffer_mut()))?;
        let bytes = self.screen.0.take();
        Ok(String::from_utf8_lossy(&bytes).into_owned())
    }
}

/// What was drawn and not yet taken.
#[derive(Clone, Default)]
struct Screen(Rc<RefCell<Vec<u8>>>);

impl Write for Screen {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0.borrow_mut().extend_from_slice(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}
