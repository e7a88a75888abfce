//! Which vector instructions this processor has, and sixteen-lane arithmetic on top of them.
//!
//! Every operator of [`super`] is written once against [`Lanes`], sixteen `f32` lanes: one register on AVX-512, two
//! on AVX2, an array elsewhere. Each lane is computed by the same sequence of IEEE operations (with fused
//! multiply-add) at every level, so the levels agree bit for bit, except in the payload of a NaN.

#[cfg(target_arch = "x86_64")]
use pulp::{NullaryFnOnce, Simd};

/// Number of `f32` lanes of every vector in this module.
pub(super) const LANES: usize = 16;

/// Selects the instruction-set level that the operators run at.
///
/// It is a small token; pass it by value.
#[derive(Clone, Copy, Debug)]
pub struct Cpu {
    token: Token,
}

/// An instruction-set level, best first.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Level {
    /// AVX-512 (F, BW, CD, DQ, VL).
    X86V4,
    /// AVX2 and FMA.
    X86V3,
    /// What the target offers without detection. Slow on x86, where a fused multiply-add becomes a library call.
    Scalar,
}

#[derive(Clone, Copy, Debug)]
enum Token {
    #[cfg(target_arch = "x86_64")]
    V4(pulp::x86::V4),
    #[cfg(target_arch = "x86_64")]
    V3(pulp::x86::V3),
    Scalar,
}

impl Cpu {
    /// The best level that this processor has.
    pub fn detect() -> Self {
        [Level::X86V4, Level::X86V3].into_iter().find_map(Self::forced).unwrap_or(Self { token: Token::Scalar })
    }

    /// Exactly the level asked for, or `None` if this processor does not have it. For tests and comparisons.
    pub fn forced(level: Level) -> Option<Self> {
        let token = match level {
            #[cfg(target_arch = "x86_64")]
            Level::X86V4 => Token::V4(pulp::x86::V4::try_new()?),
            #[cfg(target_arch = "x86_64")]
            Level::X86V3 => Token::V3(pulp::x86::V3::try_new()?),
            Level::Scalar => Token::Scalar,
            #[cfg(not(target_arch = "x86_64"))]
            Level::X86V4 | Level::X86V3 => return None,
        };
        Some(Self { token })
    }

    /// The level's name: `x86-64-v4`, `x86-64-v3` or `scalar`.
    pub fn level(&self) -> &'static str {
        match self.token {
            #[cfg(target_arch = "x86_64")]
            Token::V4(_) => "x86-64-v4",
            #[cfg(target_arch = "x86_64")]
            Token::V3(_) => "x86-64-v3",
            Token::Scalar => "scalar",
        }
    }

    /// Runs `kernel` with the instructions of this level enabled.
    #[inline]
    pub(super) fn run<K: Kernel>(self, kernel: K) -> K::Output {
        match self.token {
            #[cfg(target_arch = "x86_64")]
            Token::V4(token) => token.vectorize(With { kernel, lanes: token }),
            #[cfg(target_arch = "x86_64")]
            Token::V3(token) => token.vectorize(With { kernel, lanes: token }),
            Token::Scalar => kernel.run(Plain),
        }
    }
}

/// A computation written for any level. `run` must be `#[inline(always)]`, as must everything that it calls with
/// `lanes`: only code inlined into the dispatching function is compiled with the level's instructions.
pub(super) trait Kernel {
    type Output;
    fn run<L: Lanes>(self, lanes: L) -> Self::Output;
}

/// A kernel with the token of its level, for pulp's dispatching function.
#[cfg(target_arch = "x86_64")]
struct With<K, L> {
    kernel: K,
    lanes: L,
}

#[cfg(target_arch = "x86_64")]
impl<K: Kernel, L: Lanes> NullaryFnOnce for With<K, L> {
    type Output = K::Output;

    #[inline(always)]
    fn call(self) -> K::Output {
        self.kernel.run(self.lanes)
    }
}

/// The operations that every lane goes through. [`Single`] gives the same ones for one number.
pub(super) trait Arithmetic: Copy {
    /// The numbers operated on, in registers.
    type V: Copy;

