//! HTTP/2 by hand: frames that no library would send, and enough of a reader to understand the
//! answer.

use tokio::io::AsyncReadExt;
use tokio::net::tcp::OwnedReadHalf;

pub(crate) const DATA: u8 = 0;
pub(crate) const HEADERS: u8 = 1;
pub(crate) const PRIORITY: u8 = 2;
pub(crate) const RST_STREAM: u8 = 3;
pub(crate) const SETTINGS: u8 = 4;
pub(crate) const PING: u8 = 6;
pub(crate) const GOAWAY: u8 = 7;
pub(crate) const WINDOW_UPDATE: u8 = 8;
pub(crate) const CONTINUATION: u8 = 9;

pub(crate) const END_STREAM: u8 = 1;
pub(crate) const END_HEADERS: u8 = 4;
pub(crate) const PADDED: u8 = 8;

/// The first bytes of a client.
pub(crate) fn preface() -> Vec<u8> {
    let mut bytes = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n".to_vec();
    bytes.extend(frame(SETTINGS, 0, 0, &[]));
    bytes
}

pub(crate) fn frame(kind: u8, flags: u8, stream: u32, payload: &[u8]) -> Vec<u8> {
    let length = u32::try_from(payload.len()).unwrap().to_be_bytes();
    length[1..]
        .iter()
        .copied()
        .chain([kind, flags])
        .chain(stream.to_be_bytes())
        .chain(payload.iter().copied())
        .collect()
}

/// A field in HPACK's plainest form: no table, no Huffman code.
pub(crate) fn field(name: &str, value: &[u8]) -> Vec<u8> {
    let mut bytes = vec![0];
    for text in [name.as_bytes(), value] {
        bytes.extend(length(text.len()));
        bytes.extend(text);
    }
    bytes
}

/// A length of seven bits and more. RFC 7541 §5.1
fn length(mut length: usize) -> Vec<u8> {
    if length < 127 {
        return vec![u8::try_from(length).unwrap()];
    }
    let mut bytes = vec![127];
    length -= 127;
    while length >= 128 {
        bytes.push(u8::try_from(length % 128).unwrap() | 128);
        length /= 128;
    }
    bytes.push(u8::try_from(length).unwrap());
    bytes
}

pub(crate) fn block(fields: &[(&str, &str)]) -> Vec<u8> {
    let encoded = fields.iter();
    encoded
        .flat_map(|(name, value)| field(name, value.as_bytes()))
        .collect()
}

/// The fields of a well-formed request.
pub(crate) fn request<'a>(method: &'a str, path: &'a str) -> Vec<(&'a str, &'a str)> {
    vec![
        (":method", method),
        (":scheme", "http"),
        (":authority", "x"),
        (":path", path),
    ]
}

pub(crate) fn headers(stream: u32, fields: &[(&str, &str)]) -> Vec<u8> {
    frame(HEADERS, END_HEADERS | END_STREAM, stream, &block(fields))
}

/// The head of a request whose body follows.
pub(crate) fn open(stream: u32, fields: &[(&str, &str)]) -> Vec<u8> {
    frame(HEADERS, END_HEADERS, stream, &block(fields))
}

pub(crate) fn get(stream: u32, path: &str) -> Vec<u8> {
    headers(stream, &request("GET", path))
}

pub(crate) fn reset(stream: u32) -> Vec<u8> {
    frame(RST_STREAM, 0, stream, &8_u32.to_be_bytes())
}

pub(crate) fn setting(id: u16, value: u32) -> Vec<u8> {
    let payload: Vec<u8> = id
        .to_be_bytes()
        .into_iter()
        .chain(value.to_be_bytes())
        .collect();
    frame(SETTINGS, 0, 0, &payload)
}

pub(crate) fn window_update(stream: u32, bytes: u32) -> Vec<u8> {
    frame(WINDOW_UPDATE, 0, stream, &bytes.to_be_bytes())
}

/// The `count` first stream ids of a client.
pub(crate) fn streams(count: u32) -> impl Iterator<Item = u32> {
    (0..count).map(|index| 2 * index + 1)
}

/// What a proxy may send, as far as it appears in the table.
#[derive(Debug)]
pub(crate) enum Heard {
    Status(u32, u16),
    Reset(u32),
    GoAway(u32),
}

/// Reads frames.
pub(crate) struct Reader {
    read: OwnedReadHalf,
}

impl Reader {
    pub(crate) const fn new(read: OwnedReadHalf) -> Self {
        Self { read }
    }

