//! The clients of an agent: requests and probes as of a balancer, requests of an operator to the
//! admin server.

use crate::process::{Agent, soon};
use core::net::SocketAddr;
use core::time::Duration;
use http::{HeaderMap, HeaderName, HeaderValue};
use serde_json::Value;
use slackwater_core::LoadReport;
use slackwater_tower::wire::ProbeKey;
use slackwater_tower::wire::datagram::{
    DATAGRAM_BYTES_MAX, ProbeRequest, decode_reply, encode_request,
};
use slackwater_tower::wire::headers;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpStream, UdpSocket};

/// A response, read to its end.
pub(crate) struct Answer {
    pub(crate) status: u16,
    pub(crate) headers: HeaderMap,
    pub(crate) body: Vec<u8>,
}

impl Answer {
    pub(crate) fn header(&self, name: &str) -> Option<&str> {
        self.headers.get(name).map(|value| value.to_str().unwrap())
    }

    pub(crate) fn text(&self) -> &str {
        core::str::from_utf8(&self.body).unwrap()
    }
}

/// A client's connection that has sent a request.
pub(crate) struct Client {
    pub(crate) stream: TcpStream,
}

impl Client {
    /// Connects and sends a request without a body.
    pub(crate) async fn send(address: SocketAddr, method: &str, path: &str) -> Self {
        let mut client = Self::connect(address).await;
        client
            .write(format!("{method} {path} HTTP/1.1\r\nhost: a\r\n\r\n"))
            .await;
        client
    }

    pub(crate) async fn connect(address: SocketAddr) -> Self {
        let stream = soon("a connection", TcpStream::connect(address))
            .await
            .unwrap();
        Self { stream }
    }

    pub(crate) async fn write(&mut self, bytes: impl AsRef<[u8]>) {
        self.stream.write_all(bytes.as_ref()).await.unwrap();
    }

    /// Reads the head of the response.
    pub(crate) async fn head(&mut self) -> Answer {
        let mut head = String::new();
        while !head.ends_with("\r\n\r\n") {
            head.push(char::from(
                soon("a head", self.stream.read_u8()).await.unwrap(),
            ));
        }
        let mut lines = head.lines();
        let status = lines.next().unwrap()[9..12].parse().unwrap();
        let fields = lines.filter_map(|line| line.split_once(": "));
        let headers = fields
            .map(|(name, value)| {
                let name = HeaderName::from_bytes(name.as_bytes()).unwrap();
                (name, HeaderValue::from_str(value).unwrap())
            })
            .collect();
        Answer {
            status,
            headers,
            body: Vec::new(),
        }
    }

    /// Reads the whole response, which must have a content length; an error if it is cut off.
    pub(crate) async fn answer(&mut self) -> std::io::Result<Answer> {
        let mut answer = self.head().await;
        let length = answer.header("content-length").unwrap().parse().unwrap();
        answer.body.resize(length, 0);
        soon("the body", self.stream.read_exact(&mut answer.body)).await?;
        Ok(answer)
    }
}

/// Sends one request and reads its response.
pub(crate) async fn fetch(address: SocketAddr, path: &str) -> Answer {
    Client::send(address, "GET", path)
        .await
        .answer()
        .await
        .unwrap()
}

impl Agent {
    /// The load that the agent reports over UDP.
    pub(crate) async fn report(&self) -> LoadReport {
        self.report_with(None).await
    }

    pub(crate) async fn report_with(&self, key: Option<&ProbeKey>) -> LoadReport {
        let socket = UdpSocket::bind("127.0.0.1:0").await.unwrap();
        socket.connect(self.probes).await.unwrap();
        for nonce in 0_u64.. {
            socket.send(&probe(nonce, key)).await.unwrap();
            let mut reply = [0; DATAGRAM_BYTES_MAX];
            // A datagram may be lost, even on loopback; then another probe is sent.
            let receiving = tokio::time::timeout(Duration::from_secs(2), socket.recv(&mut reply));
            if let Ok(received) = receiving.await {
                let reply = decode_reply(&reply[..received.unwrap()], key).unwrap();
                assert_eq!(reply.nonce, nonce);
                return reply.report;
            }
            assert!(nonce < 5, "probes are not answered");
        }
        unreachable!("the loop has no end")
    }

    pub(crate) async fn rif(&self) -> u32 {
        self.report().await.rif.count()
    }

    /// The load that the agent reports over HTTP.
    pub(crate) async fn http_report(&self) -> LoadReport {
        let answer = fetch(self.address, "/prequal/probe").await;
        assert_eq!(answer.status, 200);
        headers::read_report(&answer.headers).unwrap()
    }

    pub(crate) async fn fetch(&self, path: &str) -> Answer {
        fetch(self.address, path).await
    }

    pub(crate) async fn status(&self) -> Value {
        serde_json::from_slice(&fetch(self.admin, "/status").await.body).unwrap()
    }

    /// One of the counts in the status.
    pub(crate) async fn count(&self, name: &str) -> u64 {
        let status = self.status().await;
        status["replicas"][0]["requests"][name].as_u64().unwrap()
    }
}

/// The datagram of a probe.
pub(crate) fn probe(nonce: u64, key: Option<&ProbeKey>) -> Vec<u8> {
    let mut datagram = [0; DATAGRAM_BYTES_MAX];
    let request = ProbeRequest { nonce, hint: b"" };
    let bytes = encode_request(&request, key, &mut datagram).unwrap();
    datagram[..bytes].to_vec()
}
