//! Hashes in the place of text that may be private.

use std::borrow::Cow;
use std::hash::{BuildHasher, RandomState};

use crate::{Event, EventKind, Sanitized};

/// Replaces text by hashes under a key that is drawn anew for every recording and never stored, so that nobody can
/// find out a short text by hashing guesses.
pub(super) struct Redactor(RandomState);

impl Redactor {
    pub(super) fn new() -> Self {
        Self(RandomState::new())
    }

    pub(super) fn redact<'a>(&self, event: &'a Event) -> Cow<'a, Event> {
        let mut redacted = match &event.kind {
            EventKind::Session(_) | EventKind::Log(_) => event.clone(),
            _ => return Cow::Borrowed(event),
        };
        match &mut redacted.kind {
            EventKind::Session(change) => {
                self.hide(&mut change.call);
                if let Some(flag) = &mut change.flag {
                    self.hide(&mut flag.expected);
                    self.hide(&mut flag.found);
                }
            }
            EventKind::Log(line) => self.hide(&mut line.text),
            _ => {}
        }
        Cow::Owned(redacted)
    }

    /// An empty text says that nothing changed, and stays empty.
    fn hide(&self, text: &mut Sanitized) {
        if !text.is_empty() {
            *text = Sanitized::new(&format!("#{:08x}", self.0.hash_one(text.as_str()) as u32));
        }
    }
}
