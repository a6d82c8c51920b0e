//! One GET on a connection of its own, so that polling costs a millisecond and no process. Only for
//! our own endpoints: probes, and the admin server. Tests of HTTP itself use curl.

use core::net::SocketAddr;
use core::time::Duration;
use serde_json::Value;
use std::io::{Read, Write};
use std::net::TcpStream;

const LIMIT: Duration = Duration::from_secs(2);

/// An answer.
#[derive(Debug)]
pub(crate) struct Answer {
    pub(crate) status: u16,
    head: String,
    pub(crate) body: String,
}

impl Answer {
    /// The value of a header.
    pub(crate) fn header(&self, name: &str) -> Option<&str> {
        self.head.lines().skip(1).find_map(|line| {
            let (found, value) = line.split_once(':')?;
            found.eq_ignore_ascii_case(name).then(|| value.trim())
        })
    }
}

/// Sends GET for `path`.
pub(crate) fn get(address: SocketAddr, path: &str) -> Result<Answer, String> {
    let wrong = |why: &dyn core::fmt::Display| format!("GET {address}{path}: {why}");
    let answer = exchange(address, path).map_err(|error| wrong(&error))?;
    let text = String::from_utf8_lossy(&answer);
    let (head, body) = (text.split_once("\r\n\r\n"))
        .ok_or_else(|| wrong(&format!("an answer without an end of its head: {text:?}")))?;
    let status = head.split(' ').nth(1).and_then(|code| code.parse().ok());
    Ok(Answer {
        status: status.ok_or_else(|| wrong(&"an answer without a status"))?,
        head: head.to_owned(),
        body: body.to_owned(),
    })
}

/// Sends GET for `path`, and parses the answer as JSON.
pub(crate) fn get_json(address: SocketAddr, path: &str) -> Result<Value, String> {
    let answer = get(address, path)?;
    serde_json::from_str(&answer.body).map_err(|error| format!("GET {address}{path}: {error}"))
}

/// Sends POST with JSON, and parses the answer as JSON.
pub(crate) fn post_json(address: SocketAddr, path: &str, body: &Value) -> Result<Value, String> {
    let wrong = |why: &dyn core::fmt::Display| format!("POST {address}{path}: {why}");
    let body = body.to_string();
    let request = format!(
        "POST {path} HTTP/1.0\r\nhost: {address}\r\ncontent-type: application/json\r\ncontent-length: {}\r\n\r\n{body}",
        body.len()
    );
    let answer = send(address, &request).map_err(|error| wrong(&error))?;
    let text = String::from_utf8_lossy(&answer);
    let (_, body) = (text.split_once("\r\n\r\n"))
        .ok_or_else(|| wrong(&format!("an answer without an end of its head: {text:?}")))?;
    serde_json::from_str(body).map_err(|error| wrong(&format!("{error}: {body}")))
}

fn exchange(address: SocketAddr, path: &str) -> std::io::Result<Vec<u8>> {
    let request = format!("GET {path} HTTP/1.1\r\nhost: {address}\r\nconnection: close\r\n\r\n");
    send(address, &request)
}

fn send(address: SocketAddr, request: &str) -> std::io::Result<Vec<u8>> {
    let mut stream = TcpStream::connect_timeout(&address, LIMIT)?;
    stream.set_read_timeout(Some(LIMIT))?;
    stream.set_write_timeout(Some(LIMIT))?;
    stream.write_all(request.as_bytes())?;
    let mut answer = Vec::new();
    stream.read_to_end(&mut answer)?;
    Ok(answer)
}

/// Returns whether nothing listens there.
pub(crate) fn is_refused(address: SocketAddr) -> bool {
    TcpStream::connect_timeout(&address, LIMIT)
        .is_err_and(|error| error.kind() == std::io::ErrorKind::ConnectionRefused)
}
