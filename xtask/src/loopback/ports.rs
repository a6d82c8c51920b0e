//! Ports for processes that are started.

use core::net::{Ipv4Addr, SocketAddr};
use std::net::{TcpListener, UdpSocket};

/// Ports of loopback that were free for TCP and for UDP, held until this is dropped.
#[derive(Debug, Default)]
pub(crate) struct FreePorts(Vec<(TcpListener, UdpSocket)>);

impl FreePorts {
    /// One more.
    ///
    /// # Errors
    ///
    /// None is free.
    pub(crate) fn take(&mut self) -> Result<SocketAddr, String> {
        // A port that is free for TCP is rarely taken for UDP.
        const TRIES: usize = 100;
        for _ in 0..TRIES {
            let held = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).and_then(|listener| {
                let address = listener.local_addr()?;
                Ok((address, listener, UdpSocket::bind(address)?))
            });
            if let Ok((address, listener, socket)) = held {
                self.0.push((listener, socket));
                return Ok(address);
            }
        }
        Err("no free port on 127.0.0.1".to_owned())
    }
}