    fn splat(self, value: f32) -> Self::V;
    fn add(self, a: Self::V, b: Self::V) -> Self::V;
    fn sub(self, a: Self::V, b: Self::V) -> Self::V;
    fn mul(self, a: Self::V, b: Self::V) -> Self::V;
    fn div(self, a: Self::V, b: Self::V) -> Self::V;
    /// `a * b + c`, rounded once.
    fn fma(self, a: Self::V, b: Self::V, c: Self::V) -> Self::V;
    fn sqrt(self, a: Self::V) -> Self::V;
    /// `if a > b { a } else { b }`: a NaN in either gives `b`.
    fn max(self, a: Self::V, b: Self::V) -> Self::V;
    /// `if a < b { a } else { b }`: a NaN in either gives `b`.
    fn min(self, a: Self::V, b: Self::V) -> Self::V;
    /// `f32::from_bits((bits << 23) + bits_of_one)`, wrapping: a power of two out of an integer that sits in the low
    /// bits of a float.
    fn power_of_two(self, bits: Self::V) -> Self::V;

    #[inline(always)]
    fn zero(self) -> Self::V {
        self.splat(0.0)
    }
}

/// Sixteen `f32` lanes.
pub(super) trait Lanes: Arithmetic {
    /// How many accumulators of sixteen lanes fit in the registers next to their operands.
    const ACCUMULATORS: usize;

    fn load(self, values: &[f32; LANES]) -> Self::V;
    fn store(self, values: Self::V) -> [f32; LANES];
    /// Up to sixteen values, the other lanes zero.
    fn load_some(self, values: &[f32]) -> Self::V;
    /// The first `out.len()` lanes, at most sixteen.
    fn store_some(self, values: Self::V, out: &mut [f32]);

    /// Sum of the lanes, always as the tree that adds lane `i + 8` to `i`, then `i + 4`, `i + 2`, `i + 1`.
    fn sum(self, values: Self::V) -> f32;

    /// Lane `i` is the sum of `values[i]`, as by [`Lanes::sum`].
    fn sum_each(self, values: [Self::V; LANES]) -> Self::V;

    /// Lanes whose index differs in that bit change places.
    fn swap(self, values: Self::V, bit: Bit) -> Self::V;

    /// Bit `i` set where lane `i` of `a` is `>=` that of `b`, which a NaN never is.
    fn at_least(self, a: Self::V, b: Self::V) -> u32;

    /// Largest lane; unspecified which if one is a NaN.
    #[inline(always)]
    fn largest(self, values: Self::V) -> f32 {
        self.store(values).into_iter().fold(f32::NEG_INFINITY, |a, b| if a > b { a } else { b })
    }
}

/// A bit of a lane's index.
#[derive(Clone, Copy)]
pub(super) enum Bit {
    B1,
    B2,
    B4,
    B8,
}

const ONE: u32 = 1f32.to_bits();

/// One number, with the operations of a lane.
#[derive(Clone, Copy)]
pub(super) struct Single;

impl Arithmetic for Single {
    type V = f32;

    #[inline(always)]
    fn splat(self, value: f32) -> f32 {
        value
    }
    #[inline(always)]
    fn add(self, a: f32, b: f32) -> f32 {
        a + b
    }
    #[inline(always)]
    fn sub(self, a: f32, b: f32) -> f32 {
        a - b
    }
    #[inline(always)]
    fn mul(self, a: f32, b: f32) -> f32 {
        a * b
    }
    #[inline(always)]
    fn div(self, a: f32, b: f32) -> f32 {
        a / b
    }
    #[inline(always)]
    fn fma(self, a: f32, b: f32, c: f32) -> f32 {
        a.mul_add(b, c)
    }
    #[inline(always)]
    fn sqrt(self, a: f32) -> f32 {
        a.sqrt()
    }
    #[inline(always)]
    fn max(self, a: f32, b: f32) -> f32 {
        if a > b { a } else { b }
    }
    #[inline(always)]
    fn min(self, a: f32, b: f32) -> f32 {
        if a < b { a } else { b }
    }
    #[inline(always)]
    fn power_of_two(self, bits: f32) -> f32 {
        f32::from_bits((bits.to_bits() << 23).wrapping_add(ONE))
    }
}

#[cfg(target_arch = "x86_64")]
impl Arithmetic for pulp::x86::V4 {
    type V = pulp::f32x16;

