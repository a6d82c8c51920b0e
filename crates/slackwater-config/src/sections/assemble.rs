//! The whole configuration, put together from its keys: scalars here, what has rules of its own in the neighbouring files.

use super::admin_token::read_token_file;
use super::connect::Connect;
use super::decisions::read_decisions;
use super::discovery::read_dns;
use super::fleet::{note_admin_collision, read_admin};
use super::forwarded::ForwardedSettings;
use super::listeners::{SaidListener, read_listeners};
use super::log::{read_access_log, read_log};
use super::model::{AdminSettings, Config, Limits, ReplicaProtocol, ReplicaSettings, Timeouts};
use super::otel_variables::Variables;
use super::request_id::read_request_id;
use super::routes::{Named, read_routes};
use super::services::read_services;
use super::sticky::shared_cookies;
use super::tls::read_replica_tls;
use super::tracing::read_tracing;
use super::upgrade_protocols::read_upgrade_protocols;
use super::{Loaded, remarks};
use crate::toml_reader::values::{
    Unfit, bytes, duration, nonzero, one_of, show_bytes, show_duration, whole, within,
};
use crate::toml_reader::{Mistakes, Reader, Remark};
use core::net::{IpAddr, Ipv4Addr, SocketAddr};
use core::num::NonZeroU16;
use core::ops::RangeInclusive;
use core::time::Duration;
use toml::de::DeValue;

const MS: Duration = Duration::from_millis(1);
const DAY: Duration = Duration::from_hours(24);
const ADMIN: SocketAddr = SocketAddr::new(IpAddr::V4(Ipv4Addr::LOCALHOST), 9900);

