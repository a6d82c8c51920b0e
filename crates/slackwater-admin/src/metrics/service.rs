//! Metrics of requests to a service, as clients see them and before a replica received them.

use super::family::Family;
use super::metric::{Label, OF_SERVICE, SERVICE};
use super::scrape::Scrape;
use super::text::Samples;
use slackwater_telemetry::exemplars::Exemplars;
use slackwater_telemetry::facts::latency::{LatencyFacts, ResponseClass, ServiceExemplars};
use slackwater_telemetry::facts::{AdmissionCounts, BudgetFacts, LineFacts};
use slackwater_telemetry::latency_histogram::Latencies;

const CLASS: Label = Label {
    name: "class",
    meaning: "`1xx` to `5xx`; `grpc_failed`: 2xx with a gRPC server error; `broken`: the \
                  replica broke off or stalled; `client_gone`",
};

const OF_BUDGET: &[Label] = &[
    SERVICE,
    Label {
        name: "budget",
        meaning: "`retry`: concurrent retries; `hedge`, `tie`: second copies, up to `burst` for \
                  each worker; absent where off",
    },
];

const REASON: &str = "reason";

fn each(it: &Scrape<'_>, out: &mut Samples<'_>, value: fn(&AdmissionCounts) -> u64) {
    for service in &it.status.services {
        out.count(&[&service.name], value(&service.admission));
    }
}

fn line(it: &Scrape<'_>, out: &mut Samples<'_>, value: fn(&LineFacts) -> u64) {
    for service in &it.status.services {
        if let Some(line) = &service.line {
            out.count(&[&service.name], value(line));
        }
    }
}

fn budgets(it: &Scrape<'_>, out: &mut Samples<'_>, millionths: fn(&BudgetFacts) -> u64) {
    for (service, budgets) in it.status.services.iter().zip(&it.budgets) {
        for budget in budgets {
            let copies = millionths(budget) as f64 / 1e6;
            out.number(&[&service.name, budget.name], copies);
        }
    }
}