    #[inline(always)]
    fn splat(self, value: f32) -> Self::V {
        self.splat_f32x16(value)
    }
    #[inline(always)]
    fn add(self, a: Self::V, b: Self::V) -> Self::V {
        self.add_f32x16(a, b)
    }
    #[inline(always)]
    fn sub(self, a: Self::V, b: Self::V) -> Self::V {
        self.sub_f32x16(a, b)
    }
    #[inline(always)]
    fn mul(self, a: Self::V, b: Self::V) -> Self::V {
        self.mul_f32x16(a, b)
    }
    #[inline(always)]
    fn div(self, a: Self::V, b: Self::V) -> Self::V {
        self.div_f32x16(a, b)
    }
    #[inline(always)]
    fn max(self, a: Self::V, b: Self::V) -> Self::V {
        self.max_f32x16(a, b)
    }
    #[inline(always)]
    fn min(self, a: Self::V, b: Self::V) -> Self::V {
        self.min_f32x16(a, b)
    }
    #[inline(always)]
    fn fma(self, a: Self::V, b: Self::V, c: Self::V) -> Self::V {
        self.mul_add_f32x16(a, b, c)
    }
    #[inline(always)]
    fn sqrt(self, a: Self::V) -> Self::V {
        self.sqrt_f32x16(a)
    }
    #[inline(always)]
    fn power_of_two(self, bits: Self::V) -> Self::V {
        let shifted = self.shl_const_u32x16::<23>(pulp::cast(bits));
        pulp::cast(self.wrapping_add_u32x16(shifted, self.splat_u32x16(ONE)))
    }
}

#[cfg(target_arch = "x86_64")]
impl Lanes for pulp::x86::V4 {
    const ACCUMULATORS: usize = 24;

    #[inline(always)]
    fn load(self, values: &[f32; LANES]) -> Self::V {
        pulp::cast(*values)
    }
    #[inline(always)]
    fn store(self, values: Self::V) -> [f32; LANES] {
        pulp::cast(values)
    }
    #[inline(always)]
    fn load_some(self, values: &[f32]) -> Self::V {
        self.partial_load_f32s(values)
    }
    #[inline(always)]
    fn store_some(self, values: Self::V, out: &mut [f32]) {
        self.partial_store_f32s(out, values);
    }
    #[inline(always)]
    fn sum(self, values: Self::V) -> f32 {
        self.reduce_sum_f32s(values)
    }
    #[inline(always)]
    fn sum_each(self, v: [Self::V; LANES]) -> Self::V {
        // The steps below leave the sums as a 4 by 4 table; so that they come out in order, it goes in transposed.
        let a = v4_quarters(self, v[0], v[4], v[8], v[12]);
        let b = v4_quarters(self, v[1], v[5], v[9], v[13]);
        let c = v4_quarters(self, v[2], v[6], v[10], v[14]);
        let d = v4_quarters(self, v[3], v[7], v[11], v[15]);
        let (a, b) = (v4_pairs(self, a, b), v4_pairs(self, c, d));
        let (a, b) = (pulp::cast(a), pulp::cast(b));
        self.add_f32x16(
            pulp::cast(self.avx512f._mm512_unpacklo_pd(a, b)),
            pulp::cast(self.avx512f._mm512_unpackhi_pd(a, b)),
        )
    }
    #[inline(always)]
    fn swap(self, values: Self::V, bit: Bit) -> Self::V {
        let (f, v) = (self.avx512f, pulp::cast(values));
        pulp::cast(match bit {
            Bit::B1 => f._mm512_permute_ps::<0b10_11_00_01>(v),
            Bit::B2 => f._mm512_permute_ps::<0b01_00_11_10>(v),
            Bit::B4 => f._mm512_shuffle_f32x4::<0b10_11_00_01>(v, v),
            Bit::B8 => f._mm512_shuffle_f32x4::<0b01_00_11_10>(v, v),
        })
    }
    #[inline(always)]
    fn at_least(self, a: Self::V, b: Self::V) -> u32 {
        u32::from(self.cmp_le_f32x16(b, a).0)
    }
    #[inline(always)]
    fn largest(self, values: Self::V) -> f32 {
        self.reduce_max_f32s(values)
    }
}

