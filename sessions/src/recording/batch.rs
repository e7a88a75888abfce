//! Events that are written together: at most one message a channel.

use super::channel::Channel;
use super::wire::write_event;
use crate::Event;

/// A batch that is being filled.
#[derive(Default)]
pub(super) struct OpenBatch {
    /// The step that its events belong to.
    pub(super) step: u64,
    messages: [OpenMessage; Channel::ALL.len()],
    last_sequence: Option<u64>,
    bytes: usize,
}

#[derive(Default)]
struct OpenMessage {
    /// Empty as long as there is no event; then all of the message but its end.
    json: Vec<u8>,
    time_ns: u64,
    /// Of its last event.
    wall_ns: u64,
}

impl OpenBatch {
    /// Whether an event of this sequence number can join: events of a batch are put in order by them.
    pub(super) fn takes(&self, sequence: u64) -> bool {
        self.last_sequence.is_none_or(|last| last < sequence)
    }

    pub(super) fn bytes(&self) -> usize {
        self.bytes
    }

    /// Adds an event that arrived at `wall_ns` of the host's clock.
    pub(super) fn push(&mut self, event: &Event, wall_ns: u64) -> serde_json::Result<()> {
        let message = &mut self.messages[Channel::of(&event.kind) as usize];
        let before = message.json.len();
        if message.json.is_empty() {
            message.time_ns = event.time_ns;
            message.json.extend(format!(r#"{{"step":{},"events":["#, self.step).bytes());
        } else {
            message.json.push(b',');
        }
        write_event(&mut message.json, event)?;
        message.wall_ns = wall_ns;
        self.bytes += message.json.len() - before;
        self.last_sequence = Some(event.sequence);
        Ok(())
    }

    /// Empties the batch: gives each message with its channel and its times on the target's and the host's clock to
    /// `write`.
    pub(super) fn drain<E>(
        &mut self,
        mut write: impl FnMut(Channel, u64, u64, &[u8]) -> Result<(), E>,
    ) -> Result<(), E> {
        self.last_sequence = None;
        self.bytes = 0;
        for (channel, message) in Channel::ALL.into_iter().zip(&mut self.messages) {
            if !message.json.is_empty() {
                message.json.extend(b"]}");
                let written = write(channel, message.time_ns, message.wall_ns, &message.json);
                message.json.clear();
                written?;
            }
        }
        Ok(())
    }
}
