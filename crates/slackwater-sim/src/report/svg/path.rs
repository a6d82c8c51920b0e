//! The `d` of an SVG path, built stroke by stroke.
//!
//! Coordinates are tenths of a pixel.

use crate::number::Px;
use core::fmt::{self, Write};

/// A path.
#[derive(Debug, Default)]
pub(super) struct Path(String);

impl Path {
    /// Starts a new line at this point.
    pub(super) fn move_to(&mut self, (x, y): (f64, f64)) -> &mut Self {
        self.push(format_args!("M{} {}", Px(x), Px(y)))
    }

    /// Draws a straight line to this point.
    pub(super) fn line_to(&mut self, (x, y): (f64, f64)) -> &mut Self {
        self.push(format_args!("L{} {}", Px(x), Px(y)))
    }

    /// Draws back to where the line started.
    pub(super) fn close(&mut self) -> &mut Self {
        self.push(format_args!("Z"))
    }

    fn push(&mut self, stroke: fmt::Arguments<'_>) -> &mut Self {
        // Writing to a string cannot fail.
        let _ = self.0.write_fmt(stroke);
        self
    }
}

impl fmt::Display for Path {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}
