//! Inverse frequencies of the rotary embedding, plain and YaRN.

use std::f64::consts::PI;

/// One rotary embedding. Attention uses pairs of neighbouring values, one frequency a pair.
#[derive(Debug, Clone, PartialEq)]
pub struct Rope {
    /// The base of the frequencies.
    pub theta: f64,
    /// Angle per position of each pair: `rope_dim / 2` values.
    pub inverse_frequencies: Vec<f32>,
}

/// How YaRN stretches the frequencies to longer contexts.
#[derive(Debug, Clone, Copy)]
pub(super) struct Yarn {
    pub(super) factor: f64,
    pub(super) beta_fast: f64,
    pub(super) beta_slow: f64,
    pub(super) original_positions: f64,
}

impl Rope {
    /// The caller has checked the arguments: `theta` above 1, YaRN's numbers positive.
    ///
    /// Each step rounds to f32 where torch does. The power alone is taken in f64 and rounded once, which agrees with torch's vectorised
    /// f32 power in every bit for all usual widths (at width 128 one value in 64 may differ in its last bit).
    pub(super) fn new(theta: f64, dimension: usize, yarn: Option<Yarn>) -> Self {
        let powers = (0..dimension / 2).map(|pair| {
            let exponent = (2 * pair) as f32 / dimension as f32;
            f64::from(theta as f32).powf(f64::from(exponent)) as f32
        });
        let inverse_frequencies = match yarn {
            None => powers.map(|power| 1.0 / power).collect(),
            Some(yarn) => {
                let (low, high) = yarn.correction_range(theta, dimension);
                powers
                    .enumerate()
                    .map(|(pair, power)| {
                        let ramp = ((pair as f32 - low as f32) / (high - low) as f32).clamp(0.0, 1.0);
                        let kept = 1.0 - ramp;
                        let stretched = 1.0 / (yarn.factor as f32 * power);
                        stretched * (1.0 - kept) + (1.0 / power) * kept
                    })
                    .collect()
            }
        };
        Self { theta, inverse_frequencies }
    }
}

impl Yarn {
    /// The pairs between which the stretched frequencies take over, in whole pairs. As upstream, the upper bound is clamped by the
    /// width in values, not in pairs, and equal bounds are moved apart.
    fn correction_range(&self, theta: f64, dimension: usize) -> (f64, f64) {
        let width = dimension as f64;
        let pair_turning =
            |turns: f64| width * (self.original_positions / (turns * 2.0 * PI)).ln() / (2.0 * theta.ln());
        let low = pair_turning(self.beta_fast).floor().max(0.0);
        let high = pair_turning(self.beta_slow).ceil().min(width - 1.0);
        if low == high { (low, high + 0.001) } else { (low, high) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn bits(rope: &Rope) -> Vec<u32> {
        rope.inverse_frequencies.iter().map(|value| value.to_bits()).collect()
    }

    fn yarn(original_positions: f64) -> Option<Yarn> {
        Some(Yarn { factor: 16.0, beta_fast: 32.0, beta_slow: 1.0, original_positions })
    }

    // The expected bits are torch 2.15's, float32 on the CPU.
    #[test]
    fn plain_frequencies_match_torch() {
        let expected = [0x3f800000, 0x3ea1e89b, 0x3dcccccd, 0x3d0186e3, 0x3c23d70a, 0x3b4f3e38, 0x3a83126f, 0x39a5cb60];
        assert_eq!(bits(&Rope::new(10_000.0, 16, None)), expected);
        let expected = [0x3f800000, 0x3e64f92e, 0x3d4ccccd, 0x3c372dbf, 0x3b23d70a, 0x3a128aff, 0x3903126f, 0x37ea77ff];
        assert_eq!(bits(&Rope::new(160_000.0, 16, None)), expected);
    }

    #[test]
    fn yarn_frequencies_match_torch() {
        let released = [
            0x3f800000, 0x3f300a3a, 0x3ef21c1f, 0x3ea67d01, 0x3e64f92e, 0x3e1d7475, 0x3dd88cb4, 0x3d94e963, 0x3d4ccccd,
            0x3d0cd4fb, 0x3cc1b019, 0x3c8530ce, 0x3c372dbf, 0x3bfbed88, 0x3bad3d5e, 0x3b6e4237, 0x3b147ae1, 0x3ab714e0,
            0x3a5ebdb6, 0x3a0530ce, 0x399bb3af, 0x39305978, 0x38be904d, 0x383e9b5f, 0x37a3d70c, 0x36b443d0, 0x3677eba6,
            0x362a7be8, 0x35ea77ff, 0x35a13bdc, 0x355dbf30, 0x35187c4d,
        ];
        assert_eq!(bits(&Rope::new(160_000.0, 64, yarn(65_536.0))), released);
        let short = [0x3f800000, 0x3cd9999a, 0x3923d70a, 0x3703126f];
        assert_eq!(bits(&Rope::new(160_000.0, 8, yarn(256.0))), short);
        // Every value stays finite when the bounds meet or cross.
        for positions in [1.0, 7.0, 200.0, 1e9] {
            assert!(
                Rope::new(160_000.0, 16, yarn(positions)).inverse_frequencies.iter().all(|value| value.is_finite())
            );
        }
    }
}
