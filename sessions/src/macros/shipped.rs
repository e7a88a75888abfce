//! The macros that come with the program.

use super::load::Source;

/// What the name of a shipped macro begins with, which no file's name is mistaken for.
pub const SHIPPED_PREFIX: &str = "coalmine:";

/// Name and text of every shipped macro.
pub const SHIPPED: [(&str, &str); 3] = [
    ("reproduce-incident.macro", include_str!("../../macros/reproduce-incident.macro")),
    ("prove-the-fix.macro", include_str!("../../macros/prove-the-fix.macro")),
    ("tour.macro", include_str!("../../macros/tour.macro")),
];

/// Finds a shipped macro: `coalmine:tour.macro` or `coalmine:tour`.
pub fn shipped(name: &str) -> Option<Source> {
    let name = name.strip_prefix(SHIPPED_PREFIX)?;
    let name = name.strip_suffix(".macro").unwrap_or(name);
    let (file, text) = SHIPPED.iter().find(|(known, _)| known.strip_suffix(".macro") == Some(name))?;
    Some(Source { name: format!("{SHIPPED_PREFIX}{file}"), text: (*text).to_owned() })
}
