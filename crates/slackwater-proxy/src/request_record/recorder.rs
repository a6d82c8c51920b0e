//! Who wants to know of requests, and how much.

use super::handle::RecordHandle;
use super::ids::Ids;
use super::record::RequestRecord;
use crate::forward::{Cut, X_SLACKWATER_ERROR};
use crate::traces::{Traced, Tracer};
use core::cell::Cell;
use core::fmt::Debug;
use core::net::IpAddr;
use http::uri::Authority;
use http::{HeaderMap, HeaderName, HeaderValue, Request, Response, StatusCode};
use http_body::Body;
use std::rc::Rc;

/// How many consumers there may be.
pub(super) const CONSUMERS: usize = 3;

/// Who hears of requests.
pub(crate) type Consumers = [Option<Box<dyn Consumer>>; CONSUMERS];

/// What each of them noted; `None`: it wants nothing of a request.
pub(super) type Marks = [Option<u8>; CONSUMERS];

/// How much of a request is noted.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Detail {
    /// What became of it, of several attempts the last.
    Summary,
    /// And each attempt, with why it went where it went.
    Attempts,
    /// And what each choice was made from.
    Choices,
}

/// What a consumer wants of a request that has just come.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Interest {
    pub(crate) detail: Detail,
    /// The consumer's own note, which it gets back with the record.
    pub(crate) mark: u8,
}

/// Somebody who tells of requests.
pub(crate) trait Consumer: Debug {
    /// What may be wanted of a request, by what it says of itself; `None`: nothing, whatever
    /// becomes of it.
    fn wants(&self, headers: &HeaderMap) -> Option<Interest>;

    /// Fields whose values it wants in records. At most one consumer wants any.
    fn fields(&self) -> &[HeaderName] {
        &[]
    }

    /// A request is over. Some of its attempts may not be.
    fn over(&self, record: &RequestRecord, mark: u8) {
        let _ = (record, mark);
    }

    /// A request and all of its attempts are over.
    fn finished(&self, record: &RequestRecord, mark: u8) {
        let _ = (record, mark);
    }

    /// A request came that could not be read, and was answered so.
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
    pub(crate) error: Option<&'a HeaderValue>,
    pub(crate) id: HeaderValue,
}

/// One worker's records.
#[derive(Debug)]
pub(crate) struct RequestRecorder {
    consumers: Consumers,
    /// Fields whose values are kept.
    fields: Box<[HeaderName]>,
    ids: Ids,
    /// `None`: nothing is traced.
    tracing: Option<Tracing>,
}

/// How requests are traced.
#[derive(Debug)]
pub(crate) struct Tracing {
    /// Says which are.
    pub(crate) tracer: Rc<Tracer>,
    /// Exports the record of a sampled request as spans.
    pub(crate) export: fn(&RequestRecord),
}

impl RequestRecorder {
    /// Records for these.
    pub(crate) fn new(consumers: Consumers, ids: Ids, tracing: Option<Tracing>) -> Rc<Self> {
        let fields = consumers.iter().flatten().flat_map(|it| it.fields());
        Rc::new(Self {
            fields: fields.cloned().collect(),
            consumers,
            ids,
            tracing,
        })
    }

    /// Who says which requests are traced.
    pub(crate) fn tracer(&self) -> Option<&Rc<Tracer>> {
        self.tracing.as_ref().map(|tracing| &tracing.tracer)
    }

    /// How requests are named.
    pub(crate) const fn ids(&self) -> &Ids {
        &self.ids
    }

    /// What a request says in the fields whose values are kept.
    pub(super) fn values(&self, headers: &HeaderMap) -> Box<[Option<HeaderValue>]> {
        let values = self.fields.iter().map(|name| headers.get(name).cloned());
        values.collect()
    }

    /// A request has come, which is named `id` if it has a name already. `cut` will say at its end
    /// whether its connection was ended by us.
    pub(crate) fn begin<B>(
        self: &Rc<Self>,
        request: &Request<B>,
        (id, traced): (Option<&HeaderValue>, Option<Traced>),
        client: impl FnOnce() -> IpAddr,
        listener: &Authority,
        cut: &Rc<Cell<Cut>>,
    ) -> RecordHandle {
        let mut marks = Marks::default();
        let mut most = traced.as_ref().map(|_| Detail::Attempts);
        for (consumer, mark) in self.consumers.iter().zip(&mut marks) {
            let interest = consumer.as_ref().map(|it| it.wants(request.headers()));
            if let Some(interest) = interest.flatten() {
                *mark = Some(interest.mark);
                most = most.max(Some(interest.detail));
            }
        }
        most.map_or_else(RecordHandle::default, |detail| {
            let mut record =
                RequestRecord::new(self, request, id.cloned(), client(), listener, cut);
            record.traced = traced.map(Box::new);
            RecordHandle::begin(record, detail, marks)
        })
    }

    /// A request came that could not be read, and was answered so.
    pub(crate) fn refused<B: Body>(
        &self,
        answer: &Response<B>,
        client: IpAddr,
        listener: &Authority,
    ) {
        let mut consumers = self.consumers.iter().flatten().peekable();
        if consumers.peek().is_none() {
            return;
        }
        let refused = UnreadableRequest {
            client,
            listener,
            status: answer.status(),
            bytes_out: answer.body().size_hint().exact().unwrap_or_default(),
            error: answer.headers().get(X_SLACKWATER_ERROR),
            id: self.ids.draw(),
        };
        consumers.for_each(|consumer| consumer.refused(&refused));
    }

    /// A request and all of its attempts are over.
    pub(super) fn trace(&self, record: &RequestRecord) {
        if let (Some(tracing), Some(_)) = (&self.tracing, &record.traced) {
            (tracing.export)(record);
        }
    }

    pub(super) fn notify(&self, marks: Marks, notify: impl Fn(&dyn Consumer, u8)) {
        for told in self.consumers.iter().zip(marks) {
            if let (Some(consumer), Some(mark)) = told {
                notify(&**consumer, mark);
            }
        }
    }
}
