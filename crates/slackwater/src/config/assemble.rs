//! The whole configuration, put together from its keys: scalars here, what has rules of its own in the neighbouring files.

use super::fleet::{note_collisions, read_admin, read_listen, read_replicas};
use super::model::{
    AdminSettings, Config, Limits, ProbeTransport, ReplicaProtocol, ReplicaSettings, Timeouts,
};
use super::policies::{PolicySections, has_probes, reads};
use super::probe::ProbeSection;
use super::tls::{read_listener_tls, read_replica_tls};
use super::{Loaded, remarks};
use crate::toml_reader::values::{
    bytes, duration, nonzero, one_of, show_bytes, show_duration, whole, within,
};
use crate::toml_reader::{Mistakes, Reader, Remark, Setting};
use core::net::{IpAddr, Ipv4Addr, SocketAddr};
use core::num::NonZeroU16;
use core::ops::RangeInclusive;
use core::time::Duration;
use slackwater_core::policy::{POLICIES, PolicyEntry};

const MS: Duration = Duration::from_millis(1);
const DAY: Duration = Duration::from_hours(24);
const ADMIN: SocketAddr = SocketAddr::new(IpAddr::V4(Ipv4Addr::LOCALHOST), 9900);

/// Reads every key and checks them against each other. Also gives every key that there is.
pub(super) fn assemble(mut reader: Reader<'_>) -> (Vec<String>, Result<Loaded, Mistakes>) {
    let reader_ref = &mut reader;
    let listeners = read_listen(reader_ref);
    let workers = read_workers(reader_ref);
    let policy = read_policy(reader_ref);
    let probe = ProbeSection::read(reader_ref);
    let mut policies = PolicySections::read(reader_ref);
    let replicas = read_replicas(reader_ref, probe.port.value);
    let mut remarks = Vec::new();
    let tls = read_listener_tls(reader_ref, "tls", &mut remarks);
    let replica = read_replica_settings(reader_ref, &mut remarks);
    let timeouts = read_timeouts(reader_ref);
    let limits = read_limits(reader_ref);
    let admin = read_admin(reader_ref, ADMIN);
    let admin_connections_max = count(reader_ref, "admin.connections_max", 64, 1..=4096);
    note_collisions(reader_ref, &listeners, admin.as_ref(), &replicas);

    let is_local_only = policies.prequal.local_only;
    if probe.transport.value == ProbeTransport::None {
        policies.prequal.local_only = true;
        note_blind(reader_ref, &policy, &probe.transport);
    }
    let policy_settings = policies.settings(reader_ref);

    remarks.extend(remarks::unread(reader_ref, policy.value.name, &policies));
    remarks.extend(probe.remarks());
    let may_be_local = reads(policy.value.name, "prequal");
    if is_local_only && may_be_local && probe.transport.value != ProbeTransport::None {
        remarks.extend(remarks::unused_probes(reader_ref));
    }
    if policy.value.name == "prequal"
        && let Ok(fleet) = u32::try_from(replicas.len())
    {
        let config = &policy_settings.prequal;
        remarks.extend(remarks::refilling(&policies, config, fleet));
    }
    if let Some((address, said)) = &admin {
        remarks.extend(remarks::exposed_admin(*address, said.as_ref()));
    }
    remarks.sort_by(|one, other| one.about.cmp(&other.about));

    let config = Config {
        listen: listeners.into_iter().map(|(address, _)| address).collect(),
        tls,
        workers,
        policy: policy.value,
        policy_settings,
        replicas: replicas.into_iter().map(|(replica, _)| replica).collect(),
        replica,
        probe: probe.into_settings(),
        timeouts,
        limits,
        admin: AdminSettings {
            listen: admin.map(|(address, _)| address),
            connections_max: admin_connections_max,
        },
    };
    let (fields, mistakes) = reader.finish();
    if mistakes.is_empty() {
        (fields, Ok(Loaded { config, remarks }))
    } else {
        (fields, Err(Mistakes::new(mistakes)))
    }
}

fn read_workers(reader: &mut Reader<'_>) -> NonZeroU16 {
    const MOST: NonZeroU16 = NonZeroU16::MIN.saturating_add(1023);
    let cores = std::thread::available_parallelism().map_or(1, usize::from);
    let cores = u16::try_from(cores).ok().and_then(NonZeroU16::new);
    let default = cores.unwrap_or(MOST).min(MOST);
    let range = "a number from 1 to 1,024; without the key there is one for each core";
    let workers = reader.setting("workers", default, range, |value| {
        nonzero(value).and_then(|workers| within(workers, &(NonZeroU16::MIN..=MOST)))
    });
    workers.value
}