fn split<const N: usize>(
    it: &Scrape<'_>,
    out: &mut Samples<'_>,
    values: fn(&AdmissionCounts) -> [(&'static str, u64); N],
) {
    for service in &it.status.services {
        for (value, count) in values(&service.admission) {
            out.count(&[&service.name, value], count);
        }
    }
}

fn by_class(
    it: &Scrape<'_>,
    out: &mut Samples<'_>,
    latencies: fn(&LatencyFacts) -> &[Latencies],
    exemplars: fn(&ServiceExemplars) -> &[Exemplars],
) {
    // An agent does not record them.
    if it.status.role == "agent" {
        return;
    }
    let counted = it.latencies.iter().map(latencies);
    let counted = counted.zip(it.exemplars.iter().map(exemplars));
    for (service, (latencies, exemplars)) in it.status.services.iter().zip(counted) {
        let classes = ResponseClass::ALL.iter().zip(latencies).zip(exemplars);
        for ((class, latencies), exemplars) in classes {
            out.latencies(&[&service.name, class.as_str()], latencies, Some(exemplars));
        }
    }
}

pub(super) const FAMILIES: &[Family] = &[
    Family::histogram(
        "slackwater_request_duration_seconds",
        "From a request's head to the end of its response.",
        &[SERVICE, CLASS],
        |it: &Scrape<'_>, out| by_class(it, out, |it| &it.total, |it| &it.total),
    ),
    Family::histogram(
        "slackwater_request_first_byte_seconds",
        "From a request's head to its response's head, over all attempts; `client_gone`: until the client left \
         without one.",
        &[SERVICE, CLASS],
        |it, out| by_class(it, out, |it| &it.first_byte, |it| &it.first_byte),
    ),
    Family::gauge(
        "slackwater_service_failing",
        "1 while all replicas of the service that should take requests are down, ejected or unreachable; requests are still sent \
         to them.",
        OF_SERVICE,
        |it, out| {
            for service in &it.status.services {
                out.count(&[&service.name], service.standing.all_fail.into());
            }
        },
    ),
    Family::gauge(
        "slackwater_tier",
        "The highest tier in use; absent if no replica is available.",
        OF_SERVICE,
        |it, out| {
            for service in &it.status.services {
                if let Some(tier) = service.tier {
                    out.count(&[&service.name], tier.into());
                }
            }
        },
    ),
    Family::gauge(
        "slackwater_queue_inside_requests",
        "Requests that hold a permit; absent without `queue.requests_max`.",
        OF_SERVICE,
        |it, out| line(it, out, |line| line.inside),
    ),
    Family::gauge(
        "slackwater_queue_waiting_requests",
        "Requests that wait for a permit; absent without `queue.requests_max`.",
        OF_SERVICE,
        |it, out| line(it, out, |line| line.waiting),
    ),
    Family::gauge(
        "slackwater_queue_waiting_age_seconds",
        "Age of the oldest request that waits for a permit; 0 if none.",
        OF_SERVICE,
        |it, out| {
            for service in &it.status.services {
                if let Some(line) = &service.line {
                    out.number(&[&service.name], line.age_us as f64 / 1e6);
                }
            }
        },
    ),
    Family::histogram(
        "slackwater_queue_wait_seconds",
        "Waiting time of requests that had to wait for a permit.",
        OF_SERVICE,
        |it, out| {
            for (service, waits) in it.status.services.iter().zip(&it.waits) {
                if service.line.is_some() {
                    out.latencies(&[&service.name], waits, None);
                }
            }
        },
    ),
    Family::counter(
        "slackwater_queued",
        "Requests that had to wait for a permit.",
        OF_SERVICE,
        |it, out| each(it, out, |counts| counts.queued),
    ),
    Family::counter(
        "slackwater_shed",
        "Requests shed before they reached a replica.",
        &[
            SERVICE,
            Label {
                name: REASON,
                meaning: "`queue_full`; `wait_over`: `queue.wait_max`; `deadline`: the request's own; \
                  `replicas_full`: no free connection",
            },
        ],
        |it, out| {
            split(it, out, |counts| {
                [
                    ("queue_full", counts.shed_queue_full),
                    ("wait_over", counts.shed_wait_over),
                    ("deadline", counts.shed_deadline),
                    ("replicas_full", counts.shed_replicas_full),
                ]
            });
        },
    ),
    Family::gauge(
        "slackwater_budget_left_requests",
        "Further copies of requests that the budget allows now.",
        OF_BUDGET,
        |it, out| budgets(it, out, |budget| budget.left_millionths),
    ),
    Family::gauge(
        "slackwater_budget_size_requests",
        "Further copies of requests that the full budget allows.",
        OF_BUDGET,
        |it, out| budgets(it, out, |budget| budget.size_millionths),
    ),
    Family::counter(
        "slackwater_retries_over_budget",
        "Retries not made because the budget was spent.",
        OF_SERVICE,
        |it, out| each(it, out, |counts| counts.retries_over_budget),
    ),
    Family::counter(
        "slackwater_hedges",
        "Hedges sent: second copies of late requests.",
        OF_SERVICE,
        |it, out| each(it, out, |counts| counts.hedges),
    ),
    Family::counter(
        "slackwater_hedges_won",
        "Hedges whose response was used.",
        OF_SERVICE,
        |it, out| each(it, out, |counts| counts.hedges_won),
    ),
    Family::counter(
        "slackwater_hedges_withheld",
        "Late requests without a hedge.",
        &[
            SERVICE,
            Label {
                name: REASON,
                meaning: "`budget`: spent; `slow`: too many were late",
            },
        ],
        |it, out| {
            split(it, out, |counts| {
                [
                    ("budget", counts.hedges_over_budget),
                    ("slow", counts.hedges_while_slow),
                ]
            });
        },
    ),
    Family::counter(
        "slackwater_hedges_unknown",
        "Requests without a known hedging deadline: too few samples.",
        OF_SERVICE,
        |it, out| each(it, out, |counts| counts.hedges_unknown),
    ),
    Family::counter(
        "slackwater_ties",
        "Tied requests.",
        OF_SERVICE,
        |it, out| each(it, out, |counts| counts.ties),
    ),
    Family::counter(
        "slackwater_ties_sent",
        "Tied requests whose second copy was sent.",
        OF_SERVICE,
        |it, out| each(it, out, |counts| counts.ties_sent),
    ),
    Family::counter(
        "slackwater_ties_won",
        "Tied requests whose second copy's response was used.",
        OF_SERVICE,
        |it, out| each(it, out, |counts| counts.ties_won),
    ),
    Family::counter(
        "slackwater_ties_dropped",
        "Copies that a replica dropped because the other had begun.",
        OF_SERVICE,
        |it, out| each(it, out, |counts| counts.ties_dropped),
    ),
    Family::counter(
        "slackwater_ties_over_budget",
        "Tied requests without a second copy, because the budget was spent.",
        OF_SERVICE,
        |it, out| each(it, out, |counts| counts.ties_over_budget),
    ),
    Family::counter(
        "slackwater_replica_connections_ended",
        "Connections to replicas that ended.",
        &[
            SERVICE,
            Label {
                name: REASON,
                meaning: "`idle`; `surplus`: enough were kept; `closed`: by the replica; `answered`: \
                  after a response; `failed`; `late`: the replica was silent; `given_up`: \
                  cancelled; `tunnel`; `retired`: the replica left",
            },
        ],
        |it, out| {
            for (service, ends) in it.status.services.iter().zip(&it.replica_ends) {
                for (reason, ended) in ends {
                    out.count(&[&service.name, reason], *ended);
                }
            }
        },
    ),
    Family::counter(
        "slackwater_shadow_trials",
        "Copies of requests sent to ejected replicas as trials.",
        OF_SERVICE,
        |it, out| each(it, out, |counts| counts.shadow_trials),
    ),
    Family::counter(
        "slackwater_far_requests",
        "Requests sent to replicas in another zone, retries and copies included.",
        OF_SERVICE,
        |it, out| each(it, out, |counts| counts.far),
    ),
    Family::counter(
        "slackwater_mirrored",
        "Copies of other services' requests sent to this one.",
        OF_SERVICE,
        |it, out| each(it, out, |counts| counts.mirrored),
    ),
    Family::counter(
        "slackwater_mirror_skipped",
        "Copies that this service did not get.",
        OF_SERVICE,
        |it, out| each(it, out, |counts| counts.mirror_skipped),
    ),
];
