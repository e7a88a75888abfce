//! Random changes of inputs, the same for the same name.

/// Bytes of a mutated input at most.
const LONGEST: usize = 256 << 10;
/// Words and numbers that decoders may trip over.
const WORDS: &[&[u8]] = &[
    b"18446744073709551615",
    b"18446744073709551616",
    b"9223372036854775808",
    b"4294967295",
    b"4294967296",
    b"65535",
    b"-1",
    b"0",
    b"1e999",
    b"null",
    b"[]",
    b"{}",
    b"\"\"",
    b"true",
    b"\\u001b[2J",
    b"\xe2\x80\xae",
    b"\xcc\x81",
    b"\xff\xfe",
    b"\xc3",
    b"\x00",
    b"\n",
    b"\"",
    b"(",
    b"[",
    b"{",
];

/// SplitMix64.
pub(crate) struct Random(u64);

impl Random {
    pub(crate) fn new(name: &str) -> Self {
        Self(
            name.bytes()
                .fold(0xcbf2_9ce4_8422_2325, |hash, byte| (hash ^ u64::from(byte)).wrapping_mul(0x100_0000_01b3)),
        )
    }

    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.0;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    }

    /// A number below `limit`, or 0 if there is none.
    pub(crate) fn below(&mut self, limit: usize) -> usize {
        (self.next() % limit.max(1) as u64) as usize
    }

    fn pick<'a, T: ?Sized>(&mut self, from: &[&'a T]) -> &'a T {
        from[self.below(from.len())]
    }
}

/// One of the seeds with a few changes.
pub(crate) fn mutated(seeds: &[Vec<u8>], random: &mut Random) -> Vec<u8> {
    let mut input = seeds[random.below(seeds.len())].clone();
    for _ in 0..=random.below(4) {
        change(&mut input, seeds, random);
    }
    input.truncate(LONGEST);
    input
}

fn change(input: &mut Vec<u8>, seeds: &[Vec<u8>], random: &mut Random) {
    let length = input.len();
    let at = random.below(length);
    // Mostly a few bytes, now and then many.
    let span = if random.below(4) == 0 { random.below(length - at) } else { random.below(16.min(length - at)) };
    match random.below(12) {
        0 if length > 0 => input[at] ^= 1 << random.below(8),
        1 if length > 0 => input[at] = random.next() as u8,
        2 => input.truncate(at),
        3 => drop(input.drain(at..at + span)),
        4 => {
            let piece = input[at..at + span].to_vec();
            let to = random.below(length);
            input.splice(to..to, piece);
        }
        5 => {
            let other = &seeds[random.below(seeds.len())];
            let from = random.below(other.len());
            let piece = &other[from..from + random.below(other.len() - from)];
            input.splice(at..at + span, piece.iter().copied());
        }
        6 => {
            let piece = input[at..at + span.min(64)].repeat(1 + random.below(512));
            input.splice(at..at, piece);
        }
        7 => drop(input.splice(at..at, random.pick(WORDS).iter().copied())),
        8 => {
            // A number, where there is one, becomes another.
            if let Some(start) = input[at..].iter().position(u8::is_ascii_digit).map(|found| at + found) {
                let digits = input[start..].iter().take_while(|byte| byte.is_ascii_digit()).count();
                input.splice(start..start + digits, random.pick(WORDS).iter().copied());
            }
        }
        9 if length >= at + 8 => {
            // A length in binary.
            let absurd = [u64::MAX, u64::MAX - 8, 1 << 62, 1 << 32, 1 << 31, 64 << 20, 0, length as u64];
            let width = [2, 4, 8][random.below(3)];
            input[at..at + width].copy_from_slice(&absurd[random.below(absurd.len())].to_le_bytes()[..width]);
        }
        10 => {
            let piece = random.pick(WORDS).repeat(1 + random.below(4_096));
            input.splice(at..at, piece);
        }
        _ => {
            // A line as a whole comes again somewhere else.
            let lines: Vec<&[u8]> = input.split_inclusive(|byte| *byte == b'\n').collect();
            let line = lines.get(random.below(lines.len())).map_or_else(Vec::new, |line| line.to_vec());
            let to = lines[..random.below(lines.len())].iter().map(|line| line.len()).sum::<usize>();
            input.splice(to..to, line);
        }
    }
}
