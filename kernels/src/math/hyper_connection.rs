//! Manifold-constrained hyper-connections: mixing residual streams before and after a sublayer (dsv4.md 1.3).

use super::activation::{exp_lanes, sigmoid_lanes};
use super::cpu::{Arithmetic, Cpu, Kernel, LANES, Lanes};
use super::matmul::{PackedMatrix, matmul};
use super::norm::rms_scale;

/// Most streams, M, that the operators here take.
pub const MAX_STREAMS: usize = 4;

/// Most numbers that a connection's function yields for a row.
const MAX_MIXES: usize = (2 + MAX_STREAMS) * MAX_STREAMS;

/// The parameters of one hyper-connection over M streams of D values.
#[derive(Clone, Copy, Debug)]
pub struct HyperConnection<'a> {
    /// M.
    pub streams: usize,
    /// D.
    pub hidden: usize,
    /// `fn`, `[(2 + M) * M, M * D]`: M rows for pre, M for post, M * M for comb.
    pub function: &'a PackedMatrix,
    /// `base`, `[(2 + M) * M]`, split in the same way.
    pub base: &'a [f32],
    /// Scales of pre, post and comb.
    pub scale: [f32; 3],
    /// Epsilon of the RMS normalisation (`rms_norm_eps`).
    pub norm_eps: f32,
    /// Epsilon of pre and of the Sinkhorn normalisations (`hc_eps`).
    pub eps: f32,
    /// Sinkhorn iterations, at least 1 (`hc_sinkhorn_iters`).
    pub iterations: usize,
}

/// The parameters of the final collapse of the streams.
#[derive(Clone, Copy, Debug)]
pub struct HyperHead<'a> {
    /// M.
    pub streams: usize,
    /// D.
    pub hidden: usize,
    /// `hc_head.fn`, `[M, M * D]`.
    pub function: &'a PackedMatrix,
    /// `hc_head.base`, `[M]`.
    pub base: &'a [f32],
    /// `hc_head.scale`.
    pub scale: f32,
    /// Epsilon of the RMS normalisation.
    pub norm_eps: f32,
    /// Added to the weights.
    pub eps: f32,
}

/// Before a sublayer: from `streams` `[rows, M, D]` computes the sublayer's input `x` `[rows, D]` and what
/// [`hyper_post`] needs, `post` `[rows, M]` and `comb` `[rows, M, M]`.
///
/// With `z` the streams of a row, RMS-normalised as one vector, and `w = fn z` (the normalisation's scale is applied
/// after the product): `pre = sigmoid(w scale_0 + base) + eps`, `post = 2 sigmoid(w scale_1 + base)`, `comb` the
/// softmax of `w scale_2 + base` over its last index plus eps, normalised by columns and then `iterations - 1` times
/// by rows and columns, each as a product with `1 / (sum + eps)`. `x = sum_i pre_i X_i`.
///
/// # Panics
/// If a slice has another length than its shape or there are more than [`MAX_STREAMS`] streams.
pub fn hyper_pre(
    cpu: Cpu,
    connection: &HyperConnection<'_>,
    streams: &[f32],
    rows: usize,
    x: &mut [f32],
    post: &mut [f32],
    comb: &mut [f32],
) {
    let (m, width) = (connection.streams, connection.streams * connection.hidden);
    let mixes = (2 + m) * m;
    assert!((1..=MAX_STREAMS).contains(&m), "{m} streams");
    assert_eq!(connection.function.outputs(), mixes, "hyper_pre: fn");
    assert_eq!(connection.function.inputs(), width, "hyper_pre: fn");
    assert_eq!(connection.base.len(), mixes, "hyper_pre: base");
    assert_eq!(streams.len(), rows * width, "hyper_pre: streams");
    assert_eq!(x.len(), rows * connection.hidden, "hyper_pre: x");
    assert_eq!(post.len(), rows * m, "hyper_pre: post");
    assert_eq!(comb.len(), rows * m * m, "hyper_pre: comb");
    for start in (0..rows).step_by(LANES) {
        let end = rows.min(start + LANES);
        let streams = &streams[start * width..end * width];
        let mut w = [0.0; LANES * MAX_MIXES];
        matmul(cpu, streams, width, end - start, connection.function, &mut w, mixes);
        cpu.run(Pre {
            connection,
            streams,
            w: &w,
            x: &mut x[start * connection.hidden..end * connection.hidden],
            post: &mut post[start * m..end * m],
            comb: &mut comb[start * m * m..end * m * m],
        });
    }
}

