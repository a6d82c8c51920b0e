//! HTTP/2 frames and header blocks as bytes, valid or invalid. [RFC 9113 §4, RFC 7541]

pub(in crate::siege) const DATA: u8 = 0;
pub(in crate::siege) const HEADERS: u8 = 1;
pub(in crate::siege) const PRIORITY: u8 = 2;
pub(in crate::siege) const RST_STREAM: u8 = 3;
pub(in crate::siege) const SETTINGS: u8 = 4;
pub(in crate::siege) const PING: u8 = 6;
pub(in crate::siege) const GOAWAY: u8 = 7;
pub(in crate::siege) const WINDOW_UPDATE: u8 = 8;
pub(in crate::siege) const CONTINUATION: u8 = 9;
/// A type that no specification defines.
pub(in crate::siege) const UNKNOWN: u8 = 0xfa;

/// The flag of HEADERS and DATA; the same bit is ACK of SETTINGS and PING.
pub(in crate::siege) const END_STREAM: u8 = 1;
pub(in crate::siege) const END_HEADERS: u8 = 4;

pub(in crate::siege) const HEADER_TABLE_SIZE: u16 = 1;
pub(in crate::siege) const INITIAL_WINDOW_SIZE: u16 = 4;

pub(in crate::siege) const NO_ERROR: u32 = 0;
pub(in crate::siege) const CANCEL: u32 = 8;

/// Largest payload that a peer accepts by default.
pub(in crate::siege) const PAYLOAD_MAX: usize = 16_384;

/// A client's first bytes, before its SETTINGS.
pub(in crate::siege) const PREFACE: &[u8] = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n";

/// One frame. If a payload is too long for its length field, the length's lower bits are written,
/// as an attacker may do.
pub(in crate::siege) fn frame(kind: u8, flags: u8, stream: u32, payload: &[u8]) -> Vec<u8> {
    let length = u32::try_from(payload.len())
        .unwrap_or(u32::MAX)
        .to_be_bytes();
    let mut bytes = Vec::with_capacity(payload.len() + 9);
    bytes.extend_from_slice(&length[1..]);
    bytes.extend([kind, flags]);
    bytes.extend(stream.to_be_bytes());
    bytes.extend_from_slice(payload);
    bytes
}

/// SETTINGS with these parameters.
pub(in crate::siege) fn settings(parameters: &[(u16, u32)]) -> Vec<u8> {
    let mut payload = Vec::with_capacity(parameters.len() * 6);
    for (id, value) in parameters {
        payload.extend(id.to_be_bytes());
        payload.extend(value.to_be_bytes());
    }
    frame(SETTINGS, 0, 0, &payload)
}

/// A client's preface. Without a header table the server's header blocks can be read without state.
pub(in crate::siege) fn preface(window: u32) -> Vec<u8> {
    let parameters = [(HEADER_TABLE_SIZE, 0), (INITIAL_WINDOW_SIZE, window)];
    [PREFACE.to_vec(), settings(&parameters)].concat()
}

pub(in crate::siege) fn ping() -> Vec<u8> {
    frame(PING, 0, 0, b"siegesie")
}

pub(in crate::siege) fn window_update(stream: u32, bytes: u32) -> Vec<u8> {
    frame(WINDOW_UPDATE, 0, stream, &bytes.to_be_bytes())
}

pub(in crate::siege) fn reset(stream: u32, code: u32) -> Vec<u8> {
    frame(RST_STREAM, 0, stream, &code.to_be_bytes())
}

/// PRIORITY: `stream` depends on stream 0.
pub(in crate::siege) fn priority(stream: u32) -> Vec<u8> {
    frame(PRIORITY, 0, stream, &[0, 0, 0, 0, 15])
}

/// An integer in the low `bits` of its first byte, whose high bits are `pattern`. [RFC 7541 §5.1]
pub(in crate::siege) fn integer(pattern: u8, bits: u32, mut value: usize) -> Vec<u8> {
    let most = (1 << bits) - 1;
    if value < most {
        return vec![pattern | u8::try_from(value).unwrap_or_default()];
    }
    let mut bytes = vec![pattern | u8::try_from(most).unwrap_or(u8::MAX)];
    value -= most;
    while value >= 128 {
        bytes.push(u8::try_from(value % 128).unwrap_or_default() | 128);
        value /= 128;
    }
    bytes.push(u8::try_from(value).unwrap_or_default());
    bytes
}

