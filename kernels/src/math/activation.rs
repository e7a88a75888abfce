//! Exponential and the activations built on it (dsv4.md 1.8), all from one polynomial and no library call.

use super::cpu::{Arithmetic, Cpu, Kernel, LANES, Lanes, Single};

/// 1.5 * 2^23: adding it rounds a small number to an integer, which then sits in the low bits.
const MAGIC: f32 = 12_582_912.0;

/// ln 2 in two parts; the product of the first with any exponent is exact.
const LN_2_HIGH: f32 = 0.693_359_4;
const LN_2_LOW: f32 = -2.121_944_4e-4;

/// e^x within 1 ulp (2 where the result is subnormal): 0 below -104, infinite above 88.72, NaN for NaN.
///
/// x = n ln 2 + r with |r| <= ln 2 / 2, e^r by its Taylor series to degree 7 (the remainder is under 0.1 ulp), and
/// 2^n as two factors, so that subnormal results are rounded once.
#[inline(always)]
pub(super) fn exp_lanes<A: Arithmetic>(a: A, x: A::V) -> A::V {
    let x = a.max(a.splat(-104.0), a.min(a.splat(89.0), x));
    let magic = a.splat(MAGIC);
    let rounded = a.fma(x, a.splat(std::f32::consts::LOG2_E), magic);
    let n = a.sub(rounded, magic);
    let r = a.fma(n, a.splat(-LN_2_HIGH), x);
    let r = a.fma(n, a.splat(-LN_2_LOW), r);
    let mut series = a.splat(1.0 / 5040.0);
    for coefficient in [1.0 / 720.0, 1.0 / 120.0, 1.0 / 24.0, 1.0 / 6.0, 0.5, 1.0, 1.0] {
        series = a.fma(series, r, a.splat(coefficient));
    }
    let half = a.fma(n, a.splat(0.5), magic);
    let rest = a.add(a.sub(n, a.sub(half, magic)), magic);
    a.mul(a.mul(series, a.power_of_two(half)), a.power_of_two(rest))
}

/// 1 / (1 + e^-x).
#[inline(always)]
pub(super) fn sigmoid_lanes<A: Arithmetic>(a: A, x: A::V) -> A::V {
    let one = a.splat(1.0);
    a.div(one, a.add(one, exp_lanes(a, a.sub(a.zero(), x))))
}

/// sqrt(ln(1 + e^x)), with ln(1 + e^x) = max(x, 0) + ln(1 + u), u = e^-|x|, and ln(1 + u) = 2 artanh(u / (2 + u)).
/// Above 20, where torch's softplus returns x, the second term is below half an ulp of x.
#[inline(always)]
fn sqrt_softplus_lanes<A: Arithmetic>(a: A, x: A::V) -> A::V {
    let negative = a.sub(a.zero(), x);
    let u = exp_lanes(a, a.min(x, negative));
    let s = a.div(u, a.add(a.splat(2.0), u));
    let square = a.mul(s, s);
    let mut series = a.splat(1.0 / 15.0);
    for odd in [13.0, 11.0, 9.0, 7.0, 5.0, 3.0] {
        series = a.fma(series, square, a.splat(1.0 / odd));
    }
    let s = a.add(s, s);
    let logarithm = a.fma(a.mul(s, square), series, s);
    a.sqrt(a.add(a.max(a.zero(), x), logarithm))
}

/// `out[i] = e^x[i]`, see the module for its accuracy.
///
/// # Panics
/// If the lengths differ.
pub fn exp(cpu: Cpu, x: &[f32], out: &mut [f32]) {
    cpu.run(Map { x, out, function: Exp });
}

/// `1 / (1 + e^-x)`, bit for bit what the vectorised operators use.
pub fn sigmoid(x: f32) -> f32 {
    sigmoid_lanes(Single, x)
}

/// `sqrt(softplus(x))`, the routing score (dsv4.md 1.8); softplus with torch's threshold 20.
pub fn sqrt_softplus(x: f32) -> f32 {
    sqrt_softplus_lanes(Single, x)
}

/// `out[i] = sqrt_softplus(x[i])`, bit for bit, many times faster than one by one.
///
/// # Panics
/// If the lengths differ.
pub fn sqrt_softplus_all(cpu: Cpu, x: &[f32], out: &mut [f32]) {
    cpu.run(Map { x, out, function: SqrtSoftplus });
}

