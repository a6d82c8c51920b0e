//! TCP connections to servers that send fleets.

use core::time::Duration;
use slackwater_config::Endpoint;
use socket2::{SockRef, TcpKeepalive};
use std::io;
use tokio::net::TcpStream;

/// Checks without an answer after which the system gives a connection up.
const CHECKS: u32 = 3;

/// Connects, without a deadline. After a silence of `idle`, the system checks each `interval`
/// whether the peer's machine is still there.
pub(super) async fn connect(
    server: &Endpoint,
    idle: Duration,
    interval: Duration,
) -> io::Result<TcpStream> {
    let stream = TcpStream::connect((server.host(), server.port())).await?;
    stream.set_nodelay(true)?;
    let keepalive = TcpKeepalive::new()
        .with_time(idle)
        .with_interval(interval)
        .with_retries(CHECKS);
    SockRef::from(&stream).set_tcp_keepalive(&keepalive)?;
    Ok(stream)
}
