//! What an operator is to a device.

use std::fmt;
use std::ops::Range;

use crate::math::Cpu;
use crate::{Access, ByteRange, Memory, Views};

/// Which part of an operator is computed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Part {
    /// All tiles.
    All,
    /// These tiles.
    Tiles(Range<usize>),
}

impl Part {
    /// The tiles meant, of an operator with `count`.
    pub fn tiles(&self, count: usize) -> Range<usize> {
        match self {
            Self::All => 0..count,
            Self::Tiles(range) => range.clone(),
        }
    }
}

/// How an operator computes on the CPU.
#[derive(Clone, Copy, Debug)]
pub struct Compute {
    /// The instruction set.
    pub cpu: Cpu,
    /// Threads that rows may be spread over.
    pub workers: usize,
}

/// A kernel, copy or fill with declared accesses.
///
/// The result of a tile depends only on the bytes of its views, never on which other tiles
/// are computed in the same call nor on the number of workers.
pub trait Operator: fmt::Debug + Send + Sync {
    /// The declared ranges. No two of them overlap.
    fn accesses(&self) -> &[Access];

    /// Number of tiles that the numerics divide into.
    fn tiles(&self) -> usize;

    /// The row that a tile works for, if it works for one.
    fn row_of_tile(&self, tile: usize) -> Option<usize> {
        Some(tile)
    }

    /// Computes `part` on the views of the declared ranges.
    fn run(&self, views: Views<'_>, part: Part, compute: Compute);

    /// The bytes of access `access` that `tile` touches, where that depends on data
    /// ([`crate::Slicing::Resolved`]); pushes them to `ranges`.
    fn resolve(&self, memory: &Memory, access: usize, tile: usize, ranges: &mut Vec<ByteRange>) {
        let _ = (memory, tile);
        ranges.push(self.accesses()[access].range);
    }
}
