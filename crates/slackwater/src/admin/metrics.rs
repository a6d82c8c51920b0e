//! The status as Prometheus metrics, in the text format of `OpenMetrics`.
//!
//! Names are stable, carry their unit, and end in `_total` where they only rise. Everything is read from one [`Status`],
//! so that `/metrics` and `/status` never disagree. Labels are bounded: services and replicas of the configuration, workers, and fixed
//! lists of reasons.

mod own;
mod standing;
mod workers;

use super::facts::{AdmissionCounts, Phase};
use super::status::{DiscoveryStatus, PolicyCounts, ReplicaStatus, ServiceStatus, Status};
use core::fmt;
use prometheus_client::collector::Collector;
use prometheus_client::encoding::{DescriptorEncoder, EncodeMetric};
use prometheus_client::metrics::MetricType;
use prometheus_client::metrics::counter::ConstCounter;
use prometheus_client::metrics::gauge::ConstGauge;
use prometheus_client::registry::{Registry, Unit};
use std::collections::BTreeMap;

/// The type of what [`render`] writes.
pub(crate) const CONTENT_TYPE: &str = "application/openmetrics-text; version=1.0.0; charset=utf-8";

/// The metrics of a status.
///
/// # Errors
///
/// Only what the encoder itself says; a string takes everything.
pub(crate) fn render(status: Status) -> Result<String, fmt::Error> {
    let mut registry = Registry::with_prefix("slackwater");
    registry.register_collector(Box::new(Snapshot(status)));
    let mut text = String::new();
    prometheus_client::encoding::text::encode(&mut text, &registry)?;
    Ok(text)
}

#[derive(Debug)]
struct Snapshot(Status);

impl Collector for Snapshot {
    fn encode(&self, encoder: DescriptorEncoder<'_>) -> fmt::Result {
        let mut families = Families(encoder);
        let status = &self.0;
        families.process(status)?;
        families.tls(status)?;
        families.replicas(&status.replicas)?;
        families.standings(&status.services, &status.replicas)?;
        families.admission(&status.services)?;
        families.policy(status)?;
        families.workers(status)?;
        families.own_load(status)?;
        families.own_queue(status)?;
        families.own_ties(status)
    }
}

type Labels = Vec<(&'static str, String)>;

/// A label and its value, for a sample that has one.
fn label(name: &'static str, value: impl Into<String>) -> Labels {
    vec![(name, value.into())]
}

fn of_replica(replica: &ReplicaStatus) -> Labels {
    vec![
        ("service", replica.service.clone()),
        ("replica", replica.name.clone()),
    ]
}

/// A count by its name; none is 0.
fn of(counts: &BTreeMap<String, u64>, name: &str) -> u64 {
    counts.get(name).copied().unwrap_or_default()
}

fn named(counts: &BTreeMap<String, u64>) -> Vec<(String, u64)> {
    let counts = counts.iter();
    counts.map(|(name, count)| (name.clone(), *count)).collect()
}

/// A sample for each service and each of its counts, told apart by the label `name`.
fn split<'s>(
    services: &'s [ServiceStatus],
    name: &'static str,
    counts: fn(&PolicyCounts) -> Vec<(String, u64)>,
) -> impl Iterator<Item = (Labels, u64)> + 's {
    services.iter().flat_map(move |service| {
        let counts = counts(&service.counts).into_iter();
        counts.map(move |(value, count)| {
            let labels = vec![("service", service.name.clone()), (name, value)];
            (labels, count)
        })
    })
}

/// Writes one family after the other: each name once, its samples together.
struct Families<'a>(DescriptorEncoder<'a>);

