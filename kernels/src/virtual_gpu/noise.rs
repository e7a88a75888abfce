//! Noise as a pure function of where it applies.
//!
//! A draw depends on the seed, the step, the node, the tile and the purpose, and on nothing else: not on
//! how many draws were made before it. Arming a probe or adding a node's delay therefore reshuffles
//! nothing, and two arms of an experiment with one seed are paired.

/// What a draw is for; two purposes never share a draw.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Purpose {
    /// The gap before a node.
    Gap,
    /// A node's duration, relative.
    Kernel,
    /// A node's waiting for memory.
    Memory,
    /// A tile's start.
    Tile,
    /// A tile's rare long delay.
    TileTail,
    /// When a tile of a fixed grid lands.
    Landing,
    /// The host's launch of a node.
    Launch,
    /// Foreign traffic: whether, when and how much.
    Arrival,
}

/// A seed that draws come from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Noise {
    seed: u64,
}

impl Noise {
    /// Noise of one seed.
    pub fn new(seed: u64) -> Self {
        Self { seed: mix(seed ^ 0x0A02_BDBF_7BB3_C0A7) }
    }

    /// The draws of one node for one purpose, one a tile.
    pub fn draws(self, step: u64, node: usize, purpose: Purpose) -> Draws {
        let place = mix(self.seed.wrapping_add(step.wrapping_mul(0xD6E8_FEB8_6659_FD93)));
        Draws { base: mix(place ^ ((node as u64) << 8 | purpose as u64)) }
    }

    /// A draw from [0, 1).
    pub fn uniform(self, step: u64, node: usize, tile: usize, purpose: Purpose) -> f64 {
        self.draws(step, node, purpose).uniform(tile)
    }

    /// A draw of mean 0 and variance 1; see [`Draws::normal`].
    pub fn normal(self, step: u64, node: usize, tile: usize, purpose: Purpose) -> f64 {
        self.draws(step, node, purpose).normal(tile)
    }

    /// Nothing, or with probability `chance` an exponential delay; see [`Draws::tail`].
    pub fn tail(self, step: u64, node: usize, tile: usize, purpose: Purpose, chance: f64, mean: f64) -> f64 {
        self.draws(step, node, purpose).tail(tile, chance, mean)
    }
}

/// The draws of one node for one purpose.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Draws {
    base: u64,
}

impl Draws {
    fn bits(self, tile: usize) -> u64 {
        mix(self.base.wrapping_add((tile as u64).wrapping_mul(0x9E37_79B9_7F4A_7C15)))
    }

    /// A draw from [0, 1).
    pub fn uniform(self, tile: usize) -> f64 {
        (self.bits(tile) >> 11) as f64 * (1.0 / (1_u64 << 53) as f64)
    }

    /// A draw of mean 0 and variance 1, nearly normal up to two and a half deviations and never beyond
    /// 3.5: the sum of four uniforms cut from one hash.
    pub fn normal(self, tile: usize) -> f64 {
        let bits = self.bits(tile);
        let sum = (bits & 0xFFFF) + (bits >> 16 & 0xFFFF) + (bits >> 32 & 0xFFFF) + (bits >> 48);
        // The sum of four uniforms has variance 4/12; each 16-bit part lies half a step low.
        ((sum + 2) as f64 * (1.0 / 65536.0) - 2.0) * 1.732_050_807_568_877_2
    }

    /// With probability `chance` a draw from the exponential distribution of this mean, otherwise 0.
    pub fn tail(self, tile: usize, chance: f64, mean: f64) -> f64 {
        let draw = self.uniform(tile);
        if draw < chance { -mean * libm::log(1.0 - draw / chance) } else { 0.0 }
    }
}

/// The finaliser of SplitMix64.
fn mix(mut value: u64) -> u64 {
    value = (value ^ value >> 30).wrapping_mul(0xBF58_476D_1CE4_E5B9);
    value = (value ^ value >> 27).wrapping_mul(0x94D0_49BB_1331_11EB);
    value ^ value >> 31
}

