//! Gated pooling of a window's tokens into one compressed entry (dsv4.md 1.6).

use super::activation::exp_lanes;
use super::cpu::{Cpu, Kernel, LANES, Lanes};

/// One slot of a window, by channel.
#[derive(Clone, Copy, Debug)]
pub struct PoolSlot<'a> {
    /// What is averaged.
    pub values: &'a [f32],
    /// The gate's logits.
    pub scores: &'a [f32],
    /// Added to the logits: the row of the position bias that belongs to the slot.
    pub biases: &'a [f32],
}

/// Per channel `c`: `out[c] = sum_i p_i values_i[c]`, `p` the softmax over the slots of `scores_i[c] + biases_i[c]`.
///
/// `slot(i)` hands out slot `i` of `slots`; it is called several times a slot and should only compute addresses. Each
/// of its slices has at least the length of `out`. Slots are summed in order, relative to the largest logit. A slot
/// that is missing has a value of 0 and a score of minus infinity or of minus the largest float.
///
/// # Panics
/// If there is no slot or a slice is too short.
pub fn compress_pool<'a>(cpu: Cpu, slots: usize, slot: impl Fn(usize) -> PoolSlot<'a>, out: &mut [f32]) {
    assert!(slots > 0, "compress_pool: no slots");
    cpu.run(Pool { slots, slot, out });
}

struct Pool<'o, F> {
    slots: usize,
    slot: F,
    out: &'o mut [f32],
}

impl<'a, F: Fn(usize) -> PoolSlot<'a>> Kernel for Pool<'_, F> {
    type Output = ();

    #[inline(always)]
    fn run<L: Lanes>(self, lanes: L) {
        let (chunks, rest) = self.out.as_chunks_mut::<LANES>();
        let done = chunks.len() * LANES;
        let (blocks, chunks) = chunks.as_chunks_mut::<4>();
        let blocks_done = blocks.len() * 4 * LANES;
        for (block, out) in blocks.iter_mut().enumerate() {
            let pooled = pool(lanes, self.slots, &self.slot, Whole::<4>(block * 4 * LANES));
            for (out, pooled) in out.iter_mut().zip(pooled) {
                *out = lanes.store(pooled);
            }
        }
        for (chunk, out) in chunks.iter_mut().enumerate() {
            let channels = Whole::<1>(blocks_done + chunk * LANES);
            let [pooled] = pool(lanes, self.slots, &self.slot, channels);
            *out = lanes.store(pooled);
        }
        if !rest.is_empty() {
            let channels = Part { start: done, width: rest.len() };
            let [pooled] = pool(lanes, self.slots, &self.slot, channels);
            lanes.store_some(pooled, rest);
        }
    }
}

/// Which channels are loaded into `C` vectors.
trait Channels<const C: usize>: Copy {
    fn load<L: Lanes>(self, lanes: L, row: &[f32]) -> [L::V; C];
}

/// `C` whole vectors from a channel on.
#[derive(Clone, Copy)]
struct Whole<const C: usize>(usize);

impl<const C: usize> Channels<C> for Whole<C> {
    #[inline(always)]
    fn load<L: Lanes>(self, lanes: L, row: &[f32]) -> [L::V; C] {
        let row = &row[self.0..][..C * LANES].as_chunks::<LANES>().0[..C];
        let mut loaded = [lanes.zero(); C];
        for c in 0..C {
            loaded[c] = lanes.load(&row[c]);
        }
        loaded
    }
}

/// The last channels, fewer than sixteen.
#[derive(Clone, Copy)]
struct Part {
    start: usize,
    width: usize,
}

impl Channels<1> for Part {
    #[inline(always)]
    fn load<L: Lanes>(self, lanes: L, row: &[f32]) -> [L::V; 1] {
        [lanes.load_some(&row[self.start..][..self.width])]
    }
}

#[inline(always)]
fn pool<'a, L: Lanes, const C: usize>(
    lanes: L,
    slots: usize,
    slot: &impl Fn(usize) -> PoolSlot<'a>,
    channels: impl Channels<C>,
) -> [L::V; C] {
    let mut largest = [lanes.splat(f32::NEG_INFINITY); C];
    for i in 0..slots {
        let slot = slot(i);
        let scores = channels.load(lanes, slot.scores);
        let biases = channels.load(lanes, slot.biases);
        for c in 0..C {
            largest[c] = lanes.max(largest[c], lanes.add(scores[c], biases[c]));
        }
    }
    let mut weights = [lanes.zero(); C];
    let mut sums = [lanes.zero(); C];
    for i in 0..slots {
        let slot = slot(i);
        let scores = channels.load(lanes, slot.scores);
        let biases = channels.load(lanes, slot.biases);
        let values = channels.load(lanes, slot.values);
        for c in 0..C {
            let logit = lanes.add(scores[c], biases[c]);
            let weight = exp_lanes(lanes, lanes.sub(logit, largest[c]));
            weights[c] = lanes.add(weights[c], weight);
            sums[c] = lanes.fma(weight, values[c], sums[c]);
        }
    }
    let mut pooled = sums;
    for c in 0..C {
        pooled[c] = lanes.div(sums[c], weights[c]);
    }
    pooled
}

#[cfg(test)]
mod tests {
    use super::super::testing::{bits, close, same_everywhere, values};
    use super::*;

    fn run(cpu: Cpu, rows: [&[f32]; 3], slots: usize, channels: usize) -> Vec<f32> {
        let mut out = vec![0.0; channels];
        let [values, scores, biases] = rows.map(|rows| move |i: usize| &rows[i * channels..]);
        let slot = |i| PoolSlot { values: values(i), scores: scores(i), biases: biases(i) };
        compress_pool(cpu, slots, slot, &mut out);
        out
    }

    #[test]
    fn follows_the_formula_at_every_level() {
        for (slots, channels) in [(1, 1), (8, 64), (4, 37), (128, 96), (8, 16)] {
            let [x, scores, biases] = [1, 2, 3].map(|seed| values(seed, slots * channels));
            let result = same_everywhere(|cpu| run(cpu, [&x, &scores, &biases], slots, channels));
            let exact: Vec<f64> = (0..channels)
                .map(|c| {
                    let at = |i: usize| i * channels + c;
                    let weight = |i| (f64::from(scores[at(i)]) + f64::from(biases[at(i)])).exp();
                    let total: f64 = (0..slots).map(weight).sum();
                    (0..slots).map(|i| weight(i) * f64::from(x[at(i)])).sum::<f64>() / total
                })
                .collect();
            close(&result, &exact, 1e-6);
        }
    }

    #[test]
    fn a_missing_slot_takes_no_part() {
        let (slots, channels) = (8, 20);
        let biases = values(3, slots * channels);
        for missing in [f32::NEG_INFINITY, f32::MIN] {
            let (mut x, mut scores) = (values(1, 160), values(2, 160));
            x[..80].fill(0.0);
            scores[..80].fill(missing);
            let with = run(Cpu::detect(), [&x, &scores, &biases], slots, channels);
            let without = [&x[80..], &scores[80..], &biases[80..]];
            let without = run(Cpu::detect(), without, 4, channels);
            assert_eq!(bits(&with), bits(&without));
        }
    }
}
