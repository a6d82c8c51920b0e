//! Who wants to know of requests, and how much.

use super::ids::Ids;
use super::record::Record;
use super::story::Story;
use crate::forward::{Cut, X_SLACKWATER_ERROR};
use core::cell::Cell;
use core::fmt::Debug;
use core::net::IpAddr;
use http::uri::Authority;
use http::{HeaderMap, HeaderValue, Request, Response, StatusCode};
use http_body::Body;
use std::rc::Rc;

/// The most consumers that there are.
pub(super) const CONSUMERS_MAX: usize = 4;

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
pub(crate) struct Wish {
    pub(crate) detail: Detail,
    /// The consumer's own note, which it gets back with the record.
    pub(crate) mark: u8,
}

/// Somebody who tells of requests.
pub(crate) trait Consumer: Debug {
    /// What may be wanted of a request, by what it says of itself; `None`: nothing, whatever becomes of it.
    fn wants(&self, headers: &HeaderMap) -> Option<Wish>;

    /// A request is over. Some of its attempts may not be.
    fn over(&self, record: &Record, mark: u8) {
        let _ = (record, mark);
    }

    /// A request and all of its attempts are over.
    fn finished(&self, record: &Record, mark: u8) {
        let _ = (record, mark);
    }

    /// A request came that could not be read, and was answered so.
    fn refused(&self, refused: &Refused<'_>) {
        let _ = refused;
    }
}

/// A request that could not be read.
#[derive(Debug)]
pub(crate) struct Refused<'a> {
    pub(crate) client: IpAddr,
    pub(crate) listener: &'a Authority,
    pub(crate) status: StatusCode,
    pub(crate) bytes_out: u64,
    pub(crate) error: Option<&'a HeaderValue>,
    pub(crate) id: HeaderValue,
}

/// One worker's records.
#[derive(Debug)]
pub(crate) struct Recorder {
    consumers: Vec<Box<dyn Consumer>>,
    ids: Ids,
}

impl Recorder {
    /// Records for these, of whom there are at most four.
    pub(crate) fn new(mut consumers: Vec<Box<dyn Consumer>>, ids: Ids) -> Rc<Self> {
        consumers.truncate(CONSUMERS_MAX);
        Rc::new(Self { consumers, ids })
    }

    /// How requests are named.
    pub(crate) const fn ids(&self) -> &Ids {
        &self.ids
    }

    /// A request has come, which is named `id` if it has a name already. `cut` will say at its end whether its connection was
    /// ended by us.
    pub(crate) fn begin<B>(
        self: &Rc<Self>,
        request: &Request<B>,
        id: Option<&HeaderValue>,
        client: impl FnOnce() -> IpAddr,
        listener: &Authority,
        cut: &Rc<Cell<Cut>>,
    ) -> Story {
        let mut marks = [None; CONSUMERS_MAX];
        let mut most = None;
        for (consumer, mark) in self.consumers.iter().zip(&mut marks) {
            if let Some(wish) = consumer.wants(request.headers()) {
                *mark = Some(wish.mark);
                most = most.max(Some(wish.detail));
            }
        }
        most.map_or_else(Story::default, |detail| {
            let record = Record::new(self, request, id.cloned(), client(), listener, cut);
            Story::begin(record, detail, marks)
        })
    }

    /// A request came that could not be read, and was answered so.
    pub(crate) fn refused<B: Body>(
        &self,
        answer: &Response<B>,
        client: IpAddr,
        listener: &Authority,
    ) {
        if self.consumers.is_empty() {
            return;
        }
        let refused = Refused {
            client,
            listener,
            status: answer.status(),
            bytes_out: answer.body().size_hint().exact().unwrap_or_default(),
            error: answer.headers().get(X_SLACKWATER_ERROR),
            id: self.ids.draw(),
        };
        (self.consumers.iter()).for_each(|consumer| consumer.refused(&refused));
    }

    pub(super) fn tell(
        &self,
        marks: [Option<u8>; CONSUMERS_MAX],
        tell: impl Fn(&dyn Consumer, u8),
    ) {
        for (consumer, mark) in self.consumers.iter().zip(marks) {
            if let Some(mark) = mark {
                tell(&**consumer, mark);
            }
        }
    }
}
