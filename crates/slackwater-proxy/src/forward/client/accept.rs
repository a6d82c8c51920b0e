//! From listeners to clients: accepting connections, and a worker's orderly end.
//!
//! A worker ends in steps: it takes what already waits to be accepted, closes its listeners, and
//! ends each connection with its next response; then it closes those that had none, lets requests
//! finish until the drain is over, and cuts off the rest.

use super::{Clients, Handler, Phase};
use crate::forward::head::{Origin, Rules};
use crate::tls::Handshakes;
use core::net::SocketAddr;
use core::pin::pin;
use core::time::Duration;
use futures_util::future::join_all;
use http::uri::Authority;
use std::io;
use std::rc::Rc;
use std::sync::Arc;
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{OwnedSemaphorePermit, Semaphore, watch};
use tokio::time::Instant;

/// Between the last accept and the close of idle connections, at least: what has arrived by then is
/// a request, and is served.
const LAST_LOOK: Duration = Duration::from_millis(5);

/// After an accept failed for lack of something, mostly file descriptors.
const ACCEPT_PAUSE: Duration = Duration::from_millis(100);

/// Between two complaints of that, at one socket.
const COMPLAINT: Duration = Duration::from_mins(1);

/// A listener, and what it does with connections before they carry requests.
#[derive(Debug)]
pub struct BoundListener {
    /// Its number, for routes.
    pub index: usize,
    /// Where clients connect.
    pub listener: TcpListener,
    /// TLS; `None`: connections are plain.
    pub handshakes: Option<Rc<Handshakes>>,
}

/// Takes connections from listeners for one worker.
#[derive(Debug)]
pub struct AcceptLoop<H> {
    /// How their connections are served.
    pub clients: Rc<Clients>,
    /// Who answers their requests.
    pub handler: Rc<H>,
    /// What holds for all of them.
    pub rules: Rc<Rules>,
    /// As many as there may be connections at once, over all workers; the others wait to be
    /// accepted.
    pub connections: Arc<Semaphore>,
    /// How far the process is towards its end.
    pub phase: watch::Receiver<Phase>,
    /// From the moment when listeners close: for requests that run,
    pub drain: Duration,
    /// and for connections that carry none.
    pub drain_idle: Duration,
}

impl<H: Handler> AcceptLoop<H> {
    /// Serves sockets, each with the number of its listener, until the phase, and then the last
    /// connection, ends.
    pub async fn serve(self, listeners: Vec<BoundListener>) {
        join_all((listeners.into_iter()).map(|listening| self.accept(listening))).await;
        let began = Instant::now();
        self.clients.enter(Phase::Leaving);
        // By then whoever was accepted last is counted among the connections.
        tokio::time::sleep(LAST_LOOK).await;
        let idle = self.drain_idle.min(self.drain).max(LAST_LOOK);
        let _ = tokio::time::timeout(idle, self.ended()).await;
        self.clients.enter(Phase::Draining);
        let _ = tokio::time::timeout_at(began + self.drain, self.ended()).await;
        let left = self.clients.open();
        if left > 0 {
            tracing::warn!(
                connections = left,
                "the drain is over; what still runs is cut off"
            );
        }
        self.clients.enter(Phase::Stopped);
        self.clients.gone().await;
    }

    /// Waits until no connection is left, or none is to be.
    async fn ended(&self) {
        tokio::select! {
            () = self.clients.gone() => (),
            () = self.reached(Phase::Stopped) => (),
        }
    }

