//! Writes a recording while its events happen.

use std::collections::VecDeque;
use std::fs::{File, OpenOptions};
use std::io::{self, BufWriter, Seek, SeekFrom, Write};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant, SystemTime};

use mcap::records::{MessageHeader, Metadata};
use mcap::{Attachment, McapError, WriteOptions};

use super::batch::OpenBatch;
use super::channel::Channel;
use super::container::RECORD_LIMIT;
use super::index::{Chunk, INDEX, Index};
use super::keyframe::{Keyframe, KeyframeMessage};
use super::manifest::MANIFEST;
use super::redaction::Redactor;
use super::{Manifest, RecordingError, Redaction};
use crate::limits::WINDOW_STEPS;
use crate::{Event, EventKind, State};

/// Most steps between keyframes.
pub const KEYFRAME_STEPS: u64 = 256;
/// Bytes before compression after which a keyframe is due anyway; more where keyframes are so large that they would make
/// up more than a fifth of the file.
pub const KEYFRAME_BYTES: usize = 4 << 20;
/// What is this old is written out with the next event or tick.
pub const FLUSH_AFTER: Duration = Duration::from_millis(500);
/// What is this large, before compression, is written out.
pub const FLUSH_BYTES: usize = 256 << 10;

/// Writes events to a file.
///
/// Nothing here waits or runs on its own: pass every event to [`RecordingWriter::record`], and call
/// [`RecordingWriter::tick`] when no events come. What was written out survives the process being killed.
///
/// ```
/// use coalmine_sessions::recording::{Manifest, Recording, RecordingWriter};
/// use coalmine_sessions::{Event, EventKind, Step};
///
/// # let directory = std::env::temp_dir().join(format!("coalmine-writer-{}", std::process::id()));
/// # std::fs::create_dir_all(&directory)?;
/// let path = directory.join("incident.mcap");
/// let mut writer = RecordingWriter::create(&path, Manifest { seed: 7, ..Manifest::default() })?;
/// for step in 0..3 {
///     let kind = EventKind::Step(Step { step, rows: 80, ..Step::default() });
///     writer.record(&Event { sequence: step, time_ns: step * 1_000, kind }, std::time::Instant::now())?;
/// }
/// writer.finish()?;
///
/// let (recording, recovery) = Recording::open(&path)?;
/// assert!(!recovery.truncated);
/// assert_eq!(recording.state_at(1)?.totals.tokens, 160);
/// # std::fs::remove_dir_all(&directory)?;
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub struct RecordingWriter {
    path: PathBuf,
    file: mcap::Writer<Counted<BufWriter<File>>>,
    /// Bytes given to the file so far.
    written: Arc<AtomicU64>,
    redactor: Option<Redactor>,
    /// What the events, redacted, fold to; without spans, which no keyframe holds.
    state: State,
    /// Steps of the batches of spans that the window holds, oldest first.
    span_steps: VecDeque<u64>,
    /// Whether the state that the recording begins with is still to be written.
    opens: bool,
    batch: OpenBatch,
    batches: u32,
    /// The chunk that is being filled, once it holds a message.
    chunk: Option<Chunk>,
    chunk_bytes: usize,
    /// Bytes of messages since the last keyframe.
    bytes_since_keyframe: usize,
    keyframe_bytes: usize,
    end_ns: u64,
    index: Index,
    clock: WallClock,
    /// When the last event arrived, by that clock.
    wall_ns: u64,
    /// When the oldest event arrived that is not written out.
    waiting_since: Option<Instant>,
    finished: bool,
}

/// What a recording holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Recorded {
    /// Events.
    pub events: u64,
    /// Decode steps.
    pub steps: u64,
    /// Size of the file.
    pub bytes: u64,
}

