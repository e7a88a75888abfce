//! The second-level cache: how much of each buffer is in it, and who pays for writing dirty bytes back.

use std::collections::HashMap;
use std::hash::{BuildHasherDefault, Hasher};

/// What touches moved, in bytes.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Traffic {
    /// Served or taken in by the cache.
    pub hit_bytes: f64,
    /// Fetched from memory.
    pub miss_bytes: f64,
    /// Dirty, displaced by what came in, and therefore written to memory first.
    pub write_back_bytes: f64,
}

impl Traffic {
    /// Adds another touch's traffic.
    pub fn add(&mut self, other: Self) {
        self.hit_bytes += other.hit_bytes;
        self.miss_bytes += other.miss_bytes;
        self.write_back_bytes += other.write_back_bytes;
    }

    /// Bytes that crossed the memory bus.
    pub fn memory_bytes(&self) -> f64 {
        self.miss_bytes + self.write_back_bytes
    }
}

/// Bytes of a buffer in the cache, in units of the cache's `scale`.
#[derive(Clone, Copy, Debug, Default)]
struct Entry {
    bytes: f64,
    dirty: f64,
}

/// A cache of buffers.
///
/// A buffer is an amount of bytes, not a set of lines. Every byte that comes in displaces one drawn evenly
/// from all that are there, as hashed sets do, so the chance of still being there falls smoothly with what
/// came in since, and whoever brings bytes in writes back the dirty share of what it displaces. (Strict
/// order of age would make one buffer's reader pay for all of another's dirty bytes, by an accident of
/// phase.) A write fetches nothing, since whole lines are written. A buffer larger than the cache streams:
/// reading it again hits nothing.
#[derive(Clone, Debug)]
pub struct L2Cache {
    capacity: f64,
    used: f64,
    dirty: f64,
    entries: HashMap<u64, Entry, BuildHasherDefault<KeyHasher>>,
    /// What an entry's unit is worth now: displacement shrinks all entries at once.
    scale: f64,
}

/// Below this the entries are brought back to a scale of 1.
const LEAST_SCALE: f64 = 1e-60;
/// Less than this share of the cache is as good as gone.
const NEGLIGIBLE: f64 = 1e-12;

impl L2Cache {
    /// An empty cache.
    pub fn new(capacity: u64) -> Self {
        Self { capacity: capacity as f64, used: 0.0, dirty: 0.0, entries: HashMap::default(), scale: 1.0 }
    }

    /// Forgets everything, dirty or not.
    pub fn clear(&mut self) {
        self.used = 0.0;
        self.dirty = 0.0;
        self.entries.clear();
        self.scale = 1.0;
    }

    /// Bytes in the cache.
    pub fn used(&self) -> f64 {
        self.used
    }

    /// Dirty bytes in the cache.
    pub fn dirty(&self) -> f64 {
        self.dirty
    }

    /// Bytes of a buffer in the cache.
    pub fn resident(&self, key: u64) -> f64 {
        self.entries.get(&key).map_or(0.0, |entry| entry.bytes * self.scale)
    }

    /// Reads or writes `bytes` of the buffer `key`, and says what that moved.
    pub fn touch(&mut self, key: u64, bytes: f64, write: bool) -> Traffic {
        if bytes <= 0.0 {
            return Traffic::default();
        }
        let (mut traffic, incoming) = self.visit(key, bytes, write);
        traffic.write_back_bytes = self.bring_in([(key, incoming, write), (key, 0.0, false)]);
        traffic
    }

    /// Copies `bytes` from one buffer to another: both come in side by side.
    pub fn copy(&mut self, from: u64, to: u64, bytes: f64) -> Traffic {
        if bytes <= 0.0 {
            return Traffic::default();
        }
        let (mut traffic, read) = self.visit(from, bytes, false);
        let (written, stored) = self.visit(to, bytes, true);
        traffic.add(written);
        traffic.write_back_bytes = self.bring_in([(from, read, false), (to, stored, true)]);
        traffic
    }

