//! Listening sockets from outside: from the process that this one replaces, or from systemd's
//! socket activation (`sd_listen_fds(3)`). Sockets that are not among them are opened.
//!
//! Sockets are matched by address. Each passed socket must be used, since no other process accepts
//! from it. Workers share the sockets: if there are more than workers, some workers accept from
//! several; if there are fewer, several workers accept from one. So the number of workers may
//! change, and no connection waits in a socket from which no worker accepts.

use super::channel::Purpose;
use super::successor::{self, Announce};
use core::net::SocketAddr;
use listenfd::ListenFd;
use slackwater_config::Fault;
use slackwater_proxy::OpenSockets;
use std::fs::File;
use std::io::{self, Read as _, Seek as _};
use std::net::{TcpListener, UdpSocket};
use std::os::fd::OwnedFd;

/// The name that marks a socket in its socket unit (`FileDescriptorName=`) as the admin server's.
const ADMIN: &str = "admin";

/// Sockets that are not yet in use.
#[derive(Debug, Default)]
pub(crate) struct Inherited {
    requests: Vec<Socket>,
    admin: Vec<Socket>,
    probes: Vec<Socket<UdpSocket>>,
    overrides: Option<String>,
    announce: Option<Announce>,
}

/// Largest size of the overrides: 1,024 settings and every replica.
const OVERRIDES_BYTES_MAX: u64 = 64 << 20;

#[derive(Debug)]
struct Socket<S = TcpListener> {
    /// The address under which it was passed: the configured one of the predecessor, or its own.
    address: SocketAddr,
    socket: S,
}

impl OpenSockets for Inherited {
    fn take(
        &mut self,
        address: SocketAddr,
        workers: usize,
    ) -> io::Result<Option<Vec<Vec<TcpListener>>>> {
        let ours = self
            .requests
            .extract_if(.., |socket| socket.address == address);
        let sockets: Vec<_> = ours.map(|socket| socket.socket).collect();
        if sockets.is_empty() {
            return Ok(None);
        }
        share_out(sockets, workers).map(Some)
    }
}

impl Inherited {
    /// Returns whether there is a predecessor, from which this process takes over with the same
    /// arguments.
    #[cfg(feature = "serve")]
    pub(crate) const fn is_passed_on(&self) -> bool {
        self.announce.is_some()
    }

    /// Takes the sockets that were passed to this process. Call it once, before threads are
    /// started.
    ///
    /// # Errors
    ///
    /// A descriptor is not a listening TCP socket, or a predecessor speaks another protocol.
    pub(crate) fn take() -> Result<Self, Fault> {
        let mut inherited = Self::default();
        if let Some(received) = successor::receive()? {
            inherited.announce = Some(received.announce);
            for (purpose, socket) in received.sockets {
                let (list, address) = match purpose {
                    Purpose::Overrides => {
                        inherited.overrides = Some(read_overrides(socket)?);
                        continue;
                    }
                    Purpose::Requests(address) => (&mut inherited.requests, address),
                    Purpose::Admin(address) => (&mut inherited.admin, address),
                    Purpose::Probes(address) => {
                        let socket = socket.into();
                        inherited.probes.push(Socket { address, socket });
                        continue;
                    }
                };
                let socket = socket.into();
                list.push(Socket { address, socket });
            }
            return Ok(inherited);
        }
        inherited.take_activated()?;
        Ok(inherited)
    }

    /// Takes the sockets that systemd passed.
    fn take_activated(&mut self) -> Result<(), Fault> {
        // Read first: the crate removes its variables from the environment, but not this one.
        let names = std::env::var("LISTEN_FDNAMES").unwrap_or_default();
        let mut names = names.split(':');
        let mut passed = ListenFd::from_env();
        for index in 0..passed.len() {
            let name = names.next().unwrap_or_default();
            let fault = |error: io::Error| {
                Fault::runtime(format!(
                    "socket {index} ({name:?}) that systemd passed is of no use: {error}; expected ListenStream= with \
                     an IP address and a port"
                ))
            };
            // If the socket is of another kind, the crate puts it back.
            if let Ok(Some(socket)) = passed.take_udp_socket(index) {
                let address = socket.local_addr().map_err(fault)?;
                socket.set_nonblocking(true).map_err(fault)?;
                self.probes.push(Socket { address, socket });
                continue;
            }
            let socket = passed.take_tcp_listener(index).map_err(fault)?;
            let Some(socket) = socket else { continue };
            let address = socket.local_addr().map_err(fault)?;
            socket.set_nonblocking(true).map_err(fault)?;
            let list = match name {
                ADMIN => &mut self.admin,
                _ => &mut self.requests,
            };
            list.push(Socket { address, socket });
        }
        Ok(())
    }

    /// Takes the socket for status and metrics.
    pub(crate) fn admin(&mut self, address: SocketAddr) -> Option<TcpListener> {
        take(&mut self.admin, address)
    }

    /// Takes a socket for probes over UDP.
    pub(crate) fn probes(&mut self, address: SocketAddr) -> Option<UdpSocket> {
        take(&mut self.probes, address)
    }