/// After a sublayer: `X'_k = post_k y + sum_j comb[j][k] X_j`, from `y` `[rows, D]` and `streams` `[rows, M, D]` into
/// `out` `[rows, M, D]`.
///
/// # Panics
/// If a slice has another length than its shape or there are more than [`MAX_STREAMS`] streams.
pub fn hyper_post(
    cpu: Cpu,
    m: usize,
    hidden: usize,
    rows: usize,
    y: &[f32],
    post: &[f32],
    comb: &[f32],
    streams: &[f32],
    out: &mut [f32],
) {
    assert!((1..=MAX_STREAMS).contains(&m), "{m} streams");
    assert_eq!(y.len(), rows * hidden, "hyper_post: y");
    assert_eq!(post.len(), rows * m, "hyper_post: post");
    assert_eq!(comb.len(), rows * m * m, "hyper_post: comb");
    assert_eq!(streams.len(), rows * m * hidden, "hyper_post: streams");
    assert_eq!(out.len(), rows * m * hidden, "hyper_post: out");
    if hidden == 0 {
        return;
    }
    cpu.run(Post { m, hidden, y, post, comb, streams, out });
}

/// The collapse before the final norm: `x = sum_i (sigmoid((fn z)_i scale + base_i) + eps) X_i`, from `streams`
/// `[rows, M, D]` to `x` `[rows, D]`, `z` as in [`hyper_pre`].
///
/// # Panics
/// If a slice has another length than its shape or there are more than [`MAX_STREAMS`] streams.
pub fn hyper_head(cpu: Cpu, head: &HyperHead<'_>, streams: &[f32], rows: usize, x: &mut [f32]) {
    let (m, width) = (head.streams, head.streams * head.hidden);
    assert!((1..=MAX_STREAMS).contains(&m), "{m} streams");
    assert_eq!(head.function.outputs(), m, "hyper_head: fn");
    assert_eq!(head.function.inputs(), width, "hyper_head: fn");
    assert_eq!(head.base.len(), m, "hyper_head: base");
    assert_eq!(streams.len(), rows * width, "hyper_head: streams");
    assert_eq!(x.len(), rows * head.hidden, "hyper_head: x");
    for start in (0..rows).step_by(LANES) {
        let end = rows.min(start + LANES);
        let streams = &streams[start * width..end * width];
        let mut w = [0.0; LANES * MAX_STREAMS];
        matmul(cpu, streams, width, end - start, head.function, &mut w, m);
        cpu.run(Head { head, streams, w: &w, x: &mut x[start * head.hidden..end * head.hidden] });
    }
}

/// Up to sixteen rows of [`hyper_pre`], after the product. A lane is a row.
struct Pre<'a> {
    connection: &'a HyperConnection<'a>,
    streams: &'a [f32],
    w: &'a [f32],
    x: &'a mut [f32],
    post: &'a mut [f32],
    comb: &'a mut [f32],
}

impl Kernel for Pre<'_> {
    type Output = ();

    #[inline(always)]
    fn run<L: Lanes>(self, lanes: L) {
        match self.connection.streams {
            1 => self.of::<L, 1>(lanes),
            2 => self.of::<L, 2>(lanes),
            3 => self.of::<L, 3>(lanes),
            _ => self.of::<L, 4>(lanes),
        }
    }
}

