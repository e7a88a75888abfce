//! Scores of the compressed entries and the choice among them (dsv4.md 1.7).

use super::cpu::{Cpu, Kernel, LANES, Lanes};

/// `out[s] = sum_h weights[h] * relu(q_h . k_s)` for `s` in `0..count`.
///
/// Shapes: `q` `[heads, dim]`, `weights` `[heads]`, `keys_transposed` `[dim, stride]` (entry `s` is column `s`). A
/// lane is an entry; products are summed over `dim` in order, then over the heads in order, so a score depends on
/// nothing but its own entry. NaN passes through the relu.
///
/// # Panics
/// If a slice is too short, or `count` larger than `stride` or `out`.
pub fn index_scores(
    cpu: Cpu,
    q: &[f32],
    weights: &[f32],
    heads: usize,
    dim: usize,
    keys_transposed: &[f32],
    stride: usize,
    count: usize,
    out: &mut [f32],
) {
    assert_eq!(q.len(), heads * dim, "index_scores: q");
    assert_eq!(weights.len(), heads, "index_scores: weights");
    assert!(count <= stride && out.len() >= count, "index_scores: count {count}");
    assert!(dim == 0 || keys_transposed.len() >= (dim - 1) * stride + count, "index_scores: keys");
    cpu.run(Scores { q, weights, dim, keys: keys_transposed, stride, out: &mut out[..count] });
}

struct Scores<'a> {
    q: &'a [f32],
    weights: &'a [f32],
    dim: usize,
    keys: &'a [f32],
    stride: usize,
    out: &'a mut [f32],
}

impl Kernel for Scores<'_> {
    type Output = ();

    #[inline(always)]
    fn run<L: Lanes>(mut self, lanes: L) {
        let count = self.out.len();
        let mut entry = 0;
        while entry + LANES <= count {
            entry += match (count - entry) / LANES {
                4.. if L::ACCUMULATORS >= 16 => self.entries::<L, 4>(lanes, entry),
                2.. if L::ACCUMULATORS >= 16 => self.entries::<L, 2>(lanes, entry),
                _ => self.entries::<L, 1>(lanes, entry),
            };
        }
        if entry < count {
            let width = count - entry;
            let keys = Some { keys: &self.keys[entry..], stride: self.stride, width };
            let [scores] = self.all_heads(lanes, keys);
            lanes.store_some(scores, &mut self.out[entry..]);
        }
    }
}

/// How to load `E` times sixteen entries of one dimension.
trait Columns<const E: usize>: Copy {
    fn load<L: Lanes>(self, lanes: L, dim: usize) -> [L::V; E];
}

/// Whole vectors.
#[derive(Clone, Copy)]
struct Full<'a> {
    keys: &'a [f32],
    stride: usize,
}

impl<const E: usize> Columns<E> for Full<'_> {
    #[inline(always)]
    fn load<L: Lanes>(self, lanes: L, dim: usize) -> [L::V; E] {
        let row = &self.keys[dim * self.stride..].as_chunks::<LANES>().0[..E];
        let mut loaded = [lanes.zero(); E];
        for e in 0..E {
            loaded[e] = lanes.load(&row[e]);
        }
        loaded
    }
}

/// The last entries, fewer than sixteen.
#[derive(Clone, Copy)]
struct Some<'a> {
    keys: &'a [f32],
    stride: usize,
    width: usize,
}

impl Columns<1> for Some<'_> {
    #[inline(always)]
    fn load<L: Lanes>(self, lanes: L, dim: usize) -> [L::V; 1] {
        [lanes.load_some(&self.keys[dim * self.stride..][..self.width])]
    }
}