impl Families<'_> {
    fn write<M: EncodeMetric>(
        &mut self,
        name: &str,
        unit: Option<&Unit>,
        help: &str,
        kind: MetricType,
        samples: impl IntoIterator<Item = (Labels, M)>,
    ) -> fmt::Result {
        let mut family = self.0.encode_descriptor(name, help, unit, kind)?;
        for (labels, metric) in samples {
            if labels.is_empty() {
                metric.encode(family)?;
                return Ok(());
            }
            metric.encode(family.encode_family(&labels)?)?;
        }
        Ok(())
    }

    fn counters(
        &mut self,
        name: &str,
        help: &str,
        samples: impl IntoIterator<Item = (Labels, u64)>,
    ) -> fmt::Result {
        let samples = samples.into_iter();
        let samples = samples.map(|(labels, count)| (labels, ConstCounter::new(count)));
        self.write(name, None, help, MetricType::Counter, samples)
    }

    fn gauges(
        &mut self,
        name: &str,
        help: &str,
        samples: impl IntoIterator<Item = (Labels, u64)>,
    ) -> fmt::Result {
        let samples = samples.into_iter();
        let samples = samples.map(|(labels, value)| (labels, ConstGauge::new(value)));
        self.write(name, None, help, MetricType::Gauge, samples)
    }

    fn seconds(&mut self, name: &str, help: &str, seconds: f64) -> fmt::Result {
        let sample = (Labels::new(), ConstGauge::new(seconds));
        self.write(
            name,
            Some(&Unit::Seconds),
            help,
            MetricType::Gauge,
            [sample],
        )
    }

    fn process(&mut self, status: &Status) -> fmt::Result {
        let build = vec![
            ("version", status.version.clone()),
            ("role", status.role.clone()),
        ];
        self.gauges(
            "build_info",
            "What this process is; always 1.",
            [(build, 1)],
        )?;
        let services = status.services.iter().map(|service| {
            let labels = vec![
                ("service", service.name.clone()),
                ("policy", service.policy.clone()),
            ];
            (labels, 1)
        });
        self.gauges("service_info", "Who chooses; always 1.", services)?;
        self.fleets(status)?;
        if let Some(reloads) = &status.reloads {
            let results = [("taken", reloads.taken), ("refused", reloads.refused)];
            let results = results.map(|(result, count)| (label("result", result), count));
            let help = "How often the configuration was read again.";
            self.counters("reloads", help, results)?;
            let failing = u64::from(reloads.failure.is_some());
            let help = "1 while the configuration as it stands in its file is not in force.";
            self.gauges("reload_failing", help, [(Labels::new(), failing)])?;
        }
        let uptime = status.uptime_ms as f64 / 1e3;
        self.seconds("uptime", "Time since the admin server was started.", uptime)?;
        let help = "Connections closed for want of the PROXY header that they had to begin with.";
        let refused = (Labels::new(), status.proxy_headers_refused);
        self.counters("proxy_headers_refused", help, [refused])?;
        let help =
            "Requests over HTTP/1.1 that could not be read, by the status that was answered.";
        let unreadable = status.unreadable_requests.iter();
        let unreadable =
            unreadable.map(|it| (vec![("status", it.status.to_string())], it.requests));
        self.counters("unreadable_requests", help, unreadable)?;
        let ready = u64::from(status.phase == Phase::Serving);
        let help = "1 while requests are taken, 0 before and while draining.";
        self.gauges("ready", help, [(Labels::new(), ready)])?;
        let workers = status.workers.iter().map(|worker| worker.worker + 1);
        let workers = workers.max().unwrap_or_default() as u64;
        self.gauges(
            "workers",
            "Workers that answered.",
            [(Labels::new(), workers)],
        )?;
        self.counters(
            "log_lost_lines",
            "Lines of the log that were not written.",
            [(Labels::new(), status.log_lost)],
        )?;
        let lost = status.access_log_lost.map(|lost| (Labels::new(), lost));
        self.counters(
            "access_log_lost_lines",
            "Lines of the access log that were not written.",
            lost,
        )?;
        let spans = |end: &'static str, count: u64| (vec![("end", end.to_owned())], count);
        self.counters(
            "spans",
            "Spans of traced requests: taken by the collector, or dropped.",
            status.spans.iter().flat_map(|counts| {
                [
                    spans("exported", counts.exported),
                    spans("dropped", counts.dropped),
                ]
            }),
        )?;
        let failed = status
            .spans
            .map(|spans| (Labels::new(), spans.exports_failed));
        self.counters(
            "span_exports_failed",
            "Tries to send spans to the collector that failed.",
            failed,
        )
    }

    /// What became of lists of replicas that change.
    fn fleets(&mut self, status: &Status) -> fmt::Result {
        let each = |value: fn(&DiscoveryStatus) -> u64| {
            let sample = move |service: &ServiceStatus| {
                let discovery = service.discovery.as_ref()?;
                let labels = vec![
                    ("service", service.name.clone()),
                    ("source", discovery.source.clone()),
                ];
                Some((labels, value(discovery)))
            };
            status.services.iter().filter_map(sample)
        };
        self.gauges(
            "fleet_failing",
            "1 while the source's last list could not be had or was not believed.",
            each(|discovery| u64::from(discovery.failure.is_some())),
        )?;
        self.counters(
            "fleet_failures",
            "Lists that could not be had or were not believed.",
            each(|discovery| discovery.failures),
        )?;
        self.counters(
            "fleet_changes",
            "Lists that changed the fleet.",
            each(|discovery| discovery.changes),
        )
    }

    fn tls(&mut self, status: &Status) -> fmt::Result {
        let ends = status.certificates.iter().filter_map(|certificate| {
            let labels = vec![
                ("purpose", certificate.purpose.clone()),
                ("file", certificate.file.clone()),
            ];
            let end = ConstGauge::new(certificate.expires_s?);
            Some((labels, end))
        });
        self.write(
            "certificate_expiry_timestamp",
            Some(&Unit::Seconds),
            "When the certificate expires, as seconds from 1970 on.",
            MetricType::Gauge,
            ends,
        )?;
        let handshakes = status.handshakes.iter().flat_map(|listener| {
            let counts = [
                ("full", listener.full),
                ("resumed", listener.resumed),
                ("failed", listener.failed),
                ("timed_out", listener.timed_out),
                ("plain", listener.plain),
                ("displaced", listener.displaced),
            ];
            counts.map(|(end, count)| {
                let labels = vec![
                    ("listener", listener.listener.clone()),
                    ("end", end.to_owned()),
                ];
                (labels, count)
            })
        });
        let help = "TLS handshakes of clients, by how they ended.";
        self.counters("tls_handshakes", help, handshakes)
    }

    fn replicas(&mut self, replicas: &[ReplicaStatus]) -> fmt::Result {
        let each = |value: fn(&ReplicaStatus) -> u64| {
            let sample = move |replica: &ReplicaStatus| (of_replica(replica), value(replica));
            replicas.iter().map(sample)
        };
        self.gauges(
            "replica_available",
            "1 if every worker may choose the replica.",
            each(|replica| u64::from(replica.available)),
        )?;
        let help = "The replica's share of requests beside the others'.";
        self.gauges(
            "replica_weight",
            help,
            each(|replica| replica.weight.into()),
        )?;
        let help = "It gets requests only while nobody of a lower tier can take them.";
        self.gauges("replica_tier", help, each(|replica| replica.tier.into()))?;
        self.gauges(
            "replica_draining",
            "1 if the replica said that it wants no queries.",
            each(|replica| u64::from(replica.draining)),
        )?;
        self.gauges(
            "replica_silent",
            "1 if the replica answers no probes.",
            each(|replica| u64::from(replica.silent)),
        )?;
        self.gauges(
            "replica_lost",
            "1 if the replica has stopped answering probes, while others answer theirs.",
            each(|replica| u64::from(replica.lost)),
        )?;
        let checked = || {
            let replicas = replicas.iter();
            replicas.filter_map(|replica| Some((of_replica(replica), replica.health.as_ref()?)))
        };
        self.gauges(
            "replica_healthy",
            "0 if the replica is down by its health checks; absent where there are none.",
            checked().map(|(labels, health)| (labels, u64::from(health.verdict != "down"))),
        )?;
        let results = checked().flat_map(|(labels, health)| {
            let results = [
                ("passed", health.checks_passed),
                ("failed", health.checks_failed),
            ];
            results.map(|(result, count)| {
                let mut labels = labels.clone();
                labels.push(("result", result.to_owned()));
                (labels, count)
            })
        });
        self.counters("health_checks", "Health checks, by result.", results)?;
        self.gauges(
            "replica_in_flight_requests",
            "Requests of this process that the replica has not finished.",
            each(|replica| replica.in_flight),
        )?;
        self.counters(
            "requests",
            "Requests sent to the replica, further tries included.",
            each(|replica| replica.requests.sent),
        )?;
        self.counters(
            "retries",
            "Requests sent to the replica after another one had been tried.",
            each(|replica| replica.requests.retries),
        )?;
        self.counters(
            "replica_hedges",
            "Second copies of late requests sent to the replica.",
            each(|replica| replica.requests.hedges),
        )?;
        self.counters(
            "replica_superseded",
            "Requests to the replica left because their other copy was answered first.",
            each(|replica| replica.requests.superseded),
        )?;
        self.outcomes(replicas)
    }

    fn outcomes(&mut self, replicas: &[ReplicaStatus]) -> fmt::Result {
        let split = |name: &'static str, counts: fn(&ReplicaStatus) -> Vec<(&'static str, u64)>| {
            let samples = move |replica: &ReplicaStatus| {
                let labels = of_replica(replica);
                counts(replica).into_iter().map(move |(value, count)| {
                    let mut labels = labels.clone();
                    labels.push((name, value.to_owned()));
                    (labels, count)
                })
            };
            replicas.iter().flat_map(samples)
        };
        let responses = split("class", |replica| {
            let requests = &replica.requests;
            vec![
                ("1xx", requests.responses_1xx),
                ("2xx", requests.responses_2xx),
                ("3xx", requests.responses_3xx),
                ("4xx", requests.responses_4xx),
                ("5xx", requests.responses_5xx),
            ]
        });
        self.counters(
            "responses",
            "Responses of the replica, by class.",
            responses,
        )?;
        let failures = split("kind", |replica| {
            let requests = &replica.requests;
            vec![
                ("connect", requests.connect_failures),
                ("timeout", requests.timeouts),
                ("broken", requests.broken),
                ("client_gone", requests.client_gone),
            ]
        });
        let help = "Requests to the replica that ended without a complete response.";
        self.counters("request_failures", help, failures)?;
        let grpc = replicas.iter();
        let grpc = grpc.map(|replica| (of_replica(replica), replica.requests.grpc_failures));
        let full = replicas.iter();
        let full = full.map(|replica| (of_replica(replica), replica.requests.full));
        let help = "Requests that found no room at the replica and went elsewhere, or waited.";
        self.counters("replica_full", help, full)?;
        let shed = replicas.iter();
        let shed = shed.map(|replica| (of_replica(replica), replica.requests.shed));
        let help = "Requests that the replica turned away unstarted.";
        self.counters("replica_shed", help, shed)?;
        let help = "Responses of the replica whose gRPC status blames the server.";
        self.counters("grpc_failures", help, grpc)
    }

    fn admission(&mut self, services: &[ServiceStatus]) -> fmt::Result {
        let each = |value: fn(&AdmissionCounts) -> u64| {
            let sample = move |service: &ServiceStatus| {
                let name = label("service", service.name.as_str());
                (name, value(&service.admission))
            };
            services.iter().map(sample)
        };
        let tiers = services.iter().filter_map(|service| {
            let name = label("service", service.name.as_str());
            Some((name, u64::from(service.tier?)))
        });
        let help = "The highest tier of replicas that any worker uses; absent where nobody can take requests.";
        self.gauges("tier", help, tiers)?;
        let help = "Requests that had to wait for a place in the service.";
        self.counters("queued", help, each(|counts| counts.queued))?;
        let shed = services.iter().flat_map(|service| {
            let counts = &service.admission;
            let reasons = [
                ("queue_full", counts.shed_queue_full),
                ("wait_over", counts.shed_wait_over),
                ("replicas_full", counts.shed_replicas_full),
            ];
            reasons.map(|(reason, count)| {
                let labels = vec![
                    ("service", service.name.clone()),
                    ("reason", reason.to_owned()),
                ];
                (labels, count)
            })
        });
        let help = "Requests turned away with 503 before any replica had them.";
        self.counters("shed", help, shed)?;
        let help = "Further tries that there were none of because the budget was spent.";
        self.counters(
            "retries_over_budget",
            help,
            each(|counts| counts.retries_over_budget),
        )?;
        let help = "Second copies of late requests.";
        self.counters("hedges", help, each(|counts| counts.hedges))?;
        let help = "Second copies of late requests whose answer was taken.";
        self.counters("hedges_won", help, each(|counts| counts.hedges_won))?;
        let withheld = services.iter().flat_map(|service| {
            let counts = &service.admission;
            let reasons = [
                ("budget", counts.hedges_over_budget),
                ("slow", counts.hedges_while_slow),
            ];
            reasons.map(|(reason, count)| {
                let labels = vec![
                    ("service", service.name.clone()),
                    ("reason", reason.to_owned()),
                ];
                (labels, count)
            })
        });
        let help = "Late requests without a second copy.";
        self.counters("hedges_withheld", help, withheld)?;
        let help = "Requests of which nobody could say when they would be late.";
        self.counters("hedges_unknown", help, each(|counts| counts.hedges_unknown))?;
        let help = "Requests that were sent with the name of a second replica.";
        self.counters("ties", help, each(|counts| counts.ties))?;
        let help = "Tied requests of which the second copy was sent.";
        self.counters("ties_sent", help, each(|counts| counts.ties_sent))?;
        let help = "Tied requests whose second copy's answer was taken.";
        self.counters("ties_won", help, each(|counts| counts.ties_won))?;
        let help = "Copies that a replica dropped because the other one had begun.";
        self.counters("ties_dropped", help, each(|counts| counts.ties_dropped))?;
        let help = "Tied requests without a second copy, because too many had not been dropped.";
        self.counters(
            "ties_over_budget",
            help,
            each(|counts| counts.ties_over_budget),
        )?;
        let help = "Copies of requests, sent to replicas that are out to see how they do.";
        self.counters("shadow_trials", help, each(|counts| counts.shadow_trials))?;
        let help = "Copies of other services' requests that went to this one.";
        self.counters("mirrored", help, each(|counts| counts.mirrored))?;
        let help = "Copies that this service should have had and did not get.";
        self.counters("mirror_skipped", help, each(|counts| counts.mirror_skipped))
    }

    fn policy(&mut self, status: &Status) -> fmt::Result {
        let services = &status.services;
        let each = |value: fn(&PolicyCounts) -> u64| {
            let sample = move |service: &ServiceStatus| {
                (
                    label("service", service.name.as_str()),
                    value(&service.counts),
                )
            };
            services.iter().map(sample)
        };
        let picks = split(services, "reason", |counts| named(&counts.picks));
        self.counters("picks", "Choices of a replica, by what decided.", picks)?;
        let help = "Queries for which there was no replica.";
        self.counters("no_replica", help, each(|counts| counts.no_replica))?;
        self.probes(services)?;
        let removed = split(services, "reason", |counts| {
            let mut removed = named(&counts.removals);
            removed.retain(|(reason, _)| reason != "withheld");
            removed
        });
        let help = "Reports taken out of the pool.";
        self.counters("reports_removed", help, removed)?;
        let help = "Removals by rate left out because two reports have to stay.";
        let withheld = |counts: &PolicyCounts| of(&counts.removals, "withheld");
        self.counters("removals_withheld", help, each(withheld))?;
        let help = "Synchronous probing rounds finished.";
        self.counters("sync_rounds", help, each(|counts| counts.rounds))?;
        let probing = services.iter().map(|service| {
            let spent = ConstCounter::new(service.counts.probing_ns as f64 / 1e9);
            (label("service", service.name.as_str()), spent)
        });
        self.write(
            "probing",
            Some(&Unit::Seconds),
            "Time that queries spent in synchronous probing rounds.",
            MetricType::Counter,
            probing,
        )
    }

    fn probes(&mut self, services: &[ServiceStatus]) -> fmt::Result {
        let each = |name: &'static str| {
            let sample = move |service: &ServiceStatus| {
                let count = of(&service.counts.probes, name);
                (label("service", service.name.as_str()), count)
            };
            services.iter().map(sample)
        };
        self.counters("probes_sent", "Probes sent.", each("sent"))?;
        let help = "Of those sent: given back, because this process's own queue was full.";
        self.counters("probes_unsent", help, each("unsent"))?;
        self.counters(
            "probes_answered",
            "Probes answered in time.",
            each("answered"),
        )?;
        let help = "Probes that failed, or whose deadline passed.";
        self.counters("probes_lost", help, each("lost"))?;
        let skipped = split(services, "reason", |counts| {
            let skipped = ["interval", "outstanding", "cap"];
            let skipped = skipped.map(|why| {
                let count = of(&counts.probes, &format!("skipped_{why}"));
                (why.to_owned(), count)
            });
            skipped.to_vec()
        });
        self.counters(
            "probes_skipped",
            "Probes that were due and not sent.",
            skipped,
        )?;
        let help = "Probes asked for because none had been sent for a while.";
        self.counters("probes_idle", help, each("idle"))?;
        let help = "Probes of silent replicas, answered from this process's own counts.";
        self.counters("probes_local", help, each("local"))?;
        let ignored = split(services, "reason", |counts| {
            vec![
                ("late".to_owned(), of(&counts.probes, "answered_late")),
                (
                    "unknown".to_owned(),
                    of(&counts.probes, "answered_by_unknown"),
                ),
            ]
        });
        let help = "Answers to probes that were of no use.";
        self.counters("reports_ignored", help, ignored)
    }
}
