//! A request's body on its way to a replica, and what is kept so that the request can be sent again.
//!
//! | | file |
//! |---|---|
//! | the body, from either protocol | `body` |
//! | what is done to a request before a replica gets it | `prepare` |
//! | what was read of it, for another attempt | `replay_buffer` |
//! | the request once more, when the first one went nowhere | `spare` |
//! | further copies while the first is out | `twin` |

mod body;
mod prepare;
mod replay_buffer;
mod spare;
mod twin;

pub use body::RequestBody;
pub(crate) use body::{BodyAgain, BodyCopy, Progress, Wait};
pub use prepare::prepare_request;
pub(crate) use spare::Spare;
pub(crate) use twin::Twin;
