//! Probes: requests for a replica's load, off the query's path or, in synchronous mode, on it.

use crate::replica::ReplicaId;
use crate::report::{LoadReport, LoadScale, Rif};
use crate::time::{Instant, span_ns};
use core::time::Duration;

/// The name of one asynchronous probe.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct ProbeId {
    pub(crate) slot: u32,
    pub(crate) serial: u32,
}

impl ProbeId {
    /// The name as a number, for storage: the policy's slot in the lower half, the slot's serial
    /// number in the upper half.
    pub const fn to_bits(self) -> u64 {
        (self.serial as u64) << u32::BITS | self.slot as u64
    }

    /// The name that was stored as this number.
    pub const fn from_bits(bits: u64) -> Self {
        let [s0, s1, s2, s3, n0, n1, n2, n3] = bits.to_le_bytes();
        Self {
            slot: u32::from_le_bytes([s0, s1, s2, s3]),
            serial: u32::from_le_bytes([n0, n1, n2, n3]),
        }
    }
}

/// A probe to send. It ends as a report, or as lost at its deadline.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Probe {
    /// Returned with the answer.
    pub id: ProbeId,
    /// The replica to probe.
    pub replica: ReplicaId,
    /// Time from which an answer is useless. `[A4]`
    pub deadline: Instant,
}

/// The result of one probe of a round.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum RoundReply {
    /// It was answered: the part of the report that the round keeps.
    Answered {
        /// The reported RIF.
        rif: Rif,
        /// The reported latency, if any, capped at 584 years.
        latency: Option<Duration>,
        /// The scale that the replica requests for its load.
        load_scale: LoadScale,
        /// The replica takes no new queries.
        draining: bool,
    },
    /// It will not be answered.
    Lost,
}

/// A replica that a round probes, and its answer.
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

/// The part of a report that decides, so that a round is cheap to copy.
#[derive(Clone, Copy, Debug)]
pub(in crate::policy) struct RoundAnswer {
    pub(in crate::policy) replica: ReplicaId,
    pub(in crate::policy) rif: Rif,
    pub(in crate::policy) latency_ns: Option<u64>,
    pub(in crate::policy) load_scale: LoadScale,
    pub(in crate::policy) draining: bool,
}

/// A synchronous probing round for one query: d replicas are probed at once. The choice is made as
/// soon as max(2, d − 1) have answered, or at the deadline. `[S1]` `[Prequal §4 "Synchronous
/// mode"]`
#[derive(Clone, Debug)]
#[must_use = "the query waits for it"]
pub struct ProbeRound {
    /// The last place is for the scout.
    targets: [Option<Target>; Self::MAX_PROBES + 1],
    pub(crate) started_at: Instant,
    deadline: Instant,
    quorum: u8,
    answered: u8,
    waiting: u8,
}

impl ProbeRound {
    /// Most replicas that one round probes.
    pub const MAX_PROBES: usize = 8;

    /// A round that probes `replicas` and waits for most of them, and probes `scout` without
    /// waiting.
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

    /// Makes it wait for all replicas.
    pub(in crate::policy) fn wait_for_all(&mut self) {
        self.quorum = self.quorum.max(self.waiting);
    }

    /// The replicas to probe, all distinct.
    pub fn targets(&self) -> impl Iterator<Item = ReplicaId> + '_ {
        self.targets.iter().flatten().map(|target| target.replica)
    }

    /// When the query started to wait.
    pub const fn started_at(&self) -> Instant {
        self.started_at
    }

    /// The results of the probes so far, without those still in flight. Applied to a round with the
    /// same replicas ([`Self::handle_report`], [`Self::handle_lost`]), they make the two equal.
    pub fn replies(&self) -> impl Iterator<Item = (ReplicaId, RoundReply)> + '_ {
        self.targets.iter().flatten().filter_map(|target| {
            let reply = match target.state {
                TargetState::Waiting => return None,
                TargetState::Lost => RoundReply::Lost,
                TargetState::Answered(answer) => RoundReply::Answered {
                    rif: answer.rif,
                    latency: answer.latency_ns.map(Duration::from_nanos),
                    load_scale: answer.load_scale,
                    draining: answer.draining,
                },
            };
            Some((target.replica, reply))
        })
    }

    /// When to decide with the answers there are.
    pub const fn deadline(&self) -> Instant {
        self.deadline
    }

    /// Takes in an answer. One from a replica that was not probed, or has answered, changes
    /// nothing.
    pub fn handle_report(&mut self, replica: ReplicaId, report: &LoadReport) {
        let answer = RoundAnswer {
            replica,
            rif: report.rif,
            latency_ns: report.known_latency().map(span_ns),
            load_scale: report.load_scale,
            draining: report.draining,
        };
        if self.settle(replica, TargetState::Answered(answer)) {
            self.answered += 1;
            self.waiting -= 1;
        }
    }

    /// Notes that a probe will not be answered, so that the round need not wait for it.
    pub fn handle_lost(&mut self, replica: ReplicaId) {
        if self.settle(replica, TargetState::Lost) {
            self.waiting -= 1;
        }
    }

    /// Whether enough have answered, or no replica is left that could.
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

    /// Notes the result of a probe. Returns `true` if the round waited for it.
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::replica::ReplicaIds;
    use alloc::format;
    use alloc::vec::Vec;

    #[test]
    fn probe_id_round_trips_through_bits() {
        let probe = ProbeId { slot: 3, serial: 7 };
        assert_eq!(probe.to_bits(), (7 << 32) | 3);
        assert_eq!(ProbeId::from_bits(probe.to_bits()), probe);
    }

    #[test]
    fn round_may_wait_for_all_of_its_replicas() {
        let mut ids = ReplicaIds::new();
        let replicas: Vec<_> = (0..3).filter_map(|_| ids.allocate()).collect();
        let at = Instant::from_nanos(5);
        for waits in [false, true] {
            let mut round = ProbeRound::new(at, at, &replicas, None);
            if waits {
                round.wait_for_all();
            }
            let report = LoadReport::new(Rif::ZERO, None);
            round.handle_report(replicas[0], &report);
            assert!(!round.is_ready());
            round.handle_report(replicas[2], &report);
            assert_eq!(round.is_ready(), !waits);
            round.handle_report(replicas[1], &report);
            assert!(round.is_ready());
        }
    }

    #[test]
    fn round_rebuilt_from_its_replies_is_equal() {
        let mut ids = ReplicaIds::new();
        let replicas: Vec<_> = (0..4).filter_map(|_| ids.allocate()).collect();
        let at = Instant::from_nanos(5);
        let begin = || ProbeRound::new(at, at, &replicas[..3], replicas.last().copied());
        let mut first = begin();
        let mut report = LoadReport::new(Rif::new(4), Some(Duration::from_millis(2)));
        report.load_scale = LoadScale::from_1024ths(7);
        report.draining = true;
        first.handle_report(replicas[3], &report);
        first.handle_report(replicas[1], &LoadReport::new(Rif::ZERO, None));
        first.handle_lost(replicas[0]);

        let mut second = begin();
        for (replica, reply) in first.replies() {
            match reply {
                RoundReply::Answered {
                    rif,
                    latency,
                    load_scale,
                    draining,
                } => {
                    let mut report = LoadReport::new(rif, latency);
                    (report.load_scale, report.draining) = (load_scale, draining);
                    second.handle_report(replica, &report);
                }
                RoundReply::Lost => second.handle_lost(replica),
            }
        }
        assert_eq!(format!("{second:?}"), format!("{first:?}"));
        assert_eq!(second.replies().count(), 3, "the third is awaited");
        assert_eq!(second.started_at(), at);
    }
}