    /// Touches what is there; returns the traffic so far and the bytes that have to come in.
    fn visit(&mut self, key: u64, bytes: f64, write: bool) -> (Traffic, f64) {
        let entry = self.entries.entry(key).or_default();
        let resident = entry.bytes * self.scale;
        let hit = if bytes > self.capacity { 0.0 } else { resident.min(bytes) };
        if write {
            let was_dirty = entry.dirty * self.scale;
            let dirty = was_dirty.max(hit);
            entry.dirty = dirty / self.scale;
            self.dirty += dirty - was_dirty;
            (Traffic { hit_bytes: bytes, ..Traffic::default() }, bytes - hit)
        } else {
            let miss = bytes - hit;
            (Traffic { hit_bytes: hit, miss_bytes: miss, write_back_bytes: 0.0 }, miss)
        }
    }

    /// Brings bytes of two buffers in side by side; returns the dirty bytes displaced.
    fn bring_in(&mut self, parts: [(u64, f64, bool); 2]) -> f64 {
        let incoming: f64 = parts.iter().map(|part| part.1).sum();
        if incoming <= 0.0 {
            return 0.0;
        }
        let dirty_before = self.dirty;
        let dirtied: f64 = parts.iter().filter(|part| part.2).map(|part| part.1).sum();
        let free = (self.capacity - self.used).min(incoming).max(0.0);
        self.used += free;
        // Once full, a byte survives the arrival of another with probability 1 - 1/capacity.
        let displacing = incoming - free;
        let kept = if displacing > 0.0 { libm::exp(-displacing / self.capacity) } else { 1.0 };
        self.scale *= kept;
        let arrived = free * kept + self.capacity * (1.0 - kept);
        self.dirty = dirty_before * kept + arrived * dirtied / incoming;
        for (key, bytes, write) in parts {
            if bytes > 0.0 {
                let entry = self.entries.entry(key).or_default();
                let added = arrived * bytes / incoming / self.scale;
                entry.bytes += added;
                if write {
                    entry.dirty += added;
                }
            }
        }
        if self.scale < LEAST_SCALE {
            self.rescale();
        }
        (dirty_before + dirtied - self.dirty).max(0.0)
    }

    /// Brings the scale back to 1, and drops what is no longer there.
    fn rescale(&mut self) {
        let scale = std::mem::replace(&mut self.scale, 1.0);
        let least = NEGLIGIBLE * self.capacity;
        self.entries.retain(|_, entry| {
            entry.bytes *= scale;
            entry.dirty *= scale;
            entry.bytes >= least
        });
    }
}

/// Keys are chosen by the program, so one multiplication spreads them well enough.
#[derive(Clone, Copy, Debug, Default)]
struct KeyHasher(u64);

impl Hasher for KeyHasher {
    fn finish(&self) -> u64 {
        self.0
    }

    fn write(&mut self, bytes: &[u8]) {
        for &byte in bytes {
            self.write_u64(u64::from(byte));
        }
    }

