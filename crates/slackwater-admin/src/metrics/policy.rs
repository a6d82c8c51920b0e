//! Metrics of the policy: picks, probes, reports.

use super::super::status::PolicyCounts;
use super::family::Family;
use super::metric::{Label, OF_SERVICE, SERVICE};
use super::scrape::Scrape;
use super::text::Samples;
use std::collections::BTreeMap;

/// A count by its name; a missing one is 0.
fn of(counts: &BTreeMap<String, u64>, name: &str) -> u64 {
    counts.get(name).copied().unwrap_or_default()
}

fn each(it: &Scrape<'_>, out: &mut Samples<'_>, value: fn(&PolicyCounts) -> u64) {
    for service in &it.status.services {
        out.count(&[&service.name], value(&service.counts));
    }
}

fn probes(it: &Scrape<'_>, out: &mut Samples<'_>, name: &str) {
    for service in &it.status.services {
        out.count(&[&service.name], of(&service.counts.probes, name));
    }
}

/// `prefix` and a reason form the name of a count.
fn probes_by_reason(it: &Scrape<'_>, out: &mut Samples<'_>, prefix: &str, reasons: &[&str]) {
    for service in &it.status.services {
        for reason in reasons {
            let count = of(&service.counts.probes, &format!("{prefix}{reason}"));
            out.count(&[&service.name, reason], count);
        }
    }
}

fn all(
    it: &Scrape<'_>,
    out: &mut Samples<'_>,
    counts: fn(&PolicyCounts) -> &BTreeMap<String, u64>,
) {
    for service in &it.status.services {
        let counts = counts(&service.counts).iter();
        // `withheld` is not a reason of removal, and has its own metric.
        for (value, count) in counts.filter(|(name, _)| *name != "withheld") {
            out.count(&[&service.name, value], *count);
        }
    }
}

pub(super) const FAMILIES: &[Family] = &[
    Family::counter(
        "slackwater_picks",
        "Picks of a replica, by reason.",
        &[
            SERVICE,
            Label {
                name: "reason",
                meaning: "as [`counts.picks`](admin.md#counts)",
            },
        ],
        |it: &Scrape<'_>, out| all(it, out, |counts| &counts.picks),
    ),
    Family::counter(
        "slackwater_no_replica",
        "Requests without any replica to choose.",
        OF_SERVICE,
        |it, out| each(it, out, |counts| counts.no_replica),
    ),
    Family::counter(
        "slackwater_probes_sent",
        "Probes sent.",
        OF_SERVICE,
        |it, out| {
            probes(it, out, "sent");
        },
    ),
    Family::counter(
        "slackwater_probes_unsent",
        "Of those sent, discarded: this process's send queue was full.",
        OF_SERVICE,
        |it, out| probes(it, out, "unsent"),
    ),
    Family::counter(
        "slackwater_probes_answered",
        "Probes answered in time.",
        OF_SERVICE,
        |it, out| probes(it, out, "answered"),
    ),
    Family::counter(
        "slackwater_probes_lost",
        "Probes that failed or timed out.",
        OF_SERVICE,
        |it, out| probes(it, out, "lost"),
    ),
    Family::counter(
        "slackwater_probes_skipped",
        "Probes that were due and not sent.",
        &[
            SERVICE,
            Label {
                name: "reason",
                meaning: "`interval`: probed just before; `outstanding`: one was outstanding; `cap`, \
                  `rate`: the limits",
            },
        ],
        |it, out| {
            probes_by_reason(
                it,
                out,
                "skipped_",
                &["interval", "outstanding", "cap", "rate"],
            );
        },
    ),
    Family::counter(
        "slackwater_probes_backed_off",
        "Probes that requests did not trigger because of an overload.",
        OF_SERVICE,
        |it, out| probes(it, out, "backed_off"),
    ),
    Family::counter(
        "slackwater_probes_idle",
        "Idle probes.",
        OF_SERVICE,
        |it, out| probes(it, out, "idle"),
    ),
    Family::counter(
        "slackwater_probes_local",
        "Probes of unprobed replicas, answered from local measurements.",
        OF_SERVICE,
        |it, out| probes(it, out, "local"),
    ),
    Family::counter(
        "slackwater_reports_ignored",
        "Answers to probes that were not used.",
        &[
            SERVICE,
            Label {
                name: "reason",
                meaning: "`late`: after the deadline; `unknown`: the replica had left",
            },
        ],
        |it, out| {
            for service in &it.status.services {
                let count = |name: &str| of(&service.counts.probes, name);
                out.count(&[&service.name, "late"], count("answered_late"));
                out.count(&[&service.name, "unknown"], count("answered_by_unknown"));
            }
        },
    ),
    Family::counter(
        "slackwater_reports_removed",
        "Reports removed from the pool.",
        &[
            SERVICE,
            Label {
                name: "reason",
                meaning: "`spent`: no uses left; `expired`; `oldest`, `worst`: by rate; `evicted`: pool \
                  full; `replaced`: by a newer one",
            },
        ],
        |it, out| all(it, out, |counts| &counts.removals),
    ),
    Family::counter(
        "slackwater_removals_withheld",
        "Removals by rate not made because two reports must stay.",
        OF_SERVICE,
        |it, out| each(it, out, |counts| of(&counts.removals, "withheld")),
    ),
    Family::counter(
        "slackwater_sync_rounds",
        "Synchronous probing rounds.",
        OF_SERVICE,
        |it, out| each(it, out, |counts| counts.rounds),
    ),
    Family::counter(
        "slackwater_probing_seconds",
        "Time that requests spent in synchronous probing.",
        OF_SERVICE,
        |it, out| {
            for service in &it.status.services {
                out.number(&[&service.name], service.counts.probing_ns as f64 / 1e9);
            }
        },
    ),
];
