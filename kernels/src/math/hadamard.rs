//! Walsh-Hadamard transform (dsv4.md 1.7).

use super::cpu::{Bit, Cpu, Kernel, LANES, Lanes};

/// Multiplies `x` by the Hadamard matrix of its length in natural order, scaled by `1 / sqrt(n)`: its own inverse.
///
/// # Panics
/// If the length is not a power of two.
pub fn hadamard(cpu: Cpu, x: &mut [f32]) {
    let n = x.len();
    assert!(n.is_power_of_two(), "hadamard: {n} is not a power of two");
    let scale = (1.0 / (n as f64).sqrt()) as f32;
    cpu.run(Transform { x, scale });
}

struct Transform<'a> {
    x: &'a mut [f32],
    scale: f32,
}

impl Kernel for Transform<'_> {
    type Output = ();

    #[inline(always)]
    fn run<L: Lanes>(self, lanes: L) {
        let scale = lanes.splat(self.scale);
        let n = self.x.len();
        let (chunks, few) = self.x.as_chunks_mut::<LANES>();
        if chunks.is_empty() {
            let mixed = within(lanes, lanes.load_some(few), n);
            lanes.store_some(lanes.mul(mixed, scale), few);
            return;
        }
        for chunk in chunks.iter_mut() {
            *chunk = lanes.store(within(lanes, lanes.load(chunk), LANES));
        }
        let mut stride = 1;
        while stride < chunks.len() {
            for block in chunks.chunks_exact_mut(2 * stride) {
                let (low, high) = block.split_at_mut(stride);
                for (low, high) in low.iter_mut().zip(high) {
                    let (a, b) = (lanes.load(low), lanes.load(high));
                    *low = lanes.store(lanes.add(a, b));
                    *high = lanes.store(lanes.sub(a, b));
                }
            }
            stride *= 2;
        }
        for chunk in chunks {
            *chunk = lanes.store(lanes.mul(lanes.load(chunk), scale));
        }
    }
}

/// The butterflies within the first `n` lanes.
#[inline(always)]
fn within<L: Lanes>(lanes: L, mut values: L::V, n: usize) -> L::V {
    for (stride, bit) in [(1, Bit::B1), (2, Bit::B2), (4, Bit::B4), (8, Bit::B8)] {
        if stride < n {
            // a + b in the lower lane, a - b in the upper.
            let signs: [f32; LANES] = std::array::from_fn(|lane| if lane & stride == 0 { 1.0 } else { -1.0 });
            values = lanes.fma(values, lanes.load(&signs), lanes.swap(values, bit));
        }
    }
    values
}

#[cfg(test)]
mod tests {
    use super::super::testing::{close, same_everywhere, values};
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn multiplies_by_the_matrix() {
        for n in [1usize, 2, 4, 8, 16, 64, 128] {
            let x = values(n as u64, n);
            let expected: Vec<f64> = (0..n)
                .map(|i| {
                    let sum: f64 = (0..n)
                        .map(|j| {
                            let odd = (i & j).count_ones() % 2 == 1;
                            f64::from(if odd { -x[j] } else { x[j] })
                        })
                        .sum();
                    sum / (n as f64).sqrt()
                })
                .collect();
            let transformed = same_everywhere(|cpu| {
                let mut x = x.clone();
                hadamard(cpu, &mut x);
                x
            });
            close(&transformed, &expected, 1e-6);
        }
    }

    #[test]
    #[should_panic(expected = "not a power of two")]
    fn other_lengths_are_refused() {
        hadamard(Cpu::detect(), &mut [0.0; 12]);
    }

    proptest! {
        #[test]
        fn twice_is_the_identity(exponent in 0u32..9, seed in any::<u64>()) {
            let x = values(seed, 1 << exponent);
            let mut twice = x.clone();
            hadamard(Cpu::detect(), &mut twice);
            hadamard(Cpu::detect(), &mut twice);
            let expected: Vec<f64> = x.iter().map(|&x| f64::from(x)).collect();
            close(&twice, &expected, 2e-6);
        }
    }
}
