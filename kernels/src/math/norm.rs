//! Root-mean-square normalisation of one row.

use super::cpu::{Cpu, Kernel, LANES, Lanes};

/// `out = x * (1 / sqrt(mean(x^2) + eps))`, then times `weight` if there is one (dsv4.md 1.3, 1.4; the weight is
/// applied last, in f32).
///
/// The squares are summed in sixty-four parts, element `i` in part `i % 64`, and the parts as a fixed tree.
///
/// # Panics
/// If the lengths differ.
pub fn rms_norm(cpu: Cpu, x: &[f32], weight: Option<&[f32]>, eps: f32, out: &mut [f32]) {
    assert_eq!(x.len(), out.len(), "rms_norm: lengths differ");
    check(out, weight);
    cpu.run(Norm { x: Some(x), weight, eps, out });
}

/// As [`rms_norm`], overwriting the row.
///
/// # Panics
/// If the lengths differ.
pub fn rms_norm_in_place(cpu: Cpu, x: &mut [f32], weight: Option<&[f32]>, eps: f32) {
    check(x, weight);
    cpu.run(Norm { x: None, weight, eps, out: x });
}

fn check(x: &[f32], weight: Option<&[f32]>) {
    assert!(weight.is_none_or(|weight| weight.len() == x.len()), "rms_norm: weight has another length");
}

struct Norm<'a> {
    /// `None`: the row is in `out`.
    x: Option<&'a [f32]>,
    weight: Option<&'a [f32]>,
    eps: f32,
    out: &'a mut [f32],
}

impl Kernel for Norm<'_> {
    type Output = ();

    #[inline(always)]
    fn run<L: Lanes>(self, lanes: L) {
        let scale = rms_scale(lanes, self.x.unwrap_or(self.out), self.eps);
        let scale = lanes.splat(scale);
        let (out, out_rest) = self.out.as_chunks_mut::<LANES>();
        let x = self.x.map(<[f32]>::as_chunks::<LANES>);
        let weight = self.weight.map(<[f32]>::as_chunks::<LANES>);
        for (c, out) in out.iter_mut().enumerate() {
            let x = x.map_or(&*out, |(x, _)| &x[c]);
            let mut normal = lanes.mul(lanes.load(x), scale);
            if let Some((weight, _)) = weight {
                normal = lanes.mul(lanes.load(&weight[c]), normal);
            }
            *out = lanes.store(normal);
        }
        if !out_rest.is_empty() {
            let x = x.map_or(&*out_rest, |(_, rest)| rest);
            let mut normal = lanes.mul(lanes.load_some(x), scale);
            if let Some((_, weight)) = weight {
                normal = lanes.mul(lanes.load_some(weight), normal);
            }
            lanes.store_some(normal, out_rest);
        }
    }
}

/// `1 / sqrt(mean(x^2) + eps)`.
#[inline(always)]
pub(super) fn rms_scale<L: Lanes>(lanes: L, x: &[f32], eps: f32) -> f32 {
    let (chunks, rest) = x.as_chunks::<LANES>();
    let (fours, chunks) = chunks.as_chunks::<4>();
    let mut squares = [lanes.zero(); 4];
    for four in fours {
        for (squares, chunk) in squares.iter_mut().zip(four) {
            let values = lanes.load(chunk);
            *squares = lanes.fma(values, values, *squares);
        }
    }
    for (squares, chunk) in squares.iter_mut().zip(chunks) {
        let values = lanes.load(chunk);
        *squares = lanes.fma(values, values, *squares);
    }
    if !rest.is_empty() {
        let values = lanes.load_some(rest);
        let squares = &mut squares[chunks.len()];
        *squares = lanes.fma(values, values, *squares);
    }
    let [a, b, c, d] = squares;
    let squares = lanes.add(lanes.add(a, b), lanes.add(c, d));
    1.0 / (lanes.sum(squares) / x.len() as f32 + eps).sqrt()
}

#[cfg(test)]
mod tests {
    use super::super::testing::{close, same_everywhere, values};
    use super::*;

    #[test]
    fn follows_the_formula() {
        for length in [1, 7, 16, 64, 100, 768] {
            let (x, weight) = (values(1, length), values(2, length));
            let square: f64 = x.iter().map(|&x| f64::from(x).powi(2)).sum();
            let scale = 1.0 / (square / length as f64 + 1e-6).sqrt();
            let plain: Vec<f64> = x.iter().map(|&x| f64::from(x) * scale).collect();
            let weighted: Vec<f64> = plain.iter().zip(&weight).map(|(x, &w)| x * f64::from(w)).collect();
            for (weight, expected) in [(None, plain), (Some(weight.as_slice()), weighted)] {
                let result = same_everywhere(|cpu| {
                    let mut out = vec![0.0; length];
                    rms_norm(cpu, &x, weight, 1e-6, &mut out);
                    out
                });
                close(&result, &expected, 1e-6);
            }
        }
    }

    #[test]
    fn the_epsilon_keeps_zeros_finite() {
        let mut x = [0.0; 20];
        rms_norm_in_place(Cpu::detect(), &mut x, None, 1e-6);
        assert_eq!(x, [0.0; 20]);
    }
}
