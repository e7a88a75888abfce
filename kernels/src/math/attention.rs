//! Attention of one query row over gathered keys (dsv4.md 1.4).

use super::activation::exp_lanes;
use super::cpu::{Cpu, Kernel, LANES, Lanes};

/// One row of multi-query attention with a sink: `out_h = sum_s p_hs kv_s` where
/// `p_hs = e^(scale q_h . kv_s) / (e^sink_h + sum_s e^(scale q_h . kv_s))`, computed relative to the largest logit.
///
/// Shapes: `q` and `out` `[heads, head_dim]`, `kv` `[keys, head_dim]` (both key and value), `sinks` `[heads]`,
/// `scores` at least `heads * keys` of scratch. Each dot product is summed in sixteen lanes and a fixed tree; weights
/// and values are summed over the keys in order, starting with the sink. No keys give zeros.
///
/// # Panics
/// If a slice has another length.
pub fn attention_row(
    cpu: Cpu,
    q: &[f32],
    heads: usize,
    head_dim: usize,
    kv: &[f32],
    keys: usize,
    sinks: &[f32],
    scale: f32,
    scores: &mut [f32],
    out: &mut [f32],
) {
    assert_eq!(q.len(), heads * head_dim, "attention: q");
    assert_eq!(kv.len(), keys * head_dim, "attention: kv");
    assert_eq!(sinks.len(), heads, "attention: sinks");
    assert_eq!(out.len(), heads * head_dim, "attention: out");
    assert!(scores.len() >= heads * keys, "attention: scratch");
    if keys == 0 || head_dim == 0 {
        out.fill(0.0);
        return;
    }
    cpu.run(Attention { q, heads, head_dim, kv, keys, sinks, scale, scores: &mut scores[..heads * keys], out });
}

struct Attention<'a> {
    q: &'a [f32],
    heads: usize,
    head_dim: usize,
    kv: &'a [f32],
    keys: usize,
    sinks: &'a [f32],
    scale: f32,
    scores: &'a mut [f32],
    out: &'a mut [f32],
}

impl Kernel for Attention<'_> {
    type Output = ();

    #[inline(always)]
    fn run<L: Lanes>(self, lanes: L) {
        let (dim, keys) = (self.head_dim, self.keys);
        let mut head = 0;
        while head < self.heads {
            let block = Block { dim, kv: self.kv, scale: self.scale };
            let left = self.heads - head;
            let q = &self.q[head * dim..];
            let sinks = &self.sinks[head..];
            let scores = &mut self.scores[head * keys..];
            let out = &mut self.out[head * dim..];
            head += match left {
                4.. if L::ACCUMULATORS >= 16 => block.heads::<L, 4>(lanes, q, sinks, scores, out),
                2.. => block.heads::<L, 2>(lanes, q, sinks, scores, out),
                _ => block.heads::<L, 1>(lanes, q, sinks, scores, out),
            };
        }
    }
}

/// What the heads share.
#[derive(Clone, Copy)]
struct Block<'a> {
    dim: usize,
    kv: &'a [f32],
    scale: f32,
}

