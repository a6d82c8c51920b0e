//! Mistakes and remarks about a configuration, and how they are shown to people.
//!
//! The one-line form, for logs, is `file:line:column: field: message`, like that of compilers. The
//! alternate form (`{:#}`) adds the source line and a caret under the offending part.

use crate::fault::Fault;
use core::error::Error;
use core::fmt;
use std::path::PathBuf;

/// Where a value was set.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Place {
    /// In a file as a whole: the file cannot be read, or something is missing.
    File(PathBuf),
    /// At a line of a file.
    Line {
        /// The file.
        file: PathBuf,
        /// Line, from 1.
        line: usize,
        /// Column, from 1, in characters.
        column: usize,
        /// Width of the offending part on that line, in characters; at least 1.
        width: usize,
        /// The part of the line to show.
        excerpt: Box<Excerpt>,
    },
    /// In a flag of the command line, such as `--listen`.
    Flag(&'static str),
    /// In a setting that was changed at run time.
    Override,
    /// In the policy that the control plane chooses.
    ControlPlane,
    /// On the command line as a whole: something is missing.
    CommandLine,
    /// In an environment variable.
    Variable(&'static str),
}

/// A line without its line break, or the surroundings of the offending part if the line is very
/// long.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Excerpt {
    pub text: String,
    /// Number of characters before the offending part.
    indent: usize,
}

impl Excerpt {
    /// The most characters before the offending part, and in total.
    const BEFORE: usize = 60;
    const SHOWN: usize = 100;

    /// Cuts an excerpt from `line`. The offending part begins at byte `at`, which must be a
    /// character boundary.
    pub fn new(line: &str, at: usize) -> Self {
        let (before, rest) = line.split_at_checked(at).unwrap_or((line, ""));
        let kept: Vec<_> = before.chars().rev().take(Self::BEFORE).collect();
        let shown = (kept.iter().rev().copied()).chain(rest.chars().take(Self::SHOWN - kept.len()));
        Self {
            // A tab or a control character would move the caret.
            text: shown
                .map(|c| if c.is_control() { ' ' } else { c })
                .collect(),
            indent: kept.len(),
        }
    }

    fn write(&self, f: &mut fmt::Formatter<'_>, line: usize, width: usize) -> fmt::Result {
        let number = line.to_string();
        let margin = " ".repeat(number.len());
        let carets = "^".repeat(width.clamp(1, Self::SHOWN - self.indent));
        write!(f, "\n {number} | {}", self.text.trim_end())?;
        write!(f, "\n {margin} | {}{carets}", " ".repeat(self.indent))
    }
}

impl fmt::Display for Place {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::File(file) => write!(f, "{}", file.display()),
            Self::Line {
                file, line, column, ..
            } => write!(f, "{}:{line}:{column}", file.display()),
            Self::Flag(flag) => f.write_str(flag),
            Self::Override => f.write_str("override"),
            Self::ControlPlane => f.write_str("control plane"),
            Self::CommandLine => f.write_str("command line"),
            Self::Variable(name) => f.write_str(name),
        }
    }
}

/// A mistake.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Mistake {
    /// Where it is.
    pub place: Place,
    /// The key with its section: `prequal.probe_rate`. Empty if the mistake is about no key.
    pub field: String,
    /// What is wrong and what was expected; lower case, without a full stop.
    pub message: String,
}

impl fmt::Display for Mistake {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.write(f, "")
    }
}

impl Mistake {
    /// Formats the mistake with `kind` ("warning: ") right before the message.
    fn write(&self, f: &mut fmt::Formatter<'_>, kind: &str) -> fmt::Result {
        write!(f, "{}: ", self.place)?;
        // A flag's name is already shown as the place.
        if !self.field.is_empty() && !matches!(self.place, Place::Flag(_)) {
            write!(f, "{}: ", self.field)?;
        }
        write!(f, "{kind}{}", self.message)?;
        if f.alternate()
            && let Place::Line {
                line,
                width,
                excerpt,
                ..
            } = &self.place
        {
            excerpt.write(f, *line, *width)?;
        }
        Ok(())
    }
}

/// The most mistakes that are listed.
const SHOWN_MAX: usize = 100;

