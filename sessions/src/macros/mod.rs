//! Macros: text files of commands, one a line, each awaited.
//!
//! ```text
//! # Comments begin with a number sign at the start of a word.
//! wait CONDITION [200 steps | 10s]    until it holds, at most 2000 steps; seconds are the target's own
//! expect CONDITION                    now
//! step [N]                            so many steps
//! set NAME VALUE                      gives a toggle a value, by any of its names
//! toggle NAME                         gives it its next value
//! hold, run, pace N|max               of the target
//! mark NAME                           names this moment in the report
//! snapshot FILE                       of the screen
//! keys <C-u>gg                        as vim and helix write them; a space is <space>
//! play FILE                           another macro, in place
//! NAME [ARGUMENT...]                  a command of the console; "quote what has spaces"
//! ```
//!
//! A condition compares numbers that the panes show ([`QUANTITIES`]) with `<`, `<=`, `>`, `>=`, `==` and `!=`, or a
//! toggle with a value (`toggle overlap == off`), joined by `not`, `and`, `or` and parentheses.
//!
//! [`load`] reads a macro with everything that it plays, so that all that is wrong is said before anything
//! runs; [`Player`] carries it out against any target; [`MacroRecorder`] writes one. Nothing here reads files, tells
//! the time or knows a terminal.

mod chord;
mod condition;
mod condition_parser;
mod error;
mod line;
mod load;
mod parser;
mod player;
mod quantity;
mod recorder;
mod report;
mod shipped;
mod words;

#[cfg(test)]
mod tests;

pub use chord::{Chord, Key};
pub use condition::{Comparison, Condition, Evaluation, Operand, Seen};
pub use error::{MacroError, MacroErrors};
pub use line::{Bound, Line, Macro, MacroLine};
pub use load::{Source, load};
pub use parser::{ArgumentCheck, ArgumentProblem, KnownCommand, VERBS, any_arguments, parse};
pub use player::{ConsoleOutcome, Player, Request};
pub use quantity::{QUANTITIES, Quantity, QuantitySpec};
pub use recorder::MacroRecorder;
pub use report::{MacroReport, Outcome, Verdict};
pub use shipped::{SHIPPED, SHIPPED_PREFIX, shipped};
pub use words::word;

/// Bytes of a macro file.
pub const MACRO_BYTES: usize = 1 << 20;
/// Lines of a macro file, and of a macro with everything that it plays.
pub const MACRO_LINES: usize = 10_000;
/// Bytes of a line.
pub const LINE_BYTES: usize = 4_096;
/// How deep macros play macros.
pub const PLAY_DEPTH: usize = 8;
/// Steps that a macro may take in all.
pub const MACRO_STEPS: u64 = 1_000_000;
/// Steps after which a `wait` without a bound of its own has run out.
pub const WAIT_STEPS: u64 = 2_000;
/// Errors of a file that are told.
pub const ERRORS: usize = 1_000;
