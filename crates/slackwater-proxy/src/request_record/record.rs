//! The data of a request record.

use super::attempt::{AttemptKind, AttemptRecord};
use super::described::{self, Described};
use super::ids::RequestId;
use super::recorder::RequestRecorder;
use crate::forward::{Cut, Origin, Progress};
use crate::traces::Traced;
use core::cell::{Cell, OnceCell};
use core::fmt::Debug;
use core::net::IpAddr;
use core::time::Duration;
use http::{HeaderValue, Method, StatusCode, Version};
use slackwater_core::{Instant as CoreInstant, ReplicaId};
use slackwater_http::Request;
use slackwater_recording::Stream;
use slackwater_telemetry::exemplars::Reference;
use slackwater_telemetry::facts::ResponseClass;
use slackwater_tower::client::PickView;
use slackwater_tower::response::GrpcStatus;
use std::rc::Rc;
use std::time::SystemTime;
use tokio::time::Instant;

/// How a request ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Ended {
    /// The client has received the whole response.
    Complete,
    /// The client left before that.
    ClientGone,
    /// The client read nothing for too long, and was cut off.
    ClientStalled,
    /// The request was cut off because the drain time was over.
    CutOff,
    /// The replica broke off during its response.
    Broken,
    /// The replica sent nothing for too long during the response.
    Stalled,
    /// Both sides of a tunnel sent nothing for too long, as a tunnel that is not needed any more.
    TunnelIdle,
}

impl Ended {
    pub(crate) const fn as_str(self) -> &'static str {
        match self {
            Self::Complete => "complete",
            Self::ClientGone => "client_gone",
            Self::ClientStalled => "client_stalled",
            Self::CutOff => "cut_off",
            Self::Broken => "broken",
            Self::Stalled | Self::TunnelIdle => "stalled",
        }
    }
}

/// Directory of a service: its policy, and the names of its replicas.
pub(crate) trait Directory: Debug {
    /// Name of the policy.
    fn policy(&self) -> &'static str;

    /// Returns the user's name of the replica that has this part; `None` once it has left.
    fn name(&self, part: ReplicaId) -> Option<Box<str>>;

    /// Returns the index of the part, counted from 1, and the number of its replica's parts. `None`
    /// if the replica is one to its policy, or has left.
    fn part(&self, part: ReplicaId) -> Option<(usize, usize)> {
        let _ = part;
        None
    }

    /// The recording of the policy's inputs; `None` if they are not recorded.
    fn recording(&self) -> Option<&Stream> {
        None
    }

    /// Makes the request an exemplar in the histograms that have counted it.
    fn exemplify(&self, record: &RequestRecord, reference: Reference) {
        let _ = (record, reference);
    }
}

/// A request's second copy.
#[derive(Debug)]
pub(super) struct SecondCopy {
    pub(super) kind: AttemptKind,
    /// Whether the client gets its response.
    pub(super) won: bool,
    pub(super) replica: Rc<str>,
    pub(super) pick: PickView,
    pub(super) sent: Duration,
    pub(super) connect: Option<Duration>,
}

