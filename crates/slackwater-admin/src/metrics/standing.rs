//! Metrics of passive health: what it found about replicas, and its mechanisms' counts.

use super::super::standing::{StandingCounts, StandingStatus};
use super::family::Family;
use super::metric::{OF_REPLICA, OF_SERVICE};
use super::scrape::Scrape;
use super::text::Samples;

fn each(it: &Scrape<'_>, out: &mut Samples<'_>, value: fn(&StandingCounts) -> u64) {
    for service in &it.status.services {
        out.count(&[&service.name], value(&service.counts.standing));
    }
}

fn of_replicas(it: &Scrape<'_>, out: &mut Samples<'_>, value: fn(&StandingStatus) -> Option<f64>) {
    for (row, replica) in it.each_replica() {
        if let Some(value) = replica.standing.as_ref().and_then(value) {
            out.number(&row.labels(), value);
        }
    }
}

pub(super) const FAMILIES: &[Family] = &[
    Family::gauge(
        "slackwater_replica_share",
        "Share of its usual requests that the replica gets, 0 to 1.",
        OF_REPLICA,
        |it: &Scrape<'_>, out| {
            of_replicas(it, out, |standing| {
                Some(f64::from(standing.share_millionths) / 1e6)
            });
        },
    ),
    Family::gauge(
        "slackwater_replica_success_ratio",
        "Success rate of the replica, as last estimated.",
        OF_REPLICA,
        |it, out| {
            of_replicas(it, out, |standing| {
                Some(f64::from(standing.success_millionths) / 1e6)
            });
        },
    ),
    Family::gauge(
        "slackwater_replica_latency_seconds",
        "Recent latency of the replica's good responses; absent if none.",
        OF_REPLICA,
        |it, out| of_replicas(it, out, |standing| Some(standing.latency_us? as f64 / 1e6)),
    ),
    Family::counter(
        "slackwater_ejections",
        "Replicas ejected for failures, each by one worker.",
        OF_SERVICE,
        |it, out| each(it, out, |counts| counts.ejections),
    ),
    Family::counter(
        "slackwater_probations",
        "Replicas ejected for slowness, each by one worker.",
        OF_SERVICE,
        |it, out| each(it, out, |counts| counts.probations),
    ),
    Family::counter(
        "slackwater_ejections_spared",
        "Replicas not ejected because too many were.",
        OF_SERVICE,
        |it, out| each(it, out, |counts| counts.spared),
    ),
    Family::counter(
        "slackwater_readmissions",
        "Replicas readmitted after an ejection.",
        OF_SERVICE,
        |it, out| each(it, out, |counts| counts.readmissions),
    ),
    Family::counter(
        "slackwater_trials",
        "Requests sent to ejected replicas as trials.",
        OF_SERVICE,
        |it, out| each(it, out, |counts| counts.trials),
    ),
    Family::counter(
        "slackwater_trials_passed",
        "Trials that succeeded.",
        OF_SERVICE,
        |it, out| each(it, out, |counts| counts.trials_passed),
    ),
    Family::counter(
        "slackwater_warm_ups",
        "Warm-ups of new or restarted replicas that began.",
        OF_SERVICE,
        |it, out| each(it, out, |counts| counts.warm_ups),
    ),
];
