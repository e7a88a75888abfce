//! Everything that can be wrong with a checkpoint, each said in full sentences: which file, which tensor or field, what was found, what was
//! expected and what to do. Text from the files is printed quoted and escaped (`{:?}`), so a hostile name cannot steer a terminal.

/// Why a checkpoint could not be loaded.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum CheckpointError {
    /// The given directory does not exist.
    #[error("There is no directory {directory:?}. Give a directory that holds config.json and model.safetensors.")]
    DirectoryMissing {
        /// The path that was given.
        directory: String,
    },
    /// The given path exists and is something other than a directory.
    #[error(
        "{path:?} is not a directory. Give the directory that holds config.json and model.safetensors, not a file in it."
    )]
    NotADirectory {
        /// The path that was given.
        path: String,
    },
    /// A file that the checkpoint needs does not exist.
    #[error("The file {file:?} does not exist. {remedy}")]
    FileMissing {
        /// The file that was looked for.
        file: String,
        /// What to do about it, a sentence.
        remedy: &'static str,
    },
    /// A path that should be a file is a directory, a pipe or a device.
    #[error("{file:?} is not a regular file. Replace it by the real file or a link to it.")]
    NotAFile {
        /// The path in question.
        file: String,
    },
    /// The operating system refused to read.
    #[error("{file:?} could not be read: {cause}. Check its permissions and the disk.")]
    Unreadable {
        /// The file or directory in question.
        file: String,
        /// The operating system's words.
        cause: std::io::Error,
    },
    /// A JSON file is not JSON, or not of the expected form.
    #[error("{file:?} is not valid: {problem}. Restore the file from where the model came from.")]
    Json {
        /// The file in question.
        file: String,
        /// What the parser says.
        problem: String,
    },
    /// The configuration lacks a field that has no safe default.
    #[error(
        "{file:?} lacks the field {field:?} ({meaning}). Add it, or restore the file from where the model came from."
    )]
    FieldMissing {
        /// The configuration file.
        file: String,
        /// The field, with its other accepted spellings.
        field: String,
        /// What the field stands for.
        meaning: &'static str,
    },
    /// A field of the configuration holds something that cannot be used.
    #[error("{file:?} says {field:?} is {found}, but it must be {expected}. Correct the field.")]
    FieldValue {
        /// The configuration file.
        file: String,
        /// The field, with its path.
        field: String,
        /// Its value, as JSON, shortened.
        found: String,
        /// What would be accepted.
        expected: String,
    },
    /// Two parts of a file, or two files, contradict each other.
    #[error("{file:?} contradicts itself or its neighbours: {problem}.")]
    Inconsistent {
        /// The file in question.
        file: String,
        /// The contradiction and what to do, as a clause.
        problem: String,
    },
    /// A safetensors file ends before its contents do.
    #[error(
        "{file:?} is cut short: {part} ends at byte {needed}, but the file has {found} bytes. Copy or download it again."
    )]
    Truncated {
        /// The file in question.
        file: String,
        /// Which part did not fit.
        part: String,
        /// The byte where that part would end.
        needed: u64,
        /// The bytes that there are.
        found: u64,
    },
    /// The header of a safetensors file is unusable as a whole.
    #[error("{file:?} is not a usable safetensors file: {problem}.")]
    Header {
        /// The file in question.
        file: String,
        /// What is wrong, as a clause.
        problem: String,
    },
    /// One tensor's entry in a safetensors header is unusable.
    #[error(
        "{file:?} describes the tensor {tensor:?} wrongly: {problem}. Write the file again with a safetensors library."
    )]
    TensorEntry {
        /// The file in question.
        file: String,
        /// The tensor's name, shortened.
        tensor: String,
        /// What is wrong, as a clause.
        problem: String,
    },
    /// One tensor name stands in two places.
    #[error(
        "The tensor {tensor:?} is both in {first:?} and in {second:?}. Remove the shard that does not belong to this model."
    )]
    DuplicateTensor {
        /// The tensor's name, shortened.
        tensor: String,
        /// The file that has it.
        first: String,
        /// The file that has it again.
        second: String,
    },
    /// A tensor is stored in a number format that is not read.
    #[error(
        "The tensor {tensor:?} in {file:?} is stored as {found:?}; accepted are {accepted}. Convert the checkpoint first, for example to BF16."
    )]
    DataType {
        /// The file in question.
        file: String,
        /// The tensor's name, shortened.
        tensor: String,
        /// The format found.
        found: String,
        /// The formats accepted.
        accepted: &'static str,
    },
    /// A tensor that the configuration calls for is in none of the files.
    #[error(
        "The tensor {tensor:?} is missing from {file:?} (names tried: {tried}). Either the checkpoint is incomplete or its config.json describes another model."
    )]
    TensorMissing {
        /// The files that were searched.
        file: String,
        /// The released name.
        tensor: String,
        /// Every name that would have been accepted.
        tried: String,
    },
    /// A tensor's shape is not what the configuration calls for.
    #[error(
        "The tensor {tensor:?} in {file:?} has the shape {found:?}, but {expected:?} is expected, {meaning}. Either config.json or the weights belong to another model."
    )]
    Shape {
        /// The file in question.
        file: String,
        /// The tensor's name as stored.
        tensor: String,
        /// The stored shape.
        found: Vec<usize>,
        /// The expected shape.
        expected: Vec<usize>,
        /// Where the expected shape comes from, as a clause.
        meaning: &'static str,
    },
    /// A weight is infinite or not a number.
    #[error(
        "The tensor {tensor:?} in {file:?} holds {value} at element {index}; every weight must be finite. The checkpoint is damaged: copy or export it again."
    )]
    NotFinite {
        /// The file in question.
        file: String,
        /// The tensor's name as stored.
        tensor: String,
        /// The first such element, counted in storage order.
        index: usize,
        /// Its value.
        value: f32,
    },
    /// An integer tensor holds a value that points outside what it indexes.
    #[error(
        "The tensor {tensor:?} in {file:?} holds {value} at element {index}, but {meaning} must lie in {least}..{end}. The file and config.json belong to different models, or the file is damaged."
    )]
    OutOfRange {
        /// The file in question.
        file: String,
        /// The tensor's name as stored.
        tensor: String,
        /// The first such element, counted in storage order.
        index: usize,
        /// Its value.
        value: i64,
        /// What the values stand for.
        meaning: &'static str,
        /// The least value accepted.
        least: i64,
        /// The first value no longer accepted.
        end: i64,
    },
    /// A token id is not in the vocabulary.
    #[error("The vocabulary is smaller than a token id: {file:?} has the token {token} at element {index} of {tensor:?}, but the vocabulary has {vocabulary} entries (ids 0 to {}). Use the reference that belongs to this model.", vocabulary.saturating_sub(1))]
    TokenOutsideVocabulary {
        /// The file in question.
        file: String,
        /// The list of tokens.
        tensor: String,
        /// The first such element.
        index: usize,
        /// The token id.
        token: i64,
        /// The size of the vocabulary.
        vocabulary: usize,
    },
}

/// Text from outside, cut to a length that fits a message.
pub(super) fn shortened(text: &str) -> String {
    const LIMIT: usize = 240;
    match text.char_indices().nth(LIMIT) {
        Some((end, _)) => format!("{}...", &text[..end]),
        None => text.to_owned(),
    }
}
