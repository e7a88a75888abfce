//! Routing, routed experts and the shared expert (dsv4.md 1.8).

use std::sync::Arc;

use super::Tensor;
use super::rows::{RowsMut, spread};
use crate::math::{PackedMatrix, add_scaled, matmul, matmul_gather, sqrt_softplus_all, swiglu, top_k};
use crate::{Access, Compute, Operator, Part, Views};

/// How tokens are sent to experts.
#[derive(Clone, Debug)]
pub enum Router {
    /// By token id: `[vocabulary, experts per token]`.
    Hash(Arc<Vec<u32>>),
    /// By the largest scores after adding a bias, `[experts]`; the bias does not enter the weights.
    Bias(Arc<Vec<f32>>),
}

/// Chooses experts and their weights.
#[derive(Debug)]
pub struct Route {
    accesses: [Access; 4],
    input: Tensor,
    chosen: Tensor,
    gate: Arc<PackedMatrix>,
    router: Router,
    normalize: bool,
    scaling: f32,
}

impl Route {
    /// Routes the rows of `input` into expert numbers `chosen` and `weights`, both `[rows, experts per token]`.
    pub fn new(
        input_ids: Tensor,
        input: Tensor,
        gate: Arc<PackedMatrix>,
        router: Router,
        normalize: bool,
        scaling: f32,
        chosen: Tensor,
        weights: Tensor,
    ) -> Self {
        Self {
            accesses: [input_ids.read(), input.read(), chosen.write(), weights.write()],
            input,
            chosen,
            gate,
            router,
            normalize,
            scaling,
        }
    }
}

impl Operator for Route {
    fn accesses(&self) -> &[Access] {
        &self.accesses
    }

    fn tiles(&self) -> usize {
        self.input.rows()
    }

    fn run(&self, mut views: Views<'_>, part: Part, compute: Compute) {
        let (ids, input) = (views.read::<i32>(), views.read::<f32>());
        let (chosen, weights) = (views.write::<i32>(), views.write::<f32>());
        let (columns, k, experts) = (self.input.columns, self.chosen.columns, self.gate.outputs());
        let rows = part.tiles(self.tiles());
        let outputs = (RowsMut::new(chosen, k, &rows), RowsMut::new(weights, k, &rows));
        spread(compute.workers, rows, outputs, &|rows, (mut chosen, mut weights)| {
            let mut logits = vec![0f32; rows.len() * experts];
            let mut scores = vec![0f32; rows.len() * experts];
            let mut biased = vec![0f32; experts];
            let x = &input[rows.start * columns..rows.end * columns];
            matmul(compute.cpu, x, columns, rows.len(), &self.gate, &mut logits, experts);
            sqrt_softplus_all(compute.cpu, &logits, &mut scores);
            for (index, (row, scores)) in rows.zip(scores.chunks_exact(experts)).enumerate() {
                let chosen = chosen.row(index);
                match &self.router {
                    Router::Hash(table) => {
                        let token = (ids[row].max(0) as usize).min(table.len() / k - 1);
                        for (cell, expert) in chosen.iter_mut().zip(&table[token * k..]) {
                            *cell = *expert as i32;
                        }
                    }
                    Router::Bias(bias) => {
                        for ((cell, score), bias) in biased.iter_mut().zip(scores).zip(bias.iter()) {
                            *cell = score + bias;
                        }
                        top_k(compute.cpu, &biased, k, chosen);
                    }
                }
                let weights = weights.row(index);
                let mut sum = 1e-20;
                for (weight, expert) in weights.iter_mut().zip(chosen.iter()) {
                    *weight = scores[*expert as usize];
                    sum += *weight;
                }
                let factor = if self.normalize { self.scaling / sum } else { self.scaling };
                weights.iter_mut().for_each(|weight| *weight *= factor);
            }
        });
    }
}

/// One expert: gate and up projections as one matrix, and the down projection.
#[derive(Clone, Debug)]
pub struct Expert {
    /// Gate then up: `[2 * intermediate, hidden]`.
    pub gate_up: Arc<PackedMatrix>,
    /// Down: `[hidden, intermediate]`.
    pub down: Arc<PackedMatrix>,
}

/// Splits gate and up, applies the clamped SwiGLU, row by row.
fn activate(compute: Compute, gate_up: &[f32], limit: f32, out: &mut [f32], intermediate: usize) {
    for (pair, out) in gate_up.chunks_exact(2 * intermediate).zip(out.chunks_exact_mut(intermediate)) {
        let (gate, up) = pair.split_at(intermediate);
        swiglu(compute.cpu, gate, up, limit, out);
    }
}