    /// Takes the predecessor's overrides; `None` if there are none, or no predecessor.
    #[cfg(feature = "serve")]
    pub(crate) fn overrides(&mut self) -> Option<String> {
        self.overrides.take()
    }

    /// Handles the sockets that were not taken. Those of a predecessor are just closed: the
    /// predecessor serves them until it ends, with the connections that wait there.
    ///
    /// # Errors
    ///
    /// systemd passed a socket at an address that is not served: connections would wait there in
    /// vain.
    pub(crate) fn finish(self) -> Result<Option<Announce>, Fault> {
        let listeners = self.requests.iter().chain(&self.admin);
        let mut left = (listeners.map(|socket| ("socket", socket.address)))
            .chain((self.probes.iter()).map(|socket| ("datagram socket", socket.address)));
        match left.next() {
            Some((kind, address)) if self.announce.is_none() => Err(Fault::usage(format!(
                "systemd passed a {kind} at {address}, where nothing is configured to listen; expected the address among \
                 those of the configuration (listen), or FileDescriptorName=admin and admin.listen",
            ))),
            _ => Ok(self.announce),
        }
    }
}

fn read_overrides(file: OwnedFd) -> Result<String, Fault> {
    let mut file = File::from(file);
    let mut text = String::new();
    // The writer has left the file position at the end.
    let read = file.rewind();
    let read = read.and_then(|()| file.take(OVERRIDES_BYTES_MAX).read_to_string(&mut text));
    match read {
        Ok(_) => Ok(text),
        Err(error) => Err(Fault::runtime(format!(
            "what is changed at run time cannot be taken over: {error}"
        ))),
    }
}

fn take<S>(sockets: &mut Vec<Socket<S>>, address: SocketAddr) -> Option<S> {
    let index = (sockets.iter()).position(|socket| socket.address == address)?;
    Some(sockets.swap_remove(index).socket)
}

fn share_out(sockets: Vec<TcpListener>, workers: usize) -> io::Result<Vec<Vec<TcpListener>>> {
    let mut shares: Vec<Vec<TcpListener>> = (0..workers).map(|_| Vec::new()).collect();
    let count = sockets.len();
    for (worker, share) in shares.iter_mut().enumerate().skip(count) {
        if let Some(socket) = sockets.get(worker % count) {
            share.push(socket.try_clone()?);
        }
    }
    for (index, socket) in sockets.into_iter().enumerate() {
        if let Some(share) = shares.get_mut(index % workers.max(1)) {
            share.push(socket);
        }
    }
    Ok(shares)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;

    fn listeners(count: usize) -> (Vec<TcpListener>, BTreeSet<SocketAddr>) {
        let sockets: Vec<_> = (0..count)
            .map(|_| TcpListener::bind("127.0.0.1:0").expect("a port"))
            .collect();
        let addresses = sockets
            .iter()
            .map(|socket| socket.local_addr().expect("bound"));
        let addresses = addresses.collect();
        (sockets, addresses)
    }

    #[test]
    fn every_worker_gets_a_socket_and_every_socket_is_used() {
        for sockets in 1..=5 {
            for workers in 1..=5 {
                let (listeners, addresses) = listeners(sockets);
                let shares = share_out(listeners, workers).expect("descriptors");
                assert_eq!(shares.len(), workers);
                assert!(shares.iter().all(|share| !share.is_empty()));
                let all: Vec<_> = shares.iter().flatten().collect();
                assert_eq!(
                    all.len(),
                    sockets.max(workers),
                    "none is shared without need"
                );
                let seen: BTreeSet<_> = all
                    .into_iter()
                    .map(|socket| socket.local_addr().expect("bound"))
                    .collect();
                assert_eq!(seen, addresses);
            }
        }
    }

    fn inherited(address: SocketAddr, announce: Option<Announce>) -> Inherited {
        let socket = TcpListener::bind("127.0.0.1:0").expect("a port");
        Inherited {
            requests: vec![Socket { address, socket }],
            admin: Vec::new(),
            probes: Vec::new(),
            overrides: None,
            announce,
        }
    }

    #[test]
    fn each_inherited_socket_is_taken_once_by_address() {
        let address: SocketAddr = "127.0.0.1:80".parse().expect("an address");
        let other: SocketAddr = "127.0.0.1:81".parse().expect("an address");
        let mut sockets = inherited(address, None);
        assert!(
            OpenSockets::take(&mut sockets, other, 1)
                .expect("descriptors")
                .is_none()
        );
        assert!(sockets.admin(address).is_none(), "it is not for that");
        assert!(
            OpenSockets::take(&mut sockets, address, 2)
                .expect("descriptors")
                .is_some()
        );
        assert!(
            OpenSockets::take(&mut sockets, address, 2)
                .expect("descriptors")
                .is_none()
        );
        assert!(sockets.finish().expect("nothing is left").is_none());
    }

    #[test]
    fn unused_systemd_socket_is_rejected() {
        let address: SocketAddr = "127.0.0.1:80".parse().expect("an address");
        let fault = inherited(address, None)
            .finish()
            .expect_err("it is not served");
        assert!(matches!(&fault, Fault::Usage(_)), "{fault}");
        assert!(fault.to_string().contains("127.0.0.1:80"), "{fault}");
    }
}