impl Scores<'_> {
    /// Scores of `E` vectors of entries. Returns how many entries those are.
    #[inline(always)]
    fn entries<L: Lanes, const E: usize>(&mut self, lanes: L, entry: usize) -> usize {
        let keys = Full { keys: &self.keys[entry..], stride: self.stride };
        let scores: [L::V; E] = self.all_heads(lanes, keys);
        let out = &mut self.out[entry..].as_chunks_mut::<LANES>().0[..E];
        for e in 0..E {
            out[e] = lanes.store(scores[e]);
        }
        E * LANES
    }

    #[inline(always)]
    fn all_heads<L: Lanes, const E: usize>(&self, lanes: L, keys: impl Columns<E>) -> [L::V; E] {
        let heads = self.weights.len();
        let mut totals = [lanes.zero(); E];
        let mut head = 0;
        while head < heads {
            head += match heads - head {
                4.. => self.some_heads::<L, 4, E>(lanes, head, keys, &mut totals),
                2.. => self.some_heads::<L, 2, E>(lanes, head, keys, &mut totals),
                _ => self.some_heads::<L, 1, E>(lanes, head, keys, &mut totals),
            };
        }
        totals
    }

    #[inline(always)]
    fn some_heads<L: Lanes, const H: usize, const E: usize>(
        &self,
        lanes: L,
        head: usize,
        keys: impl Columns<E>,
        totals: &mut [L::V; E],
    ) -> usize {
        let q: [&[f32]; H] = std::array::from_fn(
            #[inline(always)]
            |h| &self.q[(head + h) * self.dim..][..self.dim],
        );
        let mut dots = [[lanes.zero(); E]; H];
        for d in 0..self.dim {
            let key = keys.load(lanes, d);
            for h in 0..H {
                let q = lanes.splat(q[h][d]);
                for e in 0..E {
                    dots[h][e] = lanes.fma(q, key[e], dots[h][e]);
                }
            }
        }
        for h in 0..H {
            let weight = lanes.splat(self.weights[head + h]);
            for e in 0..E {
                let relu = lanes.max(lanes.zero(), dots[h][e]);
                totals[e] = lanes.fma(weight, relu, totals[e]);
            }
        }
        H
    }
}

/// Writes the indices of the `k` largest scores to `out`, ascending; slots past the number of scores become -1.
///
/// Of equal scores (0 and -0 are equal) the lowest indices are taken. NaN counts as smaller than everything, so it
/// is chosen only when fewer than `k` numbers are left, lowest index first.
///
/// # Panics
/// If `out` is shorter than `k` or there are more than 2^31 - 1 scores.
pub fn top_k(cpu: Cpu, scores: &[f32], k: usize, out: &mut [i32]) {
    assert!(i32::try_from(scores.len()).is_ok(), "top_k: {} scores", scores.len());
    let (out, unused) = out.split_at_mut(k);
    unused.fill(-1);
    let (chosen, missing) = out.split_at_mut(k.min(scores.len()));
    missing.fill(-1);
    if chosen.len() == scores.len() {
        for (slot, index) in chosen.iter_mut().zip(0..) {
            *slot = index;
        }
        return;
    }
    if !chosen.is_empty() {
        cpu.run(TopK { scores, chosen });
    }
}

/// Which scores belong to the `k` largest.
struct Cut {
    /// Every score above it does.
    threshold: f32,
    /// So do this many of the scores equal to it (there may be fewer), ..
    ties: usize,
    /// .. and this many NaN.
    nans: usize,
}

impl Cut {
    /// All scores from `threshold` up, which are known to be `k`.
    fn from(threshold: f32) -> Self {
        Self { threshold, ties: usize::MAX, nans: 0 }
    }

