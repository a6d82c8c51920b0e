//! What is known of a request.

use super::attempt::AttemptRecord;
use super::recorder::RequestRecorder;
use crate::forward::{Cut, Progress};
use crate::traces::Traced;
use core::cell::{Cell, OnceCell};
use core::fmt::Debug;
use core::net::IpAddr;
use core::time::Duration;
use http::uri::Authority;
use http::{HeaderMap, HeaderValue, Method, Request, StatusCode, Uri, Version, header};
use slackwater_core::{Instant as CoreInstant, ReplicaId};
use slackwater_recording::Stream;
use slackwater_telemetry::exemplars::Reference;
use slackwater_telemetry::facts::ResponseClass;
use slackwater_tower::client::PickView;
use slackwater_tower::response::GrpcStatus;
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

    /// Which of how many parts of its replica that is, counted from 1; `None` of a replica that is
    /// one to its policy, or has left.
    fn part(&self, part: ReplicaId) -> Option<(usize, usize)> {
        let _ = part;
        None
    }

    /// Where what its policy is told is written down; `None`: nowhere.
    fn recording(&self) -> Option<&Stream> {
        None
    }

    /// Has a request stand for those that its histograms have counted with it.
    fn exemplify(&self, record: &RequestRecord, reference: Reference) {
        let _ = (record, reference);
    }
}

/// A request's second copy.
#[derive(Debug)]
pub(super) struct SecondCopy {
    pub(super) kind: CopyKind,
    /// What the client gets is its response.
    pub(super) won: bool,
    pub(super) replica: Box<str>,
    pub(super) pick: PickView,
    pub(super) sent: Duration,
    pub(super) connect: Option<Duration>,
}

/// One request. What is told of "the replica" is of the attempt whose response is passed on or, as
/// long as there is none, of the last one that is no second copy. What the client gets is not known
/// before something is passed on.
#[derive(Debug)]
pub(crate) struct RequestRecord {
    recorder: Rc<RequestRecorder>,
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
    /// The first value of each field that a consumer wants, in the order of its list.
    pub(crate) values: Box<[Option<HeaderValue>]>,
    /// Drawn when it is first asked for, unless the request came with one or was given one.
    id: OnceCell<HeaderValue>,
    pub(crate) service: Option<Rc<str>>,
    pub(crate) directory: Option<Rc<dyn Directory>>,
    pub(crate) replica: Option<Box<str>>,
    /// How many there were, second copies and trials among them.
    pub(crate) attempts: u32,
    pub(super) copy: Option<Box<SecondCopy>>,
    /// Who had a copy of it as a trial.
    pub(crate) shadow: Option<Box<str>>,
    /// Why it went there.
    pub(crate) pick: Option<PickView>,
    /// When the first replica that it was sent to was picked, on its balancer's clock.
    pub(crate) first_picked: Option<CoreInstant>,
    /// What the client gets; `None`: nothing yet.
    pub(crate) status: Option<StatusCode>,
    /// The same of a gRPC call, as far as it is told.
    pub(crate) grpc_status: Option<GrpcStatus>,
    /// What the client gets is a replica's response.
    pub(crate) is_passed_on: bool,
    /// It is an answer of our own, and stands for a failure.
    pub(super) is_own_failure: bool,
    pub(crate) error: Option<HeaderValue>,
    pub(crate) upload: Option<Rc<Progress>>,
    pub(crate) bytes_out: u64,
    pub(crate) queue: Option<Duration>,
    pub(crate) connect: Option<Duration>,
    /// When a replica's response went on to the client.
    pub(crate) first_byte: Option<Duration>,
    pub(crate) ended: Option<Ended>,
    /// Once it is over.
    pub(crate) total: Option<Duration>,
    pub(super) cut: Rc<Cell<Cut>>,
    /// In the order in which they were sent; empty where nobody may want them.
    pub(crate) attempt_records: Vec<AttemptRecord>,
    /// `None`: it does not become spans.
    pub(crate) traced: Option<Box<Traced>>,
    /// The path of its route, where it becomes spans and its route goes by one.
    pub(crate) path_of_route: Option<String>,
    /// Which of them is told of as the request's.
    pub(crate) leading: Option<usize>,
    /// Where histograms have counted it.
    pub(crate) counted: Counted,
    /// A decision of it is kept.
    kept: Cell<bool>,
}

