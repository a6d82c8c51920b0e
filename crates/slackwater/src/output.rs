//! Text on standard output, and text from other machines.
//!
//! A reader that has read enough (`slackwater check f | head -1`) closes the pipe, which is no
//! failure. Any other error is one: a full disk must not look like a success.

use slackwater_config::Fault;
use std::io::{self, ErrorKind, Write};

/// Writes all of `text` unchanged.
///
/// # Errors
///
/// It cannot be written, for a reason other than a closed pipe.
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

/// Returns the text without the characters that control a terminal, because it comes from another
/// machine.
pub(crate) fn clean(text: &str) -> String {
    let printable = |character: char| {
        if character.is_control() {
            '\u{fffd}'
        } else {
            character
        }
    };
    text.chars().map(printable).collect()
}

/// Returns the error of a sub-command that cannot connect to an admin server.
pub(crate) fn cannot_connect(authority: &str, error: &io::Error) -> Fault {
    let error = clean(&error.to_string());
    Fault::runtime(format!(
        "cannot connect to {authority}: {error}; start slackwater there, or pass its admin.listen as --admin"
    ))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn control_characters_are_replaced() {
        assert_eq!(
            clean("a\u{1b}[2Jb\n\u{9b}c"),
            "a\u{fffd}[2Jb\u{fffd}\u{fffd}c"
        );
    }
}
