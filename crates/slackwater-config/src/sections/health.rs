//! `[health]`: whether and how replicas are checked.

use super::idle::{idle_key, is_other};
use super::kinds::PATH;
use crate::table::{
    Choice, HOUR, MINUTE, MS, Maybe, Number, Port, SECOND, SetOf, Span, Status, Within, Written,
    field, named, settings,
};
use crate::toml_reader::values::{Unfit, quote};
use crate::toml_reader::{Reader, Remark, Severity};
use core::num::NonZeroU16;
use core::time::Duration;
use http::StatusCode;
use http::uri::{Authority, PathAndQuery};

/// Number of equal results in a row that change a replica's state.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Thresholds {
    /// Passed checks that bring a replica up: at least 1.
    pub rise: u32,
    /// Failed checks that take a replica down: at least 1.
    pub fall: u32,
}

settings! {
    /// Whether and how replicas are checked.
    pub struct HealthSettings in "health" {
        /// How replicas are checked: not at all, by a TCP connection, by an HTTP request, or by
        /// gRPC's health checking protocol.
        check: HealthCheck = HealthCheck::None, Choice(HealthCheck::NAMES);
        /// The port of all checks.
        port: Option<NonZeroU16> = None, Maybe(Within(Port, NonZeroU16::MIN..=NonZeroU16::MAX)), "the replica's port";
        /// The path of HTTP checks.
        path: PathAndQuery = PathAndQuery::from_static("/"), PATH;
        /// `Host` of HTTP and gRPC checks.
        host: Option<String> = None, Maybe(HOST), "the replica's address";
        /// Statuses that pass an HTTP check.
        statuses: Vec<StatusCode> = Vec::new(), SetOf(STATUS), "none: all from 200 to 299";
        /// The service that a gRPC check names. `""`: the server as a whole.
        grpc_service: String = String::new(), GRPC_SERVICE;
        /// Pause between two checks, ±10 %.
        interval: Duration = Duration::from_secs(5), Within(Span, Duration::from_millis(10)..=HOUR);
        /// Timeout of a check.
        timeout: Duration = SECOND, Within(Span, MS..=MINUTE);
    } then {
        /// Passed checks in a row that bring a replica up.
        rise at thresholds.rise: Within(Number, 1..=100);
        /// Failed checks in a row that take a replica down.
        fall at thresholds.fall: Within(Number, 1..=100);
    } also {
        /// Number of equal results in a row that change a replica's state.
        thresholds: Thresholds = Thresholds { rise: 2, fall: 3 };
    }
}

named! {
    /// The kind of a check.
    pub enum HealthCheck {
        /// No checks.
        None = "none",
        /// A TCP connection.
        Tcp = "tcp",
        /// An HTTP request, in the service's protocol.
        Http = "http",
        /// The gRPC health checking protocol.
        Grpc = "grpc",
    }
}

const HOST: Written<String> = Written {
    what: "a host such as \"example.com\"",
    expected: "a host, and perhaps a port, such as \"example.com\"",
    parse: |host| match host.parse::<Authority>() {
        Ok(authority) if !host.contains('@') => Ok(authority.to_string()),
        _ => Err(Unfit::Range),
    },
    text: String::clone,
};

const GRPC_SERVICE: Written<String> = Written {
    what: "the name of a service",
    expected: "the name of a service, up to 256 bytes",
    parse: |name| {
        (name.len() <= 256)
            .then(|| name.to_owned())
            .ok_or(Unfit::Range)
    },
    text: String::clone,
};

/// Warns about settings that the checks do not use.
pub(super) fn unused(reader: &Reader<'_>, prefix: &str, health: &HealthSettings) -> Vec<Remark> {
    let uses: &[(&str, &[HealthCheck])] = &[
        ("path", &[HealthCheck::Http]),
        ("statuses", &[HealthCheck::Http]),
        ("host", &[HealthCheck::Http, HealthCheck::Grpc]),
        ("grpc_service", &[HealthCheck::Grpc]),
    ];
    if health.check == HealthCheck::None {
        return idle(reader, prefix).into_iter().collect();
    }
    let idle = uses
        .iter()
        .filter(|(key, checks)| !checks.contains(&health.check) && is_other(health, key));
    let remarks = idle.filter_map(|(key, checks)| {
        let names: Vec<_> = checks.iter().map(|check| quote(check.as_str())).collect();
        let told = format!("only with health.check = {}", names.join(" or "));
        idle_key(reader, &field::<HealthSettings>(prefix, key), &told)
    });
    remarks.collect()
}

/// Warns about settings of checks where no checks are made.
fn idle(reader: &Reader<'_>, prefix: &str) -> Option<Remark> {
    let definition = |key| reader.definition(&field::<HealthSettings>(prefix, key));
    if definition("check").is_some() {
        return None;
    }
    let about = reader.section_definition(&format!("{prefix}health"))?;
    let is_http = ["path", "host", "statuses"]
        .into_iter()
        .any(|key| definition(key).is_some());
    let check = match definition("grpc_service") {
        Some(_) => "\"grpc\"",
        None if is_http => "\"http\"",
        None => "\"tcp\", \"http\" or \"grpc\"",
    };
    Some(Remark {
        severity: Severity::Warning,
        about: about.mistake(format!(
            "checks nothing: without the key check there are no health checks; add check = {check}"
        )),
    })
}

/// All statuses of a response.
const STATUS: Status = Status { from: 100, to: 999 };
