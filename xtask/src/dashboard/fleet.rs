//! Many replicas in one thread, behind `serve`: each serves HTTP/1.1 and answers probes over UDP,
//! and some are in trouble. A process for each would be too much for a small machine.

use core::cell::Cell;
use core::net::{Ipv4Addr, SocketAddr};
use core::time::Duration;
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use std::io;
use std::net::{TcpListener, UdpSocket};
use std::rc::Rc;
use std::thread::JoinHandle;
use tokio::io::{AsyncBufReadExt, AsyncWriteExt, BufReader};
use tokio::sync::{Semaphore, oneshot};

/// Concurrent requests of a replica, which it also reports as its capacity; further ones wait.
pub(super) const ROOM: u32 = 4;

const ANSWER: &[u8] = b"HTTP/1.1 200 OK\r\ncontent-length: 7\r\n\r\nserved\n";
const FAILURE: &[u8] = b"HTTP/1.1 500 Internal Server Error\r\ncontent-length: 7\r\n\r\nfailed\n";

/// Header of the probe protocol (`docs/reference/probe-protocol.md`): a message has 96 bytes, which
/// begin with this and the version.
const MAGIC: [u8; 5] = *b"SLWP\x01";
const BASE: usize = 96;
const REQUEST: u8 = 1;
const REPLY: u8 = 2;
const DRAINING: u8 = 2;
/// Presence bits: latency, capacity and cost.
const PRESENT: u8 = 1 | 1 << 6 | 1 << 7;

/// A running fleet. Dropping it ends it.
pub(super) struct Fleet {
    pub(super) addresses: Vec<SocketAddr>,
    stop: Option<oneshot::Sender<()>>,
    thread: Option<JoinHandle<()>>,
}

/// A replica's behaviour.
#[derive(Clone, Copy, Debug)]
struct Kind {
    service: Duration,
    fails: bool,
    drains: bool,
}

impl Kind {
    /// Service times from 12 to 30 ms, multiplied by `slower`. Every ninth replica is four times
    /// slower; one in fifty drains, one in fifty fails.
    fn of(index: usize, slower: u32) -> Self {
        let spread = u64::try_from(index * 7 % 10).unwrap_or(0);
        let slower = if index % 9 == 4 { 4 * slower } else { slower };
        Self {
            service: Duration::from_millis(12 + 2 * spread) * slower,
            drains: index % 50 == 11,
            fails: index % 50 == 16,
        }
    }
}

impl Fleet {
    /// Starts `count` replicas on free ports of loopback, slow enough that `rate` requests per
    /// second keep them busy.
    pub(super) fn start(count: usize, rate: u32) -> Result<Self, String> {
        let slower = slower(count, rate);
        let wrong = |error: io::Error| format!("{count} replicas cannot be started: {error}");
        allow_many_descriptors();
        let sockets: Vec<_> = (0..count)
            .map(|_| open())
            .collect::<io::Result<_>>()
            .map_err(wrong)?;
        let addresses = sockets
            .iter()
            .map(|(listener, _)| listener.local_addr())
            .collect::<io::Result<_>>()
            .map_err(wrong)?;
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .build()
            .map_err(wrong)?;
        let (stop, stopped) = oneshot::channel();
        let thread = std::thread::spawn(move || {
            let local = tokio::task::LocalSet::new();
            local.block_on(&runtime, async move {
                for (index, (listener, probes)) in sockets.into_iter().enumerate() {
                    let kind = Kind::of(index, slower);
                    tokio::task::spawn_local(serve(kind, listener, probes));
                }
                // Ends when the sender sends or is dropped.
                let _ = stopped.await;
            });
        });
        Ok(Self {
            addresses,
            stop: Some(stop),
            thread: Some(thread),
        })
    }
}

impl Drop for Fleet {
    fn drop(&mut self) {
        drop(self.stop.take());
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

/// The factor that makes about half of all replicas' permits occupied.
fn slower(count: usize, rate: u32) -> u32 {
    // Beyond this, requests would run into `serve`'s timeouts.
    const MAX: usize = 80;
    let slower = count * 90 / (rate.max(1) as usize);
    u32::try_from(slower.clamp(1, MAX)).unwrap_or(1)
}

/// Opens a port that is free for TCP and for UDP.
fn open() -> io::Result<(TcpListener, UdpSocket)> {
    const TRIES: usize = 100;
    let mut last = None;
    for _ in 0..TRIES {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0))?;
        match UdpSocket::bind(listener.local_addr()?) {
            Ok(probes) => {
                listener.set_nonblocking(true)?;
                probes.set_nonblocking(true)?;
                return Ok((listener, probes));
            }
            Err(error) => last = Some(error),
        }
    }
    Err(last.unwrap_or_else(|| io::ErrorKind::AddrInUse.into()))
}

