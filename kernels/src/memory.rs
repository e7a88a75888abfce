//! One flat address space, and views of declared ranges of it.

use bytemuck::{AnyBitPattern, NoUninit};

use crate::{Access, Mode};

/// Addresses are multiples of this many bytes, as PyTorch's allocator rounds.
pub const ALIGNMENT: usize = 512;

/// Most ranges that one operator may declare.
pub const MOST_ACCESSES: usize = 24;

/// A range of device memory.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ByteRange {
    /// First byte.
    pub start: usize,
    /// Number of bytes.
    pub length: usize,
}

impl ByteRange {
    /// One past the last byte.
    pub fn end(self) -> usize {
        self.start + self.length
    }

    /// Bytes that both ranges hold.
    pub fn overlap(self, other: Self) -> usize {
        self.end().min(other.end()).saturating_sub(self.start.max(other.start))
    }

    /// `length` bytes at `offset` of this range.
    ///
    /// # Panics
    /// When they do not lie inside: a programming error.
    #[must_use]
    pub fn part(self, offset: usize, length: usize) -> Self {
        assert!(offset + length <= self.length, "part {offset}+{length} lies outside {self:?}");
        Self { start: self.start + offset, length }
    }
}

/// Device memory.
#[derive(Clone, Debug, Default)]
pub struct Memory {
    words: Vec<u64>,
}

impl Memory {
    /// Adds `bytes` of zeroed memory and returns where they lie.
    pub fn reserve(&mut self, bytes: usize) -> ByteRange {
        let start = self.words.len() * 8;
        let rounded = bytes.max(1).next_multiple_of(ALIGNMENT);
        self.words.resize(self.words.len() + rounded / 8, 0);
        ByteRange { start, length: bytes }
    }

    /// Bytes in all.
    pub fn size(&self) -> usize {
        self.words.len() * 8
    }

    /// The bytes of a range.
    pub fn bytes(&self, range: ByteRange) -> &[u8] {
        &bytemuck::cast_slice(&self.words)[range.start..range.end()]
    }

    /// The bytes of a range, to be changed.
    pub fn bytes_mut(&mut self, range: ByteRange) -> &mut [u8] {
        &mut bytemuck::cast_slice_mut(&mut self.words)[range.start..range.end()]
    }

    /// A range as values.
    pub fn slice<T: AnyBitPattern>(&self, range: ByteRange) -> &[T] {
        bytemuck::cast_slice(self.bytes(range))
    }

    /// A range as values, to be changed.
    pub fn slice_mut<T: AnyBitPattern + NoUninit>(&mut self, range: ByteRange) -> &mut [T] {
        bytemuck::cast_slice_mut(self.bytes_mut(range))
    }

    /// Views of an operator's declared ranges, in the order of declaration.
    ///
    /// `order` lists the accesses by address. `private[i]`, where present, stands in for
    /// the memory of access `i`.
    ///
    /// # Panics
    /// When two of the ranges overlap: an operator declares overlapping bytes once.
    pub fn views<'a>(
        &'a mut self,
        accesses: &[Access],
        order: &[u8],
        private: Option<&'a mut [Option<Vec<u64>>]>,
    ) -> Views<'a> {
        let mut views = Views { slots: [const { None }; MOST_ACCESSES], next: 0 };
        let mut rest: &'a mut [u8] = bytemuck::cast_slice_mut(&mut self.words);
        let mut base = 0;
        let mut staged = private;
        if let Some(private) = staged.as_deref_mut() {
            debug_assert_eq!(private.len(), accesses.len());
        }
        for &index in order {
            let range = accesses[usize::from(index)].range;
            assert!(range.start >= base, "operator declares overlapping ranges at {range:?}");
            let (_, tail) = rest.split_at_mut(range.start - base);
            let (view, tail) = tail.split_at_mut(range.length);
            rest = tail;
            base = range.end();
            views.slots[usize::from(index)] = Some(view);
        }
        if let Some(private) = staged {
            for ((slot, buffer), access) in views.slots.iter_mut().zip(private).zip(accesses) {
                if let Some(buffer) = buffer {
                    let bytes: &'a mut [u8] = bytemuck::cast_slice_mut(buffer.as_mut_slice());
                    *slot = Some(&mut bytes[..access.range.length]);
                }
            }
        }
        views
    }
}

/// The order of accesses by address that [`Memory::views`] wants.
pub fn address_order(accesses: &[Access]) -> Vec<u8> {
    assert!(accesses.len() <= MOST_ACCESSES, "an operator declares {} ranges, at most {MOST_ACCESSES}", accesses.len());
    let mut order: Vec<u8> = (0..accesses.len() as u8).collect();
    order.sort_by_key(|&index| accesses[usize::from(index)].range.start);
    order
}

/// Views of an operator's declared ranges, taken one after the other in the order of declaration.
#[derive(Debug)]
pub struct Views<'a> {
    slots: [Option<&'a mut [u8]>; MOST_ACCESSES],
    next: usize,
}

impl<'a> Views<'a> {
    fn take(&mut self) -> &'a mut [u8] {
        let view = self.slots[self.next].take();
        self.next += 1;
        // The executor filled a slot for every declared access.
        view.expect("an operator takes no more views than it declared")
    }

    /// The next range, for reading.
    pub fn read<T: AnyBitPattern>(&mut self) -> &'a [T] {
        bytemuck::cast_slice(self.take())
    }

    /// The next range, for writing.
    pub fn write<T: AnyBitPattern + NoUninit>(&mut self) -> &'a mut [T] {
        bytemuck::cast_slice_mut(self.take())
    }
}

/// Convenience for declaring accesses.
impl Access {
    /// A range that every tile reads whole.
    pub fn read(range: ByteRange) -> Self {
        Self { range, mode: Mode::Read, slicing: crate::Slicing::Whole }
    }

    /// Rows of `stride` bytes, one a tile, read.
    pub fn read_rows(range: ByteRange, stride: usize) -> Self {
        Self { range, mode: Mode::Read, slicing: crate::Slicing::Rows { stride } }
    }

    /// Rows of `stride` bytes, one a tile, written.
    pub fn write_rows(range: ByteRange, stride: usize) -> Self {
        Self { range, mode: Mode::Write, slicing: crate::Slicing::Rows { stride } }
    }

    /// Rows of `stride` bytes, one a tile, changed in place.
    pub fn change_rows(range: ByteRange, stride: usize) -> Self {
        Self { range, mode: Mode::ReadWrite, slicing: crate::Slicing::Rows { stride } }
    }

    /// Columns of rows of `stride` bytes, `width` bytes a tile, written.
    pub fn write_columns(range: ByteRange, stride: usize, width: usize) -> Self {
        Self { range, mode: Mode::Write, slicing: crate::Slicing::Columns { stride, width } }
    }

    /// Bytes whose share of a tile depends on data.
    pub fn resolved(range: ByteRange, mode: Mode) -> Self {
        Self { range, mode, slicing: crate::Slicing::Resolved { chunks: 1 } }
    }
}
