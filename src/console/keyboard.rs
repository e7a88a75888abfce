//! What is typed, read on a thread of its own, so that nothing that is typed can hold the console.
//!
//! Crossterm waits within a read for the rest of a sequence that has begun, and Alt-[ begins one. Here that holds this
//! thread only. It is built with `use-dev-tty`, whose reader asks the terminal anew what there is to read: the other one
//! forgets keys that come together with a change of size.

use std::{
    io,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    thread,
    time::Duration,
};

use crossterm::event::{self, Event};
use rustix::{
    event::{PollFd, PollFlags, poll},
    io::Errno,
};
use tokio::sync::mpsc::{Receiver, Sender, channel};

/// Events that are read ahead; more of them wait in the terminal.
const AHEAD: usize = 256;
/// How long the reader looks for what there is: it does not look at all when it is given no time.
const LOOK: Duration = Duration::from_millis(1);

/// Keys, pastes and the pointer, as they come.
pub(super) struct Keyboard {
    events: Receiver<io::Result<Event>>,
    ends: Arc<AtomicBool>,
}

impl Keyboard {
    /// Begins to read.
    ///
    /// # Errors
    /// When no thread can be started.
    pub(super) fn start() -> io::Result<Self> {
        let (sender, events) = channel(AHEAD);
        let ends = Arc::new(AtomicBool::new(false));
        let told = Arc::clone(&ends);
        thread::Builder::new().name("keyboard".to_owned()).spawn(move || read(&sender, &told))?;
        Ok(Self { events, ends })
    }

    /// The next event; `None` once the terminal is gone. Nothing is lost if this is dropped before it is ready.
    pub(super) async fn next(&mut self) -> Option<io::Result<Event>> {
        self.events.recv().await
    }
}

impl Drop for Keyboard {
    fn drop(&mut self) {
        // What is typed from now on is for the shell: the thread, which may wait until the process ends, leaves it.
        self.ends.store(true, Ordering::SeqCst);
    }
}

fn read(sender: &Sender<io::Result<Event>>, ends: &AtomicBool) {
    loop {
        match wait() {
            Ok(true) if !ends.load(Ordering::SeqCst) => {}
            Ok(_) => return,
            Err(error) => {
                // Nobody listens any more, or is told.
                let _ = sender.blocking_send(Err(error));
                return;
            }
        }
        while let Some(event) = next() {
            let failed = event.is_err();
            if sender.blocking_send(event).is_err() || failed {
                return;
            }
        }
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
    match event::poll(LOOK) {
        Ok(false) => None,
        Ok(true) => Some(event::read()),
        Err(error) => Some(Err(error)),
    }
}
