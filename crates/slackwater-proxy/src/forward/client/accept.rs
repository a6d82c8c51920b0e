//! Accepts connections from listeners, and shuts a worker down in order.
//!
//! A worker shuts down in steps. It accepts the connections that already wait, closes its
//! listeners, and ends each connection with its next response. Then it closes idle connections,
//! lets requests finish until the drain is over, and cuts off the rest.

use super::{Clients, Handler, Phase, Requests};
use crate::forward::head::{Origin, Rules};
use crate::forward::time::LogInterval;
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

/// Minimum time between the last accept and the close of idle connections: requests that arrive by
/// then are served.
const LAST_LOOK: Duration = Duration::from_millis(5);

/// Pause after an accept failed for lack of a resource, mostly file descriptors.
const ACCEPT_PAUSE: Duration = Duration::from_millis(100);

/// A listener, and how its connections are prepared before they carry requests.
#[derive(Debug)]
pub struct BoundListener {
    /// Index of the listener, for routes.
    pub index: usize,
    /// The listening socket.
    pub listener: TcpListener,
    /// TLS handshakes; `None` if connections are plain.
    pub handshakes: Option<Rc<Handshakes>>,
}

/// Accepts connections from listeners for one worker.
#[derive(Debug)]
pub struct AcceptLoop<H> {
    /// Serves the connections.
    pub clients: Rc<Clients>,
    /// Answers their requests.
    pub handler: Rc<H>,
    /// Rules for all requests.
    pub rules: Rc<Rules>,
    /// Limit of concurrent connections of all workers. Further connections wait to be accepted.
    pub connections: Arc<Semaphore>,
    /// Phase of the shutdown. [`Phase::Leaving`]: another loop goes on with the listeners' sockets.
    pub phase: watch::Receiver<Phase>,
    /// Drain time for requests in flight, from the moment when listeners close.
    pub drain: Duration,
    /// Drain time for idle connections.
    pub drain_idle: Duration,
}

impl<H: Handler> AcceptLoop<H> {
    /// Serves the listeners until the phase ends them, and then until the last connection has
    /// ended.
    pub async fn serve(self, listeners: Vec<BoundListener>) {
        let requests = Rc::new(Requests::of(&self.handler));
        let accept = |listening| self.accept(listening, &requests);
        join_all(listeners.into_iter().map(accept)).await;
        let began = Instant::now();
        self.clients.enter(Phase::Leaving);
        // By then the last accepted connection is counted.
        tokio::time::sleep(LAST_LOOK).await;
        let idle = self.drain_idle.min(self.drain).max(LAST_LOOK);
        let _ = tokio::time::timeout(idle, self.ended()).await;
        self.clients.enter(Phase::Draining);
        // Connections see this phase, however short the drain is.
        let ends = (began + self.drain).max(Instant::now() + LAST_LOOK);
        let is_over = tokio::time::timeout_at(ends, self.ended()).await.is_err();
        let left = self.clients.open();
        if is_over && left > 0 {
            tracing::warn!(
                connections = left,
                "drain timed out: connections closed; raise timeouts.drain to wait longer"
            );
        }
        self.clients.enter(Phase::Stopped);
        self.clients.gone().await;
    }

    /// Waits until no connection is left, or until the process stops.
    async fn ended(&self) {
        tokio::select! {
            () = self.clients.gone() => (),
            () = self.reached(Phase::Stopped) => (),
        }
    }

