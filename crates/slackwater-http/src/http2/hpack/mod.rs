//! Header compression: a block of octets becomes fields, and fields a block. RFC 7541
//!
//! A field is parsed once, when it enters the table; each time that it is named by its index
//! afterwards costs a clone. A field that is malformed has its place in the table all the same, so
//! that both ends keep the same one: what is wrong with it is known there, too. Values own their
//! octets: none keeps the buffer alive that it was read from.
//!
//! | | file |
//! |---|---|
//! | integers, and octets to read | `integer` |
//! | Huffman code, to read | `huffman` |
//! | the static table | `static_table` |
//! | one field, parsed | `field` |
//! | blocks to fields | `decoder` |
//! | fields to blocks | `encoder` |
//! | what the encoder has told, and found again | `told` |

mod decoder;
mod encoder;
mod field;
mod huffman;
mod integer;
mod static_table;
mod table;
#[cfg(test)]
mod tests;

pub use decoder::Decoder;
pub use encoder::Encoder;
pub(super) use field::{Fault, Field};
pub(super) use table::Kind;

/// Octets of a table that both ends may use without a word about it. RFC 9113 §6.5.2
const TABLE_BYTES: usize = 4096;

/// What a field counts beside its octets. RFC 7541 §4.1
const FIELD_OVERHEAD: usize = 32;

/// A block that does not say which fields it means. Nothing that follows it on the connection can
/// be read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Broken(pub(super) &'static str);

/// What a field counts for limits and in tables.
const fn field_size(name_length: usize, value_length: usize) -> usize {
    name_length + value_length + FIELD_OVERHEAD
}