impl Pre<'_> {
    #[inline(always)]
    fn of<L: Lanes, const M: usize>(self, lanes: L) {
        let Self { connection, .. } = self;
        let [scale_pre, scale_post, scale_comb] = connection.scale;
        let scales = row_scales(lanes, self.streams, M * connection.hidden, connection.norm_eps);
        let w = |n| lanes.mul(column(lanes, self.w, (2 + M) * M, n), scales);
        let eps = lanes.splat(connection.eps);

        let mut pre = [[0.0; LANES]; M];
        for i in 0..M {
            let sigmoid = sigmoid_lanes(lanes, logit(lanes, w(i), scale_pre, connection.base[i]));
            pre[i] = lanes.store(lanes.add(sigmoid, eps));
            let sigmoid = sigmoid_lanes(lanes, logit(lanes, w(M + i), scale_post, connection.base[M + i]));
            scatter(lanes, lanes.add(sigmoid, sigmoid), self.post, M, i);
        }

        let mut comb = [[lanes.zero(); M]; M];
        for j in 0..M {
            for k in 0..M {
                let n = (2 + j) * M + k;
                comb[j][k] = logit(lanes, w(n), scale_comb, connection.base[n]);
            }
        }
        sinkhorn(lanes, &mut comb, eps, connection.iterations);
        for j in 0..M {
            for k in 0..M {
                scatter(lanes, comb[j][k], self.comb, M * M, j * M + k);
            }
        }
        collapse::<L, M>(lanes, self.streams, &pre, connection.hidden, self.x);
    }
}

/// `w * scale + base`.
#[inline(always)]
fn logit<A: Arithmetic>(a: A, w: A::V, scale: f32, base: f32) -> A::V {
    a.add(a.mul(w, a.splat(scale)), a.splat(base))
}

/// Softmax over the last index plus `eps`, columns normalised, then `iterations - 1` times rows and columns.
#[inline(always)]
fn sinkhorn<L: Lanes, const M: usize>(lanes: L, comb: &mut [[L::V; M]; M], eps: L::V, iterations: usize) {
    let one = lanes.splat(1.0);
    for row in comb.iter_mut() {
        let mut largest = row[0];
        for k in 1..M {
            largest = lanes.max(largest, row[k]);
        }
        for k in 0..M {
            row[k] = exp_lanes(lanes, lanes.sub(row[k], largest));
        }
        let inverse = lanes.div(one, tree(lanes, *row));
        for k in 0..M {
            row[k] = lanes.fma(row[k], inverse, eps);
        }
    }
    columns(lanes, comb, eps);
    for _ in 1..iterations {
        for row in comb.iter_mut() {
            let inverse = lanes.div(one, lanes.add(tree(lanes, *row), eps));
            for k in 0..M {
                row[k] = lanes.mul(row[k], inverse);
            }
        }
        columns(lanes, comb, eps);
    }
}

#[inline(always)]
fn columns<L: Lanes, const M: usize>(lanes: L, comb: &mut [[L::V; M]; M], eps: L::V) {
    for k in 0..M {
        let mut column = [eps; M];
        for j in 0..M {
            column[j] = comb[j][k];
        }
        let sum = lanes.add(tree(lanes, column), eps);
        let inverse = lanes.div(lanes.splat(1.0), sum);
        for j in 0..M {
            comb[j][k] = lanes.mul(comb[j][k], inverse);
        }
    }
}

/// Sum of neighbours, then of neighbouring sums: (a + b) + (c + d).
#[inline(always)]
fn tree<A: Arithmetic, const M: usize>(a: A, mut values: [A::V; M]) -> A::V {
    let mut stride = 1;
    while stride < M {
        let mut i = 0;
        while i + stride < M {
            values[i] = a.add(values[i], values[i + stride]);
            i += 2 * stride;
        }
        stride *= 2;
    }
    values[0]
}

