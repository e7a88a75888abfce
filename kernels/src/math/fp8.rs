//! Narrow number formats: e4m3 bytes, bf16 and power-of-two scales.

/// Largest finite e4m3 value.
pub const E4M3_MAX: f32 = 448.0;

/// Value of every e4m3fn byte: 1 sign, 4 exponent (bias 7) and 3 mantissa bits, no infinity, NaN at 0x7f and 0xff.
static E4M3: [f32; 256] = e4m3_values();

const fn e4m3_values() -> [f32; 256] {
    let mut values = [0.0; 256];
    let mut code = 0;
    while code < 256 {
        let (exponent, mantissa) = ((code >> 3) & 15, code & 7);
        let magnitude = if code & 127 == 127 {
            f32::NAN
        } else if exponent == 0 {
            mantissa as f32 / 512.0
        } else {
            f32::from_bits((((exponent + 120) << 23) | (mantissa << 20)) as u32)
        };
        values[code] = if code < 128 { magnitude } else { -magnitude };
        code += 1;
    }
    values
}

/// The value of an e4m3fn byte.
#[inline]
pub fn e4m3_decode(code: u8) -> f32 {
    E4M3[code as usize]
}

/// The e4m3fn byte nearest to `value`, ties to even; beyond 448 (infinity too) the largest magnitude, NaN to 0x7f.
#[inline]
pub fn e4m3_encode(value: f32) -> u8 {
    let bits = value.to_bits();
    let magnitude = bits & 0x7fff_ffff;
    // Below 2^-6 the step is 2^-9, which is the step of f32 at 2^14.
    let subnormal = (f32::from_bits(magnitude) + 16_384.0).to_bits().wrapping_sub(16_384f32.to_bits());
    // Otherwise round away 20 bits to even and move the exponent's bias from 127 to 7.
    let normal = (magnitude.wrapping_add(0x7_ffff + ((magnitude >> 20) & 1)) >> 20).wrapping_sub(120 << 3).min(0x7e);
    let code = if magnitude < 0x3c80_0000 { subnormal } else { normal };
    let code = code | (bits >> 31) << 7;
    if magnitude > 0x7f80_0000 { 0x7f } else { code as u8 }
}

/// [`e4m3_decode`] of each.
///
/// # Panics
/// If the lengths differ.
pub fn e4m3_decode_all(codes: &[u8], out: &mut [f32]) {
    assert_eq!(codes.len(), out.len(), "e4m3: lengths differ");
    for (out, &code) in out.iter_mut().zip(codes) {
        *out = e4m3_decode(code);
    }
}

/// [`e4m3_encode`] of each.
///
/// # Panics
/// If the lengths differ.
pub fn e4m3_encode_all(values: &[f32], out: &mut [u8]) {
    assert_eq!(values.len(), out.len(), "e4m3: lengths differ");
    for (out, &value) in out.iter_mut().zip(values) {
        *out = e4m3_encode(value);
    }
}

/// The bf16 nearest to `value`, ties to even, as its bits. NaN stays NaN.
#[inline]
pub fn bf16_encode(value: f32) -> u16 {
    let bits = value.to_bits();
    let rounded = bits.wrapping_add(0x7fff + ((bits >> 16) & 1)) >> 16;
    let quiet = (bits >> 16) | 0x40;
    (if bits & 0x7fff_ffff > 0x7f80_0000 { quiet } else { rounded }) as u16
}

/// The value of bf16 bits.
#[inline]
pub fn bf16_decode(bits: u16) -> f32 {
    f32::from_bits(u32::from(bits) << 16)
}

/// `value` rounded to bf16 and back.
#[inline]
pub fn bf16_round(value: f32) -> f32 {
    bf16_decode(bf16_encode(value))
}

/// [`bf16_encode`] of each.
///
/// # Panics
/// If the lengths differ.
pub fn bf16_encode_all(values: &[f32], out: &mut [u16]) {
    assert_eq!(values.len(), out.len(), "bf16: lengths differ");
    for (out, &value) in out.iter_mut().zip(values) {
        *out = bf16_encode(value);
    }
}