    /// Writes the indices of the scores that belong to it, of which there are as many as places in `chosen`.
    #[inline(always)]
    fn select<L: Lanes>(mut self, lanes: L, scores: &[f32], chosen: &mut [i32]) {
        let mut filled = 0;
        if self.ties == usize::MAX {
            let limit = lanes.splat(self.threshold);
            let (chunks, rest) = scores.as_chunks::<LANES>();
            for (chunk, start) in chunks.iter().zip((0..).step_by(LANES)) {
                let mut mask = lanes.at_least(lanes.load(chunk), limit);
                while mask != 0 && filled < chosen.len() {
                    chosen[filled] = start + mask.trailing_zeros() as i32;
                    filled += 1;
                    mask &= mask - 1;
                }
            }
            for (&score, index) in rest.iter().zip((chunks.len() * LANES) as i32..) {
                if score >= self.threshold && filled < chosen.len() {
                    chosen[filled] = index;
                    filled += 1;
                }
            }
            return;
        }
        for (&score, index) in scores.iter().zip(0..) {
            if filled == chosen.len() {
                break;
            }
            let tie = score == self.threshold && self.ties > 0;
            let nan = score.is_nan() && self.nans > 0;
            self.ties -= usize::from(tie);
            self.nans -= usize::from(nan);
            chosen[filled] = index;
            filled += usize::from(score > self.threshold || tie || nan);
        }
    }
}

struct TopK<'a> {
    scores: &'a [f32],
    chosen: &'a mut [i32],
}

impl Kernel for TopK<'_> {
    type Output = ();

    #[inline(always)]
    fn run<L: Lanes>(self, lanes: L) {
        let (scores, k) = (self.scores, self.chosen.len());
        find_cut(lanes, scores, k).select(lanes, scores, self.chosen);
    }
}

/// Finds the k-th largest score, `k` being less than there are: bisects on the integers that order
/// as floats do until one vector holds what is left, and ranks that.
#[inline(always)]
fn find_cut<L: Lanes>(lanes: L, scores: &[f32], k: usize) -> Cut {
    let numbers = at_least(lanes, scores, f32::NEG_INFINITY);
    if numbers <= k {
        return Cut { threshold: f32::NEG_INFINITY, ties: numbers, nans: k - numbers };
    }
    // `inside` scores (at least k) are >= low, `above` (fewer than k) are >= high, which starts out as a NaN.
    let (mut low, mut high) = (order(f32::NEG_INFINITY), order(f32::INFINITY) + 1);
    let (mut inside, mut above) = (numbers, 0);
    while high - low > 1 && inside - above > LANES {
        let middle = low + (high - low) / 2;
        let count = at_least(lanes, scores, unorder(middle));
        if count == k {
            return Cut::from(unorder(middle));
        }
        if count > k {
            (low, inside) = (middle, count);
        } else {
            (high, above) = (middle, count);
        }
    }
    if high - low == 1 {
        return Cut { threshold: unorder(low), ties: k - above, nans: 0 };
    }
    rank(lanes, scores, k, unorder(low), unorder(high), above)
}

/// The cut among the at most sixteen scores that are `>= low` and not `>= high`; `above` are.
#[inline(always)]
fn rank<L: Lanes>(lanes: L, scores: &[f32], k: usize, low: f32, high: f32, above: usize) -> Cut {
    let mut left = [f32::NAN; LANES];
    let mut count = 0;
    let limits = (lanes.splat(low), lanes.splat(high));
    let (chunks, rest) = scores.as_chunks::<LANES>();
    for chunk in chunks {
        let values = lanes.load(chunk);
        let mut mask = lanes.at_least(values, limits.0) & !lanes.at_least(values, limits.1);
        while mask != 0 && count < LANES {
            left[count] = chunk[mask.trailing_zeros() as usize % LANES];
            count += 1;
            mask &= mask - 1;
        }
    }
    for &score in rest {
        let below = score < high || high.is_nan();
        if score >= low && below && count < LANES {
            left[count] = score;
            count += 1;
        }
    }
    let mut threshold = f32::NEG_INFINITY;
    let mut reached = usize::MAX;
    for &score in &left[..count] {
        let mask = lanes.at_least(lanes.load(&left), lanes.splat(score));
        let count = above + mask.count_ones() as usize;
        // Of the scores that reach k, the largest; equal ones reach equally many.
        if count >= k && count < reached {
            (threshold, reached) = (score, count);
        }
    }
    if reached == k {
        return Cut::from(threshold);
    }
    let equal = left.iter().filter(|&&score| score == threshold).count();
    Cut { threshold, ties: k + equal - reached, nans: 0 }
}