    fn write_u64(&mut self, value: u64) {
        let product = (self.0 ^ value).wrapping_mul(0x9E37_79B9_7F4A_7C15);
        self.0 = product ^ product >> 32;
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn near(left: f64, right: f64) -> bool {
        (left - right).abs() < 1e-6 * (1.0 + right.abs())
    }

    #[test]
    fn the_second_read_hits() {
        let mut cache = L2Cache::new(100);
        let first = cache.touch(1, 60.0, false);
        assert_eq!((first.hit_bytes, first.miss_bytes), (0.0, 60.0));
        let second = cache.touch(1, 60.0, false);
        assert_eq!((second.hit_bytes, second.miss_bytes), (60.0, 0.0));
    }

    #[test]
    fn what_comes_in_displaces_what_is_there() {
        let mut cache = L2Cache::new(100);
        cache.touch(1, 60.0, false);
        cache.touch(2, 40.0, false);
        assert!(near(cache.resident(1), 60.0));
        cache.touch(3, 30.0, false);
        let kept = (-0.3_f64).exp();
        assert!(near(cache.resident(1), 60.0 * kept));
        assert!(near(cache.resident(2), 40.0 * kept));
        assert!(near(cache.resident(3), 100.0 * (1.0 - kept)));
        assert!(near(cache.used(), 100.0));
    }

    #[test]
    fn whoever_misses_pays_for_dirty_bytes() {
        let mut cache = L2Cache::new(100);
        assert_eq!(cache.touch(1, 80.0, true).write_back_bytes, 0.0);
        let paid = cache.touch(2, 40.0, false).write_back_bytes;
        assert!(near(paid, 80.0 * (1.0 - (-0.2_f64).exp())), "{paid}");
        assert!(near(cache.dirty(), 80.0 - paid));
    }

    #[test]
    fn a_hit_displaces_nothing() {
        let mut cache = L2Cache::new(100);
        cache.touch(1, 60.0, true);
        cache.touch(2, 40.0, false);
        assert_eq!(cache.touch(1, 60.0, true).memory_bytes(), 0.0);
        assert_eq!(cache.dirty(), 60.0);
    }

    #[test]
    fn a_scan_leaves_clean_bytes_and_a_clone_dirty_ones() {
        let mut scanned = L2Cache::new(100);
        scanned.touch(1, 50.0, true);
        scanned.touch(2, 400.0, false);
        assert!(scanned.dirty() < 2.0);
        let mut cloned = L2Cache::new(100);
        cloned.copy(2, 3, 400.0);
        assert!((45.0..50.5).contains(&cloned.dirty()));
        assert_eq!(cloned.touch(3, 400.0, false).hit_bytes, 0.0, "it streams");
    }

    #[test]
    fn buffers_long_gone_are_dropped() {
        let mut cache = L2Cache::new(100);
        for key in 0..10_000 {
            cache.touch(key, 35.0, key % 2 == 0);
        }
        assert!(cache.entries.len() < 1000);
        assert!(near(cache.used(), 100.0));
    }

    proptest! {
        #[test]
        fn bytes_are_conserved(
            touches in prop::collection::vec((0_u64..12, 0.0..150.0_f64, 0..3_u8), 1..300),
        ) {
            let mut cache = L2Cache::new(100);
            for (key, bytes, kind) in touches {
                let before = cache.dirty();
                let moved = match kind {
                    0 => cache.touch(key, bytes, false),
                    1 => cache.touch(key, bytes, true),
                    _ => cache.copy(key, key + 1, bytes),
                };
                let bytes_moved = if kind == 2 { 2.0 * bytes } else { bytes };
                prop_assert!(near(moved.hit_bytes + moved.miss_bytes, bytes_moved));
                prop_assert!(moved.write_back_bytes >= 0.0);
                prop_assert!(moved.write_back_bytes <= before + bytes + 1e-6);
                if kind == 0 {
                    prop_assert!(near(cache.dirty() + moved.write_back_bytes, before));
                }
                let total: f64 = cache.entries.values().map(|entry| entry.bytes * cache.scale).sum();
                let dirty: f64 = cache.entries.values().map(|entry| entry.dirty * cache.scale).sum();
                prop_assert!((total - cache.used()).abs() < 0.5, "{} {}", total, cache.used());
                prop_assert!((dirty - cache.dirty()).abs() < 0.5, "{} {}", dirty, cache.dirty());
                prop_assert!(cache.used() <= 100.0 + 1e-6);
                prop_assert!(cache.dirty() <= cache.used() + 1e-6);
                prop_assert!(cache.entries.values().all(|entry| entry.dirty <= entry.bytes * (1.0 + 1e-9)));
            }
        }
    }
}
