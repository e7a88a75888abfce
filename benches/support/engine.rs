//! What an embedded engine says, for benchmarks of those who listen.

use std::sync::Arc;

use coalmine::demo_checkpoint;
use coalmine::engine::{Engine, EngineOptions};
use coalmine_kernels::Compute;
use coalmine_kernels::math::Cpu;
use coalmine_sessions::{Event, event_queue};

/// What an engine with 80 sessions says in its first steps.
pub(crate) fn events(steps: u64) -> Vec<Event> {
    let (sender, receiver) = event_queue(1 << 20);
    let options = EngineOptions::incident(Compute { cpu: Cpu::detect(), workers: 2 });
    let mut engine = Engine::new(&demo_checkpoint().unwrap(), options, Arc::new(sender)).unwrap();
    for _ in 0..steps {
        engine.advance().unwrap();
    }
    let mut events = Vec::new();
    receiver.drain(&mut events);
    events
}
