//! Arithmetic of the model on the CPU, on plain slices.
//!
//! The result of a row is bit for bit the same whatever other rows are in the call, however rows and columns are cut
//! into blocks and threads, and at every instruction-set level: each output has one sequence of IEEE operations.
//! Where a sum is split into parts, the split depends on its length only. The sole exceptions are the sign and
//! payload of a NaN.
//!
//! Nothing allocates but the constructors of [`PackedMatrix`] and [`RotaryTable`]. Slices of the wrong length are
//! mistakes of the caller and panic.
#![allow(clippy::needless_range_loop, reason = "tiles of registers and small matrices read best by index")]

mod activation;
mod attention;
mod compress;
mod cpu;
mod fp8;
mod hadamard;
mod hyper_connection;
mod index;
mod matmul;
mod norm;
mod rotary;
#[cfg(test)]
mod testing;

pub use activation::{exp, sigmoid, sqrt_softplus, sqrt_softplus_all, swiglu};
pub use attention::attention_row;
pub use compress::{PoolSlot, compress_pool};
pub use cpu::{Cpu, Level};
pub use fp8::{
    E4M3_MAX, bf16_decode, bf16_decode_all, bf16_encode, bf16_encode_all, bf16_round, e4m3_decode, e4m3_decode_all,
    e4m3_encode, e4m3_encode_all, ue8m0_decode, ue8m0_scale_up,
};
pub use hadamard::hadamard;
pub use hyper_connection::{HyperConnection, HyperHead, MAX_STREAMS, hyper_head, hyper_post, hyper_pre};
pub use index::{argmax, index_scores, top_k};
pub use matmul::{PackedMatrix, add_scaled, matmul, matmul_gather, matmul_panels};
pub use norm::{rms_norm, rms_norm_in_place};
pub use rotary::RotaryTable;