/// `1 / rms` of each row, in the row's lane.
#[inline(always)]
fn row_scales<L: Lanes>(lanes: L, streams: &[f32], width: usize, eps: f32) -> L::V {
    let mut scales = [0.0; LANES];
    for (scale, row) in scales.iter_mut().zip(streams.chunks_exact(width.max(1))) {
        *scale = rms_scale(lanes, row, eps);
    }
    lanes.load(&scales)
}

/// Column `n` of sixteen rows.
#[inline(always)]
fn column<L: Lanes>(lanes: L, rows: &[f32], width: usize, n: usize) -> L::V {
    let mut values = [0.0; LANES];
    for (r, value) in values.iter_mut().enumerate() {
        *value = rows[r * width + n];
    }
    lanes.load(&values)
}

/// Writes the lanes to column `n` of the rows that there are.
#[inline(always)]
fn scatter<L: Lanes>(lanes: L, values: L::V, out: &mut [f32], width: usize, n: usize) {
    for (row, value) in out.chunks_exact_mut(width).zip(lanes.store(values)) {
        row[n] = value;
    }
}

/// `x = sum_i weights[i] X_i` of each row, streams in order.
#[inline(always)]
fn collapse<L: Lanes, const M: usize>(
    lanes: L,
    streams: &[f32],
    weights: &[[f32; LANES]; M],
    hidden: usize,
    x: &mut [f32],
) {
    if hidden == 0 {
        return;
    }
    for (r, (x, row)) in x.chunks_exact_mut(hidden).zip(streams.chunks_exact(M * hidden)).enumerate() {
        let streams = split::<M>(row, hidden);
        let mut weight = [lanes.zero(); M];
        for i in 0..M {
            weight[i] = lanes.splat(weights[i][r]);
        }
        let (chunks, rest) = x.as_chunks_mut::<LANES>();
        let done = chunks.len() * LANES;
        for (c, out) in chunks.iter_mut().enumerate() {
            let mut sum = lanes.zero();
            for i in 0..M {
                sum = lanes.fma(weight[i], load_at(lanes, streams[i], c), sum);
            }
            *out = lanes.store(sum);
        }
        if !rest.is_empty() {
            let mut sum = lanes.zero();
            for i in 0..M {
                sum = lanes.fma(weight[i], lanes.load_some(&streams[i][done..]), sum);
            }
            lanes.store_some(sum, rest);
        }
    }
}

#[inline(always)]
fn split<const M: usize>(row: &[f32], hidden: usize) -> [&[f32]; M] {
    std::array::from_fn(
        #[inline(always)]
        |i| &row[i * hidden..][..hidden],
    )
}

#[inline(always)]
fn load_at<L: Lanes>(lanes: L, row: &[f32], chunk: usize) -> L::V {
    lanes.load(&row.as_chunks::<LANES>().0[chunk])
}

struct Head<'a> {
    head: &'a HyperHead<'a>,
    streams: &'a [f32],
    w: &'a [f32],
    x: &'a mut [f32],
}

impl Kernel for Head<'_> {
    type Output = ();

    #[inline(always)]
    fn run<L: Lanes>(self, lanes: L) {
        match self.head.streams {
            1 => self.of::<L, 1>(lanes),
            2 => self.of::<L, 2>(lanes),
            3 => self.of::<L, 3>(lanes),
            _ => self.of::<L, 4>(lanes),
        }
    }
}

impl Head<'_> {
    #[inline(always)]
    fn of<L: Lanes, const M: usize>(self, lanes: L) {
        let head = self.head;
        let scales = row_scales(lanes, self.streams, M * head.hidden, head.norm_eps);
        let mut weights = [[0.0; LANES]; M];
        for i in 0..M {
            let w = lanes.mul(column(lanes, self.w, M, i), scales);
            let logit = logit(lanes, w, head.scale, head.base[i]);
            let weight = lanes.add(sigmoid_lanes(lanes, logit), lanes.splat(head.eps));
            weights[i] = lanes.store(weight);
        }
        collapse::<L, M>(lanes, self.streams, &weights, head.hidden, self.x);
    }
}