/// [`bf16_decode`] of each.
///
/// # Panics
/// If the lengths differ.
pub fn bf16_decode_all(bits: &[u16], out: &mut [f32]) {
    assert_eq!(bits.len(), out.len(), "bf16: lengths differ");
    for (out, &bits) in out.iter_mut().zip(bits) {
        *out = bf16_decode(bits);
    }
}

/// The smallest power of two not below `ratio` (usually `amax / 448`), as a ue8m0 byte: the exponent plus 127.
/// Nothing below 2^-127 (zero and negatives included), 2^127 for anything larger, 0xff for NaN.
#[inline]
pub fn ue8m0_scale_up(ratio: f32) -> u8 {
    if ratio.is_nan() {
        return 0xff;
    }
    // 2^-127 is the one power of two here that is subnormal as f32.
    if ratio <= f32::from_bits(0x0040_0000) {
        return 0;
    }
    let bits = ratio.to_bits();
    ((bits >> 23) + u32::from(bits & 0x7f_ffff != 0)).min(254) as u8
}

/// The value of a ue8m0 byte, `2^(byte - 127)`; 0xff is NaN.
#[inline]
pub fn ue8m0_decode(byte: u8) -> f32 {
    match byte {
        0 => f32::from_bits(0x0040_0000),
        0xff => f32::NAN,
        _ => f32::from_bits(u32::from(byte) << 23),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// The e4m3 byte of a finite magnitude, by trying all.
    fn nearest(magnitude: f64) -> u8 {
        (0..0x7f)
            .min_by(|&a, &b| {
                let distance = |code: u8| (f64::from(e4m3_decode(code)) - magnitude).abs();
                distance(a).total_cmp(&distance(b)).then((a & 1).cmp(&(b & 1)))
            })
            .expect("127 codes")
    }

    #[test]
    fn e4m3_values_are_the_format() {
        assert_eq!(e4m3_decode(0x00), 0.0);
        assert_eq!(e4m3_decode(0x01), 2f32.powi(-9));
        assert_eq!(e4m3_decode(0x08), 2f32.powi(-6));
        assert_eq!(e4m3_decode(0x38), 1.0);
        assert_eq!(e4m3_decode(0x7e), E4M3_MAX);
        assert_eq!(e4m3_decode(0xbc), -1.5);
        assert!(e4m3_decode(0x7f).is_nan() && e4m3_decode(0xff).is_nan());
        for code in 0..0x7eu8 {
            assert!(e4m3_decode(code) < e4m3_decode(code + 1));
            assert_eq!(e4m3_decode(code | 0x80), -e4m3_decode(code));
        }
        assert!(e4m3_decode(0x80).is_sign_negative());
    }

    #[test]
    fn every_e4m3_value_is_kept() {
        for code in 0..=0xffu8 {
            let again = e4m3_encode(e4m3_decode(code));
            assert_eq!(again, if code & 0x7f == 0x7f { 0x7f } else { code });
        }
    }

    #[test]
    fn every_boundary_rounds_to_even() {
        for code in 0..0x7eu8 {
            let (low, high) = (e4m3_decode(code), e4m3_decode(code + 1));
            // Exact: a value has four bits.
            let middle = (low + high) / 2.0;
            assert_eq!(e4m3_encode(middle), code + (code & 1), "between {low} and {high}");
            assert_eq!(e4m3_encode(middle.next_down()), code);
            assert_eq!(e4m3_encode(middle.next_up()), code + 1);
            assert_eq!(e4m3_encode(-middle.next_up()), (code + 1) | 0x80);
        }
    }

    #[test]
    fn e4m3_saturates() {
        for value in [448.0, 463.9, 464.0, 465.0, 1e30, f32::MAX, f32::INFINITY] {
            assert_eq!(e4m3_encode(value), 0x7e);
            assert_eq!(e4m3_encode(-value), 0xfe);
        }
        assert_eq!(e4m3_encode(f32::NAN), 0x7f);
        assert_eq!(e4m3_encode(-f32::NAN), 0x7f);
        assert_eq!(e4m3_encode(-0.0), 0x80);
        assert_eq!(e4m3_encode(f32::from_bits(1)), 0);
    }

    #[test]
    fn every_bf16_is_kept_and_every_boundary_rounds_to_even() {
        for bits in 0..=u16::MAX {
            let value = bf16_decode(bits);
            let again = bf16_encode(value);
            if value.is_nan() {
                assert!(bf16_decode(again).is_nan());
                continue;
            }
            assert_eq!(again, bits);
            assert_eq!(bf16_round(value).to_bits(), value.to_bits());
            let middle = (u32::from(bits) << 16) + 0x8000;
            assert_eq!(half::bf16::from_f32(f32::from_bits(middle)).to_bits(), bf16_encode(f32::from_bits(middle)));
            if value.is_finite() {
                assert_eq!(bf16_encode(f32::from_bits(middle - 1)), bits);
            }
        }
        assert!(bf16_round(f32::from_bits(0x7f80_0001)).is_nan());
        assert!(bf16_round(f32::from_bits(0xffff_ffff)).is_nan());
    }

    #[test]
    fn ue8m0_bytes_are_powers_of_two() {
        assert_eq!(ue8m0_decode(0), 2f32.powi(-127));
        assert!(ue8m0_decode(0xff).is_nan());
        for byte in 0..=254u8 {
            let value = ue8m0_decode(byte);
            assert_eq!(f64::from(value), 2f64.powi(i32::from(byte) - 127));
            assert_eq!(ue8m0_scale_up(value), byte);
            assert_eq!(ue8m0_scale_up(value.next_up()), (byte + 1).min(254));
            if byte > 0 {
                assert_eq!(ue8m0_scale_up(value.next_down()), byte);
            }
        }
        for (ratio, byte) in [(0.0, 0), (-3.0, 0), (f32::INFINITY, 254), (f32::NAN, 255), (f32::from_bits(1), 0)] {
            assert_eq!(ue8m0_scale_up(ratio), byte);
        }
    }

    #[test]
    fn slices_are_element_by_element() {
        let values: Vec<f32> = (0..1000).map(|i| (i as f32 - 500.0) * 1.37).collect();
        let mut codes = vec![0; 1000];
        e4m3_encode_all(&values, &mut codes);
        let mut decoded = vec![0.0; 1000];
        e4m3_decode_all(&codes, &mut decoded);
        let mut narrow = vec![0; 1000];
        bf16_encode_all(&values, &mut narrow);
        let mut wide = vec![0.0; 1000];
        bf16_decode_all(&narrow, &mut wide);
        for (i, &value) in values.iter().enumerate() {
            assert_eq!(codes[i], e4m3_encode(value));
            assert_eq!(decoded[i], e4m3_decode(codes[i]));
            assert_eq!(wide[i], bf16_round(value));
        }
    }

    proptest! {
        #[test]
        fn e4m3_is_the_nearest(bits in any::<u32>()) {
            let value = f32::from_bits(bits);
            prop_assume!(!value.is_nan());
            let sign = (bits >> 31 << 7) as u8;
            let magnitude = f64::from(value.abs()).min(448.0);
            prop_assert_eq!(e4m3_encode(value), nearest(magnitude) | sign);
        }

        #[test]
        fn e4m3_is_the_nearest_within_range(value in -500f32..500.0) {
            let sign = if value.is_sign_negative() { 0x80 } else { 0 };
            let magnitude = f64::from(value.abs()).min(448.0);
            prop_assert_eq!(e4m3_encode(value), nearest(magnitude) | sign);
        }

        #[test]
        fn bf16_agrees_with_half(bits in any::<u32>()) {
            let value = f32::from_bits(bits);
            prop_assert_eq!(bf16_encode(value), half::bf16::from_f32(value).to_bits());
        }

        #[test]
        fn a_scale_is_the_next_power_of_two(ratio in 1e-30f32..1e30) {
            let scale = ue8m0_decode(ue8m0_scale_up(ratio));
            prop_assert!(scale >= ratio && scale / 2.0 < ratio);
        }
    }
}
