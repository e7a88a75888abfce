//! A file of the thread's own for decoders that read files.

use std::{
    cell::LazyCell,
    fs,
    path::{Path, PathBuf},
    process,
    sync::atomic::{AtomicU32, Ordering},
};

/// A directory that is removed with its thread.
struct Scratch(PathBuf);

impl Drop for Scratch {
    fn drop(&mut self) {
        // What cannot be removed lies among other temporary files and harms nobody.
        let _ = fs::remove_dir_all(&self.0);
    }
}

thread_local! {
    static SCRATCH: LazyCell<Scratch> = LazyCell::new(|| {
        static COUNT: AtomicU32 = AtomicU32::new(0);
        let number = COUNT.fetch_add(1, Ordering::Relaxed);
        let path = std::env::temp_dir().join(format!("coalmine-hostile-{}-{number}", process::id()));
        fs::create_dir_all(&path).expect("there is room for temporary files");
        Scratch(path)
    });
}

/// Gives the thread's directory.
pub(super) fn with_directory<T>(use_it: impl FnOnce(&Path) -> T) -> T {
    SCRATCH.with(|scratch| use_it(&scratch.0))
}

/// Gives a file with these bytes.
pub(super) fn with_file<T>(name: &str, bytes: &[u8], use_it: impl FnOnce(&Path) -> T) -> T {
    with_directory(|directory| {
        let path = directory.join(name);
        fs::write(&path, bytes).expect("there is room for temporary files");
        use_it(&path)
    })
}
