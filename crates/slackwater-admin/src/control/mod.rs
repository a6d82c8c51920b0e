//! Requests that change something: their token, their bodies, and the thread that executes them.
//!
//! A client may change something only if the configuration names a file with a token
//! (`admin.token_file`) and the request carries that token. Commands go to the thread that controls
//! the process, one after the other. Any process that can be changed is a [`Controlled`]; this
//! module does not know how it carries requests.

mod wire;

pub use wire::{
    Changed, Clear, Meaning, Overrides, PolicyRefused, Reload, Reloaded, ReplicaChange,
    ReplicaOverridden, SettingChosen, SettingOverridden, SettingsChange, SettingsChanged,
};

use super::guard::{is_from_here, says_json};
use super::reply::{Reply, json, refusal, reply};
use super::router::Asked;
use super::server::AdminServer;
use core::net::SocketAddr;
use core::time::Duration;
use futures_util::FutureExt;
use http::header::{AUTHORIZATION, WWW_AUTHENTICATE};
use http::{HeaderMap, HeaderValue, StatusCode};
use serde::de::DeserializeOwned;
use slackwater_config::AdminToken;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Instant;
use tokio::sync::{mpsc, oneshot, watch};

/// Capacity of the queue of commands.
const WANTED_MAX: usize = 16;
/// Shortest time between two log lines about rejected requests.
const REFUSED_INTERVAL: Duration = Duration::from_secs(1);

const TOML: &str = "application/toml; charset=utf-8";

/// A command.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Wanted {
    /// Changes a replica.
    Replica(ReplicaChange),
    /// Sets keys of the configuration.
    Settings(SettingsChange),
    /// Reloads the configuration.
    Reload(Reload),
    /// Removes overrides.
    Clear(Clear),
}

/// A command from an authorized client.
#[derive(Debug)]
pub struct Asking {
    /// The client's address.
    pub by: SocketAddr,
    /// The command.
    pub wanted: Wanted,
    /// Receives the result.
    pub answer: oneshot::Sender<Result<Done, Refused>>,
}

/// The result of a command.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Done {
    /// The replica's overrides in force.
    Replica(ReplicaOverridden),
    /// The keys before and after the change.
    Settings(SettingsChanged),
    /// The consequences of the reload.
    Reloaded(Reloaded),
    /// The overrides that were removed.
    Cleared(Overrides),
}

/// Why a command was not executed: in lines, in lower case and without a full stop.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Refused {
    /// The service or replica does not exist.
    Unknown(String),
    /// The command is invalid.
    Mistaken(String),
    /// The command conflicts with the current configuration.
    Unfit(String),
    /// A resource that the command needs is not available.
    Failed(String),
}

/// A process whose settings can be read, and changed through [`Asking`]s.
pub trait Controlled: Send + Sync + 'static {
    /// Returns the configuration in force, as a file.
    fn configuration(&self) -> String;

    /// Returns the overrides set at run time.
    fn overrides(&self) -> Overrides;
}

/// The admin server's end of the queue. It authorizes clients.
#[derive(Clone, Debug)]
pub struct Control {
    asked: mpsc::Sender<Asking>,
    token: watch::Receiver<Option<AdminToken>>,
    refusals: Arc<Mutex<Refusals>>,
}

/// Rejected requests.
#[derive(Debug, Default)]
struct Refusals {
    /// Number that has not been logged yet.
    unlogged: u64,
    logged_at: Option<Instant>,
    /// Total number.
    count: u64,
}

impl Control {
    /// Creates the queue: the admin server's end and the executing thread's end. `token` is the
    /// token in force.
    pub fn new(token: watch::Receiver<Option<AdminToken>>) -> (Self, mpsc::Receiver<Asking>) {
        let (asked, asking) = mpsc::channel(WANTED_MAX);
        let control = Self {
            asked,
            token,
            refusals: Arc::default(),
        };
        (control, asking)
    }

    /// Returns whether a token is configured, without which no client may change anything.
    pub fn is_allowed(&self) -> bool {
        self.token.borrow().is_some()
    }

    /// Returns the number of requests that were rejected because of a missing or wrong token.
    pub fn refused(&self) -> u64 {
        let refusals = self.refusals.lock();
        refusals.unwrap_or_else(PoisonError::into_inner).count
    }

    /// Returns an error if this request may not change anything.
    #[expect(clippy::result_large_err, reason = "the reply is what is sent")]
    fn admit(&self, peer: SocketAddr, headers: &HeaderMap) -> Result<(), Reply> {
        let token = self.token.borrow();
        let Some(token) = &*token else {
            return Err(refusal(
                StatusCode::FORBIDDEN,
                "nothing can be changed here: set admin.token_file to a file with a token, and have the configuration read \
                 again",
            ));
        };
        if let Err(refused) = is_from_here(headers) {
            self.count_refusal(peer);
            return Err(refused);
        }
        if !bearer(headers).is_some_and(|offered| token.is(offered)) {
            self.count_refusal(peer);
            let mut refused = refusal(
                StatusCode::UNAUTHORIZED,
                "expected the header authorization: Bearer TOKEN, with the token that is in the file admin.token_file",
            );
            let scheme = HeaderValue::from_static("Bearer");
            refused.headers_mut().insert(WWW_AUTHENTICATE, scheme);
            return Err(refused);
        }
        Ok(())
    }

