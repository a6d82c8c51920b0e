//! The setup of a proxy.

use core::net::SocketAddr;

/// The protocol of the replicas.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Protocol {
    Http1,
    H2c,
}

/// The setup of a proxy.
#[derive(Clone, Copy, Debug)]
pub(super) struct Setup<'a> {
    pub(super) workers: usize,
    pub(super) replicas: &'a [SocketAddr],
    pub(super) protocol: Protocol,
    /// More top-level keys of Slackwater's file.
    pub(super) process: &'a str,
    /// After this many seconds Slackwater closes idle connections; default 3, so that resources are
    /// freed soon.
    pub(super) idle: u32,
    /// Limit of open files; by default the system's.
    pub(super) files_max: Option<usize>,
    /// A replica that gets only the requests for `/innocent`.
    pub(super) innocents: Option<SocketAddr>,
    /// Tables at the end of Slackwater's file; with them the replicas are those of the service
    /// `default`.
    pub(super) services: &'a str,
}

impl<'a> Setup<'a> {
    pub(super) const fn new(
        workers: usize,
        replicas: &'a [SocketAddr],
        protocol: Protocol,
    ) -> Self {
        Self {
            workers,
            replicas,
            protocol,
            process: "",
            idle: 3,
            files_max: None,
            innocents: None,
            services: "",
        }
    }
}
