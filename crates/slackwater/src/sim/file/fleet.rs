//! The tables `[[fleet]]`: replicas of one kind each.

use super::keys::{Kind, count, decimal, kind, needed_count, needed_decimal, needed_span, span};
use super::trace::read_trace;
use core::time::Duration;
use slackwater_config::toml_reader::Reader;
use slackwater_config::toml_reader::values::boolean;
use slackwater_sim::scenario::{
    Batching, Failure, FailureCost, Group, Hobble, Neighbour, Quota, Service, Sharing, Stall,
};

const SERVICES: &[Kind] = &[
    ("shared", &["cores", "bucket", "burst", "contention_loss"]),
    (
        "quota",
        &[
            "cpu",
            "period",
            "at_once",
            "neighbour.share",
            "neighbour.least",
            "neighbour.most",
        ],
    ),
    ("fifo", &["workers"]),
    ("batch", &["batch_max", "batch_added"]),
    ("latency", &["trace", "trace_column", "trace_unit"]),
];

/// Default period of a quota: that of the kernel and of most container runtimes.
const PERIOD: Duration = Duration::from_millis(100);

/// Until the end of the run, however long it is.
const FOREVER: Duration = Duration::MAX;

/// The replicas; empty only after a mistake.
pub(super) fn read_fleet(reader: &mut Reader<'_>) -> Vec<Group> {
    let groups = reader.count_tables("fleet");
    if groups == 0 && !reader.has("fleet") {
        reader.add_missing_key("fleet", "at least one table [[fleet]] with the key count");
    }
    let groups = (0..groups).map(|number| read_group(reader, &format!("fleet[{number}]")));
    groups.collect()
}

fn read_group(reader: &mut Reader<'_>, group: &str) -> Group {
    let key = |name: &str| format!("{group}.{name}");
    let count = needed_count(reader, &key("count"), true);
    let service = read_service(reader, group);
    let slowness = decimal(reader, &key("slowness"), 1.0);
    let extra_delay = span(reader, &key("extra_delay"), Duration::ZERO);
    let io_wait = span(reader, &key("io_wait"), Duration::ZERO);
    let probe_cost = span(reader, &key("probe_cost"), Duration::ZERO);
    let mut flag = |name, default| reader.setting(&key(name), default, "", boolean).value;
    let answers_probes = flag("answers_probes", true);
    let learns_capacity = flag("learns_capacity", false);
    let tells_cpu = flag("tells_cpu", true);
    let carries_reports = flag("carries_reports", false);
    let report_noise = decimal(reader, &key("report_noise"), 0.0);
    let failure = read_failure(reader, &key("failure"));
    let stall = read_stall(reader, &key("stall"));
    let hobble = read_hobble(reader, &key("hobble"));
    // A value that could not be read is already reported. A valid one in its place lets the other
    // mistakes be found as well.
    Group {
        slowness,
        failure,
        stall,
        hobble,
        extra_delay,
        io_wait,
        answers_probes,
        probe_cost,
        learns_capacity,
        tells_cpu,
        report_noise,
        carries_reports,
        ..Group::healthy(count.unwrap_or(1), service.unwrap_or(Service::Latency))
    }
}

fn read_service(reader: &mut Reader<'_>, group: &str) -> Option<Service> {
    let key = |name: &str| format!("{group}.{name}");
    let service = kind(reader, group, "service", Some("shared"), SERVICES)?;
    Some(match service {
        "quota" => Service::Quota(read_quota(reader, group)?),
        "fifo" => Service::Fifo {
            workers: count(reader, &key("workers"), 1),
        },
        "batch" => Service::Batch(Batching {
            max: needed_count(reader, &key("batch_max"), true)?,
            added: decimal(reader, &key("batch_added"), 0.0),
        }),
        "latency" if reader.has(&key("trace")) => Service::LatencyTrace(read_trace(reader, group)?),
        "latency" => Service::Latency,
        _ => Service::Shared(Sharing {
            cores: decimal(reader, &key("cores"), 1.0),
            bucket: decimal(reader, &key("bucket"), 0.0),
            burst: decimal(reader, &key("burst"), 1.0),
            contention_loss: decimal(reader, &key("contention_loss"), 0.0),
        }),
    })
}

fn read_quota(reader: &mut Reader<'_>, group: &str) -> Option<Quota> {
    let key = |name: &str| format!("{group}.{name}");
    let cpu = needed_span(reader, &key("cpu"), true);
    let period = span(reader, &key("period"), PERIOD);
    let at_once = decimal(reader, &key("at_once"), 1.0);
    let neighbour = read_neighbour(reader, &key("neighbour"));
    Some(Quota {
        cpu: cpu?,
        period,
        at_once,
        neighbour,
    })
}

fn read_neighbour(reader: &mut Reader<'_>, section: &str) -> Option<Neighbour> {
    let is_there = reader.has_section(section);
    let share = needed_decimal(reader, &format!("{section}.share"), is_there);
    let least = needed_span(reader, &format!("{section}.least"), is_there);
    let most = needed_span(reader, &format!("{section}.most"), is_there);
    Some(Neighbour {
        share: share?,
        least: least?,
        most: most?,
    })
}

fn read_failure(reader: &mut Reader<'_>, section: &str) -> Option<Failure> {
    let is_there = reader.has_section(section);
    let share = needed_decimal(reader, &format!("{section}.share"), is_there);
    let cost = read_failure_cost(reader, section);
    let from = span(reader, &format!("{section}.from"), Duration::ZERO);
    let until = span(reader, &format!("{section}.until"), FOREVER);
    let reported_until = span(reader, &format!("{section}.reported_until"), FOREVER);
    Some(Failure {
        share: share?,
        cost,
        from,
        until,
        reported_until,
    })
}

fn read_failure_cost(reader: &mut Reader<'_>, section: &str) -> FailureCost {
    let (fixed, share) = (format!("{section}.cost"), format!("{section}.cost_share"));
    let cost = needed_span(reader, &fixed, false);
    if cost.is_some()
        && let Some(item) = reader.take(&share)
    {
        reader.add_mistake(item.mistake("does nothing beside cost; expected one of the two"));
    }
    let share = decimal(reader, &share, 0.0);
    cost.map_or(FailureCost::Share(share), FailureCost::Fixed)
}

fn read_stall(reader: &mut Reader<'_>, section: &str) -> Option<Stall> {
    let is_there = reader.has_section(section);
    let every = needed_span(reader, &format!("{section}.every"), is_there);
    let lasts = needed_span(reader, &format!("{section}.lasts"), is_there);
    let regular = reader.setting(&format!("{section}.regular"), false, "", boolean);
    Some(Stall {
        every: every?,
        regular: regular.value,
        lasts: lasts?,
    })
}

fn read_hobble(reader: &mut Reader<'_>, section: &str) -> Option<Hobble> {
    let is_there = reader.has_section(section);
    let from = span(reader, &format!("{section}.from"), Duration::ZERO);
    let until = span(reader, &format!("{section}.until"), FOREVER);
    let capacity = decimal(reader, &format!("{section}.capacity"), 1.0);
    let latency = needed_span(reader, &format!("{section}.latency"), false);
    is_there.then_some(Hobble {
        from,
        until,
        capacity,
        latency,
    })
}
