//! Requests and answers of a client, over HTTP/1.1 and HTTP/2, in the terms of the table.

use crate::frames::{self, Heard};
use crate::proxy::PATIENCE;
use core::net::SocketAddr;
use core::time::Duration;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::net::tcp::{OwnedReadHalf, OwnedWriteHalf};
use tokio::time::timeout;

/// Pause between two bytes of a slow client. It is well below each timeout of the proxy, so that
/// only the sum is too long.
pub(crate) const DRIP: Duration = Duration::from_millis(50);

/// Writes in the background, so that an early answer is read and a failed write ends nothing.
pub(crate) fn write_all(
    mut write: OwnedWriteHalf,
    bytes: Vec<u8>,
) -> tokio::task::JoinHandle<OwnedWriteHalf> {
    tokio::spawn(async move {
        let _ = write.write_all(&bytes).await;
        write
    })
}

/// Writes byte by byte until that fails.
pub(crate) fn drip(mut write: OwnedWriteHalf, bytes: Vec<u8>) -> tokio::task::JoinHandle<()> {
    tokio::spawn(async move {
        for byte in bytes {
            if write.write_all(&[byte]).await.is_err() {
                return;
            }
            tokio::time::sleep(DRIP).await;
        }
        // Dropping the writer would end the request.
        core::future::pending::<()>().await;
    })
}

pub(crate) async fn connect(address: SocketAddr) -> (OwnedReadHalf, OwnedWriteHalf) {
    TcpStream::connect(address).await.unwrap().into_split()
}

/// Sends bytes at once and reads to the end of the connection.
pub(crate) async fn http1(address: SocketAddr, bytes: Vec<u8>) -> String {
    let (read, write) = connect(address).await;
    let _writing = write_all(write, bytes);
    statuses(read).await
}

/// Sends bytes one by one and reads to the end of the connection.
pub(crate) async fn http1_slowly(address: SocketAddr, start: &[u8], rest: Vec<u8>) -> String {
    let (read, mut write) = connect(address).await;
    write.write_all(start).await.unwrap();
    let dripping = drip(write, rest);
    let heard = statuses(read).await;
    dripping.abort();
    heard
}

/// Reads the statuses on a connection until it ends, and adds that it ended.
async fn statuses(mut read: OwnedReadHalf) -> String {
    let mut bytes = Vec::new();
    let reading = timeout(PATIENCE, read.read_to_end(&mut bytes));
    let _ = reading.await.expect("the connection stays open");
    let text = String::from_utf8_lossy(&bytes);
    let mut heard: Vec<String> = text
        .split("HTTP/1.1 ")
        .skip(1)
        .map(|answer| answer[..3].to_owned())
        .collect();
    heard.push("closed".to_owned());
    heard.join(", ")
}

/// The stream of the good request that follows the frames.
const LAST_STREAM: u32 = 0x000f_ffff;

/// Sends frames and then a good request. Returns what happened until it was answered or the
/// connection ended.
pub(crate) async fn http2(address: SocketAddr, frames: Vec<u8>) -> String {
    let (read, write) = connect(address).await;
    let mut bytes = frames::preface();
    bytes.extend(frames);
    bytes.extend(frames::get(LAST_STREAM, "/last"));
    let _writing = write_all(write, bytes);
    until_last(read).await
}

/// Like [`http2`], without the preface.
pub(crate) async fn raw_http2(address: SocketAddr, bytes: Vec<u8>) -> String {
    let (read, write) = connect(address).await;
    let _writing = write_all(write, bytes);
    until_last(read).await
}

async fn until_last(read: OwnedReadHalf) -> String {
    let mut reader = frames::Reader::new(read);
    let mut said = Vec::new();
    loop {
        let heard = timeout(PATIENCE, reader.next())
            .await
            .expect("nothing is said and nothing ends");
        match heard {
            Some(Heard::Status(LAST_STREAM, status)) => {
                if status != 200 {
                    said.push(format!("the next request: {status}"));
                } else if said.is_empty() {
                    said.push("nothing".to_owned());
                }
                return said.join(", ");
            }
            // Trailers, or a status of an earlier response.
            Some(Heard::Status(_, 0)) => (),
            Some(Heard::Status(_, status)) => say(&mut said, status.to_string()),
            Some(Heard::Reset(code)) => {
                say(&mut said, format!("reset ({})", frames::code_name(code)));
            }
            Some(Heard::GoAway(code)) => {
                if code != 0 {
                    say(&mut said, format!("GOAWAY ({})", frames::code_name(code)));
                }
            }
            None => {
                said.push("closed".to_owned());
                return said.join(", ");
            }
        }
    }
}

/// Adds a word, once however often it occurs.
fn say(said: &mut Vec<String>, word: String) {
    if !said.contains(&word) {
        said.push(word);
    }
}
