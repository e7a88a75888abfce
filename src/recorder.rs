//! Records a live target without holding anybody up: on a thread of its own, through a bounded queue.

use std::collections::VecDeque;
use std::io;
use std::mem;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use coalmine_sessions::recording::{Manifest, Recorded, RecordingError, RecordingWriter, Redaction};
use coalmine_sessions::{Event, EventKind, Gap, Hello, Sanitized, State};

use crate::engine::EngineOptions;

/// Events that wait to be written; telemetry is dropped from three quarters of it on.
const WAITING_EVENTS: usize = 65_536;
/// Bytes of events that wait to be written, likewise.
const WAITING_BYTES: usize = 64 << 20;
/// How often what has waited is looked at when nothing is said.
const TICK: Duration = Duration::from_millis(100);
/// Files that one recording may be split into.
const FILES: u32 = 10_000;

/// What a recording's manifest says of the target.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Origin {
    /// The target in words.
    pub target: Sanitized,
    /// The device in words.
    pub device: Sanitized,
    /// Seed of the workload and of the device's noise.
    pub seed: u64,
    /// CPU instruction-set level of the numerics.
    pub instruction_set: Sanitized,
}

impl From<&Hello> for Origin {
    fn from(hello: &Hello) -> Self {
        Self {
            target: Sanitized::new(&format!("{}, {}", hello.target, hello.model)),
            device: hello.device.clone(),
            seed: hello.seed,
            instruction_set: hello.instruction_set.clone(),
        }
    }
}

impl From<&EngineOptions> for Origin {
    fn from(options: &EngineOptions) -> Self {
        Self {
            target: Sanitized::new(&format!("embedded engine, {}", options.model)),
            device: Sanitized::new(&format!("virtual GPU, {}", options.profile.name)),
            seed: options.seed,
            instruction_set: Sanitized::new(options.compute.cpu.level()),
        }
    }
}

/// The manifest of a recording that begins now.
pub fn manifest_of(command_line: &str, origin: impl Into<Origin>, redaction: Redaction) -> Manifest {
    let Origin { target, device, seed, instruction_set } = origin.into();
    Manifest {
        command_line: Sanitized::new(command_line),
        target,
        device,
        seed,
        instruction_set,
        created: Sanitized::new(&jiff::Timestamp::now().strftime("%Y-%m-%dT%H:%M:%SZ").to_string()),
        coalmine: Sanitized::new(env!("CARGO_PKG_VERSION")),
        redaction,
    }
}

/// How a recording goes, over all of its files.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct RecorderStatus {
    /// The file that is being written.
    pub path: PathBuf,
    /// Events written.
    pub events: u64,
    /// Decode steps written.
    pub steps: u64,
    /// Bytes written out.
    pub bytes: u64,
    /// Events that the disk was too slow for, or that came after an error.
    pub dropped: u64,
    /// Why nothing is written any more, as a full sentence.
    pub error: Option<String>,
}

/// A recording being made. Dropping it finishes the file as well as it can be finished.
///
/// A hello that differs from the one before begins another stream, and with it another file: `run-2.mcap` after
/// `run.mcap`.
///
/// ```
/// use std::sync::Arc;
///
/// use coalmine::recorder::Recorder;
/// use coalmine_sessions::recording::{Manifest, Recording};
/// use coalmine_sessions::{Event, EventKind, State, Step};
///
/// # let directory = std::env::temp_dir().join(format!("coalmine-recorder-{}", std::process::id()));
/// # std::fs::create_dir_all(&directory)?;
/// let path = directory.join("run.mcap");
/// let recorder = Recorder::start(&path, Manifest::default(), &State::default())?;
/// for step in 0..3 {
///     let kind = EventKind::Step(Step { step, rows: 80, ..Step::default() });
///     recorder.record(&Arc::new(Event { sequence: step, time_ns: step * 1_000, kind }));
/// }
/// assert_eq!(recorder.finish()?.steps, 3);
/// assert_eq!(Recording::open(&path)?.0.state_at(1)?.totals.tokens, 160);
/// # std::fs::remove_dir_all(&directory)?;
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub struct Recorder {
    shared: Arc<Shared>,
    thread: Option<JoinHandle<Result<Recorded, RecordingError>>>,
}

