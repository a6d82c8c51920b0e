//! Mirrored requests: copies for a service whose responses are discarded.
//!
//! A copy starts when the body of the request has been read to its end. It runs in its own task and
//! has no effect except counts: it neither delays nor fails the request. The size of copies and
//! their number are limited.

use super::Table;
use crate::forward::{
    BodyCopy, COPY_BYTES_MAX, COPY_TIME_MAX, Origin, RequestBody, drain_up_to, prepare_request,
};
use crate::request_record::{RecordHandle, RequestRecorder};
use crate::service::{DispatchOptions, RequestKey, Service, settle};
use core::cell::Cell;
use http::header::{self, HeaderValue};
use http::{Method, Uri};
use slackwater_config::Connect;
use slackwater_config::routes::{Forward, HeaderChanges, Mirror, Rewrite};
use slackwater_core::draw::below;
use slackwater_core::overload::Priority;
use slackwater_core::{Draw, ReplicaId};
use slackwater_http::{Fields, Request};
use slackwater_tower::wire::asks::set_priority;
use std::rc::Rc;
use tokio::time::{Instant, timeout_at};

/// Maximum number of concurrent copies of a worker.
const COPIES_MAX: u32 = 256;
/// Shares are in millionths.
const WHOLE: u32 = 1_000_000;

/// A worker's copies in flight.
#[derive(Clone, Debug, Default)]
pub(super) struct Mirrors(Rc<Cell<u32>>);

/// The right to send one copy, until dropped.
#[derive(Debug)]
struct MirrorPermit(Rc<Cell<u32>>);

impl Drop for MirrorPermit {
    fn drop(&mut self) {
        self.0.set(self.0.get() - 1);
    }
}

/// A copy that waits for the body of its request.
#[derive(Debug)]
struct Copy {
    method: Method,
    uri: Uri,
    headers: Fields,
    version: http::Version,
    body: BodyCopy,
    id: CopiedId,
}

/// A request's id, and what writes it.
type CopiedId = (Rc<RequestRecorder>, Option<HeaderValue>);

impl Mirrors {
    /// Starts a copy of the request, if the random draw selects it. Must be called before the
    /// request is changed.
    pub(super) fn send(
        &self,
        mirror: &Mirror,
        table: &Table,
        request: &mut Request<RequestBody>,
        origin: &Origin,
        (route, id): (&Forward, CopiedId),
        draw: &mut impl Draw,
    ) {
        if below(draw, WHOLE) >= mirror.share.millionths() {
            return;
        }
        let Some(service) = table.services.get(mirror.service) else {
            return;
        };
        // A copy cannot exchange data with the client.
        if request.headers().contains_key(header::UPGRADE) || *request.method() == Method::CONNECT {
            return;
        }
        let bytes_max = mirror.body_bytes_max as usize;
        let has_free_permit = self.0.get() < COPIES_MAX;
        let body = (has_free_permit.then(|| request.body_mut().copy(bytes_max))).flatten();
        let Some(body) = body else {
            service.counts().mirror_skipped.add_one();
            return;
        };
        self.0.set(self.0.get() + 1);
        let permit = MirrorPermit(Rc::clone(&self.0));
        let copy = Copy {
            method: request.method().clone(),
            uri: request.uri().clone(),
            headers: request.headers().clone(),
            version: request.version(),
            body,
            id,
        };
        let (service, origin) = (Rc::clone(service), origin.clone());
        let changes = (route.rewrite.clone(), route.request_headers.clone());
        tokio::task::spawn_local(async move {
            let _permit = permit;
            let prepared = prepare(copy, &service, &origin, &changes).await;
            let Some((request, key, pinned)) = prepared else {
                return service.counts().mirror_skipped.add_one();
            };
            service.counts().mirrored.add_one();
            let options = DispatchOptions {
                key: key.as_ref(),
                pinned,
                ..DispatchOptions::default()
            };
            let record = RecordHandle::default();
            let ends = Instant::now() + COPY_TIME_MAX;
            let handled = service.handle(request, &record, &options);
            let Ok(mut answer) = timeout_at(ends, handled).await else {
                return;
            };
            let body = answer.body_mut();
            let _ = timeout_at(ends, drain_up_to(body, COPY_BYTES_MAX)).await;
            settle(body);
        });
    }
}

/// Returns the request that is sent when its body is complete, with its key and the replica that it
/// sticks to; `None` if there is none to send.
async fn prepare(
    copy: Copy,
    service: &Service,
    origin: &Origin,
    (rewrite, headers): &(Rewrite, HeaderChanges),
) -> Option<(
    Box<Request<RequestBody>>,
    Option<RequestKey>,
    Option<ReplicaId>,
)> {
    let body = tokio::time::timeout(COPY_TIME_MAX, copy.body).await;
    let body = body.ok()?.ok()?;
    let length = body.len();
    let mut request = Box::new(Request::new(RequestBody::own(body)));
    *request.method_mut() = copy.method;
    *request.uri_mut() = copy.uri;
    *request.headers_mut() = copy.headers;
    // No client waits for the response, so the copy has the lowest priority, whatever the request's
    // own.
    set_priority(request.headers_mut(), Priority::Shadow);
    *request.version_mut() = copy.version;
    let (key, pinned) = (
        service.key(&request, origin),
        service.pinned(&request, origin),
    );
    // If the request is invalid, the client gets the error from the request itself.
    prepare_request(&mut request, service.protocol(), Connect::Refuse, origin).ok()?;
    let (recorder, id) = copy.id;
    recorder.ids().pass_on(id.as_ref(), request.headers_mut());
    if rewrite.host.is_some() {
        origin.keep_host(&mut request);
    }
    if !rewrite.apply(&mut request) {
        return None;
    }
    if length > 0 {
        let length = HeaderValue::from(length);
        request.headers_mut().insert(header::CONTENT_LENGTH, length);
    }
    headers.apply(request.headers_mut());
    Some((request, key, pinned))
}
