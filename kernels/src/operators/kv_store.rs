//! Norm, rotary position and store of a token's KV row.

use std::sync::Arc;

use super::{KvBuffer, Tensor};
use crate::math::{RotaryTable, rms_norm};
use crate::{Access, ByteRange, Compute, Memory, Mode, Operator, Part, Views};

/// Normalises and rotates the last columns of `input` and stores them to the sliding-window pool.
#[derive(Debug)]
pub struct StoreKv {
    accesses: [Access; 4],
    seq_lens: Tensor,
    locations: Tensor,
    input: Tensor,
    pool: KvBuffer,
    weight: Arc<Vec<f32>>,
    epsilon: f32,
    rotary: Arc<RotaryTable>,
}

impl StoreKv {
    /// Stores the last `pool.head` columns of each row of `input` to the slots `locations`; a negative slot is skipped.
    pub fn new(
        seq_lens: Tensor,
        locations: Tensor,
        input: Tensor,
        pool: KvBuffer,
        weight: Arc<Vec<f32>>,
        epsilon: f32,
        rotary: Arc<RotaryTable>,
    ) -> Self {
        let accesses = [seq_lens.read(), locations.read(), input.read(), Access::resolved(pool.range, Mode::Write)];
        Self { accesses, seq_lens, locations, input, pool, weight, epsilon, rotary }
    }
}

impl Operator for StoreKv {
    fn accesses(&self) -> &[Access] {
        &self.accesses
    }

    fn tiles(&self) -> usize {
        self.seq_lens.rows()
    }

    fn run(&self, mut views: Views<'_>, part: Part, compute: Compute) {
        let lengths = views.read::<i32>();
        let locations = views.read::<i32>();
        let input = views.read::<f32>();
        let pool = views.write::<u8>();
        let (head, rope) = (self.pool.head, self.pool.rope);
        let mut normed = vec![0f32; head];
        for row in part.tiles(self.tiles()) {
            let Ok(slot) = usize::try_from(locations[row]) else { continue };
            let x = &input[(row + 1) * self.input.columns - head..][..head];
            rms_norm(compute.cpu, x, Some(&self.weight), self.epsilon, &mut normed);
            self.rotary.rotate(&mut normed[head - rope..], (lengths[row].max(1) - 1) as usize);
            self.pool.store(pool, slot, &normed);
        }
    }

    fn resolve(&self, memory: &Memory, access: usize, tile: usize, ranges: &mut Vec<ByteRange>) {
        debug_assert_eq!(access, 3);
        if let Ok(slot) = usize::try_from(memory.slice::<i32>(self.locations.range)[tile]) {
            self.pool.layout.slot_ranges(self.pool.range, slot, ranges);
        }
    }
}
