//! The replicas that this worker has excluded from its policy's picks, and why. The policy does not
//! know the reasons.

use slackwater_core::ReplicaId;
use slackwater_core::policy::Explanation;

/// Reason of an excluded replica that is neither down nor drained: its tier is not in use.
const NOT_IN_USE: &str = "not_in_use";

/// Parts of excluded replicas, with the reason in one word.
#[derive(Debug, Default)]
pub(crate) struct AbsentReplicas {
    /// At most as many as an explanation can hold.
    reasons: Vec<(ReplicaId, &'static str)>,
    /// Whether there are more.
    is_cut: bool,
}

impl AbsentReplicas {
    pub(crate) fn clear(&mut self) {
        self.reasons.clear();
        self.is_cut = false;
    }

    /// Adds a replica with these parts if it is excluded, with the reason.
    pub(crate) fn add(&mut self, parts: &[ReplicaId], why: Option<&'static str>) {
        let Some(why) = why else {
            return;
        };
        let room = Explanation::OUTS_MAX - self.reasons.len();
        self.is_cut |= parts.len() > room;
        let parts = parts.iter().take(room);
        self.reasons.extend(parts.map(|&part| (part, why)));
    }

    /// Adds the reasons to the excluded replicas in an explanation. Adds nothing while no replica
    /// is excluded.
    pub(crate) fn explain(&self, explanation: &mut Explanation) {
        for &(part, why) in &self.reasons {
            explanation.say_why(part, why);
        }
        if !self.is_cut {
            explanation.say_of_others(NOT_IN_USE);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use slackwater_core::ReplicaIds;
    use slackwater_core::policy::{Decision, Event, Policy, Query, RoundRobin};
    use slackwater_core::{Instant, NoDraw, SplitMix64};

    /// Returns the explained reasons of the `absent` replicas, given by index, in a fleet of which
    /// the first `out` are taken out.
    fn explained(
        replicas: usize,
        out: usize,
        absent: &[(usize, &'static str)],
    ) -> Vec<(usize, &'static str)> {
        let (mut ids, mut policy) = (ReplicaIds::new(), RoundRobin::new());
        let replicas: Vec<_> = (0..replicas).filter_map(|_| ids.allocate()).collect();
        for (place, &replica) in replicas.iter().enumerate() {
            policy.handle(Instant::EPOCH, Event::Added(replica), &mut NoDraw);
            policy.handle(
                Instant::EPOCH,
                Event::Available(replica, place >= out),
                &mut NoDraw,
            );
        }
        let mut reasons = AbsentReplicas::default();
        for &(place, why) in absent {
            reasons.add(&replicas[place..=place], Some(why));
        }
        reasons.add(&replicas, None);
        let mut explanation = Explanation::new();
        let (query, mut draw) = (Query::first(), SplitMix64::new(1));
        let explained = Some(&mut explanation);
        let decision = policy.choose(Instant::EPOCH, query, &mut draw, explained);
        assert!(matches!(decision, Decision::Pick(_)));
        reasons.explain(&mut explanation);
        assert_eq!(explanation.out() as usize, out);
        let outs = explanation.outs().iter();
        let mut outs: Vec<_> = outs
            .map(|out| (out.replica.index(), out.why.as_str()))
            .collect();
        outs.sort_unstable();
        outs
    }

    #[test]
    fn excluded_replica_without_a_reason_is_not_in_use() {
        let found = explained(5, 3, &[(0, "down"), (2, "drained")]);
        assert_eq!(found, [(0, "down"), (1, NOT_IN_USE), (2, "drained")]);
        assert_eq!(explained(3, 0, &[]), []);
        let many = explained(40, 30, &[(29, "drained")]);
        assert_eq!(many.len(), Explanation::OUTS_MAX);
        assert!(many.contains(&(29, "drained")));
        let others = many.iter().filter(|(_, why)| *why == NOT_IN_USE);
        assert_eq!(others.count(), Explanation::OUTS_MAX - 1);
    }

    #[test]
    fn with_too_many_replicas_unknown_reasons_are_left_out() {
        let down: Vec<_> = (0..20).map(|place| (place, "down")).collect();
        let found = explained(40, 30, &down);
        assert!(found.iter().all(|(_, why)| *why == "down"), "{found:?}");
        let mut absent = AbsentReplicas::default();
        let mut ids = ReplicaIds::new();
        let parts: Vec<_> = (0..=Explanation::OUTS_MAX)
            .filter_map(|_| ids.allocate())
            .collect();
        absent.add(&parts, Some("down"));
        assert!(absent.is_cut, "the last reason is unknown");
        absent.clear();
        assert!(!absent.is_cut && absent.reasons.is_empty());
    }
}
