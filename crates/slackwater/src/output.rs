//! Text on standard output, for whoever reads it there.
//!
//! A reader that has seen enough (`slackwater check f | head -1`) closes the pipe, which is its choice and no failure. Any
//! other error is one: a full disk must not look like a success.

use crate::fault::Fault;
use std::io::{self, ErrorKind, Write};

/// Writes all of `text`, as it is.
///
/// # Errors
///
/// It cannot be written, for another reason than a closed pipe.
pub(crate) fn print(text: &str) -> Result<(), Fault> {
    let mut stdout = io::stdout().lock();
    let written = stdout
        .write_all(text.as_bytes())
        .and_then(|()| stdout.flush());
    match written {
        Err(error) if error.kind() != ErrorKind::BrokenPipe => Err(Fault::runtime(format!(
            "standard output cannot be written: {error}"
        ))),
        _ => Ok(()),
    }
}
