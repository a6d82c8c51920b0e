//! The status as Prometheus metrics, in the text format of `OpenMetrics`.
//!
//! Names are stable, carry their unit, and end in `_total` where they only rise. Everything is read from one [`Status`],
//! so that `/metrics` and `/status` never disagree. Labels are bounded: replicas of the configuration, workers, and fixed
//! lists of reasons.

use super::facts::Phase;
use super::status::{ReplicaStatus, Status};
use core::fmt;
use prometheus_client::collector::Collector;
use prometheus_client::encoding::{DescriptorEncoder, EncodeMetric};
use prometheus_client::metrics::MetricType;
use prometheus_client::metrics::counter::ConstCounter;
use prometheus_client::metrics::gauge::ConstGauge;
use prometheus_client::registry::{Registry, Unit};

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
        families.replicas(&status.replicas)?;
        families.policy(status)?;
        families.workers(status)?;
        families.own_load(status)
    }
}

type Labels = Vec<(&'static str, String)>;

/// A label and its value, for a sample that has one.
fn label(name: &'static str, value: impl Into<String>) -> Labels {
    vec![(name, value.into())]
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

    fn counter(&mut self, name: &str, help: &str, count: u64) -> fmt::Result {
        self.counters(name, help, [(Labels::new(), count)])
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
            ("policy", status.policy.clone()),
        ];
        self.gauges(
            "build_info",
            "What this process is; always 1.",
            [(build, 1)],
        )?;
        let uptime = status.uptime_ms as f64 / 1e3;
        self.seconds("uptime", "Time since the admin server was started.", uptime)?;
        let ready = u64::from(status.phase == Phase::Serving);
        let help = "1 while requests are taken, 0 before and while draining.";
        self.gauges("ready", help, [(Labels::new(), ready)])?;
        let workers = status.workers.len() as u64;
        self.gauges(
            "workers",
            "Workers that answered.",
            [(Labels::new(), workers)],
        )
    }

    fn replicas(&mut self, replicas: &[ReplicaStatus]) -> fmt::Result {
        let each = |value: fn(&ReplicaStatus) -> u64| {
            let sample = move |replica: &ReplicaStatus| {
                (label("replica", replica.name.as_str()), value(replica))
            };
            replicas.iter().map(sample)
        };
        self.gauges(
            "replica_available",
            "1 if every worker may choose the replica.",
            each(|replica| u64::from(replica.available)),
        )?;
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
            "replica_in_flight_requests",
            "Requests of this process that the replica has not finished.",
            each(|replica| replica.in_flight),
        )?;
        self.counters(
            "requests",
            "Requests sent to the replica, second tries included.",
            each(|replica| replica.requests.sent),
        )?;
        self.counters(
            "retries",
            "Requests sent to the replica after they had never reached another one's application.",
            each(|replica| replica.requests.retries),
        )?;
        self.outcomes(replicas)
    }

    fn outcomes(&mut self, replicas: &[ReplicaStatus]) -> fmt::Result {
        let split = |name: &'static str, counts: fn(&ReplicaStatus) -> Vec<(&'static str, u64)>| {
            let samples = move |replica: &ReplicaStatus| {
                let replica_name = replica.name.clone();
                counts(replica).into_iter().map(move |(value, count)| {
                    let labels = vec![("replica", replica_name.clone()), (name, value.to_owned())];
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
        self.counters("request_failures", help, failures)
    }

    fn policy(&mut self, status: &Status) -> fmt::Result {
        let counts = &status.counts;
        let probes = |name: &str| counts.probes.get(name).copied().unwrap_or_default();
        let picks = counts.picks.iter();
        let picks = picks.map(|(reason, count)| (label("reason", reason.as_str()), *count));
        self.counters("picks", "Choices of a replica, by what decided.", picks)?;
        let help = "Queries for which there was no replica.";
        self.counter("no_replica", help, counts.no_replica)?;
        self.counter("probes_sent", "Probes sent.", probes("sent"))?;
        let help = "Of those sent: given back, because this process's own queue was full.";
        self.counter("probes_unsent", help, probes("unsent"))?;
        self.counter(
            "probes_answered",
            "Probes answered in time.",
            probes("answered"),
        )?;
        let help = "Probes that failed, or whose deadline passed.";
        self.counter("probes_lost", help, probes("lost"))?;
        let skipped = ["interval", "outstanding", "cap"];
        let skipped = skipped.map(|why| (label("reason", why), probes(&format!("skipped_{why}"))));
        self.counters(
            "probes_skipped",
            "Probes that were due and not sent.",
            skipped,
        )?;
        let help = "Probes asked for because none had been sent for a while.";
        self.counter("probes_idle", help, probes("idle"))?;
        let help = "Probes of silent replicas, answered from this process's own counts.";
        self.counter("probes_local", help, probes("local"))?;
        let ignored = [
            (label("reason", "late"), probes("answered_late")),
            (label("reason", "unknown"), probes("answered_by_unknown")),
        ];
        self.counters(
            "reports_ignored",
            "Answers to probes that were of no use.",
            ignored,
        )?;
        let withheld = counts.removals.get("withheld").copied();
        let removed = counts.removals.iter();
        let removed = removed.filter(|(reason, _)| *reason != "withheld");
        let removed = removed.map(|(reason, count)| (label("reason", reason.as_str()), *count));
        let help = "Reports taken out of the pool.";
        self.counters("reports_removed", help, removed)?;
        let help = "Removals by rate left out because two reports have to stay.";
        self.counter("removals_withheld", help, withheld.unwrap_or_default())?;
        let help = "Synchronous probing rounds finished.";
        self.counter("sync_rounds", help, counts.rounds)?;
        let probing = ConstCounter::new(counts.probing_ns as f64 / 1e9);
        self.write(
            "probing",
            Some(&Unit::Seconds),
            "Time that queries spent in synchronous probing rounds.",
            MetricType::Counter,
            [(Labels::new(), probing)],
        )
    }

    fn workers(&mut self, status: &Status) -> fmt::Result {
        let workers = || status.workers.iter();
        let named = |worker: usize| label("worker", worker.to_string());
        self.gauges(
            "pool_reports",
            "Reports in the worker's pool.",
            workers().map(|worker| (named(worker.worker), worker.pool.len() as u64)),
        )?;
        self.gauges(
            "pool_hot_reports",
            "Reports in the worker's pool whose RIF has reached the limit.",
            workers().map(|worker| {
                let hot = worker.pool.iter().filter(|report| report.hot).count();
                (named(worker.worker), hot as u64)
            }),
        )?;
        self.gauges(
            "rif_limit_requests",
            "The RIF from which a report counts as hot; absent where nothing does.",
            workers()
                .filter_map(|worker| Some((named(worker.worker), u64::from(worker.rif_limit?)))),
        )
    }

    fn own_load(&mut self, status: &Status) -> fmt::Result {
        let Some(load) = &status.own_load else {
            return Ok(());
        };
        let rif = [(Labels::new(), u64::from(load.rif))];
        self.gauges(
            "own_rif_requests",
            "Requests in flight, as answered to probes.",
            rif,
        )?;
        let draining = [(Labels::new(), u64::from(load.draining))];
        self.gauges(
            "own_draining",
            "1 if probes are told to stay away.",
            draining,
        )?;
        match load.latency_us {
            None => Ok(()),
            Some(latency_us) => self.seconds(
                "own_latency",
                "Estimated latency, as answered to probes; absent while unknown.",
                latency_us as f64 / 1e6,
            ),
        }
    }
}
