//! HTTP/2 on the wire, without I/O. RFC 9113, RFC 7541

#[cfg_attr(
    not(test),
    expect(dead_code, reason = "the connection that uses it comes next")
)]
mod head;
#[cfg_attr(
    not(test),
    expect(dead_code, reason = "the connection that uses it comes next")
)]
mod hpack;
