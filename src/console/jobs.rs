//! Files are read and written on threads of their own, so that no slow disk holds the screen.

use std::{
    path::{Path, PathBuf},
    sync::{
        Arc,
        mpsc::{Receiver, Sender, channel},
    },
    thread::{self, JoinHandle},
};

use coalmine_sessions::macros::Macro;

use super::completion::Files;

/// Wakes the loop around the app.
pub type Waker = Arc<dyn Fn() + Send + Sync>;

/// What a job has brought.
#[derive(Debug)]
pub(super) enum Done {
    /// A sentence to show.
    Said(String),
    /// A macro to play.
    Macro(Box<Macro>),
    /// The files of a directory.
    Files(Files),
}

/// What came of a job; an error is a sentence.
pub(super) type Outcome = Result<Done, String>;

/// Jobs that run beside the console. Dropping them waits for those that write.
pub(super) struct Jobs {
    sender: Sender<Outcome>,
    receiver: Receiver<Outcome>,
    running: usize,
    writing: Vec<JoinHandle<()>>,
    waker: Option<Waker>,
}

impl Default for Jobs {
    fn default() -> Self {
        let (sender, receiver) = channel();
        Self { sender, receiver, running: 0, writing: Vec::new(), waker: None }
    }
}

impl Jobs {
    /// What to call when a job has ended.
    pub(super) fn set_waker(&mut self, waker: Waker) {
        self.waker = Some(waker);
    }

    /// Whether any job still runs.
    pub(super) fn busy(&self) -> bool {
        self.running > 0
    }

    /// Starts a job that only reads: nothing is lost if the console ends before it does.
    pub(super) fn read(&mut self, job: impl FnOnce() -> Outcome + Send + 'static) {
        // What it brings comes through the channel.
        drop(self.start(job));
    }

    /// Starts a look at files that nothing waits for.
    pub(super) fn look(&mut self, job: impl FnOnce() -> Files + Send + 'static) {
        let (sender, waker) = (self.sender.clone(), self.waker.clone());
        let look = move || {
            // The console may have ended meanwhile.
            let _ = sender.send(Ok(Done::Files(job())));
            if let Some(waker) = waker {
                waker();
            }
        };
        // Without a thread there is nothing to see.
        let _ = thread::Builder::new().name("files".to_owned()).spawn(look);
    }

    /// Starts a job that writes.
    pub(super) fn finish(&mut self, job: impl FnOnce() -> Outcome + Send + 'static) {
        self.writing.retain(|thread| !thread.is_finished());
        let thread = self.start(job);
        self.writing.extend(thread);
    }

    fn start(&mut self, job: impl FnOnce() -> Outcome + Send + 'static) -> Option<JoinHandle<()>> {
        let (sender, waker) = (self.sender.clone(), self.waker.clone());
        let run = move || {
            let report =
                Report { sender, waker, outcome: Err("A thread that works on a file has panicked.".to_owned()) };
            report.with(job());
        };
        self.running += 1;
        let spawned = thread::Builder::new().name("file".to_owned()).spawn(run);
        spawned
            .inspect_err(|error| {
                let _ = self.sender.send(Err(format!("No thread could be started: {error}.")));
            })
            .ok()
    }

    /// Starts writing a file, in place of one of that name.
    pub(super) fn write(&mut self, path: &Path, bytes: impl FnOnce() -> Vec<u8> + Send + 'static) {
        let path = path.to_owned();
        self.finish(move || write(&path, &bytes()));
    }

    /// What has ended since the last call.
    pub(super) fn take_ended(&mut self) -> Option<Outcome> {
        let ended = self.receiver.try_recv().ok()?;
        if !matches!(ended, Ok(Done::Files(_))) {
            self.running -= 1;
        }
        Some(ended)
    }
}

/// Says what came of a job, also when it panics.
struct Report {
    sender: Sender<Outcome>,
    waker: Option<Waker>,
    outcome: Outcome,
}

impl Report {
    fn with(mut self, outcome: Outcome) {
        self.outcome = outcome;
    }
}

impl Drop for Report {
    fn drop(&mut self) {
        let outcome = std::mem::replace(&mut self.outcome, Err(String::new()));
        // The console may have ended meanwhile.
        let _ = self.sender.send(outcome);
        if let Some(waker) = &self.waker {
            waker();
        }
    }
}

impl Drop for Jobs {
    fn drop(&mut self) {
        for thread in self.writing.drain(..) {
            // One that panicked has said so.
            let _ = thread.join();
        }
    }
}

/// Writes a file whole or not at all, and says so.
fn write(path: &Path, bytes: &[u8]) -> Outcome {
    let cannot = |error: std::io::Error| format!("{} cannot be written: {error}.", path.display());
    let mut beside = PathBuf::from(path).into_os_string();
    beside.push(".part");
    let beside = PathBuf::from(beside);
    std::fs::write(&beside, bytes).map_err(cannot)?;
    if let Err(error) = std::fs::rename(&beside, path) {
        // What is left of it is of no use; if it cannot be removed either, the first error says more.
        let _ = std::fs::remove_file(&beside);
        return Err(cannot(error));
    }
    Ok(Done::Said(format!("{} is written.", path.display())))
}
