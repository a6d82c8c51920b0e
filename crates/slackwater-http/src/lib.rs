//! HTTP/1.1 and HTTP/2 on the wire, without I/O: octets in, messages out, and back.
//!
//! There is no socket, no clock, no thread and no `async` here. Whoever owns the socket hands in
//! what was read, however it was cut, and writes what gathers. So a codec runs under any runtime,
//! in a test without one, and under a fuzzer.
//!
//! Made for a proxy, which is both sides at once: what two parsers could read in two ways is
//! refused and never repaired, because one request could hide in another; every bound is an
//! argument or a constant with its reason; nothing that the other side sends is kept without one.
//!
//! | | module |
//! |---|---|
//! | HTTP/1.1: heads, how long bodies are, chunks | [`http1`] |
//! | HTTP/2: a connection as a value, for either role | [`http2`] |
//! | HTTP/2's header blocks alone | [`http2::head`] |
//! | the PROXY protocol: headers before a connection's own bytes | [`proxy_protocol`] |
//! | what both have in common | [`content_length`], [`interim_count`] |
//!
//! What is absent on purpose: TLS, pools, timeouts and retries, which a proxy has around it; server
//! push, which browsers gave up; priorities, which RFC 9113 did.
//!
//! ```
//! use bytes::Bytes;
//! use http::HeaderMap;
//! use slackwater_http::http1::{BodyLength, HeadLimits, HeadSearch, SoFar, parse_request};
//!
//! let limits = HeadLimits { bytes_max: 64 << 10, fields_max: 100 };
//! let mut unread = Bytes::from_static(b"POST /x HTTP/1.1\r\nhost: a\r\ncontent-length: 2\r\n\r\nhi");
//! let SoFar::Whole(end) = HeadSearch::default().look(&mut unread, limits) else {
//!     panic!("the head is whole");
//! };
//! let head = parse_request(&unread.split_to(end), limits, HeaderMap::new())?;
//! assert_eq!(head.body, BodyLength::Known(2));
//! assert_eq!(unread, "hi");
//! # Ok::<(), slackwater_http::http1::BadMessage>(())
//! ```

#![forbid(unsafe_code)]

use http::HeaderName;

pub mod content_length;
pub mod http1;
pub mod http2;
pub mod interim_count;
pub mod proxy_protocol;

/// Where gRPC says how a call ended: in the trailers, or in a head without a body.
pub const GRPC_STATUS: HeaderName = HeaderName::from_static("grpc-status");
