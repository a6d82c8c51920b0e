//! The PROXY protocol, versions 1 and 2: what a proxy that does not speak HTTP says of the client before the client's own
//! bytes begin. As `proxy-protocol.txt` of the `HAProxy` project has it.
//!
//! | | file |
//! |---|---|
//! | the header's bytes | `parse` |
//! | reading one from a socket, and not a byte more | `read` |
//! | writing one | `write` |

mod parse;
mod read;
mod write;

pub(crate) use read::read;
pub(crate) use write::{Ends, Version, header};