impl Recorder {
    /// Begins a recording with what is known of the target, `state`; the events to record are those after it.
    ///
    /// # Errors
    /// When the file exists already or cannot be created, and when the operating system gives no thread.
    pub fn start(path: &Path, manifest: Manifest, state: &State) -> Result<Self, RecordingError> {
        let writer = RecordingWriter::begin(path, manifest.clone(), state)?;
        let status = RecorderStatus { path: path.to_owned(), ..RecorderStatus::default() };
        let shared = Arc::new(Shared {
            queue: Mutex::new(Queue { status, ..Queue::new(WAITING_EVENTS, WAITING_BYTES) }),
            arrived: Condvar::new(),
        });
        let scribe = Scribe {
            writer: Some(writer),
            hello: state.hello.clone(),
            manifest,
            first_path: path.to_owned(),
            path: path.to_owned(),
            files: 1,
            earlier: Recorded { events: 0, steps: 0, bytes: 0 },
        };
        let spawned = {
            let shared = Arc::clone(&shared);
            thread::Builder::new().name("recorder".to_owned()).spawn(move || scribe.run(&shared))
        };
        let thread = spawned.map_err(|source| failed(path, "start a thread to write", source))?;
        Ok(Self { shared, thread: Some(thread) })
    }

    /// Hands an event on to be written. Never waits for the disk: what it is too slow for is dropped, telemetry first,
    /// and a gap with the number of events is written in its place.
    pub fn record(&self, event: &Arc<Event>) {
        let mut queue = self.shared.queue();
        let idle = queue.waiting.is_empty();
        queue.push(event, Instant::now());
        drop(queue);
        if idle {
            self.shared.arrived.notify_one();
        }
    }

    /// How it goes.
    pub fn status(&self) -> RecorderStatus {
        self.shared.queue().status.clone()
    }

    /// Writes out everything and the index.
    ///
    /// # Errors
    /// What went wrong first; then the file ends there.
    pub fn finish(mut self) -> Result<Recorded, RecordingError> {
        let path = self.status().path;
        let panicked = || failed(&path, "write", io::Error::other("the recorder's thread panicked"));
        self.end().unwrap_or_else(|| Err(panicked()))
    }

    /// What came of it; nothing if the thread panicked.
    fn end(&mut self) -> Option<Result<Recorded, RecordingError>> {
        self.shared.queue().closing = true;
        self.shared.arrived.notify_one();
        self.thread.take()?.join().ok()
    }
}

impl Drop for Recorder {
    fn drop(&mut self) {
        let _ = self.end();
    }
}

struct Shared {
    queue: Mutex<Queue>,
    /// That an event has come, or that none will.
    arrived: Condvar,
}

impl Shared {
    fn queue(&self) -> MutexGuard<'_, Queue> {
        // No code that could leave the queue half changed panics while holding the lock.
        self.queue.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// What waits to be written.
struct Queue {
    waiting: VecDeque<Waiting>,
    /// Of what waits and of what is being written.
    events: usize,
    /// Likewise.
    bytes: usize,
    most_events: usize,
    most_bytes: usize,
    closing: bool,
    status: RecorderStatus,
}

struct Waiting {
    event: Arc<Event>,
    came: Instant,
    /// Whether it is a gap in the place of events that were dropped here.
    stands_in: bool,
}

impl Queue {
    fn new(most_events: usize, most_bytes: usize) -> Self {
        Self {
            waiting: VecDeque::new(),
            events: 0,
            bytes: 0,
            most_events,
            most_bytes,
            closing: false,
            status: RecorderStatus::default(),
        }
    }

    fn push(&mut self, event: &Arc<Event>, came: Instant) {
        let weight = event.weight();
        let of = if event.kind.is_telemetry() { 3 } else { 4 };
        let full = self.events >= self.most_events / 4 * of || self.bytes + weight > self.most_bytes / 4 * of;
        if full || self.status.error.is_some() {
            self.lose(event, came);
            return;
        }
        self.events += 1;
        self.bytes += weight;
        self.waiting.push_back(Waiting { event: Arc::clone(event), came, stands_in: false });
    }

    fn lose(&mut self, event: &Event, came: Instant) {
        // A gap that was passed on stands for what was lost before.
        let lost = if let EventKind::Gap(gap) = &event.kind { gap.dropped } else { 1 };
        self.status.dropped += lost;
        if self.status.error.is_some() {
            return;
        }
        let before = match self.waiting.back() {
            Some(Waiting { event, stands_in: true, .. }) => match event.kind {
                EventKind::Gap(Gap { dropped }) => dropped,
                _ => 0,
            },
            _ => 0,
        };
        if before > 0 {
            self.waiting.pop_back();
        }
        let kind = EventKind::Gap(Gap { dropped: before + lost });
        let event = Arc::new(Event { sequence: event.sequence, time_ns: event.time_ns, kind });
        self.waiting.push_back(Waiting { event, came, stands_in: true });
    }

