//! Paths of fields in a document, such as `load.rate` and `fleet[1].stall.every`.
//!
//! A path without its numbers is a pattern, such as `fleet[].stall.every`. It names a field in
//! every element of a list.

use toml::Spanned;
use toml::de::{DeString, DeTable, DeValue};

/// Returns the value at `path`, if the document has it.
pub(super) fn find<'d, 's>(
    document: &'d DeTable<'s>,
    path: &str,
) -> Option<&'d Spanned<DeValue<'s>>> {
    let mut found: Option<&Spanned<DeValue<'_>>> = None;
    for step in path.split('.') {
        let (key, elements) = step.split_at(step.find('[').unwrap_or(step.len()));
        let table = match found {
            None => document,
            Some(value) => value.get_ref().as_table()?,
        };
        let mut value = table.get(key)?;
        for element in elements.split_terminator(']') {
            let number: usize = element.strip_prefix('[')?.parse().ok()?;
            value = value.get_ref().as_array()?.get(number)?;
        }
        found = Some(value);
    }
    found
}

/// Returns the key that `path` ends with, if the document has it. Elements of lists have none.
pub(super) fn find_key<'d, 's>(
    document: &'d DeTable<'s>,
    path: &str,
) -> Option<&'d Spanned<DeString<'s>>> {
    let (table, key) = match path.rsplit_once('.') {
        Some((around, key)) => (find(document, around)?.get_ref().as_table()?, key),
        None => (document, path),
    };
    table.get_key_value(key).map(|(key, _)| key)
}

/// Replaces the value at `path`, which must consist of keys only. Missing tables on the way are
/// created, at the value's place in the source.
///
/// # Errors
///
/// Returns the value on the way that is no table.
pub(super) fn put<'s>(
    document: &mut DeTable<'s>,
    path: &str,
    value: Spanned<DeValue<'s>>,
) -> Result<(), String> {
    let own = |key: &str| Spanned::new(value.span(), DeString::from(key.to_owned()));
    let (around, last) = match path.rsplit_once('.') {
        Some((around, last)) => (Some(around), last),
        None => (None, path),
    };
    let mut table = document;
    let mut walked = String::new();
    for key in around.iter().flat_map(|around| around.split('.')) {
        walked = join(&walked, key);
        if !table.contains_key(key) {
            let empty = Spanned::new(value.span(), DeValue::Table(DeTable::new()));
            table.insert(own(key), empty);
        }
        table = match table.get_mut(key).map(Spanned::as_mut) {
            Some(DeValue::Table(inner)) => inner,
            _ => return Err(walked),
        };
    }
    let key = own(last);
    table.insert(key, value);
    Ok(())
}

/// The path without the numbers of its elements.
pub(super) fn pattern(path: &str) -> String {
    let mut pattern = String::with_capacity(path.len());
    let mut is_inside = false;
    for letter in path.chars() {
        is_inside &= letter != ']';
        if !is_inside {
            pattern.push(letter);
        }
        is_inside |= letter == '[';
    }
    pattern
}

/// The section or list that contains the path's last part. `None` at the top.
pub(super) fn parent(path: &str) -> Option<&str> {
    path.rfind(['.', '[']).map(|at| &path[..at])
}

/// The path of `key` within `path`; the empty path is the document.
pub(super) fn join(path: &str, key: &str) -> String {
    if path.is_empty() {
        key.to_owned()
    } else {
        format!("{path}.{key}")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paths_traverse_tables_and_lists() {
        let text = "a = 1\n[b.c]\nd = 2\n[[e]]\nf = [[3], [4, 5]]\n[[e]]\nf = 6\n";
        let document = DeTable::parse(text).expect("TOML").into_inner();
        for (path, expected) in [
            ("a", Some("1")),
            ("b.c.d", Some("2")),
            ("e[0].f[1][0]", Some("4")),
            ("e[1].f", Some("6")),
            ("b.d", None),
            ("a.b", None),
            ("a[0]", None),
            ("e[2].f", None),
            ("e[x]", None),
            ("", None),
        ] {
            let found = find(&document, path).map(|value| &text[value.span()]);
            assert_eq!(found, expected, "{path}");
        }
        for (path, expected) in [
            ("a", Some("a")),
            ("b.c", Some("c")),
            ("b.c.d", Some("d")),
            ("b.d", None),
            ("e[0]", None),
        ] {
            let found = find_key(&document, path).map(|key| &text[key.span()]);
            assert_eq!(found, expected, "{path}");
        }
    }

    #[test]
    fn patterns_omit_indices_and_parents_drop_the_last_step() {
        assert_eq!(pattern("fleet[12].stall.every"), "fleet[].stall.every");
        assert_eq!(pattern("load.rate"), "load.rate");
        assert_eq!(parent("fleet[12].stall"), Some("fleet[12]"));
        assert_eq!(parent("fleet[12]"), Some("fleet"));
        assert_eq!(parent("fleet"), None);
        assert_eq!(join("", "fleet"), "fleet");
        assert_eq!(join("load", "hedge"), "load.hedge");
    }
}
