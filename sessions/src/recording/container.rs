//! The file as records: framing, limits and checksums.

use std::cell::RefCell;
use std::fs::File;
use std::io::{self, Read, Seek, SeekFrom};
use std::path::{Path, PathBuf};

use mcap::records::{Record, op};

use super::RecordingError;
use super::channel::Channel;
use super::record;

/// Largest record and largest chunk, before and after decompression, that is written or read.
pub(super) const RECORD_LIMIT: usize = 64 << 20;
/// Opcode and length in front of every record.
pub(super) const FRAME: u64 = 9;
/// Record with frame, at the end of a whole file before the magic bytes.
const FOOTER: u64 = FRAME + 20;

/// A file open for reading.
pub(super) struct Container {
    path: PathBuf,
    file: RefCell<File>,
    length: u64,
}

/// The front of a record.
#[derive(Clone, Copy)]
pub(super) struct Frame {
    pub(super) opcode: u8,
    /// Where the record begins, its frame included.
    pub(super) offset: u64,
    /// Bytes after the frame.
    pub(super) length: u64,
}

impl Frame {
    /// Where the next record begins.
    pub(super) fn end(self) -> u64 {
        self.offset + FRAME + self.length
    }
}

/// A message within a chunk.
pub(super) struct Message<'a> {
    pub(super) channel: Channel,
    /// The same for all messages of one batch.
    pub(super) batch: u32,
    pub(super) log_time: u64,
    pub(super) publish_time: u64,
    pub(super) json: &'a [u8],
}

/// Which channel has which identity: those of version 1, unless another program has given out new ones.
pub(super) struct Channels(Vec<(u16, Channel)>);

impl Default for Channels {
    fn default() -> Self {
        Self(Channel::ALL.map(|channel| (channel.id(), channel)).into())
    }
}

impl Channels {
    fn learn(&mut self, declared: &mcap::records::Channel) {
        if let Some(channel) = Channel::ALL.into_iter().find(|channel| channel.topic() == declared.topic) {
            self.0.retain(|&(id, known)| id != declared.id && known != channel);
            self.0.push((declared.id, channel));
        }
    }

    fn get(&self, id: u16) -> Option<Channel> {
        self.0.iter().find(|known| known.0 == id).map(|known| known.1)
    }
}

impl Container {
    pub(super) fn open(path: &Path) -> Result<Self, RecordingError> {
        let failed = |source| RecordingError::Io { path: path.to_owned(), action: "open", source };
        let file = File::open(path).map_err(failed)?;
        let metadata = file.metadata().map_err(failed)?;
        let not = |found: &str| RecordingError::NotARecording {
            path: path.to_owned(),
            found: found.to_owned(),
            expected: "begin with the magic bytes of MCAP",
        };
        if !metadata.is_file() {
            return Err(not("it is no regular file"));
        }
        let container = Self { path: path.to_owned(), file: RefCell::new(file), length: metadata.len() };
        if container.length < mcap::MAGIC.len() as u64 {
            return Err(not(&format!("it has {} bytes", container.length)));
        }
        if container.read(0, mcap::MAGIC.len() as u64)? != mcap::MAGIC {
            return Err(not("it begins with others"));
        }
        Ok(container)
    }

    pub(super) fn path(&self) -> &Path {
        &self.path
    }

    pub(super) fn length(&self) -> u64 {
        self.length
    }

    pub(super) fn damaged(&self, offset: u64, expected: &'static str, found: impl ToString) -> RecordingError {
        RecordingError::Damaged { path: self.path.clone(), offset, found: found.to_string(), expected }
    }

    /// The front of the record at `offset`, if the whole record lies within the file.
    pub(super) fn frame(&self, offset: u64) -> Result<Frame, RecordingError> {
        let expected = "a whole record";
        let left = self.length.saturating_sub(offset);
        if left < FRAME {
            return Err(self.damaged(offset, expected, format_args!("{left} bytes")));
        }
        let [opcode, length @ ..]: [u8; FRAME as usize] = self.read(offset, FRAME)?.try_into().unwrap_or_default();
        let frame = Frame { opcode, offset, length: u64::from_le_bytes(length) };
        if frame.length > left - FRAME {
            let found = format!("one of {} bytes where {} are left", frame.length, left - FRAME);
            return Err(self.damaged(offset, expected, found));
        }
        Ok(frame)
    }

    /// What follows the frame.
    pub(super) fn body(&self, frame: Frame) -> Result<Vec<u8>, RecordingError> {
        if frame.length > RECORD_LIMIT as u64 {
            let found = format!("{} bytes", frame.length);
            return Err(self.damaged(frame.offset, "a record of at most 64 MiB", found));
        }
        self.read(frame.offset + FRAME, frame.length)
    }

