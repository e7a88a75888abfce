//! The safetensors format: a length, a JSON header, the tensors' bytes. The file may be damaged or hostile: every length and offset is
//! checked before it is used, and nothing is allocated that is not in proportion to bytes already read.

use std::borrow::Cow;
use std::fmt;
use std::ops::Range;
use std::path::Path;

use half::f16;
use serde::Deserialize;
use serde::de::{Deserializer, Error as _, IgnoredAny, MapAccess, Visitor};

use super::error::{CheckpointError, shortened};
use super::files::read_file;

/// The number formats that are read.
const ACCEPTED_FLOATS: &str = "BF16, F32 and F16";
const ACCEPTED_INTEGERS: &str = "I64 and I32";
/// The longest header that is believed, as in the reference implementation.
const HEADER_LIMIT: u64 = 100_000_000;

/// One safetensors file in memory, its header checked.
#[derive(Debug, Clone)]
pub struct SafeTensors {
    file: String,
    bytes: Cow<'static, [u8]>,
    /// Sorted by name.
    entries: Vec<Entry>,
}

#[derive(Debug, Clone)]
struct Entry {
    name: String,
    data_type: DataType,
    shape: Vec<usize>,
    /// Where in the file the data lies.
    range: Range<usize>,
}

/// A format of numbers. Those that cannot be read are kept by name: a file may hold tensors that nobody asks for.
#[derive(Debug, Clone, PartialEq, Eq)]
enum DataType {
    Bf16,
    F32,
    F16,
    I64,
    I32,
    Other(String),
}

impl DataType {
    fn named(name: &str) -> Self {
        match name {
            "BF16" => Self::Bf16,
            "F32" => Self::F32,
            "F16" => Self::F16,
            "I64" => Self::I64,
            "I32" => Self::I32,
            other => Self::Other(shortened(other)),
        }
    }

    fn name(&self) -> &str {
        match self {
            Self::Bf16 => "BF16",
            Self::F32 => "F32",
            Self::F16 => "F16",
            Self::I64 => "I64",
            Self::I32 => "I32",
            Self::Other(name) => name,
        }
    }

    fn bytes_per_value(&self) -> Option<usize> {
        match self {
            Self::Bf16 | Self::F16 => Some(2),
            Self::F32 | Self::I32 => Some(4),
            Self::I64 => Some(8),
            Self::Other(_) => None,
        }
    }
}

impl SafeTensors {
    /// Reads and checks a file.
    pub fn open(path: &Path) -> Result<Self, CheckpointError> {
        let bytes = read_file(path, "Copy it there, or give the directory that has it.")?;
        Self::from_bytes(path.display().to_string(), bytes)
    }

    /// Checks the bytes of a file; `file` is the name that errors give.
    pub fn from_bytes(file: impl Into<String>, bytes: impl Into<Cow<'static, [u8]>>) -> Result<Self, CheckpointError> {
        let (file, bytes) = (file.into(), bytes.into());
        let (header, data_start) = header_text(&file, &bytes)?;
        let RawHeader(raw) = serde_json::from_str(header).map_err(|cause| {
            // The message can quote a text of any length from the header.
            let cause = shortened(&cause.to_string());
            header_error(&file, format!("its header cannot be parsed: {cause}"))
        })?;
        let mut entries =
            raw.into_iter().map(|(name, raw)| entry(&file, name, raw, data_start)).collect::<Result<Vec<_>, _>>()?;
        check_layout(&file, &mut entries, data_start, bytes.len())?;
        entries.sort_unstable_by(|left, right| left.name.cmp(&right.name));
        if let Some(pair) = entries.windows(2).find(|pair| pair[0].name == pair[1].name) {
            return Err(CheckpointError::TensorEntry {
                tensor: shortened(&pair[0].name),
                problem: "its name stands in the header twice".to_owned(),
                file,
            });
        }
        Ok(Self { file, bytes, entries })
    }

    /// The name that errors give.
    pub fn file(&self) -> &str {
        &self.file
    }