/// Everything that is wrong with a configuration, with the source lines; never empty.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Mistakes {
    /// Mistakes in the order of the file.
    first: Vec<Mistake>,
    /// Number of further mistakes.
    omitted: usize,
}

impl Mistakes {
    /// Sorts the mistakes by place.
    pub fn new(mut mistakes: Vec<Mistake>) -> Self {
        mistakes.sort();
        mistakes.dedup();
        let omitted = mistakes.len().saturating_sub(SHOWN_MAX);
        mistakes.truncate(SHOWN_MAX);
        Self {
            first: mistakes,
            omitted,
        }
    }

    /// The error with which a command ends that could not use `what`.
    pub fn fault_in(&self, what: &str) -> Fault {
        self.fault(what, &self.to_string())
    }

    /// Like [`fault_in`](Self::fault_in), without source lines: for logs and pages that others may
    /// read, because a line may contain a secret.
    pub fn fault_without_source(&self, what: &str) -> Fault {
        self.fault(what, &self.listed(self.lines()))
    }

    /// These texts of the mistakes, and how many more there are.
    fn listed(&self, mut texts: Vec<String>) -> String {
        if self.omitted > 0 {
            texts.push(format!("and {} more", self.omitted));
        }
        texts.join("\n")
    }

    fn fault(&self, what: &str, told: &str) -> Fault {
        let count = self.count();
        let plural = if count == 1 { "" } else { "s" };
        Fault::usage(format!("{count} mistake{plural} in the {what}:\n{told}"))
    }

    /// The first mistake and the number of further ones, without source lines: for the log.
    pub fn in_a_line(&self) -> String {
        let first = self.first.first();
        let first = first.map_or_else(String::new, ToString::to_string);
        match self.count() {
            0 | 1 => first,
            count => format!("{first} (and {} more)", count - 1),
        }
    }

    /// Each listed mistake as one line.
    pub fn lines(&self) -> Vec<String> {
        self.first.iter().map(ToString::to_string).collect()
    }

    /// The first mistake.
    pub(crate) fn first(&self) -> Option<&Mistake> {
        self.first.first()
    }

    /// Total number of mistakes.
    pub fn count(&self) -> usize {
        self.first.len() + self.omitted
    }
}

impl fmt::Display for Mistakes {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let texts = self.first.iter().map(|mistake| format!("{mistake:#}"));
        f.write_str(&self.listed(texts.collect()))
    }
}

impl Error for Mistakes {}

impl From<Mistakes> for Fault {
    fn from(mistakes: Mistakes) -> Self {
        mistakes.fault_in("configuration")
    }
}

/// How much a [`Remark`] matters.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Severity {
    /// Good to know; it follows from the defaults.
    Note,
    /// A setting does not have the effect it seems to have, or is dangerous.
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
pub struct Remark {
    /// The severity.
    pub severity: Severity,
    /// Where, which field, and the remark itself.
    pub about: Mistake,
}

impl fmt::Display for Remark {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.about.write(f, &format!("{}: ", self.severity))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shown(line: &str, at: usize, width: usize) -> String {
        struct Shown(Excerpt, usize);
        impl fmt::Display for Shown {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                self.0.write(f, 7, self.1)
            }
        }
        Shown(Excerpt::new(line, at), width).to_string()
    }

    #[test]
    fn the_caret_stands_below_the_offending_part() {
        assert_eq!(shown("a = 1", 4, 1), "\n 7 | a = 1\n   |     ^");
        assert_eq!(shown("\tñ = 12", 6, 2), "\n 7 |  ñ = 12\n   |      ^^");
        assert_eq!(shown("", 0, 1), "\n 7 | \n   | ^");
    }

    #[test]
    fn long_line_is_shown_only_around_the_mistake() {
        let line = format!("{}X{}", "a".repeat(5000), "b".repeat(5000));
        let text = shown(&line, 5000, 9000);
        let lines: Vec<_> = text.lines().skip(1).collect();
        assert_eq!(lines[0].len(), " 7 | ".len() + 100);
        assert_eq!(lines[0].find('X'), lines[1].find('^'));
        assert_eq!(lines[0].len(), lines[1].len());
    }
}
