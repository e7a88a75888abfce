//! The `coalmine` program.

use std::process::ExitCode;

fn main() -> ExitCode {
    coalmine::cli::main()
}