    /// The names of all tensors, sorted.
    pub fn names(&self) -> impl Iterator<Item = &str> {
        self.entries.iter().map(|entry| entry.name.as_str())
    }

    /// The tensor of that name.
    pub fn tensor(&self, name: &str) -> Option<TensorView<'_>> {
        let place = self.entries.binary_search_by(|entry| entry.name.as_str().cmp(name)).ok()?;
        let entry = &self.entries[place];
        Some(TensorView { file: &self.file, entry, bytes: &self.bytes[entry.range.clone()] })
    }
}

/// One tensor of a file.
#[derive(Debug, Clone, Copy)]
pub struct TensorView<'a> {
    file: &'a str,
    entry: &'a Entry,
    bytes: &'a [u8],
}

impl<'a> TensorView<'a> {
    /// The file's name, as errors give it.
    pub fn file(&self) -> &'a str {
        self.file
    }

    /// The tensor's name.
    pub fn name(&self) -> &'a str {
        &self.entry.name
    }

    /// The dimensions, slowest first.
    pub fn shape(&self) -> &'a [usize] {
        &self.entry.shape
    }

    /// The name of the number format.
    pub fn data_type(&self) -> &'a str {
        self.entry.data_type.name()
    }

    /// The values, in storage order. Only floating-point formats.
    pub fn to_f32(&self) -> Result<Vec<f32>, CheckpointError> {
        let two = || self.bytes.as_chunks::<2>().0.iter();
        match self.entry.data_type {
            // A bf16 is the upper half of an f32. A plain loop over pairs, which the compiler vectorises.
            DataType::Bf16 => {
                Ok(two().map(|pair| f32::from_bits(u32::from(u16::from_le_bytes(*pair)) << 16)).collect())
            }
            DataType::F32 => Ok(self.bytes.as_chunks().0.iter().map(|four| f32::from_le_bytes(*four)).collect()),
            DataType::F16 => Ok(two().map(|pair| f16::from_le_bytes(*pair).to_f32()).collect()),
            _ => Err(self.refused(ACCEPTED_FLOATS)),
        }
    }

    /// The values, in storage order. Only signed integer formats.
    pub fn to_i64(&self) -> Result<Vec<i64>, CheckpointError> {
        match self.entry.data_type {
            DataType::I64 => Ok(self.bytes.as_chunks().0.iter().map(|eight| i64::from_le_bytes(*eight)).collect()),
            DataType::I32 => {
                Ok(self.bytes.as_chunks().0.iter().map(|four| i64::from(i32::from_le_bytes(*four))).collect())
            }
            _ => Err(self.refused(ACCEPTED_INTEGERS)),
        }
    }

    fn refused(&self, accepted: &'static str) -> CheckpointError {
        CheckpointError::DataType {
            file: self.file.to_owned(),
            tensor: shortened(self.name()),
            found: self.data_type().to_owned(),
            accepted,
        }
    }
}

fn header_error(file: &str, problem: String) -> CheckpointError {
    CheckpointError::Header { file: file.to_owned(), problem }
}

/// The header's text, and where the data starts.
fn header_text<'a>(file: &str, bytes: &'a [u8]) -> Result<(&'a str, usize), CheckpointError> {
    let truncated = |part: &str, needed: u64| CheckpointError::Truncated {
        file: file.to_owned(),
        part: part.to_owned(),
        needed,
        found: bytes.len() as u64,
    };
    // What a clone without Git LFS leaves in place of the weights; its first bytes would be read as an absurd length.
    if bytes.starts_with(b"version https://git-lfs") {
        return Err(header_error(file, "it is a Git LFS pointer; fetch the weights with `git lfs pull`".to_owned()));
    }
    let (length, rest) = bytes.split_first_chunk().ok_or_else(|| truncated("the header's length", 8))?;
    let length = u64::from_le_bytes(*length);
    if length > HEADER_LIMIT {
        return Err(header_error(
            file,
            format!(
                "its first 8 bytes promise a header of {length} bytes, at most {HEADER_LIMIT} are accepted; check that it is a safetensors file at all"
            ),
        ));
    }
    // The limit lets any length fit in usize.
    let header = rest.get(..length as usize).ok_or_else(|| truncated("the header", 8 + length))?;
    let header = std::str::from_utf8(header)
        .map_err(|cause| header_error(file, format!("its header is not UTF-8 text: {cause}")))?;
    Ok((header, 8 + length as usize))
}

