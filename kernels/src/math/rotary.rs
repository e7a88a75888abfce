//! Rotary position embedding on interleaved pairs (dsv4.md 1.4, 1.5).

/// Cosines and sines of every position's angles.
#[derive(Clone, Debug)]
pub struct RotaryTable {
    pairs: usize,
    /// `[position][pair]`: cosine and sine.
    turns: Vec<[f32; 2]>,
}

impl RotaryTable {
    /// Angles `position * inv_freq[pair]`, multiplied in f32 as upstream does; cosine and sine are taken in f64 and
    /// rounded. Takes `positions * inv_freq.len() * 8` bytes.
    pub fn new(inv_freq: &[f32], positions: usize) -> Self {
        let mut turns = Vec::with_capacity(positions * inv_freq.len());
        for position in 0..positions {
            for frequency in inv_freq {
                let angle = f64::from(position as f32 * frequency);
                let (sine, cosine) = libm::sincos(angle);
                turns.push([cosine as f32, sine as f32]);
            }
        }
        Self { pairs: inv_freq.len(), turns }
    }

    /// Number of values that are rotated: two a frequency.
    pub fn dims(&self) -> usize {
        2 * self.pairs
    }

    /// Number of positions.
    pub fn positions(&self) -> usize {
        self.turns.len().checked_div(self.pairs).unwrap_or(0)
    }

    /// Turns each pair `(a, b)` of `x_tail` to `(a cos - b sin, a sin + b cos)`.
    ///
    /// # Panics
    /// If `x_tail` does not have [`RotaryTable::dims`] values or the position is past the table.
    pub fn rotate(&self, x_tail: &mut [f32], position: usize) {
        for ([a, b], [cosine, sine]) in self.pairs_of(x_tail, position) {
            (*a, *b) = (*a * cosine - *b * sine, *b * cosine + *a * sine);
        }
    }

    /// The inverse turn, by the negative angle, as applied to an attention output.
    ///
    /// # Panics
    /// As [`RotaryTable::rotate`].
    pub fn unrotate(&self, x_tail: &mut [f32], position: usize) {
        for ([a, b], [cosine, sine]) in self.pairs_of(x_tail, position) {
            (*a, *b) = (*a * cosine + *b * sine, *b * cosine - *a * sine);
        }
    }

    #[inline(always)]
    fn pairs_of<'a>(
        &'a self,
        x_tail: &'a mut [f32],
        position: usize,
    ) -> impl Iterator<Item = (&'a mut [f32; 2], &'a [f32; 2])> {
        assert_eq!(x_tail.len(), self.dims(), "rotary: wrong number of values");
        let turns = &self.turns[position * self.pairs..][..self.pairs];
        x_tail.as_chunks_mut::<2>().0.iter_mut().zip(turns)
    }
}

#[cfg(test)]
mod tests {
    use super::super::testing::{close, values};
    use super::*;

    #[test]
    fn turns_interleaved_pairs() {
        let frequencies = [1.0, 0.1, 0.003, 1e-5];
        let table = RotaryTable::new(&frequencies, 300);
        assert_eq!((table.dims(), table.positions()), (8, 300));
        let x = values(1, 8);
        for position in [0, 1, 17, 299] {
            let mut turned = x.clone();
            table.rotate(&mut turned, position);
            let expected: Vec<f64> = (0..8)
                .map(|i| {
                    let angle = f64::from(position as f32 * frequencies[i / 2]);
                    let (a, b) = (f64::from(x[i / 2 * 2]), f64::from(x[i / 2 * 2 + 1]));
                    if i % 2 == 0 { a * angle.cos() - b * angle.sin() } else { a * angle.sin() + b * angle.cos() }
                })
                .collect();
            close(&turned, &expected, 1e-6);
            table.unrotate(&mut turned, position);
            let original: Vec<f64> = x.iter().map(|&x| f64::from(x)).collect();
            close(&turned, &original, 1e-6);
        }
    }

    #[test]
    fn position_0_changes_nothing() {
        let table = RotaryTable::new(&[0.7, 0.2], 1);
        let mut x = [1.0, 2.0, 3.0, 4.0];
        table.rotate(&mut x, 0);
        assert_eq!(x, [1.0, 2.0, 3.0, 4.0]);
    }

    #[test]
    fn no_frequencies_no_positions() {
        assert_eq!(RotaryTable::new(&[], 5).positions(), 0);
    }
}
