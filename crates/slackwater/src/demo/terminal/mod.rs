//! The demo in a terminal: a table redrawn in place, or plain lines where nothing can be redrawn.
//!
//! [`Table`] hides the cursor while it exists. When it is dropped, however the demo ends, it clears
//! itself from the screen and restores the cursor, and the summary takes its place. Colours follow
//! `NO_COLOR`; no information is in colour alone. `frame` lays out a frame.

mod frame;

#[cfg(test)]
mod tests;

use super::picture::Picture;
use crate::terminal::words;
use core::fmt::Write as _;
use core::time::Duration;
use frame::{Size, frame};
use std::io::{self, IsTerminal, Write};
use terminal_size::{Height, Width, terminal_size_of};

const HIDE_CURSOR: &str = "\x1b[?25l";
const SHOW_CURSOR: &str = "\x1b[?25h";
const CLEAR_SCREEN: &str = "\x1b[2J\x1b[H";
const CLEAR_LINE_REST: &str = "\x1b[K";
const CLEAR_BELOW: &str = "\x1b[J";

/// The size of a terminal that does not report one.
const SIZE_DEFAULT: Size = Size {
    columns: 80,
    rows: 24,
};

/// Interval between two plain lines.
const LINE_EVERY: Duration = Duration::from_secs(2);

/// How the demo is shown while it runs.
#[derive(Debug)]
pub(super) enum Screen {
    /// A table that is redrawn in place.
    Table(Table),
    /// A line at intervals.
    Lines {
        /// When the next line is due, since the start of the run.
        due: Duration,
    },
    /// Nothing, because standard output is used for the figures.
    Blank,
}

impl Screen {
    /// Returns the table if it is wanted and standard output is a terminal that can move its
    /// cursor, otherwise lines.
    pub(super) fn table_or_lines(is_table_wanted: bool, page: String) -> Self {
        let is_dumb = std::env::var_os("TERM").is_some_and(|term| term == "dumb");
        if is_table_wanted && !is_dumb && io::stdout().is_terminal() {
            Self::Table(Table::new(page))
        } else {
            Self::Lines { due: LINE_EVERY }
        }
    }

    /// Shows the picture, if it is due.
    pub(super) fn show(&mut self, picture: &Picture) {
        match self {
            Self::Table(table) => table.draw(picture),
            Self::Lines { due } if picture.elapsed >= *due => {
                *due += LINE_EVERY;
                write_out(&format!("{}\n", plain_line(picture)));
            }
            Self::Lines { .. } | Self::Blank => {}
        }
    }
}

/// A live table on standard output.
#[derive(Debug)]
pub(super) struct Table {
    page: String,
    is_coloured: bool,
    /// Number of lines of the last frame, above the cursor.
    lines: usize,
    size: Size,
}

impl Table {
    /// Takes over the terminal; `page` is the page's address.
    fn new(page: String) -> Self {
        write_out(HIDE_CURSOR);
        Self {
            page,
            is_coloured: std::env::var_os("NO_COLOR").is_none_or(|value| value.is_empty()),
            lines: 0,
            size: size(),
        }
    }

    /// Replaces the last frame.
    fn draw(&mut self, picture: &Picture) {
        let size = size();
        let mut output = String::new();
        if self.lines > 0 && size != self.size {
            // The terminal has rewrapped the old lines, so their position is unknown.
            output.push_str(CLEAR_SCREEN);
        } else if self.lines > 0 {
            // Writing to a string cannot fail.
            let _ = write!(output, "\x1b[{}F", self.lines);
        }
        let lines = frame(picture, &self.page, size);
        for line in &lines {
            output.push_str(&line.render(size.columns, self.is_coloured));
            output.push_str(CLEAR_LINE_REST);
            output.push('\n');
        }
        output.push_str(CLEAR_BELOW);
        self.lines = lines.len();
        self.size = size;
        write_out(&output);
    }
}

impl Drop for Table {
    fn drop(&mut self) {
        let mut output = String::new();
        if self.lines > 0 {
            // Writing to a string cannot fail.
            let _ = write!(output, "\x1b[{}F{CLEAR_BELOW}", self.lines);
        }
        output.push_str(SHOW_CURSOR);
        write_out(&output);
    }
}

/// Returns the picture as one line of plain text.
pub(super) fn plain_line(picture: &Picture) -> String {
    let mut text = format!("{:>6}", words::clock(picture.elapsed));
    for (side, name) in picture.sides.iter().zip(picture.names()) {
        let ms = |quantile: fn(&super::picture::Quantiles) -> f64| {
            words::ms_if_any(side.recent.latency.as_ref().map(quantile))
        };
        // Writing to a string cannot fail.
        let _ = write!(
            text,
            "  {name}: p50 {}, p99 {}, p99.9 {}, {} errors;",
            ms(|q| q.p50_ms),
            ms(|q| q.p99_ms),
            ms(|q| q.p999_ms),
            words::count(side.errors)
        );
    }
    let slowed = picture.hobbled();
    let slowed = slowed.map_or("none".to_owned(), |index| index.to_string());
    let _ = write!(text, "  slowed: {slowed}");
    if let Some(troubles) = picture.troubles() {
        let _ = write!(text, "; {troubles}");
    }
    text
}

fn size() -> Size {
    terminal_size_of(io::stdout()).map_or(SIZE_DEFAULT, |(Width(columns), Height(rows))| Size {
        columns: columns.into(),
        rows: rows.into(),
    })
}

/// Writes to standard output and ignores errors: a terminal that is gone, or a closed pipe, is no
/// reason to stop.
fn write_out(text: &str) {
    let mut stdout = io::stdout().lock();
    let _ = stdout.write_all(text.as_bytes());
    let _ = stdout.flush();
}
