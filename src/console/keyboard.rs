//! What is typed, read on a thread of its own, so that nothing that is typed can hold the console.
//!
//! Crossterm waits within a read for the rest of a sequence that has begun, and Alt-[ begins one. Here that holds this
//! thread only, and Ctrl-\ is no key but a signal. It is built with `use-dev-tty`, whose reader asks the terminal anew what
//! there is to read: the other one forgets keys that come together with a change of size.

use std::{
    io,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    thread::{self, Thread},
    time::{Duration, Instant},
};

use crossterm::event::{self, Event};
use rustix::{
    event::{PollFd, PollFlags, poll},
    io::Errno,
};
use tokio::sync::mpsc::{Receiver, Sender, channel};

/// Events that are read ahead; more of them wait in the terminal.
const AHEAD: usize = 256;
/// How long the reader looks for what there is. One that has run out of time passes over what it has read already.
const LOOK: Duration = Duration::from_millis(10);
/// How often a pause asks whether the reader has come to its end.
const ASK: Duration = Duration::from_millis(1);
/// How long a pause waits for a reader that may be in the middle of a sequence.
const FORGETTING: Duration = Duration::from_millis(100);

/// Keys, pastes and the pointer, as they come.
pub(super) struct Keyboard {
    events: Receiver<io::Result<Event>>,
    told: Arc<Told>,
    thread: Thread,
}

/// What the thread is told.
#[derive(Default)]
struct Told {
    /// The terminal is somebody else's for now.
    paused: AtomicBool,
    ends: AtomicBool,
    /// Said by the thread: it reads, or hands over what it has read.
    busy: AtomicBool,
}

impl Keyboard {
    /// Begins to read.
    ///
    /// # Errors
    /// When no thread can be started.
    pub(super) fn start() -> io::Result<Self> {
        let (sender, events) = channel(AHEAD);
        let told = Arc::<Told>::default();
        let hears = Arc::clone(&told);
        let spawned = thread::Builder::new().name("keyboard".to_owned()).spawn(move || read(&sender, &hears))?;
        Ok(Self { events, told, thread: spawned.thread().clone() })
    }

    /// Leaves what is typed to the shell, and forgets what was read ahead: it was not typed for what comes after.
    pub(super) fn pause(&mut self) {
        self.told.paused.store(true, Ordering::SeqCst);
        let end = Instant::now() + FORGETTING;
        loop {
            while self.events.try_recv().is_ok() {}
            if !self.told.busy.load(Ordering::SeqCst) || Instant::now() > end {
                break;
            }
            thread::sleep(ASK);
        }
    }

    /// Reads on after [`Self::pause`].
    pub(super) fn resume(&mut self) {
        self.told.paused.store(false, Ordering::SeqCst);
        self.thread.unpark();
    }

    /// The next event; `None` once the terminal is gone. Nothing is lost if this is dropped before it is ready.
    pub(super) async fn next(&mut self) -> Option<io::Result<Event>> {
        self.events.recv().await
    }
}

impl Drop for Keyboard {
    fn drop(&mut self) {
        // What is typed from now on is for the shell: the thread, which may wait until the process ends, leaves it.
        self.told.ends.store(true, Ordering::SeqCst);
    }
}

fn read(sender: &Sender<io::Result<Event>>, told: &Told) {
    loop {
        let waited = wait();
        // Said before it is asked whether this is wanted, so that whoever pauses sees one of both.
        told.busy.store(true, Ordering::SeqCst);
        while told.paused.load(Ordering::SeqCst) {
            told.busy.store(false, Ordering::SeqCst);
            thread::park();
            told.busy.store(true, Ordering::SeqCst);
        }
        match waited {
            Ok(true) if !told.ends.load(Ordering::SeqCst) => {}
            Ok(_) => return,
            Err(error) => {
                // Nobody listens any more, or is told.
                let _ = sender.blocking_send(Err(error));
                return;
            }
        }
        while let Some(event) = next() {
            if told.paused.load(Ordering::SeqCst) {
                continue;
            }
            let failed = event.is_err();
            if sender.blocking_send(event).is_err() || failed {
                return;
            }
        }
        told.busy.store(false, Ordering::SeqCst);
    }
}

/// Waits until there is something to read; `false` once the terminal is gone.
fn wait() -> io::Result<bool> {
    let stdin = io::stdin();
    loop {
        let mut watched = [PollFd::new(&stdin, PollFlags::IN)];
        match poll(&mut watched, None) {
            Err(Errno::INTR) => {}
            Err(error) => return Err(error.into()),
            Ok(_) => return Ok(watched[0].revents() == PollFlags::IN),
        }
    }
}

/// What there is to read.
fn next() -> Option<io::Result<Event>> {
    // Twice: this thread may have been kept from running for as long as the first look took.
    for _ in 0..2 {
        match event::poll(LOOK) {
            Ok(false) => {}
            Ok(true) => return Some(event::read()),
            Err(error) => return Some(Err(error)),
        }
    }
    None
}
