//! Who reads which section, and who sends probes.

/// What a policy reads.
struct Reads {
    policy: &'static str,
    sections: &'static [&'static str],
    probes: bool,
}

const fn probing(policy: &'static str, sections: &'static [&'static str]) -> Reads {
    Reads {
        policy,
        sections,
        probes: true,
    }
}

const fn silent(policy: &'static str, sections: &'static [&'static str]) -> Reads {
    Reads {
        policy,
        sections,
        probes: false,
    }
}

const READS: &[Reads] = &[
    probing("prequal", &["prequal"]),
    probing("prequal_sync", &["prequal"]),
    probing("linear", &["prequal", "linear"]),
    probing("c3", &["prequal", "c3"]),
    probing("rif_then_latency", &["prequal", "rif_then_latency"]),
    probing(
        "shortest_expected_delay",
        &["prequal", "shortest_expected_delay"],
    ),
    probing("capacity", &["prequal", "capacity"]),
    silent("least_loaded", &[]),
    silent("power_of_d", &["power_of_d"]),
    silent("peak_ewma", &["peak_ewma"]),
    silent("els", &["els"]),
    probing("polled_power_of_d", &["polled_power_of_d"]),
    probing("weighted_round_robin", &["weighted_round_robin"]),
    silent("round_robin", &[]),
    silent("random", &[]),
];

/// Whether the policy of that name asks replicas for their load.
pub(crate) fn has_probes(policy: &str) -> bool {
    (READS.iter()).any(|reads| reads.policy == policy && reads.probes)
}

/// Whether the policy of that name reads the section.
pub(crate) fn reads(policy: &str, section: &str) -> bool {
    readers_of(section).any(|reader| reader == policy)
}

/// The policies that read the section; none if it is no policy's.
pub(crate) fn readers_of(section: &str) -> impl Iterator<Item = &'static str> {
    let readers = READS
        .iter()
        .filter(move |reads| reads.sections.contains(&section));
    readers.map(|reads| reads.policy)
}

/// The policies' sections, in the order of their first readers.
pub(crate) fn all_sections() -> Vec<&'static str> {
    let mut sections = Vec::new();
    for section in READS.iter().flat_map(|reads| reads.sections) {
        if !sections.contains(section) {
            sections.push(*section);
        }
    }
    sections
}

#[cfg(test)]
mod tests {
    use super::*;
    use slackwater_core::policy::{Decision, Event, POLICIES, PolicyEntry, PolicySettings, Query};
    use slackwater_core::{Instant, NoDraw, ReplicaIds};

    /// Whether it wants a probe within its first query or two seconds after.
    fn wants_probes(entry: &PolicyEntry) -> bool {
        let mut policy = (entry.build)(&PolicySettings::default());
        let draw = &mut || 0_u64;
        let start = Instant::from_nanos(0);
        let mut ids = ReplicaIds::new();
        for replica in (0..3).filter_map(|_| ids.allocate()) {
            policy.handle(start, Event::Added(replica), &mut NoDraw);
        }
        let decision = policy.choose(start, Query::first(), draw, None);
        let later = Instant::from_nanos(2_000_000_000);
        let is_round = matches!(decision, Decision::Probe(_));
        is_round || policy.poll_probe(start, draw).is_some() || {
            policy.handle(later, Event::Timeout, draw);
            policy.poll_probe(later, draw).is_some()
        }
    }

    #[test]
    fn every_policy_is_here_and_those_that_probe_are_said_to() {
        let named: Vec<_> = READS.iter().map(|reads| reads.policy).collect();
        let listed: Vec<_> = POLICIES.iter().map(|entry| entry.name).collect();
        assert_eq!(named, listed);
        for entry in POLICIES {
            assert_eq!(
                has_probes(entry.name),
                wants_probes(entry),
                "{}",
                entry.name
            );
        }
    }
}
