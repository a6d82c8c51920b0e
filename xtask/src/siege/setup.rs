//! What a proxy is started with.

use core::net::SocketAddr;

/// What replicas are spoken to by.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Protocol {
    Http1,
    H2c,
}

/// What a proxy is started with.
#[derive(Clone, Copy, Debug)]
pub(super) struct Setup<'a> {
    pub(super) workers: usize,
    pub(super) replicas: &'a [SocketAddr],
    pub(super) protocol: Protocol,
    /// More keys of Slackwater's file, for the process.
    pub(super) process: &'a str,
    /// After this many seconds Slackwater closes connections that carry nothing; 3 by default, so
    /// that all is given back soon.
    pub(super) idle: u32,
    /// Files that it may open; as many as the system allows by default.
    pub(super) files_max: Option<usize>,
    /// A replica that gets the requests for `/innocent`, and no others.
    pub(super) innocents: Option<SocketAddr>,
    /// Tables at its end; with them the replicas are those of the service `default`.
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
