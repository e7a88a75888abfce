//! What a target can be asked.

use serde::{Deserialize, Serialize};

use crate::{ToggleName, ToggleValue};

/// Identity of a command; applying one twice is applying it once.
pub type CommandId = u64;

/// A request to a target. Each is answered by an [`crate::Ack`].
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Command {
    /// Chosen by the sender.
    pub id: CommandId,
    /// What is asked.
    pub kind: CommandKind,
}

/// The kinds of command.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub enum CommandKind {
    /// Give a toggle a value at the next step boundary.
    SetToggle(ToggleName, ToggleValue),
    /// Hold the engine at the next step boundary, or let it go on.
    Hold(bool),
    /// Run one step, then hold.
    SingleStep,
    /// Decode steps a second of wall time; `None` is as fast as it goes.
    Pace(Option<f64>),
    /// End.
    Stop,
}

/// What a command may do to its target.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Danger {
    /// Looks only.
    Read,
    /// Changes this console, not the target.
    Local,
    /// Changes the target.
    MutatesTarget,
}

impl CommandKind {
    /// What this command may do.
    pub fn danger(&self) -> Danger {
        match self {
            Self::SetToggle(..) | Self::Hold(_) | Self::SingleStep | Self::Pace(_) | Self::Stop => {
                Danger::MutatesTarget
            }
        }
    }
}
