//! Reads a recording from any step on.

use std::ops::{Range, RangeInclusive};
use std::path::Path;
use std::vec;

use super::channel::Channel;
use super::container::{Channels, Container};
use super::index::Index;
use super::keyframe::{KeyframeMessage, KeyframeStep};
use super::scan::{read_index, read_manifest, scan};
use super::wire::read_events;
use super::{Contents, Manifest, RecordingError};
use crate::{Anomaly, Event, PageRef, State};

/// Bytes, once decompressed, from which the window of spans is made when a step is gone to.
pub const SEEK_BYTES: u64 = 8 << 20;

/// A recording open for reading. Only its index is held in memory.
pub struct Recording {
    container: Container,
    channels: Channels,
    manifest: Manifest,
    index: Index,
}

/// What could be read of a recording.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Recovery {
    /// Whether it was cut off or damaged, and had to be read up to there to find out what is left.
    pub truncated: bool,
    /// Events that are left.
    pub events: u64,
    /// Decode steps that are left.
    pub steps: u64,
    /// Bytes at the end of the file that nothing could be made of.
    pub lost_tail_bytes: u64,
}

/// What a keyframe holds.
struct Held {
    state: State,
    /// The step where its windows begin.
    window_from: u64,
    /// Whether its window of steps is there.
    has_steps: bool,
}

/// Events that were written together, in their order.
pub(super) struct Batch {
    pub(super) step: u64,
    /// When it was recorded, ns on the host's clock of the day.
    pub(super) wall_ns: u64,
    pub(super) events: Vec<Event>,
}

impl Recording {
    /// Opens a recording: by its index if it was finished, otherwise by reading all that is left of it.
    pub fn open(path: &Path) -> Result<(Self, Recovery), RecordingError> {
        let container = Container::open(path)?;
        let (manifest, start) = read_manifest(&container)?;
        let mut channels = Channels::default();
        let (index, recovery) = match read_index(&container) {
            Ok(Some(index)) => {
                let recovery =
                    Recovery { truncated: false, events: index.events, steps: index.steps, lost_tail_bytes: 0 };
                (index, recovery)
            }
            _ => scan(&container, start, &mut channels)?,
        };
        Ok((Self { container, channels, manifest, index }, recovery))
    }

    /// What the recording says about itself.
    pub fn manifest(&self) -> &Manifest {
        &self.manifest
    }

    /// What it holds, in figures.
    pub fn contents(&self) -> Contents {
        Contents::of(&self.index)
    }

    /// The first step that an event belongs to.
    pub fn first_step(&self) -> u64 {
        self.index.first_step()
    }

    /// The last step that an event belongs to.
    pub fn last_step(&self) -> u64 {
        self.index.last_step()
    }

    /// Steps in which something was wrong, in order.
    pub fn anomalies(&self) -> &[Anomaly] {
        &self.index.anomalies
    }

    /// The first step after which a client would see wrong text.
    pub fn first_corruption(&self) -> Option<u64> {
        self.index.first_corruption()
    }

