//! The candidates that are kept when there are more than fit.

use super::*;

#[test]
fn best_candidates_are_kept_in_any_order_of_arrival() {
    let most = Explanation::CANDIDATES_MAX as u64;
    let mut explanation = Explanation::new();
    let replica = Rig::new("random", 1).replicas[0];
    // Bad ones fill the space, better ones replace them, and equally bad ones come again.
    let bad = most..2 * most;
    for place in bad.clone().chain(0..most).chain(bad) {
        explanation.consider(Candidate {
            place: (place, 0),
            ..Candidate::new(replica, None, 0)
        });
    }
    let mut kept: Vec<u64> = (explanation.candidates().iter())
        .map(|candidate| candidate.place.0)
        .collect();
    kept.sort_unstable();
    assert_eq!(kept, (0..most).collect::<Vec<_>>());
    assert_eq!(u64::from(explanation.considered()), 3 * most);
}
