//! Records taken apart: what the parser takes for granted is looked at first.

use mcap::McapError;
use mcap::records::{Record, op};

/// Parses a record of a kind that recordings are read by.
///
/// The parser makes room for as much text as a record says that it has, up to 4 GiB, and counts on attachments to end
/// in a checksum.
pub(super) fn parse(opcode: u8, body: &[u8]) -> Result<Record<'_>, McapError> {
    match check(opcode, body) {
        Some(()) => mcap::parse_record(opcode, body),
        None => Err(McapError::UnexpectedEof),
    }
}

/// Whether the texts of a record lie within it.
fn check(opcode: u8, body: &[u8]) -> Option<()> {
    match opcode {
        op::MESSAGE | op::FOOTER | op::SUMMARY_OFFSET => Some(()),
        op::METADATA => check_entries(skip_texts(1, body)?),
        op::CHANNEL => check_entries(skip_texts(2, body.get(2 + 2..)?)?),
        op::CHUNK => skip_texts(1, body.get(8 + 8 + 8 + 4..)?).map(drop),
        op::ATTACHMENT_INDEX => skip_texts(2, body.get(5 * 8..)?).map(drop),
        // A length and a checksum, with the data in between.
        op::ATTACHMENT => (skip_texts(2, body.get(8 + 8..)?)?.len() >= 8 + 4).then_some(()),
        _ => None,
    }
}

/// A text, or whatever else has its length in front, and what comes after it.
fn split_text(bytes: &[u8]) -> Option<(&[u8], &[u8])> {
    let (length, rest) = bytes.split_first_chunk()?;
    rest.split_at_checked(u32::from_le_bytes(*length) as usize)
}

fn skip_texts(count: usize, bytes: &[u8]) -> Option<&[u8]> {
    (0..count).try_fold(bytes, |bytes, _| Some(split_text(bytes)?.1))
}

/// Looks at a map of texts.
fn check_entries(bytes: &[u8]) -> Option<()> {
    let mut entries = split_text(bytes)?.0;
    while !entries.is_empty() {
        entries = skip_texts(2, entries)?;
    }
    Some(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn text(text: &str) -> Vec<u8> {
        [&(text.len() as u32).to_le_bytes()[..], text.as_bytes()].concat()
    }

    #[test]
    fn sound_records_are_parsed() {
        let entries = [text("a"), text("b")].concat();
        let map = [&(entries.len() as u32).to_le_bytes()[..], &entries].concat();
        for (opcode, body) in [
            (op::METADATA, [text("name"), map.clone()].concat()),
            (op::CHANNEL, [vec![0; 4], text("topic"), text("json"), map].concat()),
            (op::CHUNK, [vec![0; 28], text("zstd"), vec![0; 8]].concat()),
            (op::ATTACHMENT, [vec![0; 16], text("name"), text("type"), vec![0; 12]].concat()),
            (op::ATTACHMENT_INDEX, [vec![0; 40], text("name"), text("type")].concat()),
        ] {
            assert!(parse(opcode, &body).is_ok(), "{opcode}");
            for length in 0..body.len() {
                assert!(parse(opcode, &body[..length]).is_err(), "{opcode} with {length} bytes");
            }
        }
    }

    #[test]
    fn no_room_is_made_for_texts_that_are_not_there() {
        let absurd = u32::MAX.to_le_bytes();
        let entry = [&4_u32.to_le_bytes()[..], &absurd].concat();
        for (opcode, body) in [
            (op::METADATA, absurd.to_vec()),
            (op::METADATA, [text("name"), entry.clone()].concat()),
            (op::CHANNEL, [vec![0; 4], text(""), text(""), entry].concat()),
            (op::CHUNK, [&[0; 28][..], &absurd, &[0; 8]].concat()),
            // Without a checksum, as a forged index may take one for a chunk.
            (op::ATTACHMENT, [vec![0; 16], text(""), text(""), vec![0; 8]].concat()),
        ] {
            assert!(matches!(parse(opcode, &body), Err(McapError::UnexpectedEof)), "{opcode}");
        }
    }
}
