//! Recordings as lines of text, so that what lies behind compression, checksums and lengths can be changed at all.
//!
//! A line begins with a letter and a space:
//!
//! ```text
//! m KEY VALUE                    a field of the manifest
//! c                              the next messages go into a new chunk
//! j CHANNEL BATCH TIME MESSAGE   a message of a channel, given by its number
//! r COUNT                        the message before again, so many times
//! d CHANNEL TOPIC                declares a channel
//! o OPCODE BODY                  any other record within the chunk
//! i INDEX                        the index; a chunk's offset is its number, and an `end` of 0 the right one
//! ```

use std::collections::BTreeMap;

use serde_json::Value;

const MAGIC: &[u8] = b"\x89MCAP0\r\n";
const HEADER: u8 = 0x01;
const FOOTER: u8 = 0x02;
const CHANNEL: u8 = 0x04;
const MESSAGE: u8 = 0x05;
const CHUNK: u8 = 0x06;
const ATTACHMENT: u8 = 0x09;
const ATTACHMENT_INDEX: u8 = 0x0a;
const METADATA: u8 = 0x0c;
const SUMMARY_OFFSET: u8 = 0x0e;
const DATA_END: u8 = 0x0f;
/// Bytes of a chunk that repeated messages fill at most.
const REPEATED: usize = 1 << 20;

/// Makes a recording, all of whose lengths and checksums are right.
pub fn pack(script: &[u8]) -> Vec<u8> {
    let mut manifest = BTreeMap::from([(&b"format"[..], &b"1"[..])]);
    let (mut chunks, mut chunk) = (Vec::new(), Vec::new());
    let mut index = None;
    let mut last: Vec<u8> = Vec::new();
    for line in script.split(|byte| *byte == b'\n') {
        let (letter, rest) = line.split_at(line.len().min(2));
        match letter {
            b"m " => {
                let (key, value) = word(rest);
                manifest.insert(key, value);
            }
            b"c" | b"c " => chunks.extend(packed(&mut chunk)),
            b"j " => {
                let ((channel, rest), mut body) = (word(rest), Vec::new());
                let ((batch, rest), channel) = (word(rest), number(channel) as u16);
                let (time, json) = word(rest);
                body.extend(channel.to_le_bytes());
                body.extend((number(batch) as u32).to_le_bytes());
                body.extend(number(time).to_le_bytes());
                body.extend(number(time).to_le_bytes());
                body.extend(json);
                last.clear();
                record(&mut last, MESSAGE, &body);
                chunk.extend(&last);
            }
            b"r " => {
                let most = REPEATED.saturating_sub(chunk.len()) / last.len().max(1);
                for _ in 0..most.min(number(rest) as usize) {
                    chunk.extend(&last);
                }
            }
            b"d " => {
                let (channel, topic) = word(rest);
                let channel = number(channel) as u16;
                let mut body = [channel.to_le_bytes(), channel.to_le_bytes()].concat();
                text(&mut body, topic);
                text(&mut body, b"json");
                body.extend(0_u32.to_le_bytes());
                record(&mut chunk, CHANNEL, &body);
            }
            b"o " => {
                let (opcode, body) = word(rest);
                record(&mut chunk, number(opcode) as u8, body);
            }
            b"i " => index = Some(rest),
            _ => {}
        }
    }
    chunks.extend(packed(&mut chunk));
    assemble(&manifest, &chunks, index)
}

fn assemble(manifest: &BTreeMap<&[u8], &[u8]>, chunks: &[Vec<u8>], index: Option<&[u8]>) -> Vec<u8> {
    let mut file = MAGIC.to_vec();
    let mut header = Vec::new();
    text(&mut header, b"coalmine");
    text(&mut header, b"");
    record(&mut file, HEADER, &header);
    let mut fields = Vec::new();
    for (key, value) in manifest {
        text(&mut fields, key);
        text(&mut fields, value);
    }
    let mut metadata = Vec::new();
    text(&mut metadata, b"coalmine");
    text(&mut metadata, &fields);
    record(&mut file, METADATA, &metadata);
    let mut offsets = Vec::new();
    for chunk in chunks {
        offsets.push(file.len() as u64);
        record(&mut file, CHUNK, chunk);
    }
    record(&mut file, DATA_END, &0_u32.to_le_bytes());
    let Some(index) = index else { return file };
    let at = file.len() as u64;
    let index = placed(index, &offsets, at);
    let attachment = attachment(&index);
    record(&mut file, ATTACHMENT, &attachment);
    summary(&mut file, at, index.len() as u64);
    file
}

