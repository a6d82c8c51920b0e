//! `[health]`: whether and how replicas are checked.

use super::assemble::{count, timeout};
use super::probe::parse_path;
use super::retries::name_of;
use super::show::{quoted, write_section};
use crate::toml_reader::Reader;
use crate::toml_reader::values::{Unfit, nonzero, one_of, show_duration, text, whole};
use core::fmt::{self, Display};
use core::num::NonZeroU16;
use core::time::Duration;
use http::StatusCode;
use http::uri::{Authority, PathAndQuery};

const MS: Duration = Duration::from_millis(1);
const HOUR: Duration = Duration::from_hours(1);

/// How many checks in a row change a verdict.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Thresholds {
    /// Passed ones, for a replica that is down: at least 1.
    pub rise: u32,
    /// Failed ones, for a replica that is up: at least 1.
    pub fall: u32,
}

/// Whether and how replicas are checked.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HealthSettings {
    /// What is asked; default nothing.
    pub check: HealthCheck,
    /// The port that checks of every replica go to; default the replica's own.
    pub port: Option<NonZeroU16>,
    /// What an HTTP check asks for; default `/`.
    pub path: PathAndQuery,
    /// The host that a check names; default the replica's address.
    pub host: Option<String>,
    /// The statuses of a replica that is well; none stands for all from 200 to 299, the default.
    pub statuses: Vec<StatusCode>,
    /// The service that a gRPC check asks after; default the empty name, which is the server as a whole.
    pub grpc_service: String,
    /// From the end of a check to the next, give or take a tenth: 10 ms to 1 hour, default 5 s.
    pub interval: Duration,
    /// For which a check may take: 1 ms to 1 minute, default 1 s.
    pub timeout: Duration,
    /// How many checks in a row change a verdict: 1 to 100 each, default 2 to rise and 3 to fall.
    pub thresholds: Thresholds,
}

/// What a check asks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum HealthCheck {
    /// Nothing: there are no checks.
    None,
    /// Whether it takes connections.
    Tcp,
    /// Whether it answers a request well, in the protocol of its service.
    Http,
    /// Whether it says so itself, by the gRPC health checking protocol.
    Grpc,
}

impl HealthCheck {
    const NAMES: [(&'static str, Self); 4] = [
        ("none", Self::None),
        ("tcp", Self::Tcp),
        ("http", Self::Http),
        ("grpc", Self::Grpc),
    ];
}

impl Default for HealthSettings {
    fn default() -> Self {
        Self {
            check: HealthCheck::None,
            port: None,
            path: PathAndQuery::from_static("/"),
            host: None,
            statuses: Vec::new(),
            grpc_service: String::new(),
            interval: Duration::from_secs(5),
            timeout: Duration::from_secs(1),
            thresholds: Thresholds { rise: 2, fall: 3 },
        }
    }
}

impl HealthSettings {
    /// Reads `[health]`, or `[services.NAME.health]` where `prefix` says so.
    pub(super) fn read(reader: &mut Reader<'_>, prefix: &str) -> Self {
        let default = Self::default();
        let key = |name: &str| format!("{prefix}health.{name}");
        let check = reader.setting(&key("check"), default.check, "", |value| {
            one_of(value, &HealthCheck::NAMES)
        });
        let port = reader.setting(&key("port"), None, "a port from 1 to 65535", |value| {
            nonzero(value).map(Some)
        });
        let path = reader.setting(&key("path"), default.path, "", parse_path);
        let host = reader.setting(
            &key("host"),
            None,
            "a host, and perhaps a port, such as \"example.com\"",
            |value| {
                let host = text(value, "a host such as \"example.com\"")?;
                match host.parse::<Authority>() {
                    Ok(authority) if !host.contains('@') => Ok(Some(authority.to_string())),
                    _ => Err(Unfit::Range),
                }
            },
        );
        let statuses = read_statuses(reader, &key("statuses"));
        let grpc_service = reader.setting(
            &key("grpc_service"),
            default.grpc_service,
            "the name of a service, up to 256 bytes",
            |value| match text(value, "the name of a service")? {
                name if name.len() <= 256 => Ok(name.to_owned()),
                _ => Err(Unfit::Range),
            },
        );
        let mut span = |name, default, range| timeout(reader, &key(name), default, &range);
        let interval = span("interval", default.interval, MS * 10..=HOUR);
        let timeout = span("timeout", default.timeout, MS..=Duration::from_mins(1));
        let Thresholds { rise, fall } = default.thresholds;
        Self {
            check: check.value,
            port: port.value,
            path: path.value,
            host: host.value,
            statuses,
            grpc_service: grpc_service.value,
            interval,
            timeout,
            thresholds: Thresholds {
                rise: count(reader, &key("rise"), rise, 1..=100),
                fall: count(reader, &key("fall"), fall, 1..=100),
            },
        }
    }

    /// Writes the section as it is in force.
    pub(super) fn write(&self, to: &mut String, prefix: &str) -> fmt::Result {
        let span = |span| quoted(show_duration(span));
        let check = name_of(&HealthCheck::NAMES, |of| of == self.check);
        let port = self.port.map(|port| port.to_string());
        let host = self.host.as_ref().map(quoted);
        let statuses: Vec<_> = self.statuses.iter().map(StatusCode::as_str).collect();
        let statuses = format!("[{}]", statuses.join(", "));
        let mut fields: Vec<(&str, &dyn Display)> = Vec::new();
        let check = quoted(check);
        fields.push(("check", &check));
        if let Some(port) = &port {
            fields.push(("port", port));
        }
        let path = quoted(&self.path);
        fields.push(("path", &path));
        if let Some(host) = &host {
            fields.push(("host", host));
        }
        fields.push(("statuses", &statuses));
        let grpc_service = quoted(&self.grpc_service);
        fields.push(("grpc_service", &grpc_service));
        let [interval, timeout] = [span(self.interval), span(self.timeout)];
        fields.push(("interval", &interval));
        fields.push(("timeout", &timeout));
        fields.push(("rise", &self.thresholds.rise));
        fields.push(("fall", &self.thresholds.fall));
        write_section(to, &format!("{prefix}health"), &fields)
    }
}

fn read_statuses(reader: &mut Reader<'_>, field: &str) -> Vec<StatusCode> {
    let mut statuses = Vec::new();
    for item in reader.take_list(field).unwrap_or_default() {
        let status = item.read(
            |value| StatusCode::from_u16(whole(value)?).map_err(|_| Unfit::Range),
            "a status from 100 to 999",
        );
        statuses.extend(reader.note(status));
    }
    statuses.sort_unstable();
    statuses.dedup();
    statuses
}