struct Post<'a> {
    m: usize,
    hidden: usize,
    y: &'a [f32],
    post: &'a [f32],
    comb: &'a [f32],
    streams: &'a [f32],
    out: &'a mut [f32],
}

impl Kernel for Post<'_> {
    type Output = ();

    #[inline(always)]
    fn run<L: Lanes>(self, lanes: L) {
        match self.m {
            1 => self.of::<L, 1>(lanes),
            2 => self.of::<L, 2>(lanes),
            3 => self.of::<L, 3>(lanes),
            _ => self.of::<L, 4>(lanes),
        }
    }
}

impl Post<'_> {
    #[inline(always)]
    fn of<L: Lanes, const M: usize>(self, lanes: L) {
        let hidden = self.hidden;
        let (posts, _) = self.post.as_chunks::<M>();
        let (combs, _) = self.comb.as_chunks::<M>();
        let chunks = hidden / LANES;
        for (r, out) in self.out.chunks_exact_mut(M * hidden).enumerate() {
            let y = &self.y[r * hidden..][..hidden];
            let streams = split::<M>(&self.streams[r * M * hidden..][..M * hidden], hidden);
            let comb = &combs[r * M..][..M];
            for c in 0..chunks {
                let y = load_at(lanes, y, c);
                let mut x = [y; M];
                for j in 0..M {
                    x[j] = load_at(lanes, streams[j], c);
                }
                let mixed = mix::<L, M>(lanes, y, x, &posts[r], comb);
                for k in 0..M {
                    let out = &mut out[k * hidden..][..hidden];
                    out.as_chunks_mut::<LANES>().0[c] = lanes.store(mixed[k]);
                }
            }
            let done = chunks * LANES;
            if done < hidden {
                let y = lanes.load_some(&y[done..]);
                let mut x = [y; M];
                for j in 0..M {
                    x[j] = lanes.load_some(&streams[j][done..]);
                }
                let mixed = mix::<L, M>(lanes, y, x, &posts[r], comb);
                for k in 0..M {
                    lanes.store_some(mixed[k], &mut out[k * hidden..][..hidden][done..]);
                }
            }
        }
    }
}

#[inline(always)]
fn mix<L: Lanes, const M: usize>(lanes: L, y: L::V, x: [L::V; M], post: &[f32; M], comb: &[[f32; M]]) -> [L::V; M] {
    let mut mixed = x;
    for k in 0..M {
        mixed[k] = lanes.mul(lanes.splat(post[k]), y);
        for j in 0..M {
            mixed[k] = lanes.fma(lanes.splat(comb[j][k]), x[j], mixed[k]);
        }
    }
    mixed
}

#[cfg(test)]
mod tests {
    use super::super::testing::{bits, close, levels, same_everywhere, values};
    use super::*;
    use proptest::prelude::*;

    struct Case {
        m: usize,
        hidden: usize,
        weights: Vec<f32>,
        function: PackedMatrix,
        base: Vec<f32>,
        streams: Vec<f32>,
        iterations: usize,
    }

    const SCALE: [f32; 3] = [0.7, 1.3, 2.1];

    impl Case {
        fn new(m: usize, hidden: usize, rows: usize) -> Self {
            let mixes = (2 + m) * m;
            let weights = values(1, mixes * m * hidden);
            Self {
                m,
                hidden,
                function: PackedMatrix::pack(mixes, m * hidden, &weights),
                weights,
                base: values(2, mixes),
                streams: values(3, rows * m * hidden),
                iterations: 20,
            }
        }

        fn connection(&self) -> HyperConnection<'_> {
            HyperConnection {
                streams: self.m,
                hidden: self.hidden,
                function: &self.function,
                base: &self.base,
                scale: SCALE,
                norm_eps: 1e-6,
                eps: 1e-6,
                iterations: self.iterations,
            }
        }

