//! The proxy in its process: with an admin server, and with the state for a successor.

use super::handed_over;
use super::status::Status;
use crate::decisions_path;
use crate::upgrade::Passed;
use core::net::SocketAddr;
use slackwater_admin::{AdminServer, AdminThread, Control, Controlled};
use slackwater_config::{Config, Fault};
use slackwater_proxy::{Proxy, ServiceParts};
use slackwater_telemetry::facts::StatusSource;
use std::io;
use std::net::TcpListener;
use std::sync::Arc;

/// The running proxy, and the process's status.
#[derive(Debug)]
pub(super) struct Running {
    pub(super) proxy: Proxy,
    pub(super) status: Arc<Status>,
    /// The admin server's socket and its configured address, for a successor.
    admin: Option<(SocketAddr, TcpListener)>,
}

impl Running {
    pub(super) fn new(proxy: Proxy) -> Self {
        Self {
            status: Arc::new(Status::new(Arc::clone(proxy.status()))),
            proxy,
            admin: None,
        }
    }

    /// The configuration in force.
    pub(super) fn config(&self) -> &Config {
        self.proxy.config()
    }

    /// The current services, in the order of the configuration.
    pub(super) fn services(&self) -> Arc<[ServiceParts]> {
        self.proxy.status().services()
    }

    pub(super) fn run_admin(
        &mut self,
        listener: TcpListener,
        control: &Control,
    ) -> Result<AdminThread, Fault> {
        let fault = |error: io::Error| Fault::runtime(format!("admin server: {error}"));
        let settings = &self.proxy.config().admin;
        if let Some(configured) = settings.listen {
            self.admin = Some((configured, listener.try_clone().map_err(fault)?));
        }
        let server = AdminServer::new(
            Arc::clone(&self.status) as Arc<dyn StatusSource>,
            self.proxy.lifecycle().clone(),
            settings.connections_max,
        );
        let controlled = Arc::clone(&self.status) as Arc<dyn Controlled>;
        let server = server.controlled(controlled, control);
        self.status.set_control(control);
        let server = match settings.metrics_replicas_max {
            Some(max) => server.metrics_replicas_max(max),
            None => server,
        };
        let server =
            decisions_path::add(server, self.proxy.archive().cloned().into_iter().collect());
        let thread = server.dashboard().spawn(listener).map_err(fault)?;
        tracing::info!(address = %thread.address(), "status and metrics");
        Ok(thread)
    }

    /// Returns what a successor receives: clones of all sockets, and the overrides.
    ///
    /// # Errors
    ///
    /// The process has no descriptors left, or no memory.
    pub(super) fn passed(&self) -> io::Result<Arc<Passed>> {
        let mut passed = Passed::default();
        for (configured, socket) in self.proxy.sockets() {
            passed.add_requests(configured, socket)?;
        }
        if let Some((configured, socket)) = &self.admin {
            passed.add_admin(*configured, socket)?;
        }
        if let Some(overrides) = handed_over::encode(self.status.overrides()) {
            passed.add_overrides(&overrides)?;
        }
        Ok(Arc::new(passed))
    }

    /// Stops accepting connections. Running requests have `timeouts.drain` to finish.
    pub(super) fn drain(&mut self) {
        // Otherwise the socket would go on listening after the admin server ends.
        self.admin = None;
        self.proxy.drain();
    }
}
