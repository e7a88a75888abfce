//! What the console looks at: a live target, whose last steps are kept, or a recording.

mod live;
mod replayed;

use std::sync::mpsc;

use coalmine_panes::PaneId;
use coalmine_sessions::{Command, CommandKind, EventReceiver, PageRef, State};

use super::command::Place;
use crate::playback::ReplayHandle;

pub(super) use live::{Answered, Live};
pub(super) use replayed::Replayed;

/// A target as the console knows it.
pub enum Target {
    /// One that speaks now. Both ends may outlive the target; when it ends, the console says so and stays.
    Live {
        /// What it says.
        events: EventReceiver,
        /// What it is asked.
        commands: mpsc::Sender<Command>,
        /// Whether a macro that changes it has to ask first: it is somebody's server and not our own engine.
        ask_first: bool,
    },
    /// A recording.
    Replay(ReplayHandle),
}

/// A move in what is known.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::console) enum Move {
    /// One step back.
    Back,
    /// One step on.
    Forward,
    /// To the step before in which something was wrong.
    PreviousAnomaly,
    /// To the next step in which something was wrong.
    NextAnomaly,
    /// To a place.
    To(Place),
    /// To a time on the target's clock, ns.
    Time(u64),
    /// To the last step before in which a page changed.
    LastWrite(PageRef),
}

/// What the panes draw from.
pub(super) enum Source {
    Live(Box<Live>),
    Replay(Replayed),
}

impl Source {
    /// What is known of the target now, whatever the view is pinned on.
    pub(super) fn now(&self) -> &State {
        match self {
            Self::Live(live) => &live.state,
            Self::Replay(replay) => replay.state(),
        }
    }

    /// What is shown.
    pub(super) fn shown(&self) -> &State {
        match self {
            Self::Live(live) => live.pinned().unwrap_or(&live.state),
            Self::Replay(replay) => replay.state(),
        }
    }

    /// What a pane draws from: the toggles are controls, which always show, and act on, what is so now.
    pub(super) fn of(&self, pane: PaneId) -> &State {
        if pane == PaneId::Toggles { self.now() } else { self.shown() }
    }

    /// The step that is shown.
    pub(super) fn step(&self) -> Option<u64> {
        match self {
            Self::Live(live) => live.step(),
            Self::Replay(replay) => Some(replay.view().step),
        }
    }

    /// Moves the view; a sentence says why that cannot be.
    pub(super) fn go(&mut self, to: Move) -> Result<(), String> {
        match self {
            Self::Live(live) => live.go(to),
            Self::Replay(replay) => replay.go(to),
        }
    }

    /// Asks the target for something; a sentence says why that cannot be.
    pub(super) fn ask(&mut self, kind: CommandKind) -> Result<(), String> {
        match self {
            Self::Live(live) => live.ask(kind).map(drop),
            Self::Replay(_) => Err(NO_CHANGE.to_owned()),
        }
    }

    pub(super) fn live(&self) -> Option<&Live> {
        match self {
            Self::Live(live) => Some(live),
            Self::Replay(_) => None,
        }
    }

    pub(super) fn live_mut(&mut self) -> Option<&mut Live> {
        match self {
            Self::Live(live) => Some(live),
            Self::Replay(_) => None,
        }
    }
}

/// What a recording answers to a command that would change it.
pub(super) const NO_CHANGE: &str = "A recording cannot be changed.";
