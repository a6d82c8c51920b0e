//! How to speak to a replica: what the configuration says of its connections and of one exchange on
//! them.

use crate::forward::counts::ReplicaEnds;
use core::time::Duration;
use slackwater_config::{Limits, ReplicaProtocol, ReplicaSettings, Timeouts};
use slackwater_http::http1::HeadLimits;
use slackwater_http::proxy_protocol::Version;
use std::sync::Arc;

/// Connections to one replica at most, from one worker. It takes many only where requests hold most
/// of the streams, or as many long bodies are under way at once.
pub(crate) const CONNECTIONS_MAX: usize = 256;

/// How to speak to a replica.
#[derive(Clone, Debug)]
pub struct ReplicaOptions {
    /// What the replica speaks.
    pub protocol: ReplicaProtocol,
    /// To a connection.
    pub connect: Duration,
    /// To the response's head, from the moment when the last piece of the request was handed on.
    pub first_byte: Duration,
    /// Between two pieces of a response's body.
    pub stall: Duration,
    /// For which neither side of a tunnel may say anything.
    pub tunnel: Duration,
    /// For which a connection that carries nothing is kept.
    pub idle: Duration,
    /// HTTP/1.1 connections that carry nothing, at most.
    pub idle_connections_max: usize,
    /// HTTP/2 connections, at most.
    pub connections_max: usize,
    /// Requests at once on an HTTP/2 connection, at most.
    pub streams_max: usize,
    /// Size of a response's head, at most.
    pub head_bytes_max: usize,
    /// Fields of a response's head, at most.
    pub head_fields_max: usize,
    /// Whether it may be an agent, and so is believed when it says that its server is gone. An
    /// agent's own server is not: the mark is taken out of its responses, so that it can't have a
    /// request repeated elsewhere.
    pub may_be_agent: bool,
    /// The form of the PROXY header that tells it whose a connection is; `None`: there is none.
    /// HTTP/1.1 only.
    pub proxy_protocol: Option<Version>,
    /// Where it is counted why connections end.
    pub ends: Arc<ReplicaEnds>,
}

impl ReplicaOptions {
    /// As configured.
    pub fn new(settings: &ReplicaSettings, timeouts: &Timeouts, limits: &Limits) -> Self {
        Self {
            protocol: settings.protocol,
            connect: timeouts.connect,
            first_byte: timeouts.first_byte,
            stall: timeouts.stall,
            tunnel: timeouts.tunnel,
            idle: timeouts.idle,
            idle_connections_max: settings.idle_connections_max as usize,
            connections_max: CONNECTIONS_MAX,
            streams_max: limits.streams_max as usize,
            head_bytes_max: limits.head_bytes_max as usize,
            head_fields_max: limits.head_fields_max as usize,
            may_be_agent: true,
            proxy_protocol: settings.proxy_protocol,
            ends: Arc::default(),
        }
    }

    pub(crate) fn head_limits(&self) -> HeadLimits {
        HeadLimits {
            bytes_max: self.head_bytes_max,
            fields_max: self.head_fields_max,
        }
    }
}
