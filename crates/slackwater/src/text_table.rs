//! Tables as plain text, with columns as wide as necessary.

use core::fmt::Write as _;

/// Lines with these heads and rows. Columns from `figures_from` on are figures, aligned to the
/// right.
pub(crate) fn text_table<Row: AsRef<[String]>>(
    heads: &[&str],
    rows: impl IntoIterator<Item = Row>,
    figures_from: usize,
) -> String {
    let heads: Vec<_> = heads.iter().map(|head| (*head).to_owned()).collect();
    let rows = rows.into_iter().map(|row| row.as_ref().to_vec());
    let table: Vec<_> = core::iter::once(heads).chain(rows).collect();
    let mut widths = Vec::new();
    for row in &table {
        widths.resize(widths.len().max(row.len()), 0);
        for (width, cell) in widths.iter_mut().zip(row) {
            *width = cell.chars().count().max(*width);
        }
    }
    let mut text = String::new();
    for row in &table {
        let mut line = String::new();
        for (column, (cell, &width)) in row.iter().zip(&widths).enumerate() {
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
    fn columns_are_aligned_with_their_headers() {
        let rows = [["ä", "1"], ["bcd", "1,000"]].map(|row| row.map(str::to_owned));
        assert_eq!(
            text_table(&["A", "B"], rows, 1),
            "A        B\nä        1\nbcd  1,000\n"
        );
    }
}