/// How many scores are `>= threshold`.
#[inline(always)]
fn at_least<L: Lanes>(lanes: L, scores: &[f32], threshold: f32) -> usize {
    let limit = lanes.splat(threshold);
    let (chunks, rest) = scores.as_chunks::<LANES>();
    let mut count = 0;
    for chunk in chunks {
        count += lanes.at_least(lanes.load(chunk), limit).count_ones();
    }
    let last = rest.iter().map(|&score| u32::from(score >= threshold));
    (count + last.sum::<u32>()) as usize
}

/// An integer for each float, in the same order (-0 just below 0).
#[inline(always)]
fn order(value: f32) -> u32 {
    let bits = value.to_bits();
    bits ^ (((bits as i32 >> 31) as u32) | 0x8000_0000)
}

#[inline(always)]
fn unorder(key: u32) -> f32 {
    f32::from_bits(if key & 0x8000_0000 != 0 { key ^ 0x8000_0000 } else { !key })
}

/// Index of the largest value, the lowest of equal ones. NaN never wins; without any number it is 0.
pub fn argmax(values: &[f32]) -> usize {
    let (chunks, rest) = values.as_chunks::<LANES>();
    let mut largest = [f32::NEG_INFINITY; LANES];
    for chunk in chunks {
        for (largest, &value) in largest.iter_mut().zip(chunk) {
            *largest = if value > *largest { value } else { *largest };
        }
    }
    let largest = largest.iter().chain(rest).fold(f32::NEG_INFINITY, |a, &b| if b > a { b } else { a });
    // First the vector, then the place in it.
    let start = chunks
        .iter()
        .position(|chunk| chunk.iter().fold(false, |found, &value| found | (value == largest)))
        .unwrap_or(chunks.len())
        * LANES;
    values[start..].iter().position(|&value| value == largest).map_or(0, |index| start + index)
}

#[cfg(test)]
mod tests {
    use super::super::testing::{bits, close, levels, same_everywhere, values};
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn scores_follow_the_formula_and_not_the_count() {
        for (heads, dim, count, stride) in
            [(1, 4, 1, 1), (4, 32, 100, 128), (7, 16, 63, 64), (8, 128, 40, 40), (3, 8, 16, 20)]
        {
            let (q, weights) = (values(1, heads * dim), values(2, heads));
            let keys = values(3, dim * stride);
            let run = |cpu, count: usize| {
                let mut out = vec![9.0; count];
                index_scores(cpu, &q, &weights, heads, dim, &keys, stride, count, &mut out);
                out
            };
            let all = same_everywhere(|cpu| run(cpu, count));
            let exact: Vec<f64> = (0..count)
                .map(|s| {
                    (0..heads)
                        .map(|h| {
                            let dot: f64 =
                                (0..dim).map(|d| f64::from(q[h * dim + d]) * f64::from(keys[d * stride + s])).sum();
                            f64::from(weights[h]) * dot.max(0.0)
                        })
                        .sum()
                })
                .collect();
            close(&all, &exact, 1e-5);
            for cpu in levels() {
                for fewer in [count / 2, count - 1, 1] {
                    assert_eq!(bits(&run(cpu, fewer)), bits(&all[..fewer]));
                }
            }
        }
    }

    #[test]
    fn a_damaged_key_shows_in_its_score_only() {
        let mut keys = values(1, 8 * 20);
        keys[3 * 20 + 17] = f32::NAN;
        let mut out = [0.0; 20];
        index_scores(Cpu::detect(), &values(2, 16), &[1.0, -1.0], 2, 8, &keys, 20, 20, &mut out);
        for (s, score) in out.iter().enumerate() {
            assert_eq!(score.is_nan(), s == 17);
        }
    }

