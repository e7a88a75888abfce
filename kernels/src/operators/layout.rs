//! Byte layouts of the paged pools: formulas, with upstream's numbers as one instance.

use crate::ByteRange;
use crate::math::{bf16_decode, bf16_encode, e4m3_decode, e4m3_encode, ue8m0_decode, ue8m0_scale_up};

/// Tokens of a logical page.
pub const PAGE_TOKENS: usize = 256;
/// Non-rotary values that share one scale byte.
pub const SCALE_GROUP: usize = 64;
/// Smallest maximum that a scale is computed from.
const SMALLEST_MAXIMUM: f32 = 1e-4;
/// Largest e4m3 value.
const LARGEST_E4M3: f32 = 448.0;

/// How a KV row is stored.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum KvFormat {
    /// e4m3 non-rotary values, bf16 rotary values, one power-of-two scale byte per 64 values.
    Fp8,
    /// All values as f32, for verification.
    F32,
}

/// How an index key is stored.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum IndexFormat {
    /// e4m3 values and one f32 scale.
    Fp8,
    /// bf16 values.
    Bf16,
    /// f32 values, for verification.
    F32,
}

/// Where the slots of a paged buffer lie: a page is all data rows, then all scale rows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PageLayout {
    /// Slots of one page.
    pub slots: usize,
    /// Bytes of a slot's data.
    pub data: usize,
    /// Bytes of a slot's scales.
    pub scale: usize,
    /// Bytes of one page.
    pub page: usize,
}

impl PageLayout {
    /// Pages of `slots` KV rows: page bytes rounded up to a multiple of the data row (dsv4.md 2.2).
    pub fn kv(format: KvFormat, head: usize, rope: usize, slots: usize) -> Self {
        match format {
            KvFormat::Fp8 => {
                let nope = head - rope;
                let data = nope + 2 * rope;
                let scale = nope.div_ceil(SCALE_GROUP).next_multiple_of(8);
                Self { slots, data, scale, page: ((data + scale) * slots).next_multiple_of(data).next_multiple_of(8) }
            }
            KvFormat::F32 => Self { slots, data: head * 4, scale: 0, page: head * 4 * slots },
        }
    }

    /// Pages of `slots` index keys (dsv4.md 2.3).
    pub fn index(format: IndexFormat, dimension: usize, slots: usize) -> Self {
        let (data, scale) = match format {
            IndexFormat::Fp8 => (dimension, 4),
            IndexFormat::Bf16 => (dimension * 2, 0),
            IndexFormat::F32 => (dimension * 4, 0),
        };
        Self { slots, data, scale, page: ((data + scale) * slots).next_multiple_of(8) }
    }

    /// Bytes of `pages` pages.
    pub fn bytes(&self, pages: usize) -> usize {
        self.page * pages
    }

    /// Offset of a slot's data in the buffer.
    pub fn data_offset(&self, slot: usize) -> usize {
        slot / self.slots * self.page + slot % self.slots * self.data
    }

    /// Offset of a slot's scales in the buffer.
    pub fn scale_offset(&self, slot: usize) -> usize {
        slot / self.slots * self.page + self.slots * self.data + slot % self.slots * self.scale
    }

    /// The bytes of a slot in a buffer at `buffer`: data, and scales if there are any.
    pub fn slot_ranges(&self, buffer: ByteRange, slot: usize, ranges: &mut Vec<ByteRange>) {
        ranges.push(buffer.part(self.data_offset(slot), self.data));
        if self.scale > 0 {
            ranges.push(buffer.part(self.scale_offset(slot), self.scale));
        }
    }
}

/// A paged buffer of KV rows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct KvBuffer {
    /// Its bytes.
    pub range: ByteRange,
    /// Its pages.
    pub layout: PageLayout,
    /// Its rows.
    pub format: KvFormat,
    /// Values of a row.
    pub head: usize,
    /// Rotary values of a row, the last ones.
    pub rope: usize,
}

impl KvBuffer {
    /// Writes a row into `buffer`, the bytes of this pool.
    pub fn store(&self, buffer: &mut [u8], slot: usize, row: &[f32]) {
        let data = self.layout.data_offset(slot);
        match self.format {
            KvFormat::F32 => {
                buffer[data..data + self.layout.data].copy_from_slice(bytemuck::cast_slice(&row[..self.head]));
            }
            KvFormat::Fp8 => {
                let nope = self.head - self.rope;
                let scales = self.layout.scale_offset(slot);
                for (group, values) in row[..nope].chunks(SCALE_GROUP).enumerate() {
                    let largest = values.iter().fold(0f32, |m, v| m.max(v.abs())).max(SMALLEST_MAXIMUM);
                    let exponent = ue8m0_scale_up(largest / LARGEST_E4M3);
                    let inverse = 1.0 / ue8m0_decode(exponent);
                    buffer[scales + group] = exponent;
                    let at = data + group * SCALE_GROUP;
                    for (byte, value) in buffer[at..at + values.len()].iter_mut().zip(values) {
                        *byte = e4m3_encode(value * inverse);
                    }
                }
                for (pair, value) in
                    buffer[data + nope..data + self.layout.data].chunks_exact_mut(2).zip(&row[nope..self.head])
                {
                    pair.copy_from_slice(&bf16_encode(*value).to_le_bytes());
                }
            }
        }
    }

