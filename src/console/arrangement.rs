//! How a person left the panes, remembered for the next time with the same target.

use std::{
    fs::File,
    io::{self, Read},
    path::Path,
};

use coalmine_panes::PaneId;
use serde::{Deserialize, Serialize};

use super::layout::Shape;

/// Bytes of a file that are looked at; it holds a few numbers.
const LONGEST: u64 = 4_096;

/// How the panes stand.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Arrangement {
    /// How large they are.
    pub shape: Shape,
    /// Which has the keys.
    pub focus: PaneId,
    /// Whether it has the screen to itself; that is for the moment, and not stored.
    pub zoomed: bool,
}

#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Stored {
    focus: String,
    shape: Shape,
}

impl Arrangement {
    /// Reads what was stored; nothing if there is no such file, or it does not say how panes stand: then they stand as
    /// they do at first.
    pub fn load(path: &Path) -> Option<Self> {
        let mut text = String::new();
        File::open(path).ok()?.take(LONGEST).read_to_string(&mut text).ok()?;
        let stored: Stored = toml::from_str(&text).ok()?;
        Some(Self { shape: stored.shape, focus: PaneId::named(&stored.focus)?, zoomed: false })
    }

    /// Stores it.
    ///
    /// # Errors
    /// When the file cannot be written.
    pub fn store(self, path: &Path) -> io::Result<()> {
        let stored = Stored { focus: self.focus.name().to_owned(), shape: self.shape };
        let text = toml::to_string(&stored).map_err(io::Error::other)?;
        if let Some(directory) = path.parent() {
            std::fs::create_dir_all(directory)?;
        }
        std::fs::write(path, text)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_stored_is_read_and_anything_else_is_not() {
        let directory = std::env::temp_dir().join(format!("coalmine-arrangement-{}", std::process::id()));
        let path = directory.join("deep/one.toml");
        let shape = Shape { left: -4, log: 2, ..Shape::default() };
        let arrangement = Arrangement { shape, focus: PaneId::Canary, zoomed: false };
        arrangement.store(&path).unwrap();
        assert_eq!(Arrangement::load(&path), Some(arrangement));
        for wrong in ["", "focus = 3", "focus = \"nowhere\"\n[shape]", "\u{0}"] {
            std::fs::write(&path, wrong).unwrap();
            assert_eq!(Arrangement::load(&path), None, "{wrong:?}");
        }
        assert_eq!(Arrangement::load(&directory), None);
        std::fs::remove_dir_all(&directory).unwrap();
    }
}
