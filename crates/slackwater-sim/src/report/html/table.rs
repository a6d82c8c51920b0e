//! Tables as HTML.
//!
//! Heads have a scope, numbers are aligned at the right, and a table that is too large for its
//! place scrolls there, also by keyboard.

use crate::figure::Table;
use crate::report::markup::{Attribute, Markup};
use crate::report::tables::numeric_columns;

/// Writes a table under its own heading. The first `heads` columns name the row. `id` is unique in
/// the page.
pub(super) fn titled(markup: &mut Markup, table: &Table, id: &str, heads: usize) {
    markup.line("h3", &[("id", &id)], &table.title);
    scrolled(markup, table, id, heads);
}

/// Writes a table that scrolls within its place, also by keyboard; `label` is the id of the element
/// that names it.
pub(super) fn scrolled(markup: &mut Markup, table: &Table, label: &str, heads: usize) {
    let numeric = numeric_columns(table);
    let class = |column: usize| {
        if numeric.get(column).copied().unwrap_or(false) {
            "number"
        } else {
            "word"
        }
    };
    markup.element(
        "div",
        &[
            ("class", &"scroll"),
            ("role", &"region"),
            ("tabindex", &0),
            ("aria-labelledby", &label),
        ],
        |markup| {
            markup.element("table", &[("aria-labelledby", &label)], |markup| {
                markup.element("thead", &[], |markup| {
                    markup.element("tr", &[], |markup| {
                        for (column, name) in table.columns.iter().enumerate() {
                            markup.line(
                                "th",
                                &[("scope", &"col"), ("class", &class(column))],
                                name,
                            );
                        }
                    });
                });
                markup.element("tbody", &[], |markup| {
                    let mut previous: Option<&String> = None;
                    for row in &table.rows {
                        // There is a line above the first row of each step, if rows have more than
                        // one name.
                        let begins = heads > 1 && row.first() != previous;
                        previous = row.first();
                        let class_of_row: &[Attribute<'_>] =
                            if begins { &[("class", &"begins")] } else { &[] };
                        markup.element("tr", class_of_row, |markup| {
                            for (column, cell) in row.iter().enumerate() {
                                if column < heads {
                                    markup.line(
                                        "th",
                                        &[("scope", &"row"), ("class", &class(column))],
                                        cell,
                                    );
                                } else {
                                    markup.line("td", &[("class", &class(column))], cell);
                                }
                            }
                        });
                    }
                });
            });
        },
    );
}
