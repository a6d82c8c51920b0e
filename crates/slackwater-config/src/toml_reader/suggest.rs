//! "Did you mean": finds the known name nearest to an unknown one, and our name for a name of other
//! software.

/// A key under the names that other software, or an older release, has for it.
#[derive(Debug)]
pub(crate) struct ForeignName {
    /// The sections in which the names mean this key, as patterns; `""` is the top of the file or
    /// of a service. If empty, they mean it everywhere.
    pub(crate) within: &'static [&'static str],
    /// The key's names elsewhere.
    pub(crate) names: &'static [&'static str],
    /// The key here with its section, as a pattern.
    pub(crate) key: &'static str,
    /// An example value, as TOML.
    pub(crate) example: &'static str,
}

impl ForeignName {
    /// Whether `name` means this key in `section`.
    pub(super) fn is_meant(&self, section: &str, name: &str) -> bool {
        let is_here = self.within.is_empty() || self.within.contains(&section);
        is_here && self.names.iter().any(|known| is_same(known, name))
    }
}

/// Returns the name that is probably meant: the same name in another spelling, with its words in
/// another order, or the nearest name. The nearest may differ in a third of its letters, at least
/// in one.
pub fn nearest<'n>(name: &str, names: impl IntoIterator<Item = &'n str>) -> Option<&'n str> {
    let names: Vec<_> = names.into_iter().collect();
    let alike = |known: &&&str| is_same(known, name) || has_same_words(known, name);
    if let Some(known) = names.iter().find(alike) {
        return Some(known);
    }
    names
        .into_iter()
        .map(|known| (distance(name, known), known))
        .filter(|(distance, known)| *distance <= (known.chars().count() / 3).max(1))
        .min_by_key(|(distance, _)| *distance)
        .map(|(_, known)| known)
}

/// Whether two names differ only in capitals and in what separates their words: `leastConn`,
/// `least-conn` and `LEAST_CONN` are the same name.
pub(crate) fn is_same(one: &str, other: &str) -> bool {
    let letters = |name: &str| {
        let letters = name.chars().filter(|letter| !is_separator(*letter));
        letters
            .flat_map(char::to_lowercase)
            .take(LETTERS_MAX)
            .collect::<String>()
    };
    !one.is_empty() && letters(one) == letters(other)
}

/// Whether two names have the same words, in any order: `max_attempts` is `attempts_max`.
pub(super) fn has_same_words(one: &str, other: &str) -> bool {
    let (one, other) = (words(one), words(other));
    one.len() > 1 && one == other
}

/// The words of a name, sorted; each capital after a small letter begins a word.
fn words(name: &str) -> Vec<String> {
    let mut words = vec![String::new()];
    let mut was_small = false;
    for letter in name.chars().take(LETTERS_MAX) {
        if is_separator(letter) || letter.is_uppercase() && was_small {
            words.push(String::new());
        }
        was_small = letter.is_lowercase();
        if let Some(word) = words.last_mut().filter(|_| !is_separator(letter)) {
            word.extend(letter.to_lowercase());
        }
    }
    words.sort_unstable();
    words
}

fn is_separator(letter: char) -> bool {
    matches!(letter, '_' | '-' | ' ')
}

/// Longer names are cut before they are compared: they are similar to none of ours, and would take
/// long.
const LETTERS_MAX: usize = 64;

/// The edit distance: letters to insert, delete, replace or swap with their neighbour.
fn distance(one: &str, other: &str) -> usize {
    let short = |name: &str| name.chars().take(LETTERS_MAX).collect::<String>();
    strsim::osa_distance(&short(one), &short(other))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn distance_counts_single_edits() {
        for (one, other, expected) in [
            ("", "", 0),
            ("", "abc", 3),
            ("listen", "listen", 0),
            ("lsiten", "listen", 1),
            ("listn", "listen", 1),
            ("listeen", "listen", 1),
            ("listan", "listen", 1),
            ("kitten", "sitting", 3),
        ] {
            assert_eq!(distance(one, other), expected, "{one} {other}");
            assert_eq!(distance(other, one), expected, "{other} {one}");
        }
    }

    #[test]
    fn only_similar_names_are_suggested() {
        let names = ["listen", "policy", "replicas", "replica", "attempts_max"];
        assert_eq!(nearest("replicsa", names), Some("replicas"));
        assert_eq!(nearest("replcia", names), Some("replica"));
        assert_eq!(nearest("max-attempts", names), Some("attempts_max"));
        assert_eq!(nearest("attemptsMax", names), Some("attempts_max"));
        assert_eq!(nearest("maxAttempts", names), Some("attempts_max"));
        assert_eq!(nearest("LISTEN", names), Some("listen"));
        assert_eq!(nearest("listen_address", names), None);
        assert_eq!(nearest("max_max", names), None);
        assert_eq!(nearest("", names), None);
    }
}
