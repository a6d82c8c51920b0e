//! Free ports for processes.

use core::net::{Ipv4Addr, SocketAddr};
use std::net::{TcpListener, UdpSocket};

/// Ports of loopback that were free for TCP and for UDP, reserved until this is dropped.
#[derive(Debug, Default)]
pub(crate) struct FreePorts(Vec<(TcpListener, UdpSocket)>);

impl FreePorts {
    /// Reserves one more.
    ///
    /// # Errors
    ///
    /// Fails if none is free.
    pub(crate) fn take(&mut self) -> Result<SocketAddr, String> {
        // A port that is free for TCP is rarely in use for UDP.
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
