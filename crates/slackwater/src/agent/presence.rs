//! Whether the server is there, and what follows from it: the one place that decides what probes
//! report.
//!
//! The agent reports *draining*, so that balancers send it nothing, in two cases: it cannot connect
//! to its server (it *withdraws*, and comes back), or it is being shut down (it does not come
//! back). This module makes no connections: requests report their results, and `checker` probes the
//! server.
//!
//! One failed connection is not enough. A server that is busy for a second lets connections time
//! out, and if all agents of a fleet withdrew at once for that, it would be an outage. So the agent
//! withdraws after [`REFUSED_MAX`] connections that failed immediately (refused, no such socket)
//! without a successful one in between, or after [`TIMED_OUT_MAX`] that timed out over
//! [`TIMED_OUT_SPAN`] without a sign of life in between. The first failure makes `checker` check
//! again at once, so a dead server is found within 150 ms also if there are few requests.

use crate::log::Rounded;
use core::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use core::time::Duration;
use slackwater_config::ReplicaAddress;
use slackwater_proxy::forward::LogInterval;
use slackwater_telemetry::facts::Lifecycle;
use slackwater_tower::server::Load;
use std::io;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Instant;
use tokio::sync::Notify;

/// Number of connections that fail immediately after which the agent withdraws.
const REFUSED_MAX: u32 = 3;
/// Number of connections that time out after which the agent withdraws, if they did so over
/// [`TIMED_OUT_SPAN`].
const TIMED_OUT_MAX: u32 = 3;
const TIMED_OUT_SPAN: Duration = Duration::from_secs(3);
/// How an operator can fix that the server cannot be connected to.
const REMEDY: &str = "start the server; if it runs, see whether it accepts connections";

/// A handle to the server's state. Clones share it.
#[derive(Clone, Debug)]
pub(super) struct Presence {
    shared: Arc<Shared>,
}

#[derive(Debug)]
struct Shared {
    server: ReplicaAddress,
    load: Load,
    lifecycle: Lifecycle,
    /// Locked only when something changes.
    state: Mutex<State>,
    /// A copy of the state's flag that requests read without the lock.
    withdrawn: AtomicBool,
    /// A copy for requests: whether the server is in doubt.
    doubted: AtomicBool,
    /// The server has responded since the last check.
    answered: AtomicBool,
    /// Notified when the server is in doubt, or the agent has withdrawn.
    lost: Notify,
    refused: AtomicU64,
}

#[derive(Debug, Default)]
struct State {
    doubt: Option<Doubt>,
    /// Warnings of a doubt. A server that is busy now and then would fill the log.
    warnings: LogInterval,
    withdrawn_at: Option<Instant>,
    stopping: bool,
}

/// Connections that failed since the last successful one.
#[derive(Debug)]
struct Doubt {
    began: tokio::time::Instant,
    refused: u32,
    timed_out: u32,
}

impl Doubt {
    fn new() -> Self {
        Self {
            began: tokio::time::Instant::now(),
            refused: 0,
            timed_out: 0,
        }
    }

    /// Adds a failed connection. Returns whether the agent must withdraw.
    fn add(&mut self, error: &io::Error) -> bool {
        let count = match error.kind() {
            io::ErrorKind::TimedOut => &mut self.timed_out,
            _ => &mut self.refused,
        };
        *count = count.saturating_add(1);
        let is_silent = self.timed_out >= TIMED_OUT_MAX && self.began.elapsed() >= TIMED_OUT_SPAN;
        self.refused >= REFUSED_MAX || is_silent
    }
}

impl Presence {
    /// Returns the state of `server`, which is assumed to be there. `load` and `lifecycle` receive
    /// its changes.
    pub(super) fn new(server: ReplicaAddress, load: Load, lifecycle: Lifecycle) -> Self {
        Self {
            shared: Arc::new(Shared {
                server,
                load,
                lifecycle,
                state: Mutex::default(),
                withdrawn: AtomicBool::new(false),
                doubted: AtomicBool::new(false),
                answered: AtomicBool::new(false),
                lost: Notify::new(),
                refused: AtomicU64::new(0),
            }),
        }
    }

    /// Returns whether the agent has withdrawn because it cannot connect to its server.
    pub(super) fn is_withdrawn(&self) -> bool {
        self.shared.withdrawn.load(Ordering::Relaxed)
    }

    /// Returns whether connections have failed since the last successful one, but too few to
    /// withdraw.
    pub(super) fn is_doubted(&self) -> bool {
        self.shared.doubted.load(Ordering::Relaxed)
    }

