//! Where Coalmine keeps what: configuration, recordings, macros, how the panes were left.

use std::path::{Path, PathBuf};

use etcetera::{BaseStrategy, choose_base_strategy};

/// The directories of one user, as the XDG base directory specification (or the platform's own) places them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Paths {
    /// The configuration file, which need not exist.
    pub config: PathBuf,
    /// Recordings that were given no name.
    pub recordings: PathBuf,
    /// The macro that `Q` records.
    pub recorded_macro: PathBuf,
    /// How the panes were left, a file a target.
    pub arrangements: PathBuf,
}

impl Paths {
    /// The directories of whoever runs this process; below the working directory when there is no home.
    pub fn of_user() -> Self {
        let here = PathBuf::from(".coalmine");
        let Ok(base) = choose_base_strategy() else {
            return Self::below(&here, &here, &here);
        };
        let data = base.data_dir();
        let state = base.state_dir().unwrap_or_else(|| data.clone());
        Self::below(&base.config_dir().join("coalmine"), &data.join("coalmine"), &state.join("coalmine"))
    }

    fn below(config: &Path, data: &Path, state: &Path) -> Self {
        Self {
            config: config.join("config.toml"),
            recordings: data.join("recordings"),
            recorded_macro: state.join("recorded.macro"),
            arrangements: state.join("panes"),
        }
    }

    /// Where the arrangement of the panes for a target is kept. Targets are named by whatever opened them, so the file
    /// is named by a hash.
    pub fn arrangement(&self, target: &str) -> PathBuf {
        self.arrangements.join(format!("{:016x}.toml", xxhash_rust::xxh3::xxh3_64(target.as_bytes())))
    }
}

/// The file that a person means who writes `~/` for the home directory.
pub(crate) fn expand_home(text: &str) -> PathBuf {
    match (text.strip_prefix("~/"), etcetera::home_dir()) {
        (Some(rest), Ok(home)) => home.join(rest),
        _ => PathBuf::from(text),
    }
}
