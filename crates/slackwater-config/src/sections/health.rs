//! `[health]`: whether and how replicas are checked.

use super::kinds::PATH;
use crate::table::{
    Choice, HOUR, MINUTE, MS, Maybe, Number, Port, SECOND, SetOf, Span, Status, Within, Written,
    named, settings,
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

settings! {
    /// Whether and how replicas are checked.
    pub struct HealthSettings in "health" {
        /// What each replica is asked from time to time: nothing, whether it takes connections, a
        /// request by HTTP, or its health by gRPC's health checking protocol.
        check: HealthCheck = HealthCheck::None, Choice(HealthCheck::NAMES);
        /// The port that checks of every replica go to.
        port: Option<NonZeroU16> = None, Maybe(Within(Port, NonZeroU16::MIN..=NonZeroU16::MAX)), "the replica's port";
        /// What an HTTP check asks for.
        path: PathAndQuery = PathAndQuery::from_static("/"), PATH;
        /// The host that an HTTP or gRPC check names.
        host: Option<String> = None, Maybe(HOST), "the replica's address";
        /// The statuses of a replica that is well.
        statuses: Vec<StatusCode> = Vec::new(), SetOf(STATUS), "none: all from 200 to 299";
        /// The service that a gRPC check asks after. `""`: the server as a whole.
        grpc_service: String = String::new(), GRPC_SERVICE;
        /// From the end of a check to the next, give or take a tenth.
        interval: Duration = Duration::from_secs(5), Within(Span, Duration::from_millis(10)..=HOUR);
        /// For which a check may take.
        timeout: Duration = SECOND, Within(Span, MS..=MINUTE);
    } then {
        /// Checks in a row that a replica that is down must pass to be up.
        rise at thresholds.rise: Within(Number, 1..=100);
        /// Checks in a row that a replica that is up must fail to be down.
        fall at thresholds.fall: Within(Number, 1..=100);
    } also {
        /// How many checks in a row change a verdict.
        thresholds: Thresholds = Thresholds { rise: 2, fall: 3 };
    }
}

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
