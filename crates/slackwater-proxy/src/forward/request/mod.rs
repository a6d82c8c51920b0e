//! A request body on its way to a replica, and what is kept so that the request can be sent again.
//!
//! | | file |
//! |---|---|
//! | the body, from either protocol | `body` |
//! | what is done to a request before a replica gets it | `prepare` |
//! | what was read of it, for another attempt | `replay_buffer` |
//! | the request once more, when the first time had no effect | `replayable` |
//! | further copies while the first is in flight | `template` |

mod body;
mod prepare;
mod replay_buffer;
mod replayable;
mod template;

pub use body::RequestBody;
pub(crate) use body::{BodyCopy, BodyState, Progress, ReplayableBody};
pub use prepare::prepare_request;
pub(crate) use replayable::ReplayableRequest;
pub(crate) use template::RequestTemplate;
