//! Whether the server is there, and what follows from that: the one place that decides what probes
//! say.
//!
//! Two things make the agent unwelcoming: its server cannot be connected to (it *withdraws*, and
//! comes back), or the agent itself is asked to stop (it does not come back). Either way its load
//! says *draining*, so that balancers send it nothing. Who connects is not decided here: requests
//! report what they meet, and `checker` goes and looks.

use core::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use slackwater_config::ReplicaAddress;
use slackwater_telemetry::facts::Lifecycle;
use slackwater_tower::server::Load;
use std::io;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Instant;
use tokio::sync::Notify;

/// A handle to the knowledge; clones share it.
#[derive(Clone, Debug)]
pub(super) struct Presence {
    shared: Arc<Shared>,
}

#[derive(Debug)]
struct Shared {
    server: ReplicaAddress,
    load: Load,
    lifecycle: Lifecycle,
    /// Taken only when something changes.
    state: Mutex<State>,
    /// A copy of the state's, for requests.
    withdrawn: AtomicBool,
    /// The server has answered since somebody last asked.
    answered: AtomicBool,
    lost: Notify,
    refused: AtomicU64,
}

#[derive(Debug, Default)]
struct State {
    withdrawn_at: Option<Instant>,
    stopping: bool,
}

impl Presence {
    /// Knowledge of `server`, which is taken to be there, told by `load` and `lifecycle`.
    pub(super) fn new(server: ReplicaAddress, load: Load, lifecycle: Lifecycle) -> Self {
        Self {
            shared: Arc::new(Shared {
                server,
                load,
                lifecycle,
                state: Mutex::default(),
                withdrawn: AtomicBool::new(false),
                answered: AtomicBool::new(false),
                lost: Notify::new(),
                refused: AtomicU64::new(0),
            }),
        }
    }

    /// Whether the server could not be connected to when that was last tried.
    pub(super) fn is_withdrawn(&self) -> bool {
        self.shared.withdrawn.load(Ordering::Relaxed)
    }

    /// The server gave a response, so it is there.
    pub(super) fn note_answer(&self) {
        // Read first: between two checks only one request has to take the cache line from the
        // others.
        if !self.shared.answered.load(Ordering::Relaxed) {
            self.shared.answered.store(true, Ordering::Relaxed);
        }
    }

    /// Whether the server gave a response since the last call.
    pub(super) fn has_answered(&self) -> bool {
        self.shared.answered.swap(false, Ordering::Relaxed)
    }

    /// A connection to the server failed: the agent withdraws, unless it has already.
    pub(super) fn lose(&self, error: &io::Error) {
        if !self.change(|state| {
            let is_new = state.withdrawn_at.is_none();
            state.withdrawn_at.get_or_insert_with(Instant::now);
            is_new
        }) {
            return;
        }
        tracing::warn!(
            server = %self.shared.server,
            %error,
            "withdrawn: the server cannot be connected to; probes say so, requests get 503"
        );
        self.shared.lost.notify_one();
    }

    /// A connection to the server was made: the agent is back, if it had withdrawn.
    pub(super) fn find(&self) {
        let mut withdrawn_at = None;
        self.change(|state| {
            withdrawn_at = state.withdrawn_at.take();
            withdrawn_at.is_some()
        });
        if let Some(since) = withdrawn_at {
            tracing::info!(
                server = %self.shared.server,
                after = ?since.elapsed(),
                refused = self.shared.refused.swap(0, Ordering::Relaxed),
                "back: the server can be connected to again"
            );
        }
    }

    /// The agent stops: from now on probes say so, whatever the server does.
    pub(super) fn stop(&self) {
        self.shared.lifecycle.set_draining();
        self.change(|state| !core::mem::replace(&mut state.stopping, true));
    }

    /// A request was turned away because the agent has withdrawn; told when it is back.
    pub(super) fn count_refused(&self) {
        self.shared.refused.fetch_add(1, Ordering::Relaxed);
    }

    /// Waits for the next withdrawal.
    pub(super) async fn lost(&self) {
        self.shared.lost.notified().await;
    }

    /// Changes the state and, if `changed` says so, tells it to the world; gives what `changed`
    /// said.
    fn change(&self, changed: impl FnOnce(&mut State) -> bool) -> bool {
        let shared = &self.shared;
        // Held throughout, so that two changes are told in the order in which they were made. No
        // change can panic halfway.
        let mut state = shared.state.lock().unwrap_or_else(PoisonError::into_inner);
        let has_changed = changed(&mut state);
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

    #[test]
    fn a_lost_server_makes_probes_say_draining_until_it_is_found() {
        let (presence, load, lifecycle) = presence();
        presence.lose(&refused());
        presence.lose(&refused());
        assert!(presence.is_withdrawn() && load.is_draining());
        assert_eq!(lifecycle.phase(), Phase::Withdrawn);
        presence.find();
        assert!(!presence.is_withdrawn() && !load.is_draining());
        assert_eq!(lifecycle.phase(), Phase::Serving);
    }

    #[test]
    fn an_agent_that_stops_stays_unwelcoming_whatever_its_server_does() {
        let (presence, load, lifecycle) = presence();
        presence.stop();
        assert!(
            load.is_draining() && !presence.is_withdrawn(),
            "it still serves"
        );
        presence.lose(&refused());
        presence.find();
        assert!(load.is_draining());
        assert_eq!(lifecycle.phase(), Phase::Draining);
    }

    #[test]
    fn what_was_heard_is_told_once() {
        let (presence, ..) = presence();
        assert!(!presence.has_answered());
        presence.note_answer();
        presence.note_answer();
        assert!(presence.has_answered());
        assert!(!presence.has_answered());
    }
}