    /// Notes a response of the server. A response on an existing connection does not disprove
    /// refused connections: a server that restarts finishes its requests, too.
    pub(super) fn note_answer(&self, by_new_connection: bool) {
        // Read before write: between two checks, only one request takes the cache line from the
        // other cores.
        if !self.shared.answered.load(Ordering::Relaxed) {
            self.shared.answered.store(true, Ordering::Relaxed);
        }
        if self.is_doubted() {
            self.change(|state| {
                let is_refuted = |doubt: &Doubt| by_new_connection || doubt.refused == 0;
                if state.doubt.as_ref().is_some_and(is_refuted) {
                    state.doubt = None;
                } else if let Some(doubt) = &mut state.doubt {
                    // A response disproves that the server hangs, but not that it refuses
                    // connections.
                    doubt.timed_out = 0;
                    doubt.began = tokio::time::Instant::now();
                }
                false
            });
        }
    }

    /// Returns whether the server has responded since the last call.
    pub(super) fn has_answered(&self) -> bool {
        self.shared.answered.swap(false, Ordering::Relaxed)
    }

    /// Notes a failed connection to the server. The agent withdraws if there were enough of them,
    /// and is in doubt otherwise.
    pub(super) fn lose(&self, error: &io::Error) {
        let (mut is_new_doubt, mut warns) = (false, false);
        let has_withdrawn = self.change(|state| {
            if state.withdrawn_at.is_some() {
                return false;
            }
            is_new_doubt = state.doubt.is_none();
            let is_enough = state.doubt.get_or_insert_with(Doubt::new).add(error);
            if is_enough {
                state.withdrawn_at = Some(Instant::now());
            } else if is_new_doubt {
                warns = state.warnings.is_due();
            }
            is_enough
        });
        if has_withdrawn {
            self.note_withdrawn(error);
        } else if is_new_doubt {
            let server = &self.shared.server;
            if warns {
                tracing::warn!(
                    %server,
                    %error,
                    remedy = REMEDY,
                    "cannot connect to server; checking again"
                );
            } else {
                tracing::debug!(%server, %error, "cannot connect to server; checking again");
            }
            self.shared.lost.notify_one();
        }
    }

    /// Withdraws at once, whatever the evidence: the server was never there.
    pub(super) fn withdraw(&self, error: &io::Error) {
        let has_withdrawn = self.change(|state| {
            let is_new = state.withdrawn_at.is_none();
            state.withdrawn_at.get_or_insert_with(Instant::now);
            is_new
        });
        if has_withdrawn {
            self.note_withdrawn(error);
        }
    }

    fn note_withdrawn(&self, error: &io::Error) {
        tracing::warn!(
            server = %self.shared.server,
            %error,
            remedy = REMEDY,
            "server withdrawn: cannot connect"
        );
        // The server has stopped, and its caches are empty when it comes back.
        self.shared.load.forget_hints();
        self.shared.lost.notify_one();
    }

    /// Notes a successful connection to the server. If the agent had withdrawn, it is back.
    pub(super) fn find(&self) {
        let mut withdrawn_at = None;
        self.change(|state| {
            state.doubt = None;
            withdrawn_at = state.withdrawn_at.take();
            withdrawn_at.is_some()
        });
        if let Some(since) = withdrawn_at {
            tracing::info!(
                server = %self.shared.server,
                after = %Rounded(since.elapsed()),
                refused = self.shared.refused.swap(0, Ordering::Relaxed),
                "server restored: connection succeeded"
            );
        }
    }

    /// Stops the agent: from now on probes report it as draining, whatever the server does.
    pub(super) fn stop(&self) {
        self.shared.lifecycle.set_draining();
        self.change(|state| !core::mem::replace(&mut state.stopping, true));
    }

    /// Counts a request that was rejected because the agent has withdrawn. The number is logged
    /// when the agent is back.
    pub(super) fn count_refused(&self) {
        self.shared.refused.fetch_add(1, Ordering::Relaxed);
    }

    /// Waits for the next doubt or withdrawal.
    pub(super) async fn lost(&self) {
        self.shared.lost.notified().await;
    }