/// Of four vectors the sums of quarters 0 and 2 and of 1 and 3, and the sums of those, one a quarter.
#[cfg(target_arch = "x86_64")]
#[inline(always)]
fn v4_quarters(v4: pulp::x86::V4, a: pulp::f32x16, b: pulp::f32x16, c: pulp::f32x16, d: pulp::f32x16) -> pulp::f32x16 {
    let f = v4.avx512f;
    let (a, b, c, d) = (pulp::cast(a), pulp::cast(b), pulp::cast(c), pulp::cast(d));
    let ab = v4.add_f32x16(
        pulp::cast(f._mm512_shuffle_f32x4::<0b01_00_01_00>(a, b)),
        pulp::cast(f._mm512_shuffle_f32x4::<0b11_10_11_10>(a, b)),
    );
    let cd = v4.add_f32x16(
        pulp::cast(f._mm512_shuffle_f32x4::<0b01_00_01_00>(c, d)),
        pulp::cast(f._mm512_shuffle_f32x4::<0b11_10_11_10>(c, d)),
    );
    let (ab, cd) = (pulp::cast(ab), pulp::cast(cd));
    v4.add_f32x16(
        pulp::cast(f._mm512_shuffle_f32x4::<0b10_00_10_00>(ab, cd)),
        pulp::cast(f._mm512_shuffle_f32x4::<0b11_01_11_01>(ab, cd)),
    )
}

/// Within each quarter `[a0 + a2, b0 + b2, a1 + a3, b1 + b3]`.
#[cfg(target_arch = "x86_64")]
#[inline(always)]
fn v4_pairs(v4: pulp::x86::V4, a: pulp::f32x16, b: pulp::f32x16) -> pulp::f32x16 {
    let (a, b) = (pulp::cast(a), pulp::cast(b));
    v4.add_f32x16(pulp::cast(v4.avx512f._mm512_unpacklo_ps(a, b)), pulp::cast(v4.avx512f._mm512_unpackhi_ps(a, b)))
}

#[cfg(target_arch = "x86_64")]
impl Arithmetic for pulp::x86::V3 {
    type V = [pulp::f32x8; 2];

    #[inline(always)]
    fn splat(self, value: f32) -> Self::V {
        [self.splat_f32x8(value); 2]
    }
    #[inline(always)]
    fn add(self, [a, c]: Self::V, [b, d]: Self::V) -> Self::V {
        [self.add_f32x8(a, b), self.add_f32x8(c, d)]
    }
    #[inline(always)]
    fn sub(self, [a, c]: Self::V, [b, d]: Self::V) -> Self::V {
        [self.sub_f32x8(a, b), self.sub_f32x8(c, d)]
    }
    #[inline(always)]
    fn mul(self, [a, c]: Self::V, [b, d]: Self::V) -> Self::V {
        [self.mul_f32x8(a, b), self.mul_f32x8(c, d)]
    }
    #[inline(always)]
    fn div(self, [a, c]: Self::V, [b, d]: Self::V) -> Self::V {
        [self.div_f32x8(a, b), self.div_f32x8(c, d)]
    }
    #[inline(always)]
    fn max(self, [a, c]: Self::V, [b, d]: Self::V) -> Self::V {
        [self.max_f32x8(a, b), self.max_f32x8(c, d)]
    }
    #[inline(always)]
    fn min(self, [a, c]: Self::V, [b, d]: Self::V) -> Self::V {
        [self.min_f32x8(a, b), self.min_f32x8(c, d)]
    }
    #[inline(always)]
    fn fma(self, a: Self::V, b: Self::V, c: Self::V) -> Self::V {
        [self.mul_add_f32x8(a[0], b[0], c[0]), self.mul_add_f32x8(a[1], b[1], c[1])]
    }
    #[inline(always)]
    fn sqrt(self, [a, b]: Self::V) -> Self::V {
        [self.sqrt_f32x8(a), self.sqrt_f32x8(b)]
    }
    #[inline(always)]
    fn power_of_two(self, [a, b]: Self::V) -> Self::V {
        let one = self.splat_u32x8(ONE);
        let (a, b) = (self.shl_const_u32x8::<23>(pulp::cast(a)), self.shl_const_u32x8::<23>(pulp::cast(b)));
        [pulp::cast(self.wrapping_add_u32x8(a, one)), pulp::cast(self.wrapping_add_u32x8(b, one))]
    }
}

