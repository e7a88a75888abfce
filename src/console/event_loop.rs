//! The loop around the app: keys, signals, the target's waker and frames. Nothing in it blocks.

use std::{
    future,
    io::{self, Write},
    sync::Arc,
    time::{Duration, Instant},
};

use crossterm::event::Event as TerminalEvent;
use rustix::{
    process::{Signal, getpgrp, getpid, getsid, kill_current_process_group, kill_process},
    termios::tcgetpgrp,
};
use tokio::{
    runtime,
    signal::unix::{Signal as SignalStream, SignalKind, signal},
    sync::Notify,
    task::yield_now,
    time::{self, sleep_until},
};

use super::{
    App, Arrangement, ConsoleError, ConsoleOptions, Exit, Target,
    app::Request,
    jobs::Waker,
    keyboard::Keyboard,
    terminal::{PanicGuard, Screen},
};

/// How long a job that is continued in the background waits for a signal that came with that.
const SETTLE: Duration = Duration::from_millis(50);

/// Runs the console; see [`super::run`].
pub(super) fn run(target: Target, options: ConsoleOptions) -> Result<(Exit, Arrangement), ConsoleError> {
    let runtime = runtime::Builder::new_current_thread().enable_all().build()?;
    let wake = Arc::new(Notify::new());
    let noticed = Arc::clone(&wake);
    let guard = PanicGuard::install(move || noticed.notify_one());
    let (mouse, frames) = (options.mouse, options.frames_per_second);
    let mut app = App::new(target, options);
    let woken = Arc::clone(&wake);
    let waker: Waker = Arc::new(move || woken.notify_one());
    app.set_waker(waker);
    let result = runtime.block_on(serve(&mut app, mouse, frames, &wake, &guard));
    let arrangement = app.arrangement();
    // So that its index is written.
    let recorded = app.finish_recording();
    // Waits for what is being written.
    drop(app);
    // Now that the terminal is the shell's again, what could not be printed before is.
    for panic in guard.since(0) {
        // Standard error may have gone with the terminal.
        let _ = writeln!(io::stderr(), "{panic}");
    }
    match result {
        Err(error) if is_gone(&error) => recorded.map(|()| (Exit::TerminalGone, arrangement)).map_err(Into::into),
        result => {
            let exit = result?;
            recorded?;
            Ok((exit, arrangement))
        }
    }
}

async fn serve(
    app: &mut App,
    mouse: bool,
    frames_per_second: u16,
    wake: &Arc<Notify>,
    guard: &PanicGuard,
) -> io::Result<Exit> {
    let mut signals = Signals::new()?;
    let mut screen = Screen::take(mouse)?;
    // Before anything is waited for: the engine may take its time.
    screen.draw(app)?;

    // What happened before there was a waker.
    wake.notify_one();
    let mut keyboard = Keyboard::start()?;
    let interval = Duration::from_secs(1) / u32::from(frames_per_second.clamp(1, 240));
    let mut next_frame = Instant::now() + interval;
    let mut more = false;
    let mut panics = 0;
    let mut own_stop = false;
    loop {
        if app.is_dirty() && Instant::now() >= next_frame {
            screen.draw(app)?;
            next_frame = Instant::now() + interval;
        }
        app.work();
        tokio::select! {
            biased;
            number = signals.next() => match number {
                // The one that `stop_job` sent to the whole job.
                Signal::TSTP if std::mem::take(&mut own_stop) => {}
                Signal::TSTP if has_shell() => stop_here(&mut screen, &mut keyboard)?,
                Signal::TSTP => app.warn(NO_SHELL.to_owned()),
                Signal::CONT if has_terminal() => {
                    // Also after a stop from outside, as the shell may have changed the terminal's modes.
                    screen.enter()?;
                    keyboard.resume();
                    app.resized();
                }
                // In the background nothing is drawn; but what ends it must not wait for the foreground.
                Signal::CONT => match time::timeout(SETTLE, signals.ends.next()).await {
                    Ok(end) => return Ok(ended_by(end)),
                    Err(_) => stop_here(&mut screen, &mut keyboard)?,
                },
                Signal::WINCH => {
                    // What a terminal cut off it may have lost, even if it has its old size again by now.
                    screen.repaint()?;
                    app.resized();
                }
                end => return Ok(ended_by(end)),
            },
            event = keyboard.next() => match event {
                None => return Ok(Exit::TerminalGone),
                Some(event) => take_event(app, event?),
            },
            () = wake.notified() => {
                for panic in guard.since(panics) {
                    panics += 1;
                    app.warn(panic);
                }
                more = app.fold();
            }
            () = yield_now(), if more => more = app.fold(),
            () = sleep_until(next_frame.into()), if app.is_dirty() => {}
            () = until(app.next_change()) => app.tick(),
        }
        match app.take_request() {
            None => {}
            Some(Request::Exit(exit)) => return Ok(exit),
            Some(Request::Repaint) => screen.repaint()?,
            Some(Request::Copy(text)) => screen.copy(&text)?,
            Some(Request::Suspend) if has_shell() => {
                own_stop = true;
                stop_job(&mut screen, &mut keyboard)?;
            }
            Some(Request::Suspend) => app.warn(NO_SHELL.to_owned()),
        }
    }
}