    /// All that waits. It counts as waiting until [`Queue::written`] is told of it.
    fn take(&mut self) -> VecDeque<Waiting> {
        mem::take(&mut self.waiting)
    }

    fn written(&mut self, waiting: &VecDeque<Waiting>) {
        for Waiting { event, .. } in waiting.iter().filter(|waiting| !waiting.stands_in) {
            self.events -= 1;
            self.bytes -= event.weight();
        }
    }
}

/// The thread's side.
struct Scribe {
    /// None between two files, and after an error.
    writer: Option<RecordingWriter>,
    /// What the target said that it is, as the reducer keeps it.
    hello: Option<Hello>,
    manifest: Manifest,
    first_path: PathBuf,
    path: PathBuf,
    files: u32,
    /// What the files before hold.
    earlier: Recorded,
}

impl Scribe {
    fn run(mut self, shared: &Shared) -> Result<Recorded, RecordingError> {
        loop {
            let mut queue = shared.queue();
            if queue.waiting.is_empty() && !queue.closing {
                queue = shared.arrived.wait_timeout(queue, TICK).unwrap_or_else(PoisonError::into_inner).0;
            }
            let waiting = queue.take();
            let closing = queue.closing && waiting.is_empty();
            drop(queue);

            let written = self.write(&waiting);
            let written = if closing { written.and_then(|()| self.finish_file()) } else { written };
            let mut queue = shared.queue();
            queue.written(&waiting);
            let recorded = self.recorded();
            let status = &mut queue.status;
            status.path.clone_from(&self.path);
            (status.events, status.steps, status.bytes) = (recorded.events, recorded.steps, recorded.bytes);
            if let Err(error) = written {
                status.error = Some(error.to_string());
                let unwritten = queue.take();
                queue.status.dropped += unwritten.iter().filter(|waiting| !waiting.stands_in).count() as u64;
                return Err(error);
            }
            if closing {
                return Ok(recorded);
            }
        }
    }

    fn write(&mut self, waiting: &VecDeque<Waiting>) -> Result<(), RecordingError> {
        for Waiting { event, came, .. } in waiting {
            if let EventKind::Hello(_) = event.kind {
                self.greet(event)?;
            }
            if let Some(writer) = &mut self.writer {
                writer.record(event, *came)?;
            }
        }
        self.writer.as_mut().map_or(Ok(()), |writer| writer.tick(Instant::now()))
    }

    /// Begins the next file if the target is another one than before.
    fn greet(&mut self, event: &Event) -> Result<(), RecordingError> {
        let mut state = State::default();
        state.apply(event);
        let before = mem::replace(&mut self.hello, state.hello);
        if let Some(hello) = &self.hello
            && before.is_some_and(|before| before != *hello)
        {
            let manifest = manifest_of(&self.manifest.command_line, hello, self.manifest.redaction);
            self.finish_file()?;
            self.begin_file(manifest)?;
        }
        Ok(())
    }

    fn finish_file(&mut self) -> Result<(), RecordingError> {
        if let Some(writer) = self.writer.take() {
            let recorded = writer.finish()?;
            self.earlier = sum(self.earlier, recorded);
        }
        Ok(())
    }

    fn begin_file(&mut self, manifest: Manifest) -> Result<(), RecordingError> {
        loop {
            self.files += 1;
            self.path = numbered(&self.first_path, self.files);
            match RecordingWriter::create(&self.path, manifest.clone()) {
                Ok(writer) => {
                    self.writer = Some(writer);
                    return Ok(());
                }
                // A name that is taken is passed over.
                Err(RecordingError::Exists { .. }) if self.files < FILES => {}
                Err(error) => return Err(error),
            }
        }
    }

    fn recorded(&self) -> Recorded {
        self.writer.as_ref().map_or(self.earlier, |writer| sum(self.earlier, writer.recorded()))
    }
}

fn sum(one: Recorded, other: Recorded) -> Recorded {
    Recorded { events: one.events + other.events, steps: one.steps + other.steps, bytes: one.bytes + other.bytes }
}

/// `run-2.mcap` of `run.mcap`.
fn numbered(path: &Path, number: u32) -> PathBuf {
    let mut name = path.file_stem().unwrap_or_default().to_owned();
    name.push(format!("-{number}"));
    if let Some(extension) = path.extension() {
        name.push(".");
        name.push(extension);
    }
    path.with_file_name(name)
}

fn failed(path: &Path, action: &'static str, source: io::Error) -> RecordingError {
    RecordingError::Io { path: path.to_owned(), action, source }
}

#[cfg(test)]
mod tests;
