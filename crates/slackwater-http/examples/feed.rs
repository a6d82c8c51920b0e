//! Feeds bytes to both codecs, and prints the messages that they return.
//!
//! ```text
//! cargo run -p slackwater-http --example feed
//!
//! HTTP/1.1: POST /upload, with a body: Chunked
//! HTTP/1.1: "abc"
//! HTTP/1.1: the end
//! HTTP/2: GET http://a/hello
//! HTTP/2: 204 No Content
//! ```

#![expect(clippy::print_stdout, reason = "an example is to be seen")]

use bytes::{Bytes, BytesMut};
use core::error::Error;
use core::task::{Context, Poll, Waker};
use http::{Method, StatusCode, Uri};
use slackwater_http::Fields;
use slackwater_http::http1::{self, BodyDecoder, Decoded, HeadSearch, SoFar, parse_request};
use slackwater_http::http2::{self, Config, Connection, Role};
use std::io::IoSlice;

const UPLOAD: &[u8] = b"POST /upload HTTP/1.1\r\nhost: a\r\ntransfer-encoding: chunked\r\n\r\n\
    3\r\nabc\r\n0\r\n\r\n";

fn main() -> Result<(), Box<dyn Error>> {
    for line in upload([UPLOAD])?.into_iter().chain(exchange()?) {
        println!("{line}");
    }
    Ok(())
}

/// HTTP/1.1: a request with its body, in any number of pieces.
fn upload<'a>(
    pieces: impl IntoIterator<Item = &'a [u8]>,
) -> Result<Vec<String>, http1::BadMessage> {
    let limits = http1::HeadLimits {
        bytes_max: 8 << 10,
        fields_max: 100,
    };
    let mut said = Vec::new();
    let (mut unread, mut search, mut body) = (BytesMut::new(), HeadSearch::default(), None);
    for piece in pieces {
        unread.extend_from_slice(piece);
        let mut octets = unread.split().freeze();
        if body.is_none() {
            match search.look(&mut octets, limits) {
                SoFar::Whole(end) => {
                    let head = parse_request(&octets.split_to(end), limits, Fields::new())?;
                    said.push(format!(
                        "HTTP/1.1: {} {}, with a body: {:?}",
                        head.method, head.target, head.body
                    ));
                    body = Some(BodyDecoder::new(head.body, limits));
                }
                SoFar::Unfinished => (),
                SoFar::Bad(bad) => return Err(bad),
            }
        }
        while let Some(decoder) = &mut body {
            match decoder.decode(&mut octets)? {
                Decoded::Starved => break,
                Decoded::Data(data) => {
                    said.push(format!("HTTP/1.1: {:?}", String::from_utf8_lossy(&data)));
                }
                Decoded::Trailers(fields) => said.push(format!("HTTP/1.1: {fields:?}")),
                Decoded::End => {
                    said.push("HTTP/1.1: the end".to_owned());
                    // The next request starts here.
                    (search, body) = (HeadSearch::default(), None);
                }
            }
        }
        unread.extend_from_slice(&octets);
    }
    Ok(said)
}

/// HTTP/2: a client and a server, both of them values, and the octets between them.
fn exchange() -> Result<Vec<String>, Box<dyn Error>> {
    let mut client = connection(Role::Client);
    let mut server = connection(Role::Server);
    let mut said = Vec::new();
    carry(&mut server, &mut client);
    let uri = Uri::from_static("http://a/hello");
    let key = client.begin(&Method::GET, &uri, &Fields::new(), true);
    carry(&mut client, &mut server);
    while let Some((stream, head)) = server.next_request() {
        said.push(format!("HTTP/2: {} {}", head.method, head.uri));
        server.respond(stream, StatusCode::NO_CONTENT, &Fields::new(), true)?;
        server.leave_reading(stream);
        server.leave_writing(stream);
    }
    carry(&mut server, &mut client);
    let cx = Context::from_waker(Waker::noop());
    if let Poll::Ready(head) = client.poll_response(key, &cx) {
        said.push(format!("HTTP/2: {}", head?.status));
    }
    Ok(said)
}

fn connection(role: Role) -> Connection {
    Connection::new(Config {
        role,
        streams_max: 100,
        stream_window: 64 << 10,
        connection_window: 1 << 20,
        is_secure: false,
        head: http2::HeadLimits {
            bytes_max: 8 << 10,
            fields_max: 100,
        },
        stock: http2::Stock::default(),
    })
}

/// Passes the output of one side to the other side.
fn carry(from: &mut Connection, to: &mut Connection) {
    while !from.out().is_empty() {
        let mut parts = [IoSlice::new(&[]); 8];
        let count = from.out().slices(&mut parts);
        let octets = parts[..count]
            .iter()
            .flat_map(|part| part.to_vec())
            .collect::<Vec<_>>();
        from.written(octets.len());
        let mut rest = Bytes::from(octets);
        while !rest.is_empty() {
            rest = to.receive(rest);
        }
    }
}

#[test]
fn example_decodes_input_split_at_any_byte() {
    let said = [
        "HTTP/1.1: POST /upload, with a body: Chunked",
        "HTTP/1.1: \"abc\"",
        "HTTP/1.1: the end",
    ];
    assert_eq!(upload([UPLOAD]).expect("a request"), said);
    for cut in 0..UPLOAD.len() {
        let heard = upload([&UPLOAD[..cut], &UPLOAD[cut..]]).expect("a request");
        let (first, last) = (heard.first(), heard.last());
        assert_eq!(
            (first.map(String::as_str), last.map(String::as_str)),
            (Some(said[0]), Some(said[2])),
            "{cut}"
        );
    }
    let said = ["HTTP/2: GET http://a/hello", "HTTP/2: 204 No Content"];
    assert_eq!(exchange().expect("a response"), said);
}
