//! Probes: questions to a replica, off the query's path or, in synchronous mode, on it.

use crate::replica::ReplicaId;
use crate::report::{LoadReport, LoadScale, Rif};
use crate::time::{Instant, span_ns};

/// The name of one asynchronous probe.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct ProbeId {
    pub(crate) slot: u32,
    pub(crate) serial: u32,
}

/// A probe to send. It ends as a report, or as lost at its deadline.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Probe {
    /// Goes back with the answer.
    pub id: ProbeId,
    /// Whom to ask.
    pub replica: ReplicaId,
    /// When an answer is no longer of use. `[A4]`
    pub deadline: Instant,
}

/// One replica that a round asks, and what it said.
#[derive(Clone, Copy, Debug)]
struct Target {
    replica: ReplicaId,
    state: TargetState,
}

#[derive(Clone, Copy, Debug)]
enum TargetState {
    Waiting,
    Lost,
    Answered(RoundAnswer),
}

/// What a round keeps of a report: the part that decides, so that a round is cheap to hand around.
#[derive(Clone, Copy, Debug)]
pub(in crate::policy) struct RoundAnswer {
    pub(in crate::policy) replica: ReplicaId,
    pub(in crate::policy) rif: Rif,
    pub(in crate::policy) latency_ns: Option<u64>,
    pub(in crate::policy) load_scale: LoadScale,
    pub(in crate::policy) draining: bool,
}

/// A synchronous probing round for one query: d replicas are asked at once, and the choice is made as soon as
/// max(2, d − 1) have answered, or at the deadline. `[S1]` `[Prequal §4 "Synchronous mode"]`
#[derive(Clone, Debug)]
#[must_use = "the query waits for it"]
pub struct ProbeRound {
    /// The last place is the scout's.
    targets: [Option<Target>; Self::MAX_PROBES + 1],
    pub(crate) started_at: Instant,
    deadline: Instant,
    quorum: u8,
    answered: u8,
    waiting: u8,
}

impl ProbeRound {
    /// The most replicas that one round asks.
    pub const MAX_PROBES: usize = 8;

    /// A round that asks `replicas` and waits for most of them, and asks `scout` without waiting.
    pub(crate) fn new(
        started_at: Instant,
        deadline: Instant,
        replicas: &[ReplicaId],
        scout: Option<ReplicaId>,
    ) -> Self {
        let waiting = |&replica: &ReplicaId| Target {
            replica,
            state: TargetState::Waiting,
        };
        let mut targets = [const { None }; Self::MAX_PROBES + 1];
        let mut asked = 0_u8;
        for (target, replica) in targets.iter_mut().take(Self::MAX_PROBES).zip(replicas) {
            *target = Some(waiting(replica));
            asked += 1;
        }
        targets[Self::MAX_PROBES] = scout.as_ref().map(waiting);
        let quorum = asked.saturating_sub(1).max(2);
        Self {
            targets,
            started_at,
            deadline,
            quorum,
            answered: 0,
            waiting: asked,
        }
    }

    /// The replicas to ask, all distinct.
    pub fn targets(&self) -> impl Iterator<Item = ReplicaId> + '_ {
        self.targets.iter().flatten().map(|target| target.replica)
    }

    /// When to decide with what there is.
    pub const fn deadline(&self) -> Instant {
        self.deadline
    }

    /// An answer; one from a replica that was not asked, or has answered, changes nothing.
    pub fn handle_report(&mut self, replica: ReplicaId, report: &LoadReport) {
        let answer = RoundAnswer {
            replica,
            rif: report.rif,
            latency_ns: report.latency.map(span_ns),
            load_scale: report.load_scale,
            draining: report.draining,
        };
        if self.settle(replica, TargetState::Answered(answer)) {
            self.answered += 1;
            self.waiting -= 1;
        }
    }

    /// A probe that will not be answered; the round need not wait for it.
    pub fn handle_lost(&mut self, replica: ReplicaId) {
        if self.settle(replica, TargetState::Lost) {
            self.waiting -= 1;
        }
    }

    /// Enough have answered, or nobody is left who could.
    pub const fn is_ready(&self) -> bool {
        self.answered >= self.quorum || self.waiting == 0
    }

    pub(in crate::policy) fn answers(&self) -> impl Iterator<Item = RoundAnswer> + Clone + '_ {
        self.targets
            .iter()
            .flatten()
            .filter_map(|target| match target.state {
                TargetState::Answered(answer) => Some(answer),
                TargetState::Waiting | TargetState::Lost => None,
            })
    }

    /// Probes that were not answered in time for the choice.
    pub(crate) fn unanswered(&self) -> u64 {
        self.targets
            .iter()
            .flatten()
            .filter(|t| matches!(t.state, TargetState::Waiting))
            .count() as u64
    }

    pub(crate) fn lost(&self) -> u64 {
        self.targets
            .iter()
            .flatten()
            .filter(|t| matches!(t.state, TargetState::Lost))
            .count() as u64
    }

    /// Notes what became of a probe; `true` if the round waited for it.
    fn settle(&mut self, replica: ReplicaId, state: TargetState) -> bool {
        let mut targets = self.targets.iter_mut().enumerate();
        let target = targets.find_map(|(index, target)| {
            target
                .as_mut()
                .filter(|target| target.replica == replica)
                .map(|target| (index, target))
        });
        match target {
            Some((index, target)) if matches!(target.state, TargetState::Waiting) => {
                target.state = state;
                index < Self::MAX_PROBES
            }
            _ => false,
        }
    }
}
