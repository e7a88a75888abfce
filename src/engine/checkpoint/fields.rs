//! Typed access to the fields of a JSON object; every failure names the file and the field.

use serde_json::{Map, Value};

use super::error::{CheckpointError, shortened};

/// The largest dimension, or product of two that makes one width, that is believed: 16 Mi. Two of them multiply without overflow.
pub(super) const DIMENSION_LIMIT: usize = 1 << 24;

/// One JSON object of a file, with the path to it.
#[derive(Clone)]
pub(super) struct Fields<'a> {
    file: &'a str,
    path: String,
    map: &'a Map<String, Value>,
}

impl<'a> Fields<'a> {
    pub(super) fn new(file: &'a str, map: &'a Map<String, Value>) -> Self {
        Self { file, path: String::new(), map }
    }

    /// The value of the field, `null` included.
    pub(super) fn raw(&self, name: &str) -> Option<&'a Value> {
        self.map.get(name)
    }

    /// The value of the first of several spellings that is there and not null.
    fn first<'n>(&self, names: &[&'n str]) -> Option<(&'n str, &'a Value)> {
        names.iter().find_map(|name| Some((*name, self.raw(name).filter(|value| !value.is_null())?)))
    }

    pub(super) fn missing(&self, names: &[&str], meaning: &'static str) -> CheckpointError {
        let field = names.iter().map(|name| format!("{}{name}", self.path)).collect::<Vec<_>>().join(" or ");
        CheckpointError::FieldMissing { file: self.file.to_owned(), field, meaning }
    }

    pub(super) fn wrong(&self, name: &str, found: &Value, expected: impl Into<String>) -> CheckpointError {
        CheckpointError::FieldValue {
            file: self.file.to_owned(),
            field: format!("{}{name}", self.path),
            found: shortened(&found.to_string()),
            expected: expected.into(),
        }
    }

    pub(super) fn inconsistent(&self, problem: String) -> CheckpointError {
        CheckpointError::Inconsistent { file: self.file.to_owned(), problem }
    }

    /// A dimension or count of at least one, if the field is there.
    pub(super) fn optional_size(&self, names: &[&str]) -> Result<Option<usize>, CheckpointError> {
        let Some((name, value)) = self.first(names) else {
            return Ok(None);
        };
        let size = value.as_u64().and_then(|size| usize::try_from(size).ok());
        match size.filter(|size| (1..=DIMENSION_LIMIT).contains(size)) {
            Some(size) => Ok(Some(size)),
            None => Err(self.wrong(name, value, format!("a whole number from 1 to {DIMENSION_LIMIT}"))),
        }
    }

    /// A dimension or count that must be given.
    pub(super) fn size(&self, names: &[&str], meaning: &'static str) -> Result<usize, CheckpointError> {
        self.optional_size(names)?.ok_or_else(|| self.missing(names, meaning))
    }

    /// A positive number, if the field is there.
    pub(super) fn optional_number(&self, name: &str) -> Result<Option<f64>, CheckpointError> {
        let Some((_, value)) = self.first(&[name]) else {
            return Ok(None);
        };
        // Checked as f32, since that is what the number is used as.
        match value.as_f64().filter(|number| (*number as f32).is_finite() && *number as f32 > 0.0) {
            Some(number) => Ok(Some(number)),
            None => Err(self.wrong(name, value, "a positive number within the range of float32")),
        }
    }

    pub(super) fn number(&self, name: &str, default: f64) -> Result<f64, CheckpointError> {
        Ok(self.optional_number(name)?.unwrap_or(default))
    }

    pub(super) fn flag(&self, name: &str, default: bool) -> Result<bool, CheckpointError> {
        match self.first(&[name]) {
            None => Ok(default),
            Some((_, value)) => value.as_bool().ok_or_else(|| self.wrong(name, value, "true or false")),
        }
    }

    pub(super) fn list(&self, name: &str) -> Result<Option<&'a [Value]>, CheckpointError> {
        match self.first(&[name]) {
            None => Ok(None),
            Some((_, Value::Array(list))) => Ok(Some(list)),
            Some((_, value)) => Err(self.wrong(name, value, "a list")),
        }
    }

    pub(super) fn object(&self, name: &str) -> Result<Option<Fields<'a>>, CheckpointError> {
        match self.first(&[name]) {
            None => Ok(None),
            Some((_, Value::Object(map))) => {
                Ok(Some(Self { file: self.file, path: format!("{}{name}.", self.path), map }))
            }
            Some((_, value)) => Err(self.wrong(name, value, "an object")),
        }
    }

    pub(super) fn is_empty(&self) -> bool {
        self.map.is_empty()
    }

    pub(super) fn path_of(&self, name: &str) -> String {
        format!("{}{name}", self.path)
    }

    /// Refuses a field that asks for something other than the one thing the engine does. A field that is absent or null asks for nothing.
    pub(super) fn only(&self, name: &str, accepted: &Value) -> Result<(), CheckpointError> {
        match self.first(&[name]) {
            Some((_, value)) if value != accepted => {
                Err(self.wrong(name, value, format!("{accepted}, the only value that this engine implements")))
            }
            _ => Ok(()),
        }
    }
}
