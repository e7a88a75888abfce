//! Choosing the next token.

use super::Tensor;
use crate::math::argmax;
use crate::{Access, Compute, Operator, Part, Views};

/// Greedy choice: the token with the largest logit, the lowest one among equals.
#[derive(Debug)]
pub struct ArgMax {
    accesses: [Access; 2],
    logits: Tensor,
}

impl ArgMax {
    /// Chooses from `logits` into `tokens`, `[rows, 1]`.
    pub fn new(logits: Tensor, tokens: Tensor) -> Self {
        Self { accesses: [logits.read(), tokens.write()], logits }
    }
}

impl Operator for ArgMax {
    fn accesses(&self) -> &[Access] {
        &self.accesses
    }

    fn tiles(&self) -> usize {
        self.logits.rows()
    }

    fn run(&self, mut views: Views<'_>, part: Part, _compute: Compute) {
        let (logits, tokens) = (views.read::<f32>(), views.write::<i32>());
        let columns = self.logits.columns;
        for row in part.tiles(self.tiles()) {
            tokens[row] = argmax(&logits[row * columns..][..columns]) as i32;
        }
    }
}