/// A literal field that enters no table, without Huffman code.
pub(in crate::siege) fn field(name: &[u8], value: &[u8]) -> Vec<u8> {
    literal(0, name, value)
}

/// A literal field that enters the dynamic table, without Huffman code.
pub(in crate::siege) fn indexed_field(name: &[u8], value: &[u8]) -> Vec<u8> {
    literal(0x40, name, value)
}

fn literal(pattern: u8, name: &[u8], value: &[u8]) -> Vec<u8> {
    let mut bytes = vec![pattern];
    for text in [name, value] {
        bytes.extend(integer(0, 7, text.len()));
        bytes.extend_from_slice(text);
    }
    bytes
}

/// A field whose value is Huffman code for zeros, five bits each, in `length` bytes, a multiple of
/// five.
pub(in crate::siege) fn huffman_field(name: &[u8], length: usize) -> Vec<u8> {
    let mut bytes = vec![0];
    bytes.extend(integer(0, 7, name.len()));
    bytes.extend_from_slice(name);
    bytes.extend(integer(0x80, 7, length));
    bytes.resize(bytes.len() + length, 0);
    bytes
}

/// The header block of a request.
pub(in crate::siege) fn request(method: &str, path: &str) -> Vec<u8> {
    request_to("siege.test", method, path)
}

/// The header block of a request to an authority.
pub(in crate::siege) fn request_to(authority: &str, method: &str, path: &str) -> Vec<u8> {
    [
        (":method", method),
        (":scheme", "http"),
        (":authority", authority),
        (":path", path),
    ]
    .into_iter()
    .flat_map(|(name, value)| field(name.as_bytes(), value.as_bytes()))
    .collect()
}

/// A header block as HEADERS and as many CONTINUATION frames as needed.
pub(in crate::siege) fn headers(stream: u32, block: &[u8], ends: bool) -> Vec<u8> {
    let flags = if ends { END_STREAM } else { 0 };
    if block.len() <= PAYLOAD_MAX {
        return frame(HEADERS, flags | END_HEADERS, stream, block);
    }
    let (first, rest) = block.split_at(PAYLOAD_MAX);
    let mut bytes = frame(HEADERS, flags, stream, first);
    let mut pieces = rest.chunks(PAYLOAD_MAX).peekable();
    while let Some(piece) = pieces.next() {
        let last = if pieces.peek().is_none() {
            END_HEADERS
        } else {
            0
        };
        bytes.extend(frame(CONTINUATION, last, stream, piece));
    }
    bytes
}

/// A complete GET.
pub(in crate::siege) fn get(stream: u32, path: &str) -> Vec<u8> {
    headers(stream, &request("GET", path), true)
}

/// The `index`th stream of a client.
pub(in crate::siege) const fn stream(index: u32) -> u32 {
    2 * index + 1
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Examples of RFC 7541 §C.1 and §C.2.1.
    #[test]
    fn examples_from_rfc_7541() {
        assert_eq!(integer(0, 5, 10), [0b0_1010]);
        assert_eq!(integer(0, 5, 1337), [0b1_1111, 0b1001_1010, 0b0000_1010]);
        let field = indexed_field(b"custom-key", b"custom-header");
        assert_eq!(field, b"\x40\x0acustom-key\x0dcustom-header");
    }

    #[test]
    fn a_long_block_is_continued_and_ends_once() {
        let bytes = headers(3, &vec![7; PAYLOAD_MAX * 2 + 1], true);
        assert_eq!(bytes.len(), PAYLOAD_MAX * 2 + 1 + 3 * 9);
        assert_eq!(bytes[3..5], [HEADERS, END_STREAM]);
        let last = bytes.len() - 10;
        assert_eq!(bytes[last + 3..last + 5], [CONTINUATION, END_HEADERS]);
    }
}
