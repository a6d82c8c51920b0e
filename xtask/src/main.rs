//! Slackwater's own chores, so that nobody needs another tool: `cargo xtask test` is what CI runs.

mod run;
mod tidy;

use std::io::Write;
use std::process::ExitCode;

const USAGE: &str = "\
cargo xtask CHORE

  test    everything that a change has to pass: format, tidy, lints, tests, documentation
  tidy    checks of the tree that no other tool does (seconds)
";

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let outcome = match arguments.iter().map(String::as_str).collect::<Vec<_>>()[..] {
        ["test"] => run::test(),
        ["tidy"] => tidy::check(),
        _ => Err(USAGE.to_owned()),
    };
    match outcome {
        Ok(()) => ExitCode::SUCCESS,
        Err(message) => {
            let _ = writeln!(std::io::stderr(), "{message}");
            ExitCode::FAILURE
        }
    }
}
