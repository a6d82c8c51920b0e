//! One of the two identical fleets: embedded replicas, each with the real server side around it and
//! its UDP probe responder.
//!
//! Only the inside of a replica is emulated (`replica`). From the load layer outwards everything is
//! what a service in production would run. All tasks run on the caller's runtime and end with the
//! fleet.

use super::replica::World;
use super::replica::machine::{Figures, Machine};
use super::replica::server::Replica;
use super::replica::trouble::Fault;
use core::net::{Ipv4Addr, SocketAddr};
use core::pin::pin;
use core::time::Duration;
use futures_util::future::join_all;
use slackwater_core::Rif;
use slackwater_tower::server::{Load, LoadLayer, respond_udp};
use std::io;
use tokio::net::UdpSocket;
use tokio::sync::watch;
use tokio_util::task::AbortOnDropHandle;
use tower::Layer;

/// A fleet that serves until it is dropped or shut down.
#[derive(Debug)]
pub(super) struct Fleet {
    replicas: Vec<RunningReplica>,
}

#[derive(Debug)]
struct RunningReplica {
    replica: Replica,
    watched: Watched,
    probe_address: SocketAddr,
    /// Answers probes, except while a fault prevents that.
    _responder: AbortOnDropHandle<()>,
}

#[derive(Debug, Clone)]
struct Watched {
    machine: Machine,
    load: Load,
}

/// Reads the state of a fleet's replicas, from any thread.
#[derive(Debug, Clone)]
pub(super) struct Watcher(Vec<Watched>);

impl Watcher {
    /// The true state of each replica, and the requests in flight that its probes report; by index.
    pub(super) fn figures(&self) -> impl Iterator<Item = (Figures, Rif)> + '_ {
        let watched = self.0.iter();
        watched.map(|replica| (replica.machine.figures(), replica.load.rif()))
    }
}

/// The addresses of one replica.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Addresses {
    /// For requests.
    pub(super) requests: SocketAddr,
    /// For probes over UDP.
    pub(super) probes: SocketAddr,
}

impl Fleet {
    /// Starts all replicas of `world` on free ports of 127.0.0.1.
    ///
    /// # Errors
    /// The machine has no port left.
    pub(super) async fn start(world: &World) -> io::Result<Self> {
        let mut replicas = Vec::with_capacity(world.replicas);
        for index in 0..world.replicas {
            replicas.push(RunningReplica::start(world, index).await?);
        }
        Ok(Self { replicas })
    }

    /// The addresses of the replicas, by index.
    pub(super) fn addresses(&self) -> impl Iterator<Item = Addresses> + '_ {
        self.replicas.iter().map(|running| Addresses {
            requests: running.replica.addr(),
            probes: running.probe_address,
        })
    }

    /// Returns a handle that reads the replicas' state, also after the fleet's end.
    pub(super) fn watcher(&self) -> Watcher {
        let watched = self.replicas.iter().map(|running| running.watched.clone());
        Watcher(watched.collect())
    }

    /// Sets what is wrong with a replica from now on.
    ///
    /// # Errors
    /// A revived replica has lost its port to another process, or there is no replica of that
    /// index.
    pub(super) async fn set_fault(&mut self, index: usize, fault: Fault) -> io::Result<()> {
        let Some(running) = self.replicas.get_mut(index) else {
            return Err(io::Error::other(format!("there is no replica {index}")));
        };
        running.watched.machine.set_fault(fault);
        if fault == Fault::Killed {
            running.replica.kill().await
        } else {
            running.replica.revive()
        }
    }

    /// Makes a neighbour take this percentage of a replica's machine from now on.
    pub(super) fn set_taken(&self, index: usize, percent: u8) {
        if let Some(running) = self.replicas.get(index) {
            running.watched.machine.set_taken(percent);
        }
    }

    /// Turns random slow episodes on or off.
    pub(super) fn set_weather(&self, on: bool) {
        for running in &self.replicas {
            running.watched.machine.set_weather(on);
        }
    }

    /// Lets requests in flight finish for at most `patience`, at all replicas at once, and ends the
    /// rest.
    pub(super) async fn shutdown(self, patience: Duration) {
        let replicas = self.replicas.into_iter().map(|running| running.replica);
        join_all(replicas.map(|replica| replica.shutdown(patience))).await;
    }
}

impl RunningReplica {
    async fn start(world: &World, index: usize) -> io::Result<Self> {
        let machine = world.machine(index);
        let cores = machine.allocation().as_f64();
        let processor = machine.clone();
        let load = Load::builder()
            .cpu(cores, move || processor.cpu_used())
            .build();
        let layer = LoadLayer::new(load.clone());
        let replica = Replica::spawn(machine.clone(), |service| layer.layer(service)).await?;
        let socket = UdpSocket::bind((Ipv4Addr::LOCALHOST, 0)).await?;
        let probe_address = socket.local_addr()?;
        let responder = tokio::spawn(respond(socket, load.clone(), machine.faults()));
        Ok(Self {
            replica,
            watched: Watched { machine, load },
            probe_address,
            _responder: AbortOnDropHandle::new(responder),
        })
    }
}

/// Answers probes, except while a fault prevents that. Probes that arrive meanwhile wait in the
/// socket.
async fn respond(socket: UdpSocket, load: Load, mut faults: watch::Receiver<Fault>) {
    let mut responder = pin!(respond_udp(socket, load, None));
    // Both futures end only with the runtime. A replica that stops answering probes is balanced by
    // what the proxy measures itself.
    while faults
        .wait_for(|fault| fault.answers_probes())
        .await
        .is_ok()
    {
        tokio::select! {
            _ = responder.as_mut() => return,
            () = async { let _ = faults.wait_for(|fault| !fault.answers_probes()).await; } => {}
        }
    }
}
