//! Bytes of messages, and readers that detect whether a message is complete.

use super::frames;
use super::table::Form;
use tokio::io::{AsyncRead, AsyncReadExt};

/// A request's head, and the beginning of its body.
pub(super) fn request(form: Form, before: &str) -> Vec<u8> {
    let head = |framing: &str| format!("POST /up HTTP/1.1\r\nhost: x\r\n{framing}\r\n\r\n");
    let mut fields = frames::request("POST", "/up");
    match form {
        Form::Length => (head("content-length: 8") + before).into_bytes(),
        Form::Chunked => (head("transfer-encoding: chunked") + &chunk(before)).into_bytes(),
        Form::UntilClose => unreachable!("a request does not end so"),
        Form::Http2Length | Form::Http2 => {
            if form == Form::Http2Length {
                fields.push(("content-length", "8"));
            }
            [frames::preface(), http2(1, &fields, before)].concat()
        }
    }
}

/// A response's head, and the beginning of its body, on this stream.
pub(super) fn response(form: Form, stream: u32, before: &str) -> Vec<u8> {
    let head = |framing: &str| format!("HTTP/1.1 200 OK\r\n{framing}\r\n");
    let length = ("content-length", "8");
    match form {
        Form::Length => (head("content-length: 8\r\n") + before).into_bytes(),
        Form::Chunked => (head("transfer-encoding: chunked\r\n") + &chunk(before)).into_bytes(),
        Form::UntilClose => (head("") + before).into_bytes(),
        Form::Http2Length => http2(stream, &[(":status", "200"), length], before),
        Form::Http2 => http2(stream, &[(":status", "200")], before),
    }
}

fn chunk(text: &str) -> String {
    format!("{:x}\r\n{text}\r\n", text.len())
}

fn http2(stream: u32, fields: &[(&str, &str)], before: &str) -> Vec<u8> {
    let body = frames::frame(frames::DATA, 0, stream, before.as_bytes());
    [frames::open(stream, fields), body].concat()
}

/// The progress of a message over HTTP/1.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Progress {
    Unfinished,
    Whole,
    /// All bytes before the end of the connection belong to it.
    UntilClose,
}

/// Returns the body that a message over HTTP/1 has so far, and whether it is complete; `None` until
/// its head is.
pub(super) fn http1(octets: &[u8]) -> Option<(Vec<u8>, Progress)> {
    let end = find(octets, b"\r\n\r\n")? + 4;
    let head = String::from_utf8_lossy(&octets[..end]).to_ascii_lowercase();
    let rest = &octets[end..];
    if head.contains("transfer-encoding: chunked") {
        return Some(chunks(rest));
    }
    let length = head
        .lines()
        .find_map(|line| line.strip_prefix("content-length: "));
    let progress = match length.map(|length| length.parse().unwrap()) {
        Some(length) if rest.len() >= length => Progress::Whole,
        Some(_) => Progress::Unfinished,
        None => Progress::UntilClose,
    };
    Some((rest.to_vec(), progress))
}

fn chunks(mut rest: &[u8]) -> (Vec<u8>, Progress) {
    let mut body = Vec::new();
    loop {
        let Some(line) = find(rest, b"\r\n") else {
            return (body, Progress::Unfinished);
        };
        let size = core::str::from_utf8(&rest[..line]).unwrap();
        let size = usize::from_str_radix(size, 16).unwrap();
        rest = &rest[line + 2..];
        if size == 0 {
            let is_whole = rest.starts_with(b"\r\n") || find(rest, b"\r\n\r\n").is_some();
            let progress = if is_whole {
                Progress::Whole
            } else {
                Progress::Unfinished
            };
            return (body, progress);
        }
        body.extend_from_slice(&rest[..size.min(rest.len())]);
        let Some(next) = rest.get(size + 2..) else {
            return (body, Progress::Unfinished);
        };
        rest = next;
    }
}

fn find(octets: &[u8], what: &[u8]) -> Option<usize> {
    octets.windows(what.len()).position(|window| window == what)
}

/// A frame as received.
#[derive(Debug)]
pub(super) struct Frame {
    pub(super) kind: u8,
    pub(super) flags: u8,
    pub(super) stream: u32,
    pub(super) payload: Vec<u8>,
}

impl Frame {
    /// Reads the next frame; `None` at the end of the connection.
    pub(super) async fn read(stream: &mut (impl AsyncRead + Unpin)) -> Option<Self> {
        let mut head = [0; 9];
        stream.read_exact(&mut head).await.ok()?;
        let length = u32::from_be_bytes([0, head[0], head[1], head[2]]);
        let mut payload = vec![0; length as usize];
        stream.read_exact(&mut payload).await.ok()?;
        Some(Self {
            kind: head[3],
            flags: head[4],
            stream: u32::from_be_bytes([head[5], head[6], head[7], head[8]]),
            payload,
        })
    }

    /// Returns whether the frame ends a message.
    pub(super) const fn is_end(&self) -> bool {
        matches!(self.kind, frames::DATA | frames::HEADERS) && self.flags & frames::END_STREAM != 0
    }

    /// Returns the error code as text if the frame resets a stream.
    pub(super) fn resets(&self) -> Option<String> {
        (self.kind == frames::RST_STREAM).then(|| {
            let code: [u8; 4] = self.payload[..].try_into().unwrap();
            format!("RST_STREAM {}", frames::code_name(u32::from_be_bytes(code)))
        })
    }
}

#[test]
fn readers_distinguish_partial_from_complete_messages() {
    use Progress::{Unfinished, UntilClose, Whole};
    let head = "HTTP/1.1 200 OK\r\n";
    let chunked = "HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n";
    for (start, rest, body, progress) in [
        (head, "content-length: 3\r\n\r\nab", "ab", Unfinished),
        (head, "content-length: 3\r\n\r\nabc", "abc", Whole),
        (head, "\r\nab", "ab", UntilClose),
        (chunked, "2\r\na", "a", Unfinished),
        (chunked, "2\r\nab\r\n", "ab", Unfinished),
        (chunked, "2\r\nab\r\n0\r\n", "ab", Unfinished),
        (chunked, "2\r\nab\r\n0\r\nx: 1\r\n", "ab", Unfinished),
        (chunked, "2\r\nab\r\n0\r\n\r\n", "ab", Whole),
        (chunked, "2\r\nab\r\n0\r\nx: 1\r\n\r\n", "ab", Whole),
    ] {
        let read = http1(format!("{start}{rest}").as_bytes());
        assert_eq!(read, Some((body.as_bytes().to_vec(), progress)), "{rest:?}");
    }
    assert_eq!(http1(head.as_bytes()), None);
}