impl RecordingWriter {
    /// Begins a recording. The file must not exist; only its owner may read it.
    pub fn create(path: &Path, manifest: Manifest) -> Result<Self, RecordingError> {
        let mut options = OpenOptions::new();
        options.write(true).create_new(true);
        #[cfg(unix)]
        std::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o600);
        let file = options.open(path).map_err(|source| match source.kind() {
            io::ErrorKind::AlreadyExists => RecordingError::Exists { path: path.to_owned() },
            _ => RecordingError::Io { path: path.to_owned(), action: "create", source },
        })?;
        let written = Arc::default();
        let file = Counted { file: BufWriter::new(file), written: Arc::clone(&written) };
        let start = || {
            // A chunk is put together in memory and written at once, so that a kill cuts at most one.
            let options = WriteOptions::new()
                .profile("coalmine")
                .library(concat!("coalmine/", env!("CARGO_PKG_VERSION")))
                .chunk_size(None)
                .disable_seeking(true)
                .compression_threads(0);
            let mut file = options.create(file)?;
            file.write_metadata(&Metadata { name: MANIFEST.to_owned(), metadata: manifest.to_metadata() })?;
            file.flush()?;
            for channel in Channel::ALL {
                let id = channel.id();
                let schema = channel.schema();
                file.add_schema_with_id(id, &channel.schema_name(), "jsonschema", schema.as_bytes())?;
                file.add_channel_with_id(id, id, channel.topic(), "json", &Default::default())?;
            }
            Ok(file)
        };
        Ok(Self {
            file: start().map_err(|error| refused(path, error))?,
            path: path.to_owned(),
            written,
            redactor: (manifest.redaction == Redaction::Hashes).then(Redactor::new),
            state: State::default(),
            span_steps: VecDeque::new(),
            opens: false,
            batch: OpenBatch::default(),
            batches: 0,
            chunk: None,
            chunk_bytes: 0,
            bytes_since_keyframe: 0,
            keyframe_bytes: 0,
            end_ns: 0,
            index: Index::default(),
            clock: WallClock::read(),
            wall_ns: 0,
            waiting_since: None,
            finished: false,
        })
    }

    /// Begins a recording in the middle of a run: the file opens with what is known, but without the windows of steps
    /// and spans, at the step that is going on. That is written with the first event or tick. The events to record are
    /// those after the last that `state` has folded.
    pub fn begin(path: &Path, manifest: Manifest, state: &State) -> Result<Self, RecordingError> {
        let mut writer = Self::create(path, manifest)?;
        writer.state = state.without_windows();
        if let Some(redactor) = &writer.redactor {
            redactor.redact_state(&mut writer.state);
        }
        writer.batch.step = state.step;
        writer.opens = true;
        writer.wall_ns = writer.clock.ns;
        Ok(writer)
    }

    /// Adds an event, at `now` of wall time.
    pub fn record(&mut self, event: &Event, now: Instant) -> Result<(), RecordingError> {
        self.wall_ns = self.clock.at(now);
        let redactor = self.redactor.take();
        let redacted = redactor.as_ref().map(|redactor| redactor.redact(event));
        let added = self.add(redacted.as_deref().unwrap_or(event));
        self.redactor = redactor;
        added?;
        self.waiting_since.get_or_insert(now);
        self.tick(now)
    }

    /// Writes out what has waited for [`FLUSH_AFTER`].
    pub fn tick(&mut self, now: Instant) -> Result<(), RecordingError> {
        match self.waiting_since {
            _ if self.opens => self.flush(),
            Some(since) if now.saturating_duration_since(since) >= FLUSH_AFTER => self.flush(),
            _ => Ok(()),
        }
    }

    /// Writes out everything and the index.
    pub fn finish(mut self) -> Result<Recorded, RecordingError> {
        self.close()?;
        Ok(self.recorded())
    }

    /// Events and decode steps so far, and the bytes written out.
    pub fn recorded(&self) -> Recorded {
        let Index { events, steps, .. } = self.index;
        Recorded { events, steps, bytes: self.written.load(Ordering::Relaxed) }
    }

    fn add(&mut self, event: &Event) -> Result<(), RecordingError> {
        self.open()?;
        let step = event.kind.belongs_to(self.batch.step);
        if step > self.batch.step {
            let before = self.batch.step;
            self.close_batch()?;
            let far = self.bytes_since_keyframe >= KEYFRAME_BYTES.max(4 * self.keyframe_bytes);
            if far || before / KEYFRAME_STEPS != step / KEYFRAME_STEPS {
                self.write_keyframe(before, false)?;
            }
            self.batch.step = step;
            if self.chunk_bytes >= FLUSH_BYTES {
                self.flush()?;
            }
        } else if !self.batch.takes(event.sequence) {
            self.close_batch()?;
        }
        self.batch.push(event, self.wall_ns).map_err(|error| refused(&self.path, McapError::Io(error.into())))?;
        self.index.events += 1;
        self.index.note(step, &event.kind);
        if let EventKind::Spans(_) = event.kind {
            if self.span_steps.len() == WINDOW_STEPS {
                self.span_steps.pop_front();
            }
            self.span_steps.push_back(step);
            self.state.pass(event);
        } else {
            self.state.apply(event);
        }
        if self.batch.bytes() >= FLUSH_BYTES { self.flush() } else { Ok(()) }
    }

    fn close_batch(&mut self) -> Result<(), RecordingError> {
        let step = self.batch.step;
        let number = self.batches;
        let mut batch = std::mem::take(&mut self.batch);
        let drained = batch
            .drain(|channel, time_ns, wall_ns, json| self.write_message(channel, number, step, time_ns, wall_ns, json));
        self.batch = batch;
        self.batches = self.batches.wrapping_add(1);
        drained
    }

    /// Writes what the recording begins with, unless that is done.
    fn open(&mut self) -> Result<(), RecordingError> {
        if std::mem::replace(&mut self.opens, false) {
            self.write_keyframe(self.batch.step, true)?;
            self.index.opens = !self.index.keyframes.is_empty();
        }
        Ok(())
    }

    /// Writes the state, unless there is a keyframe of that step already.
    fn write_keyframe(&mut self, step: u64, opens: bool) -> Result<(), RecordingError> {
        if self.index.keyframes.last().is_some_and(|last| last.0 == step) {
            return Ok(());
        }
        let steps = self.state.steps.front().map(|step| step.step);
        let window_from = steps.into_iter().chain(self.span_steps.front().copied()).min().unwrap_or(step);
        let message = KeyframeMessage { step, opens, keyframe: Keyframe::of(&self.state, window_from) };
        let json = serde_json::to_vec(&message).map_err(|error| refused(&self.path, McapError::Io(error.into())))?;
        if json.len() + FLUSH_BYTES > RECORD_LIMIT {
            let (path, limit) = (self.path.clone(), RECORD_LIMIT - FLUSH_BYTES);
            // A state this large is read from an earlier keyframe, if there is one.
            return if opens { Err(RecordingError::TooLarge { path, bytes: json.len(), limit }) } else { Ok(()) };
        }
        let number = self.batches;
        self.batches = self.batches.wrapping_add(1);
        self.write_message(Channel::Keyframes, number, step, self.state.time_ns, self.wall_ns, &json)?;
        self.index.keyframes.push((step, self.index.chunks.len()));
        (self.bytes_since_keyframe, self.keyframe_bytes) = (0, json.len());
        Ok(())
    }

    fn write_message(
        &mut self,
        channel: Channel,
        batch: u32,
        step: u64,
        time_ns: u64,
        wall_ns: u64,
        json: &[u8],
    ) -> Result<(), RecordingError> {
        let limit = RECORD_LIMIT / 2;
        if json.len() > limit && channel != Channel::Keyframes {
            return Err(RecordingError::TooLarge { path: self.path.clone(), bytes: json.len(), limit });
        }
        if self.chunk_bytes + json.len() > limit {
            self.close_chunk()?;
        }
        let header =
            MessageHeader { channel_id: channel.id(), sequence: batch, log_time: time_ns, publish_time: wall_ns };
        self.file.write_to_known_channel(&header, json).map_err(|error| refused(&self.path, error))?;
        self.chunk_bytes += json.len();
        self.bytes_since_keyframe += json.len();
        self.end_ns = self.end_ns.max(time_ns);
        // Its offset is known when it is written out.
        let chunk = self.chunk.get_or_insert(Chunk { offset: 0, first_step: step, last_step: step, end_ns: 0 });
        chunk.last_step = step;
        Ok(())
    }

    fn flush(&mut self) -> Result<(), RecordingError> {
        self.open()?;
        self.close_batch()?;
        self.close_chunk()?;
        self.waiting_since = None;
        self.clock = WallClock::read();
        Ok(())
    }

    /// Compresses the chunk and hands it to the operating system.
    fn close_chunk(&mut self) -> Result<(), RecordingError> {
        let offset = self.written.load(Ordering::Relaxed);
        self.file.flush().map_err(|error| refused(&self.path, error))?;
        self.chunk_bytes = 0;
        self.index.chunks.extend(self.chunk.take().map(|chunk| Chunk { offset, end_ns: self.end_ns, ..chunk }));
        Ok(())
    }

    fn close(&mut self) -> Result<(), RecordingError> {
        if std::mem::replace(&mut self.finished, true) {
            return Ok(());
        }
        self.flush()?;
        self.index.end = self.written.load(Ordering::Relaxed);
        let index =
            serde_json::to_vec(&self.index).map_err(|error| refused(&self.path, McapError::Io(error.into())))?;
        let attachment = Attachment {
            log_time: self.end_ns,
            create_time: 0,
            name: INDEX.0.to_owned(),
            media_type: INDEX.1.to_owned(),
            data: index.into(),
        };
        let finish = |file: &mut mcap::Writer<_>| {
            file.attach(&attachment)?;
            file.finish().map(drop)
        };
        finish(&mut self.file).map_err(|error| refused(&self.path, error))
    }
}