impl Block<'_> {
    /// Attention of the first `H` heads of the slices, over the same loads of keys and values. Returns `H`.
    #[inline(always)]
    fn heads<L: Lanes, const H: usize>(
        self,
        lanes: L,
        q: &[f32],
        sinks: &[f32],
        scores: &mut [f32],
        out: &mut [f32],
    ) -> usize {
        let keys = self.kv.len() / self.dim;
        let scores = &mut scores[..H * keys];
        self.dots::<L, H>(lanes, q, scores);

        let mut sums = [lanes.zero(); H];
        for (h, scores) in scores.chunks_exact_mut(keys).enumerate() {
            sums[h] = exponentials(lanes, scores, sinks[h]);
        }
        let scores: [&[f32]; H] = std::array::from_fn(
            #[inline(always)]
            |h| &scores[h * keys..][..keys],
        );

        // The first values are summed together with the weights, which gives the scale of all.
        let mut chunk = 0;
        let chunks = self.dim / LANES;
        let wide = L::ACCUMULATORS >= 16;
        chunk += match chunks {
            4.. if wide => self.values::<L, H, 4, true>(lanes, 0, scores, &mut sums, out),
            2.. => self.values::<L, H, 2, true>(lanes, 0, scores, &mut sums, out),
            1 => self.values::<L, H, 1, true>(lanes, 0, scores, &mut sums, out),
            _ => self.values::<L, H, 0, true>(lanes, 0, scores, &mut sums, out),
        };
        let scales = &mut sums;
        while chunk < chunks {
            chunk += match chunks - chunk {
                4.. if wide => self.values::<L, H, 4, false>(lanes, chunk, scores, scales, out),
                2.. => self.values::<L, H, 2, false>(lanes, chunk, scores, scales, out),
                _ => self.values::<L, H, 1, false>(lanes, chunk, scores, scales, out),
            };
        }
        if chunks * LANES < self.dim {
            self.last_values::<L, H>(lanes, scores, *scales, out);
        }
        H
    }

    /// `scores[h][s] = scale * (q_h . kv_s)`, for four keys at a time.
    #[inline(always)]
    fn dots<L: Lanes, const H: usize>(self, lanes: L, q: &[f32], scores: &mut [f32]) {
        let keys = scores.len() / H;
        let q: [Row<'_>; H] = std::array::from_fn(
            #[inline(always)]
            |h| Row::new(q, h, self.dim),
        );
        let whole = keys / KEYS * KEYS;
        for first in (0..whole).step_by(KEYS) {
            let dots = self.four_keys(lanes, &q, first, KEYS);
            for h in 0..H {
                if let Some(scores) = scores[h * keys + first..].first_chunk_mut::<KEYS>() {
                    *scores = dots[h];
                }
            }
        }
        if whole < keys {
            let dots = self.four_keys(lanes, &q, whole, keys - whole);
            for h in 0..H {
                for i in 0..keys - whole {
                    scores[h * keys + whole + i] = dots[h][i];
                }
            }
        }
    }

    /// The scores of the keys from `first` on, of which there are `count`; the last one is repeated to make four.
    #[inline(always)]
    fn four_keys<L: Lanes, const H: usize>(
        self,
        lanes: L,
        q: &[Row<'_>; H],
        first: usize,
        count: usize,
    ) -> [[f32; KEYS]; H] {
        let chunks = self.dim / LANES;
        let key: [Row<'_>; KEYS] = std::array::from_fn(
            #[inline(always)]
            |i| Row::new(self.kv, first + i.min(count - 1), self.dim),
        );
        let mut sums = [[lanes.zero(); KEYS]; H];
        for c in 0..chunks {
            let mut loaded = [lanes.zero(); KEYS];
            for i in 0..KEYS {
                loaded[i] = lanes.load(&key[i].chunks[c]);
            }
            for h in 0..H {
                let q = lanes.load(&q[h].chunks[c]);
                for i in 0..KEYS {
                    sums[h][i] = lanes.fma(q, loaded[i], sums[h][i]);
                }
            }
        }
        if chunks * LANES < self.dim {
            for h in 0..H {
                let q = lanes.load_some(q[h].rest);
                for i in 0..KEYS {
                    sums[h][i] = lanes.fma(q, lanes.load_some(key[i].rest), sums[h][i]);
                }
            }
        }
        let mut all = [lanes.zero(); LANES];
        for h in 0..H {
            for i in 0..KEYS {
                all[h * KEYS + i] = sums[h][i];
            }
        }
        let dots = lanes.store(lanes.mul(lanes.sum_each(all), lanes.splat(self.scale)));
        let mut scores = [[0.0; KEYS]; H];
        for h in 0..H {
            for i in 0..KEYS {
                scores[h][i] = dots[h * KEYS + i];
            }
        }
        scores
    }

    /// The weighted sum of `C` chunks of the values for `H` heads, times `scales`. With `SUM`, `scales` comes in as
    /// the sinks' weights and is first turned into 1 over the sum of all weights. Returns `C`.
    #[inline(always)]
    fn values<L: Lanes, const H: usize, const C: usize, const SUM: bool>(
        self,
        lanes: L,
        chunk: usize,
        weights: [&[f32]; H],
        scales: &mut [L::V; H],
        out: &mut [f32],
    ) -> usize {
        let keys = self.kv.len() / self.dim;
        let weights = weights.map(
            #[inline(always)]
            |weights| &weights[..keys],
        );
        let mut totals = *scales;
        let mut sums = [[lanes.zero(); C]; H];
        for (s, value) in self.kv.chunks_exact(self.dim).take(keys).enumerate() {
            let value = &value.as_chunks::<LANES>().0[chunk..][..C];
            let mut loaded = [lanes.zero(); C];
            for c in 0..C {
                loaded[c] = lanes.load(&value[c]);
            }
            for h in 0..H {
                let weight = lanes.splat(weights[h][s]);
                if SUM {
                    totals[h] = lanes.add(totals[h], weight);
                }
                for c in 0..C {
                    sums[h][c] = lanes.fma(weight, loaded[c], sums[h][c]);
                }
            }
        }
        for h in 0..H {
            if SUM {
                scales[h] = lanes.div(lanes.splat(1.0), totals[h]);
            }
            let out = &mut out[h * self.dim..][..self.dim];
            let out = &mut out.as_chunks_mut::<LANES>().0[chunk..][..C];
            for c in 0..C {
                out[c] = lanes.store(lanes.mul(sums[h][c], scales[h]));
            }
        }
        C
    }

    /// The same for the values past the last whole chunk.
    #[inline(always)]
    fn last_values<L: Lanes, const H: usize>(self, lanes: L, weights: [&[f32]; H], scales: [L::V; H], out: &mut [f32]) {
        let start = self.dim / LANES * LANES;
        let mut sums = [lanes.zero(); H];
        for (s, value) in self.kv.chunks_exact(self.dim).enumerate() {
            let value = lanes.load_some(&value[start..]);
            for h in 0..H {
                sums[h] = lanes.fma(lanes.splat(weights[h][s]), value, sums[h]);
            }
        }
        for h in 0..H {
            let out = &mut out[h * self.dim..][..self.dim][start..];
            lanes.store_some(lanes.mul(sums[h], scales[h]), out);
        }
    }
}

