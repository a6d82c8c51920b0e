//! What is wrong with a file of certificates or keys: which file, which line, and why.

use core::fmt;
use std::path::{Path, PathBuf};

/// A file that cannot be used. The message says what was wrong and what to do, in lower case and
/// without a full stop. It never contains anything from the file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Flaw {
    file: PathBuf,
    /// The line of the block in question, from 1; `None` for the whole file.
    line: Option<usize>,
    message: String,
}

impl Flaw {
    /// A flaw of a whole file.
    pub fn of_file(file: &Path, message: impl Into<String>) -> Self {
        Self {
            file: file.to_owned(),
            line: None,
            message: message.into(),
        }
    }

    pub(super) fn of_block(file: &Path, line: usize, message: impl Into<String>) -> Self {
        Self {
            line: Some(line),
            ..Self::of_file(file, message)
        }
    }
}

impl Flaw {
    /// Whether the flaw is in this file.
    pub fn is_of(&self, file: &Path) -> bool {
        self.file == file
    }
}

impl fmt::Display for Flaw {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: ", self.file.display())?;
        if let Some(line) = self.line {
            write!(f, "the block at line {line} ")?;
        }
        f.write_str(&self.message)
    }
}
