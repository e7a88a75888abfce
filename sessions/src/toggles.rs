//! The value of every toggle, in the types that an engine works with.

use crate::{TOGGLES, ToggleError, ToggleName, ToggleValue};

/// The value of every toggle.
///
/// ```
/// use coalmine_sessions::{ToggleName, ToggleValue, Toggles};
///
/// let mut toggles = Toggles::default();
/// assert!(toggles.overlap());
/// toggles.set(ToggleName::Overlap, ToggleValue::Choice(0))?;
/// assert!(!toggles.overlap());
/// # Ok::<(), coalmine_sessions::ToggleError>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Toggles {
    /// In the order of [`TOGGLES`]; each is one that its toggle accepts.
    values: [ToggleValue; TOGGLES.len()],
}

/// Format of the index keys.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum IndexK {
    /// Read through transients of the graph's pool.
    Bf16,
    /// Read through persistent buffers.
    Fp8,
    /// For verification.
    F32,
}

/// Format of the KV rows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum KvRows {
    /// With bf16 rotary values and one scale byte per 64.
    Fp8,
    /// For verification.
    F32,
}

/// What padded rows do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Padding {
    /// Write to the reserved slot 0.
    Sentinel,
    /// Write nothing.
    Skip,
    /// Keep the stale slots of the step before.
    Scatter,
}

/// Which canary watches the pools.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CanaryMode {
    /// None.
    Off,
    /// Page hashes.
    Hash,
    /// The synchronous clone-and-compare of the incident.
    Clone,
}

impl Default for Toggles {
    fn default() -> Self {
        Self { values: TOGGLES.map(|spec| spec.default) }
    }
}

impl Toggles {
    /// The value of one toggle.
    pub fn get(&self, name: ToggleName) -> ToggleValue {
        self.values[name as usize]
    }

    /// Gives a toggle a value, if it takes that value.
    pub fn set(&mut self, name: ToggleName, value: ToggleValue) -> Result<(), ToggleError> {
        let spec = name.spec();
        if !spec.accepts(value) {
            return Err(ToggleError::Unacceptable { toggle: spec.long, value, values: spec.values });
        }
        self.values[name as usize] = value;
        Ok(())
    }

    /// Every toggle with its value, in the order of [`TOGGLES`].
    pub fn iter(&self) -> impl Iterator<Item = (ToggleName, ToggleValue)> {
        ToggleName::all().zip(self.values)
    }

    /// Whether a captured step runs on several lanes.
    pub fn overlap(&self) -> bool {
        self.choice(ToggleName::Overlap) == 1
    }

    /// Whether steps are decoded without a captured graph.
    pub fn eager(&self) -> bool {
        self.choice(ToggleName::Eager) == 1
    }

    /// Format of the index keys.
    pub fn index_k(&self) -> IndexK {
        match self.choice(ToggleName::IndexK) {
            0 => IndexK::Bf16,
            1 => IndexK::Fp8,
            _ => IndexK::F32,
        }
    }

    /// Format of the KV rows.
    pub fn kv_rows(&self) -> KvRows {
        match self.choice(ToggleName::KvRows) {
            0 => KvRows::Fp8,
            _ => KvRows::F32,
        }
    }

    /// What padded rows do.
    pub fn padding(&self) -> Padding {
        match self.choice(ToggleName::Padding) {
            0 => Padding::Sentinel,
            1 => Padding::Skip,
            _ => Padding::Scatter,
        }
    }

    /// Which canary watches the pools.
    pub fn canary(&self) -> CanaryMode {
        match self.choice(ToggleName::Canary) {
            0 => CanaryMode::Off,
            1 => CanaryMode::Hash,
            _ => CanaryMode::Clone,
        }
    }

    /// Whether every node is traced.
    pub fn tracing(&self) -> bool {
        self.choice(ToggleName::Tracing) == 1
    }

    /// Extra delay on the main lane before W, ns.
    pub fn nudge_main_ns(&self) -> u32 {
        self.nanoseconds(ToggleName::NudgeMain)
    }

    /// Extra delay on the indexer lane before R, ns.
    pub fn nudge_indexer_ns(&self) -> u32 {
        self.nanoseconds(ToggleName::NudgeIndexer)
    }

    fn choice(&self, name: ToggleName) -> u8 {
        match self.get(name) {
            ToggleValue::Choice(index) => index,
            ToggleValue::Nanoseconds(_) => {
                unreachable!("`set` keeps times out of toggles with listed values")
            }
        }
    }

    fn nanoseconds(&self, name: ToggleName) -> u32 {
        match self.get(name) {
            ToggleValue::Nanoseconds(count) => count,
            ToggleValue::Choice(_) => {
                unreachable!("`set` keeps choices out of toggles that take times")
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ToggleAssignment;

    #[test]
    fn the_words_mean_what_they_say() {
        let with = |text: &str| {
            let mut toggles = Toggles::default();
            let assignment = ToggleAssignment::parse(text).unwrap();
            toggles.set(assignment.name, assignment.value).unwrap();
            toggles
        };
        assert!(!with("SGLANG_OPT_USE_MULTI_STREAM_OVERLAP=0").overlap());
        assert!(with("--disable-cuda-graph=1").eager());
        assert!(with("tracing=1").tracing());
        assert_eq!(
            ["bf16", "fp8", "f32"].map(|v| with(&format!("index-k={v}")).index_k()),
            [IndexK::Bf16, IndexK::Fp8, IndexK::F32]
        );
        assert_eq!(["fp8", "f32"].map(|v| with(&format!("kv-rows={v}")).kv_rows()), [KvRows::Fp8, KvRows::F32]);
        assert_eq!(
            ["sentinel", "skip", "scatter"].map(|v| with(&format!("padding={v}")).padding()),
            [Padding::Sentinel, Padding::Skip, Padding::Scatter]
        );
        assert_eq!(
            ["off", "hash", "clone"].map(|v| with(&format!("canary={v}")).canary()),
            [CanaryMode::Off, CanaryMode::Hash, CanaryMode::Clone]
        );
        assert_eq!(with("nudge-main=3us").nudge_main_ns(), 3_000);
        assert_eq!(with("nudge-indexer=3500ns").nudge_indexer_ns(), 3_500);
    }

    #[test]
    fn a_value_of_another_toggle_is_refused() {
        assert_eq!(
            Toggles::default().set(ToggleName::Eager, ToggleValue::Choice(7)).unwrap_err().to_string(),
            "The toggle `eager` does not take the value Choice(7). Give it one of 0, 1."
        );
    }
}
