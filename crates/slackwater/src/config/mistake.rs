//! What is wrong, or strange, in a configuration, and how it is told to people.
//!
//! In one line it is `file:line:column: field: message`, as compilers and editors know it; that is what logs take. The
//! alternate form (`{:#}`) adds the source line and a caret under the offending part.

use crate::fault::Fault;
use core::error::Error;
use core::fmt;
use std::path::PathBuf;

/// Where something was said.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Place {
    /// In a file, as a whole: it cannot be read, or something is missing from it.
    File(PathBuf),
    /// At a line of a file.
    Line {
        /// Which file.
        file: PathBuf,
        /// From 1.
        line: usize,
        /// From 1, in characters.
        column: usize,
        /// How many characters the offending part has on that line; at least 1.
        width: usize,
        /// The line, without its end.
        text: String,
    },
    /// In a flag of the command line, such as `--listen`.
    Flag(&'static str),
    /// On the command line, as a whole: something is missing from it.
    CommandLine,
}

impl fmt::Display for Place {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::File(file) => write!(f, "{}", file.display()),
            Self::Line {
                file, line, column, ..
            } => write!(f, "{}:{line}:{column}", file.display()),
            Self::Flag(flag) => f.write_str(flag),
            Self::CommandLine => f.write_str("command line"),
        }
    }
}

/// One thing that is wrong.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Mistake {
    /// Where.
    pub(crate) place: Place,
    /// Which key, with its section: `prequal.probe_rate`. Empty where no key is concerned.
    pub(crate) field: String,
    /// What is wrong, and what was expected; lower-case, no trailing stop.
    pub(crate) message: String,
}

impl fmt::Display for Mistake {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.write(f, "")
    }
}

impl Mistake {
    /// Writes it with `kind` ("warning: ") right before the message.
    fn write(&self, f: &mut fmt::Formatter<'_>, kind: &str) -> fmt::Result {
        write!(f, "{}: ", self.place)?;
        // A flag is its own field's name.
        if !self.field.is_empty() && !matches!(self.place, Place::Flag(_)) {
            write!(f, "{}: ", self.field)?;
        }
        write!(f, "{kind}{}", self.message)?;
        if f.alternate()
            && let Place::Line {
                line,
                column,
                width,
                text,
                ..
            } = &self.place
        {
            write_excerpt(f, *line, *column, *width, text)?;
        }
        Ok(())
    }
}

/// The source line with carets below the offending part; a very long line is cut to what surrounds it.
fn write_excerpt(
    f: &mut fmt::Formatter<'_>,
    line: usize,
    column: usize,
    width: usize,
    text: &str,
) -> fmt::Result {
    const BEFORE: usize = 60;
    const SHOWN: usize = 100;
    let skipped = column.saturating_sub(BEFORE + 1);
    let shown: String = text
        .chars()
        .skip(skipped)
        .take(SHOWN)
        .map(|c| if c.is_control() { ' ' } else { c })
        .collect();
    let indent = column - 1 - skipped;
    let carets = width.clamp(1, SHOWN.saturating_sub(indent).max(1));
    let number = line.to_string();
    let margin = " ".repeat(number.len());
    write!(f, "\n {number} | {}", shown.trim_end())?;
    write!(
        f,
        "\n {margin} | {}{}",
        " ".repeat(indent),
        "^".repeat(carets)
    )
}

/// Everything that is wrong with a configuration, with the source lines; never empty.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Mistakes(Vec<Mistake>);

impl Mistakes {
    pub(super) fn new(mut mistakes: Vec<Mistake>) -> Self {
        mistakes.sort();
        mistakes.dedup();
        Self(mistakes)
    }

    /// Each of them, in the order of the file.
    pub(crate) fn iter(&self) -> impl ExactSizeIterator<Item = &Mistake> {
        self.0.iter()
    }
}

impl fmt::Display for Mistakes {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (index, mistake) in self.0.iter().enumerate() {
            let gap = if index > 0 { "\n" } else { "" };
            write!(f, "{gap}{mistake:#}")?;
        }
        Ok(())
    }
}

impl Error for Mistakes {}

impl From<Mistakes> for Fault {
    fn from(mistakes: Mistakes) -> Self {
        let many = if mistakes.0.len() == 1 { "" } else { "s" };
        Self::usage(format!(
            "{} mistake{many} in the configuration:\n{mistakes}",
            mistakes.0.len()
        ))
    }
}

/// How much a [`Remark`] matters.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Severity {
    /// Good to know; follows from the defaults.
    Note,
    /// Something that was set does not do what it seems to, or is dangerous.
    Warning,
}

impl fmt::Display for Severity {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Note => "note",
            Self::Warning => "warning",
        })
    }
}

/// Something valid that is probably not meant.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Remark {
    /// How much it matters.
    pub(crate) severity: Severity,
    /// Where, which field, and what about it.
    pub(crate) about: Mistake,
}

impl fmt::Display for Remark {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.about.write(f, &format!("{}: ", self.severity))
    }
}