    /// The events of these steps, in order, read as they are asked for.
    pub fn events_in(&self, steps: RangeInclusive<u64>) -> Events<'_> {
        let chunks = self.index.chunks_of(&steps);
        Events { recording: self, steps, chunks, batches: Vec::new().into_iter(), events: Vec::new().into_iter() }
    }

    /// What all events up to the end of a step fold to. Beyond the last step that is the end of the recording; before
    /// the first, nothing is known.
    ///
    /// So that one is there soon, spans are read from the last [`SEEK_BYTES`] only: where steps have many nodes, the
    /// window of spans begins later than it did live. The windows of a recording that began in the middle of a run
    /// begin with the recording.
    pub fn state_at(&self, step: u64) -> Result<State, RecordingError> {
        let end = self.index.chunks_of(&(0..=step)).end;
        let spans_from = self.chunk_before(end, SEEK_BYTES)?;
        let Some(held) = self.index.keyframe_before(step) else {
            let mut state = State::default();
            self.fold(&mut state, 0..=step, spans_from, |_| true)?;
            return Ok(state);
        };
        let Held { mut state, window_from, has_steps } = self.keyframe(held)?;
        if self.index.opening() != Some(held) {
            // No other event bears on the windows.
            let mut windows = State::default();
            let from = match (has_steps, self.index.chunks.get(spans_from)) {
                (true, Some(chunk)) => window_from.max(chunk.first_step),
                _ => window_from,
            };
            let bears = |channel| match channel {
                Channel::Hello | Channel::Spans => true,
                Channel::Steps => !has_steps,
                _ => false,
            };
            self.fold(&mut windows, from..=held.0, spans_from, bears)?;
            state.spans = windows.spans;
            if !has_steps {
                state.steps = windows.steps;
            }
        }
        self.fold(&mut state, self.index.steps_since(held, step), spans_from, |_| true)?;
        Ok(state)
    }

    /// The chunk from which on those before `end` have at most so many bytes; the last of these at the latest.
    fn chunk_before(&self, end: usize, bytes: u64) -> Result<usize, RecordingError> {
        let mut left = bytes;
        let mut first = end;
        while first > 0 {
            let size = self.container.unpacked_size(self.index.chunks[first - 1].offset)?;
            if size > left && first < end {
                break;
            }
            left = left.saturating_sub(size);
            first -= 1;
        }
        Ok(first)
    }

    /// The last step before `step` in which a page changed, declared or not.
    pub fn last_write_of(&self, page: PageRef, step: u64) -> Result<Option<u64>, RecordingError> {
        let Some(last) = step.checked_sub(1) else { return Ok(None) };
        let (mut state, steps) = match self.index.keyframe_before(last) {
            Some(held) => (self.keyframe(held)?.state, self.index.steps_since(held, last)),
            None => match self.index.opening() {
                // What was known when the recording began may well be of before `step`.
                Some(opening) => {
                    return Ok(self.keyframe(opening)?.state.canary.last_write(page).filter(|&at| at < step));
                }
                None => (State::default(), 0..=last),
            },
        };
        self.fold(&mut state, steps, usize::MAX, |channel| matches!(channel, Channel::Hello | Channel::Canary))?;
        Ok(state.canary.last_write(page))
    }

    /// The last step that had begun at `time_ns` of the target's clock, as far as chunks tell.
    pub fn step_at_time(&self, time_ns: u64) -> Result<u64, RecordingError> {
        let chunk = self.index.chunks.partition_point(|chunk| chunk.end_ns <= time_ns);
        let mut step = chunk.checked_sub(1).map_or(self.first_step(), |before| self.index.chunks[before].last_step);
        if chunk < self.index.chunks.len() {
            for batch in self.batches(chunk, |_| true)? {
                let begun = batch.events.first().is_some_and(|event| event.time_ns <= time_ns);
                step = if begun { step.max(batch.step) } else { step };
            }
        }
        Ok(step)
    }

    pub(super) fn chunks_of(&self, steps: &RangeInclusive<u64>) -> Range<usize> {
        self.index.chunks_of(steps)
    }

    /// Folds the events of the wanted channels, but spans only from a chunk on.
    fn fold(
        &self,
        state: &mut State,
        steps: RangeInclusive<u64>,
        spans_from: usize,
        wanted: impl Fn(Channel) -> bool,
    ) -> Result<(), RecordingError> {
        for chunk in self.index.chunks_of(&steps) {
            let wanted = |channel| wanted(channel) && (channel != Channel::Spans || chunk >= spans_from);
            for batch in self.batches(chunk, wanted)? {
                if steps.contains(&batch.step) {
                    batch.events.into_iter().for_each(|event| state.apply_owned(event));
                }
            }
        }
        Ok(())
    }

    /// The batches of a chunk, with the events of the wanted channels.
    pub(super) fn batches(&self, chunk: usize, wanted: impl Fn(Channel) -> bool) -> Result<Vec<Batch>, RecordingError> {
        let chunk = self.index.chunks[chunk];
        let frame = self.container.frame(chunk.offset)?;
        let records = self.container.unpack(frame)?;
        let mut batches: Vec<Batch> = Vec::new();
        let mut number = None;
        self.container.messages(frame, &records, &self.channels, |message| {
            if message.channel == Channel::Keyframes || !wanted(message.channel) {
                return Ok(());
            }
            let (step, events) = read_events(message.channel, message.json)
                .map_err(|error| self.container.damaged(frame.offset, "an event", error))?;
            match batches.last_mut() {
                Some(batch) if number == Some(message.batch) => {
                    batch.wall_ns = batch.wall_ns.max(message.publish_time);
                    batch.events.extend(events);
                }
                last => {
                    let before = last.map_or(chunk.first_step, |batch| batch.step);
                    let step = step.clamp(before, chunk.last_step.max(before));
                    batches.push(Batch { step, wall_ns: message.publish_time, events });
                }
            }
            number = Some(message.batch);
            Ok(())
        })?;
        batches.iter_mut().for_each(|batch| batch.events.sort_by_key(|event| event.sequence));
        Ok(batches)
    }

    fn keyframe(&self, (step, chunk): (u64, usize)) -> Result<Held, RecordingError> {
        let frame = self.container.frame(self.index.chunks[chunk].offset)?;
        let records = self.container.unpack(frame)?;
        let bad = |error: serde_json::Error| self.container.damaged(frame.offset, "a keyframe", error);
        let mut found = None;
        self.container.messages(frame, &records, &self.channels, |message| {
            if message.channel == Channel::Keyframes {
                let held: KeyframeStep = serde_json::from_slice(message.json).map_err(bad)?;
                if held.step == step {
                    let message: KeyframeMessage<'_> = serde_json::from_slice(message.json).map_err(bad)?;
                    let window_from = message.keyframe.window_from.min(step);
                    let has_steps = message.keyframe.has_steps();
                    let state = message.keyframe.into_state(step).map_err(bad)?;
                    found = Some(Held { state, window_from, has_steps });
                }
            }
            Ok(())
        })?;
        found.ok_or_else(|| self.container.damaged(frame.offset, "a keyframe", format_args!("none of step {step}")))
    }
}

/// Events of a recording, in order; ends after an error.
pub struct Events<'a> {
    recording: &'a Recording,
    steps: RangeInclusive<u64>,
    chunks: Range<usize>,
    batches: vec::IntoIter<Batch>,
    events: vec::IntoIter<Event>,
}

impl Iterator for Events<'_> {
    type Item = Result<Event, RecordingError>;

    fn next(&mut self) -> Option<Self::Item> {
        loop {
            if let Some(event) = self.events.next() {
                return Some(Ok(event));
            }
            if let Some(batch) = self.batches.next() {
                if self.steps.contains(&batch.step) {
                    self.events = batch.events.into_iter();
                }
                continue;
            }
            let chunk = self.chunks.next()?;
            match self.recording.batches(chunk, |_| true) {
                Ok(batches) => self.batches = batches.into_iter(),
                Err(error) => {
                    self.chunks = 0..0;
                    return Some(Err(error));
                }
            }
        }
    }
}
