//! Checks whether the server accepts connections. It is the only task that connects for that
//! purpose, so checks do not pile up.
//!
//! While the agent is withdrawn, or in doubt after a failed connection, it tries again after 50 ms,
//! then after twice as long each time, up to 1 s. While the server is available, it connects only
//! if the server has given no response for a whole interval. So checks never add to the load of a
//! busy server, and a dead server without traffic is found as well. A check is a connection that is
//! opened and closed; it sends no request.

use super::presence::Presence;
use core::time::Duration;
use std::io;

const PAUSE_MIN: Duration = Duration::from_millis(50);
const PAUSE_MAX: Duration = Duration::from_secs(1);

/// Polls per interval: the server's silence is measured to within one of them.
const LOOKS_PER_INTERVAL: u32 = 4;

/// Checks once, so that the state is known before the agent listens.
pub(super) async fn first_look<C>(presence: &Presence, connect: C)
where
    C: AsyncFn() -> io::Result<()>,
{
    match connect().await {
        Ok(()) => presence.find(),
        Err(error) => presence.withdraw(&error),
    }
}

/// Keeps `presence` up to date forever. `connect` opens a connection and closes it, and has a
/// timeout of its own.
pub(super) async fn keep_looking<C>(presence: &Presence, interval: Duration, connect: C)
where
    C: AsyncFn() -> io::Result<()>,
{
    loop {
        wait_for_loss(presence, interval, &connect).await;
        wait_for_return(presence, &connect).await;
    }
}

async fn wait_for_loss(
    presence: &Presence,
    interval: Duration,
    connect: &impl AsyncFn() -> io::Result<()>,
) {
    let (mut silent_looks, mut pause) = (0, PAUSE_MIN);
    while !presence.is_withdrawn() {
        if presence.is_doubted() {
            tokio::time::sleep(pause).await;
            pause = (pause * 2).min(PAUSE_MAX);
            if presence.is_doubted() {
                note(presence, connect().await);
            }
            continue;
        }
        pause = PAUSE_MIN;
        tokio::select! {
            () = presence.lost() => continue,
            () = tokio::time::sleep(interval / LOOKS_PER_INTERVAL) => (),
        }
        silent_looks = if presence.has_answered() {
            0
        } else {
            silent_looks + 1
        };
        if silent_looks >= LOOKS_PER_INTERVAL {
            silent_looks = 0;
            note(presence, connect().await);
        }
    }
}

async fn wait_for_return(presence: &Presence, connect: &impl AsyncFn() -> io::Result<()>) {
    let mut pause = PAUSE_MIN;
    while presence.is_withdrawn() {
        tokio::time::sleep(pause).await;
        pause = (pause * 2).min(PAUSE_MAX);
        note(presence, connect().await);
    }
}

fn note(presence: &Presence, connected: io::Result<()>) {
    match connected {
        Ok(()) => presence.find(),
        Err(error) => presence.lose(&error),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use core::cell::{Cell, RefCell};
    use slackwater_config::ReplicaAddress;
    use slackwater_telemetry::facts::Lifecycle;
    use slackwater_tower::server::Load;
    use tokio::time::Instant;

    /// A server that is up or down. It notes the times of connection attempts, in milliseconds.
    struct Server {
        up: Cell<bool>,
        began: Instant,
        tries_ms: RefCell<Vec<u128>>,
    }

    impl Server {
        fn new(up: bool) -> Self {
            Self {
                up: Cell::new(up),
                began: Instant::now(),
                tries_ms: RefCell::default(),
            }
        }

        fn connect(&self) -> io::Result<()> {
            self.tries_ms
                .borrow_mut()
                .push(self.began.elapsed().as_millis());
            if self.up.get() {
                Ok(())
            } else {
                Err(io::ErrorKind::ConnectionRefused.into())
            }
        }
    }

    fn presence() -> Presence {
        let server = ReplicaAddress::Unix("/run/app.sock".into());
        Presence::new(server, Load::new(), Lifecycle::default())
    }

    /// Runs the checker beside `script`, in paused time.
    async fn run(presence: &Presence, server: &Server, script: impl Future<Output = ()>) {
        tokio::select! {
            () = keep_looking(presence, Duration::from_secs(1), async || server.connect()) => (),
            () = script => (),
        }
    }

    async fn pass(ms: u64) {
        tokio::time::sleep(Duration::from_millis(ms)).await;
    }

    #[tokio::test(start_paused = true)]
    async fn dead_server_without_traffic_is_detected_after_the_interval() {
        let (presence, server) = (presence(), Server::new(false));
        run(&presence, &server, async {
            pass(999).await;
            assert!(!presence.is_doubted());
            // The check at 1 s fails, and so do the checks 50 and 150 ms later.
            pass(150).await;
            assert!(presence.is_doubted() && !presence.is_withdrawn());
            pass(2).await;
            assert!(presence.is_withdrawn());
        })
        .await;
    }

    #[tokio::test(start_paused = true)]
    async fn responding_server_is_not_checked() {
        let (presence, server) = (presence(), Server::new(true));
        run(&presence, &server, async {
            for _ in 0..20 {
                presence.note_answer(false);
                pass(500).await;
            }
            assert!(server.tries_ms.borrow().is_empty());
            // Silence is measured in quarters of the interval: from 1 s to 1.25 s after the last
            // response.
            pass(5_000).await;
            let tries_ms = server.tries_ms.borrow();
            assert_eq!(tries_ms.len(), 5, "one a second: {tries_ms:?}");
        })
        .await;
    }

    #[tokio::test(start_paused = true)]
    async fn checks_of_a_lost_server_back_off_up_to_a_second() {
        let (presence, server) = (presence(), Server::new(false));
        run(&presence, &server, async {
            pass(100).await;
            presence.withdraw(&io::ErrorKind::ConnectionRefused.into());
            pass(4_600).await;
            // Checks do not multiply with the number of requests that report a failure: one task
            // makes them.
            assert_eq!(
                *server.tries_ms.borrow(),
                [150, 250, 450, 850, 1_650, 2_650, 3_650, 4_650]
            );
            server.up.set(true);
            pass(1_000).await;
            assert!(!presence.is_withdrawn());
            // The next loss begins with short pauses again.
            server.up.set(false);
            presence.withdraw(&io::ErrorKind::ConnectionRefused.into());
            let lost_at = server.began.elapsed().as_millis();
            pass(60).await;
            assert_eq!(server.tries_ms.borrow().last(), Some(&(lost_at + 50)));
        })
        .await;
    }

    #[tokio::test(start_paused = true)]
    async fn refused_connection_starts_checks_until_the_state_is_clear() {
        let (presence, server) = (presence(), Server::new(true));
        run(&presence, &server, async {
            pass(10).await;
            presence.lose(&io::ErrorKind::ConnectionRefused.into());
            pass(60).await;
            assert_eq!(*server.tries_ms.borrow(), [60]);
            assert!(!presence.is_doubted() && !presence.is_withdrawn());
            server.up.set(false);
            presence.lose(&io::ErrorKind::ConnectionRefused.into());
            pass(151).await;
            assert!(presence.is_withdrawn());
        })
        .await;
    }
}
