//! A file of the thread's own for decoders that read files.

use std::{cell::LazyCell, fs, path::Path};

use tempfile::{TempDir, tempdir};

thread_local! {
    /// Removed with its thread.
    static SCRATCH: LazyCell<TempDir> = LazyCell::new(|| tempdir().expect("there is room for temporary files"));
}

/// Gives the thread's directory.
pub(super) fn with_directory<T>(use_it: impl FnOnce(&Path) -> T) -> T {
    SCRATCH.with(|scratch| use_it(scratch.path()))
}

/// Gives a file with these bytes.
pub(super) fn with_file<T>(name: &str, bytes: &[u8], use_it: impl FnOnce(&Path) -> T) -> T {
    with_directory(|directory| {
        let path = directory.join(name);
        fs::write(&path, bytes).expect("there is room for temporary files");
        use_it(&path)
    })
}
