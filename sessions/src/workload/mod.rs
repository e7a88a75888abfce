//! The agent task that sessions run: facts, a request, a tool call whose last argument is one of the
//! facts and usually lies outside the model's sliding window, a tool result, the next request.
//!
//! It is the task on which the demo model was trained, so a clean engine answers every call right,
//! and every wrong call is the engine's doing.
//!
//! ```
//! use coalmine_sessions::workload::{Script, judge};
//!
//! let script = Script::new(7, 6);
//! let mut found = script.turns[0].expected.clone();
//! assert_eq!(judge(&script.turns[0].expected, &found), None);
//! found.pop();
//! assert_eq!(judge(&script.turns[0].expected, &found).map(|finding| finding.kind.name()), Some("malformed-call"));
//! ```

mod judge;
mod random;
mod schedule;
mod script;
mod vocabulary;

pub use judge::{Finding, MAX_CALL_TOKENS, judge};
pub use schedule::{ARRIVAL_STEPS, CALL_TOKENS, Schedule};
pub use script::{Script, Turn};
pub use vocabulary::{END_OF_SENTENCE, Vocabulary};