    /// Reads a row from `buffer`, the bytes of this pool.
    pub fn load(&self, buffer: &[u8], slot: usize, row: &mut [f32]) {
        let data = self.layout.data_offset(slot);
        let bytes = &buffer[data..data + self.layout.data];
        match self.format {
            KvFormat::F32 => row[..self.head].copy_from_slice(bytemuck::cast_slice(bytes)),
            KvFormat::Fp8 => {
                let nope = self.head - self.rope;
                let scales = self.layout.scale_offset(slot);
                for (group, values) in row[..nope].chunks_mut(SCALE_GROUP).enumerate() {
                    let scale = ue8m0_decode(buffer[scales + group]);
                    let from = group * SCALE_GROUP;
                    for (value, byte) in values.iter_mut().zip(&bytes[from..]) {
                        *value = e4m3_decode(*byte) * scale;
                    }
                }
                for (value, pair) in row[nope..self.head].iter_mut().zip(bytes[nope..].chunks_exact(2)) {
                    *value = bf16_decode(u16::from_le_bytes([pair[0], pair[1]]));
                }
            }
        }
    }
}

/// A paged buffer of index keys.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct IndexBuffer {
    /// Its bytes.
    pub range: ByteRange,
    /// Its pages.
    pub layout: PageLayout,
    /// Its keys.
    pub format: IndexFormat,
    /// Values of a key.
    pub dimension: usize,
}

impl IndexBuffer {
    /// Writes a key into `buffer`, the bytes of this pool.
    pub fn store(&self, buffer: &mut [u8], slot: usize, key: &[f32]) {
        let data = self.layout.data_offset(slot);
        let bytes = data..data + self.layout.data;
        match self.format {
            IndexFormat::F32 => buffer[bytes].copy_from_slice(bytemuck::cast_slice(&key[..self.dimension])),
            IndexFormat::Bf16 => {
                for (pair, value) in buffer[bytes].chunks_exact_mut(2).zip(key) {
                    pair.copy_from_slice(&bf16_encode(*value).to_le_bytes());
                }
            }
            IndexFormat::Fp8 => {
                let scale = fp8_scale(&key[..self.dimension]);
                for (byte, value) in buffer[bytes].iter_mut().zip(key) {
                    *byte = e4m3_encode(value / scale);
                }
                let at = self.layout.scale_offset(slot);
                buffer[at..at + 4].copy_from_slice(&scale.to_le_bytes());
            }
        }
    }

    /// Reads a key from `buffer` into column `column` of `transposed`, `[dimension][stride]`.
    pub fn load_transposed(&self, buffer: &[u8], slot: usize, transposed: &mut [f32], stride: usize, column: usize) {
        let data = self.layout.data_offset(slot);
        let bytes = &buffer[data..data + self.layout.data];
        let cells = transposed[column..].iter_mut().step_by(stride);
        match self.format {
            IndexFormat::F32 => {
                for (cell, value) in cells.zip(bytes.chunks_exact(4)) {
                    *cell = f32::from_le_bytes([value[0], value[1], value[2], value[3]]);
                }
            }
            IndexFormat::Bf16 => {
                for (cell, pair) in cells.zip(bytes.chunks_exact(2)) {
                    *cell = bf16_decode(u16::from_le_bytes([pair[0], pair[1]]));
                }
            }
            IndexFormat::Fp8 => {
                let at = self.layout.scale_offset(slot);
                let scale = f32::from_le_bytes([buffer[at], buffer[at + 1], buffer[at + 2], buffer[at + 3]]);
                for (cell, byte) in cells.zip(bytes) {
                    *cell = e4m3_decode(*byte) * scale;
                }
            }
        }
    }
}

/// The scale of an e4m3 vector: its largest magnitude over 448.
pub fn fp8_scale(values: &[f32]) -> f32 {
    values.iter().fold(0f32, |m, v| m.max(v.abs())).max(SMALLEST_MAXIMUM) / LARGEST_E4M3
}