    /// Changes the state. If `changed` returns true, probe answers and readiness follow. Returns
    /// what `changed` returned.
    fn change(&self, changed: impl FnOnce(&mut State) -> bool) -> bool {
        let shared = &self.shared;
        // Held throughout, so that two changes are published in the order in which they were made.
        // No change can panic halfway.
        let mut state = shared.state.lock().unwrap_or_else(PoisonError::into_inner);
        let has_changed = changed(&mut state);
        let is_doubted = state.doubt.is_some() && state.withdrawn_at.is_none();
        shared.doubted.store(is_doubted, Ordering::Relaxed);
        if has_changed {
            let withdrawn = state.withdrawn_at.is_some();
            shared.withdrawn.store(withdrawn, Ordering::Relaxed);
            shared.lifecycle.set_withdrawn(withdrawn);
            shared.load.set_draining(withdrawn || state.stopping);
        }
        has_changed
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use slackwater_telemetry::facts::Phase;
    use slackwater_tower::server::{End, HintCache};

    fn presence() -> (Presence, Load, Lifecycle) {
        let (load, lifecycle) = (Load::new(), Lifecycle::default());
        lifecycle.set_serving();
        let server = ReplicaAddress::Unix("/run/app.sock".into());
        let presence = Presence::new(server, load.clone(), lifecycle.clone());
        (presence, load, lifecycle)
    }

    fn refused() -> io::Error {
        io::ErrorKind::ConnectionRefused.into()
    }

    fn late() -> io::Error {
        io::ErrorKind::TimedOut.into()
    }

    #[test]
    fn probes_report_draining_while_the_server_is_lost() {
        let (presence, load, lifecycle) = presence();
        for _ in 1..REFUSED_MAX {
            presence.lose(&refused());
            assert!(presence.is_doubted() && !presence.is_withdrawn());
            assert!(!load.is_draining());
        }
        presence.lose(&refused());
        assert!(!presence.is_doubted());
        assert!(presence.is_withdrawn() && load.is_draining());
        assert_eq!(lifecycle.phase(), Phase::Withdrawn);
        presence.find();
        assert!(!presence.is_withdrawn() && !load.is_draining());
        assert_eq!(lifecycle.phase(), Phase::Serving);
    }

    #[test]
    fn hints_are_forgotten_while_the_server_is_lost() {
        let load = Load::builder().hint_cache(HintCache::default()).build();
        let server = ReplicaAddress::Unix("/run/app.sock".into());
        let presence = Presence::new(server, load.clone(), Lifecycle::default());
        let entries = || load.hint_counts().map(|counts| counts.entries);
        let mut query = load.arrive();
        query.set_hint(b"key");
        query.head_ready(End::Success);
        presence.lose(&refused());
        assert_eq!(entries(), Some(1), "only in doubt");
        presence.withdraw(&refused());
        assert_eq!(entries(), Some(0));
    }

    #[test]
    fn stopping_agent_reports_draining_even_if_its_server_returns() {
        let (presence, load, lifecycle) = presence();
        presence.stop();
        assert!(
            load.is_draining() && !presence.is_withdrawn(),
            "it still serves"
        );
        presence.withdraw(&refused());
        presence.find();
        assert!(load.is_draining());
        assert_eq!(lifecycle.phase(), Phase::Draining);
    }

    #[tokio::test(start_paused = true)]
    async fn simultaneous_connect_timeouts_do_not_withdraw() {
        let (presence, ..) = presence();
        tokio::time::sleep(Duration::from_secs(1)).await;
        for _ in 0..300 {
            presence.lose(&late());
        }
        assert!(presence.is_doubted() && !presence.is_withdrawn());
        // The server responds on a connection that it accepted before.
        presence.note_answer(false);
        assert!(!presence.is_doubted());
        tokio::time::sleep(TIMED_OUT_SPAN).await;
        presence.lose(&late());
        assert!(!presence.is_withdrawn(), "a new doubt starts from zero");
    }

    #[tokio::test(start_paused = true)]
    async fn connect_timeouts_for_seconds_without_a_response_withdraw() {
        let (presence, ..) = presence();
        for second in 0..3 {
            presence.lose(&late());
            assert!(!presence.is_withdrawn(), "{second}");
            tokio::time::sleep(Duration::from_secs(1)).await;
        }
        presence.lose(&late());
        assert!(presence.is_withdrawn());
    }

    #[test]
    fn only_a_new_connection_clears_the_count_of_refused_ones() {
        let (presence, ..) = presence();
        presence.lose(&refused());
        presence.note_answer(false);
        assert!(presence.is_doubted());
        presence.note_answer(true);
        assert!(!presence.is_doubted());
        for _ in 1..REFUSED_MAX {
            presence.lose(&refused());
        }
        presence.find();
        presence.lose(&refused());
        assert!(!presence.is_withdrawn());
    }

    #[test]
    fn responses_since_the_last_call_are_reported_once() {
        let (presence, ..) = presence();
        assert!(!presence.has_answered());
        presence.note_answer(false);
        presence.note_answer(false);
        assert!(presence.has_answered());
        assert!(!presence.has_answered());
    }
}
