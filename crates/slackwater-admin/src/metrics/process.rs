//! Metrics of this process, apart from the requests that it carries.

use super::super::status::{DiscoveryStatus, Status};
use super::family::Family;
use super::metric::{Label, OF_SERVICE, SERVICE};
use super::scrape::Scrape;
use super::text::Samples;
use slackwater_telemetry::facts::{Phase, XdsState};
use slackwater_telemetry::problems::ProblemKind;

const SOURCE: Label = Label {
    name: "source",
    meaning: "`list`, `dns …`, `file …`, `kubernetes …` or `xds …`",
};

fn of_sources(status: &Status, out: &mut Samples<'_>, value: fn(&DiscoveryStatus) -> u64) {
    for service in &status.services {
        if let Some(discovery) = &service.discovery {
            out.count(&[&service.name, &discovery.source], value(discovery));
        }
    }
}

/// The stream to the control plane, which all services share.
fn xds(status: &Status) -> Option<&XdsState> {
    let sources = status.services.iter();
    let mut sources = sources.filter_map(|service| service.discovery.as_ref());
    sources.find_map(|discovery| discovery.xds.as_ref())
}

pub(super) const FAMILIES: &[Family] = &[
    Family::gauge(
        "slackwater_build_info",
        "Version and role of this process; always 1.",
        &[
            Label {
                name: "version",
                meaning: "of Slackwater",
            },
            Label {
                name: "role",
                meaning: "`serve`, `agent` or `demo`",
            },
        ],
        |it: &Scrape<'_>, out| out.count(&[&it.status.version, &it.status.role], 1),
    ),
    Family::gauge(
        "slackwater_service_info",
        "Policy of the service; always 1.",
        &[
            SERVICE,
            Label {
                name: "policy",
                meaning: "its name, or `none`",
            },
        ],
        |it, out| {
            for service in &it.status.services {
                out.count(&[&service.name, &service.policy], 1);
            }
        },
    ),
    Family::gauge(
        "slackwater_ready",
        "1 while requests are taken, else 0.",
        &[],
        |it, out| out.count(&[], u64::from(it.status.phase == Phase::Serving)),
    ),
    Family::gauge(
        "slackwater_problems",
        "Problems of that kind now, as `problems` in `/status` lists them.",
        &[Label {
            name: "kind",
            meaning: "`all_replicas_failing`, `no_replica`, `withdrawn`, `certificate`, `requests_failing`, `requests_shed`, \
                      `replicas_failing`, `discovery` or `reload`",
        }],
        |it, out| {
            for kind in ProblemKind::ALL {
                let problems = it.status.problems.iter();
                let own = problems.filter(|problem| problem.kind == kind.as_str());
                out.count(&[kind.as_str()], own.count() as u64);
            }
        },
    ),
    Family::gauge(
        "slackwater_uptime_seconds",
        "Time since the start.",
        &[],
        |it, out| out.number(&[], it.status.uptime_ms as f64 / 1e3),
    ),
    Family::gauge(
        "slackwater_workers",
        "Workers of the process.",
        &[],
        |it, out| {
            let workers = it.status.workers.iter().map(|worker| worker.worker + 1);
            out.count(&[], workers.max().unwrap_or_default() as u64);
        },
    ),
    Family::gauge(
        "slackwater_fleet_failing",
        "1 while discovery's last answer failed and the last good list is used.",
        &[SERVICE, SOURCE],
        |it, out| {
            of_sources(it.status, out, |discovery| {
                u64::from(discovery.failure.is_some())
            });
        },
    ),
    Family::gauge(
        "slackwater_fleet_answered_timestamp_seconds",
        "Time of discovery's last answer, used or not, in seconds since 1970; absent before the first.",
        &[SERVICE, SOURCE],
        |it, out| {
            for service in &it.status.services {
                let discovery = service.discovery.as_ref();
                if let Some((discovery, at_ms)) =
                    discovery.and_then(|it| Some((it, it.answered_at_ms?)))
                {
                    let labels = [service.name.as_str(), discovery.source.as_str()];
                    out.number(&labels, at_ms as f64 / 1e3);
                }
            }
        },
    ),
    Family::counter(
        "slackwater_fleet_failures",
        "Answers of discovery that failed or were not used.",
        &[SERVICE, SOURCE],
        |it, out| of_sources(it.status, out, |discovery| discovery.failures),
    ),
    Family::counter(
        "slackwater_fleet_changes",
        "Answers of discovery that changed the replicas.",
        &[SERVICE, SOURCE],
        |it, out| of_sources(it.status, out, |discovery| discovery.changes),
    ),
    Family::gauge(
        "slackwater_xds_connected",
        "1 while the stream to the control plane is open.",
        &[],
        |it, out| {
            if let Some(xds) = xds(it.status) {
                out.count(&[], u64::from(xds.is_connected));
            }
        },
    ),
    Family::counter(
        "slackwater_xds_streams",
        "Streams to the control plane that were opened.",
        &[],
        |it, out| {
            if let Some(xds) = xds(it.status) {
                out.count(&[], xds.streams);
            }
        },
    ),
    Family::counter(
        "slackwater_xds_responses",
        "Responses of the control plane.",
        &[Label {
            name: "result",
            meaning: "`accepted` (ACK) or `rejected` (NACK)",
        }],
        |it, out| {
            if let Some(xds) = xds(it.status) {
                out.count(&["accepted"], xds.accepted);
                out.count(&["rejected"], xds.rejected);
            }
        },
    ),
    Family::counter(
        "slackwater_reloads",
        "Reloads of the configuration.",
        &[Label {
            name: "result",
            meaning: "`taken` or `refused`",
        }],
        |it, out| {
            if let Some(reloads) = &it.status.reloads {
                out.count(&["taken"], reloads.taken);
                out.count(&["refused"], reloads.refused);
            }
        },
    ),
    Family::gauge(
        "slackwater_reload_failing",
        "1 while the last reload was refused.",
        &[],
        |it, out| {
            if let Some(reloads) = &it.status.reloads {
                out.count(&[], u64::from(reloads.failure.is_some()));
            }
        },
    ),
    Family::gauge(
        "slackwater_reload_timestamp_seconds",
        "Time of the last reload, since 1970; absent if none.",
        &[],
        |it, out| {
            let at = it.status.reloads.as_ref().and_then(|it| it.last_at_ms);
            if let Some(at_ms) = at {
                out.number(&[], at_ms as f64 / 1e3);
            }
        },
    ),
    Family::gauge(
        "slackwater_overrides",
        "Changes at run time that are in force; absent for `agent` and `demo`.",
        &[Label {
            name: "kind",
            meaning: "`setting` (keys) or `replica` (drained, or another weight)",
        }],
        |it, out| {
            if let Some(overrides) = &it.status.overrides {
                out.count(&["setting"], overrides.settings);
                out.count(&["replica"], overrides.replicas);
            }
        },
    ),
    Family::counter(
        "slackwater_overrides_refused",
        "Changes rejected for a missing or wrong token.",
        &[],
        |it, out| {
            if let Some(overrides) = &it.status.overrides {
                out.count(&[], overrides.refused);
            }
        },
    ),
    Family::counter(
        "slackwater_log_lost_lines",
        "Log lines dropped.",
        &[],
        |it, out| out.count(&[], it.status.log_lost),
    ),
    Family::counter(
        "slackwater_access_log_lost_lines",
        "Access log lines dropped; absent without an access log.",
        &[],
        |it, out| {
            if let Some(lost) = it.status.access_log_lost {
                out.count(&[], lost);
            }
        },
    ),
    Family::counter(
        "slackwater_spans",
        "Spans of traced requests; absent without `[tracing]`.",
        &[Label {
            name: "end",
            meaning: "`exported` or `dropped`",
        }],
        |it, out| {
            if let Some(spans) = it.status.spans {
                out.count(&["exported"], spans.exported);
                out.count(&["dropped"], spans.dropped);
            }
        },
    ),
    Family::counter(
        "slackwater_span_exports_failed",
        "Failed exports of spans; absent without `[tracing]`.",
        &[],
        |it, out| {
            if let Some(spans) = it.status.spans {
                out.count(&[], spans.exports_failed);
            }
        },
    ),
    Family::gauge(
        "slackwater_recording",
        "1 while `--record` records, 0 after it ended; absent without it.",
        &[],
        |it, out| {
            if let Some(is_running) = it.status.recording {
                out.count(&[], u64::from(is_running));
            }
        },
    ),
    Family::gauge(
        "slackwater_client_connections",
        "Open client connections.",
        &[],
        |it, out| out.count(&[], it.status.client_connections.open),
    ),
    Family::counter(
        "slackwater_client_connections_begun",
        "Client connections accepted.",
        &[],
        |it, out| out.count(&[], it.status.client_connections.begun),
    ),
    Family::counter(
        "slackwater_client_connections_ended",
        "Client connections ended, by the first cause.",
        &[Label {
            name: "reason",
            meaning: "`client`: it closed; `failed`; `answered`: after a response; `idle`; \
                  `head_late`; `stalled`: it read nothing; `resets`: too many cancelled requests; \
                  `protocol`: no HTTP; `broken`: a response broke off; `tunnel`; `handshake`; \
                  `proxy_header`; `drain`: shutdown; `cut_off`: drain timed out",
        }],
        |it, out| {
            for (reason, ended) in &it.client_ends {
                out.count(&[reason], *ended);
            }
        },
    ),
    Family::counter(
        "slackwater_proxy_headers_refused",
        "Connections closed for a missing or malformed PROXY header.",
        &[],
        |it, out| out.count(&[], it.status.proxy_headers_refused),
    ),
    Family::counter(
        "slackwater_unreadable_requests",
        "HTTP/1.1 requests that could not be parsed.",
        &[Label {
            name: "status",
            meaning: "the answer: 400, 414, 431, 501 or 505",
        }],
        |it, out| {
            for unreadable in &it.status.unreadable_requests {
                out.count(&[&unreadable.status.to_string()], unreadable.requests);
            }
        },
    ),
    Family::counter(
        "slackwater_unrouted_requests",
        "Requests that went to no service.",
        &[Label {
            name: "answer",
            meaning: "`no_route` (404); `doubtful_path`: ambiguous (400); `redirected` or `responded` \
                  by the route; `refused`",
        }],
        |it, out| {
            let unrouted = &it.status.unrouted_requests;
            for (answer, requests) in [
                ("no_route", unrouted.no_route),
                ("doubtful_path", unrouted.doubtful_path),
                ("refused", unrouted.refused),
                ("redirected", unrouted.redirected),
                ("responded", unrouted.responded),
            ] {
                out.count(&[answer], requests);
            }
        },
    ),
    Family::gauge(
        "slackwater_certificate_expiry_timestamp_seconds",
        "Expiry of a certificate, since 1970.",
        &[
            Label {
                name: "purpose",
                meaning: "`listener NAME`, `service NAME`, or an agent's `listen` and `to`",
            },
            Label {
                name: "file",
                meaning: "its file",
            },
        ],
        |it, out| {
            for certificate in &it.status.certificates {
                if let Some(expires_s) = certificate.expires_s {
                    out.number(&[&certificate.purpose, &certificate.file], expires_s as f64);
                }
            }
        },
    ),
    Family::counter(
        "slackwater_tls_handshakes",
        "TLS handshakes with clients, by result.",
        &[
            Label {
                name: "listener",
                meaning: "its name; `listen` for an agent",
            },
            Label {
                name: "end",
                meaning: "`full`; `resumed`; `failed`; `timed_out`; `plain`: plain HTTP; `displaced`: for \
                  a newer one",
            },
        ],
        |it, out| {
            for handshakes in &it.status.handshakes {
                for (end, count) in [
                    ("full", handshakes.full),
                    ("resumed", handshakes.resumed),
                    ("failed", handshakes.failed),
                    ("timed_out", handshakes.timed_out),
                    ("plain", handshakes.plain),
                    ("displaced", handshakes.displaced),
                ] {
                    out.count(&[&handshakes.listener, end], count);
                }
            }
        },
    ),
    Family::gauge(
        "slackwater_metrics_folded_replicas",
        "Replicas without series of their own, beyond `admin.metrics_replicas_max`.",
        OF_SERVICE,
        |it, out| {
            for (service, folded) in it.status.services.iter().zip(&it.folded) {
                out.count(&[&service.name], *folded);
            }
        },
    ),
];
