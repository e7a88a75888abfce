//! The switches of an engine, under the names that servers use.

use std::borrow::Cow;

use serde::{Deserialize, Serialize};

use crate::Sanitized;

/// A switch.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub enum ToggleName {
    /// Run the attention branches of a captured step on several lanes.
    Overlap,
    /// Decode without a captured graph.
    Eager,
    /// Format of the index keys.
    IndexK,
    /// Format of the KV rows.
    KvRows,
    /// What padded rows do.
    Padding,
    /// Which canary watches the pools.
    Canary,
    /// Whether every node is traced.
    Tracing,
    /// Extra delay on the main lane before W, ns.
    NudgeMain,
    /// Extra delay on the indexer lane before R, ns.
    NudgeIndexer,
}

/// When a change of a toggle is felt.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TakesEffect {
    /// At the next step boundary.
    NextStep,
    /// After the running sessions have drained and the pools were rebuilt.
    AfterDrain,
}

impl TakesEffect {
    /// In words.
    pub fn describe(self) -> &'static str {
        match self {
            Self::NextStep => "at the next step",
            Self::AfterDrain => "after running sessions drain and the pools are rebuilt",
        }
    }
}

/// A toggle's value: one of the toggle's listed words, or a number of nanoseconds.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum ToggleValue {
    /// Index into the toggle's list of values.
    Choice(u8),
    /// Nanoseconds.
    Nanoseconds(u32),
}

/// What a toggle is and takes.
#[derive(Clone, Copy, Debug)]
pub struct ToggleSpec {
    /// Which.
    pub name: ToggleName,
    /// The name that panes and `--set` use first.
    pub long: &'static str,
    /// Other names that `--set` takes.
    pub aliases: &'static [&'static str],
    /// The listed values; empty when it takes nanoseconds.
    pub values: &'static [&'static str],
    /// Value at start.
    pub default: ToggleValue,
    /// One sentence.
    pub doc: &'static str,
    /// When a change is felt.
    pub takes_effect: TakesEffect,
}

/// Largest nudge, ns.
pub const LARGEST_NUDGE_NS: u32 = 1_000_000;

const fn choice(index: u8) -> ToggleValue {
    ToggleValue::Choice(index)
}

/// Every toggle.
pub const TOGGLES: [ToggleSpec; 9] = [
    ToggleSpec {
        name: ToggleName::Overlap,
        long: "SGLANG_OPT_USE_MULTI_STREAM_OVERLAP",
        aliases: &["overlap"],
        values: &["0", "1"],
        default: choice(1),
        doc: "Runs kv, compressor and indexer of each layer on lanes of their own in a captured step.",
        takes_effect: TakesEffect::NextStep,
    },
    ToggleSpec {
        name: ToggleName::Eager,
        long: "eager",
        aliases: &["disable-cuda-graph", "--disable-cuda-graph"],
        values: &["0", "1"],
        default: choice(0),
        doc: "Launches every operator of a decode step from the host instead of replaying a captured graph.",
        takes_effect: TakesEffect::NextStep,
    },
    ToggleSpec {
        name: ToggleName::IndexK,
        long: "index-k",
        aliases: &[],
        values: &["bf16", "fp8", "f32"],
        default: choice(0),
        doc: "Format of the index keys: bf16 reads through transients of the graph's pool, fp8 through persistent buffers, f32 is for verification.",
        takes_effect: TakesEffect::AfterDrain,
    },
    ToggleSpec {
        name: ToggleName::KvRows,
        long: "kv-rows",
        aliases: &[],
        values: &["fp8", "f32"],
        default: choice(0),
        doc: "Format of the KV rows: fp8 with bf16 rotary values and one scale byte per 64, or f32 for verification.",
        takes_effect: TakesEffect::AfterDrain,
    },
    ToggleSpec {
        name: ToggleName::Padding,
        long: "padding",
        aliases: &[],
        values: &["sentinel", "skip", "scatter"],
        default: choice(0),
        doc: "What padded rows do: write to the reserved slot 0, write nothing, or keep the stale slots of the step before.",
        takes_effect: TakesEffect::NextStep,
    },
    ToggleSpec {
        name: ToggleName::Canary,
        long: "canary",
        aliases: &[],
        values: &["off", "hash", "clone"],
        default: choice(1),
        doc: "Which canary watches the pools: none, page hashes, or the synchronous clone-and-compare of the incident.",
        takes_effect: TakesEffect::NextStep,
    },
    ToggleSpec {
        name: ToggleName::Tracing,
        long: "tracing",
        aliases: &[],
        values: &["0", "1"],
        default: choice(0),
        doc: "Traces every node as a profiler does, at the profiler's price per node.",
        takes_effect: TakesEffect::NextStep,
    },
    ToggleSpec {
        name: ToggleName::NudgeMain,
        long: "nudge-main",
        aliases: &[],
        values: &[],
        default: ToggleValue::Nanoseconds(0),
        doc: "Delays the main lane before W (the q projection of a ratio-4 layer) by so many nanoseconds.",
        takes_effect: TakesEffect::NextStep,
    },
    ToggleSpec {
        name: ToggleName::NudgeIndexer,
        long: "nudge-indexer",
        aliases: &[],
        values: &[],
        default: ToggleValue::Nanoseconds(0),
        doc: "Delays the indexer lane before R (the top-k of a ratio-4 layer) by so many nanoseconds.",
        takes_effect: TakesEffect::NextStep,
    },
];

