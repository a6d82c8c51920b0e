//! A recording as a file: blocks, each with its length and a checksum. `docs/reference/replay.md`
//! describes it.
//!
//! Nothing here opens a file: `framed` makes a block's bytes for whoever writes one, and [`read()`]
//! takes all of one.

mod format;
mod read;

pub use format::{
    BLOCK_MAX, Block, END_BYTES, End, FRAME_BYTES, Head, MAGIC, StreamHead, first_block,
};
pub use read::{Ending, RecordedStream, Recording, read};
