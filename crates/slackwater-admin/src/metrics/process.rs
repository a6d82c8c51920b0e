//! What this process is, and what it does besides carrying requests.

use super::super::status::{DiscoveryStatus, Status};
use super::family::Family;
use super::metric::{Label, OF_SERVICE, SERVICE};
use super::scrape::Scrape;
use super::text::Samples;
use slackwater_telemetry::facts::Phase;

const SOURCE: Label = Label {
    name: "source",
    meaning: "where the fleet comes from: `list`, `dns …` or `file …`",
};

fn of_sources(status: &Status, out: &mut Samples<'_>, value: fn(&DiscoveryStatus) -> u64) {
    for service in &status.services {
        if let Some(discovery) = &service.discovery {
            out.count(&[&service.name, &discovery.source], value(discovery));
        }
    }
}

pub(super) const FAMILIES: &[Family] = &[
    Family::gauge(
        "slackwater_build_info",
        "What this process is; always 1.",
        &[
            Label {
                name: "version",
                meaning: "of Slackwater",
            },
            Label {
                name: "role",
                meaning: "the sub-command: `serve`, `agent` or `demo`",
            },
        ],
        |it: &Scrape<'_>, out| out.count(&[&it.status.version, &it.status.role], 1),
    ),
    Family::gauge(
        "slackwater_service_info",
        "Who chooses; always 1.",
        &[
            SERVICE,
            Label {
                name: "policy",
                meaning: "its name; `none` where there is nothing to choose",
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
        "1 while requests are taken, 0 before and while draining.",
        &[],
        |it, out| out.count(&[], u64::from(it.status.phase == Phase::Serving)),
    ),
    Family::gauge(
        "slackwater_uptime_seconds",
        "Time since the admin server was started.",
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
        "1 while the source's last list could not be had or was not believed, and the last good fleet is kept.",
        &[SERVICE, SOURCE],
        |it, out| {
            of_sources(it.status, out, |discovery| {
                u64::from(discovery.failure.is_some())
            });
        },
    ),
    Family::counter(
        "slackwater_fleet_failures",
        "Lists that could not be had or were not believed.",
        &[SERVICE, SOURCE],
        |it, out| of_sources(it.status, out, |discovery| discovery.failures),
    ),
    Family::counter(
        "slackwater_fleet_changes",
        "Lists that changed the fleet.",
        &[SERVICE, SOURCE],
        |it, out| of_sources(it.status, out, |discovery| discovery.changes),
    ),
    Family::counter(
        "slackwater_reloads",
        "How often the configuration was read again.",
        &[Label {
            name: "result",
            meaning: "`taken`, or `refused`, so that the one before stayed",
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
        "1 while the configuration as it stands in its file is not in force.",
        &[],
        |it, out| {
            if let Some(reloads) = &it.status.reloads {
                out.count(&[], u64::from(reloads.failure.is_some()));
            }
        },
    ),
    Family::gauge(
        "slackwater_reload_timestamp_seconds",
        "When the configuration was last read again, as seconds from 1970 on; absent if it never was.",
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
        "What is changed at run time, over what the configuration says; absent where nothing can be.",
        &[Label {
            name: "kind",
            meaning: "`setting`: keys that are set; `replica`: replicas that are drained or have another weight",
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
        "Requests to change something whose sender did not know the token; absent where nothing can be changed.",
        &[],
        |it, out| {
            if let Some(overrides) = &it.status.overrides {
                out.count(&[], overrides.refused);
            }
        },
    ),
    Family::counter(
        "slackwater_log_lost_lines",
        "Lines of the log that were not written.",
        &[],
        |it, out| out.count(&[], it.status.log_lost),
    ),
    Family::counter(
        "slackwater_access_log_lost_lines",
        "Lines of the access log that were not written; absent without one.",
        &[],
        |it, out| {
            if let Some(lost) = it.status.access_log_lost {
                out.count(&[], lost);
            }
        },
    ),
    Family::counter(
        "slackwater_spans",
        "Spans of traced requests: taken by the collector, or dropped; absent without `[tracing]`.",
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
        "Tries to send spans to the collector that failed; absent without `[tracing]`.",
        &[],
        |it, out| {
            if let Some(spans) = it.status.spans {
                out.count(&[], spans.exports_failed);
            }
        },
    ),
    Family::gauge(
        "slackwater_recording",
        "1 while `--record` records, 0 from when that has ended, as where the file is full; absent without it.",
        &[],
        |it, out| {
            if let Some(is_running) = it.status.recording {
                out.count(&[], u64::from(is_running));
            }
        },
    ),
    Family::gauge(
        "slackwater_client_connections",
        "Connections with clients that are open.",
        &[],
        |it, out| out.count(&[], it.status.client_connections.open),
    ),
    Family::counter(
        "slackwater_client_connections_begun",
        "Connections with clients that have begun.",
        &[],
        |it, out| out.count(&[], it.status.client_connections.begun),
    ),
    Family::counter(
        "slackwater_client_connections_ended",
        "Connections with clients that have ended, by what came first.",
        &[Label {
            name: "reason",
            meaning: "`client`: it closed, or left; `failed`; `answered`: after an answer, as the client asked, or as the rest of \
                      its request was not read; `idle`: it carried nothing for too long; `head_late`: a head did not come in \
                      time; `stalled`: the client took nothing for too long; `resets`: it took back too many requests; \
                      `protocol`: what came is no HTTP; `broken`: a response broke off; `tunnel`: one ended; `handshake`: no \
                      TLS; `proxy_header`: none, or not from there; `drain`: the process ends; `cut_off`: the time for that \
                      was over",
        }],
        |it, out| {
            for (reason, ended) in &it.client_ends {
                out.count(&[reason], *ended);
            }
        },
    ),
    Family::counter(
        "slackwater_proxy_headers_refused",
        "Connections closed for want of the PROXY header that they had to begin with.",
        &[],
        |it, out| out.count(&[], it.status.proxy_headers_refused),
    ),
    Family::counter(
        "slackwater_unreadable_requests",
        "Requests over HTTP/1.1 that could not be read.",
        &[Label {
            name: "status",
            meaning: "what was answered: 400, 414, 431, 501 or 505",
        }],
        |it, out| {
            for unreadable in &it.status.unreadable_requests {
                out.count(&[&unreadable.status.to_string()], unreadable.requests);
            }
        },
    ),
    Family::counter(
        "slackwater_unrouted_requests",
        "Requests that no service had.",
        &[Label {
            name: "answer",
            meaning: "`no_route`: no route is for them (404); `doubtful_path`: it can be read in two ways (400); `redirected`, \
                      `responded`: by their route; `refused`: not fit even for that",
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
        "When a certificate expires, as seconds from 1970 on.",
        &[
            Label {
                name: "purpose",
                meaning: "`listener NAME`, `service NAME`, or an agent's `listen` and `to`",
            },
            Label {
                name: "file",
                meaning: "the file that it was read from",
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
        "TLS handshakes of clients, by how they ended.",
        &[
            Label {
                name: "listener",
                meaning: "what the configuration calls it; an agent's are one, `listen`",
            },
            Label {
                name: "end",
                meaning: "`full`, `resumed`; `failed`: no acceptable version, cipher or certificate, or broken off; \
                          `timed_out`; `plain`: the client spoke plain HTTP; `displaced`: ended for a newer one",
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
        "Replicas that have no series of their own, because there are more than `admin.metrics_replicas_max`.",
        OF_SERVICE,
        |it, out| {
            for (service, folded) in it.status.services.iter().zip(&it.folded) {
                out.count(&[&service.name], *folded);
            }
        },
    ),
];
