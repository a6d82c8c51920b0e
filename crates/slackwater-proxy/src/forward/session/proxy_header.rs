//! Reads the PROXY protocol header from a connection, and leaves the data after it in the socket.

use slackwater_http::proxy_protocol::{Header, Malformed, Parsed, parse};
use std::io;
use tokio::io::AsyncReadExt;
use tokio::net::TcpStream;

/// Bytes to peek at once; most headers are shorter.
const LOOK_BYTES: usize = 256;

/// Reads the header at the start of a connection. The caller limits the time.
///
/// # Errors
///
/// Fails if the connection ended or broke first, or if the data is not a header
/// ([`io::ErrorKind::InvalidData`]).
pub(crate) async fn read(stream: &mut TcpStream) -> io::Result<Header> {
    let mut bytes: Vec<u8> = Vec::new();
    loop {
        let mut look = [0; LOOK_BYTES];
        let seen = stream.peek(&mut look).await?;
        if seen == 0 {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
        let known = bytes.len();
        bytes.extend_from_slice(&look[..seen]);
        let parsed = parse(&bytes).map_err(invalid)?;
        // The peeked data belongs to the header, entirely or up to the header's end; only that much
        // is consumed.
        let (taken, header) = match parsed {
            Parsed::Unfinished => (seen, None),
            Parsed::Header(header, length) => (length - known, Some(header)),
        };
        stream.read_exact(&mut look[..taken]).await?;
        if let Some(header) = header {
            return Ok(header);
        }
    }
}

fn invalid(malformed: Malformed) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, malformed)
}

#[cfg(test)]
mod tests {
    use super::*;
    use tokio::io::AsyncWriteExt;
    use tokio::net::TcpListener;

    async fn pair() -> (TcpStream, TcpStream) {
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
        let address = listener.local_addr().expect("bound");
        let (client, accepted) = tokio::join!(TcpStream::connect(address), listener.accept());
        (client.expect("connected"), accepted.expect("accepted").0)
    }

    #[tokio::test]
    async fn data_after_the_header_stays_in_the_socket() {
        for header in [
            "PROXY TCP4 192.0.2.7 198.51.100.1 50000 443\r\n".to_owned(),
            "PROXY UNKNOWN\r\n".to_owned(),
        ] {
            let (mut client, mut server) = pair().await;
            let sent = format!("{header}GET / HTTP/1.1\r\n\r\n");
            client.write_all(sent.as_bytes()).await.expect("sent");
            drop(client);
            let found = read(&mut server).await.expect("a header");
            assert_eq!(found.addresses.is_some(), header.contains("TCP4"));
            let mut rest = String::new();
            server.read_to_string(&mut rest).await.expect("read");
            assert_eq!(rest, "GET / HTTP/1.1\r\n\r\n");
        }
    }

    #[tokio::test]
    async fn a_long_header_in_pieces_is_one_header() {
        let (mut client, mut server) = pair().await;
        let value = [7; 5000];
        let mut bytes = b"\r\n\r\n\0\r\nQUIT\n\x21\x00".to_vec();
        bytes.extend(5003_u16.to_be_bytes());
        bytes.extend([5, 0x13, 0x88]);
        bytes.extend(value);
        bytes.extend(b"rest");
        let sending = async {
            for piece in bytes.chunks(7) {
                client.write_all(piece).await.expect("sent");
                tokio::task::yield_now().await;
            }
            drop(client);
        };
        let reading = async {
            let found = read(&mut server).await.expect("a header");
            assert_eq!(found.addresses, None);
            let mut rest = String::new();
            server.read_to_string(&mut rest).await.expect("read");
            assert_eq!(rest, "rest");
        };
        tokio::join!(sending, reading);
    }

    #[tokio::test]
    async fn an_invalid_header_and_an_early_end_are_distinguished() {
        for (sent, kind) in [
            (&b"GET / HTTP/1.1\r\n"[..], io::ErrorKind::InvalidData),
            (b"PROXY TCP4 192.0.2.7", io::ErrorKind::UnexpectedEof),
            (b"", io::ErrorKind::UnexpectedEof),
        ] {
            let (mut client, mut server) = pair().await;
            client.write_all(sent).await.expect("sent");
            drop(client);
            let error = read(&mut server).await.expect_err("no header");
            assert_eq!(error.kind(), kind);
        }
    }
}