/// One request. The fields about "the replica" describe the attempt whose response is forwarded or,
/// until there is one, the last attempt that is not a second copy. What the client gets is unknown
/// until a response is forwarded.
#[derive(Debug)]
pub(crate) struct RequestRecord {
    recorder: Rc<RequestRecorder>,
    pub(crate) at: SystemTime,
    pub(super) began: Instant,
    /// That time on the clock of its service; `None` before it has one.
    pub(super) began_at: Option<CoreInstant>,
    pub(crate) client: IpAddr,
    /// The connection of the request.
    pub(crate) origin: Rc<Origin>,
    pub(crate) method: Method,
    pub(crate) version: Version,
    /// Texts of the head; `None` once the record is over. To move them out of the record would copy
    /// all of it.
    described: Option<Box<Described>>,
    /// The first value of each field that a consumer requests, in the order of its list.
    /// `None` if none requests any.
    pub(crate) values: Option<Box<[Option<HeaderValue>]>>,
    /// Drawn when first needed, unless the request has an id already.
    id: OnceCell<RequestId>,
    pub(crate) service: Option<Rc<str>>,
    pub(crate) directory: Option<Rc<dyn Directory>>,
    pub(crate) replica: Option<Rc<str>>,
    /// Number of attempts, including second copies and trials.
    pub(crate) attempts: u32,
    pub(super) copy: Option<Box<SecondCopy>>,
    /// The replica that received a copy as a trial.
    pub(crate) shadow: Option<Rc<str>>,
    /// Why the replica was picked.
    pub(crate) pick: Option<PickView>,
    /// When the first replica was picked, on the balancer's clock.
    pub(crate) first_picked: Option<CoreInstant>,
    /// Status that the client receives; `None` if there is none yet.
    pub(crate) status: Option<StatusCode>,
    /// Status of a gRPC call that the client receives, if known.
    pub(crate) grpc_status: Option<GrpcStatus>,
    /// Whether the client gets a replica's response.
    pub(crate) is_passed_on: bool,
    /// Whether the response is the proxy's own, for a failure.
    pub(super) is_own_failure: bool,
    pub(crate) error: Option<HeaderValue>,
    pub(crate) upload: Option<Rc<Progress>>,
    pub(crate) bytes_out: u64,
    pub(crate) queue: Option<Duration>,
    pub(crate) connect: Option<Duration>,
    /// When a replica's response was forwarded to the client.
    pub(crate) first_byte: Option<Duration>,
    pub(crate) ended: Option<Ended>,
    /// Set once the request is over.
    pub(crate) total: Option<Duration>,
    /// In the order in which they were sent; empty if no consumer may want them.
    pub(crate) attempt_records: Vec<AttemptRecord>,
    /// `None` if it is not exported as spans.
    pub(crate) traced: Option<Box<Traced>>,
    /// The path in the route's condition, for spans.
    pub(crate) path_of_route: Option<String>,
    /// Index of the attempt that represents the request.
    pub(crate) leading: Option<usize>,
    /// How histograms have counted it.
    pub(crate) counted: Counted,
    /// Whether a decision about it is kept.
    kept: Cell<bool>,
}

/// Class and duration with which histograms have counted a request.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Counted {
    /// Until the response head.
    pub(crate) first_byte: Option<(ResponseClass, Duration)>,
    /// Until the end.
    pub(crate) total: Option<(ResponseClass, Duration)>,
}

impl RequestRecord {
    pub(super) fn new<B>(
        recorder: &Rc<RequestRecorder>,
        request: &Request<B>,
        (id, traced): (Option<&HeaderValue>, Option<Box<Traced>>),
        mut described: Box<Described>,
        origin: &Rc<Origin>,
    ) -> Self {
        described.read(request, recorder.shows_query());
        Self {
            recorder: Rc::clone(recorder),
            at: SystemTime::now(),
            began: Instant::now(),
            began_at: None,
            client: origin.client(request.headers()),
            origin: Rc::clone(origin),
            method: request.method().clone(),
            version: request.version(),
            described: Some(described),
            values: recorder.values(request.headers()),
            id: id.map_or_else(OnceCell::new, |id| RequestId::InHeader(id.clone()).into()),
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
            attempt_records: Vec::new(),
            traced,
            path_of_route: None,
            leading: None,
            counted: Counted::default(),
            kept: Cell::new(false),
        }
    }

    /// The texts of the head; empty once the record is over.
    pub(crate) fn described(&self) -> &Described {
        self.described.as_deref().unwrap_or(&described::NONE)
    }

    /// Takes the memory of the texts for another record.
    pub(super) fn take_described(&mut self) -> Option<Box<Described>> {
        self.described.take()
    }