#[cfg(target_arch = "x86_64")]
impl Lanes for pulp::x86::V3 {
    const ACCUMULATORS: usize = 6;

    #[inline(always)]
    fn load(self, values: &[f32; LANES]) -> Self::V {
        pulp::cast(*values)
    }
    #[inline(always)]
    fn store(self, values: Self::V) -> [f32; LANES] {
        pulp::cast(values)
    }
    #[inline(always)]
    fn load_some(self, values: &[f32]) -> Self::V {
        let (low, high) = values.split_at(values.len().min(LANES / 2));
        [self.partial_load_f32s(low), self.partial_load_f32s(high)]
    }
    #[inline(always)]
    fn store_some(self, values: Self::V, out: &mut [f32]) {
        let (low, high) = out.split_at_mut(out.len().min(LANES / 2));
        self.partial_store_f32s(low, values[0]);
        self.partial_store_f32s(high, values[1]);
    }
    #[inline(always)]
    fn sum(self, [low, high]: Self::V) -> f32 {
        self.reduce_sum_f32s(self.add_f32x8(low, high))
    }
    #[inline(always)]
    fn sum_each(self, v: [Self::V; LANES]) -> Self::V {
        [
            v3_sum_each(self, [v[0], v[1], v[2], v[3], v[4], v[5], v[6], v[7]]),
            v3_sum_each(self, [v[8], v[9], v[10], v[11], v[12], v[13], v[14], v[15]]),
        ]
    }
    #[inline(always)]
    fn swap(self, [a, b]: Self::V, bit: Bit) -> Self::V {
        let (x, y) = (pulp::cast(a), pulp::cast(b));
        let [x, y] = match bit {
            Bit::B1 => [self.avx._mm256_permute_ps::<0b10_11_00_01>(x), self.avx._mm256_permute_ps::<0b10_11_00_01>(y)],
            Bit::B2 => [self.avx._mm256_permute_ps::<0b01_00_11_10>(x), self.avx._mm256_permute_ps::<0b01_00_11_10>(y)],
            Bit::B4 => [self.avx._mm256_permute2f128_ps::<0x01>(x, x), self.avx._mm256_permute2f128_ps::<0x01>(y, y)],
            Bit::B8 => [y, x],
        };
        [pulp::cast(x), pulp::cast(y)]
    }
    #[inline(always)]
    fn at_least(self, a: Self::V, b: Self::V) -> u32 {
        let low = pulp::cast(self.cmp_le_f32x8(b[0], a[0]));
        let high = pulp::cast(self.cmp_le_f32x8(b[1], a[1]));
        let (low, high) = (self.avx._mm256_movemask_ps(low), self.avx._mm256_movemask_ps(high));
        (low | high << 8) as u32
    }
    #[inline(always)]
    fn largest(self, [low, high]: Self::V) -> f32 {
        self.reduce_max_f32s(self.max_f32x8(low, high))
    }
}

/// The sums of eight vectors, in the steps of V4.
#[cfg(target_arch = "x86_64")]
#[inline(always)]
fn v3_sum_each(v3: pulp::x86::V3, v: [[pulp::f32x8; 2]; 8]) -> pulp::f32x8 {
    let a = v3_halves(v3, v[0], v[4]);
    let b = v3_halves(v3, v[1], v[5]);
    let c = v3_halves(v3, v[2], v[6]);
    let d = v3_halves(v3, v[3], v[7]);
    let (a, b) = (v3_pairs(v3, a, b), v3_pairs(v3, c, d));
    let (a, b) = (pulp::cast(a), pulp::cast(b));
    v3.add_f32x8(pulp::cast(v3.avx._mm256_unpacklo_pd(a, b)), pulp::cast(v3.avx._mm256_unpackhi_pd(a, b)))
}

#[cfg(target_arch = "x86_64")]
#[inline(always)]
fn v3_halves(v3: pulp::x86::V3, a: [pulp::f32x8; 2], b: [pulp::f32x8; 2]) -> pulp::f32x8 {
    let a = pulp::cast(v3.add_f32x8(a[0], a[1]));
    let b = pulp::cast(v3.add_f32x8(b[0], b[1]));
    v3.add_f32x8(
        pulp::cast(v3.avx._mm256_permute2f128_ps::<0x20>(a, b)),
        pulp::cast(v3.avx._mm256_permute2f128_ps::<0x31>(a, b)),
    )
}

