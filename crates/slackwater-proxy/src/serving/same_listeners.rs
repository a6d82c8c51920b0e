//! Listeners that are in both the old and the new configuration.

use slackwater_config::ListenerConfig;
use std::collections::BTreeSet;

/// Returns for each of `new` the index in `old` of the listener at its address. No index appears
/// twice: several listeners may have port 0.
pub(crate) fn same_listeners(old: &[ListenerConfig], new: &[ListenerConfig]) -> Vec<Option<usize>> {
    let mut taken = BTreeSet::new();
    let mut place = |new: &ListenerConfig| {
        let mut same = old.iter().enumerate();
        let (place, _) =
            same.find(|(place, old)| old.address == new.address && !taken.contains(place))?;
        taken.insert(place);
        Some(place)
    };
    new.iter().map(&mut place).collect()
}
