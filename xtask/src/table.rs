//! Markdown tables whose columns are aligned in plain text, too.

use core::fmt::Write as _;

/// The first row has the titles. All rows have the same number of cells.
pub(crate) fn markdown(rows: &[Vec<String>]) -> String {
    let columns = rows.first().map_or(0, Vec::len);
    let width = |column: usize| {
        let widths = rows.iter().map(|row| row[column].chars().count());
        widths.max().unwrap_or_default()
    };
    let widths: Vec<_> = (0..columns).map(width).collect();
    let mut text = String::new();
    for (number, row) in rows.iter().enumerate() {
        for (cell, width) in row.iter().zip(&widths) {
            // Writing to a string cannot fail.
            let _ = write!(text, "| {cell:width$} ");
        }
        text += "|\n";
        if number == 0 {
            for width in &widths {
                let _ = write!(text, "|{:-<1$}", "", width + 2);
            }
            text += "|\n";
        }
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn columns_are_as_wide_as_their_widest_cell() {
        let rows = [["a", "title"], ["1–23", "4"]];
        let rows = rows.map(|row| row.map(str::to_owned).to_vec());
        assert_eq!(
            markdown(&rows),
            "| a    | title |\n|------|-------|\n| 1–23 | 4     |\n"
        );
        assert_eq!(markdown(&[]), "");
    }
}
