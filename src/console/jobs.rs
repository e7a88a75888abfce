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

/// A job that has ended.
struct Ended {
    outcome: Outcome,
    awaited: bool,
}

/// Jobs that run beside the console. Dropping them waits for those that write.
pub(super) struct Jobs {
    sender: Sender<Ended>,
    receiver: Receiver<Ended>,
    /// Jobs that somebody waits for.
    awaited: usize,
    writing: Vec<JoinHandle<()>>,
    waker: Option<Waker>,
}

impl Default for Jobs {
    fn default() -> Self {
        let (sender, receiver) = channel();
        Self { sender, receiver, awaited: 0, writing: Vec::new(), waker: None }
    }
}

impl Jobs {
    /// What to call when a job has ended.
    pub(super) fn set_waker(&mut self, waker: Waker) {
        self.waker = Some(waker);
    }

    /// Whether any job still runs that somebody waits for.
    pub(super) fn busy(&self) -> bool {
        self.awaited > 0
    }

    /// Starts a job that only reads: nothing is lost if the console ends before it does.
    pub(super) fn read(&mut self, job: impl FnOnce() -> Outcome + Send + 'static) {
        // What it brings comes through the channel.
        drop(self.start(true, job));
    }

    /// Starts a job that only reads, and that no macro waits for.
    pub(super) fn look(&mut self, job: impl FnOnce() -> Outcome + Send + 'static) {
        drop(self.start(false, job));
    }

    /// Starts a job that writes.
    pub(super) fn finish(&mut self, job: impl FnOnce() -> Outcome + Send + 'static) {
        self.writing.retain(|thread| !thread.is_finished());
        let thread = self.start(true, job);
        self.writing.extend(thread);
    }

    fn start(&mut self, awaited: bool, job: impl FnOnce() -> Outcome + Send + 'static) -> Option<JoinHandle<()>> {
        let (sender, waker) = (self.sender.clone(), self.waker.clone());
        let run = move || {
            let outcome = Err("A thread that works on a file has panicked.".to_owned());
            let report = Report { sender, waker, ended: Ended { outcome, awaited } };
            report.with(job());
        };
        self.awaited += usize::from(awaited);
        let spawned = thread::Builder::new().name("file".to_owned()).spawn(run);
        spawned
            .inspect_err(|error| {
                let outcome = Err(format!("No thread could be started: {error}."));
                let _ = self.sender.send(Ended { outcome, awaited });
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
        self.awaited -= usize::from(ended.awaited);
        Some(ended.outcome)
    }
}

/// Says what came of a job, also when it panics.
struct Report {
    sender: Sender<Ended>,
    waker: Option<Waker>,
    ended: Ended,
}

impl Report {
    fn with(mut self, outcome: Outcome) {
        self.ended.outcome = outcome;
    }
}

impl Drop for Report {
    fn drop(&mut self) {
        let outcome = std::mem::replace(&mut self.ended.outcome, Err(String::new()));
        // The console may have ended meanwhile.
        let _ = self.sender.send(Ended { outcome, awaited: self.ended.awaited });
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