/// Keys whose dot products are taken together: with four heads, sixteen sums.
const KEYS: usize = 4;

/// A row in vectors and what is left over.
#[derive(Clone, Copy)]
struct Row<'a> {
    chunks: &'a [[f32; LANES]],
    rest: &'a [f32],
}

impl<'a> Row<'a> {
    #[inline(always)]
    fn new(rows: &'a [f32], index: usize, dim: usize) -> Self {
        let (chunks, rest) = rows[index * dim..][..dim].as_chunks::<LANES>();
        let chunks = &chunks[..dim / LANES];
        Self { chunks, rest }
    }
}

/// Replaces the logits by `e^(logit - m)`, `m` the largest logit or the sink, and returns the sink's `e^(sink - m)` in all
/// lanes.
#[inline(always)]
fn exponentials<L: Lanes>(lanes: L, logits: &mut [f32], sink: f32) -> L::V {
    let (chunks, rest) = logits.as_chunks_mut::<LANES>();
    let mut largest = lanes.splat(sink);
    for chunk in chunks.iter() {
        largest = lanes.max(largest, lanes.load(chunk));
    }
    let mut m = lanes.largest(largest);
    for &logit in rest.iter() {
        m = if logit > m { logit } else { m };
    }
    let m = lanes.splat(m);
    for chunk in chunks {
        *chunk = lanes.store(exp_lanes(lanes, lanes.sub(lanes.load(chunk), m)));
    }
    if !rest.is_empty() {
        let values = exp_lanes(lanes, lanes.sub(lanes.load_some(rest), m));
        lanes.store_some(values, rest);
    }
    exp_lanes(lanes, lanes.sub(lanes.splat(sink), m))
}

