//! The record of a request, from which access log, trace, decision and recording are made.
//!
//! For each request, the `Consumer`s of a worker's `RequestRecorder` return how much detail they
//! may want. If none wants any, there is no record, and the request costs a check of an empty
//! option. Otherwise the code that runs the request holds a `RecordHandle` and records events. Each
//! attempt is an [`AttemptRecord`], recorded in full only if a consumer may want that. Consumers
//! get the record twice: when the request is over, and when the last of its attempts is over, which
//! may outlive the request (a copy for a replica on trial).
//!
//! A request has the same id everywhere: see `ids`.

mod attempt;
mod described;
mod handle;
pub(crate) mod ids;
mod record;
mod recorder;
#[cfg(test)]
mod tests;

pub use attempt::{AttemptKind, AttemptRecord};
pub(crate) use described::Described;
pub(crate) use handle::{AttemptHandle, RecordHandle};
pub(crate) use record::{Directory, Ended, RequestRecord};
pub(crate) use recorder::{
    Consumer, Detail, Interest, RequestRecorder, Tracing, UnreadableRequest,
};

/// Makes the origin of a connection from a client to 10.0.0.1:80.
#[cfg(test)]
pub(crate) fn origin_of(client: core::net::IpAddr) -> std::rc::Rc<crate::forward::Origin> {
    let rules = crate::forward::Rules::new(
        &slackwater_config::ForwardedSettings::default(),
        &slackwater_config::Limits::default(),
    );
    let local = http::uri::Authority::from_static("10.0.0.1:80");
    std::rc::Rc::new(crate::forward::Origin::new(
        &rules,
        (client, 1).into(),
        local,
        0,
    ))
}
