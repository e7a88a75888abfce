//! Lines of comma-separated values that a spreadsheet reads as they were meant.

use std::borrow::Cow;
use std::io::{self, Write};

/// Writes a line of fields (RFC 4180, but ended by a plain line feed).
///
/// What a spreadsheet would take for a formula gets an apostrophe in front, a negative number too: a field
/// is a text here, and whether a program wrote it or a hostile peer cannot be told.
///
/// ```
/// use coalmine_sessions::csv::write_line;
///
/// let mut out = Vec::new();
/// write_line(&mut out, ["1", "a,b", "=1+2"])?;
/// assert_eq!(out, b"1,\"a,b\",'=1+2\n");
/// # Ok::<(), std::io::Error>(())
/// ```
pub fn write_line<F: AsRef<str>>(
    writer: &mut (impl Write + ?Sized),
    fields: impl IntoIterator<Item = F>,
) -> io::Result<()> {
    for (number, field) in fields.into_iter().enumerate() {
        if number > 0 {
            writer.write_all(b",")?;
        }
        writer.write_all(escaped(field.as_ref()).as_bytes())?;
    }
    writer.write_all(b"\n")
}

/// A field as it stands in the file.
fn escaped(text: &str) -> Cow<'_, str> {
    let formula = text.starts_with(['=', '+', '-', '@', '\t', '\r']);
    let text: Cow<'_, str> = if formula { format!("'{text}").into() } else { text.into() };
    if text.contains(['"', ',', '\n', '\r']) { format!("\"{}\"", text.replace('"', "\"\"")).into() } else { text }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn only_what_needs_it_is_escaped() {
        for (text, field) in [
            ("", ""),
            ("plain text", "plain text"),
            ("say \"no\"", "\"say \"\"no\"\"\""),
            ("two\nlines", "\"two\nlines\""),
            ("@cmd", "'@cmd"),
            ("-1,5", "\"'-1,5\""),
            ("-1+2", "'-1+2"),
        ] {
            assert_eq!(escaped(text), field);
        }
    }

    /// As a spreadsheet splits them.
    fn read(line: &str) -> Vec<String> {
        let mut fields = vec![String::new()];
        let mut quoted = false;
        let mut characters = line.strip_suffix('\n').unwrap().chars().peekable();
        while let Some(character) = characters.next() {
            let field = fields.last_mut().unwrap();
            match character {
                '"' if quoted && characters.peek() == Some(&'"') => field.extend(characters.next()),
                '"' => quoted = !quoted,
                ',' if !quoted => fields.push(String::new()),
                _ => field.push(character),
            }
        }
        fields
    }

    proptest! {
        #[test]
        fn fields_are_read_back_and_none_is_a_formula(
            fields in proptest::collection::vec("[a=+@e,\"\n\r\t 1-]{0,6}", 1..5),
        ) {
            let mut line = Vec::new();
            write_line(&mut line, &fields).unwrap();
            let found = read(std::str::from_utf8(&line).unwrap());
            prop_assert_eq!(found.len(), fields.len());
            for (found, field) in found.iter().zip(&fields) {
                prop_assert!(!found.starts_with(['=', '+', '-', '@', '\t', '\r']));
                prop_assert!(found == field || found.strip_prefix('\'') == Some(field));
            }
        }
    }
}
