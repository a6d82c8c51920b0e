//! Consumers of request records, and how much detail each needs.

use super::described::Described;
use super::handle::{RecordHandle, SharedRecord};
use super::ids::Ids;
use super::record::RequestRecord;
use crate::forward::{Origin, X_SLACKWATER_ERROR};
use crate::traces::{Traced, Tracer};
use core::cell::RefCell;
use core::fmt::Debug;
use core::net::IpAddr;
use http::uri::Authority;
use http::{HeaderName, HeaderValue, StatusCode};
use http_body::Body;
use slackwater_http::{Fields, Request, Response, Value};
use std::rc::Rc;
use std::time::SystemTime;

/// Maximum number of consumers.
pub(super) const CONSUMERS: usize = 3;

/// Most records whose memory is kept, of less than 5 KiB each.
const REUSABLE_MAX: usize = 256;

/// The consumers of a recorder.
pub(crate) type Consumers = [Option<Box<dyn Consumer>>; CONSUMERS];

/// The mark of each consumer; `None` if it does not need the request.
pub(super) type Marks = [Option<u8>; CONSUMERS];

/// How much of a request is recorded.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Detail {
    /// The outcome, and the last of several attempts.
    Summary,
    /// Additionally each attempt, with the reason of its pick.
    Attempts,
    /// Additionally the candidates of each pick.
    Choices,
}

/// The detail that a consumer needs of a request that has just arrived.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Interest {
    pub(crate) detail: Detail,
    /// The consumer's own value, which it gets back with the record.
    pub(crate) mark: u8,
}

/// A consumer of request records.
pub(crate) trait Consumer: Debug {
    /// Returns the detail that may be needed, judged by the request's headers; `None` if the
    /// consumer needs no record with any outcome.
    fn wants(&self, headers: &Fields) -> Option<Interest>;

    /// Fields whose values it needs in records. At most one consumer needs any.
    fn fields(&self) -> &[HeaderName] {
        &[]
    }

    /// Whether it shows queries, which are otherwise not recorded.
    fn shows_query(&self) -> bool {
        false
    }

    /// Called when a request is over. Some of its attempts may still run.
    fn over(&self, record: &RequestRecord, mark: u8) {
        let _ = (record, mark);
    }

    /// Called when a request and all of its attempts are over.
    fn finished(&self, record: &RequestRecord, mark: u8) {
        let _ = (record, mark);
    }

    /// Called for a request that could not be read, with its answer.
    fn refused(&self, refused: &UnreadableRequest<'_>) {
        let _ = refused;
    }
}

/// A request that could not be read.
#[derive(Debug)]
pub(crate) struct UnreadableRequest<'a> {
    pub(crate) client: IpAddr,
    pub(crate) listener: &'a Authority,
    pub(crate) status: StatusCode,
    pub(crate) bytes_out: u64,
    pub(crate) error: Option<Value<'a>>,
    pub(crate) at: SystemTime,
    pub(crate) id: [u8; 32],
}

/// One worker's records.
#[derive(Debug)]
pub(crate) struct RequestRecorder {
    /// At most [`CONSUMERS`].
    consumers: Box<[Box<dyn Consumer>]>,
    /// Fields whose values are recorded.
    fields: Box<[HeaderName]>,
    /// Whether a consumer shows queries.
    shows_query: bool,
    ids: Ids,
    /// `None` if tracing is off.
    tracing: Option<Tracing>,
    /// Memory of records that are over, for the next ones.
    reusable: RefCell<Vec<(Rc<SharedRecord>, Box<Described>)>>,
}

/// How requests are traced.
#[derive(Debug)]
pub(crate) struct Tracing {
    /// Decides which requests are traced.
    pub(crate) tracer: Rc<Tracer>,
    /// Exports the record of a sampled request as spans.
    pub(crate) export: fn(&RequestRecord),
}

