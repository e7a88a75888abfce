//! A state at one event, without its windows.

use std::collections::BTreeMap;
use std::sync::Arc;

use crate::{Canary, Graph, Hazard, Hello, State, weight};

/// The state after an event, without its windows of steps and spans.
pub(super) struct Checkpoint {
    /// Events up to and including that event.
    pub(super) events: u64,
    /// The step that the event belongs to.
    pub(super) step: u64,
    /// By estimate, without what is shared.
    pub(super) bytes: usize,
    state: State,
    shared: Arc<Shared>,
}

/// What is large and hardly ever changes, shared between checkpoints.
pub(super) struct Shared {
    hello: Option<Hello>,
    graphs: BTreeMap<u32, Graph>,
    hazards: Vec<Hazard>,
    /// By estimate.
    pub(super) bytes: usize,
}

impl Checkpoint {
    /// `shared` is that of the checkpoint before, if nothing of it has changed.
    pub(super) fn new(state: &State, events: u64, step: u64, shared: Option<Arc<Shared>>) -> Self {
        let bytes = size_of::<Self>() + weight::of_state(state);
        let shared = shared.unwrap_or_else(|| {
            let State { hello, graphs, hazards, .. } = state;
            let (hello, graphs, hazards) = (hello.clone(), graphs.clone(), hazards.clone());
            Arc::new(Shared { hello, graphs, hazards, bytes: weight::of_shared(state) })
        });
        Self { events, step, bytes, state: state.aggregates(), shared }
    }

    /// The state, without its windows.
    pub(super) fn state(&self) -> State {
        let Shared { hello, graphs, hazards, bytes: _ } = &*self.shared;
        State { hello: hello.clone(), graphs: graphs.clone(), hazards: hazards.clone(), ..self.state.clone() }
    }

    pub(super) fn canary(&self) -> &Canary {
        &self.state.canary
    }

    pub(super) fn shared(&self) -> &Arc<Shared> {
        &self.shared
    }
}
