//! `[health]`: whether and how replicas are checked.

use super::probe::PATH;
use super::table::{
    Choice, HOUR, MINUTE, MS, Maybe, Number, Port, SECOND, SetOf, Span, Status, Within, Written,
    keys, named,
};
use crate::toml_reader::values::Unfit;
use core::num::NonZeroU16;
use core::time::Duration;
use http::StatusCode;
use http::uri::{Authority, PathAndQuery};

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
    /// What is asked.
    pub check: HealthCheck,
    /// The port that checks of every replica go to; default the replica's own.
    pub port: Option<NonZeroU16>,
    /// What an HTTP check asks for.
    pub path: PathAndQuery,
    /// The host that a check names; default the replica's address.
    pub host: Option<String>,
    /// The statuses of a replica that is well; none stands for all from 200 to 299.
    pub statuses: Vec<StatusCode>,
    /// The service that a gRPC check asks after.
    pub grpc_service: String,
    /// From the end of a check to the next, give or take a tenth.
    pub interval: Duration,
    /// For which a check may take.
    pub timeout: Duration,
    /// How many checks in a row change a verdict.
    pub thresholds: Thresholds,
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
            timeout: SECOND,
            thresholds: Thresholds { rise: 2, fall: 3 },
        }
    }
}

keys! { HealthSettings in "health" {
    /// What each replica is asked from time to time: nothing, whether it takes connections, a
    /// request by HTTP, or its health by gRPC's health checking protocol.
    check at check: Choice(HealthCheck::NAMES);
    /// The port that checks of every replica go to.
    port at port: Maybe(Within(Port, NonZeroU16::MIN..=NonZeroU16::MAX)), "the replica's port";
    /// What an HTTP check asks for.
    path at path: PATH;
    /// The host that an HTTP or gRPC check names.
    host at host: Maybe(HOST), "the replica's address";
    /// The statuses of a replica that is well.
    statuses at statuses: SetOf(STATUS), "none: all from 200 to 299";
    /// The service that a gRPC check asks after. `""`: the server as a whole.
    grpc_service at grpc_service: GRPC_SERVICE;
    /// From the end of a check to the next, give or take a tenth.
    interval at interval: Within(Span, Duration::from_millis(10)..=HOUR);
    /// For which a check may take.
    timeout at timeout: Within(Span, MS..=MINUTE);
    /// Checks in a row that a replica that is down must pass to be up.
    rise at thresholds.rise: Within(Number, 1..=100);
    /// Checks in a row that a replica that is up must fail to be down.
    fall at thresholds.fall: Within(Number, 1..=100);
} }

named! {
    /// What a check asks.
    pub enum HealthCheck {
        /// Nothing: there are no checks.
        None = "none",
        /// Whether it takes connections.
        Tcp = "tcp",
        /// Whether it answers a request well, in the protocol of its service.
        Http = "http",
        /// Whether it says so itself, by the gRPC health checking protocol.
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

/// Any status of a response.
const STATUS: Status = Status { from: 100, to: 999 };
