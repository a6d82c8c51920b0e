//! TCP connections to servers that send fleets.

use core::time::Duration;
use futures_util::stream::{FuturesUnordered, StreamExt};
use slackwater_config::Endpoint;
use socket2::{SockRef, TcpKeepalive};
use std::io;
use tokio::net::{TcpStream, lookup_host};
use tokio::time::timeout;

/// Checks without an answer after which the system gives a connection up.
const CHECKS: u32 = 3;

/// How long an address may be silent before the next one is tried beside it (RFC 8305, section 5).
const NEXT_ADDRESS_AFTER: Duration = Duration::from_millis(250);

/// Connects, without a deadline. After a silence of `idle`, the system checks each `interval`
/// whether the peer's machine is still there.
pub(super) async fn connect(
    server: &Endpoint,
    idle: Duration,
    interval: Duration,
) -> io::Result<TcpStream> {
    let addresses = lookup_host((server.host(), server.port())).await?;
    let stream = first_success(addresses.map(TcpStream::connect)).await?;
    stream.set_nodelay(true)?;
    detect_loss(&stream, idle, interval)?;
    Ok(stream)
}

/// Lets the system end a connection when its peer's machine is gone. After a silence of `idle`, it
/// checks each `interval` whether that is still there.
///
/// # Errors
///
/// Fails if the connection is lost.
pub fn detect_loss(stream: &TcpStream, idle: Duration, interval: Duration) -> io::Result<()> {
    let keepalive = TcpKeepalive::new()
        .with_time(idle)
        .with_interval(interval)
        .with_retries(CHECKS);
    let socket = SockRef::from(stream);
    socket.set_tcp_keepalive(&keepalive)?;
    // The system does not check while it repeats data that the peer has not acknowledged.
    #[cfg(target_os = "linux")]
    socket.set_tcp_user_timeout(Some(idle + interval * CHECKS))?;
    Ok(())
}

/// Starts one attempt after the other, without waiting long for any of them. Returns the first
/// success, or the last error.
async fn first_success<T>(
    mut attempts: impl Iterator<Item: Future<Output = io::Result<T>>>,
) -> io::Result<T> {
    let mut running = FuturesUnordered::new();
    let mut last = io::Error::other("the host has no addresses");
    loop {
        running.extend(attempts.next());
        match timeout(NEXT_ADDRESS_AFTER, running.next()).await {
            Ok(Some(Ok(success))) => return Ok(success),
            Ok(Some(Err(error))) => last = error,
            Ok(None) => return Err(last),
            Err(_) => (),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::net::TcpListener;
    use tokio::time::{Instant, sleep};

    /// Plays attempts that end after these milliseconds. Returns the index of the one that
    /// succeeds, or `None` if all fail, and the milliseconds until then.
    async fn play(attempts: &[(u64, bool)]) -> (Option<usize>, u128) {
        let began = Instant::now();
        let attempts = attempts.iter().enumerate();
        let attempts = attempts.map(async |(index, &(ms, succeeds))| {
            sleep(Duration::from_millis(ms)).await;
            (succeeds.then_some(index)).ok_or_else(|| io::Error::other("failed"))
        });
        let index = first_success(attempts).await.ok();
        (index, began.elapsed().as_millis())
    }

    #[tokio::test(start_paused = true)]
    async fn a_silent_address_delays_the_others_little() {
        let silent = (3_600_000, true);
        assert_eq!(play(&[(200, true), (0, true)]).await, (Some(0), 200));
        assert_eq!(play(&[silent, silent, (10, true)]).await, (Some(2), 510));
        assert_eq!(play(&[(300, true), silent]).await, (Some(0), 300));
        assert_eq!(play(&[(10, false), (10, true)]).await, (Some(1), 20));
        assert_eq!(play(&[(900, false), (10, false)]).await, (None, 900));
        assert_eq!(play(&[]).await, (None, 0));
    }

    #[cfg(target_os = "linux")]
    #[tokio::test]
    async fn a_machine_that_is_gone_is_noticed_while_data_are_on_the_way_too() {
        let listener = TcpListener::bind("127.0.0.1:0").expect("bound");
        let port = listener.local_addr().expect("bound").port();
        let server = Endpoint::parse(&format!("http://127.0.0.1:{port}")).expect("a URL");
        let (idle, interval) = (Duration::from_secs(30), Duration::from_secs(10));
        let stream = connect(&server, idle, interval).await.expect("connected");
        let limit = SockRef::from(&stream).tcp_user_timeout().expect("read");
        assert_eq!(limit, Some(Duration::from_mins(1)));
    }
}
