//! The device layer of Coalmine.
//!
//! One interface to a device: buffers in one address space ([`Memory`]), operators that
//! declare what they read and write ([`Operator`]), capture to a graph that is plain data
//! ([`Graph`]), a pool allocator with PyTorch's rules ([`PoolAllocator`]) and a device that
//! replays graphs in time ([`virtual_gpu::VirtualGpu`]).

mod allocator;
mod capture;
mod graph;
mod hazard;
pub mod math;
mod memory;
mod operator;
pub mod operators;
pub mod virtual_gpu;

pub use allocator::*;
pub use capture::*;
pub use graph::*;
pub use hazard::*;
pub use memory::*;
pub use operator::*;
