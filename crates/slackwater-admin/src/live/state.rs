//! In what state a replica is shown: of all that is known of it, what matters most for whether it gets requests.

use crate::status::ReplicaStatus;
use slackwater_core::health::HealthState;

/// A replica's state, in one word.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum State {
    Available,
    Silent,
    Unavailable,
    WarmingUp,
    PushingBack,
    HeldBack,
    Returning,
    Ejected,
    OnProbation,
    Lost,
    Draining,
    Down,
    Out,
}

impl State {
    /// Every state; the place of each is its number in live data.
    pub(super) const ALL: [Self; 13] = [
        Self::Available,
        Self::Silent,
        Self::Unavailable,
        Self::WarmingUp,
        Self::PushingBack,
        Self::HeldBack,
        Self::Returning,
        Self::Ejected,
        Self::OnProbation,
        Self::Lost,
        Self::Draining,
        Self::Down,
        Self::Out,
    ];

    pub(super) const fn as_str(self) -> &'static str {
        match self {
            Self::Available => "available",
            Self::Silent => "silent",
            Self::Unavailable => "unavailable",
            Self::WarmingUp => HealthState::WarmingUp.as_str(),
            Self::PushingBack => HealthState::PushingBack.as_str(),
            Self::HeldBack => HealthState::HeldBack.as_str(),
            Self::Returning => HealthState::Returning.as_str(),
            Self::Ejected => HealthState::Ejected.as_str(),
            Self::OnProbation => HealthState::OnProbation.as_str(),
            Self::Lost => "lost",
            Self::Draining => "draining",
            Self::Down => "down",
            Self::Out => "out",
        }
    }

    /// Its number in live data.
    pub(super) const fn code(self) -> u8 {
        self as u8
    }

    /// The state of a replica, over all workers.
    pub(super) fn of(replica: &ReplicaStatus) -> Self {
        let health = replica.health.as_ref();
        if replica.weight == 0 {
            return Self::Out;
        }
        if health.is_some_and(|health| health.verdict == "down") {
            return Self::Down;
        }
        if replica.draining || replica.drained {
            return Self::Draining;
        }
        if replica.lost {
            return Self::Lost;
        }
        let standing = replica.standing.as_ref();
        let standing = standing.and_then(|standing| {
            let mut states = Self::ALL.into_iter();
            states.find(|state| state.as_str() == standing.state)
        });
        match standing {
            Some(state) => state,
            None if !replica.available => Self::Unavailable,
            None if replica.silent => Self::Silent,
            None => Self::Available,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Status;
    use crate::standing::StandingStatus;
    use core::time::Duration;
    use slackwater_telemetry::facts::{Facts, Phase, ReplicaFacts};
    use slackwater_telemetry::facts::{HealthFacts, ServiceFacts};

    fn replica() -> ReplicaStatus {
        let facts = Facts {
            services: vec![ServiceFacts {
                replicas: vec![ReplicaFacts {
                    weight: 1,
                    fleet_weight: 1,
                    drained: false,
                    ..ReplicaFacts::default()
                }],
                ..ServiceFacts::default()
            }],
            ..Facts::default()
        };
        let status = Status::new(&facts, Phase::Serving, Duration::ZERO);
        status.replicas[0].clone()
    }

    fn standing(state: HealthState) -> StandingStatus {
        StandingStatus {
            state: state.as_str().to_owned(),
            share_millionths: 0,
            success_millionths: 0,
            latency_us: None,
        }
    }

    #[test]
    fn the_dashboard_has_words_for_every_state() {
        let words = include_str!("../dashboard/words.js");
        for state in State::ALL {
            let line = format!("\n  {}: {{ sign: ", state.as_str());
            assert!(words.contains(&line), "{}", state.as_str());
        }
    }

    #[test]
    fn a_number_is_a_place_and_no_name_comes_twice() {
        for (place, state) in State::ALL.into_iter().enumerate() {
            assert_eq!(usize::from(state.code()), place);
            let same = |other: &State| other.as_str() == state.as_str();
            assert_eq!(State::ALL.iter().filter(|it| same(it)).count(), 1);
        }
        for health in HealthState::ALL {
            let named = |state: State| state.as_str() == health.as_str();
            assert_eq!(
                State::ALL.into_iter().any(named),
                health != HealthState::Sound
            );
        }
    }

    /// Each trouble in turn comes on top of the ones before, and is the one that is shown.
    #[test]
    fn the_gravest_trouble_is_shown() {
        let mut replica = replica();
        assert_eq!(State::of(&replica), State::Available);
        replica.silent = true;
        assert_eq!(State::of(&replica), State::Silent);
        replica.available = false;
        assert_eq!(State::of(&replica), State::Unavailable);
        replica.standing = Some(standing(HealthState::Sound));
        assert_eq!(State::of(&replica), State::Unavailable);
        for health in HealthState::ALL.into_iter().skip(1) {
            replica.standing = Some(standing(health));
            assert_eq!(State::of(&replica).as_str(), health.as_str());
        }
        replica.lost = true;
        assert_eq!(State::of(&replica), State::Lost);
        replica.drained = true;
        assert_eq!(State::of(&replica), State::Draining);
        replica.drained = false;
        replica.draining = true;
        assert_eq!(State::of(&replica), State::Draining);
        let verdict = |verdict: &str| {
            Some(HealthFacts {
                verdict: verdict.to_owned(),
                ..HealthFacts::default()
            })
        };
        replica.health = verdict("up");
        assert_eq!(State::of(&replica), State::Draining);
        replica.health = verdict("down");
        assert_eq!(State::of(&replica), State::Down);
        replica.weight = 0;
        assert_eq!(State::of(&replica), State::Out);
    }
}