    /// The local address of the connection.
    pub(crate) fn listener(&self) -> &str {
        self.origin.local().as_str()
    }

    /// The id of the request.
    pub(crate) fn id(&self) -> &RequestId {
        self.id
            .get_or_init(|| RequestId::Drawn(self.recorder.ids().draw()))
    }

    /// Marks the request as kept: its decision can be looked up by its id.
    pub(crate) fn keep(&self) {
        self.kept.set(true);
    }

    /// What the request can be looked up by; `None` if it cannot.
    pub(super) fn reference(&self) -> Option<Reference> {
        if self.traced.is_none() && !self.is_kept() {
            return None;
        }
        let trace = self.traced.as_ref().map(|traced| traced.trace());
        let id = self
            .is_kept()
            .then(|| str::from_utf8(self.id().as_bytes()).ok());
        Reference::new(trace, id.flatten())
    }

    /// Whether a decision about it is kept.
    pub(crate) fn is_kept(&self) -> bool {
        self.kept.get()
    }

    pub(super) const fn recorder(&self) -> &Rc<RequestRecorder> {
        &self.recorder
    }

    /// Outcome of a second copy of this kind.
    pub(crate) fn copy(&self, kind: AttemptKind) -> Option<&'static str> {
        let copy = self.copy.as_ref().filter(|copy| copy.kind == kind);
        copy.map(|copy| if copy.won { "won" } else { "lost" })
    }

    /// How the request ended. Without a recorded end, the client was cut off or has left.
    pub(crate) fn ended(&self) -> Ended {
        self.ended.unwrap_or_else(|| match self.origin.cut().get() {
            Cut::Not => Ended::ClientGone,
            Cut::Off => Ended::CutOff,
            Cut::ClientStalled => Ended::ClientStalled,
        })
    }

    /// Whether the request failed: a status of 500 and above, a gRPC status that blames the server,
    /// or a response that broke off, stalled or was cut off. The proxy's own answer to a gRPC call
    /// counts by its HTTP status.
    pub(crate) fn failed(&self) -> bool {
        let by_status = if self.is_passed_on {
            self.status.is_some_and(|status| status.is_server_error())
                || self.grpc_status.is_some_and(GrpcStatus::blames_server)
        } else {
            self.is_own_failure
        };
        by_status || matches!(self.ended(), Ended::Broken | Ended::Stalled | Ended::CutOff)
    }

    /// Whether the client gets the response of the attempt at that index.
    pub(crate) fn is_answered_by(&self, place: usize) -> bool {
        self.is_passed_on && self.leading == Some(place)
    }

    /// Time from the request head to the response head or, without one, to the end.
    pub(crate) fn waited(&self) -> Duration {
        self.first_byte.unwrap_or_else(|| self.total())
    }

    /// Records that the second copy's response is forwarded, so that its replica represents the
    /// request.
    ///
    /// Cold: few second copies win, and all other requests would jump over this code.
    #[cold]
    pub(super) fn lead_by_copy(&mut self) {
        let Some(copy) = &mut self.copy else {
            return;
        };
        copy.won = true;
        self.replica = Some(Rc::clone(&copy.replica));
        self.pick = Some(copy.pick);
        self.queue = Some(copy.sent);
        self.connect = copy.connect;
        let is_copy = |attempt: &AttemptRecord| attempt.kind.is_copy();
        self.leading = self.attempt_records.iter().rposition(is_copy);
    }

    /// Time from the request head to `at`, which was read from the clock of its service. `None` is
    /// now.
    pub(super) fn since_head(&self, at: Option<CoreInstant>) -> Duration {
        match (at, self.began_at) {
            (Some(at), Some(began_at)) => at.saturating_since(began_at),
            _ => self.began.elapsed(),
        }
    }

    /// Time from the request head to the end.
    pub(crate) fn total(&self) -> Duration {
        self.total.unwrap_or_else(|| self.began.elapsed())
    }
}
