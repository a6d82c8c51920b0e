//! Replicas in another zone: the policy hears of each part, whenever it joins. Paused time, no
//! sockets.

use crate::common::{Recording, addr};
use core::num::NonZeroU32;
use core::time::Duration;
use slackwater_tower::client::{Balancer, NoProber};

const TWO: NonZeroU32 = NonZeroU32::MIN.saturating_add(1);
const FOUR: NonZeroU32 = NonZeroU32::MIN.saturating_add(3);
const MS: Duration = Duration::from_millis(1);

#[tokio::test(start_paused = true)]
async fn policy_hears_of_all_parts_also_of_those_that_join_later() {
    let policy = Recording::default();
    let distances = policy.distances.clone();
    let balancer = Balancer::with_seed(Box::new(policy), NoProber, 1);
    let near = balancer.insert(addr(1)).expect("new");
    let far = balancer.insert_weighted(addr(2), TWO).expect("new");
    assert!(balancer.set_far(far[1], MS));
    assert_eq!(
        distances.take(),
        [
            (near, None),
            (far[0], None),
            (far[1], None),
            (far[0], Some(MS)),
            (far[1], Some(MS)),
        ]
    );

    let all = balancer.set_weight(far[0], FOUR).expect("there are ids");
    let joined = [all[2], all[3]];
    let expected = joined.map(|part| [(part, None), (part, Some(MS))]);
    assert_eq!(distances.take(), expected.concat());

    // Nothing new is no event.
    assert!(balancer.set_far(all[3], MS));
    assert_eq!(distances.take(), []);
    // Another distance is one for each part.
    assert!(balancer.set_far(all[0], 2 * MS));
    assert_eq!(
        distances.take(),
        [0, 1, 2, 3].map(|at| (all[at], Some(2 * MS)))
    );

    // A replica that returns is near until it is marked again.
    for &part in &all {
        assert!(balancer.remove(part));
        assert!(!balancer.set_far(part, MS));
    }
    let again = balancer.insert(addr(2)).expect("new");
    assert_eq!(distances.take(), [(again, None)]);
    let all = balancer.set_weight(again, TWO).expect("there are ids");
    assert_eq!(distances.take(), [(all[1], None)]);
}