/// Reads every key and checks them against each other. Also gives every key that there is.
pub(super) fn assemble(
    mut reader: Reader<'_>,
    variables: &Variables,
) -> (Vec<String>, Result<Loaded, Mistakes>) {
    let reader_ref = &mut reader;
    let mut remarks = Vec::new();
    let listeners = read_listeners(reader_ref, &mut remarks);
    let workers = read_workers(reader_ref);
    let forwarded = ForwardedSettings::read(reader_ref);
    let connect = Connect::read(reader_ref);
    let delay = Duration::ZERO..=Duration::from_mins(10);
    let drain_delay = timeout(reader_ref, "drain_delay", Duration::ZERO, &delay);
    let timeouts = read_timeouts(reader_ref);
    let limits = read_limits(reader_ref);
    let admin = read_admin(reader_ref, ADMIN);
    let admin_connections_max = count(reader_ref, "admin.connections_max", 64, 1..=4096);
    let (admin_token, exposed_token) = read_token_file(reader_ref);
    remarks.extend(exposed_token);
    let replicas_max = 0..=1_000_000;
    let metrics_replicas_max = count(
        reader_ref,
        "admin.metrics_replicas_max",
        1_000,
        replicas_max,
    );
    let log = read_log(reader_ref);
    let access_log = read_access_log(reader_ref);
    let tracing = read_tracing(reader_ref, variables, &mut remarks);
    let request_id = read_request_id(reader_ref);
    let decisions = read_decisions(reader_ref);
    let addresses: Vec<_> = listeners.iter().map(SaidListener::address).collect();
    note_admin_collision(reader_ref, &addresses, admin.as_ref());
    let own = (addresses.as_slice(), admin.as_ref());
    let mut policies_unnamed = Vec::new();
    let services = read_services(
        reader_ref,
        own,
        &timeouts,
        &mut remarks,
        &mut policies_unnamed,
    );
    let over_http2 = services
        .iter()
        .find(|service| service.replica.protocol != ReplicaProtocol::Http1);
    let over_http2 =
        over_http2.map(|service| format!("the service {:?}, whose replicas speak", service.name));
    let upgrade_protocols = read_upgrade_protocols(reader_ref, over_http2.as_deref(), &mut remarks);
    let dns = read_dns(reader_ref);
    let named = Named {
        listeners: &listeners,
        services: &services,
        connect,
    };
    let (routes, of_routes) = read_routes(reader_ref, named);
    remarks.extend(of_routes);
    remarks.extend(shared_cookies(reader_ref, &services, &routes));
    let may_change = admin_token.is_some();
    if let Some((address, said)) = &admin {
        remarks.extend(remarks::exposed_admin(*address, said.as_ref(), may_change));
    } else if let Some(said) = reader.said_section("decisions") {
        remarks.push(remarks::untold_decisions(&said));
    }
    remarks.sort_by(|one, other| one.about.cmp(&other.about));

    let config = Config {
        listeners: listeners
            .into_iter()
            .map(|listener| listener.config)
            .collect(),
        workers,
        services,
        routes,
        dns,
        forwarded,
        upgrade_protocols,
        connect,
        drain_delay,
        timeouts,
        limits,
        admin: AdminSettings {
            listen: admin.map(|(address, _)| address),
            connections_max: admin_connections_max,
            token: admin_token,
            metrics_replicas_max: Some(metrics_replicas_max),
        },
        log,
        access_log,
        tracing,
        decisions,
        request_id,
    };
    let (fields, mistakes) = reader.finish();
    if mistakes.is_empty() {
        let loaded = Loaded {
            config,
            remarks,
            policies_unnamed,
        };
        (fields, Ok(loaded))
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

/// The section `replica`, of the service that `prefix` names.
pub(super) fn read_replica_settings(
    reader: &mut Reader<'_>,
    prefix: &str,
    remarks: &mut Vec<Remark>,
) -> ReplicaSettings {
    // HTTP/2 has a name of its own over TLS, so that nobody leaves TLS out by mistake.
    const NAMES: [(&str, (ReplicaProtocol, Option<bool>)); 3] = [
        ("http1", (ReplicaProtocol::Http1, None)),
        ("h2c", (ReplicaProtocol::H2c, Some(false))),
        ("h2", (ReplicaProtocol::H2c, Some(true))),
    ];
    let key = |name| format!("{prefix}replica.{name}");
    let protocol = reader.setting(&key("protocol"), NAMES[0].1, "", |value| {
        one_of(value, &NAMES)
    });
    let has_tls = reader.has_section(&key("tls"));
    if let ((_, Some(wants_tls)), Some(said)) = (protocol.value, protocol.said)
        && wants_tls != has_tls
    {
        let section = key("tls");
        reader.add_mistake(said.mistake(if wants_tls {
            format!("found \"h2\", HTTP/2 over TLS, without a section [{section}]; expected that, or \"h2c\"")
        } else {
            format!("found \"h2c\", HTTP/2 without TLS, beside a section [{section}]; expected \"h2\"")
        }));
    }
    let idle = count(reader, &key("idle_connections_max"), 64, 0..=65_536);
    ReplicaSettings {
        protocol: protocol.value.0,
        idle_connections_max: idle,
        connections_max: None,
        tls: read_replica_tls(reader, &key("tls"), remarks),
        // An agent's own server hears of the agent's clients, which are balancers, in no way.
        proxy_protocol: None,
    }
}

/// The key `replica.connections_max`, which an agent does not have.
pub(super) fn read_connections_max(reader: &mut Reader<'_>, prefix: &str) -> Option<u32> {
    let field = format!("{prefix}replica.connections_max");
    let told = "a number from 1 to 65536, or \"none\"";
    let max = reader.setting(&field, None, told, |value| match value.as_str() {
        Some("none") => Ok(None),
        _ => whole(value)
            .and_then(|max| within(max, &(1..=65_536)))
            .map(Some),
    });
    max.value
}

pub(super) fn read_timeouts(reader: &mut Reader<'_>) -> Timeouts {
    let whole = read_service_timeouts(reader, "", &Timeouts::default());
    let mut span = |field, default, range| timeout(reader, field, default, &range);
    Timeouts {
        handshake: span(
            "timeouts.handshake",
            whole.handshake,
            MS..=Duration::from_hours(1),
        ),
        head: span("timeouts.head", whole.head, MS..=Duration::from_hours(1)),
        stall: span("timeouts.stall", whole.stall, MS..=DAY),
        tunnel: span("timeouts.tunnel", whole.tunnel, MS..=DAY),
        idle: span("timeouts.idle", whole.idle, MS..=DAY),
        drain: span("timeouts.drain", whole.drain, Duration::ZERO..=DAY),
        drain_idle: span(
            "timeouts.drain_idle",
            whole.drain_idle,
            Duration::ZERO..=MS * 60_000,
        ),
        ..whole
    }
}

/// The timeouts that a service may have of its own; the others as they are for all.
pub(super) fn read_service_timeouts(
    reader: &mut Reader<'_>,
    prefix: &str,
    whole: &Timeouts,
) -> Timeouts {
    let mut span = |name, default, range| {
        let field = format!("{prefix}timeouts.{name}");
        timeout(reader, &field, default, &range)
    };
    Timeouts {
        connect: span("connect", whole.connect, MS..=MS * 60_000),
        first_byte: span("first_byte", whole.first_byte, MS..=DAY),
        ..whole.clone()
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
    let (told, parse) = span_within(range);
    reader.setting(field, default, &told, parse).value
}

/// What is told of a range, and what reads a span within it.
pub(super) fn span_within(
    range: &RangeInclusive<Duration>,
) -> (String, impl Fn(&DeValue<'_>) -> Result<Duration, Unfit>) {
    let told = format!(
        "from {} to {}",
        show_duration(*range.start()),
        show_duration(*range.end())
    );
    (told, |value: &DeValue<'_>| {
        duration(value).and_then(|span| within(span, range))
    })
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
