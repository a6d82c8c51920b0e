//! One of the twin fleets: embedded replicas with the real server side around each, and its UDP probe responder.
//!
//! Inside is emulation (`replica`); from the load layer outwards everything is what a service in production would run.
//! All tasks go to the runtime of the caller and end with the fleet.

use super::replica::World;
use super::replica::machine::{Figures, Machine};
use super::replica::server::Replica;
use core::net::{Ipv4Addr, SocketAddr};
use core::time::Duration;
use futures_util::future::join_all;
use slackwater_core::Rif;
use slackwater_tower::server::{Load, LoadLayer, respond_udp};
use std::io;
use tokio::net::UdpSocket;
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
        let counted = load.clone();
        let responder = tokio::spawn(async move {
            // Ends only with the runtime; a replica that falls silent is balanced by what the proxy sees.
            let _ = respond_udp(socket, counted, None).await;
        });
        Ok(Self {
            replica,
            watched: Watched { machine, load },
            probe_address,
            _responder: AbortOnDropHandle::new(responder),
        })
    }
}
