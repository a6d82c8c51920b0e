//! A response's body on its way to a client, what is settled when it ends, and the draining of those that no client gets.

mod body;
mod drain;

pub(crate) use body::ResponseSource;
pub use body::{End, ResponseBody, Watch};
pub(crate) use drain::{COPY_BYTES_MAX, COPY_TIME_MAX, Unwatched, drain, drain_up_to};
