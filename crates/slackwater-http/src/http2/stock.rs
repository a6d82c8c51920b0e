//! Memory that connections borrow, so that idle ones hold none.

use crate::fields::Fields;
use bytes::BytesMut;

/// Where connections borrow memory. The default allocates it, and frees it.
#[derive(Clone, Copy, Debug)]
pub struct Stock {
    /// Returns fields without any, perhaps with space.
    pub lend_headers: fn() -> Fields,
    /// Takes back fields that are no longer needed.
    pub take_headers_back: fn(Fields),
    /// Returns an empty buffer for output, perhaps with space.
    pub lend_text: fn() -> BytesMut,
    /// Takes back a buffer whose output was written.
    pub take_text_back: fn(BytesMut),
}

impl Default for Stock {
    fn default() -> Self {
        Self {
            lend_headers: Fields::new,
            take_headers_back: drop,
            lend_text: BytesMut::new,
            take_text_back: drop,
        }
    }
}
