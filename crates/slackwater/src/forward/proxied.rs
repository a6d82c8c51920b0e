//! Connections that begin with a PROXY header: who the client is, before anything of its own.

use super::origin::Origin;
use super::session::Session;
use crate::proxy_protocol;
use core::cell::Cell;
use core::future::poll_fn;
use core::pin::pin;
use core::task::Poll;
use std::io;
use tokio::net::TcpStream;

impl Session {
    /// Reads the header, within the time for a head and not after the drain has begun, and puts what it tells into
    /// `origin`. `false` if the connection has to be closed.
    pub(super) async fn carry_proxy_header(
        &self,
        stream: &mut TcpStream,
        origin: &mut Origin,
    ) -> bool {
        let is_trusted = (origin.proxied().unwrap_or_default().iter())
            .any(|network| network.contains(origin.peer));
        let refused = if is_trusted {
            self.allow(self.clients.head_ticks);
            let is_unwelcome = Cell::new(false);
            let mut reading = pin!(proxy_protocol::read(stream));
            let reading = poll_fn(|cx| {
                if is_unwelcome.get() {
                    return Poll::Ready(Err(io::ErrorKind::ConnectionAborted.into()));
                }
                reading.as_mut().poll(cx)
            });
            let read = self.carry(pin!(reading), |_| is_unwelcome.set(true)).await;
            match read {
                Some(Ok(told)) => {
                    if let Some((from, to)) = told.addresses {
                        *origin = origin.told(from, to);
                    }
                    self.allow(self.clients.idle_ticks);
                    return true;
                }
                // The drain is nobody's fault.
                Some(Err(error)) if error.kind() == io::ErrorKind::ConnectionAborted => {
                    return false;
                }
                Some(Err(error)) => error.to_string(),
                None => "it did not come in time".to_owned(),
            }
        } else {
            "it may not come from there".to_owned()
        };
        origin.rules.proxy_headers_refused.add_one();
        tracing::debug!(from = %origin.peer, why = refused, "no PROXY header");
        false
    }
}
