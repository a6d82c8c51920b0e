//! Header compression: decodes blocks to fields, and encodes fields to blocks. RFC 7541
//!
//! A field is parsed once, when it enters the table. Each later reference by its index costs a
//! clone. A malformed field enters the table, too, so that both ends keep the same one; its fault
//! is stored there. Values own their octets, so none keeps a read buffer alive.
//!
//! | | file |
//! |---|---|
//! | integers, and reading octets | `integer` |
//! | decoding of Huffman code | `huffman` |
//! | the static table | `static_table` |
//! | one field, parsed | `field` |
//! | blocks to fields | `decoder` |
//! | fields to blocks | `encoder` |
//! | the encoder's table, and finding fields in it | `table` |

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

/// The size of a table that both ends may use without negotiation. RFC 9113 §6.5.2
const TABLE_BYTES: usize = 4096;

/// The size of a field beyond its octets. RFC 7541 §4.1
const FIELD_OVERHEAD: usize = 32;

/// The error of a block whose fields cannot be determined. No later block on the connection can be
/// read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Broken(pub(super) &'static str);

/// The size of a field in limits and tables.
const fn field_size(name_length: usize, value_length: usize) -> usize {
    name_length + value_length + FIELD_OVERHEAD
}
