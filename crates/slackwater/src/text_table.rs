//! Tables as plain text, with columns as wide as necessary.

use core::fmt::Write as _;

/// Lines with these heads and rows. Columns from `figures_from` on are figures, aligned to the
/// right.
pub(crate) fn text_table<const N: usize>(
    heads: [&str; N],
    rows: impl IntoIterator<Item = [String; N]>,
    figures_from: usize,
) -> String {
    let table: Vec<[String; N]> = core::iter::once(heads.map(str::to_owned))
        .chain(rows)
        .collect();
    let width = |column: usize| -> usize {
        let cells = table.iter().map(|row| row[column].chars().count());
        cells.max().unwrap_or(0)
    };
    let widths: [usize; N] = core::array::from_fn(width);
    let mut text = String::new();
    for row in &table {
        let mut line = String::new();
        for (column, (cell, width)) in row.iter().zip(widths).enumerate() {
            // Writing to a string cannot fail.
            let _ = if column < figures_from {
                write!(line, "{cell:<width$}  ")
            } else {
                write!(line, "{cell:>width$}  ")
            };
        }
        text.push_str(line.trim_end());
        text.push('\n');
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn columns_stand_below_their_heads() {
        let rows = [["ä", "1"], ["bcd", "1,000"]].map(|row| row.map(str::to_owned));
        assert_eq!(
            text_table(["A", "B"], rows, 1),
            "A        B\nä        1\nbcd  1,000\n"
        );
    }
}