/// `out = silu(min(gate, limit)) * clamp(up, -limit, limit)` (dsv4.md 1.8), where `silu(g) = g / (1 + e^-g)`. An
/// infinite limit clamps nothing. NaN passes through.
///
/// # Panics
/// If the lengths differ.
pub fn swiglu(cpu: Cpu, gate: &[f32], up: &[f32], limit: f32, out: &mut [f32]) {
    assert!(gate.len() == out.len() && up.len() == out.len(), "swiglu: lengths differ");
    cpu.run(Swiglu { gate, up, limit, out });
}

trait Function {
    fn apply<A: Arithmetic>(&self, a: A, x: A::V) -> A::V;
}

struct Exp;

impl Function for Exp {
    #[inline(always)]
    fn apply<A: Arithmetic>(&self, a: A, x: A::V) -> A::V {
        exp_lanes(a, x)
    }
}

struct SqrtSoftplus;

impl Function for SqrtSoftplus {
    #[inline(always)]
    fn apply<A: Arithmetic>(&self, a: A, x: A::V) -> A::V {
        sqrt_softplus_lanes(a, x)
    }
}

struct Map<'a, F> {
    x: &'a [f32],
    out: &'a mut [f32],
    function: F,
}

impl<F: Function> Kernel for Map<'_, F> {
    type Output = ();

    #[inline(always)]
    fn run<L: Lanes>(self, lanes: L) {
        assert_eq!(self.x.len(), self.out.len(), "lengths differ");
        let (x, x_rest) = self.x.as_chunks::<LANES>();
        let (out, out_rest) = self.out.as_chunks_mut::<LANES>();
        for (x, out) in x.iter().zip(out) {
            *out = lanes.store(self.function.apply(lanes, lanes.load(x)));
        }
        if !x_rest.is_empty() {
            let values = self.function.apply(lanes, lanes.load_some(x_rest));
            lanes.store_some(values, out_rest);
        }
    }
}

struct Swiglu<'a> {
    gate: &'a [f32],
    up: &'a [f32],
    limit: f32,
    out: &'a mut [f32],
}

impl Kernel for Swiglu<'_> {
    type Output = ();

    #[inline(always)]
    fn run<L: Lanes>(self, lanes: L) {
        let (high, low) = (lanes.splat(self.limit), lanes.splat(-self.limit));
        let (gate, gate_rest) = self.gate.as_chunks::<LANES>();
        let (up, up_rest) = self.up.as_chunks::<LANES>();
        let (out, out_rest) = self.out.as_chunks_mut::<LANES>();
        for ((gate, up), out) in gate.iter().zip(up).zip(out) {
            *out = lanes.store(swiglu_lanes(lanes, lanes.load(gate), lanes.load(up), low, high));
        }
        if !gate_rest.is_empty() {
            let (gate, up) = (lanes.load_some(gate_rest), lanes.load_some(up_rest));
            lanes.store_some(swiglu_lanes(lanes, gate, up, low, high), out_rest);
        }
    }
}

#[inline(always)]
fn swiglu_lanes<L: Lanes>(lanes: L, gate: L::V, up: L::V, low: L::V, high: L::V) -> L::V {
    let gate = lanes.min(high, gate);
    let up = lanes.max(low, lanes.min(high, up));
    let denominator = lanes.add(lanes.splat(1.0), exp_lanes(lanes, lanes.sub(lanes.zero(), gate)));
    lanes.mul(lanes.div(gate, denominator), up)
}

#[cfg(test)]
mod tests {
    use super::super::testing::{bits, close, same_everywhere, values};
    use super::*;

    /// Distance in units in the last place, subnormal ones included.
    fn ulps(value: f32, exact: f64) -> f64 {
        let unit = f64::from((exact as f32).next_up()) - f64::from(exact as f32);
        (f64::from(value) - exact).abs() / unit
    }

    fn exp_of(x: &[f32]) -> Vec<f32> {
        let mut out = vec![0.0; x.len()];
        exp(Cpu::detect(), x, &mut out);
        out
    }

