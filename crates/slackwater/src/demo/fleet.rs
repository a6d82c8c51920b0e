//! One of the twin fleets: embedded replicas with the real server side around each, and its UDP
//! probe responder.
//!
//! Inside is emulation (`replica`); from the load layer outwards everything is what a service in
//! production would run. All tasks go to the runtime of the caller and end with the fleet.

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
    members: Vec<Member>,
}

#[derive(Debug)]
struct Member {
    replica: Replica,
    watched: Watched,
    probe_address: SocketAddr,
    /// Answers probes, unless there is a fault that keeps it from that.
    _responder: AbortOnDropHandle<()>,
}

#[derive(Debug, Clone)]
struct Watched {
    machine: Machine,
    load: Load,
}

/// Reads the state of a fleet's replicas; any thread may.
#[derive(Debug, Clone)]
pub(super) struct Watcher(Vec<Watched>);

impl Watcher {
    /// The true state of each replica, and the requests in flight that its probes report; by index.
    pub(super) fn figures(&self) -> impl Iterator<Item = (Figures, Rif)> + '_ {
        let watched = self.0.iter();
        watched.map(|replica| (replica.machine.figures(), replica.load.rif()))
    }
}

/// Where one replica is to be reached.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Addresses {
    /// For requests.
    pub(super) requests: SocketAddr,
    /// For probes over UDP.
    pub(super) probes: SocketAddr,
}

impl Fleet {
    /// Starts every replica of `world` on free ports of 127.0.0.1.
    ///
    /// # Errors
    /// When the machine has no port left.
    pub(super) async fn start(world: &World) -> io::Result<Self> {
        let mut members = Vec::with_capacity(world.replicas);
        for index in 0..world.replicas {
            members.push(Member::start(world, index).await?);
        }
        Ok(Self { members })
    }

    /// Where the replicas are, by index.
    pub(super) fn addresses(&self) -> impl Iterator<Item = Addresses> + '_ {
        self.members.iter().map(|member| Addresses {
            requests: member.replica.addr(),
            probes: member.probe_address,
        })
    }

    /// Somebody who looks at the replicas, also after the fleet's end.
    pub(super) fn watcher(&self) -> Watcher {
        let watched = self.members.iter().map(|member| member.watched.clone());
        Watcher(watched.collect())
    }

    /// What is wrong with a replica from now on.
    ///
    /// # Errors
    /// A replica that lives again has lost its port to another process, or there is none of that
    /// index.
    pub(super) async fn set_fault(&mut self, index: usize, fault: Fault) -> io::Result<()> {
        let Some(member) = self.members.get_mut(index) else {
            return Err(io::Error::other(format!("there is no replica {index}")));
        };
        member.watched.machine.set_fault(fault);
        if fault == Fault::Killed {
            member.replica.kill().await
        } else {
            member.replica.revive()
        }
    }

    /// A neighbour takes so many hundredths of a replica's machine from now on.
    pub(super) fn set_taken(&self, index: usize, percent: u8) {
        if let Some(member) = self.members.get(index) {
            member.watched.machine.set_taken(percent);
        }
    }

    /// Slow episodes come by themselves from now on, or do not.
    pub(super) fn set_weather(&self, on: bool) {
        for member in &self.members {
            member.watched.machine.set_weather(on);
        }
    }

    /// Lets what is in flight finish for at most `patience`, all replicas at once; ends the rest.
    pub(super) async fn shutdown(self, patience: Duration) {
        let replicas = self.members.into_iter().map(|member| member.replica);
        join_all(replicas.map(|replica| replica.shutdown(patience))).await;
    }
}

impl Member {
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

/// Answers probes while nothing is wrong that keeps the replica from it. Those that come meanwhile
/// wait in the socket.
async fn respond(socket: UdpSocket, load: Load, mut faults: watch::Receiver<Fault>) {
    let mut responder = pin!(respond_udp(socket, load, None));
    // Either ends only with the runtime; a replica that falls silent is balanced by what the proxy
    // sees.
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