impl ToggleName {
    /// All names, in the order of [`TOGGLES`].
    pub fn all() -> impl Iterator<Item = Self> {
        TOGGLES.iter().map(|spec| spec.name)
    }

    /// What this toggle is and takes.
    pub fn spec(self) -> &'static ToggleSpec {
        // `TOGGLES` lists the names in the order of their declaration, as a test checks.
        &TOGGLES[self as usize]
    }

    /// Finds a toggle by its long name or an alias; upper and lower case differ.
    pub fn parse(text: &str) -> Result<Self, ToggleError> {
        TOGGLES.iter().find(|spec| spec.long == text || spec.aliases.contains(&text)).map(|spec| spec.name).ok_or_else(
            || ToggleError::UnknownName {
                found: Sanitized::new(text),
                nearest: nearest(text, TOGGLES.iter().flat_map(|spec| spec.aliases.iter().copied().chain([spec.long]))),
            },
        )
    }
}

impl ToggleSpec {
    /// The shortest of its names.
    pub fn short(&self) -> &'static str {
        self.aliases.iter().copied().chain([self.long]).min_by_key(|name| name.len()).unwrap_or(self.long)
    }

    /// Reads a value: one of the listed words, or a number of nanoseconds such as `3us`, `3000ns` or `3000`.
    pub fn parse_value(&self, text: &str) -> Result<ToggleValue, ToggleError> {
        if self.values.is_empty() {
            return parse_nanoseconds(text)
                .map(ToggleValue::Nanoseconds)
                .ok_or_else(|| ToggleError::NotADuration { toggle: self.long, found: Sanitized::new(text) });
        }
        (0_u8..)
            .zip(self.values)
            .find(|(_, value)| **value == text)
            .map(|(index, _)| ToggleValue::Choice(index))
            .ok_or_else(|| ToggleError::UnknownValue {
                toggle: self.long,
                found: Sanitized::new(text),
                values: self.values,
                nearest: nearest(text, self.values.iter().copied()),
            })
    }

    /// The value in words, as [`ToggleSpec::parse_value`] reads it. A value that this toggle cannot
    /// take, as a hostile peer may send, shows as `?`.
    pub fn show(&self, value: ToggleValue) -> Cow<'static, str> {
        match value {
            ToggleValue::Choice(index) => self.values.get(usize::from(index)).copied().unwrap_or("?").into(),
            ToggleValue::Nanoseconds(0) => "0".into(),
            ToggleValue::Nanoseconds(count) if count % 1_000 == 0 => format!("{}us", count / 1_000).into(),
            ToggleValue::Nanoseconds(count) => format!("{count}ns").into(),
        }
    }

    /// Whether this toggle can take the value.
    pub fn accepts(&self, value: ToggleValue) -> bool {
        match value {
            ToggleValue::Choice(index) => usize::from(index) < self.values.len(),
            ToggleValue::Nanoseconds(count) => self.values.is_empty() && count <= LARGEST_NUDGE_NS,
        }
    }
}