/// Under which class histograms have counted a request, and how long it took to them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Counted {
    /// To the head of its response.
    pub(crate) first_byte: Option<(ResponseClass, Duration)>,
    /// To its end.
    pub(crate) total: Option<(ResponseClass, Duration)>,
}

impl RequestRecord {
    pub(super) fn new<B>(
        recorder: &Rc<RequestRecorder>,
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
            values: recorder.values(headers),
            id: id.map_or_else(OnceCell::new, OnceCell::from),
            service: None,
            directory: None,
            replica: None,
            attempts: 0,
            copy: None,
            shadow: None,
            pick: None,
            first_picked: None,
            status: None,
            grpc_status: None,
            is_passed_on: false,
            is_own_failure: false,
            error: None,
            upload: None,
            bytes_out: 0,
            queue: None,
            connect: None,
            first_byte: None,
            ended: None,
            total: None,
            cut: Rc::clone(cut),
            attempt_records: Vec::new(),
            traced: None,
            path_of_route: None,
            leading: None,
            counted: Counted::default(),
            kept: Cell::new(false),
        }
    }

    /// What it is called.
    pub(crate) fn id(&self) -> &HeaderValue {
        self.id.get_or_init(|| self.recorder.ids().draw())
    }

    /// A decision of it is kept: it can be looked up by its id.
    pub(crate) fn keep(&self) {
        self.kept.set(true);
    }

    /// What it can be looked up by; `None` if nobody could.
    pub(super) fn reference(&self) -> Option<Reference> {
        let trace = self.traced.as_ref().map(|traced| traced.trace());
        let id = self.is_kept().then(|| self.id().to_str().ok());
        Reference::new(trace, id.flatten())
    }

    /// Whether one is.
    pub(crate) fn is_kept(&self) -> bool {
        self.kept.get()
    }

    pub(super) const fn recorder(&self) -> &Rc<RequestRecorder> {
        &self.recorder
    }

    /// What became of a second copy that was sent for this.
    pub(crate) fn copy(&self, kind: CopyKind) -> Option<&'static str> {
        let copy = self.copy.as_ref().filter(|copy| copy.kind == kind);
        copy.map(|copy| if copy.won { "won" } else { "lost" })
    }

    /// How it ended: if nobody said, then the client was cut off, or else it left.
    pub(crate) fn ended(&self) -> Ended {
        self.ended.unwrap_or_else(|| match self.cut.get() {
            Cut::Not => Ended::ClientGone,
            Cut::Off => Ended::CutOff,
            Cut::ClientStalled => Ended::ClientStalled,
        })
    }

    /// It failed: a status of 500 and above, a gRPC status that blames the server, or a response
    /// that broke off, stalled or was cut off. An answer of our own to a gRPC call counts as what
    /// it would be without gRPC.
    pub(crate) fn failed(&self) -> bool {
        let by_status = if self.is_passed_on {
            self.status.is_some_and(|status| status.is_server_error())
                || self.grpc_status.is_some_and(GrpcStatus::blames_server)
        } else {
            self.is_own_failure
        };
        by_status || matches!(self.ended(), Ended::Broken | Ended::Stalled | Ended::CutOff)
    }

    /// The response of the attempt at that place among them is what the client gets.
    pub(crate) fn is_answered_by(&self, place: usize) -> bool {
        self.is_passed_on && self.leading == Some(place)
    }

    /// From its head to what the client gets or, if that is nothing, to its end.
    pub(crate) fn waited(&self) -> Duration {
        self.first_byte.unwrap_or_else(|| self.total())
    }

    /// The response that is passed on is its second copy's: what is told of the replica is of that
    /// one.
    pub(super) fn lead_by_copy(&mut self) {
        let Some(copy) = &mut self.copy else {
            return;
        };
        copy.won = true;
        self.replica = Some(core::mem::take(&mut copy.replica));
        self.pick = Some(copy.pick);
        self.queue = Some(copy.sent);
        self.connect = copy.connect;
        let is_copy = |attempt: &AttemptRecord| attempt.kind.copy().is_some();
        self.leading = self.attempt_records.iter().rposition(is_copy);
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

/// Without the user's name and password that may stand before a host, though in `Host` they must
/// not.
fn without_user(authority: &[u8]) -> &[u8] {
    let user_end = memchr::memrchr(b'@', authority);
    user_end.map_or(authority, |at| &authority[at + 1..])
}
