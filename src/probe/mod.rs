//! What watches: canaries over the pools.

mod location;

pub use location::{CanarySight, LocationCanary, SWEEP_STEPS};
