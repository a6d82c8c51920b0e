//! What a pick compared, as a plain-text table with a column for each factor of the comparison.

use super::decision::{Compared, Known, Tried};
use core::fmt::{self, Write};
use slackwater_core::policy::{Factor, Unit};

/// Number of candidates that are shown; the chosen one is always among them.
const ROWS: usize = 8;
/// Left margin of the table.
const MARGIN: &str = "     ";

/// Writes the formula of the comparison, and a row for each candidate, best first.
pub(super) fn write_columns(to: &mut String, attempt: &Tried) -> fmt::Result {
    let Some(Compared(comparison)) = attempt.comparison else {
        return Ok(());
    };
    write!(to, "{MARGIN}{}", comparison.formula)?;
    for (factor, value) in attempt.shared.iter() {
        write!(to, "; {} {}", factor.name, figure(factor, value))?;
    }
    if let Some(draw) = attempt.draw {
        write!(to, "; draw {draw:.6}")?;
    }
    writeln!(to)?;
    if comparison.factors.is_empty() {
        return Ok(());
    }
    let mut rows = vec![head(comparison.factors)];
    rows.extend(shown(&attempt.candidates).map(row));
    let widths: Vec<_> = (0..rows[0].len())
        .map(|column| rows.iter().map(|row| row[column].chars().count()).max())
        .map(Option::unwrap_or_default)
        .collect();
    for row in &rows {
        let mut line = format!("{MARGIN}{:<1$}", row[0], widths[0]);
        for (cell, width) in row.iter().zip(&widths).skip(1) {
            write!(line, "  {cell:>width$}")?;
        }
        writeln!(to, "{}", line.trim_end())?;
    }
    let more = (attempt.considered as usize).saturating_sub(rows.len() - 1);
    if more > 0 {
        writeln!(to, "{MARGIN}and {more} more")?;
    }
    Ok(())
}

fn head(factors: &[Factor]) -> Vec<String> {
    let names = factors.iter().map(|factor| factor.name.to_owned());
    core::iter::once("  replica".to_owned())
        .chain(names)
        .collect()
}

/// Returns the best candidates, and the chosen one.
fn shown(candidates: &[Known]) -> impl Iterator<Item = &Known> {
    let place = candidates.iter().position(|known| known.chosen);
    let beyond = place.filter(|place| *place >= ROWS);
    let best = candidates.iter().take(ROWS - usize::from(beyond.is_some()));
    best.chain(beyond.map(|place| &candidates[place]))
}

fn row(known: &Known) -> Vec<String> {
    let mark = if known.chosen { ">" } else { " " };
    let avoided = if known.avoided { " (avoided)" } else { "" };
    let name = format!("{mark} {}{}{avoided}", known.replica, part(known));
    let figures = known
        .factors
        .iter()
        .map(|(factor, value)| figure(factor, value));
    core::iter::once(name).chain(figures).collect()
}

/// Describes which part of its replica a candidate is.
pub(super) fn part(known: &Known) -> String {
    known.part.map_or_else(String::new, |part| {
        format!(", part {} of {}", part.place, part.of)
    })
}

/// Formats a value with its unit.
fn figure(factor: &Factor, value: Option<f64>) -> String {
    let Some(value) = value else {
        return "-".to_owned();
    };
    match factor.unit {
        Unit::Microseconds => format!("{:.3} ms", value / 1e3),
        Unit::Share => format!("{:.1} %", value * 100.0),
        Unit::Flag => if value > 0.0 { "yes" } else { "no" }.to_owned(),
        Unit::Requests | Unit::Count => {
            let text = format!("{value:.3}");
            let text = text.trim_end_matches('0').trim_end_matches('.');
            text.to_owned()
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_are_formatted_by_unit() {
        let of = |factor: Factor, value| figure(&factor, Some(value));
        assert_eq!(of(Factor::time("t", "t", 1), 1_642.25), "1.642 ms");
        assert_eq!(of(Factor::requests("r", "r", 1), 2.0), "2");
        assert_eq!(of(Factor::requests("r", "r", 1), 0.125), "0.125");
        assert_eq!(of(Factor::count("c", "c"), 65_535.0), "65535");
        assert_eq!(of(Factor::share("s", "s"), 0.25), "25.0 %");
        assert_eq!(of(Factor::flag("f", "f"), 1.0), "yes");
        assert_eq!(figure(&Factor::flag("f", "f"), None), "-");
    }
}
