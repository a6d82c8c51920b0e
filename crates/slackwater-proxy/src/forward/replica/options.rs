//! Options of a replica: the configuration of its connections and of one exchange on them.

use crate::forward::counts::ReplicaEnds;
use crate::forward::time::LogInterval;
use core::time::Duration;
use slackwater_config::{Limits, ReplicaProtocol, ReplicaSettings, Timeouts};
use slackwater_http::HeadLimits;
use slackwater_http::proxy_protocol::Version;
use std::io;
use std::sync::Arc;

/// Maximum number of connections from one worker to one replica. Many are opened only if requests
/// use most of the streams, or if many long bodies are sent concurrently.
pub(crate) const CONNECTIONS_MAX: usize = 256;

/// Options of connections to a replica.
#[derive(Clone, Debug)]
pub struct ReplicaOptions {
    /// Protocol of the replica.
    pub protocol: ReplicaProtocol,
    /// Connect timeout.
    pub connect: Duration,
    /// Longest wait for the response head, from the moment when the last piece of the request was
    /// handed on.
    pub first_byte: Duration,
    /// Longest wait between two pieces of a response body.
    pub stall: Duration,
    /// Longest time in which both sides of a tunnel are silent.
    pub tunnel: Duration,
    /// Longest time that an idle connection is kept.
    pub idle: Duration,
    /// Maximum number of idle HTTP/1.1 connections.
    pub idle_connections_max: usize,
    /// Maximum number of HTTP/2 connections.
    pub connections_max: usize,
    /// Maximum number of concurrent requests on an HTTP/2 connection.
    pub streams_max: usize,
    /// Maximum size of a response head.
    pub head_limits: HeadLimits,
    /// Whether the replica may be an agent, which can report that its server is gone. An agent's
    /// own server may not: the mark is removed from its responses, so that it cannot cause a
    /// request to be repeated elsewhere.
    pub may_be_agent: bool,
    /// Version of the PROXY header that names the client of a connection; `None` for no header.
    /// HTTP/1.1 only.
    pub proxy_protocol: Option<Version>,
    /// Counts why connections end.
    pub ends: Arc<ReplicaEnds>,
    /// How often the log says that this process lacks what connections need.
    pub own_lack: LogInterval,
}

impl ReplicaOptions {
    /// Makes the options from the configuration.
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
            head_limits: HeadLimits {
                bytes_max: limits.head_bytes_max as usize,
                fields_max: limits.head_fields_max as usize,
            },
            may_be_agent: true,
            proxy_protocol: settings.proxy_protocol,
            ends: Arc::default(),
            own_lack: LogInterval::default(),
        }
    }

    /// Logs, once in a while, why no connection to any replica can be opened. Without that the
    /// operator would see only that replicas seem to be full.
    pub(crate) fn warn_of_own_lack(&self, error: &io::Error) {
        if self.own_lack.is_due() {
            tracing::warn!(
                %error,
                "cannot open connections to replicas: if there are too many open files, raise their hard \
                 limit (ulimit -Hn, LimitNOFILE= of systemd), or lower limits.connections_max"
            );
        }
    }
}
