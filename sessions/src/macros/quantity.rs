//! The numbers that conditions compare, under the names that panes and reports use.

use std::fmt;

use super::error::quoted;
use crate::summary::median;
use crate::toggle::nearest;
use crate::{FlagKind, SessionPhase, State, Totals};

/// Prefix of what is counted since the last toggle change.
const SINCE_TOGGLE: &str = "since_toggle.";

/// A number of a state.
#[derive(Debug)]
pub struct QuantitySpec {
    /// Its name.
    pub name: &'static str,
    /// What it is.
    pub doc: &'static str,
    /// How it is read.
    value: Value,
}

#[derive(Debug)]
enum Value {
    /// A fact of now.
    Now(fn(&State) -> u64),
    /// Counted since the start, or since the last toggle change.
    Count(fn(&Totals) -> u64),
    /// As `Count`, and not always known.
    Number(fn(&Totals) -> Option<f64>),
}

const fn now(name: &'static str, doc: &'static str, value: fn(&State) -> u64) -> QuantitySpec {
    QuantitySpec { name, doc, value: Value::Now(value) }
}

const fn count(name: &'static str, doc: &'static str, value: fn(&Totals) -> u64) -> QuantitySpec {
    QuantitySpec { name, doc, value: Value::Count(value) }
}

const fn number(name: &'static str, doc: &'static str, value: fn(&Totals) -> Option<f64>) -> QuantitySpec {
    QuantitySpec { name, doc, value: Value::Number(value) }
}

fn flags(totals: &Totals, kind: FlagKind) -> u64 {
    totals.flags.get(&kind).copied().unwrap_or_default()
}

/// Every number that a condition can name. All but the facts of now also exist as `since_toggle.NAME`.
pub static QUANTITIES: [QuantitySpec; 27] = [
    now("step", "Number of the last decode step.", |state| state.steps.back().map_or(0, |step| step.step)),
    now("running", "Sessions that have a place and are not done.", |state| {
        let idle = |phase| matches!(phase, SessionPhase::Waiting | SessionPhase::Finished);
        state.sessions.values().filter(|session| !idle(session.phase)).count() as u64
    }),
    now("hazards", "Hazards of captured graphs.", |state| state.hazards.len() as u64),
    now("dropped", "Telemetry events lost.", |state| state.dropped),
    now("refused", "Things said beyond a limit and not kept.", |state| state.refused),
    count("steps", "Decode steps.", |totals| totals.steps),
    count("tokens", "Tokens decoded.", |totals| totals.tokens),
    count("sessions", "Sessions that have arrived; since a toggle: that made a call.", |totals| totals.sessions),
    count("finished", "Sessions that have had all their turns.", |totals| totals.finished),
    count("corrupted", "Sessions whose first wrong call came.", |totals| totals.corrupted),
    count("corrupted_before", "Sessions that were corrupt before counting began.", |totals| totals.corrupted_before),
    count("carried_over", "Of `corrupted`, those damaged before counting began.", |totals| totals.carried_over),
    number("corruption_rate", "Corrupt sessions among those at risk, from 0 to 1.", |totals| {
        Some(totals.corruption_rate().value)
    }),
    count("diverged_sessions", "Sessions with a row that diverged.", |totals| totals.diverged_sessions),
    count("diverged_rows", "Rows that diverged.", |totals| totals.diverged_rows),
    count("hit_steps", "Steps with a row that diverged.", |totals| totals.hit_steps),
    number("rows_per_hit_step", "Median of the diverged rows of a hit step.", |totals| {
        median(&totals.rows_per_hit_step)
    }),
    count("slots_hit", "Batch slots that diverged at least once.", |totals| totals.slots_hit.len() as u64),
    count("slots_seen", "Largest batch.", |totals| u64::from(totals.slots_seen)),
    count("witnesses", "Races that the virtual GPU recorded.", |totals| totals.witnesses),
    count("witness_steps", "Steps with such a race.", |totals| totals.witness_steps),
    count("diverged_without_witness", "Steps that diverged without one.", |totals| totals.diverged_without_witness),
    count("canary_hits", "Pages that changed undeclared.", |totals| totals.canary_hits),
    count("pages_checked", "Pages that the canary checked.", |totals| totals.pages_checked),
    count("calls", "Tool calls made.", |totals| totals.calls),
    count("flags.wrong-argument", "Calls with a wrong argument.", |totals| flags(totals, FlagKind::WrongArgument)),
    count("flags.malformed-call", "Calls that do not parse.", |totals| flags(totals, FlagKind::MalformedCall)),
];

/// A number of a state: since the start, or since the last toggle change.
#[derive(Clone, Copy, Debug)]
pub struct Quantity {
    /// Which number.
    pub spec: &'static QuantitySpec,
    /// Whether it counts since the last toggle change only.
    pub since_toggle: bool,
}

impl PartialEq for Quantity {
    fn eq(&self, other: &Self) -> bool {
        (self.spec.name, self.since_toggle) == (other.spec.name, other.since_toggle)
    }
}

impl Quantity {
    /// Finds a number by its name; otherwise says what is wrong with the name.
    pub fn parse(text: &str) -> Result<Self, String> {
        let (since_toggle, name) = match text.strip_prefix(SINCE_TOGGLE) {
            Some(name) => (true, name),
            None => (false, text),
        };
        let spec = QUANTITIES.iter().find(|spec| spec.name == name).ok_or_else(|| {
            let names = || QUANTITIES.iter().map(|spec| spec.name);
            let prefix = if since_toggle { SINCE_TOGGLE } else { "" };
            match nearest(name, names()) {
                Some(near) => format!("There is no number {} (did you mean `{prefix}{near}`?).", quoted(text)),
                None => {
                    let names = names().collect::<Vec<_>>().join(", ");
                    format!("There is no number {}. The numbers are {names}.", quoted(text))
                }
            }
        })?;
        if since_toggle && matches!(spec.value, Value::Now(_)) {
            return Err(format!("`{name}` is a fact of now, not a count: it has no `{SINCE_TOGGLE}{name}`."));
        }
        Ok(Self { spec, since_toggle })
    }

    /// Its value; `None` while there is none, as for a median of nothing.
    pub fn value(self, state: &State) -> Option<f64> {
        let totals = if self.since_toggle { &state.since_toggle } else { &state.totals };
        match self.spec.value {
            Value::Now(value) => Some(value(state) as f64),
            Value::Count(value) => Some(value(totals) as f64),
            Value::Number(value) => value(totals),
        }
    }
}

impl fmt::Display for Quantity {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}{}", if self.since_toggle { SINCE_TOGGLE } else { "" }, self.spec.name)
    }
}