fn read_policy(reader: &mut Reader<'_>) -> Setting<&'static PolicyEntry> {
    let names: Vec<_> = POLICIES.iter().map(|entry| (entry.name, entry)).collect();
    // The first is `prequal`.
    let default = &POLICIES[0];
    reader.setting("policy", default, "", |value| one_of(value, &names))
}

/// A policy that knows nothing but what replicas answer cannot do without a transport.
fn note_blind(
    reader: &mut Reader<'_>,
    policy: &Setting<&'static PolicyEntry>,
    transport: &Setting<ProbeTransport>,
) {
    let why = match policy.value.name {
        "prequal_sync" => "which asks replicas for each query",
        name if has_probes(name) && !reads(name, "prequal") => "which asks replicas all the time",
        _ => return,
    };
    if let Some(said) = &transport.said {
        let name = policy.value.name;
        reader.add_mistake(said.mistake(format!(
            "found \"none\" with policy = {name:?}, {why}; expected \"udp\" or \"http\""
        )));
    }
}

pub(super) fn read_replica_settings(
    reader: &mut Reader<'_>,
    remarks: &mut Vec<Remark>,
) -> ReplicaSettings {
    // Of HTTP/2 over TLS and without, each has its name, so that nobody leaves TLS out by mistake.
    const NAMES: [(&str, (ReplicaProtocol, Option<bool>)); 3] = [
        ("http1", (ReplicaProtocol::Http1, None)),
        ("h2c", (ReplicaProtocol::H2c, Some(false))),
        ("h2", (ReplicaProtocol::H2c, Some(true))),
    ];
    let protocol = reader.setting("replica.protocol", NAMES[0].1, "", |value| {
        one_of(value, &NAMES)
    });
    let (protocol, needs_tls) = (protocol.value, protocol.said);
    let has_tls = reader.has_section("replica.tls");
    if let ((_, Some(wanted)), Some(said)) = (protocol, needs_tls)
        && wanted != has_tls
    {
        reader.add_mistake(said.mistake(if wanted {
            "found \"h2\", which is HTTP/2 over TLS, without a section [replica.tls]; expected that, or \"h2c\""
        } else {
            "found \"h2c\", which is HTTP/2 without TLS, beside a section [replica.tls]; expected \"h2\""
        }));
    }
    ReplicaSettings {
        protocol: protocol.0,
        idle_connections_max: count(reader, "replica.idle_connections_max", 64, 0..=65_536),
        tls: read_replica_tls(reader, "replica.tls", remarks),
    }
}

pub(super) fn read_timeouts(reader: &mut Reader<'_>) -> Timeouts {
    let default = Timeouts::default();
    let mut span = |field, default, range| timeout(reader, field, default, &range);
    Timeouts {
        connect: span("timeouts.connect", default.connect, MS..=MS * 60_000),
        handshake: span(
            "timeouts.handshake",
            default.handshake,
            MS..=Duration::from_hours(1),
        ),
        head: span("timeouts.head", default.head, MS..=Duration::from_hours(1)),
        first_byte: span("timeouts.first_byte", default.first_byte, MS..=DAY),
        idle: span("timeouts.idle", default.idle, MS..=DAY),
        drain: span("timeouts.drain", default.drain, Duration::ZERO..=DAY),
    }
}

pub(super) fn read_limits(reader: &mut Reader<'_>) -> Limits {
    let default = Limits::default();
    let head_bytes: RangeInclusive<u32> = 8 << 10..=1 << 20;
    let head_range = format!(
        "from {} to {}",
        show_bytes(*head_bytes.start()),
        show_bytes(*head_bytes.end())
    );
    let head_bytes_max = reader.setting(
        "limits.head_bytes_max",
        default.head_bytes_max,
        &head_range,
        |value| bytes(value).and_then(|size| within(size, &head_bytes)),
    );
    let mut number = |field, default, range| count(reader, field, default, range);
    Limits {
        connections_max: number(
            "limits.connections_max",
            default.connections_max,
            1..=1 << 20,
        ),
        streams_max: number("limits.streams_max", default.streams_max, 1..=65_536),
        head_fields_max: number("limits.head_fields_max", default.head_fields_max, 16..=4096),
        head_bytes_max: head_bytes_max.value,
    }
}

pub(super) fn timeout(
    reader: &mut Reader<'_>,
    field: &str,
    default: Duration,
    range: &RangeInclusive<Duration>,
) -> Duration {
    let told = format!(
        "from {} to {}",
        show_duration(*range.start()),
        show_duration(*range.end())
    );
    let parse = |value: &_| duration(value).and_then(|span| within(span, range));
    reader.setting(field, default, &told, parse).value
}

pub(super) fn count(
    reader: &mut Reader<'_>,
    field: &str,
    default: u32,
    range: RangeInclusive<u32>,
) -> u32 {
    let told = format!("a number from {} to {}", range.start(), range.end());
    let parse = |value: &_| whole(value).and_then(|number| within(number, &range));
    reader.setting(field, default, &told, parse).value
}