    /// By sorting.
    fn sorted_top_k(scores: &[f32], k: usize, slots: usize) -> Vec<i32> {
        let mut indices: Vec<usize> = (0..scores.len()).collect();
        // 0 and -0 are equal; NaN last.
        indices.sort_by(|&a, &b| match (scores[a].is_nan(), scores[b].is_nan()) {
            (false, false) => scores[b].partial_cmp(&scores[a]).expect("numbers"),
            (a, b) => a.cmp(&b),
        });
        indices.truncate(k);
        indices.sort_unstable();
        let mut out: Vec<i32> = indices.into_iter().map(|i| i as i32).collect();
        out.resize(slots, -1);
        out
    }

    fn check(scores: &[f32], k: usize) {
        for cpu in levels() {
            let mut out = vec![77; k + 2];
            top_k(cpu, scores, k, &mut out);
            assert_eq!(out, sorted_top_k(scores, k, k + 2), "{}", cpu.level());
        }
    }

    #[test]
    fn top_k_takes_the_lowest_of_equals() {
        check(&[], 3);
        check(&[1.0], 0);
        check(&[1.0, 1.0, 1.0, 1.0], 2);
        check(&[0.0, -0.0, 0.0, -0.0, 1.0], 3);
        check(&[-0.0, 0.0, -1.0], 1);
        check(&[f32::NEG_INFINITY, f32::INFINITY, 3.0, f32::NEG_INFINITY], 3);
        check(&[f32::INFINITY; 20], 7);
        check(&[f32::NEG_INFINITY; 20], 7);
    }

    #[test]
    fn top_k_takes_nan_last() {
        let nan = f32::NAN;
        check(&[nan, 1.0, nan, f32::NEG_INFINITY, nan], 2);
        check(&[nan, 1.0, nan, f32::NEG_INFINITY, nan], 3);
        check(&[nan, 1.0, nan, f32::NEG_INFINITY, nan], 4);
        check(&[nan; 40], 8);
        check(&[-nan, nan, -1.0], 1);
    }

    #[test]
    fn argmax_takes_the_first() {
        assert_eq!(argmax(&[]), 0);
        assert_eq!(argmax(&[f32::NAN, f32::NAN]), 0);
        assert_eq!(argmax(&[f32::NAN, f32::NEG_INFINITY]), 1);
        assert_eq!(argmax(&[1.0, 3.0, f32::NAN, 3.0]), 1);
        let mut many = vec![0.5; 1000];
        assert_eq!(argmax(&many), 0);
        many[999] = 0.6;
        assert_eq!(argmax(&many), 999);
        many[37] = 0.6;
        assert_eq!(argmax(&many), 37);
        assert_eq!(argmax(&[-0.0, 0.0]), 0);
    }

    #[test]
    fn integers_order_as_floats() {
        let all = [f32::NEG_INFINITY, f32::MIN, -1.0, -0.0, 0.0, f32::MIN_POSITIVE, 2.0, f32::INFINITY];
        for pair in all.windows(2) {
            assert!(order(pair[0]) < order(pair[1]));
            assert_eq!(unorder(order(pair[0])).to_bits(), pair[0].to_bits());
        }
    }

    proptest! {
        #[test]
        fn top_k_is_the_sorted_prefix(
            scores in prop::collection::vec(-1f32..1.0, 0..400),
            k in 0usize..200,
        ) {
            check(&scores, k);
        }

        #[test]
        fn top_k_with_many_ties(
            scores in prop::collection::vec(
                prop_oneof![Just(f32::NAN), Just(-0.0), (-3i8..4).prop_map(f32::from)],
                0..200,
            ),
            k in 0usize..100,
        ) {
            check(&scores, k);
        }

        #[test]
        fn top_k_of_any_bits(bits in prop::collection::vec(any::<u32>(), 0..100), k in 0usize..64) {
            let scores: Vec<f32> = bits.into_iter().map(f32::from_bits).collect();
            check(&scores, k);
        }
    }
}
