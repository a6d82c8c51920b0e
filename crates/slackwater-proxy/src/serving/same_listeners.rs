//! Listeners that a new configuration has in common with the old one.

use slackwater_config::ListenerConfig;
use std::collections::BTreeSet;

/// For each of `new` the place in `old` of the one at its address, no place twice: several may be
/// at port 0.
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