/// Why a suspension did not happen.
const NO_SHELL: &str = "There is no shell to suspend to.";

fn take_event(app: &mut App, event: TerminalEvent) {
    match event {
        TerminalEvent::Key(key) => app.key(key),
        TerminalEvent::Mouse(mouse) => app.mouse(mouse),
        TerminalEvent::Paste(text) => app.paste(&text),
        // The signal says so at once; the reader, only when something is typed.
        TerminalEvent::Resize(..) => {}
        TerminalEvent::FocusGained | TerminalEvent::FocusLost => {}
    }
}

async fn until(instant: Option<Instant>) {
    match instant {
        Some(instant) => time::sleep_until(instant.into()).await,
        None => future::pending().await,
    }
}

/// The end that a signal asks for.
fn ended_by(signal: Signal) -> Exit {
    tracing::info!(signal = signal.as_raw(), "asked to end");
    Exit::Signal(signal.as_raw())
}

struct Signals {
    ends: Ends,
    stop: SignalStream,
    cont: SignalStream,
    resized: SignalStream,
}

/// Signals that end the console.
struct Ends {
    terminate: SignalStream,
    hang_up: SignalStream,
    interrupt: SignalStream,
    quit: SignalStream,
}

impl Signals {
    fn new() -> io::Result<Self> {
        let raw = |number: Signal| signal(SignalKind::from_raw(number.as_raw()));
        let ends = Ends {
            terminate: raw(Signal::TERM)?,
            hang_up: raw(Signal::HUP)?,
            interrupt: raw(Signal::INT)?,
            quit: raw(Signal::QUIT)?,
        };
        Ok(Self { ends, stop: raw(Signal::TSTP)?, cont: raw(Signal::CONT)?, resized: raw(Signal::WINCH)? })
    }

    /// The next signal; of several, first what ends the console.
    async fn next(&mut self) -> Signal {
        tokio::select! {
            biased;
            end = self.ends.next() => end,
            _ = self.stop.recv() => Signal::TSTP,
            _ = self.cont.recv() => Signal::CONT,
            _ = self.resized.recv() => Signal::WINCH,
        }
    }
}

impl Ends {
    async fn next(&mut self) -> Signal {
        tokio::select! {
            _ = self.terminate.recv() => Signal::TERM,
            _ = self.hang_up.recv() => Signal::HUP,
            _ = self.interrupt.recv() => Signal::INT,
            _ = self.quit.recv() => Signal::QUIT,
        }
    }
}

/// Whether somebody could continue this process after a stop.
///
/// A shell with job control gives every job a process group of its own. In the group of the session's
/// leader there is none: a stop there would last until a signal came from elsewhere.
fn has_shell() -> bool {
    getsid(None).ok() != Some(getpgrp())
}

/// Stops the whole job, as the terminal does for Ctrl-Z when it is not in raw mode: `cargo run`
/// above must stop with it, or the shell would not notice. Returns when the shell continues it.
///
/// The terminal is handed back first. Once its other processes have stopped, the job is in the
/// background, where changing the terminal's modes would stop this process a second time.
fn stop_job(screen: &mut Screen, keyboard: &mut Keyboard) -> io::Result<()> {
    keyboard.pause();
    screen.leave();
    kill_current_process_group(Signal::TSTP)?;
    stop_here(screen, keyboard)
}

/// Stops this process only. The terminal is taken again when the loop hears of the signal that continues it.
fn stop_here(screen: &mut Screen, keyboard: &mut Keyboard) -> io::Result<()> {
    keyboard.pause();
    screen.leave();
    // Returns at SIGCONT.
    kill_process(getpid(), Signal::STOP)?;
    Ok(())
}

/// Whether the terminal is this job's: one in the background that changes its modes is stopped.
fn has_terminal() -> bool {
    // What has no terminal that controls it is in no background either.
    tcgetpgrp(io::stdin()).map_or(true, |group| group == getpgrp())
}

/// Whether an error says that there is no terminal any more.
fn is_gone(error: &io::Error) -> bool {
    matches!(error.kind(), io::ErrorKind::BrokenPipe | io::ErrorKind::UnexpectedEof)
        || error.raw_os_error() == Some(rustix::io::Errno::IO.raw_os_error())
}
