//! Truncated messages: a message that was cut off must never reach the other side as a complete
//! one.
//!
//! The table ([`table`]) has all ways in which the body of a request or a response can end, by how
//! the sender marks its end. Each row is played in both directions and between all protocols
//! (`play`). Cases that do not fit into a table (tunnels, second copies, timeouts, Node) have a
//! test each in [`apart`] and [`node`]. All of it is also `docs/research/endings.md`, which a test
//! keeps in step (`BLESS=1` rewrites it).

mod apart;
mod node;
mod page;
mod peers;
mod table;
mod wire;

use crate::frames;
use crate::proxy::Proxy;
use peers::{Reader, Replica};
use table::Form;

/// Plays all rows of these forms as requests, to replicas of one protocol.
async fn upload(forms: &[Form], protocol: &str, reader: Reader) {
    let mut failed = Vec::new();
    let replica = Replica::reads(reader).await;
    let settings = format!("[replica]\nprotocol = \"{protocol}\"");
    let proxy = Proxy::start(&[replica.address], &settings);
    for row in table::rows().iter().filter(|row| forms.contains(&row.form)) {
        let seen = replica.sees(row, proxy.address).await;
        row.check(reader, "RST_STREAM CANCEL", &seen, &mut failed);
    }
    assert!(failed.is_empty(), "\n{}\n", failed.join("\n"));
    proxy.settled().await;
}

/// Plays all rows of these forms as responses of a replica, to clients of each protocol.
async fn download(forms: &[Form], protocol: &str) {
    let mut failed = Vec::new();
    let replica = Replica::writes().await;
    let settings = format!("[replica]\nprotocol = \"{protocol}\"");
    let proxy = Proxy::start(&[replica.address], &settings);
    for row in table::rows().iter().filter(|row| forms.contains(&row.form)) {
        for reader in [Reader::Http11, Reader::Http10, Reader::Http2] {
            let seen = replica.shows(row, proxy.address, reader).await;
            row.check(reader, "RST_STREAM INTERNAL_ERROR", &seen, &mut failed);
        }
    }
    assert!(failed.is_empty(), "\n{}\n", failed.join("\n"));
    proxy.settled().await;
}

const HTTP1_REQUESTS: [Form; 2] = [Form::Length, Form::Chunked];
const HTTP1_RESPONSES: [Form; 3] = [Form::Length, Form::Chunked, Form::UntilClose];
const HTTP2: [Form; 2] = [Form::Http2Length, Form::Http2];

#[tokio::test]
async fn requests_http1_to_http1_end_as_in_the_table() {
    upload(&HTTP1_REQUESTS, "http1", Reader::Http11).await;
}

#[tokio::test]
async fn requests_http1_to_http2_end_as_in_the_table() {
    upload(&HTTP1_REQUESTS, "h2c", Reader::Http2).await;
}

#[tokio::test]
async fn requests_http2_to_http1_end_as_in_the_table() {
    upload(&HTTP2, "http1", Reader::Http11).await;
}

#[tokio::test]
async fn requests_http2_to_http2_end_as_in_the_table() {
    upload(&HTTP2, "h2c", Reader::Http2).await;
}

#[tokio::test]
async fn responses_of_http1_replicas_end_as_in_the_table() {
    download(&HTTP1_RESPONSES, "http1").await;
}

#[tokio::test]
async fn responses_of_http2_replicas_end_as_in_the_table() {
    download(&HTTP2, "h2c").await;
}
