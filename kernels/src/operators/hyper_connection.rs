//! Hyper-connections: collapsing, expanding and mixing the residual streams (dsv4.md 1.3).

use std::sync::Arc;

use super::Tensor;
use super::rows::{RowsMut, spread};
use crate::math::{self, PackedMatrix, hyper_head, hyper_post, hyper_pre, rms_norm_in_place};
use crate::{Access, Compute, Operator, Part, Views};

/// Weights of one hyper-connection.
#[derive(Clone, Debug)]
pub struct HyperWeights {
    /// From the streams to the mixing numbers.
    pub function: Arc<PackedMatrix>,
    /// Added to them after scaling.
    pub base: Arc<Vec<f32>>,
    /// Scales of pre, post and comb (or of the head alone).
    pub scale: Arc<Vec<f32>>,
}

/// Constants of all hyper-connections of a model.
#[derive(Clone, Copy, Debug)]
pub struct HyperShape {
    /// Residual streams.
    pub streams: usize,
    /// Values of a stream.
    pub hidden: usize,
    /// Epsilon of RMS norms.
    pub norm_epsilon: f32,
    /// Epsilon of the Sinkhorn normalisations.
    pub epsilon: f32,
    /// Sinkhorn iterations.
    pub iterations: usize,
}

/// Collapses the streams to a sublayer's normed input.
#[derive(Debug)]
pub struct HyperPre {
    accesses: [Access; 4],
    streams: Tensor,
    weights: HyperWeights,
    shape: HyperShape,
    norm: Arc<Vec<f32>>,
}

impl HyperPre {
    /// From `streams` to the normed `input` of a sublayer, and `post` and `comb` for [`HyperPost`].
    pub fn new(
        streams: Tensor,
        weights: HyperWeights,
        shape: HyperShape,
        norm: Arc<Vec<f32>>,
        input: Tensor,
        post: Tensor,
        comb: Tensor,
    ) -> Self {
        Self { accesses: [streams.read(), input.write(), post.write(), comb.write()], streams, weights, shape, norm }
    }
}

impl Operator for HyperPre {
    fn accesses(&self) -> &[Access] {
        &self.accesses
    }

    fn tiles(&self) -> usize {
        self.streams.rows()
    }

    fn run(&self, mut views: Views<'_>, part: Part, compute: Compute) {
        let streams = views.read::<f32>();
        let (input, post, comb) = (views.write::<f32>(), views.write::<f32>(), views.write::<f32>());
        let HyperShape { streams: m, hidden, norm_epsilon, epsilon, iterations } = self.shape;
        let connection = math::HyperConnection {
            streams: m,
            hidden,
            function: &self.weights.function,
            base: &self.weights.base,
            scale: [self.weights.scale[0], self.weights.scale[1], self.weights.scale[2]],
            norm_eps: norm_epsilon,
            eps: epsilon,
            iterations,
        };
        let rows = part.tiles(self.tiles());
        let outputs =
            (RowsMut::new(input, hidden, &rows), RowsMut::new(post, m, &rows), RowsMut::new(comb, m * m, &rows));
        spread(compute.workers, rows, outputs, &|rows, (input, post, comb)| {
            let streams = &streams[rows.start * m * hidden..rows.end * m * hidden];
            hyper_pre(compute.cpu, &connection, streams, rows.len(), input.data, post.data, comb.data);
            for row in input.data.chunks_exact_mut(hidden) {
                rms_norm_in_place(compute.cpu, row, Some(&self.norm), norm_epsilon);
            }
        });
    }
}

/// Expands a sublayer's output into the mixed streams.
#[derive(Debug)]
pub struct HyperPost {
    accesses: Vec<Access>,
    shape: HyperShape,
    output: Tensor,
    shared: bool,
}

impl HyperPost {
    /// From `streams`, the sublayer's output (the sum of `sublayer` and `shared`, where given), `post` and `comb` to `output`.
    pub fn new(
        shape: HyperShape,
        streams: Tensor,
        sublayer: Tensor,
        shared: Option<Tensor>,
        post: Tensor,
        comb: Tensor,
        output: Tensor,
    ) -> Self {
        let mut accesses = vec![streams.read(), sublayer.read(), post.read(), comb.read(), output.write()];
        accesses.extend(shared.map(|shared| shared.read()));
        Self { accesses, shape, output, shared: shared.is_some() }
    }
}

impl Operator for HyperPost {
    fn accesses(&self) -> &[Access] {
        &self.accesses
    }

    fn tiles(&self) -> usize {
        self.output.rows()
    }

    fn run(&self, mut views: Views<'_>, part: Part, compute: Compute) {
        let (streams, sublayer) = (views.read::<f32>(), views.read::<f32>());
        let (post, comb) = (views.read::<f32>(), views.read::<f32>());
        let output = views.write::<f32>();
        let shared = self.shared.then(|| views.read::<f32>());
        let (m, hidden) = (self.shape.streams, self.shape.hidden);
        let rows = part.tiles(self.tiles());
        spread(compute.workers, rows.clone(), RowsMut::new(output, m * hidden, &rows), &|rows, out| {
            let of = |data: &'_ [f32], columns: usize| rows.start * columns..(rows.end * columns).min(data.len());
            let mut sum;
            let mut y = &sublayer[of(sublayer, hidden)];
            if let Some(shared) = shared {
                sum = y.to_vec();
                for (total, value) in sum.iter_mut().zip(&shared[of(shared, hidden)]) {
                    *total += value;
                }
                y = &sum;
            }
            hyper_post(
                compute.cpu,
                m,
                hidden,
                rows.len(),
                y,
                &post[of(post, m)],
                &comb[of(comb, m * m)],
                &streams[of(streams, m * hidden)],
                out.data,
            );
        });
    }
}

/// Collapses the streams after the last layer and norms the result.
#[derive(Debug)]
pub struct HyperHead {
    accesses: [Access; 2],
    streams: Tensor,
    weights: HyperWeights,
    shape: HyperShape,
    norm: Arc<Vec<f32>>,
}

impl HyperHead {
    /// From `streams` to the head's input `output`.
    pub fn new(streams: Tensor, weights: HyperWeights, shape: HyperShape, norm: Arc<Vec<f32>>, output: Tensor) -> Self {
        Self { accesses: [streams.read(), output.write()], streams, weights, shape, norm }
    }
}

impl Operator for HyperHead {
    fn accesses(&self) -> &[Access] {
        &self.accesses
    }

    fn tiles(&self) -> usize {
        self.streams.rows()
    }

    fn run(&self, mut views: Views<'_>, part: Part, compute: Compute) {
        let (streams, output) = (views.read::<f32>(), views.write::<f32>());
        let (m, hidden) = (self.shape.streams, self.shape.hidden);
        let head = math::HyperHead {
            streams: m,
            hidden,
            function: &self.weights.function,
            base: &self.weights.base,
            scale: self.weights.scale[0],
            norm_eps: self.shape.norm_epsilon,
            eps: self.shape.epsilon,
        };
        let rows = part.tiles(self.tiles());
        spread(compute.workers, rows.clone(), RowsMut::new(output, hidden, &rows), &|rows, out| {
            let streams = &streams[rows.start * m * hidden..rows.end * m * hidden];
            hyper_head(compute.cpu, &head, streams, rows.len(), out.data);
            for row in out.data.chunks_exact_mut(hidden) {
                rms_norm_in_place(compute.cpu, row, Some(&self.norm), self.shape.norm_epsilon);
            }
        });
    }
}