/// The chosen experts of every row, weighted and added in the order they were chosen.
#[derive(Debug)]
pub struct Experts {
    accesses: [Access; 4],
    input: Tensor,
    chosen: Tensor,
    experts: Vec<Expert>,
    limit: f32,
}

impl Experts {
    /// Runs `experts` on the rows of `input` that chose them, into `output`.
    pub fn new(
        input: Tensor,
        chosen: Tensor,
        weights: Tensor,
        experts: Vec<Expert>,
        limit: f32,
        output: Tensor,
    ) -> Self {
        Self { accesses: [input.read(), chosen.read(), weights.read(), output.write()], input, chosen, experts, limit }
    }
}

impl Operator for Experts {
    fn accesses(&self) -> &[Access] {
        &self.accesses
    }

    fn tiles(&self) -> usize {
        self.input.rows()
    }

    fn run(&self, mut views: Views<'_>, part: Part, compute: Compute) {
        let (input, chosen) = (views.read::<f32>(), views.read::<i32>());
        let (weights, output) = (views.read::<f32>(), views.write::<f32>());
        let (columns, k) = (self.input.columns, self.chosen.columns);
        let intermediate = self.experts[0].down.inputs();
        let rows = part.tiles(self.tiles());
        spread(compute.workers, rows.clone(), RowsMut::new(output, columns, &rows), &|rows, out| {
            // The products of every (row, choice), then the sum in order of choice: a row's bits
            // do not depend on which rows share its experts.
            let mut products = vec![0f32; rows.len() * k * columns];
            let mut members: Vec<u32> = Vec::with_capacity(rows.len() * k);
            let mut places: Vec<usize> = Vec::with_capacity(rows.len() * k);
            let mut gate_up = vec![0f32; rows.len() * k * 2 * intermediate];
            let mut active = vec![0f32; rows.len() * k * intermediate];
            let mut down = vec![0f32; rows.len() * k * columns];
            for (number, expert) in self.experts.iter().enumerate() {
                members.clear();
                places.clear();
                for (place, choice) in chosen[rows.start * k..rows.end * k].iter().enumerate() {
                    if *choice as usize == number {
                        members.push((rows.start + place / k) as u32);
                        places.push(place);
                    }
                }
                let count = members.len();
                if count == 0 {
                    continue;
                }
                let gate_up = &mut gate_up[..count * 2 * intermediate];
                let active = &mut active[..count * intermediate];
                let down = &mut down[..count * columns];
                matmul_gather(compute.cpu, input, columns, &members, &expert.gate_up, gate_up, 2 * intermediate);
                activate(compute, gate_up, self.limit, active, intermediate);
                matmul(compute.cpu, active, intermediate, count, &expert.down, down, columns);
                for (place, product) in places.iter().zip(down.chunks_exact(columns)) {
                    products[place * columns..][..columns].copy_from_slice(product);
                }
            }
            for (index, sum) in out.data.chunks_exact_mut(columns).enumerate() {
                sum.fill(0.0);
                for choice in 0..k {
                    let weight = weights[(rows.start + index) * k + choice];
                    add_scaled(compute.cpu, weight, &products[(index * k + choice) * columns..][..columns], sum);
                }
            }
        });
    }
}

/// The expert that every row visits.
#[derive(Debug)]
pub struct SharedExpert {
    accesses: [Access; 2],
    input: Tensor,
    expert: Expert,
    limit: f32,
}

impl SharedExpert {
    /// Runs `expert` on every row of `input`, into `output`.
    pub fn new(input: Tensor, expert: Expert, limit: f32, output: Tensor) -> Self {
        Self { accesses: [input.read(), output.write()], input, expert, limit }
    }
}

impl Operator for SharedExpert {
    fn accesses(&self) -> &[Access] {
        &self.accesses
    }

    fn tiles(&self) -> usize {
        self.input.rows()
    }

    fn run(&self, mut views: Views<'_>, part: Part, compute: Compute) {
        let (input, output) = (views.read::<f32>(), views.write::<f32>());
        let columns = self.input.columns;
        let intermediate = self.expert.down.inputs();
        let rows = part.tiles(self.tiles());
        spread(compute.workers, rows.clone(), RowsMut::new(output, columns, &rows), &|rows, out| {
            let mut gate_up = vec![0f32; rows.len() * 2 * intermediate];
            let mut active = vec![0f32; rows.len() * intermediate];
            let x = &input[rows.start * columns..rows.end * columns];
            matmul(compute.cpu, x, columns, rows.len(), &self.expert.gate_up, &mut gate_up, 2 * intermediate);
            activate(compute, &gate_up, self.limit, &mut active, intermediate);
            matmul(compute.cpu, &active, intermediate, rows.len(), &self.expert.down, out.data, columns);
        });
    }
}
