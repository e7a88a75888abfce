//! Numbers as people read them: grouped digits, few figures, a unit.

use std::fmt::{self, Display, Formatter, Write};

/// Text of a few bytes on the stack, so that a number can be padded without allocating.
struct Short {
    bytes: [u8; 40],
    length: usize,
}

impl Write for Short {
    fn write_str(&mut self, text: &str) -> fmt::Result {
        let end = self.length + text.len();
        self.bytes.get_mut(self.length..end).ok_or(fmt::Error)?.copy_from_slice(text.as_bytes());
        self.length = end;
        Ok(())
    }
}

impl Short {
    fn pad(arguments: fmt::Arguments<'_>, formatter: &mut Formatter<'_>) -> fmt::Result {
        let mut short = Self { bytes: [0; 40], length: 0 };
        short.write_fmt(arguments)?;
        formatter.pad(std::str::from_utf8(&short.bytes[..short.length]).map_err(|_| fmt::Error)?)
    }
}

/// A count with its thousands apart: `12,345`.
#[derive(Clone, Copy, Debug)]
pub struct Grouped(pub u64);

impl Display for Grouped {
    fn fmt(&self, formatter: &mut Formatter<'_>) -> fmt::Result {
        // 20 digits and 6 commas at most.
        let mut bytes = [b','; 26];
        let mut at = bytes.len();
        let mut rest = self.0;
        let mut digits = 0;
        loop {
            if digits > 0 && digits % 3 == 0 {
                at -= 1;
            }
            at -= 1;
            bytes[at] = b'0' + (rest % 10) as u8;
            rest /= 10;
            digits += 1;
            if rest == 0 {
                break;
            }
        }
        formatter.pad(std::str::from_utf8(&bytes[at..]).map_err(|_| fmt::Error)?)
    }
}

/// A share of one as a percentage with one decimal: `17.1%`.
#[derive(Clone, Copy, Debug)]
pub struct Percent(pub f64);

impl Display for Percent {
    fn fmt(&self, formatter: &mut Formatter<'_>) -> fmt::Result {
        if self.0.is_finite() {
            Short::pad(format_args!("{:.1}%", self.0 * 100.0), formatter)
        } else {
            formatter.pad("-")
        }
    }
}

/// A length of time with three figures and the unit that suits: `4.20 us`, `1.23 ms`.
#[derive(Clone, Copy, Debug)]
pub struct Nanoseconds(pub u64);

impl Display for Nanoseconds {
    fn fmt(&self, formatter: &mut Formatter<'_>) -> fmt::Result {
        let (divisor, unit) = match self.0 {
            0..1_000 => return Short::pad(format_args!("{} ns", self.0), formatter),
            1_000..1_000_000 => (1e3, "us"),
            1_000_000..1_000_000_000 => (1e6, "ms"),
            _ => (1e9, "s"),
        };
        let value = self.0 as f64 / divisor;
        let decimals = if value < 10.0 { 2 } else { usize::from(value < 100.0) };
        Short::pad(format_args!("{value:.decimals$} {unit}"), formatter)
    }
}

/// A target's clock in seconds with milliseconds: `12.345 s`.
#[derive(Clone, Copy, Debug)]
pub struct Seconds(pub u64);

impl Display for Seconds {
    fn fmt(&self, formatter: &mut Formatter<'_>) -> fmt::Result {
        let (seconds, milliseconds) = (self.0 / 1_000_000_000, self.0 / 1_000_000 % 1_000);
        Short::pad(format_args!("{seconds}.{milliseconds:03} s"), formatter)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_read_well() {
        assert_eq!(Grouped(0).to_string(), "0");
        assert_eq!(Grouped(999).to_string(), "999");
        assert_eq!(format!("{:>8}", Grouped(12_345)), "  12,345");
        assert_eq!(Grouped(u64::MAX).to_string(), "18,446,744,073,709,551,615");
        assert_eq!(Percent(0.1714).to_string(), "17.1%");
        assert_eq!(Percent(f64::NAN).to_string(), "-");
        assert_eq!(Nanoseconds(999).to_string(), "999 ns");
        assert_eq!(Nanoseconds(4_200).to_string(), "4.20 us");
        assert_eq!(Nanoseconds(123_400).to_string(), "123 us");
        assert_eq!(Nanoseconds(1_234_000).to_string(), "1.23 ms");
        assert_eq!(Nanoseconds(u64::MAX).to_string(), "18446744074 s");
        assert_eq!(Seconds(12_345_000_000).to_string(), "12.345 s");
    }
}