    /// Reads the next frame: its kind, its stream and its payload; `None` at the end of the
    /// connection.
    pub(crate) async fn frame(&mut self) -> Option<(u8, u32, Vec<u8>)> {
        let mut head = [0; 9];
        self.read.read_exact(&mut head).await.ok()?;
        let length = u32::from_be_bytes([0, head[0], head[1], head[2]]);
        let stream = u32::from_be_bytes([head[5], head[6], head[7], head[8]]);
        let mut payload = vec![0; length as usize];
        self.read.read_exact(&mut payload).await.ok()?;
        Some((head[3], stream, payload))
    }

    /// Waits for the answer to a PING; `None` at the end of the connection.
    pub(crate) async fn next_ping(&mut self) -> Option<()> {
        while self.frame().await?.0 != PING {}
        Some(())
    }

    /// Reads the next event; `None` at the end of the connection.
    pub(crate) async fn next(&mut self) -> Option<Heard> {
        loop {
            let (kind, stream, payload) = self.frame().await?;
            let number = |at: usize| {
                let bytes = payload.get(at..at + 4).unwrap();
                u32::from_be_bytes(bytes.try_into().unwrap())
            };
            match kind {
                HEADERS if !payload.is_empty() => {
                    return Some(Heard::Status(stream, status(&payload)));
                }
                RST_STREAM => return Some(Heard::Reset(number(0))),
                GOAWAY => return Some(Heard::GoAway(number(4))),
                _ => (),
            }
        }
    }
}

/// The status at the beginning of a block; 0 in trailers, and if an earlier block has put it into
/// the table. RFC 7541, appendices A and B.
fn status(block: &[u8]) -> u16 {
    const INDEXED: [u16; 7] = [200, 204, 206, 304, 400, 404, 500];
    // An update of the table's size may come first.
    let block = match block {
        [update, rest @ ..] if update & 0b1110_0000 == 0b0010_0000 => rest,
        block => block,
    };
    match *block {
        [index @ 0x88..=0x8e, ..] => INDEXED[usize::from(index - 0x88)],
        // A name from the table (8 is `:status`), and a value in Huffman's code or plain.
        [0x08 | 0x18 | 0x48, length, ref value @ ..] if length & 128 != 0 => digits(value),
        [0x08 | 0x18 | 0x48, 3, hundreds, tens, ones, ..] => {
            let digit = |byte: u8| u16::from(byte - b'0');
            digit(hundreds) * 100 + digit(tens) * 10 + digit(ones)
        }
        _ => 0,
    }
}

/// Three digits in HPACK's Huffman code: 0 to 2 have five bits, 3 to 9 have six.
fn digits(code: &[u8]) -> u16 {
    let mut bits = code
        .iter()
        .flat_map(|byte| (0..8).rev().map(move |bit| u16::from(byte >> bit & 1)));
    let mut number = 0;
    for _ in 0..3 {
        let mut digit = 0;
        for _ in 0..5 {
            digit = digit * 2 + bits.next().unwrap();
        }
        if digit > 2 {
            digit = digit * 2 + bits.next().unwrap() - 22;
        }
        number = number * 10 + digit;
    }
    number
}

pub(crate) fn code_name(code: u32) -> &'static str {
    const NAMES: [&str; 14] = [
        "NO_ERROR",
        "PROTOCOL_ERROR",
        "INTERNAL_ERROR",
        "FLOW_CONTROL_ERROR",
        "SETTINGS_TIMEOUT",
        "STREAM_CLOSED",
        "FRAME_SIZE_ERROR",
        "REFUSED_STREAM",
        "CANCEL",
        "COMPRESSION_ERROR",
        "CONNECT_ERROR",
        "ENHANCE_YOUR_CALM",
        "INADEQUATE_SECURITY",
        "HTTP_1_1_REQUIRED",
    ];
    NAMES[code as usize]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn statuses_are_read_in_each_of_their_forms() {
        for (block, expected) in [
            (&[0x88][..], 200),
            (&[0x8c], 400),
            (&[0x3f, 0xe1, 0x1f, 0x88], 0),
            (&[0x20, 0x8e], 500),
            (b"\x48\x03431", 431),
            // 4: 011010, 3: 011001, 1: 00001
            (&[0x48, 0x83, 0b0110_1001, 0b1001_0000, 0b1111_1111], 431),
            // 5: 011011, 0: 00000, 2: 00010
            (&[0x08, 0x82, 0b0110_1100, 0b0000_0010], 502),
        ] {
            assert_eq!(status(block), expected, "{block:?}");
        }
    }

    #[test]
    fn long_lengths_are_encoded_as_in_hpack() {
        assert_eq!(length(126), [126]);
        assert_eq!(length(127), [127, 0]);
        assert_eq!(length(127 + 1337), [127, 0b1011_1001, 0b0000_1010]);
    }
}
