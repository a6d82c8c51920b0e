//! The lanes of the training: how `serve` is configured, and what is sent to it.

/// A configuration, and the streams of requests that it gets one after the other.
#[derive(Debug)]
pub(super) struct Lane {
    pub(super) name: &'static str,
    /// Whether an agent stands before each replica.
    pub(super) has_agents: bool,
    /// The body of each response.
    pub(super) body_bytes: u64,
    /// Whether responses have a trailer, as those of gRPC.
    pub(super) has_trailers: bool,
    /// The format of the access log.
    pub(super) log: &'static str,
    /// More keys of the service.
    pub(super) service: &'static str,
    pub(super) streams: &'static [Stream],
}

/// A stream of requests.
#[derive(Debug)]
pub(super) struct Stream {
    pub(super) to: Address,
    /// Options of `slackwater load`.
    pub(super) options: &'static [&'static str],
}

/// A listener.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Address {
    Plain,
    Secure,
}

const HTTP2: &[&str] = &["--http", "2"];
const UPLOAD: &[&str] = &["--body-bytes", "2000"];
const GRPC: &[&str] = &[
    "--http",
    "2",
    "--body-bytes",
    "10",
    "--header",
    "te: trailers",
    "--header",
    "content-type: application/grpc",
];

const fn plain(options: &'static [&'static str]) -> Stream {
    Stream {
        to: Address::Plain,
        options,
    }
}

const fn secure(options: &'static [&'static str]) -> Stream {
    Stream {
        to: Address::Secure,
        options,
    }
}

/// All lanes.
pub(super) const LANES: [Lane; 4] = [
    Lane {
        name: "defaults",
        has_agents: true,
        body_bytes: 200,
        has_trailers: false,
        log: "text",
        service: "",
        streams: &[
            // Twice, as the most usual one.
            plain(&[]),
            plain(&[]),
            plain(HTTP2),
            plain(UPLOAD),
            secure(&[]),
            secure(HTTP2),
        ],
    },
    Lane {
        name: "round-robin",
        has_agents: false,
        body_bytes: 64 << 10,
        has_trailers: false,
        log: "json",
        service: "policy = \"round_robin\"\n[services.web.probe]\ntransport = \"none\"\n",
        // Without TLS: an emulator would encrypt too slowly.
        streams: &[plain(&[]), plain(HTTP2)],
    },
    Lane {
        name: "least-loaded",
        has_agents: false,
        body_bytes: 2_000,
        has_trailers: false,
        log: "text",
        service: "policy = \"least_loaded\"\n[services.web.probe]\ntransport = \"none\"\n",
        streams: &[plain(&[])],
    },
    Lane {
        name: "grpc",
        has_agents: true,
        body_bytes: 20,
        has_trailers: true,
        log: "json",
        service: "policy = \"prequal\"\n[services.web.replica]\nprotocol = \"h2c\"\n",
        streams: &[plain(GRPC), plain(HTTP2), plain(&[]), secure(GRPC)],
    },
];
