//! A response body on its way to a client: `body` settles everything exactly once when it ends, and
//! `drain` reads the bodies that no client gets.

mod body;
mod drain;

pub(crate) use body::ResponseSource;
pub use body::{Answer, End, ResponseBody, Watch};
pub(crate) use drain::{COPY_BYTES_MAX, COPY_TIME_MAX, Unwatched, drain, drain_up_to};