    /// Takes connections from one listener until the drain begins.
    async fn accept(&self, listening: BoundListener) {
        let BoundListener {
            index,
            listener,
            handshakes,
        } = listening;
        let local = listener.local_addr().map(|address| address.to_string());
        let Some(local) = local.ok().and_then(|local| Authority::try_from(local).ok()) else {
            return;
        };
        let mut draining = pin!(self.reached(Phase::Draining));
        let mut complained_at: Option<Instant> = None;
        loop {
            let accepted = tokio::select! {
                () = &mut draining => break,
                accepted = listener.accept() => accepted,
            };
            let accepted = match accepted {
                Ok(accepted) => accepted,
                Err(error) if is_of_one_connection(&error) => continue,
                Err(error) => {
                    if complained_at.is_none_or(|at| at.elapsed() >= COMPLAINT) {
                        complained_at = Some(Instant::now());
                        tracing::warn!(%error, %local, "cannot accept connections");
                    }
                    tokio::time::sleep(ACCEPT_PAUSE).await;
                    continue;
                }
            };
            // Not before the accept: a listener that waits must not hold what another one needs.
            // Whoever is accepted already is served when the drain begins, if need be as one more
            // than allowed.
            let permit = tokio::select! {
                () = &mut draining => {
                    self.take(accepted, None, index, &local, handshakes.as_ref());
                    break;
                }
                permit = Arc::clone(&self.connections).acquire_owned() => permit,
            };
            // The semaphore is never closed.
            self.take(accepted, permit.ok(), index, &local, handshakes.as_ref());
        }
        // Whoever is connected already would otherwise be turned away when the listener closes.
        let mut waiting = waiting(listener);
        while let Ok(permit) = Arc::clone(&self.connections).try_acquire_owned()
            && let Some(accepted) = waiting.next()
        {
            self.take(accepted, Some(permit), index, &local, handshakes.as_ref());
        }
    }

    fn take(
        &self,
        (stream, peer): (TcpStream, SocketAddr),
        permit: Option<OwnedSemaphorePermit>,
        listener: usize,
        local: &Authority,
        handshakes: Option<&Rc<Handshakes>>,
    ) {
        let (clients, handler) = (Rc::clone(&self.clients), Rc::clone(&self.handler));
        let mut origin = Origin::new(&self.rules, peer, local.clone(), listener);
        origin.note_ends(peer, || stream.local_addr());
        let handshakes = handshakes.cloned();
        tokio::task::spawn_local(async move {
            let _permit = permit;
            clients.carry(stream, origin, handshakes, handler).await;
        });
    }

    /// Also when whoever could say so is gone.
    async fn reached(&self, phase: Phase) {
        let mut phases = self.phase.clone();
        let _ = phases.wait_for(|now| *now >= phase).await;
    }
}

/// All who wait to be accepted, asked of the system itself: the runtime gives its answer to so many
/// calls in a row only, and knows of those alone who had come when it last looked.
fn waiting(listener: TcpListener) -> impl Iterator<Item = (TcpStream, SocketAddr)> {
    let listener = listener.into_std().ok();
    core::iter::from_fn(move || {
        loop {
            let (stream, peer) = match listener.as_ref()?.accept() {
                Ok(accepted) => accepted,
                Err(error) if is_of_one_connection(&error) => continue,
                Err(_) => return None,
            };
            let is_ready = stream.set_nonblocking(true);
            if let Ok(stream) = is_ready.and_then(|()| TcpStream::from_std(stream)) {
                return Some((stream, peer));
            }
        }
    })
}

/// The client left before it was accepted; the listener is well.
fn is_of_one_connection(error: &io::Error) -> bool {
    matches!(
        error.kind(),
        io::ErrorKind::ConnectionAborted
            | io::ErrorKind::ConnectionReset
            | io::ErrorKind::Interrupted
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn all_who_wait_are_taken_however_many() {
        let address = "127.0.0.1:0".parse().expect("an address");
        let listener = crate::forward::client::listen(address, 1)
            .expect("a port")
            .remove(0);
        let address = listener.local_addr().expect("bound");
        let listener = TcpListener::from_std(listener).expect("a listener");
        let connect = |_| std::net::TcpStream::connect(address).expect("there is room");
        let clients: Vec<_> = (0..300).map(connect).collect();
        let taken: Vec<_> = waiting(listener).map(|(_, peer)| peer).collect();
        let local = |client: &std::net::TcpStream| client.local_addr().expect("connected");
        assert_eq!(taken, clients.iter().map(local).collect::<Vec<_>>());
    }
}
