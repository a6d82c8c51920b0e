//! What became of requests to a service, as their clients see it and before a replica had them.

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
    meaning: "`1xx` to `5xx`: the status of a complete response, the replica's or our own; `grpc_failed`: one with 2xx whose \
              gRPC status blames the server; `broken`: the replica broke off or fell silent; `client_gone`: the client left, \
              or was cut off",
};

const OF_BUDGET: &[Label] = &[
    SERVICE,
    Label {
        name: "budget",
        meaning: "`retry`: further tries at once, as a share of the requests that wait for their response; `hedge`, `tie`: \
                  second copies that requests have paid for, up to `burst` for each worker; absent where it is off",
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
    // An agent keeps no such accounts.
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
        "From a request's head to the end of its response, or to where that broke off. Its count is that of requests.",
        &[SERVICE, CLASS],
        |it: &Scrape<'_>, out| by_class(it, out, |it| &it.total, |it| &it.total),
    ),
    Family::histogram(
        "slackwater_request_first_byte_seconds",
        "From a request's head to the head of its response, all tries together.",
        &[SERVICE, CLASS],
        |it, out| by_class(it, out, |it| &it.first_byte, |it| &it.first_byte),
    ),
    Family::gauge(
        "slackwater_tier",
        "The highest tier that any worker uses; absent where nobody can take requests.",
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
        "Requests that have a place in the service; absent where everybody may come in.",
        OF_SERVICE,
        |it, out| line(it, out, |line| line.inside),
    ),
    Family::gauge(
        "slackwater_queue_waiting_requests",
        "Requests that wait for a place in the service; absent where everybody may come in.",
        OF_SERVICE,
        |it, out| line(it, out, |line| line.waiting),
    ),
    Family::gauge(
        "slackwater_queue_waiting_age_seconds",
        "For how long the oldest request has waited for a place in the service; 0 if none does.",
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
        "How long requests waited for a place in the service, of those that had to; however that ended.",
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
        "Requests that had to wait for a place in the service.",
        OF_SERVICE,
        |it, out| each(it, out, |counts| counts.queued),
    ),
    Family::counter(
        "slackwater_shed",
        "Requests turned away with 503 before any replica had them.",
        &[
            SERVICE,
            Label {
                name: REASON,
                meaning: "`queue_full`; `wait_over`: they had waited for `queue.wait_max`; `deadline`: for as long as they had \
                          time; `replicas_full`: no replica had \
                          room for another connection",
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
        "Further copies of requests that the budget would pay for now.",
        OF_BUDGET,
        |it, out| budgets(it, out, |budget| budget.left_millionths),
    ),
    Family::gauge(
        "slackwater_budget_size_requests",
        "The same if nothing were spent.",
        OF_BUDGET,
        |it, out| budgets(it, out, |budget| budget.size_millionths),
    ),
    Family::counter(
        "slackwater_retries_over_budget",
        "Further tries that there were none of because the budget was spent.",
        OF_SERVICE,
        |it, out| each(it, out, |counts| counts.retries_over_budget),
    ),
    Family::counter(
        "slackwater_hedges",
        "Second copies of late requests.",
        OF_SERVICE,
        |it, out| each(it, out, |counts| counts.hedges),
    ),
    Family::counter(
        "slackwater_hedges_won",
        "Second copies of late requests whose answer was taken. The others were wasted.",
        OF_SERVICE,
        |it, out| each(it, out, |counts| counts.hedges_won),
    ),
    Family::counter(
        "slackwater_hedges_withheld",
        "Late requests without a second copy.",
        &[
            SERVICE,
            Label {
                name: REASON,
                meaning: "`budget`: it was spent; `slow`: too many were late",
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
        "Requests of which nobody could say when they would be late: too few of their kind had been answered.",
        OF_SERVICE,
        |it, out| each(it, out, |counts| counts.hedges_unknown),
    ),
    Family::counter(
        "slackwater_ties",
        "Requests that were sent with the name of a second replica.",
        OF_SERVICE,
        |it, out| each(it, out, |counts| counts.ties),
    ),
    Family::counter(
        "slackwater_ties_sent",
        "Tied requests of which the second copy was sent.",
        OF_SERVICE,
        |it, out| each(it, out, |counts| counts.ties_sent),
    ),
    Family::counter(
        "slackwater_ties_won",
        "Tied requests whose second copy's answer was taken.",
        OF_SERVICE,
        |it, out| each(it, out, |counts| counts.ties_won),
    ),
    Family::counter(
        "slackwater_ties_dropped",
        "Copies that a replica dropped because the other one had begun.",
        OF_SERVICE,
        |it, out| each(it, out, |counts| counts.ties_dropped),
    ),
    Family::counter(
        "slackwater_ties_over_budget",
        "Tied requests without a second copy, because too many had not been dropped.",
        OF_SERVICE,
        |it, out| each(it, out, |counts| counts.ties_over_budget),
    ),
    Family::counter(
        "slackwater_replica_connections_ended",
        "Connections to the service's replicas that have ended.",
        &[
            SERVICE,
            Label {
                name: REASON,
                meaning: "`idle`: it carried nothing for too long; `surplus`: enough were kept; `closed`: by the replica, while it \
                          carried nothing; `answered`: after a response, as the replica asked; `failed`: it broke, or what \
                          came was no response; `late`: the replica was silent for too long; `given_up`: what it carried was \
                          not wanted any more; `tunnel`: one ended; `retired`: the replica left the fleet",
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
        "Copies of requests, sent to replicas that are out to see how they do.",
        OF_SERVICE,
        |it, out| each(it, out, |counts| counts.shadow_trials),
    ),
    Family::counter(
        "slackwater_mirrored",
        "Copies of other services' requests that went to this one.",
        OF_SERVICE,
        |it, out| each(it, out, |counts| counts.mirrored),
    ),
    Family::counter(
        "slackwater_mirror_skipped",
        "Copies that this service should have had and did not get.",
        OF_SERVICE,
        |it, out| each(it, out, |counts| counts.mirror_skipped),
    ),
];
