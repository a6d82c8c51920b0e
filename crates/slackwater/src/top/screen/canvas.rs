//! A part of the terminal for drawing lines in inks. It fills from the top.
//!
//! Only the sixteen colours that every terminal has in its own shades are used. No information is
//! in colour alone; without colours, bold, faint and reversed remain.

use crate::terminal::line::{Ink, Line};
use ratatui::buffer::Buffer;
use ratatui::layout::Rect;
use ratatui::style::{Color, Modifier, Style};

/// The appearance of inks.
#[derive(Debug, Clone, Copy)]
pub(in super::super) struct Theme {
    pub(in super::super) is_coloured: bool,
}

impl Theme {
    fn style(self, ink: Ink) -> Style {
        let coloured = |colour| {
            if self.is_coloured {
                Style::new().fg(colour)
            } else {
                Style::new()
            }
        };
        match ink {
            Ink::Plain => Style::new(),
            Ink::Strong => Style::new().add_modifier(Modifier::BOLD),
            Ink::Faint => Style::new().add_modifier(Modifier::DIM),
            Ink::First => coloured(Color::Cyan),
            Ink::Second => coloured(Color::Magenta),
            Ink::Alarm => coloured(Color::Red),
        }
    }
}

/// A part of the terminal.
#[derive(Debug)]
pub(super) struct Canvas<'a> {
    buffer: &'a mut Buffer,
    /// The part that is still free.
    area: Rect,
    theme: Theme,
}

impl<'a> Canvas<'a> {
    pub(super) fn new(buffer: &'a mut Buffer, area: Rect, theme: Theme) -> Self {
        let area = area.intersection(buffer.area);
        Self {
            buffer,
            area,
            theme,
        }
    }

    /// The part that is still free.
    pub(super) fn area(&self) -> Rect {
        self.area
    }

    pub(super) fn width(&self) -> usize {
        self.area.width.into()
    }

    pub(super) fn height(&self) -> usize {
        self.area.height.into()
    }

    /// Draws the line at the top of the free part, and returns its position. Below the last row
    /// nothing is drawn.
    pub(super) fn line(&mut self, line: &Line) -> Rect {
        let row = Rect {
            height: self.area.height.min(1),
            ..self.area
        };
        let mut x = row.x;
        for (ink, text) in line.stretches() {
            if row.is_empty() {
                break;
            }
            let left = usize::from(row.right().saturating_sub(x));
            let style = self.theme.style(*ink);
            x = self.buffer.set_stringn(x, row.y, text, left, style).0;
        }
        self.area.y += row.height;
        self.area.height -= row.height;
        row
    }

    /// Draws a selected line: reversed over the whole width.
    pub(super) fn chosen_line(&mut self, line: &Line) -> Rect {
        let row = self.line(line);
        self.buffer
            .set_style(row, Style::new().add_modifier(Modifier::REVERSED));
        row
    }

    /// Takes this many rows from the bottom.
    pub(super) fn foot(&mut self, rows: usize) -> Canvas<'_> {
        let rows = u16::try_from(rows)
            .unwrap_or(u16::MAX)
            .min(self.area.height);
        self.area.height -= rows;
        let area = Rect {
            y: self.area.bottom(),
            height: rows,
            ..self.area
        };
        Canvas::new(self.buffer, area, self.theme)
    }

    /// Takes this many columns from the right.
    pub(super) fn right(&mut self, columns: usize) -> Canvas<'_> {
        let columns = u16::try_from(columns)
            .unwrap_or(u16::MAX)
            .min(self.area.width);
        self.area.width -= columns;
        let area = Rect {
            x: self.area.right(),
            width: columns,
            ..self.area
        };
        Canvas::new(self.buffer, area, self.theme)
    }

    /// Returns a cleared and framed window in the middle, with this many columns and rows.
    pub(super) fn window(&mut self, columns: usize, rows: usize) -> Canvas<'_> {
        let size = |length: usize, most: u16| u16::try_from(length).unwrap_or(u16::MAX).min(most);
        let width = size(columns + 4, self.area.width);
        let height = size(rows + 2, self.area.height);
        let outer = Rect {
            x: self.area.x + (self.area.width - width) / 2,
            y: self.area.y + (self.area.height - height) / 2,
            width,
            height,
        };
        let inside = usize::from(width.saturating_sub(2));
        let edge = |left: char, middle: &str, right: char| {
            let text = format!("{left}{}{right}", middle.repeat(inside));
            Line::default().with(Ink::Plain, text)
        };
        let mut canvas = Canvas::new(self.buffer, outer, self.theme);
        canvas.line(&edge('┌', "─", '┐'));
        for _ in 2..height {
            canvas.line(&edge('│', " ", '│'));
        }
        canvas.line(&edge('└', "─", '┘'));
        let inner = Rect {
            x: outer.x + outer.width.min(2),
            y: outer.y + outer.height.min(1),
            width: outer.width.saturating_sub(4),
            height: outer.height.saturating_sub(2),
        };
        Canvas::new(self.buffer, inner, self.theme)
    }
}
