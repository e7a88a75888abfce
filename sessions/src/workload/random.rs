//! A small random number generator whose numbers never change between versions, as a seed must
//! mean the same run for ever.

/// SplitMix64 (Steele, Lea and Flood, OOPSLA 2014).
pub(super) struct Random(u64);

impl Random {
    pub(super) fn new(seed: u64) -> Self {
        Self(seed)
    }

    /// A generator for the thing that `key` names, unlike those of other keys.
    pub(super) fn keyed(seed: u64, key: &[u64]) -> Self {
        Self(key.iter().fold(seed, |state, word| Self(state ^ word).next()))
    }

    /// Where the sequence stands; a generator made from it goes on the same way.
    pub(super) fn seed(&self) -> u64 {
        self.0
    }

    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.0;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    }

    /// A number from 0 to `count - 1`. The bias is below `count` in 2^64.
    pub(super) fn below(&mut self, count: u32) -> u32 {
        // The upper half of a product of a 64-bit and a 32-bit number fits 32 bits.
        ((u128::from(self.next()) * u128::from(count)) >> 64) as u32
    }

    /// A number from `low` to `high`, both included.
    pub(super) fn between(&mut self, low: u32, high: u32) -> u32 {
        low + self.below(high - low + 1)
    }

    /// Puts `items` in a random order.
    pub(super) fn shuffle<T>(&mut self, items: &mut [T]) {
        for last in (1..items.len()).rev() {
            items.swap(last, self.below(last as u32 + 1) as usize);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_gives_the_published_numbers() {
        let mut random = Random::new(1_234_567);
        let numbers = [(); 3].map(|()| random.next());
        assert_eq!(numbers, [6_457_827_717_110_365_317, 3_203_168_211_198_807_973, 9_817_491_932_198_370_423]);
    }

    #[test]
    fn ranges_are_filled_evenly() {
        let mut random = Random::new(1);
        let mut counts = [0; 19];
        (0..19_000).for_each(|_| counts[random.between(30, 48) as usize - 30] += 1);
        assert!(counts.iter().all(|count| (850..1_150).contains(count)), "{counts:?}");
    }
}
