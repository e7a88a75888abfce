//! Hashes in the place of text that may be private.

use std::borrow::Cow;
use std::hash::{BuildHasher, RandomState};

use crate::{Event, EventKind, Flag, Sanitized, State};

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
                change.flag.iter_mut().for_each(|flag| self.hide_flag(flag));
            }
            EventKind::Log(line) => self.hide(&mut line.text),
            _ => {}
        }
        Cow::Owned(redacted)
    }

    /// Does to a state what [`Redactor::redact`] does to the events that it came of.
    pub(super) fn redact_state(&self, state: &mut State) {
        for session in state.sessions.values_mut() {
            self.hide(&mut session.call);
            session.flags.iter_mut().for_each(|flag| self.hide_flag(flag));
        }
        state.log.iter_mut().for_each(|line| self.hide(&mut line.text));
    }

    fn hide_flag(&self, flag: &mut Flag) {
        self.hide(&mut flag.expected);
        self.hide(&mut flag.found);
    }

    /// An empty text says that nothing changed, and stays empty.
    fn hide(&self, text: &mut Sanitized) {
        if !text.is_empty() {
            *text = Sanitized::new(&format!("#{:08x}", self.0.hash_one(text.as_str()) as u32));
        }
    }
}
