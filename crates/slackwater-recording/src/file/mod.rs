//! A recording as a file: blocks, each with its length and a checksum. `docs/reference/replay.md`
//! describes it.
//!
//! Nothing here opens a file: `framed` returns a block's bytes, and [`read()`] takes the whole file
//! as bytes.

mod format;
mod read;

pub use format::{
    BLOCK_MAX, Block, END_BYTES, End, FRAME_BYTES, Head, MAGIC, StreamHead, first_block,
};
pub use read::{Ending, RecordedStream, Recording, read};