#[cfg(test)]
mod tests {
    use super::*;

    const COUNT: usize = 200_000;

    fn moments(draw: impl Fn(usize) -> f64) -> (f64, f64) {
        let values: Vec<f64> = (0..COUNT).map(draw).collect();
        let mean = values.iter().sum::<f64>() / COUNT as f64;
        let variance = values.iter().map(|value| (value - mean).powi(2)).sum::<f64>() / COUNT as f64;
        (mean, variance)
    }

    #[test]
    fn moments_are_right_along_every_index() {
        let noise = Noise::new(1);
        for index in 0..3 {
            let place = |i: usize| [[i, 3, 4], [3, i, 4], [3, 4, i]][index];
            let draw = |i: usize| {
                let [step, node, tile] = place(i);
                (step as u64, node, tile)
            };
            let (mean, variance) = moments(|i| {
                let (step, node, tile) = draw(i);
                noise.normal(step, node, tile, Purpose::Tile)
            });
            assert!(mean.abs() < 0.01 && (variance - 1.0).abs() < 0.02, "{mean} {variance}");
            let (mean, variance) = moments(|i| {
                let (step, node, tile) = draw(i);
                noise.uniform(step, node, tile, Purpose::Tile)
            });
            assert!((mean - 0.5).abs() < 0.005 && (variance - 1.0 / 12.0).abs() < 0.002);
        }
    }

    #[test]
    fn tail_has_its_chance_and_mean() {
        let draws = Noise::new(2).draws(7, 8, Purpose::TileTail);
        let values: Vec<f64> =
            (0..COUNT).map(|tile| draws.tail(tile, 0.06, 0.29)).filter(|&delay| delay > 0.0).collect();
        let share = values.len() as f64 / COUNT as f64;
        let mean = values.iter().sum::<f64>() / values.len() as f64;
        assert!((share - 0.06).abs() < 0.003, "{share}");
        assert!((mean - 0.29).abs() < 0.01, "{mean}");
    }

    #[test]
    fn draws_of_neighbours_are_unrelated() {
        let noise = Noise::new(3);
        type Place = (u64, usize, usize, Purpose);
        let at = |(step, node, tile, purpose): Place| noise.normal(step, node, tile, purpose);
        let pairs: [fn(usize) -> [Place; 2]; 4] = [
            |i| [(i as u64, 0, 0, Purpose::Gap), (i as u64 + 1, 0, 0, Purpose::Gap)],
            |i| [(0, i, 0, Purpose::Gap), (0, i + 1, 0, Purpose::Gap)],
            |i| [(0, 0, i, Purpose::Gap), (0, 0, i + 1, Purpose::Gap)],
            |i| [(0, i, 0, Purpose::Gap), (0, i, 0, Purpose::Kernel)],
        ];
        for pair in pairs {
            let product: f64 = (0..COUNT)
                .map(|i| {
                    let [a, b] = pair(i);
                    at(a) * at(b)
                })
                .sum();
            assert!((product / COUNT as f64).abs() < 0.01);
        }
    }

    #[test]
    fn draws_are_the_same_on_every_platform() {
        let noise = Noise::new(42);
        assert_eq!(noise.uniform(1, 2, 3, Purpose::Gap).to_bits(), UNIFORM);
        assert_eq!(noise.normal(1, 2, 3, Purpose::Gap).to_bits(), NORMAL);
        assert_eq!(noise.tail(1, 2, 3, Purpose::Gap, 1.0, 1.0).to_bits(), TAIL);
    }

    const UNIFORM: u64 = 0x3FE9_3E00_E171_A590;
    const NORMAL: u64 = 0xBFCC_2FB9_4210_CEF9;
    const TAIL: u64 = 0x3FF8_E170_34A2_97A8;
}