impl RequestRecorder {
    /// Makes a recorder for these consumers.
    pub(crate) fn new(consumers: Consumers, ids: Ids, tracing: Option<Tracing>) -> Rc<Self> {
        let consumers: Box<[_]> = consumers.into_iter().flatten().collect();
        let fields = consumers.iter().flat_map(|it| it.fields());
        Rc::new(Self {
            fields: fields.cloned().collect(),
            shows_query: consumers.iter().any(|it| it.shows_query()),
            consumers,
            ids,
            tracing,
            reusable: RefCell::default(),
        })
    }

    /// Decides which requests are traced.
    pub(crate) fn tracer(&self) -> Option<&Rc<Tracer>> {
        self.tracing.as_ref().map(|tracing| &tracing.tracer)
    }

    /// The source of request ids.
    pub(crate) const fn ids(&self) -> &Ids {
        &self.ids
    }

    /// Whether the query of a request is recorded.
    pub(super) const fn shows_query(&self) -> bool {
        self.shows_query
    }

    /// Returns the request's values of the recorded fields; `None` if no field is recorded.
    pub(super) fn values(&self, headers: &Fields) -> Option<Box<[Option<HeaderValue>]>> {
        let value = |name| headers.get(name).map(HeaderValue::from);
        (!self.fields.is_empty()).then(|| self.fields.iter().map(value).collect())
    }

    /// Starts the record of a request that came from `origin`; `id` is its id, if it has one.
    pub(crate) fn begin<B>(
        self: &Rc<Self>,
        request: &Request<B>,
        (id, traced): (Option<&HeaderValue>, Option<Box<Traced>>),
        origin: &Rc<Origin>,
    ) -> RecordHandle {
        let mut marks = Marks::default();
        let mut most = traced.as_ref().map(|_| Detail::Attempts);
        for (consumer, mark) in self.consumers.iter().zip(&mut marks) {
            if let Some(interest) = consumer.wants(request.headers()) {
                *mark = Some(interest.mark);
                most = most.max(Some(interest.detail));
            }
        }
        most.map_or_else(RecordHandle::default, |detail| {
            let (reused, described) = self.reusable.borrow_mut().pop().unzip();
            let described = described.unwrap_or_default();
            let record = || RequestRecord::new(self, request, (id, traced), described, origin);
            RecordHandle::begin(record, (detail, marks), reused)
        })
    }

    /// Keeps the memory of a record that is over.
    pub(super) fn keep_for_reuse(
        &self,
        shared: Rc<SharedRecord>,
        described: Option<Box<Described>>,
    ) {
        let mut reusable = self.reusable.borrow_mut();
        if let Some(mut described) = described
            && reusable.len() < REUSABLE_MAX
        {
            described.clear();
            reusable.push((shared, described));
        }
    }

    /// Reports a request that could not be read, with its answer.
    pub(crate) fn refused<B: Body>(
        &self,
        answer: &Response<B>,
        client: IpAddr,
        listener: &Authority,
    ) {
        if self.consumers.is_empty() {
            return;
        }
        let refused = UnreadableRequest {
            client,
            listener,
            status: answer.status(),
            bytes_out: answer.body().size_hint().exact().unwrap_or_default(),
            error: answer.headers().get(X_SLACKWATER_ERROR),
            at: SystemTime::now(),
            id: self.ids.draw(),
        };
        let consumers = self.consumers.iter();
        consumers.for_each(|consumer| consumer.refused(&refused));
    }

    /// Exports a traced request after it and all of its attempts are over.
    pub(super) fn trace(&self, record: &RequestRecord) {
        if let (Some(tracing), Some(_)) = (&self.tracing, &record.traced) {
            (tracing.export)(record);
        }
    }

    pub(super) fn notify(&self, marks: Marks, notify: impl Fn(&dyn Consumer, u8)) {
        for told in self.consumers.iter().zip(marks) {
            if let (consumer, Some(mark)) = told {
                notify(&**consumer, mark);
            }
        }
    }
}