    #[test]
    fn exp_is_accurate() {
        let x: Vec<f32> = (0..2_000_000).map(|i| -104.0 + i as f32 * (192.5 / 2_000_000.0)).collect();
        let mut worst = 0.0;
        let mut worst_subnormal = 0.0;
        for (&x, value) in x.iter().zip(exp_of(&x)) {
            let exact = f64::from(x).exp();
            let error = ulps(value, exact);
            if exact < f64::from(f32::MIN_POSITIVE) {
                worst_subnormal = error.max(worst_subnormal);
            } else {
                worst = error.max(worst);
            }
        }
        assert!(worst <= 1.0, "{worst} ulp");
        assert!(worst_subnormal <= 1.0, "{worst_subnormal} ulp");
    }

    #[test]
    fn exp_at_the_edges() {
        let x = [0.0, -0.0, f32::NEG_INFINITY, -1e30, -105.0, f32::INFINITY, 1e30, 88.73, f32::MIN_POSITIVE];
        let inf = f32::INFINITY;
        assert_eq!(exp_of(&x), [1.0, 1.0, 0.0, 0.0, 0.0, inf, inf, inf, 1.0]);
        assert!(exp_of(&[f32::NAN])[0].is_nan());
        assert!(exp_of(&[88.72])[0].is_finite());
    }

    #[test]
    fn the_levels_agree() {
        let x: Vec<f32> = values(1, 1003).iter().map(|x| x * 120.0).collect();
        let singles: Vec<f32> = x.iter().map(|&x| exp_lanes(Single, x)).collect();
        let result = same_everywhere(|cpu| {
            let mut out = vec![0.0; x.len()];
            exp(cpu, &x, &mut out);
            out
        });
        assert_eq!(bits(&result), bits(&singles));
        let singles: Vec<f32> = x.iter().map(|&x| sqrt_softplus(x)).collect();
        let result = same_everywhere(|cpu| {
            let mut out = vec![0.0; x.len()];
            sqrt_softplus_all(cpu, &x, &mut out);
            out
        });
        assert_eq!(bits(&result), bits(&singles));
    }

    #[test]
    fn sigmoid_and_softplus_follow_their_formulas() {
        let x: Vec<f32> = (-4000..4000).map(|i| i as f32 * 0.02).collect();
        for x in x {
            let exact = f64::from(x);
            assert!(ulps(sigmoid(x), 1.0 / (1.0 + (-exact).exp())) < 3.0, "{x}");
            let softplus = if x > 20.0 { exact } else { exact.exp().ln_1p() };
            assert!(ulps(sqrt_softplus(x), softplus.sqrt()) < 2.0, "{x}");
        }
        assert_eq!(sigmoid(f32::NEG_INFINITY), 0.0);
        assert_eq!(sigmoid(f32::INFINITY), 1.0);
        assert_eq!(sqrt_softplus(f32::NEG_INFINITY), 0.0);
        assert_eq!(sqrt_softplus(f32::INFINITY), f32::INFINITY);
        assert_eq!(sqrt_softplus(25.0), 5.0);
        assert!(sigmoid(f32::NAN).is_nan() && sqrt_softplus(f32::NAN).is_nan());
    }

    #[test]
    fn swiglu_clamps_and_gates() {
        for (length, limit) in [(1, 10.0), (16, 0.5), (100, 7.0), (33, f32::INFINITY)] {
            let gate: Vec<f32> = values(2, length).iter().map(|x| x * 20.0).collect();
            let up: Vec<f32> = values(3, length).iter().map(|x| x * 20.0).collect();
            let expected: Vec<f64> = gate
                .iter()
                .zip(&up)
                .map(|(&gate, &up)| {
                    let gate = f64::from(gate.min(limit));
                    gate / (1.0 + (-gate).exp()) * f64::from(up.clamp(-limit, limit))
                })
                .collect();
            let result = same_everywhere(|cpu| {
                let mut out = vec![0.0; length];
                swiglu(cpu, &gate, &up, limit, &mut out);
                out
            });
            close(&result, &expected, 1e-6);
        }
        let mut out = [0.0; 2];
        swiglu(Cpu::detect(), &[f32::NAN, 1.0], &[1.0, f32::NAN], 10.0, &mut out);
        assert!(out[0].is_nan() && out[1].is_nan());
    }
}