#[cfg(target_arch = "x86_64")]
#[inline(always)]
fn v3_pairs(v3: pulp::x86::V3, a: pulp::f32x8, b: pulp::f32x8) -> pulp::f32x8 {
    let (a, b) = (pulp::cast(a), pulp::cast(b));
    v3.add_f32x8(pulp::cast(v3.avx._mm256_unpacklo_ps(a, b)), pulp::cast(v3.avx._mm256_unpackhi_ps(a, b)))
}

/// Arrays, for targets without a detected level. On x86, where only ancient machines get here and a fused multiply-add
/// is a library call, the operations stay out of line: sixteen calls in each of their many uses are a lot of code.
#[derive(Clone, Copy)]
struct Plain;

/// One lane-wise operation of [`Plain`].
#[inline(always)]
fn each<const N: usize>(operands: [[f32; LANES]; N], operation: impl Fn([f32; N]) -> f32) -> [f32; LANES] {
    std::array::from_fn(|lane| operation(std::array::from_fn(|n| operands[n][lane])))
}

impl Arithmetic for Plain {
    type V = [f32; LANES];

    #[inline(always)]
    fn splat(self, value: f32) -> Self::V {
        [value; LANES]
    }
    #[cfg_attr(target_arch = "x86_64", inline(never))]
    fn add(self, a: Self::V, b: Self::V) -> Self::V {
        each([a, b], |[a, b]| Single.add(a, b))
    }
    #[cfg_attr(target_arch = "x86_64", inline(never))]
    fn sub(self, a: Self::V, b: Self::V) -> Self::V {
        each([a, b], |[a, b]| Single.sub(a, b))
    }
    #[cfg_attr(target_arch = "x86_64", inline(never))]
    fn mul(self, a: Self::V, b: Self::V) -> Self::V {
        each([a, b], |[a, b]| Single.mul(a, b))
    }
    #[cfg_attr(target_arch = "x86_64", inline(never))]
    fn div(self, a: Self::V, b: Self::V) -> Self::V {
        each([a, b], |[a, b]| Single.div(a, b))
    }
    #[cfg_attr(target_arch = "x86_64", inline(never))]
    fn max(self, a: Self::V, b: Self::V) -> Self::V {
        each([a, b], |[a, b]| Single.max(a, b))
    }
    #[cfg_attr(target_arch = "x86_64", inline(never))]
    fn min(self, a: Self::V, b: Self::V) -> Self::V {
        each([a, b], |[a, b]| Single.min(a, b))
    }
    #[cfg_attr(target_arch = "x86_64", inline(never))]
    fn fma(self, a: Self::V, b: Self::V, c: Self::V) -> Self::V {
        each([a, b, c], |[a, b, c]| Single.fma(a, b, c))
    }
    #[cfg_attr(target_arch = "x86_64", inline(never))]
    fn sqrt(self, a: Self::V) -> Self::V {
        each([a], |[a]| Single.sqrt(a))
    }
    #[cfg_attr(target_arch = "x86_64", inline(never))]
    fn power_of_two(self, bits: Self::V) -> Self::V {
        each([bits], |[bits]| Single.power_of_two(bits))
    }
}

impl Lanes for Plain {
    const ACCUMULATORS: usize = 4;

