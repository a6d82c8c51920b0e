//! HTTP/2 on the wire, without I/O. RFC 9113, RFC 7541

#[expect(dead_code, reason = "the connection that uses it comes next")]
mod head;
#[expect(dead_code, reason = "the connection that uses it comes next")]
mod hpack;
