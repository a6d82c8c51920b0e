//! Encodes fields to blocks. RFC 7541 §6
//!
//! Text is never Huffman-coded: see `huffman`.

use super::integer::put_integer;
use super::table::{Finding, Given, Kind, Table};
use super::{TABLE_BYTES, static_table};
use crate::fields::{FieldMap, Value};
use bytes::BytesMut;
use http::uri::Scheme;
use http::{Method, StatusCode};

/// Buffers of larger blocks are not kept.
const KEPT_BYTES_MAX: usize = 4 << 10;

/// Encodes the blocks of one connection, in order.
#[derive(Debug)]
pub struct Encoder {
    /// Boxed, and created for the first block, because many connections send none for a long time.
    table: Option<Box<Table>>,
    /// The size that the peer allows for its table, as far as we use it.
    bytes_max: usize,
    /// The smallest `bytes_max` that has not been sent to the peer yet.
    untold: Option<usize>,
    /// The current block, or the buffer for the next one.
    text: Vec<u8>,
}

/// A block that is being encoded.
#[derive(Debug)]
pub(in crate::http2) struct Block<'e> {
    table: &'e mut Table,
    out: &'e mut Vec<u8>,
}

impl Default for Encoder {
    fn default() -> Self {
        Self::new()
    }
}

impl Encoder {
    /// Creates a table of the size that both ends may use without negotiation.
    pub const fn new() -> Self {
        Self {
            table: None,
            bytes_max: TABLE_BYTES,
            untold: None,
            text: Vec::new(),
        }
    }

    /// Sets the size of the peer's table from now on: its `SETTINGS_HEADER_TABLE_SIZE`. More than
    /// 4096 octets are never used. With 0 every field is sent as a literal.
    pub fn set_table_bytes_max(&mut self, bytes: u32) {
        let bytes = TABLE_BYTES.min(bytes as usize);
        if bytes != self.bytes_max || self.untold.is_some() {
            self.bytes_max = bytes;
            self.untold = Some(self.untold.map_or(bytes, |untold| untold.min(bytes)));
        }
    }

    /// Appends a block to `out`.
    pub(in crate::http2) fn encode(
        &mut self,
        kind: Kind,
        out: &mut BytesMut,
        write: impl FnOnce(&mut Block<'_>),
    ) {
        let table = (self.table).get_or_insert_with(|| Box::new(Table::new(TABLE_BYTES)));
        table.begin(kind);
        self.text.clear();
        let mut block = Block {
            table,
            out: &mut self.text,
        };
        if let Some(smallest) = self.untold.take() {
            // If the limit went down and up again, the peer must be sent both. RFC 7541 §4.2
            block.resize(smallest);
            if self.bytes_max != smallest {
                block.resize(self.bytes_max);
            }
        }
        write(&mut block);
        out.extend_from_slice(&self.text);
        if self.text.capacity() > KEPT_BYTES_MAX {
            self.text = Vec::new();
        }
    }
}

impl Block<'_> {
    fn resize(&mut self, bytes: usize) {
        put_integer(self.out, 0x20, 5, bytes);
        self.table.resize(bytes);
    }

    pub(in crate::http2) fn method(&mut self, method: &Method) {
        match *method {
            Method::GET => self.out.push(0x80 | 2),
            Method::POST => self.out.push(0x80 | 3),
            _ => self.field(2, b":method", method.as_str().as_bytes()),
        }
    }

    pub(in crate::http2) fn scheme(&mut self, scheme: &Scheme) {
        if *scheme == Scheme::HTTP {
            self.out.push(0x80 | 6);
        } else if *scheme == Scheme::HTTPS {
            self.out.push(0x80 | 7);
        } else {
            self.field(6, b":scheme", scheme.as_str().as_bytes());
        }
    }

    pub(in crate::http2) fn authority(&mut self, authority: &str) {
        self.field(1, b":authority", authority.as_bytes());
    }

    pub(in crate::http2) fn path(&mut self, path: &str) {
        if path == "/" {
            self.out.push(0x80 | 4);
        } else {
            self.field(4, b":path", path.as_bytes());
        }
    }

    pub(in crate::http2) fn status(&mut self, status: StatusCode) {
        let index = match status {
            StatusCode::OK => 8,
            StatusCode::NO_CONTENT => 9,
            StatusCode::PARTIAL_CONTENT => 10,
            StatusCode::NOT_MODIFIED => 11,
            StatusCode::BAD_REQUEST => 12,
            StatusCode::NOT_FOUND => 13,
            StatusCode::INTERNAL_SERVER_ERROR => 14,
            _ => return self.field(8, b":status", status.as_str().as_bytes()),
        };
        self.out.push(0x80 | index);
    }

    pub(in crate::http2) fn headers(&mut self, headers: &impl FieldMap) {
        for (name, value) in headers.each() {
            self.header(name, value);
        }
    }

    /// Encodes any other field. Connection fields of HTTP/1.1 are left out.
    pub(in crate::http2) fn header(&mut self, name: &[u8], value: Value<'_>) {
        let index = static_table::index_of(name);
        match name {
            b"connection" | b"transfer-encoding" | b"upgrade" | b"keep-alive"
            | b"proxy-connection" => {}
            // A client that can send guesses of such values on the same connection must not find
            // out which guess is right. RFC 7541 §7.1.3
            b"authorization" | b"cookie" | b"proxy-authorization" | b"set-cookie" => {
                self.literal(0x10, 4, index, name, value.as_bytes());
            }
            _ if value.is_sensitive() => self.literal(0x10, 4, index, name, value.as_bytes()),
            _ => self.field(index, name, value.as_bytes()),
        }
    }

    /// Encodes a field. `index` is that of its name in the static table, or 0.
    fn field(&mut self, index: usize, name: &[u8], value: &[u8]) {
        let field = Given {
            name_index: index,
            name,
            value,
        };
        match self.table.find(field) {
            Finding::Indexed(index) => put_integer(self.out, 0x80, 7, index),
            Finding::Remembered => self.literal(0x40, 6, index, name, value),
            Finding::Passing => self.literal(0, 4, index, name, value),
        }
    }

    fn literal(
        &mut self,
        first: u8,
        bits: u32,
        index: usize,
        name: impl AsRef<[u8]>,
        value: &[u8],
    ) {
        put_integer(self.out, first, bits, index);
        if index == 0 {
            self.string(name.as_ref());
        }
        self.string(value);
    }

    fn string(&mut self, octets: &[u8]) {
        put_integer(self.out, 0, 7, octets.len());
        self.out.extend_from_slice(octets);
    }
}