/// One entry as it stands in the header.
#[derive(Deserialize)]
struct RawEntry {
    dtype: String,
    shape: Vec<usize>,
    data_offsets: (usize, usize),
}

/// The header's entries in file order. Not a map: that would silently keep one of two tensors of the same name.
struct RawHeader(Vec<(String, RawEntry)>);

impl<'de> Deserialize<'de> for RawHeader {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Entries;
        impl<'de> Visitor<'de> for Entries {
            type Value = RawHeader;

            fn expecting(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
                formatter.write_str("an object of tensors")
            }

            fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<RawHeader, A::Error> {
                let mut entries = Vec::new();
                while let Some(name) = map.next_key::<String>()? {
                    if name == "__metadata__" {
                        map.next_value::<IgnoredAny>()?;
                        continue;
                    }
                    let entry = map
                        .next_value()
                        .map_err(|cause| A::Error::custom(format!("tensor {:?}: {cause}", shortened(&name))))?;
                    entries.push((name, entry));
                }
                Ok(RawHeader(entries))
            }
        }
        deserializer.deserialize_map(Entries)
    }
}

fn entry(file: &str, name: String, raw: RawEntry, data_start: usize) -> Result<Entry, CheckpointError> {
    let wrong =
        |problem: String| CheckpointError::TensorEntry { file: file.to_owned(), tensor: shortened(&name), problem };
    let (begin, end) = raw.data_offsets;
    let (Some(size), Some(first), Some(last)) =
        (end.checked_sub(begin), data_start.checked_add(begin), data_start.checked_add(end))
    else {
        return Err(wrong(format!("its data_offsets are [{begin}, {end}]")));
    };
    let data_type = DataType::named(&raw.dtype);
    if let Some(bytes_per_value) = data_type.bytes_per_value() {
        let needed = raw.shape.iter().try_fold(bytes_per_value, |product, dimension| product.checked_mul(*dimension));
        let shape = || shortened(&format!("{:?}", raw.shape));
        match needed {
            None => {
                return Err(wrong(format!("its shape {} has more values than can be counted", shape())));
            }
            Some(needed) if needed != size => {
                return Err(wrong(format!(
                    "its shape {} of {} takes {needed} bytes, but its data_offsets span {size}",
                    shape(),
                    data_type.name()
                )));
            }
            Some(_) => {}
        }
    }
    Ok(Entry { name, data_type, shape: raw.shape, range: first..last })
}

