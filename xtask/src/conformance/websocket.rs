//! The replica's end of a WebSocket: it echoes short messages. RFC 6455

use super::replica::Request;
use std::io::{self, Read, Write};
use tokio_tungstenite::tungstenite::handshake::derive_accept_key;

/// The first byte of a whole text frame: text, and final.
const TEXT: u8 = 0x81;
const CLOSE: u8 = 0x88;
/// Longer messages have their length in further bytes.
const LENGTH_MAX: u8 = 125;

/// Answers the request, then each message, until the client closes.
pub(super) fn echo(
    request: &Request,
    read: &mut impl Read,
    write: &mut impl Write,
) -> io::Result<()> {
    let key = request.field("sec-websocket-key").unwrap_or_default();
    let accept = derive_accept_key(key.as_bytes());
    let head = format!(
        "HTTP/1.1 101 Switching Protocols\r\nconnection: upgrade\r\nupgrade: websocket\r\n\
         sec-websocket-accept: {accept}\r\n\r\n"
    );
    write.write_all(head.as_bytes())?;
    loop {
        // Kind, length with the mask bit, mask.
        let mut start = [0; 6];
        read.read_exact(&mut start)?;
        let [kind, length, mask @ ..] = start;
        let length = length & 0x7f;
        if !matches!(kind, TEXT | CLOSE) || length > LENGTH_MAX {
            return Err(io::ErrorKind::InvalidData.into());
        }
        let mut payload = vec![0; usize::from(length)];
        read.read_exact(&mut payload)?;
        for (byte, mask) in payload.iter_mut().zip(mask.into_iter().cycle()) {
            *byte ^= mask;
        }
        write.write_all(&[&[kind, length], &payload[..]].concat())?;
        if kind == CLOSE {
            return Ok(());
        }
    }
}