    fn count_refusal(&self, peer: SocketAddr) {
        let mut refusals = self.refusals.lock().unwrap_or_else(PoisonError::into_inner);
        refusals.count += 1;
        refusals.unlogged += 1;
        let now = Instant::now();
        if (refusals.logged_at).is_none_or(|at| now.duration_since(at) >= REFUSED_INTERVAL) {
            let requests = core::mem::take(&mut refusals.unlogged);
            refusals.logged_at = Some(now);
            tracing::warn!(%peer, requests, "admin request rejected: missing or wrong token; clients need the token in admin.token_file");
        }
    }

    /// Returns the answer to a request that cannot be a command, whatever its body.
    fn check(&self, asked: &Asked) -> Option<Reply> {
        if let Err(refused) = self.admit(asked.peer(), &asked.headers) {
            return Some(refused);
        }
        let unknown = asked.query.unknown(&[])?;
        let why = format!("unknown parameter {unknown}: what is wanted stands in the body");
        Some(refusal(StatusCode::BAD_REQUEST, why))
    }

    async fn carry_out<T: DeserializeOwned + Default>(
        self,
        asked: Asked,
        wanted: impl FnOnce(T) -> Wanted,
        may_be_empty: bool,
    ) -> Reply {
        let wanted = match read_body(&asked, may_be_empty) {
            Ok(body) => wanted(body),
            Err(refused) => return refused,
        };
        let (answer, answered) = oneshot::channel();
        let asking = Asking {
            by: asked.peer(),
            wanted,
            answer,
        };
        if let Err(error) = self.asked.try_send(asking) {
            let why = match error {
                mpsc::error::TrySendError::Full(_) => "too many changes wait for their turn",
                mpsc::error::TrySendError::Closed(_) => STOPPING,
            };
            return refusal(StatusCode::SERVICE_UNAVAILABLE, why);
        }
        match answered.await {
            Ok(Ok(done)) => done.reply(),
            Ok(Err(refused)) => refused.reply(),
            Err(_) => refusal(StatusCode::SERVICE_UNAVAILABLE, STOPPING),
        }
    }
}

const STOPPING: &str = "the process is stopping, and nothing is changed any more";

impl Done {
    fn reply(&self) -> Reply {
        match self {
            Self::Replica(done) => json(done),
            Self::Settings(done) => json(done),
            Self::Reloaded(done) => json(done),
            Self::Cleared(done) => json(done),
        }
    }
}

impl Refused {
    /// The reason in words.
    pub fn why(&self) -> &str {
        match self {
            Self::Unknown(why) | Self::Mistaken(why) | Self::Unfit(why) | Self::Failed(why) => why,
        }
    }

    fn reply(&self) -> Reply {
        let (status, why) = match self {
            Self::Unknown(why) => (StatusCode::NOT_FOUND, why),
            Self::Mistaken(why) => (StatusCode::UNPROCESSABLE_ENTITY, why),
            Self::Unfit(why) => (StatusCode::CONFLICT, why),
            Self::Failed(why) => (StatusCode::SERVICE_UNAVAILABLE, why),
        };
        refusal(status, why)
    }
}

/// The token that a request offers.
fn bearer(headers: &HeaderMap) -> Option<&[u8]> {
    let mut offered = headers.get_all(AUTHORIZATION).iter();
    let (first, None) = (offered.next()?, offered.next()) else {
        return None;
    };
    let (scheme, token) = first.as_bytes().split_at_checked(7)?;
    scheme
        .eq_ignore_ascii_case(b"bearer ")
        .then(|| token.trim_ascii())
}

/// Parses the body.
#[expect(clippy::result_large_err, reason = "the reply is what is sent")]
fn read_body<T: DeserializeOwned + Default>(asked: &Asked, may_be_empty: bool) -> Result<T, Reply> {
    if may_be_empty && asked.body.is_empty() {
        return Ok(T::default());
    }
    says_json(&asked.headers)?;
    serde_json::from_slice(&asked.body).map_err(|error| {
        let status = if error.is_data() {
            StatusCode::UNPROCESSABLE_ENTITY
        } else {
            StatusCode::BAD_REQUEST
        };
        refusal(status, format_args!("body: {error}"))
    })
}

impl AdminServer {
    /// Adds the paths that change `controlled`, and the paths that show its settings.
    #[must_use]
    pub fn controlled(self, controlled: Arc<dyn Controlled>, control: &Control) -> Self {
        let (shown, for_config) = (Arc::clone(&controlled), control.clone());
        let [replica, settings, reload, clear] = [(); 4].map(|()| control.clone());
        let check = || {
            let control = control.clone();
            move |asked: &Asked| control.check(asked)
        };
        self.get("/overrides", move |_| {
            core::future::ready(json(&controlled.overrides())).boxed()
        })
        .get("/config", move |asked| {
            // Headers that routes set may contain secrets.
            let admitted = for_config.admit(asked.peer(), &asked.headers);
            let answer = admitted.map_or_else(
                |refused| refused,
                |()| reply(StatusCode::OK, TOML, shown.configuration()),
            );
            core::future::ready(answer).boxed()
        })
        .post("/replica", check(), move |asked| {
            replica
                .clone()
                .carry_out(asked, Wanted::Replica, false)
                .boxed()
        })
        .post("/settings", check(), move |asked| {
            settings
                .clone()
                .carry_out(asked, Wanted::Settings, false)
                .boxed()
        })
        .post("/reload", check(), move |asked| {
            reload
                .clone()
                .carry_out(asked, Wanted::Reload, true)
                .boxed()
        })
        .post("/overrides/clear", check(), move |asked| {
            clear.clone().carry_out(asked, Wanted::Clear, true).boxed()
        })
    }
}
