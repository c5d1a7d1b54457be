//! Parse, run, exit code: everything else is in the library.

use std::process::ExitCode;

fn main() -> ExitCode {
    ExitCode::from(dormouse::cli::main(std::env::args_os()))
}