    /// The records of the chunk at `offset`, decompressed and verified.
    pub(super) fn unpack(&self, frame: Frame) -> Result<Vec<u8>, RecordingError> {
        let body = self.body(frame)?;
        let bad = |found: String| self.damaged(frame.offset, "a chunk compressed by zstd", found);
        let parsed = record::parse(frame.opcode, &body).map_err(|error| bad(error.to_string()))?;
        let Record::Chunk { header, data } = parsed else {
            return Err(bad(format!("a record of kind {}", frame.opcode)));
        };
        if header.compression != "zstd" {
            return Err(bad("another compression".to_owned()));
        }
        let size = usize::try_from(header.uncompressed_size).ok().filter(|size| *size <= RECORD_LIMIT);
        let size =
            size.ok_or_else(|| bad(format!("{} bytes, beyond the limit of 64 MiB", header.uncompressed_size)))?;
        let records = zstd::bulk::decompress(&data, size).map_err(|error| bad(error.to_string()))?;
        if records.len() != size || crc32fast::hash(&records) != header.uncompressed_crc {
            return Err(bad("one whose checksum does not match".to_owned()));
        }
        Ok(records)
    }

    /// Bytes of the chunk at `offset` once decompressed, as the chunk itself says.
    pub(super) fn unpacked_size(&self, offset: u64) -> Result<u64, RecordingError> {
        // The times of its first and last message come first.
        let bytes = self.read(offset + FRAME + 16, 8)?;
        Ok(bytes.try_into().map_or(0, u64::from_le_bytes))
    }

    /// Visits the messages among the records of an unpacked chunk.
    pub(super) fn messages(
        &self,
        frame: Frame,
        records: &[u8],
        channels: &Channels,
        mut visit: impl FnMut(Message<'_>) -> Result<(), RecordingError>,
    ) -> Result<(), RecordingError> {
        self.records(frame, records, op::MESSAGE, |record| {
            let Record::Message { header, data } = record else { return Ok(()) };
            match channels.get(header.channel_id) {
                Some(channel) => visit(Message {
                    channel,
                    batch: header.sequence,
                    log_time: header.log_time,
                    publish_time: header.publish_time,
                    json: &data,
                }),
                // What other programs have added is theirs.
                None => Ok(()),
            }
        })
    }

    /// Learns the channels that an unpacked chunk declares.
    pub(super) fn learn(&self, frame: Frame, records: &[u8], channels: &mut Channels) -> Result<(), RecordingError> {
        self.records(frame, records, op::CHANNEL, |record| {
            if let Record::Channel(declared) = record {
                channels.learn(&declared);
            }
            Ok(())
        })
    }

    fn records(
        &self,
        frame: Frame,
        mut records: &[u8],
        wanted: u8,
        mut visit: impl FnMut(Record<'_>) -> Result<(), RecordingError>,
    ) -> Result<(), RecordingError> {
        let expected = "whole records in a chunk";
        let cut = || self.damaged(frame.offset, expected, "one cut off");
        while !records.is_empty() {
            let (&[opcode, ref length @ ..], rest) = records.split_first_chunk::<9>().ok_or_else(cut)?;
            let length = usize::try_from(u64::from_le_bytes(*length)).map_err(|_| cut())?;
            let (body, rest) = rest.split_at_checked(length).ok_or_else(cut)?;
            if opcode == wanted {
                visit(record::parse(opcode, body).map_err(|error| self.damaged(frame.offset, expected, error))?)?;
            }
            records = rest;
        }
        Ok(())
    }

    /// Where the records after the data begin, by the footer; `None` if the file does not end as a whole one does.
    pub(super) fn summary_offsets(&self) -> Result<Option<u64>, RecordingError> {
        let magic = mcap::MAGIC.len() as u64;
        let Some(offset) = self.length.checked_sub(FOOTER + magic).filter(|offset| *offset >= magic) else {
            return Ok(None);
        };
        if self.read(self.length - magic, magic)? != mcap::MAGIC {
            return Ok(None);
        }
        let frame = self.frame(offset)?;
        if frame.opcode != op::FOOTER || frame.length != FOOTER - FRAME {
            return Ok(None);
        }
        match record::parse(op::FOOTER, &self.body(frame)?) {
            Ok(Record::Footer(footer)) => Ok(Some(footer.summary_offset_start).filter(|start| *start > 0)),
            _ => Ok(None),
        }
    }

    fn read(&self, offset: u64, length: u64) -> Result<Vec<u8>, RecordingError> {
        let failed = |source| RecordingError::Io { path: self.path.clone(), action: "read", source };
        let mut file = self.file.borrow_mut();
        let mut bytes = Vec::new();
        file.seek(SeekFrom::Start(offset)).map_err(failed)?;
        bytes.reserve_exact(usize::try_from(length.min(RECORD_LIMIT as u64)).unwrap_or_default());
        (&mut *file).take(length).read_to_end(&mut bytes).map_err(failed)?;
        if (bytes.len() as u64) < length {
            return Err(failed(io::ErrorKind::UnexpectedEof.into()));
        }
        Ok(bytes)
    }
}