        /// x, post and comb of the rows of `streams`.
        fn pre(&self, cpu: Cpu, streams: &[f32]) -> [Vec<f32>; 3] {
            let rows = streams.len() / (self.m * self.hidden);
            let mut x = vec![9.0; rows * self.hidden];
            let mut post = vec![9.0; rows * self.m];
            let mut comb = vec![9.0; rows * self.m * self.m];
            hyper_pre(cpu, &self.connection(), streams, rows, &mut x, &mut post, &mut comb);
            [x, post, comb]
        }

        /// The same in f64, literally as dsv4.md 1.3 has it.
        fn exact(&self) -> [Vec<f64>; 3] {
            let (m, d) = (self.m, self.hidden);
            let wide = |x: &[f32]| -> Vec<f64> { x.iter().map(|&x| f64::from(x)).collect() };
            let sigmoid = |x: f64| 1.0 / (1.0 + (-x).exp());
            let [mut xs, mut posts, mut combs] = [const { Vec::new() }; 3];
            for row in self.streams.chunks(m * d) {
                let row = wide(row);
                let mean = row.iter().map(|x| x * x).sum::<f64>() / row.len() as f64;
                let scale = 1.0 / (mean + 1e-6).sqrt();
                let w: Vec<f64> = self
                    .weights
                    .chunks(m * d)
                    .map(|f| wide(f).iter().zip(&row).map(|(f, x)| f * x * scale).sum())
                    .collect();
                let base = wide(&self.base);
                let logit = |n: usize, part: usize| w[n] * f64::from(SCALE[part]) + base[n];
                let pre: Vec<f64> = (0..m).map(|i| sigmoid(logit(i, 0)) + 1e-6).collect();
                posts.extend((0..m).map(|i| 2.0 * sigmoid(logit(m + i, 1))));
                let mut comb: Vec<Vec<f64>> = (0..m)
                    .map(|j| {
                        let row: Vec<f64> = (0..m).map(|k| logit(2 * m + j * m + k, 2).exp()).collect();
                        let sum: f64 = row.iter().sum();
                        row.into_iter().map(|x| x / sum + 1e-6).collect()
                    })
                    .collect();
                for iteration in 0..self.iterations {
                    if iteration > 0 {
                        for row in &mut comb {
                            let sum: f64 = row.iter().sum::<f64>() + 1e-6;
                            row.iter_mut().for_each(|x| *x /= sum);
                        }
                    }
                    for k in 0..m {
                        let sum: f64 = comb.iter().map(|row| row[k]).sum::<f64>() + 1e-6;
                        comb.iter_mut().for_each(|row| row[k] /= sum);
                    }
                }
                combs.extend(comb.concat());
                xs.extend((0..d).map(|c| (0..m).map(|i| pre[i] * row[i * d + c]).sum::<f64>()));
            }
            [xs, posts, combs]
        }
    }

    #[test]
    fn pre_follows_the_formula_at_every_level() {
        for (m, hidden, rows) in [(4, 48, 5), (4, 16, 33), (2, 20, 3), (1, 7, 2), (3, 9, 17)] {
            let case = Case::new(m, hidden, rows);
            let exact = case.exact();
            for part in 0..3 {
                let result = same_everywhere(|cpu| case.pre(cpu, &case.streams)[part].clone());
                close(&result, &exact[part], 2e-5);
            }
        }
    }

    #[test]
    fn a_row_does_not_depend_on_the_batch() {
        let case = Case::new(4, 24, 37);
        let width = 4 * 24;
        for cpu in levels() {
            let all = case.pre(cpu, &case.streams);
            for (start, count) in [(0, 1), (20, 1), (5, 16), (1, 17), (36, 1), (3, 30)] {
                let some = case.pre(cpu, &case.streams[start * width..][..count * width]);
                for (some, all) in some.iter().zip(&all) {
                    let row = all.len() / 37;
                    assert_eq!(bits(some), bits(&all[start * row..][..count * row]));
                }
            }
        }
    }

    #[test]
    fn post_follows_the_formula_at_every_level() {
        for (m, hidden, rows) in [(4, 48, 5), (4, 37, 2), (3, 16, 4), (1, 5, 1), (2, 20, 3)] {
            let (y, streams) = (values(1, rows * hidden), values(2, rows * m * hidden));
            let (post, comb) = (values(3, rows * m), values(4, rows * m * m));
            let result = same_everywhere(|cpu| {
                let mut out = vec![9.0; streams.len()];
                hyper_post(cpu, m, hidden, rows, &y, &post, &comb, &streams, &mut out);
                out
            });
            let mut exact = Vec::new();
            for r in 0..rows {
                for k in 0..m {
                    for c in 0..hidden {
                        let own = f64::from(post[r * m + k]) * f64::from(y[r * hidden + c]);
                        let mixed: f64 = (0..m)
                            .map(|j| {
                                f64::from(comb[(r * m + j) * m + k]) * f64::from(streams[(r * m + j) * hidden + c])
                            })
                            .sum();
                        exact.push(own + mixed);
                    }
                }
            }
            close(&result, &exact, 1e-6);
        }
    }

    #[test]
    fn head_follows_the_formula_at_every_level() {
        for (m, hidden, rows) in [(4, 48, 5), (4, 10, 33), (2, 16, 1)] {
            let weights = values(1, m * m * hidden);
            let function = PackedMatrix::pack(m, m * hidden, &weights);
            let (base, streams) = (values(2, m), values(3, rows * m * hidden));
            let head = HyperHead {
                streams: m,
                hidden,
                function: &function,
                base: &base,
                scale: 0.9,
                norm_eps: 1e-6,
                eps: 1e-3,
            };
            let result = same_everywhere(|cpu| {
                let mut x = vec![9.0; rows * hidden];
                hyper_head(cpu, &head, &streams, rows, &mut x);
                x
            });
            let mut exact = Vec::new();
            for row in streams.chunks(m * hidden) {
                let mean = row.iter().map(|&x| f64::from(x).powi(2)).sum::<f64>();
                let scale = 1.0 / (mean / row.len() as f64 + 1e-6).sqrt();
                let collapse: Vec<f64> = (0..m)
                    .map(|i| {
                        let w: f64 = weights[i * m * hidden..][..m * hidden]
                            .iter()
                            .zip(row)
                            .map(|(&w, &x)| f64::from(w) * f64::from(x) * scale)
                            .sum();
                        1.0 / (1.0 + (-(w * 0.9f32 as f64 + f64::from(base[i]))).exp()) + 1e-3
                    })
                    .collect();
                for c in 0..hidden {
                    let sum: f64 = (0..m).map(|i| collapse[i] * f64::from(row[i * hidden + c])).sum();
                    exact.push(sum);
                }
            }
            close(&result, &exact, 1e-5);
        }
    }

    proptest! {
        #[test]
        fn comb_is_doubly_stochastic(seed in any::<u64>(), rows in 1usize..20) {
            let mut case = Case::new(4, 8, rows);
            case.streams = values(seed, rows * 32);
            // Moderate logits: twenty iterations get close only to rows that are not nearly one-hot.
            let weights: Vec<f32> = case.weights.iter().map(|w| w * 0.1).collect();
            case.function = PackedMatrix::pack(24, 32, &weights);
            let [_, _, comb] = case.pre(Cpu::detect(), &case.streams);
            for comb in comb.chunks(16) {
                for i in 0..4 {
                    let row: f32 = (0..4).map(|k| comb[i * 4 + k]).sum();
                    let column: f32 = (0..4).map(|j| comb[j * 4 + i]).sum();
                    prop_assert!((column - 1.0).abs() < 1e-5, "column {i}: {column}");
                    prop_assert!((row - 1.0).abs() < 1e-2, "row {i}: {row}");
                    prop_assert!((0..4).all(|k| comb[i * 4 + k] > 0.0));
                }
            }
        }
    }
}