    /// Accepts connections from one listener until the drain begins.
    async fn accept(&self, listening: BoundListener, requests: &Rc<Requests<H>>) {
        let BoundListener {
            index,
            listener,
            handshakes,
        } = listening;
        let local = listener.local_addr().map(|address| address.to_string());
        let Some(local) = local.ok().and_then(|local| Authority::try_from(local).ok()) else {
            return;
        };
        let take = |(stream, peer): (TcpStream, SocketAddr),
                    permit: Option<OwnedSemaphorePermit>| {
            let mut origin = Box::new(Origin::new(&self.rules, peer, local.clone(), index));
            origin.note_ends(peer, || stream.local_addr());
            let (clients, requests) = (Rc::clone(&self.clients), Rc::clone(requests));
            let handshakes = handshakes.clone();
            tokio::task::spawn_local(async move {
                let _permit = permit;
                clients.carry(stream, origin, handshakes, requests).await;
            });
        };
        let mut draining = pin!(self.reached(Phase::Leaving));
        let log_interval = LogInterval::default();
        loop {
            let accepted = tokio::select! {
                biased;
                () = &mut draining => break,
                accepted = listener.accept() => accepted,
            };
            let accepted = match accepted {
                Ok(accepted) => accepted,
                Err(error) if is_of_one_connection(&error) => continue,
                Err(error) => {
                    if log_interval.is_due() {
                        tracing::warn!(%error, %local, "cannot accept connections");
                    }
                    tokio::time::sleep(ACCEPT_PAUSE).await;
                    continue;
                }
            };
            // The permit is acquired after the accept, so that an idle listener does not hold a
            // permit that another one needs. A connection that is already accepted when the drain
            // begins is served even if that exceeds the limit by one.
            let permit = tokio::select! {
                () = &mut draining => {
                    take(accepted, None);
                    break;
                }
                permit = Arc::clone(&self.connections).acquire_owned() => permit,
            };
            // The semaphore is never closed.
            take(accepted, permit.ok());
        }
        // A client that waits may have connected after a change that it must see.
        if *self.phase.borrow() == Phase::Leaving {
            return;
        }
        // Clients that are already connected would otherwise be refused when the listener closes.
        let mut waiting = waiting(listener);
        while let Ok(permit) = Arc::clone(&self.connections).try_acquire_owned()
            && let Some(accepted) = waiting.next()
        {
            take(accepted, Some(permit));
        }
    }

    /// Waits for a phase. Returns also if the sender of phases is gone.
    async fn reached(&self, phase: Phase) {
        let mut phases = self.phase.clone();
        let _ = phases.wait_for(|now| *now >= phase).await;
    }
}

/// Returns all connections that wait to be accepted. It calls the system directly: the runtime
/// limits the number of accepts in a row, and reports only connections that had arrived at its last
/// poll.
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

/// Whether the error concerns one connection, whose client left before it was accepted. The
/// listener still works.
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
    use crate::forward::client::testing::Refuser;
    use crate::forward::session::ClientSettings;
    use crate::forward::time::Deadlines;
    use crate::forward::wire::Memory;
    use slackwater_config::{ForwardedSettings, Limits, Timeouts};
    use tokio::task::LocalSet;

    fn listening() -> std::net::TcpListener {
        let address = "127.0.0.1:0".parse().expect("an address");
        let mut listeners = crate::forward::client::listen(address, 1).expect("a port");
        listeners.remove(0)
    }

    #[tokio::test]
    async fn all_waiting_connections_are_accepted() {
        let listener = listening();
        let address = listener.local_addr().expect("bound");
        let listener = TcpListener::from_std(listener).expect("a listener");
        let connect = |_| std::net::TcpStream::connect(address).expect("there is room");
        let clients: Vec<_> = (0..300).map(connect).collect();
        let taken: Vec<_> = waiting(listener).map(|(_, peer)| peer).collect();
        let local = |client: &std::net::TcpStream| client.local_addr().expect("connected");
        assert_eq!(taken, clients.iter().map(local).collect::<Vec<_>>());
    }

    #[tokio::test]
    async fn connections_that_wait_are_left_to_the_next_loop_of_the_sockets() {
        for (phase, is_left) in [(Phase::Leaving, true), (Phase::Draining, false)] {
            let listener = listening();
            let next = listener.try_clone().expect("a copy");
            let address = listener.local_addr().expect("bound");
            let client = std::net::TcpStream::connect(address).expect("there is room");
            let limits = Limits::default();
            let settings = ClientSettings::new(&Timeouts::default(), &limits, &[]);
            let deadlines = Deadlines::new(Duration::from_secs(1));
            let (_phase, phases) = watch::channel(phase);
            let accepting = AcceptLoop {
                clients: Clients::new(&settings, &deadlines, &Memory::of_worker(1)),
                handler: Rc::new(Refuser),
                rules: Rules::new(&ForwardedSettings::default(), &limits),
                connections: Arc::new(Semaphore::new(1)),
                phase: phases,
                drain: Duration::ZERO,
                drain_idle: Duration::ZERO,
            };
            let bound = BoundListener {
                index: 0,
                listener: TcpListener::from_std(listener).expect("a listener"),
                handshakes: None,
            };
            LocalSet::new()
                .run_until(accepting.serve(vec![bound]))
                .await;
            let next = TcpListener::from_std(next).expect("a listener");
            assert_eq!(waiting(next).count(), usize::from(is_left), "{phase:?}");
            drop(client);
        }
    }
}
