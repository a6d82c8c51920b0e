//! The PROXY protocol, versions 1 and 2: a proxy that does not interpret HTTP sends the client's
//! address before the client's own bytes. Specified in `proxy-protocol.txt` of the `HAProxy`
//! project.
//!
//! | | file |
//! |---|---|
//! | the header's bytes | `parse` |
//! | writing one | `write` |

mod parse;
mod write;

pub use parse::{Header, Malformed, Parsed, parse};
pub use write::{Ends, Version, header};
