//! The precedence of states.

use super::*;
use crate::attempt_failure::{FailureKind, LastFailure};
use std::collections::BTreeSet;

/// Compares every combination of signs with the documented order, which is written here a second
/// time.
#[test]
fn first_state_in_the_documented_order_wins() {
    let bit = |bits: u32, place: u32| bits & (1 << place) != 0;
    let mut seen = BTreeSet::new();
    let healths = HealthState::ALL.map(Some).into_iter().chain([None]);
    for health in healths {
        for bits in 0..1 << 14 {
            let needed = if bit(bits, 11) && !bit(bits, 13) {
                10
            } else {
                3
            };
            let signs = Signs {
                disabled: bit(bits, 0),
                down: bit(bits, 1).then(|| Some("refused".to_owned())),
                not_connectable: bit(bits, 2),
                drained: bit(bits, 3),
                draining: bit(bits, 4),
                server_gone: bit(bits, 12),
                down_lately: bit(bits, 11),
                trials_unanswered: bit(bits, 13),
                failing: Some(Failing {
                    in_a_row: needed - u64::from(!bit(bits, 10)),
                    first_age: Duration::from_secs(1),
                    last: LastFailure {
                        kind: FailureKind::Refused,
                        error: String::new(),
                        age: Duration::ZERO,
                    },
                }),
                unreachable: bit(bits, 5),
                unprobed: bit(bits, 6),
                polled: bit(bits, 7),
                available: bit(bits, 8),
                probed: bit(bits, 9),
                health: health.map(|state| HealthSigns {
                    state,
                    workers_agreeing: 1,
                    workers: 1,
                    is_slow: Some(bit(bits, 11)),
                    share_millionths: 0,
                    success_millionths: 0,
                    latency: None,
                    median_success_millionths: 0,
                    median_latency: None,
                }),
                in_flight: 0,
            };
            let is = |states: &[HealthState]| health.is_some_and(|it| states.contains(&it));
            let order = [
                (ReplicaState::Disabled, signs.disabled),
                (
                    ReplicaState::Down,
                    signs.down.is_some() || signs.not_connectable,
                ),
                (ReplicaState::Draining, signs.drained),
                (ReplicaState::Down, signs.draining && signs.server_gone),
                (ReplicaState::Draining, signs.draining),
                (ReplicaState::Down, bit(bits, 10)),
                (ReplicaState::Unreachable, signs.unreachable),
                (
                    ReplicaState::Ejected,
                    is(&[HealthState::Ejected, HealthState::OnProbation]),
                ),
                (
                    ReplicaState::Limited,
                    is(&[HealthState::HeldBack, HealthState::PushingBack]),
                ),
                (
                    ReplicaState::WarmingUp,
                    is(&[HealthState::Returning, HealthState::WarmingUp]),
                ),
                (ReplicaState::Unprobed, signs.probed && signs.unprobed),
                (ReplicaState::Available, true),
            ];
            let expected = order.iter().find(|(_, holds)| *holds).map(|(it, _)| *it);
            let (state, why) = signs.state();
            assert_eq!(Some(state), expected, "{signs:?}");
            let explains = why != Why::Nothing;
            let is_well = state == ReplicaState::Available && signs.available;
            assert_eq!(explains, !is_well, "{signs:?}");
            seen.insert(state);
        }
    }
    assert_eq!(seen.len(), ReplicaState::ALL.len(), "each occurs");
}

#[test]
fn states_by_health_are_those_of_the_core() {
    for health in HealthState::ALL {
        let state = of_health(health).map(|(state, _)| state.as_str());
        assert_eq!(state, health.replica_state(), "{health}");
    }
}
