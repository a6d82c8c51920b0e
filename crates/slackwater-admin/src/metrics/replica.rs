//! Metrics of replicas: whether they may be chosen, what they report, and the results of requests
//! to them.

use super::super::reported_status::ReportedStatus;
use super::super::status::ReplicaStatus;
use super::family::Family;
use super::metric::{Label, OF_REPLICA, REPLICA, SERVICE};
use super::scrape::Scrape;
use super::text::Samples;
use slackwater_telemetry::facts::RequestCounts;
use slackwater_telemetry::replica_state::ReplicaState;

/// Writes a value for each replica with its own series.
fn each(it: &Scrape<'_>, out: &mut Samples<'_>, value: fn(&ReplicaStatus) -> u64) {
    for (row, replica) in it.each_replica() {
        out.count(&row.labels(), value(replica));
    }
}

/// Writes a count for each replica with its own series, and one for the others together.
fn counts(it: &Scrape<'_>, out: &mut Samples<'_>, value: fn(&RequestCounts) -> u64) {
    for row in &it.replicas {
        out.count(&row.labels(), value(&row.counted.requests));
    }
}

fn split<const N: usize>(
    it: &Scrape<'_>,
    out: &mut Samples<'_>,
    values: fn(&RequestCounts) -> [(&'static str, u64); N],
) {
    for row in &it.replicas {
        for (value, count) in values(&row.counted.requests) {
            out.count(&[row.service, row.name, value], count);
        }
    }
}

fn reported(it: &Scrape<'_>, out: &mut Samples<'_>, value: fn(&ReportedStatus) -> Option<f64>) {
    for (row, replica) in it.each_replica() {
        if let Some(value) = replica.reported.as_ref().and_then(value) {
            out.number(&row.labels(), value);
        }
    }
}

/// A replica's state.
const STATE: Label = Label {
    name: "state",
    meaning: "a [state](live.md#states)",
};

pub(super) const FAMILIES: &[Family] = &[
    Family::gauge(
        "slackwater_replica_state",
        "1 for the replica's state; absent for all others.",
        &[SERVICE, REPLICA, STATE],
        |it: &Scrape<'_>, out| {
            for (row, replica) in it.each_replica() {
                out.count(&[row.service, row.name, &replica.state], 1);
            }
        },
    ),
    Family::gauge(
        "slackwater_replica_state_timestamp_seconds",
        "Begin of that state, since 1970; absent if the replica was never in another.",
        OF_REPLICA,
        |it: &Scrape<'_>, out| {
            for (row, replica) in it.each_replica() {
                if let Some(since_ms) = replica.since_ms {
                    out.number(&row.labels(), since_ms as f64 / 1e3);
                }
            }
        },
    ),
    Family::gauge(
        "slackwater_replicas_in_state",
        "Replicas of the service by state, all of them.",
        &[SERVICE, STATE],
        |it: &Scrape<'_>, out| {
            for service in &it.status.services {
                for state in ReplicaState::ALL {
                    let replicas = it.status.replicas.iter();
                    let own = replicas
                        .filter(|it| it.service == service.name && it.state == state.as_str());
                    out.count(&[&service.name, state.as_str()], own.count() as u64);
                }
            }
        },
    ),
    Family::gauge(
        "slackwater_replica_available",
        "1 if every worker may choose the replica.",
        OF_REPLICA,
        |it: &Scrape<'_>, out| each(it, out, |replica| replica.available.into()),
    ),
    Family::gauge(
        "slackwater_replica_weight",
        "Weight of the replica.",
        OF_REPLICA,
        |it, out| each(it, out, |replica| replica.weight.into()),
    ),
    Family::gauge(
        "slackwater_replica_tier",
        "Tier of the replica.",
        OF_REPLICA,
        |it, out| each(it, out, |replica| replica.tier.into()),
    ),
    Family::gauge(
        "slackwater_replica_healthy",
        "0 if health checks failed; absent without checks.",
        OF_REPLICA,
        |it, out| {
            for (row, replica) in it.each_replica() {
                if let Some(health) = &replica.health {
                    out.count(&row.labels(), u64::from(health.verdict != "down"));
                }
            }
        },
    ),
    Family::counter(
        "slackwater_health_checks",
        "Health checks of the replica.",
        &[
            SERVICE,
            REPLICA,
            Label {
                name: "result",
                meaning: "`passed` or `failed`",
            },
        ],
        |it, out| {
            for row in &it.replicas {
                if let Some((passed, failed)) = row.counted.checks {
                    out.count(&[row.service, row.name, "passed"], passed);
                    out.count(&[row.service, row.name, "failed"], failed);
                }
            }
        },
    ),
    Family::counter(
        "slackwater_replica_health_changes",
        "Changes of the health checks' verdict; absent without checks.",
        &[
            SERVICE,
            REPLICA,
            Label {
                name: "to",
                meaning: "`down` or `up`",
            },
        ],
        |it, out| {
            for (row, replica) in it.each_replica() {
                if let Some(health) = &replica.health {
                    out.count(&[row.service, row.name, "down"], health.went_down);
                    out.count(&[row.service, row.name, "up"], health.came_back);
                }
            }
        },
    ),
    Family::gauge(
        "slackwater_replica_reported_rif_requests",
        "Requests in flight that the replica last reported.",
        OF_REPLICA,
        |it, out| reported(it, out, |reported| Some(reported.rif.into())),
    ),
    Family::gauge(
        "slackwater_replica_reported_latency_seconds",
        "Latency that the replica last reported; absent if unknown.",
        OF_REPLICA,
        |it, out| reported(it, out, |reported| Some(reported.latency_us? as f64 / 1e6)),
    ),
    Family::gauge(
        "slackwater_replica_reported_capacity_requests",
        "Capacity in requests in flight that the replica last reported; absent if unknown.",
        OF_REPLICA,
        |it, out| {
            reported(it, out, |reported| {
                Some(f64::from(reported.capacity_millirif?) / 1e3)
            });
        },
    ),
    Family::gauge(
        "slackwater_replica_reported_cost_seconds",
        "Cost of a request that the replica last reported; absent if unknown.",
        OF_REPLICA,
        |it, out| reported(it, out, |reported| Some(reported.cost_us? as f64 / 1e6)),
    ),
    Family::gauge(
        "slackwater_replica_report_age_seconds",
        "Age of the replica's last report.",
        OF_REPLICA,
        |it, out| reported(it, out, |reported| Some(reported.age_ms as f64 / 1e3)),
    ),
    Family::gauge(
        "slackwater_replica_in_flight_requests",
        "Requests in flight at the replica from this process.",
        OF_REPLICA,
        |it, out| {
            for row in &it.replicas {
                out.count(&row.labels(), row.in_flight);
            }
        },
    ),
    Family::histogram(
        "slackwater_replica_head_seconds",
        "From the pick to the response's head; of an agent, from the request's arrival.",
        OF_REPLICA,
        |it, out| {
            for row in &it.replicas {
                out.latencies(&row.labels(), &row.counted.heads, None);
            }
        },
    ),
    Family::counter(
        "slackwater_requests",
        "Requests sent to the replica, retries and copies included.",
        OF_REPLICA,
        |it, out| counts(it, out, |requests| requests.sent),
    ),
    Family::counter(
        "slackwater_retries",
        "Requests sent to the replica after another replica was tried.",
        OF_REPLICA,
        |it, out| counts(it, out, |requests| requests.retries),
    ),
    Family::counter(
        "slackwater_replica_hedges",
        "Hedges sent to the replica.",
        OF_REPLICA,
        |it, out| counts(it, out, |requests| requests.hedges),
    ),
    Family::counter(
        "slackwater_replica_superseded",
        "Requests cancelled because another copy was answered first.",
        OF_REPLICA,
        |it, out| counts(it, out, |requests| requests.superseded),
    ),
    Family::counter(
        "slackwater_replica_connections",
        "Requests answered by the replica over a new connection.",
        OF_REPLICA,
        |it, out| counts(it, out, |requests| requests.connections),
    ),
    Family::counter(
        "slackwater_responses",
        "Responses of the replica, by class.",
        &[
            SERVICE,
            REPLICA,
            Label {
                name: "class",
                meaning: "`1xx` to `5xx`",
            },
        ],
        |it, out| {
            split(it, out, |requests| {
                [
                    ("1xx", requests.responses_1xx),
                    ("2xx", requests.responses_2xx),
                    ("3xx", requests.responses_3xx),
                    ("4xx", requests.responses_4xx),
                    ("5xx", requests.responses_5xx),
                ]
            });
        },
    ),
    Family::counter(
        "slackwater_request_failures",
        "Requests to the replica without a complete response.",
        &[
            SERVICE,
            REPLICA,
            Label {
                name: "kind",
                meaning: "`connect`; `timeout`; `broken`; `client_gone`",
            },
        ],
        |it, out| {
            split(it, out, |requests| {
                [
                    ("connect", requests.connect_failures),
                    ("timeout", requests.timeouts),
                    ("broken", requests.broken),
                    ("client_gone", requests.client_gone),
                ]
            });
        },
    ),
    Family::counter(
        "slackwater_replica_full",
        "Requests that found no free connection at the replica.",
        OF_REPLICA,
        |it, out| counts(it, out, |requests| requests.full),
    ),
    Family::counter(
        "slackwater_replica_shed",
        "Requests that the replica or its agent shed.",
        OF_REPLICA,
        |it, out| counts(it, out, |requests| requests.shed),
    ),
    Family::counter(
        "slackwater_grpc_failures",
        "Responses of the replica with a gRPC server error.",
        OF_REPLICA,
        |it, out| counts(it, out, |requests| requests.grpc_failures),
    ),
    Family::counter(
        "slackwater_reports_carried",
        "Reports in the replica's responses that the policy received.",
        OF_REPLICA,
        |it, out| counts(it, out, |requests| requests.reports_carried),
    ),
];