/// The body of a chunk of these records, if there are any, which are taken.
fn packed(records: &mut Vec<u8>) -> Option<Vec<u8>> {
    let records = std::mem::take(records);
    if records.is_empty() {
        return None;
    }
    let packed = zstd::bulk::compress(&records, 1).expect("memory takes anything");
    let mut body = vec![0; 16];
    body.extend((records.len() as u64).to_le_bytes());
    body.extend(crc32fast::hash(&records).to_le_bytes());
    text(&mut body, b"zstd");
    body.extend((packed.len() as u64).to_le_bytes());
    body.extend(packed);
    Some(body)
}

/// The index with the places that its chunks have, where it names them by number. One that is very long is left as it is.
fn placed(index: &[u8], offsets: &[u64], end: u64) -> Vec<u8> {
    if index.len() > REPEATED {
        return index.to_vec();
    }
    let Ok(mut parsed) = serde_json::from_slice::<Value>(index) else { return index.to_vec() };
    for chunk in parsed["chunks"].as_array_mut().into_iter().flatten() {
        let number = chunk[0].as_u64().and_then(|number| usize::try_from(number).ok());
        if let (Some(offset), true) = (number.and_then(|number| offsets.get(number)), chunk.is_array()) {
            chunk[0] = (*offset).into();
        }
    }
    if parsed["end"] == 0 {
        parsed["end"] = end.into();
    }
    parsed.to_string().into_bytes()
}

fn attachment(index: &[u8]) -> Vec<u8> {
    let mut body = vec![0; 16];
    text(&mut body, b"coalmine.index");
    text(&mut body, b"application/json");
    body.extend((index.len() as u64).to_le_bytes());
    body.extend(index);
    // A checksum of 0 would say that there is none.
    let checksum = crc32fast::hash(&body);
    body.extend(checksum.to_le_bytes());
    body
}

/// What leads from the end of a file to its index.
fn summary(file: &mut Vec<u8>, at: u64, length: u64) {
    let group = file.len() as u64;
    let mut found = Vec::new();
    found.extend(at.to_le_bytes());
    found.extend((group - at).to_le_bytes());
    found.extend([0; 16]);
    found.extend(length.to_le_bytes());
    text(&mut found, b"coalmine.index");
    text(&mut found, b"application/json");
    record(file, ATTACHMENT_INDEX, &found);
    let offsets = file.len() as u64;
    let mut contents = vec![ATTACHMENT_INDEX];
    contents.extend(group.to_le_bytes());
    contents.extend((offsets - group).to_le_bytes());
    record(file, SUMMARY_OFFSET, &contents);
    let mut footer = Vec::new();
    footer.extend(group.to_le_bytes());
    footer.extend(offsets.to_le_bytes());
    footer.extend(0_u32.to_le_bytes());
    record(file, FOOTER, &footer);
    file.extend(MAGIC);
}

/// Appends a record.
fn record(out: &mut Vec<u8>, opcode: u8, body: &[u8]) {
    out.push(opcode);
    out.extend((body.len() as u64).to_le_bytes());
    out.extend(body);
}

/// Appends a text with its length.
fn text(out: &mut Vec<u8>, bytes: &[u8]) {
    out.extend((bytes.len() as u32).to_le_bytes());
    out.extend(bytes);
}

/// The first word of a line, and the rest.
fn word(line: &[u8]) -> (&[u8], &[u8]) {
    let end = line.iter().position(|byte| *byte == b' ').unwrap_or(line.len());
    (&line[..end], line.get(end + 1..).unwrap_or_default())
}

fn number(word: &[u8]) -> u64 {
    std::str::from_utf8(word).ok().and_then(|word| word.parse().ok()).unwrap_or(u64::MAX)
}
