//! Where the blocks of a node lie in its undisturbed time.

use super::super::{CostProfile, Draws};

/// The blocks of one node in one run. Times are from the node's start, as if it had the card to itself.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct TilePlan {
    count: usize,
    slots: usize,
    grid: Grid,
    /// Fixed time before blocks read.
    ramp_us: f64,
    /// Fixed time after they have read.
    tail_us: f64,
}

#[derive(Clone, Copy, Debug)]
enum Grid {
    /// A block for every row.
    Rows {
        /// Time of every block, whatever its row's context.
        flat_us: f64,
        /// Shared time of the entries of a row of mean context; longer rows finish with the last of them.
        shared_entry_us: f64,
        /// A block's own time for the entries of a row of mean context.
        own_entry_us: f64,
        /// Scale of the noise.
        sigma_us: f64,
        tail_chance: f64,
        tail_us: f64,
        start: Draws,
        tail: Draws,
    },
    /// A number of equal blocks in waves.
    Waves {
        wave_us: f64,
        /// Length of the end of a wave over which its blocks land.
        landing_us: f64,
        landing: Draws,
    },
}

impl Default for Grid {
    fn default() -> Self {
        Self::Waves { wave_us: 0.0, landing_us: 0.0, landing: Draws::default() }
    }
}

impl TilePlan {
    /// A block a row. `shared` is the time that all blocks together need, `own` what one block of mean
    /// context needs for its bytes; of both first the part that is the same for every row, then that of its
    /// entries.
    pub(super) fn per_row(
        profile: &CostProfile,
        rows: usize,
        fixed_us: f64,
        shared: [f64; 2],
        own: [f64; 2],
        [start, tail]: [Draws; 2],
    ) -> Self {
        let slots = (profile.slots as usize).max(1);
        let count = rows.max(1);
        let waves = count.div_ceil(slots) as f64;
        let (shared_sum, own_sum) = ((shared[0] + shared[1]) / waves, own[0] + own[1]);
        // However they overlap, all bytes take at least their transfer time.
        let least = if shared_sum > 0.0 { 1.0 - own_sum / shared_sum } else { 0.0 };
        let queueing = profile.queueing_share.max(least) / waves;
        let flat_us = shared[0] * queueing + own[0];
        let shared_entry_us = shared[1] * queueing;
        let own_entry_us = own[1];
        let work_us = flat_us + shared_entry_us + own_entry_us;
        let scale = (work_us / profile.tile_reference_us).min(1.0).sqrt();
        let grid = Grid::Rows {
            flat_us,
            shared_entry_us,
            own_entry_us,
            sigma_us: profile.tile_sigma_us * scale,
            tail_chance: profile.tile_tail_chance,
            tail_us: profile.tile_tail_us * scale,
            start,
            tail,
        };
        Self { count, slots, grid, ..Self::fixed_time(profile, fixed_us) }
    }

    /// `count` blocks that share `shared_us` evenly.
    pub(super) fn fixed(profile: &CostProfile, count: usize, fixed_us: f64, shared_us: f64, landing: Draws) -> Self {
        let slots = (profile.slots as usize).max(1);
        let count = count.max(1);
        let wave_us = shared_us / count.div_ceil(slots) as f64;
        let landing_us = profile.landing_share * wave_us;
        let grid = Grid::Waves { wave_us, landing_us, landing };
        Self { count, slots, grid, ..Self::fixed_time(profile, fixed_us) }
    }

    fn fixed_time(profile: &CostProfile, fixed_us: f64) -> Self {
        let ramp_us = fixed_us * profile.ramp_share;
        Self { ramp_us, tail_us: fixed_us - ramp_us, ..Self::default() }
    }

    /// The served block that stands for numeric tile `tile` of `tiles`: the one at the same fraction.
    pub(super) fn served(&self, tile: usize, tiles: usize) -> usize {
        if tiles == self.count {
            return tile.min(self.count - 1);
        }
        ((2 * tile + 1) * self.count / (2 * tiles.max(1))).min(self.count - 1)
    }

    /// Time until the last block has landed.
    pub(super) fn total_us(&self, relative_context: &[f64]) -> f64 {
        match self.grid {
            Grid::Rows { .. } => (0..self.count).map(|tile| self.land_us(tile, relative_context)).fold(0.0, f64::max),
            // One block of the last wave, drawn, lands at its very end.
            Grid::Waves { wave_us, .. } => {
                self.ramp_us + wave_us * self.count.div_ceil(self.slots) as f64 + self.tail_us
            }
        }
    }

    /// When a block reads chunk `chunk` of `chunks`.
    pub(super) fn sample_us(&self, tile: usize, chunk: usize, chunks: usize, relative_context: &[f64]) -> f64 {
        let (start_us, work_us) = self.reading(tile, relative_context);
        start_us + work_us * (chunk as f64 / chunks.max(1) as f64)
    }

    /// When a block's writes land.
    pub(super) fn land_us(&self, tile: usize, relative_context: &[f64]) -> f64 {
        let (start_us, work_us) = self.reading(tile, relative_context);
        start_us + work_us + self.tail_us
    }

    /// When a block begins to read, and for how long it does.
    fn reading(&self, tile: usize, relative_context: &[f64]) -> (f64, f64) {
        match self.grid {
            Grid::Rows { sigma_us, tail_chance, tail_us, start, tail, .. } => {
                let mut begin_us = self.ramp_us + sigma_us * start.normal(tile);
                begin_us = begin_us.max(0.0) + tail.tail(tile, tail_chance, tail_us);
                // Blocks of earlier waves held the slot first.
                let mut earlier = tile;
                while earlier >= self.slots {
                    earlier -= self.slots;
                    begin_us += self.row_us(earlier, relative_context);
                }
                (begin_us, self.row_us(tile, relative_context))
            }
            Grid::Waves { wave_us, landing_us, landing } => {
                let wave = tile / self.slots;
                let first = wave * self.slots;
                let width = self.slots.min(self.count - first);
                let last = first + (landing.uniform(self.count + wave) * width as f64) as usize;
                let early_us = if tile == last { 0.0 } else { landing_us * landing.uniform(tile) };
                (self.ramp_us + wave_us * wave as f64, wave_us - early_us)
            }
        }
    }

    /// How long a row's block works.
    fn row_us(&self, row: usize, relative_context: &[f64]) -> f64 {
        match self.grid {
            Grid::Rows { flat_us, shared_entry_us, own_entry_us, .. } => {
                let context = relative_context.get(row).copied().unwrap_or(1.0);
                flat_us + shared_entry_us * context.min(1.0) + own_entry_us * context
            }
            Grid::Waves { wave_us, .. } => wave_us,
        }
    }
}
