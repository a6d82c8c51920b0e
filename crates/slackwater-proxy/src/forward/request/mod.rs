//! A request body on its way to a replica, and what is kept so that the request can be sent again.
//!
//! | | file |
//! |---|---|
//! | the body, from either protocol | `body` |
//! | preparation of a request for a replica | `prepare` |
//! | the part of it that was read, for another attempt | `replay_buffer` |
//! | the request again, if the first attempt had no effect | `replayable` |
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
