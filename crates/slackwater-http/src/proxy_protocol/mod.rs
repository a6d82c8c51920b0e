//! The PROXY protocol, versions 1 and 2: what a proxy that does not speak HTTP says of the client
//! before the client's own bytes begin. As `proxy-protocol.txt` of the `HAProxy` project has it.
//!
//! | | file |
//! |---|---|
//! | the header's bytes | `parse` |
//! | writing one | `write` |

mod parse;
mod write;

pub use parse::{Header, Malformed, Parsed, parse};
pub use write::{Ends, Version, header};