/// The tensors must tile the data exactly: no overlap, no gap, nothing before or after.
fn check_layout(file: &str, entries: &mut [Entry], data_start: usize, file_end: usize) -> Result<(), CheckpointError> {
    entries.sort_unstable_by_key(|entry| (entry.range.start, entry.range.end));
    let mut position = data_start;
    let mut previous = "the header";
    for entry in &*entries {
        let Range { start, end } = entry.range;
        if end > file_end {
            return Err(CheckpointError::Truncated {
                file: file.to_owned(),
                part: format!("the tensor {:?}", shortened(&entry.name)),
                needed: end as u64,
                found: file_end as u64,
            });
        }
        if start != position {
            let relation = if start < position { "overlaps" } else { "leaves a gap after" };
            return Err(CheckpointError::TensorEntry {
                file: file.to_owned(),
                tensor: shortened(&entry.name),
                problem: format!(
                    "its data starts at byte {start}, which {relation} {:?} (ends at {position})",
                    shortened(previous)
                ),
            });
        }
        position = end;
        previous = &entry.name;
    }
    if position != file_end {
        return Err(header_error(
            file,
            format!("{} bytes follow the last tensor; copy or download it again", file_end - position),
        ));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use proptest::collection::vec;
    use proptest::prelude::*;
    use proptest::sample::Index;

    use super::super::testing::{file_of, put_together, tensor};
    use super::*;

    fn parse(bytes: Vec<u8>) -> Result<SafeTensors, CheckpointError> {
        SafeTensors::from_bytes("some/file", bytes)
    }

    #[track_caller]
    fn refused(bytes: Vec<u8>, parts: &[&str]) {
        let message = parse(bytes).expect_err("must be refused").to_string();
        for part in parts.iter().chain(&["some/file"]) {
            assert!(message.contains(part), "{part:?} is not in: {message}");
        }
    }

    fn entry_text(name: &str, data_type: &str, shape: &str, begin: u64, end: u64) -> String {
        format!("\"{name}\":{{\"dtype\":\"{data_type}\",\"shape\":{shape},\"data_offsets\":[{begin},{end}]}}")
    }

    #[test]
    fn every_format_is_read() {
        let file = put_together(&[
            tensor("f32", "F32", &[2], [1.5f32, -0.25].iter().flat_map(|value| value.to_le_bytes()).collect()),
            tensor("bf16", "BF16", &[2, 1], vec![0xc0, 0x3f, 0x80, 0xbe]),
            tensor("f16", "F16", &[2], vec![0x00, 0x3e, 0x00, 0xb4]),
            tensor("i64", "I64", &[1], (-7i64).to_le_bytes().to_vec()),
            tensor("i32", "I32", &[], (-7i32).to_le_bytes().to_vec()),
            tensor("empty", "F32", &[0, 3], vec![]),
            tensor("odd", "F8_E4M3", &[3], vec![1, 2, 3]),
        ]);
        let file = parse(file).expect("a good file");
        assert_eq!(file.names().collect::<Vec<_>>(), ["bf16", "empty", "f16", "f32", "i32", "i64", "odd"]);
        let view = |name| file.tensor(name).expect("it is there");
        for name in ["f32", "bf16", "f16"] {
            assert_eq!(view(name).to_f32().expect("a float"), [1.5, -0.25], "{name}");
            assert!(view(name).to_i64().is_err());
        }
        for name in ["i64", "i32"] {
            assert_eq!(view(name).to_i64().expect("an integer"), [-7], "{name}");
            assert!(view(name).to_f32().is_err());
        }
        assert_eq!(view("bf16").shape(), [2, 1]);
        assert!(view("empty").to_f32().expect("a float").is_empty());
        assert!(file.tensor("other").is_none());
        let message = view("odd").to_f32().expect_err("not read").to_string();
        assert!(message.contains("\"odd\"") && message.contains("\"F8_E4M3\""), "{message}");
    }

    #[test]
    fn damaged_files_are_refused() {
        refused(vec![], &["the header's length ends at byte 8", "has 0 bytes"]);
        refused(vec![1, 0, 0], &["cut short"]);
        refused(file_of("{}", &[])[..9].to_vec(), &["the header ends at byte 10", "has 9 bytes"]);
        refused(u64::MAX.to_le_bytes().to_vec(), &["promise a header of 18446744073709551615 bytes"]);
        refused(100_000_001u64.to_le_bytes().to_vec(), &["at most 100000000 are accepted"]);
        refused(b"version https://git-lfs.github.com/spec/v1\n".to_vec(), &["git lfs pull"]);
        refused([&2u64.to_le_bytes()[..], &[0xff, 0xff]].concat(), &["not UTF-8"]);
        for header in ["", "[]", "{", "{\"a\":1}", "{\"a\":{}}", "{} x", "{\"a\":{\"dtype\":1}}"] {
            refused(file_of(header, &[]), &["header cannot be parsed"]);
        }
        refused(file_of("{\"a\":{\"shape\":[]}}", &[]), &["tensor \\\"a\\\"".replace('\\', "").as_str(), "dtype"]);
        refused(file_of(&"[".repeat(100_000), &[]), &["header cannot be parsed"]);
        refused(file_of("{}", &[0; 3]), &["3 bytes follow the last tensor"]);
    }

    #[test]
    fn wrong_entries_are_named() {
        let one =
            |shape: &str, begin, end| file_of(&format!("{{{}}}", entry_text("w", "F32", shape, begin, end)), &[0; 8]);
        assert!(parse(one("[2]", 0, 8)).is_ok());
        refused(one("[3]", 0, 8), &["\"w\"", "[3] of F32 takes 12 bytes", "span 8"]);
        refused(one("[18446744073709551615,2]", 0, 8), &["\"w\"", "more values than can be counted"]);
        refused(one("[2]", 8, 0), &["\"w\"", "[8, 0]"]);
        refused(one("[2]", 8, 16), &["\"w\" ends at byte", "cut short"]);
        let most = u64::MAX;
        refused(one("[0]", most, most), &["\"w\"", "data_offsets are"]);
        refused(one("[-1]", 0, 8), &["tensor \"w\""]);
        refused(one("[1]", 4, 8), &["\"w\"", "leaves a gap after \"the header\""]);

        let two = |names: [&str; 2], offsets: [u64; 4], data: usize| {
            let [a, b, c, d] = offsets;
            let entries = [entry_text(names[0], "F32", "[1]", a, b), entry_text(names[1], "F32", "[1]", c, d)];
            file_of(&format!("{{{}}}", entries.join(",")), &vec![0; data])
        };
        assert!(parse(two(["v", "w"], [4, 8, 0, 4], 8)).is_ok());
        refused(two(["v", "w"], [0, 4, 0, 4], 4), &["overlaps"]);
        refused(two(["v", "w"], [0, 4, 2, 6], 6), &["\"w\"", "overlaps \"v\""]);
        refused(two(["v", "w"], [0, 4, 8, 12], 12), &["\"w\"", "leaves a gap after \"v\""]);
        refused(two(["w", "w"], [0, 4, 4, 8], 8), &["\"w\"", "stands in the header twice"]);
        // A name cannot steer the terminal that shows the message.
        refused(two(["v", "\\u001b[2J"], [0, 4, 2, 6], 6), &["\"\\u{1b}[2J\""]);
    }

    /// What a reader may do with a file that was accepted.
    fn read_all(bytes: Vec<u8>) {
        if let Ok(file) = parse(bytes) {
            for name in file.names() {
                let view = file.tensor(name).expect("a listed tensor is there");
                let _ = (view.to_f32(), view.to_i64());
            }
        }
    }

    fn good_file() -> Vec<u8> {
        put_together(&[
            tensor("first", "BF16", &[2, 3], vec![1; 12]),
            tensor("second", "I32", &[2], vec![2; 8]),
            tensor("third", "F32", &[], vec![3; 4]),
        ])
    }

    proptest! {
        #[test]
        fn random_bytes_never_panic(bytes in vec(any::<u8>(), 0..300)) {
            read_all(bytes);
        }

        #[test]
        fn random_headers_never_panic(
            header in "[\\[\\]{}\",:0-9a-z\\\\ ]{0,200}",
            data in vec(any::<u8>(), 0..40),
        ) {
            read_all(file_of(&header, &data));
        }

        #[test]
        fn mutated_files_never_panic(
            changes in vec((any::<Index>(), any::<u8>()), 1..6),
            cut in any::<Index>(),
        ) {
            let mut bytes = good_file();
            for (place, value) in changes {
                let place = place.index(bytes.len());
                bytes[place] = value;
            }
            read_all(bytes.clone());
            bytes.truncate(cut.index(bytes.len()));
            read_all(bytes);
        }

        #[test]
        fn random_entries_never_panic(
            shape in vec(prop_oneof![0u64..5, any::<u64>()], 0..4),
            begin in prop_oneof![0u64..20, any::<u64>()],
            end in prop_oneof![0u64..20, any::<u64>()],
            data_type in "BF16|F32|F16|I64|I32|F4|",
            data in 0usize..20,
        ) {
            let entry = entry_text("w", &data_type, &format!("{shape:?}"), begin, end);
            read_all(file_of(&format!("{{{entry}}}"), &vec![0; data]));
        }
    }
}
