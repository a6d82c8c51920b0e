//! A line of the terminal: stretches of text, each with an ink, measured in columns before colours
//! are added.
//!
//! All characters that are written here are one column wide.

use core::fmt::Write as _;

/// The meaning of a stretch of text. The colour only repeats what the words say.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Ink {
    Plain,
    Strong,
    Faint,
    /// The first side.
    First,
    /// The second side.
    Second,
    /// A replica that is slowed, an error.
    Alarm,
}

impl Ink {
    /// The code of one of the sixteen colours that every terminal has in its own shades, readable
    /// on light and dark.
    fn code(self) -> &'static str {
        match self {
            Self::Plain => "",
            Self::Strong => "1",
            Self::Faint => "2",
            Self::First => "36",
            Self::Second => "35",
            Self::Alarm => "31",
        }
    }
}

/// A line without its end.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Line {
    stretches: Vec<(Ink, String)>,
    columns: usize,
}

impl Line {
    /// Adds text.
    pub(crate) fn with(mut self, ink: Ink, text: impl Into<String>) -> Self {
        let text = text.into();
        self.columns += text.chars().count();
        self.stretches.push((ink, text));
        self
    }

    /// Fills up with blanks to this column.
    pub(crate) fn padded_to(self, column: usize) -> Self {
        let blanks = column.saturating_sub(self.columns);
        self.with(Ink::Plain, " ".repeat(blanks))
    }

    /// Adds text that ends at this column. If there is not enough space, it ends later, after one
    /// blank.
    pub(crate) fn ending_at(self, column: usize, ink: Ink, text: impl Into<String>) -> Self {
        let text = text.into();
        let start = column.saturating_sub(text.chars().count());
        let start = if self.columns > 0 {
            start.max(self.columns + 1)
        } else {
            start
        };
        self.padded_to(start).with(ink, text)
    }

    /// The stretches of the line, from left to right.
    pub(crate) fn stretches(&self) -> &[(Ink, String)] {
        &self.stretches
    }

    /// The width in columns.
    pub(crate) fn columns(&self) -> usize {
        self.columns
    }

    /// Returns the line cut to `columns_max`, with escape sequences for colours if they are wanted.
    pub(crate) fn render(&self, columns_max: usize, is_coloured: bool) -> String {
        let mut rendered = String::new();
        let mut left = columns_max;
        for (ink, text) in &self.stretches {
            let shown: String = text.chars().take(left).collect();
            left -= shown.chars().count();
            let code = ink.code();
            if is_coloured && !code.is_empty() && !shown.is_empty() {
                // Writing to a string cannot fail.
                let _ = write!(rendered, "\x1b[{code}m{shown}\x1b[0m");
            } else {
                rendered.push_str(&shown);
            }
        }
        rendered.truncate(rendered.trim_end_matches(' ').len());
        rendered
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn text_is_placed_by_columns_and_cut_at_the_edge() {
        let line = Line::default()
            .with(Ink::Plain, "p99")
            .ending_at(12, Ink::First, "–142 ms")
            .ending_at(13, Ink::Plain, "late");
        assert_eq!(line.render(80, false), "p99  –142 ms late");
        assert_eq!(line.render(7, false), "p99  –1");
        assert_eq!(Line::default().padded_to(9).render(80, true), "");
    }

    #[test]
    fn colour_codes_surround_only_visible_text() {
        let line = Line::default()
            .with(Ink::Alarm, "abc")
            .with(Ink::Strong, "de");
        assert_eq!(line.render(3, true), "\x1b[31mabc\x1b[0m");
        assert_eq!(line.render(4, true), "\x1b[31mabc\x1b[0m\x1b[1md\x1b[0m");
    }
}
