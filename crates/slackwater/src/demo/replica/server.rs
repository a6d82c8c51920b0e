//! One replica on a loopback port. It speaks HTTP/1.1 and h2c, distinguished by the connection's
//! first bytes.
//!
//! The code that spawns the replica wraps the service, so that a load tracker is where it would be
//! in a real one. A replica can be killed (its listener and connections are gone, connections are
//! refused), revived on the same port, and shut down with time for requests in flight. TLS and
//! addresses other than loopback are absent on purpose.

use core::fmt;
use core::net::{Ipv4Addr, SocketAddr};
use core::time::Duration;
use std::io;
use std::sync::Arc;

use http::{Request, Response};
use http_body::Body;
use hyper::body::Incoming;
use hyper_util::rt::{TokioExecutor, TokioIo, TokioTimer};
use hyper_util::server::conn::auto;
use hyper_util::service::TowerToHyperService;
use tokio::net::{TcpListener, TcpSocket, TcpStream};
use tokio::sync::Semaphore;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;
use tower_service::Service;

#[cfg(test)]
use super::machine::Figures;
use super::machine::Machine;
use super::service::Emulated;

/// Most connections of a replica. Further ones wait in the kernel's queue until one ends.
const CONNECTIONS_MAX: usize = 1_024;

/// The kernel's queue of connections not yet accepted.
const BACKLOG: u32 = 1_024;

/// Pause of the listener after a failed accept, for example for lack of file descriptors.
const ACCEPT_PAUSE: Duration = Duration::from_millis(50);

/// The error of a service, a body or a connection.
type BoxError = Box<dyn core::error::Error + Send + Sync>;

/// A replica that serves until it is dropped or shut down.
pub(crate) struct Replica {
    addr: SocketAddr,
    machine: Machine,
    /// Serves connections from a listener for one life. It contains the wrapped service.
    listen: Box<dyn Fn(TcpListener, Life) + Send + Sync>,
    life: Option<Life>,
    /// The port of a dead replica, bound so that no other process gets it, but not listening.
    grave: Option<TcpSocket>,
}

/// The tasks of a replica from its start or revival until its death.
#[derive(Clone)]
struct Life {
    tasks: TaskTracker,
    /// Stop accepting, and finish requests in flight.
    retire: CancellationToken,
    /// Drop everything.
    die: CancellationToken,
}

impl Replica {
    /// Starts the replica of `machine` on a free port of 127.0.0.1. It serves what `wrap` returns
    /// for the inner service: `|service| layer.layer(service)`, or `|service| service`. Tasks run
    /// on the caller's runtime.
    ///
    /// # Errors
    /// No port is free.
    pub(crate) async fn spawn<S, B>(
        machine: Machine,
        wrap: impl FnOnce(Emulated) -> S,
    ) -> io::Result<Self>
    where
        S: Service<Request<Incoming>, Response = Response<B>> + Clone + Send + Sync + 'static,
        S::Future: Send,
        S::Error: Into<BoxError>,
        B: Body + Send + 'static,
        B::Data: Send,
        B::Error: Into<BoxError>,
    {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await?;
        let addr = listener.local_addr()?;
        let service = TowerToHyperService::new(wrap(Emulated::new(machine.clone())));
        let listen = Box::new(move |listener, life: Life| {
            let tasks = life.tasks.clone();
            tasks.spawn(accept(listener, service.clone(), life));
        });
        let player = machine.clone();
        tokio::spawn(async move { player.run().await });
        let mut replica = Self {
            addr,
            machine,
            listen,
            life: None,
            grave: None,
        };
        replica.live(listener);
        Ok(replica)
    }

    /// The replica's address. It stays the same through death and revival.
    pub(crate) fn addr(&self) -> SocketAddr {
        self.addr
    }

    /// The true figures at this moment, also while the replica is dead.
    #[cfg(test)]
    pub(crate) fn figures(&self) -> Figures {
        self.machine.figures()
    }

    /// Returns whether the replica listens.
    pub(crate) fn is_alive(&self) -> bool {
        self.life.is_some()
    }

    /// Kills the replica as a crash would: its connections break, queries in service are lost, new
    /// connections are refused. Its machine and neighbours live on. A dead replica stays as it is.
    ///
    /// # Errors
    /// The port cannot be kept. The replica is dead all the same, and `revive` will try to get the
    /// port back.
    pub(crate) async fn kill(&mut self) -> io::Result<()> {
        let Some(life) = self.life.take() else {
            return Ok(());
        };
        life.die.cancel();
        life.tasks.close();
        life.tasks.wait().await;
        self.grave = Some(bind(self.addr)?);
        Ok(())
    }

