//! HTTP/1.1 and HTTP/2 on the wire, without I/O: octets in, messages out, and back.
//!
//! There is no socket, no clock, no thread and no `async` here. The socket's owner passes what was
//! read, however it was split, and writes the output. So a codec runs under any runtime, in a test
//! without one, and under a fuzzer.
//!
//! The codecs are made for a proxy, which is both sides at once. Input that two parsers could read
//! in two ways is refused and never repaired, because one request could hide in another. Every
//! limit is an argument or a constant with its reason, and all input from the peer has a limit.
//!
//! | | module |
//! |---|---|
//! | HTTP/1.1: heads, body lengths, chunks | [`http1`] |
//! | HTTP/2: a connection as a value, for either role | [`http2`] |
//! | HTTP/2's header blocks alone | [`http2::head`] |
//! | the fields of a head, requests and responses | [`fields`], [`message`] |
//! | the PROXY protocol: headers before a connection's own bytes | [`proxy_protocol`] |
//! | shared by both | [`content_length`], [`interim_count`], [`sixteen`] |
//!
//! Left out on purpose: TLS, pools, timeouts and retries, which a proxy has around it; server push,
//! which browsers gave up; priorities, which RFC 9113 gave up.
//!
//! ```
//! use bytes::Bytes;
//! use slackwater_http::Fields;
//! use slackwater_http::http1::{BodyLength, HeadLimits, HeadSearch, SoFar, parse_request};
//!
//! let limits = HeadLimits { bytes_max: 64 << 10, fields_max: 100 };
//! let request = b"POST /x HTTP/1.1\r\nhost: a\r\ncontent-length: 2\r\n\r\nhi";
//! let mut unread = Bytes::from_static(request);
//! let SoFar::Whole(end) = HeadSearch::default().look(&mut unread, limits) else {
//!     panic!("the head is whole");
//! };
//! let head = parse_request(&unread.split_to(end), limits, Fields::new())?;
//! assert_eq!(head.body, BodyLength::Known(2));
//! assert_eq!(unread, "hi");
//! # Ok::<(), slackwater_http::http1::BadMessage>(())
//! ```

#![forbid(unsafe_code)]

use http::HeaderName;

pub use fields::{FieldMap, FieldName, FieldValue, Fields, Value};
pub use message::{Request, Response};

pub mod content_length;
pub mod fields;
pub mod http1;
pub mod http2;
pub mod interim_count;
pub mod message;
pub mod proxy_protocol;
pub mod sixteen;
mod target;

/// Limits of a head's size.
#[derive(Clone, Copy, Debug)]
pub struct HeadLimits {
    /// Octets. In HTTP/1.1 from the first of the start line to the last of the empty line; in
    /// HTTP/2 of all names and values, plus 32 for each field. RFC 9113 §6.5.2
    pub bytes_max: usize,
    /// The number of fields, without pseudo-header fields; each occurrence of a name counts.
    pub fields_max: usize,
}

/// The field in which gRPC reports how a call ended: in the trailers, or in a head without a body.
pub const GRPC_STATUS: HeaderName = HeaderName::from_static("grpc-status");
