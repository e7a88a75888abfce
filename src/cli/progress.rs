//! Says that something goes on that takes its time.

use std::io::{IsTerminal, Write, stderr};
use std::sync::mpsc::{RecvTimeoutError, channel};
use std::thread;
use std::time::{Duration, Instant};

/// After so long, and again each time so long has passed, a person wants to know.
const INTERVAL: Duration = Duration::from_secs(1);

/// Does something; if it takes more than a second, a line on the terminal says so until it is done.
pub(super) fn while_doing<T>(what: &str, task: impl FnOnce() -> T) -> T {
    if !stderr().is_terminal() {
        return task();
    }
    let (done, wait) = channel::<()>();
    thread::scope(|scope| {
        scope.spawn(move || {
            let begin = Instant::now();
            let mut said = false;
            while wait.recv_timeout(INTERVAL) == Err(RecvTimeoutError::Timeout) {
                said = true;
                // It is only a comfort.
                let _ = write!(stderr(), "\r\x1b[K{what}: {} s", begin.elapsed().as_secs());
            }
            if said {
                let _ = write!(stderr(), "\r\x1b[K");
            }
        });
        let result = task();
        drop(done);
        result
    })
}
