//! What the tests of this module share.

use super::{Cpu, Level};

/// Every level that this machine has; the last, scalar, is always there.
pub(super) fn levels() -> Vec<Cpu> {
    [Level::X86V4, Level::X86V3, Level::Scalar].into_iter().filter_map(Cpu::forced).collect()
}

/// `count` reproducible values in -1 .. 1.
pub(super) fn values(seed: u64, count: usize) -> Vec<f32> {
    let mut state = seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1;
    (0..count)
        .map(|_| {
            state ^= state << 13;
            state ^= state >> 7;
            state ^= state << 17;
            (state >> 40) as f32 / (1u64 << 23) as f32 - 1.0
        })
        .collect()
}

pub(super) fn bits(values: &[f32]) -> Vec<u32> {
    values.iter().map(|value| value.to_bits()).collect()
}

/// Runs `operator` at every level and returns its result, having checked that the levels agree bit for bit.
pub(super) fn same_everywhere(operator: impl Fn(Cpu) -> Vec<f32>) -> Vec<f32> {
    let mut levels = levels().into_iter().rev();
    let scalar = operator(levels.next().expect("the scalar level"));
    for cpu in levels {
        let result = operator(cpu);
        assert_eq!(bits(&result), bits(&scalar), "{} differs", cpu.level());
    }
    scalar
}

/// That each value is within `tolerance` (relative to the larger of 1 and the value) of what f64 gives.
pub(super) fn close(actual: &[f32], expected: &[f64], tolerance: f64) {
    assert_eq!(actual.len(), expected.len());
    for (i, (&actual, &expected)) in actual.iter().zip(expected).enumerate() {
        let error = (f64::from(actual) - expected).abs();
        assert!(error <= tolerance * expected.abs().max(1.0), "element {i}: {actual}, expected {expected}");
    }
}