impl Drop for RecordingWriter {
    /// Finishes the file as well as it can be finished.
    fn drop(&mut self) {
        let _ = self.close();
    }
}

fn refused(path: &Path, error: McapError) -> RecordingError {
    let source = match error {
        McapError::Io(source) => source,
        other => io::Error::other(other),
    };
    RecordingError::Io { path: path.to_owned(), action: "write", source }
}

/// The host's clock of the day: read now and then, and in between told from the clock that the caller reads.
struct WallClock {
    read: Instant,
    /// Nanoseconds after the beginning of 1970.
    ns: u64,
}

impl WallClock {
    fn read() -> Self {
        let since = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
        Self { read: Instant::now(), ns: since.as_nanos() as u64 }
    }

    fn at(&self, now: Instant) -> u64 {
        match now.checked_duration_since(self.read) {
            Some(later) => self.ns.saturating_add(later.as_nanos() as u64),
            None => self.ns.saturating_sub(self.read.duration_since(now).as_nanos() as u64),
        }
    }
}

/// Counts the bytes written.
struct Counted<W> {
    file: W,
    written: Arc<AtomicU64>,
}

impl<W: Write> Write for Counted<W> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let count = self.file.write(bytes)?;
        self.written.fetch_add(count as u64, Ordering::Relaxed);
        Ok(count)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.file.flush()
    }
}

impl<W: Write> Seek for Counted<W> {
    /// Only asked where it is.
    fn seek(&mut self, to: SeekFrom) -> io::Result<u64> {
        match to {
            SeekFrom::Current(0) => Ok(self.written.load(Ordering::Relaxed)),
            _ => Err(io::ErrorKind::Unsupported.into()),
        }
    }
}
