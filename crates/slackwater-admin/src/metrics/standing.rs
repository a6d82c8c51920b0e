//! Where replicas stand by how requests to them went, and what became of them.

use super::super::standing::{StandingCounts, StandingStatus};
use super::family::Family;
use super::metric::{Label, OF_REPLICA, OF_SERVICE, SERVICE};
use super::scrape::Scrape;
use super::text::Samples;
use slackwater_core::health::HealthState;

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

fn states(it: &Scrape<'_>, out: &mut Samples<'_>) {
    for service in &it.status.services {
        let own = it.status.replicas.iter();
        let own = own.filter(|replica| replica.service == service.name);
        let states: Vec<_> = own
            .filter_map(|replica| Some(replica.standing.as_ref()?.state.as_str()))
            .collect();
        // Where nobody watches there is nothing to tell.
        for state in HealthState::ALL.iter().filter(|_| !states.is_empty()) {
            let number = states.iter().filter(|it| **it == state.as_str()).count();
            out.count(&[&service.name, state.as_str()], number as u64);
        }
    }
}

pub(super) const FAMILIES: &[Family] = &[
    Family::gauge(
        "slackwater_replicas",
        "Deprecated: read `slackwater_replicas_in_state`. Replicas by how requests to them went, at the worker that judges them \
         worst; absent where no worker watches.",
        &[
            SERVICE,
            Label {
                name: "state",
                meaning: "`sound`, `warming_up`, `pushing_back`, `held_back`, `returning`, `ejected` or `on_probation` \
                          ([health](../explanation/health.md#what-requests-tell))",
            },
        ],
        states,
    ),
    Family::gauge(
        "slackwater_replica_share",
        "The part of its requests that the replica gets, 0 to 1, as the mean over workers.",
        OF_REPLICA,
        |it: &Scrape<'_>, out| {
            of_replicas(it, out, |standing| {
                Some(f64::from(standing.share_millionths) / 1e6)
            });
        },
    ),
    Family::gauge(
        "slackwater_replica_success_ratio",
        "The part of the replica's requests that succeed, as workers estimated it last.",
        OF_REPLICA,
        |it, out| {
            of_replicas(it, out, |standing| {
                Some(f64::from(standing.success_millionths) / 1e6)
            });
        },
    ),
    Family::gauge(
        "slackwater_replica_latency_seconds",
        "What the replica's good answers took of late, as workers see it; absent if there were none.",
        OF_REPLICA,
        |it, out| of_replicas(it, out, |standing| Some(standing.latency_us? as f64 / 1e6)),
    ),
    Family::counter(
        "slackwater_ejections",
        "Replicas taken out for their failures, by one worker each.",
        OF_SERVICE,
        |it, out| each(it, out, |counts| counts.ejections),
    ),
    Family::counter(
        "slackwater_probations",
        "Replicas taken out for being slow or having stopped, by one worker each.",
        OF_SERVICE,
        |it, out| each(it, out, |counts| counts.probations),
    ),
    Family::counter(
        "slackwater_ejections_spared",
        "Replicas not taken out because too many were.",
        OF_SERVICE,
        |it, out| each(it, out, |counts| counts.spared),
    ),
    Family::counter(
        "slackwater_readmissions",
        "Replicas that came back from being out.",
        OF_SERVICE,
        |it, out| each(it, out, |counts| counts.readmissions),
    ),
    Family::counter(
        "slackwater_trials",
        "Requests sent as trials to replicas that were out.",
        OF_SERVICE,
        |it, out| each(it, out, |counts| counts.trials),
    ),
    Family::counter(
        "slackwater_trials_passed",
        "Of these, those that went well.",
        OF_SERVICE,
        |it, out| each(it, out, |counts| counts.trials_passed),
    ),
    Family::counter(
        "slackwater_warm_ups",
        "Warm-ups by evidence that began: of replicas that joined or restarted.",
        OF_SERVICE,
        |it, out| each(it, out, |counts| counts.warm_ups),
    ),
];
