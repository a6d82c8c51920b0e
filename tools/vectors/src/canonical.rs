//! The canonical text of a policy's state, and its hash. `vectors/policy/README.md` describes both.

use core::fmt::Write;
use slackwater_core::Instant;
use slackwater_core::policy::{Counters, KeyView, Policy, Snapshot};

/// FNV-1a with 64 bits.
pub(crate) fn fnv1a(text: &str) -> u64 {
    text.bytes().fold(0xCBF2_9CE4_8422_2325, |hash, byte| {
        (hash ^ u64::from(byte)).wrapping_mul(0x0000_0100_0000_01B3)
    })
}

/// The names of all counters, sorted.
pub fn counter_names() -> Vec<String> {
    let counts = counts(&Counters::default());
    counts.into_iter().map(|(name, _)| name).collect()
}

/// The counters by name.
fn counts(counters: &Counters) -> Vec<(String, u64)> {
    let health = &counters.health;
    let mut counts: Vec<(String, u64)> = (counters.picks.iter())
        .map(|(reason, picks)| (format!("picks.{reason}"), picks))
        .collect();
    let others = [
        ("no_replica", counters.no_replica),
        ("probes_sent", counters.probes_sent),
        ("probes_unsent", counters.probes_unsent),
        ("probes_answered", counters.probes_answered),
        ("probes_lost", counters.probes_lost),
        ("reports_late", counters.reports_late),
        ("reports_unknown", counters.reports_unknown),
        ("probes_skipped_interval", counters.probes_skipped_interval),
        (
            "probes_skipped_outstanding",
            counters.probes_skipped_outstanding,
        ),
        ("probes_skipped_cap", counters.probes_skipped_cap),
        ("probes_skipped_rate", counters.probes_skipped_rate),
        ("probes_backed_off", counters.probes_backed_off),
        ("probes_idle", counters.probes_idle),
        ("probes_local", counters.probes_local),
        ("removed_spent", counters.removed_spent),
        ("removed_expired", counters.removed_expired),
        ("removed_oldest", counters.removed_oldest),
        ("removed_worst", counters.removed_worst),
        ("removals_withheld", counters.removals_withheld),
        ("evicted", counters.evicted),
        ("replaced", counters.replaced),
        ("rounds", counters.rounds),
        ("probing_ns", counters.probing_ns),
        ("health.ejections", health.ejections),
        ("health.probations", health.probations),
        ("health.spared", health.spared),
        ("health.readmissions", health.readmissions),
        ("health.trials", health.trials),
        ("health.trials_passed", health.trials_passed),
        ("health.warm_ups", health.warm_ups),
    ];
    counts.extend(others.map(|(name, count)| (name.to_owned(), count)));
    counts.sort();
    counts
}

/// The state of a policy as lines of text.
pub(crate) fn text(policy: &dyn Policy, now: Instant) -> String {
    let mut text = String::new();
    // Writing to a string does not fail.
    let counts = counts(&policy.counters()).into_iter();
    for (name, count) in counts.filter(|&(_, count)| count > 0) {
        let _ = writeln!(text, "{name} {count}");
    }
    let snapshot = policy.snapshot(now);
    put_replicas(&mut text, &snapshot);
    if !snapshot.order.is_empty() {
        text.push_str("order");
        for ranked in &snapshot.order {
            let _ = write!(text, " {}", ranked.replica.to_bits());
        }
        text.push('\n');
    }
    if let Some(next) = snapshot.next {
        let _ = writeln!(text, "next {}", next.to_bits());
    }
    if let Some(rif) = snapshot.rif_limit {
        let _ = writeln!(text, "rif_limit {rif}");
    }
    if let Some(rate) = snapshot.probe_rate {
        let _ = writeln!(text, "probe_rate {}", rate.millionths());
    }
    for view in &snapshot.health {
        let _ = write!(
            text,
            "health {} {} share={} success={}",
            view.replica.to_bits(),
            view.state,
            view.share_millionths,
            view.success_millionths
        );
        if let Some(latency) = view.latency {
            let _ = write!(text, " latency={}", latency.as_nanos());
        }
        text.push_str(if view.is_slow { " slow\n" } else { "\n" });
    }
    if let Some(keys) = &snapshot.keys {
        put_keys(&mut text, keys);
    }
    text
}

fn put_keys(text: &mut String, keys: &KeyView) {
    let _ = write!(text, "keys replicated={}", keys.replicated);
    if let Some(cap) = keys.cap {
        let _ = write!(text, " cap={cap}");
    }
    text.push('\n');
    for view in &keys.partitions {
        let _ = write!(
            text,
            "partition {} homes={} in_flight={} mean={} rate={} servers",
            view.partition,
            view.homes,
            view.in_flight,
            view.in_flight_millis,
            view.query_rate_millis
        );
        for server in &view.servers {
            let _ = write!(text, " {}", server.to_bits());
        }
        text.push('\n');
    }
}

fn put_replicas(text: &mut String, snapshot: &Snapshot) {
    let word = |text: &mut String, is_so: bool, word: &str| {
        if is_so {
            text.push(' ');
            text.push_str(word);
        }
    };
    for view in &snapshot.replicas {
        let _ = write!(
            text,
            "replica {} in_flight={}",
            view.replica.to_bits(),
            view.in_flight
        );
        word(text, view.available, "available");
        word(text, view.draining, "draining");
        word(text, view.unprobed, "unprobed");
        word(text, view.lost, "lost");
        text.push('\n');
    }
    for view in &snapshot.pool {
        let _ = write!(
            text,
            "report {} rif={} age={} uses={}",
            view.replica.to_bits(),
            view.rif,
            view.age.as_nanos(),
            view.uses_left
        );
        if let Some(latency) = view.latency {
            let _ = write!(text, " latency={}", latency.as_nanos());
        }
        word(text, view.local, "local");
        word(text, view.hot, "hot");
        text.push('\n');
    }
}

#[cfg(test)]
mod tests {
    use super::{counter_names, fnv1a};
    use slackwater_core::policy::Counters;

    #[test]
    fn hash_is_the_published_fnv_1a() {
        assert_eq!(fnv1a(""), 0xCBF2_9CE4_8422_2325);
        assert_eq!(fnv1a("a"), 0xAF63_DC4C_8601_EC8C);
        assert_eq!(fnv1a("foobar"), 0x8594_4171_F739_67E8);
    }

    #[test]
    fn each_counter_of_the_core_has_a_name() {
        // The debug text names each field, also one that is new.
        let debug = format!("{:?}", Counters::default());
        let fields = debug
            .split([' ', '{', '(', '['])
            .filter_map(|word| word.strip_suffix(':'));
        let mut expected: Vec<&str> = fields
            .filter(|it| !["picks", "health"].contains(it))
            .collect();
        expected.sort_unstable();
        let names = counter_names();
        let names = names.iter().filter(|name| !name.starts_with("picks."));
        let mut names: Vec<&str> = names.map(|it| it.trim_start_matches("health.")).collect();
        names.sort_unstable();
        assert_eq!(names, expected);
    }
}