/// Raises the limit of descriptors as far as possible. If that is not enough, opening sockets
/// fails.
fn allow_many_descriptors() {
    let Rlimit { maximum, .. } = getrlimit(Resource::Nofile);
    let wanted = Rlimit {
        current: maximum,
        maximum,
    };
    let _ = setrlimit(Resource::Nofile, wanted);
}

struct Replica {
    kind: Kind,
    rif: Cell<u32>,
    room: Semaphore,
}

async fn serve(kind: Kind, listener: TcpListener, probes: UdpSocket) -> io::Result<()> {
    let listener = tokio::net::TcpListener::from_std(listener)?;
    let probes = tokio::net::UdpSocket::from_std(probes)?;
    let replica = Rc::new(Replica {
        kind,
        rif: Cell::new(0),
        room: Semaphore::new(ROOM as usize),
    });
    tokio::task::spawn_local(Rc::clone(&replica).answer_probes(probes));
    loop {
        let (stream, _) = listener.accept().await?;
        tokio::task::spawn_local(Rc::clone(&replica).carry(stream));
    }
}

impl Replica {
    async fn carry(self: Rc<Self>, stream: tokio::net::TcpStream) -> io::Result<()> {
        stream.set_nodelay(true)?;
        let mut stream = BufReader::new(stream);
        let mut line = String::new();
        loop {
            // Reads a head without a body, which is all that is sent here.
            loop {
                line.clear();
                if stream.read_line(&mut line).await? == 0 {
                    return Ok(());
                }
                if line.trim_end().is_empty() {
                    break;
                }
            }
            self.rif.set(self.rif.get() + 1);
            if !self.kind.fails {
                let place = self.room.acquire().await;
                tokio::time::sleep(self.kind.service).await;
                drop(place);
            }
            self.rif.set(self.rif.get() - 1);
            let answer = if self.kind.fails { FAILURE } else { ANSWER };
            stream.write_all(answer).await?;
        }
    }

    async fn answer_probes(self: Rc<Self>, probes: tokio::net::UdpSocket) -> io::Result<()> {
        let mut datagram = [0; 512];
        loop {
            let (length, from) = probes.recv_from(&mut datagram).await?;
            if let Some(reply) = self.reply(&datagram[..length]) {
                // A client that is gone needs no answer.
                let _ = probes.send_to(&reply, from).await;
            }
        }
    }

    fn reply(&self, request: &[u8]) -> Option<[u8; BASE]> {
        let head = request.get(..BASE)?;
        if !head.starts_with(&MAGIC) || head[5] != REQUEST {
            return None;
        }
        let rif = self.rif.get();
        let turns = (rif + 1).div_ceil(ROOM);
        let latency = u64::try_from((self.kind.service * turns).as_nanos()).unwrap_or(u64::MAX);
        let mut reply = [0; BASE];
        reply[..5].copy_from_slice(&MAGIC);
        reply[5] = REPLY;
        reply[7] = if self.kind.drains { DRAINING } else { 0 };
        reply[8..16].copy_from_slice(&head[8..16]);
        reply[19] = PRESENT;
        reply[20..24].copy_from_slice(&rif.to_be_bytes());
        reply[24..32].copy_from_slice(&latency.to_be_bytes());
        let service = u64::try_from(self.kind.service.as_nanos()).unwrap_or(u64::MAX);
        reply[40..48].copy_from_slice(&service.to_be_bytes());
        reply[60..64].copy_from_slice(&(ROOM * 1_000).to_be_bytes());
        Some(reply)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn slowdown_keeps_the_fleet_busy() {
        assert_eq!(slower(20, 800), 2);
        assert_eq!(slower(20, 240), 7);
        assert_eq!(slower(1_000, 1_200), 75);
        assert_eq!(slower(1_000, 100), 80);
        assert_eq!(slower(20, 100_000), 1);
    }

    #[test]
    fn a_probe_is_answered_by_the_protocol() {
        let replica = Replica {
            kind: Kind::of(11, 1),
            rif: Cell::new(5),
            room: Semaphore::new(1),
        };
        let mut request = [0; BASE];
        request[..5].copy_from_slice(&MAGIC);
        request[5] = REQUEST;
        request[8..16].copy_from_slice(&77_u64.to_be_bytes());
        let reply = replica.reply(&request).unwrap();
        assert_eq!(&reply[..8], b"SLWP\x01\x02\x00\x02");
        assert_eq!(&reply[8..16], &request[8..16]);
        assert_eq!(&reply[20..24], &5_u32.to_be_bytes());
        // Two turns of 26 ms each.
        assert_eq!(&reply[24..32], &52_000_000_u64.to_be_bytes());
        request[5] = REPLY;
        assert_eq!(replica.reply(&request), None);
        assert_eq!(replica.reply(&request[..20]), None);
    }
}