fn parse_nanoseconds(text: &str) -> Option<u32> {
    let (digits, scale) = match text.strip_suffix("us") {
        Some(digits) => (digits, 1_000),
        None => (text.strip_suffix("ns").unwrap_or(text), 1),
    };
    // `u32::from_str` would take a leading plus sign.
    if !digits.bytes().all(|byte| byte.is_ascii_digit()) {
        return None;
    }
    let count = digits.parse::<u32>().ok()?.checked_mul(scale)?;
    (count <= LARGEST_NUDGE_NS).then_some(count)
}

/// The candidate that `text` was most likely meant to be, if any is close.
pub fn nearest<'a>(text: &str, candidates: impl Iterator<Item = &'a str>) -> Option<&'a str> {
    // Edit distance takes time in the product of the lengths, and nothing so long is a slip of the finger.
    if text.len() > 64 {
        return None;
    }
    let text = text.to_lowercase();
    candidates
        .map(|candidate| (strsim::damerau_levenshtein(&text, &candidate.to_lowercase()), candidate))
        .min_by_key(|(distance, _)| *distance)
        .filter(|(distance, candidate)| *distance <= 1 + candidate.len() / 4)
        .map(|(_, candidate)| candidate)
}

/// A toggle and the value it is to have.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ToggleAssignment {
    /// Which toggle.
    pub name: ToggleName,
    /// Its value.
    pub value: ToggleValue,
}

impl ToggleAssignment {
    /// Reads `NAME=VALUE`.
    ///
    /// ```
    /// use coalmine_sessions::{ToggleAssignment, ToggleName, ToggleValue};
    ///
    /// let assignment = ToggleAssignment::parse("nudge-main=3us")?;
    /// assert_eq!(assignment.name, ToggleName::NudgeMain);
    /// assert_eq!(assignment.value, ToggleValue::Nanoseconds(3_000));
    ///
    /// let error = ToggleAssignment::parse("overlapp=0").unwrap_err().to_string();
    /// assert!(error.contains("did you mean `overlap`?"));
    /// # Ok::<(), coalmine_sessions::ToggleError>(())
    /// ```
    pub fn parse(text: &str) -> Result<Self, ToggleError> {
        let (name, value) =
            text.split_once('=').ok_or_else(|| ToggleError::NotAnAssignment { found: Sanitized::new(text) })?;
        let name = ToggleName::parse(name)?;
        Ok(Self { name, value: name.spec().parse_value(value)? })
    }
}

/// Why a toggle could not be set.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ToggleError {
    /// The text is not of the form `NAME=VALUE`.
    #[error("`{found}` does not set a toggle: write NAME=VALUE, for example `overlap=0`.")]
    NotAnAssignment {
        /// The text.
        found: Sanitized,
    },
    /// No toggle has this name.
    #[error("There is no toggle `{found}`{}. The toggles are {}.", suggestion(*.nearest), names())]
    UnknownName {
        /// The name asked for.
        found: Sanitized,
        /// The known name most like it.
        nearest: Option<&'static str>,
    },
    /// The toggle does not list this value.
    #[error("The toggle `{toggle}` does not take `{found}`{}. Give it one of {}.", suggestion(*.nearest), .values.join(", "))]
    UnknownValue {
        /// The toggle.
        toggle: &'static str,
        /// The value asked for.
        found: Sanitized,
        /// The values it takes.
        values: &'static [&'static str],
        /// The value most like it.
        nearest: Option<&'static str>,
    },
    /// The toggle takes nanoseconds and this is no number of them, or too large a one.
    #[error("The toggle `{toggle}` does not take `{found}`. Give it a time from 0 to {}us, for example `3us`, `3000ns` or `3000`.", LARGEST_NUDGE_NS / 1_000)]
    NotADuration {
        /// The toggle.
        toggle: &'static str,
        /// The value asked for.
        found: Sanitized,
    },
    /// A value of the wrong kind or out of range, as only a program can ask for.
    #[error("The toggle `{toggle}` does not take the value {value:?}. Give it {}.", expectation(.values))]
    Unacceptable {
        /// The toggle.
        toggle: &'static str,
        /// The value asked for.
        value: ToggleValue,
        /// The values it takes; empty when it takes nanoseconds.
        values: &'static [&'static str],
    },
}

