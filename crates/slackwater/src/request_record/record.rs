//! What is known of a request.

use super::attempt::Attempt;
use super::recorder::Recorder;
use crate::forward::{Cut, Progress};
use core::cell::{Cell, OnceCell};
use core::fmt::Debug;
use core::net::IpAddr;
use core::time::Duration;
use http::uri::Authority;
use http::{HeaderMap, HeaderValue, Method, Request, StatusCode, Uri, Version, header};
use slackwater_core::ReplicaId;
use slackwater_tower::client::PickView;
use std::rc::Rc;
use std::time::{Instant, SystemTime};

/// How a request ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Ended {
    /// The client has the whole response.
    Complete,
    /// The client left before that.
    ClientGone,
    /// The client took nothing for too long, and was cut off.
    ClientStalled,
    /// It was cut off: the time to finish was over.
    CutOff,
    /// The replica broke off in the midst of its response.
    Broken,
    /// The replica fell silent in the midst of its response, or both sides of a tunnel did.
    Stalled,
}

impl Ended {
    pub(crate) const fn as_str(self) -> &'static str {
        match self {
            Self::Complete => "complete",
            Self::ClientGone => "client_gone",
            Self::ClientStalled => "client_stalled",
            Self::CutOff => "cut_off",
            Self::Broken => "broken",
            Self::Stalled => "stalled",
        }
    }
}

/// Why a request has a second copy.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum CopyKind {
    /// It was late.
    Hedge,
    /// It was tied.
    Tie,
}

/// Who knows a service: how it chooses, and what its replicas are called.
pub(crate) trait Directory: Debug {
    /// The policy's name.
    fn policy(&self) -> &'static str;

    /// What users call the replica that has this part; `None` once it has left.
    fn name(&self, part: ReplicaId) -> Option<Box<str>>;
}

/// One request. What is told of "the replica" is of the attempt whose response is passed on or, as long as there is none, of
/// the last one.
#[derive(Debug)]
pub(crate) struct Record {
    recorder: Rc<Recorder>,
    pub(crate) at: SystemTime,
    pub(crate) began: Instant,
    pub(crate) client: IpAddr,
    pub(crate) listener: Authority,
    pub(crate) method: Method,
    pub(crate) uri: Uri,
    pub(crate) version: Version,
    pub(crate) host: Option<HeaderValue>,
    pub(crate) referer: Option<HeaderValue>,
    pub(crate) user_agent: Option<HeaderValue>,
    /// Drawn when it is first asked for, unless the request came with one or was given one.
    id: OnceCell<HeaderValue>,
    pub(crate) service: Option<Rc<str>>,
    pub(crate) directory: Option<Rc<dyn Directory>>,
    pub(crate) replica: Option<Box<str>>,
    /// How many there were, second copies among them.
    pub(crate) attempts: u32,
    /// What became of its second copy.
    pub(super) copy: Option<(CopyKind, &'static str)>,
    /// Who had a copy of it as a trial.
    pub(crate) shadow: Option<Box<str>>,
    /// Why it went there.
    pub(crate) pick: Option<PickView>,
    /// Once there is a head.
    pub(crate) status: Option<StatusCode>,
    pub(crate) error: Option<HeaderValue>,
    pub(crate) upload: Option<Rc<Progress>>,
    pub(crate) bytes_out: u64,
    pub(crate) queue: Option<Duration>,
    pub(crate) connect: Option<Duration>,
    pub(crate) first_byte: Option<Duration>,
    pub(crate) ended: Option<Ended>,
    /// Once it is over.
    pub(crate) total: Option<Duration>,
    pub(super) cut: Rc<Cell<Cut>>,
    /// In the order in which they were sent; empty where nobody may want them.
    pub(crate) tries: Vec<Attempt>,
    /// Which of them is told of as the request's.
    pub(crate) leading: Option<usize>,
}

impl Record {
    pub(super) fn new<B>(
        recorder: &Rc<Recorder>,
        request: &Request<B>,
        id: Option<HeaderValue>,
        client: IpAddr,
        listener: &Authority,
        cut: &Rc<Cell<Cut>>,
    ) -> Self {
        let headers = request.headers();
        Self {
            recorder: Rc::clone(recorder),
            at: SystemTime::now(),
            began: Instant::now(),
            client,
            listener: listener.clone(),
            method: request.method().clone(),
            uri: request.uri().clone(),
            version: request.version(),
            host: host(request.uri(), headers),
            referer: headers.get(header::REFERER).cloned(),
            user_agent: headers.get(header::USER_AGENT).cloned(),
            id: id.map_or_else(OnceCell::new, OnceCell::from),
            service: None,
            directory: None,
            replica: None,
            attempts: 0,
            copy: None,
            shadow: None,
            pick: None,
            status: None,
            error: None,
            upload: None,
            bytes_out: 0,
            queue: None,
            connect: None,
            first_byte: None,
            ended: None,
            total: None,
            cut: Rc::clone(cut),
            tries: Vec::new(),
            leading: None,
        }
    }

    /// What it is called.
    pub(crate) fn id(&self) -> &HeaderValue {
        self.id.get_or_init(|| self.recorder.ids().draw())
    }

    pub(super) const fn recorder(&self) -> &Rc<Recorder> {
        &self.recorder
    }

    /// What became of a second copy that was sent for this.
    pub(crate) fn copy(&self, kind: CopyKind) -> Option<&'static str> {
        let copy = self.copy.filter(|(sent_for, _)| *sent_for == kind);
        copy.map(|(_, end)| end)
    }

    /// How it ended: if nobody said, then the client was cut off, or else it left.
    pub(crate) fn ended(&self) -> Ended {
        self.ended.unwrap_or_else(|| match self.cut.get() {
            Cut::Not => Ended::ClientGone,
            Cut::Off => Ended::CutOff,
            Cut::ClientStalled => Ended::ClientStalled,
        })
    }

    /// It failed: a status of 500 and above, or a response that broke off, stalled or was cut off.
    pub(crate) fn failed(&self) -> bool {
        self.status.is_some_and(|status| status.is_server_error())
            || matches!(self.ended(), Ended::Broken | Ended::Stalled | Ended::CutOff)
    }

    /// From its head to its end.
    pub(crate) fn total(&self) -> Duration {
        self.total.unwrap_or_else(|| self.began.elapsed())
    }

    /// What it is for at its host; of CONNECT, which has no path, the host and port themselves.
    pub(crate) fn path(&self) -> &str {
        match self.uri.path() {
            "" => self.uri.authority().map_or("", Authority::as_str),
            path => path,
        }
    }
}

/// The host that the client named: in the target, or else in `Host`.
fn host(uri: &Uri, headers: &HeaderMap) -> Option<HeaderValue> {
    if let Some(authority) = uri.authority() {
        return HeaderValue::from_bytes(without_user(authority.as_str().as_bytes())).ok();
    }
    let host = headers.get(header::HOST)?;
    let shown = without_user(host.as_bytes());
    if shown.len() == host.len() {
        return Some(host.clone());
    }
    HeaderValue::from_bytes(shown).ok()
}

/// Without the user's name and password that may stand before a host, though in `Host` they must not.
fn without_user(authority: &[u8]) -> &[u8] {
    let user_end = memchr::memrchr(b'@', authority);
    user_end.map_or(authority, |at| &authority[at + 1..])
}