#[cfg(test)]
mod tests {
    use super::super::testing::{bits, close, levels, same_everywhere, values};
    use super::*;

    struct Case {
        heads: usize,
        dim: usize,
        keys: usize,
        q: Vec<f32>,
        kv: Vec<f32>,
        sinks: Vec<f32>,
    }

    impl Case {
        fn new(heads: usize, dim: usize, keys: usize) -> Self {
            let q = values(1, heads * dim).iter().map(|x| x * 3.0).collect();
            Self { heads, dim, keys, q, kv: values(2, keys * dim), sinks: values(3, heads) }
        }

        fn run(&self, cpu: Cpu) -> Vec<f32> {
            let mut scores = vec![5.0; self.heads * self.keys + 3];
            let mut out = vec![5.0; self.heads * self.dim];
            attention_row(
                cpu,
                &self.q,
                self.heads,
                self.dim,
                &self.kv,
                self.keys,
                &self.sinks,
                0.125,
                &mut scores,
                &mut out,
            );
            out
        }

        fn exact(&self) -> Vec<f64> {
            let mut out = Vec::new();
            for h in 0..self.heads {
                let q = &self.q[h * self.dim..][..self.dim];
                let weights: Vec<f64> = self
                    .kv
                    .chunks(self.dim)
                    .map(|key| {
                        let dot: f64 = q.iter().zip(key).map(|(&q, &k)| f64::from(q) * f64::from(k)).sum();
                        (dot * 0.125).exp()
                    })
                    .collect();
                let total = f64::from(self.sinks[h]).exp() + weights.iter().sum::<f64>();
                for d in 0..self.dim {
                    let sum: f64 = weights
                        .iter()
                        .zip(self.kv.chunks(self.dim))
                        .map(|(weight, value)| weight * f64::from(value[d]))
                        .sum();
                    out.push(sum / total);
                }
            }
            out
        }
    }

    #[test]
    fn follows_the_formula_at_every_level() {
        for (heads, dim, keys) in [(1, 16, 1), (4, 64, 130), (7, 40, 33), (2, 8, 5), (8, 128, 200), (3, 21, 16)] {
            let case = Case::new(heads, dim, keys);
            close(&same_everywhere(|cpu| case.run(cpu)), &case.exact(), 2e-6);
        }
    }

    #[test]
    fn a_head_does_not_depend_on_the_others() {
        let case = Case::new(7, 64, 50);
        for cpu in levels() {
            let all = case.run(cpu);
            for h in 0..7 {
                let one = Case {
                    heads: 1,
                    q: case.q[h * 64..][..64].to_vec(),
                    kv: case.kv.clone(),
                    sinks: vec![case.sinks[h]],
                    ..case
                };
                assert_eq!(bits(&one.run(cpu)), bits(&all[h * 64..][..64]));
            }
        }
    }

    #[test]
    fn no_keys_give_zeros_and_an_infinite_sink_is_harmless() {
        assert_eq!(Case::new(3, 16, 0).run(Cpu::detect()), [0.0; 48]);
        let mut case = Case::new(1, 16, 1);
        case.sinks[0] = f32::NEG_INFINITY;
        assert_eq!(case.run(Cpu::detect()), case.kv);
        case.sinks[0] = 1e30;
        assert_eq!(case.run(Cpu::detect()), [0.0; 16]);
    }

    #[test]
    fn a_damaged_key_shows() {
        let mut case = Case::new(2, 32, 40);
        case.kv[5 * 32 + 3] = f32::NAN;
        assert!(case.run(Cpu::detect()).iter().all(|x| x.is_nan()));
    }
}