pub(crate) fn suggestion(nearest: Option<&str>) -> String {
    nearest.map_or_else(String::new, |nearest| format!(" (did you mean `{nearest}`?)"))
}

fn expectation(values: &[&str]) -> String {
    match values {
        [] => format!("from 0 to {LARGEST_NUDGE_NS} nanoseconds"),
        values => format!("one of {}", values.join(", ")),
    }
}

fn names() -> String {
    let name = |spec: &ToggleSpec| match spec.aliases {
        [] => spec.long.to_owned(),
        aliases => format!("{} (or {})", spec.long, aliases.join(", ")),
    };
    TOGGLES.iter().map(name).collect::<Vec<_>>().join(", ")
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn the_table_is_in_the_order_of_the_names_and_its_defaults_are_acceptable() {
        for (index, spec) in TOGGLES.iter().enumerate() {
            assert_eq!(spec.name as usize, index);
            assert_eq!(spec.name.spec().long, spec.long);
            assert!(spec.accepts(spec.default));
        }
    }

    #[test]
    fn every_name_alias_and_value_is_read_back() {
        for spec in &TOGGLES {
            for name in spec.aliases.iter().chain([&spec.long]) {
                assert_eq!(ToggleName::parse(name), Ok(spec.name));
            }
            for value in spec.values {
                let parsed = spec.parse_value(value).unwrap();
                assert!(spec.accepts(parsed));
                assert_eq!(spec.show(parsed), *value);
            }
        }
    }

    #[test]
    fn errors_name_the_thing_and_what_to_do() {
        let error = |text: &str| ToggleAssignment::parse(text).unwrap_err().to_string();
        assert_eq!(error("overlap"), "`overlap` does not set a toggle: write NAME=VALUE, for example `overlap=0`.");
        assert!(error("SGLANG_OPT_USE_MULTISTREAM_OVERLAP=0").starts_with(
            "There is no toggle `SGLANG_OPT_USE_MULTISTREAM_OVERLAP` (did you mean `SGLANG_OPT_USE_MULTI_STREAM_OVERLAP`?). The toggles are SGLANG_"
        ));
        assert!(error("Canary=off").contains("(did you mean `canary`?)"));
        assert!(error("zzz=1").starts_with("There is no toggle `zzz`. The toggles are "));
        assert_eq!(
            error("index-k=fp16"),
            "The toggle `index-k` does not take `fp16` (did you mean `bf16`?). Give it one of bf16, fp8, f32."
        );
        assert_eq!(
            error("nudge-main=2ms"),
            "The toggle `nudge-main` does not take `2ms`. Give it a time from 0 to 1000us, for example `3us`, `3000ns` or `3000`."
        );
    }

    #[test]
    fn times_out_of_range_are_refused() {
        let spec = ToggleName::NudgeMain.spec();
        for text in ["", "us", "ns", "-1", "+1", "1.5us", "1001us", "1000001", "99999999999", "4294968us", "3 us"] {
            assert!(spec.parse_value(text).is_err(), "{text}");
        }
    }

    proptest! {
        #[test]
        fn a_shown_time_is_read_back(count in 0..=LARGEST_NUDGE_NS) {
            let spec = ToggleName::NudgeMain.spec();
            let value = ToggleValue::Nanoseconds(count);
            prop_assert_eq!(spec.parse_value(&spec.show(value)), Ok(value));
        }

        #[test]
        fn any_assignment_is_answered(text in any::<String>()) {
            let _ = ToggleAssignment::parse(&text);
        }
    }
}