    /// Makes a dead replica listen again on its port. A living one stays as it is.
    ///
    /// # Errors
    /// Another process has taken the port.
    pub(crate) fn revive(&mut self) -> io::Result<()> {
        if self.is_alive() {
            return Ok(());
        }
        let socket = self.grave.take().map_or_else(|| bind(self.addr), Ok)?;
        self.live(socket.listen(BACKLOG)?);
        Ok(())
    }

    /// Stops accepting, lets requests in flight finish for at most `patience`, and drops the rest.
    pub(crate) async fn shutdown(mut self, patience: Duration) {
        if let Some(life) = self.life.take() {
            life.retire.cancel();
            life.tasks.close();
            if tokio::time::timeout(patience, life.tasks.wait())
                .await
                .is_err()
            {
                life.die.cancel();
                life.tasks.wait().await;
            }
        }
    }

    fn live(&mut self, listener: TcpListener) {
        let life = Life {
            tasks: TaskTracker::new(),
            retire: CancellationToken::new(),
            die: CancellationToken::new(),
        };
        (self.listen)(listener, life.clone());
        self.life = Some(life);
    }
}

impl Drop for Replica {
    fn drop(&mut self) {
        if let Some(life) = &self.life {
            life.die.cancel();
        }
        self.machine.stop();
    }
}

impl fmt::Debug for Replica {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Replica")
            .field("addr", &self.addr)
            .field("alive", &self.is_alive())
            .field("machine", &self.machine)
            .finish_non_exhaustive()
    }
}

/// Returns a socket that holds the port without listening. Connections of the previous life may
/// linger in the kernel.
fn bind(addr: SocketAddr) -> io::Result<TcpSocket> {
    let socket = TcpSocket::new_v4()?;
    socket.set_reuseaddr(true)?;
    socket.bind(addr)?;
    Ok(socket)
}

/// Accepts connections and serves each in a task of its own until the life ends.
async fn accept<S, B>(listener: TcpListener, service: TowerToHyperService<S>, life: Life)
where
    S: Service<Request<Incoming>, Response = Response<B>> + Clone + Send + 'static,
    S::Future: Send,
    S::Error: Into<BoxError>,
    B: Body + Send + 'static,
    B::Data: Send,
    B::Error: Into<BoxError>,
{
    let room = Arc::new(Semaphore::new(CONNECTIONS_MAX));
    let accepting = async {
        // The semaphore is never closed, so the loop ends only by cancellation.
        while let Ok(permit) = Arc::clone(&room).acquire_owned().await {
            let Ok((stream, _)) = listener.accept().await else {
                tokio::time::sleep(ACCEPT_PAUSE).await;
                continue;
            };
            let connection = serve(stream, service.clone(), life.clone());
            life.tasks.spawn(async move {
                connection.await;
                drop(permit);
            });
        }
    };
    tokio::select! {
        () = life.die.cancelled() => {}
        () = life.retire.cancelled() => {}
        () = accepting => {}
    }
}

/// Serves one connection to its end. Its errors are ignored: the client went away, or did not speak
/// HTTP.
async fn serve<S, B>(stream: TcpStream, service: TowerToHyperService<S>, life: Life)
where
    S: Service<Request<Incoming>, Response = Response<B>> + Clone + Send + 'static,
    S::Future: Send,
    S::Error: Into<BoxError>,
    B: Body + Send + 'static,
    B::Data: Send,
    B::Error: Into<BoxError>,
{
    // Otherwise a small response waits for the acknowledgement of the previous one. If this fails,
    // the connection is only slower.
    let _ = stream.set_nodelay(true);
    let mut server = auto::Builder::new(TokioExecutor::new());
    server.http1().timer(TokioTimer::new());
    server.http2().timer(TokioTimer::new());
    let connection = server.serve_connection(TokioIo::new(stream), service);
    tokio::pin!(connection);
    tokio::select! {
        () = life.die.cancelled() => return,
        _ = connection.as_mut() => return,
        () = life.retire.cancelled() => connection.as_mut().graceful_shutdown(),
    }
    tokio::select! {
        () = life.die.cancelled() => {}
        _ = connection => {}
    }
}

#[cfg(test)]
mod tests;