    #[inline(always)]
    fn load(self, values: &[f32; LANES]) -> Self::V {
        *values
    }
    #[inline(always)]
    fn store(self, values: Self::V) -> [f32; LANES] {
        values
    }
    #[cfg_attr(target_arch = "x86_64", inline(never))]
    fn load_some(self, values: &[f32]) -> Self::V {
        let mut lanes = [0.0; LANES];
        lanes[..values.len()].copy_from_slice(values);
        lanes
    }
    #[cfg_attr(target_arch = "x86_64", inline(never))]
    fn store_some(self, values: Self::V, out: &mut [f32]) {
        out.copy_from_slice(&values[..out.len()]);
    }
    #[cfg_attr(target_arch = "x86_64", inline(never))]
    fn sum(self, mut values: Self::V) -> f32 {
        for half in [8, 4, 2, 1] {
            for lane in 0..half {
                values[lane] += values[lane + half];
            }
        }
        values[0]
    }
    #[cfg_attr(target_arch = "x86_64", inline(never))]
    fn sum_each(self, values: [Self::V; LANES]) -> Self::V {
        values.map(|values| self.sum(values))
    }
    #[cfg_attr(target_arch = "x86_64", inline(never))]
    fn swap(self, values: Self::V, bit: Bit) -> Self::V {
        std::array::from_fn(|lane| values[lane ^ (1 << bit as usize)])
    }
    #[cfg_attr(target_arch = "x86_64", inline(never))]
    fn at_least(self, a: Self::V, b: Self::V) -> u32 {
        let lanes = a.iter().zip(&b).enumerate();
        lanes.fold(0, |mask, (i, (a, b))| mask | u32::from(a >= b) << i)
    }
}

#[cfg(test)]
mod tests {
    use super::super::testing::{bits, levels, same_everywhere, values};
    use super::*;

    struct Everything<'a>(&'a [f32], &'a [f32]);

    impl Kernel for Everything<'_> {
        type Output = Vec<f32>;

        #[inline(always)]
        fn run<L: Lanes>(self, lanes: L) -> Vec<f32> {
            let (a, b) = (lanes.load_some(self.0), lanes.load_some(self.1));
            let mask = lanes.at_least(a, b);
            let mut out = vec![lanes.sum(a), lanes.largest(b), mask as f32];
            for result in [
                lanes.add(a, b),
                lanes.sub(a, b),
                lanes.mul(a, b),
                lanes.div(a, b),
                lanes.fma(a, b, a),
                lanes.sqrt(lanes.mul(a, a)),
                lanes.max(a, b),
                lanes.min(a, b),
                lanes.power_of_two(lanes.add(a, lanes.splat(12_582_912.0))),
                lanes.swap(a, Bit::B1),
                lanes.swap(a, Bit::B2),
                lanes.swap(a, Bit::B4),
                lanes.swap(a, Bit::B8),
                lanes.sum_each(std::array::from_fn(|i| lanes.mul(a, lanes.splat(1.0 / (i as f32 + 3.0))))),
            ] {
                out.extend(lanes.store(result));
                let mut some = [7.0; 5];
                lanes.store_some(result, &mut some);
                out.extend(some);
            }
            out
        }
    }

    #[test]
    fn the_levels_agree() {
        for width in 0..=LANES {
            let a: Vec<f32> = values(1, width).iter().map(|v| v * 50.0).collect();
            let mut b = values(2, width);
            if width > 3 {
                b[3] = a[3];
            }
            // 0 / 0 in the unused lanes gives NaN, whose sign is the processor's choice.
            same_everywhere(|cpu| {
                let mut out = cpu.run(Everything(&a, &b));
                for value in &mut out {
                    if value.is_nan() {
                        *value = f32::NAN;
                    }
                }
                out
            });
        }
    }

    #[test]
    fn the_smaller_of_a_number_and_nan_is_the_second() {
        struct Nan;
        impl Kernel for Nan {
            type Output = Vec<f32>;
            #[inline(always)]
            fn run<L: Lanes>(self, lanes: L) -> Vec<f32> {
                let (one, nan) = (lanes.splat(1.0), lanes.splat(f32::NAN));
                assert_eq!(lanes.at_least(nan, one) | lanes.at_least(one, nan), 0);
                [lanes.max(one, nan), lanes.min(one, nan), lanes.max(nan, one), lanes.min(nan, one)]
                    .map(|v| lanes.store(v)[9])
                    .to_vec()
            }
        }
        for cpu in levels() {
            let expected = [f32::NAN, f32::NAN, 1.0, 1.0];
            assert_eq!(bits(&cpu.run(Nan)), bits(&expected), "{}", cpu.level());
        }
    }

    #[test]
    fn detection_prefers_the_best() {
        assert_eq!(Cpu::detect().level(), levels()[0].level());
        assert!(Cpu::forced(Level::Scalar).is_some_and(|cpu| cpu.level() == "scalar"));
    }
}
