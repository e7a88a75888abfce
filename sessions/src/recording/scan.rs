//! Finds out where in a recording is what: from its index, or by reading it from start to end.

use mcap::records::{Record, op};

use super::channel::Channel;
use super::container::{Channels, Container, Frame, Message};
use super::index::{Chunk, INDEX, Index};
use super::keyframe::KeyframeStep;
use super::manifest::MANIFEST;
use super::record;
use super::wire::{count_events, read_events};
use super::{Manifest, RecordingError, Recovery};

/// Records in front of the data among which the manifest is looked for.
const HEAD_RECORDS: usize = 8;

/// The manifest, and where the data begins.
pub(super) fn read_manifest(container: &Container) -> Result<(Manifest, u64), RecordingError> {
    let mut offset = mcap::MAGIC.len() as u64;
    for _ in 0..HEAD_RECORDS {
        let frame = container.frame(offset)?;
        offset = frame.end();
        if matches!(frame.opcode, op::CHUNK | op::DATA_END) {
            break;
        }
        if frame.opcode == op::METADATA
            && let Ok(Record::Metadata(metadata)) = record::parse(frame.opcode, &container.body(frame)?)
            && metadata.name == MANIFEST
        {
            return Ok((Manifest::from_metadata(&metadata.metadata, container.path())?, offset));
        }
    }
    Err(RecordingError::NotARecording {
        path: container.path().to_owned(),
        found: "it has none".to_owned(),
        expected: "have a metadata record `coalmine` in front of its data",
    })
}

/// The index that a finished recording ends with, if it is there and sound.
pub(super) fn read_index(container: &Container) -> Result<Option<Index>, RecordingError> {
    let Some(mut offset) = container.summary_offsets()? else { return Ok(None) };
    // The summary's table of contents leads to the list of attachments, and that to the attachment.
    let mut group = None;
    loop {
        let frame = container.frame(offset)?;
        if frame.opcode != op::SUMMARY_OFFSET {
            break;
        }
        if let Ok(Record::SummaryOffset(found)) = record::parse(frame.opcode, &container.body(frame)?)
            && found.group_opcode == op::ATTACHMENT_INDEX
        {
            group = Some(found.group_start);
        }
        offset = frame.end();
    }
    let Some(mut offset) = group else { return Ok(None) };
    loop {
        let frame = container.frame(offset)?;
        if frame.opcode != op::ATTACHMENT_INDEX {
            return Ok(None);
        }
        if let Ok(Record::AttachmentIndex(found)) = record::parse(frame.opcode, &container.body(frame)?)
            && found.name == INDEX.0
        {
            return read_attachment(container, found.offset);
        }
        offset = frame.end();
    }
}

fn read_attachment(container: &Container, offset: u64) -> Result<Option<Index>, RecordingError> {
    let frame = container.frame(offset)?;
    if frame.opcode != op::ATTACHMENT {
        return Ok(None);
    }
    let body = container.body(frame)?;
    let Ok(Record::Attachment { header: found, data, crc }) = record::parse(frame.opcode, &body) else {
        return Ok(None);
    };
    if (found.name.as_str(), found.media_type.as_str()) != INDEX || crc == 0 {
        return Ok(None);
    }
    let index = serde_json::from_slice(&data).ok();
    Ok(index.filter(|index: &Index| index.end == offset && index.is_consistent()))
}

/// Reads everything from `start` on, up to the first damage.
pub(super) fn scan(
    container: &Container,
    start: u64,
    channels: &mut Channels,
) -> Result<(Index, Recovery), RecordingError> {
    let mut index = Index::default();
    let mut offset = start;
    let mut lost_tail_bytes = None;
    while let Ok(frame) = container.frame(offset) {
        match frame.opcode {
            // What follows can be made anew from the data.
            op::DATA_END => {
                lost_tail_bytes = Some(0);
                break;
            }
            op::CHUNK if scan_chunk(container, frame, channels, &mut index)?.is_none() => break,
            _ => offset = frame.end(),
        }
    }
    index.end = offset;
    let recovery = Recovery {
        truncated: lost_tail_bytes.is_none() || !matches!(container.summary_offsets(), Ok(Some(_))),
        events: index.events,
        steps: index.steps,
        lost_tail_bytes: lost_tail_bytes.unwrap_or(container.length() - offset),
    };
    Ok((index, recovery))
}

/// Adds a chunk to the index, unless it is damaged.
fn scan_chunk(
    container: &Container,
    frame: Frame,
    channels: &mut Channels,
    index: &mut Index,
) -> Result<Option<()>, RecordingError> {
    let before = index.chunks.last().map_or(Chunk::from((0, 0, 0, 0)), |chunk| *chunk);
    let mut step = before.last_step;
    let mut chunk = None;
    let mut found = Index::default();
    let visit = |message: Message<'_>| {
        step = scan_message(&message, step, index.chunks.len(), &mut found)
            .map_err(|error| container.damaged(frame.offset, "an event", error))?;
        let first = Chunk { offset: frame.offset, first_step: step, last_step: step, end_ns: before.end_ns };
        let chunk = chunk.get_or_insert(first);
        chunk.last_step = step;
        chunk.end_ns = chunk.end_ns.max(message.log_time);
        Ok(())
    };
    let read = container.unpack(frame).and_then(|records| {
        container.learn(frame, &records, channels)?;
        container.messages(frame, &records, channels, visit)
    });
    match read {
        Ok(()) => {
            found.chunks.extend(chunk);
            index.append(found);
            Ok(Some(()))
        }
        Err(RecordingError::Damaged { .. }) => Ok(None),
        Err(error) => Err(error),
    }
}

/// Adds a message of chunk number `chunk`, and gives its step: at least `step`, that of the message before.
fn scan_message(message: &Message<'_>, step: u64, chunk: usize, found: &mut Index) -> serde_json::Result<u64> {
    match message.channel {
        Channel::Keyframes => {
            let held: KeyframeStep = serde_json::from_slice(message.json)?;
            if held.opens && chunk == 0 && found.events == 0 && found.keyframes.is_empty() {
                found.opens = true;
                found.keyframes.push((held.step, chunk));
                return Ok(held.step);
            }
            if held.step >= step && found.keyframes.last().is_none_or(|&(last, _)| last < held.step) {
                found.keyframes.push((held.step, chunk));
            }
            Ok(step)
        }
        Channel::Steps | Channel::Sessions | Channel::Canary => {
            let (named, events) = read_events(message.channel, message.json)?;
            let step = named.max(step);
            found.events += events.len() as u64;
            events.iter().for_each(|event| found.note(step, &event.kind));
            Ok(step)
        }
        _ => {
            let (named, count) = count_events(message.json)?;
            found.events += count as u64;
            Ok(named.max(step))
        }
    }
}
