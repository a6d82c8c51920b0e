//! "Did you mean": the known name nearest to one that is not known.

/// The nearest of `names`, if it is near enough to be meant: at most a third of its letters differ,
/// and at least one may.
pub fn nearest<'n>(name: &str, names: impl IntoIterator<Item = &'n str>) -> Option<&'n str> {
    names
        .into_iter()
        .map(|known| (distance(name, known), known))
        .filter(|(distance, known)| *distance <= (known.chars().count() / 3).max(1))
        .min_by_key(|(distance, _)| *distance)
        .map(|(_, known)| known)
}

/// How many letters have to be put in, taken out, replaced or swapped with their neighbour.
fn distance(one: &str, other: &str) -> usize {
    // A name that is long enough to make this slow is not near to any of ours.
    let short = |name: &str| name.chars().take(64).collect::<String>();
    strsim::osa_distance(&short(one), &short(other))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn distance_counts_single_slips() {
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
    fn only_near_names_are_meant() {
        let names = ["listen", "policy", "replicas", "replica"];
        assert_eq!(nearest("replicsa", names), Some("replicas"));
        assert_eq!(nearest("replcia", names), Some("replica"));
        assert_eq!(nearest("listen_address", names), None);
        assert_eq!(nearest("", names), None);
    }
}
