//! The plan of a run of the generator: target, rate, length, protocol, request.
//!
//! A plan is plain data. The command line builds it from checked arguments ([`super::args`]), and
//! the demo builds it in code. [`super::Run`] carries it out. Nothing here opens a socket or reads
//! a clock.

use bytes::Bytes;
use core::num::NonZeroUsize;
use core::time::Duration;
use http::{HeaderMap, HeaderName, Method, Uri};
use slackwater_config::tls::HttpVersion;
use std::sync::Arc;
use tokio_rustls::rustls::ClientConfig;

/// How the gaps between arrivals are drawn.
#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
pub(crate) enum Arrivals {
    /// Exponential gaps: independent arrivals, as from many users.
    Poisson,
    /// Equal gaps.
    Constant,
}

impl Arrivals {
    /// The name in the table and in JSON.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Poisson => "poisson",
            Self::Constant => "constant",
        }
    }
}

/// The protocol with the target, over TLS if the target's address has the scheme https.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Protocol {
    /// HTTP/1.1 with keep-alive, one request at a time on each connection.
    Http1,
    /// HTTP/2: with prior knowledge (h2c), or agreed on by ALPN over TLS.
    Http2 {
        /// Concurrent requests on one connection. The target may allow fewer; the surplus waits
        /// inside the connection, and its latency counts.
        streams_per_connection: NonZeroUsize,
    },
}

impl Protocol {
    /// The name in the table and in JSON.
    fn name(self, has_tls: bool) -> &'static str {
        match self {
            Self::Http1 => "http/1.1",
            Self::Http2 { .. } if has_tls => "h2",
            Self::Http2 { .. } => "h2c",
        }
    }

    /// The HTTP version that TLS must negotiate.
    pub(crate) fn alpn(self) -> HttpVersion {
        match self {
            Self::Http1 => HttpVersion::Http1,
            Self::Http2 { .. } => HttpVersion::Http2,
        }
    }
}

/// One run of the generator against one target.
#[derive(Debug, Clone)]
pub(crate) struct Plan {
    /// Absolute `http://` or `https://` address, path and query included.
    pub(crate) target: Uri,
    /// TLS for `https://`. A target of that kind without it is an error.
    pub(crate) tls: Option<Arc<ClientConfig>>,
    /// Mean number of arrivals per second; finite and above 0.
    pub(crate) rate_per_second: f64,
    /// How the gaps between arrivals are drawn.
    pub(crate) arrivals: Arrivals,
    /// Length of the measured part. 0 sends nothing that is measured.
    pub(crate) duration: Duration,
    /// Load sent before the measured part and left out of the [`super::Summary`]. 0: none.
    pub(crate) warmup: Duration,
    /// The protocol with the target.
    pub(crate) protocol: Protocol,
    /// Most connections open at once.
    pub(crate) connections: NonZeroUsize,
    /// Most arrivals that wait because all connections are in use. An arrival that finds the queue
    /// full is not sent and ends as [`super::outcome::ErrorKind::Overload`].
    pub(crate) queue_capacity: NonZeroUsize,
    /// Timeout from an arrival's intended start to the last byte of its answer.
    pub(crate) timeout: Duration,
    /// Seed of the arrival times: the same seed, rate and length give the same arrivals for every
    /// target.
    pub(crate) seed: u64,
    /// The request's method.
    pub(crate) method: Method,
    /// The request's headers besides those the generator sets (`host`, `user-agent`,
    /// `content-length`); a `host` or `user-agent` given here wins.
    pub(crate) headers: HeaderMap,
    /// The header that carries each request's number, its index among the arrivals from 0; it
    /// replaces a header of that name. `None`: requests are not numbered. Runs of the same schedule
    /// give the same numbers to the same arrivals.
    pub(crate) number_header: Option<HeaderName>,
    /// The request's body, the same for each request.
    pub(crate) body: Bytes,
}

impl Plan {
    /// Default limit of the arrivals that wait for a connection: enough for a target that hangs for
    /// 5 s at 10,000 requests/s.
    pub(crate) const QUEUE_CAPACITY: NonZeroUsize = NonZeroUsize::MIN.saturating_add(65_535);

    /// Returns a plan for plain `GET` requests over HTTP/1.1: Poisson arrivals, no warm-up, 1,000
    /// connections, a timeout of 5 s, seed 1.
    pub(crate) fn new(target: Uri, rate_per_second: f64, duration: Duration) -> Self {
        Self {
            target,
            tls: None,
            rate_per_second,
            arrivals: Arrivals::Poisson,
            duration,
            warmup: Duration::ZERO,
            protocol: Protocol::Http1,
            connections: NonZeroUsize::MIN.saturating_add(999),
            queue_capacity: Self::QUEUE_CAPACITY,
            timeout: Duration::from_secs(5),
            seed: 1,
            method: Method::GET,
            headers: HeaderMap::new(),
            number_header: None,
            body: Bytes::new(),
        }
    }

    /// Warm-up and measured part together.
    pub(crate) fn whole_duration(&self) -> Duration {
        self.warmup.saturating_add(self.duration)
    }

    /// The protocol's name in the table and in JSON.
    pub(crate) fn protocol_name(&self) -> &'static str {
        self.protocol.name(self.tls.is_some())
    }

    /// Most concurrent requests; further arrivals wait in the queue.
    pub(crate) fn slots(&self) -> usize {
        match self.protocol {
            Protocol::Http1 => self.connections.get(),
            Protocol::Http2 {
                streams_per_connection,
            } => self
                .connections
                .saturating_mul(streams_per_connection)
                .get(),
        }
    }
}
