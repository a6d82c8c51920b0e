//! A response's body on its way to a client, what is settled when it ends, and the reading out of those that nobody hears.

mod body;
mod drain;

pub(crate) use body::Source;
pub use body::{End, ResponseBody, Watch};
pub(crate) use drain::{COPY_BYTES_MAX, COPY_TIME_MAX, Unheard, read_out, read_rest};
