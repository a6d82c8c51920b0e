//! A client of the API server: one request on a connection of its own, over TLS.
//!
//! Requests are HTTP/1.0, so that answers and watch streams end with the connection and have no
//! chunks.

use core::net::SocketAddr;
use core::time::Duration;
use rustls::pki_types::ServerName;
use rustls::{ClientConfig, ClientConnection, RootCertStore, StreamOwned};
use serde_json::{Value, json};
use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::sync::Arc;

/// Timeout of connecting, and of each read and write.
const LIMIT: Duration = Duration::from_secs(10);

type Stream = BufReader<StreamOwned<ClientConnection, TcpStream>>;

/// Access to an API server with a token.
#[derive(Clone, Debug)]
pub(super) struct Api {
    pub(super) address: SocketAddr,
    token: String,
    config: Arc<ClientConfig>,
}

impl Api {
    pub(super) fn new(
        address: SocketAddr,
        token: &str,
        roots: RootCertStore,
    ) -> Result<Self, String> {
        let provider = Arc::new(rustls::crypto::aws_lc_rs::default_provider());
        let config = ClientConfig::builder_with_provider(provider)
            .with_safe_default_protocol_versions()
            .map_err(|error| format!("TLS: {error}"))?
            .with_root_certificates(roots)
            .with_no_client_auth();
        Ok(Self {
            address,
            token: token.to_owned(),
            config: Arc::new(config),
        })
    }

    /// Access to this server with another token.
    pub(super) fn with_token(&self, token: &str) -> Self {
        Self {
            token: token.to_owned(),
            ..self.clone()
        }
    }

    /// Reads an object.
    ///
    /// # Errors
    ///
    /// Fails unless the status is 200.
    pub(super) fn get(&self, path: &str) -> Result<Value, String> {
        self.expect_done("GET", path, None)
    }

    /// Creates an object. One that exists already is left as it is.
    pub(super) fn create(&self, path: &str, object: &Value) -> Result<Value, String> {
        match self.send("POST", path, Some(("application/json", object)))? {
            (200..=299 | 409, answer) => Ok(answer),
            (status, answer) => Err(refused("POST", path, status, &answer)),
        }
    }

    /// Changes an object by a merge patch.
    pub(super) fn patch(&self, path: &str, change: &Value) -> Result<Value, String> {
        self.expect_done(
            "PATCH",
            path,
            Some(("application/merge-patch+json", change)),
        )
    }

    /// Changes a pod's status. Its conditions are merged by type.
    pub(super) fn patch_status(&self, path: &str, change: &Value) -> Result<Value, String> {
        let kind = "application/strategic-merge-patch+json";
        self.expect_done("PATCH", path, Some((kind, change)))
    }

    /// Deletes an object. One that is gone is no error.
    pub(super) fn delete(&self, path: &str, options: &Value) -> Result<(), String> {
        match self.send("DELETE", path, Some(("application/json", options)))? {
            (200..=299 | 404 | 409, _) => Ok(()),
            (status, answer) => Err(refused("DELETE", path, status, &answer)),
        }
    }

    /// A token of a service account, for an hour.
    pub(super) fn token_of(&self, namespace: &str, account: &str) -> Result<String, String> {
        let path = format!("/api/v1/namespaces/{namespace}/serviceaccounts/{account}/token");
        let request = json!({
            "apiVersion": "authentication.k8s.io/v1", "kind": "TokenRequest",
            "spec": { "audiences": [], "expirationSeconds": 3600 },
        });
        let answer = self.create(&path, &request)?;
        let token = answer["status"]["token"].as_str();
        token.map_or_else(
            || Err(format!("a token of {account}: {answer}")),
            |token| Ok(token.to_owned()),
        )
    }

    /// The status of a request, without its answer.
    pub(super) fn status(&self, path: &str) -> Result<u16, String> {
        self.send("GET", path, None).map(|(status, _)| status)
    }

    fn expect_done(
        &self,
        method: &str,
        path: &str,
        body: Option<(&str, &Value)>,
    ) -> Result<Value, String> {
        match self.send(method, path, body)? {
            (200..=299, answer) => Ok(answer),
            (status, answer) => Err(refused(method, path, status, &answer)),
        }
    }

    fn send(
        &self,
        method: &str,
        path: &str,
        body: Option<(&str, &Value)>,
    ) -> Result<(u16, Value), String> {
        let wrong = |error: std::io::Error| format!("{method} {path}: {error}");
        let (status, mut stream) = self.exchange(method, path, body).map_err(wrong)?;
        let mut text = Vec::new();
        match stream.read_to_end(&mut text) {
            // Go closes without the alert that TLS wants.
            Err(error) if error.kind() != std::io::ErrorKind::UnexpectedEof => {
                return Err(wrong(error));
            }
            _ => (),
        }
        let answer = serde_json::from_slice(&text)
            .unwrap_or_else(|_| Value::String(String::from_utf8_lossy(&text).into()));
        Ok((status, answer))
    }

    /// Reads the lines of a watch until it ends or `take` returns false.
    pub(super) fn watch(
        &self,
        path: &str,
        mut take: impl FnMut(&str) -> bool,
    ) -> Result<(), String> {
        let wrong = |error: std::io::Error| format!("GET {path}: {error}");
        let (status, stream) = self.exchange("GET", path, None).map_err(wrong)?;
        if status != 200 {
            return Err(format!("GET {path}: {status}"));
        }
        for line in stream.lines() {
            match line {
                Ok(line) if take(&line) => (),
                Ok(_) => break,
                Err(error) if error.kind() == std::io::ErrorKind::UnexpectedEof => break,
                Err(error) => return Err(wrong(error)),
            }
        }
        Ok(())
    }

    /// Sends a request, and reads the head of its answer.
    fn exchange(
        &self,
        method: &str,
        path: &str,
        body: Option<(&str, &Value)>,
    ) -> std::io::Result<(u16, Stream)> {
        let tcp = TcpStream::connect_timeout(&self.address, LIMIT)?;
        tcp.set_nodelay(true)?;
        tcp.set_read_timeout(Some(LIMIT))?;
        tcp.set_write_timeout(Some(LIMIT))?;
        let name = ServerName::from(self.address.ip());
        let tls =
            ClientConnection::new(Arc::clone(&self.config), name).map_err(std::io::Error::other)?;
        let mut stream = StreamOwned::new(tls, tcp);
        let (kind, body) = body.map_or(("application/json", String::new()), |(kind, body)| {
            (kind, body.to_string())
        });
        let head = format!(
            "{method} {path} HTTP/1.0\r\nhost: {}\r\nauthorization: Bearer {}\r\naccept: application/json\r\n\
             content-type: {kind}\r\ncontent-length: {}\r\n\r\n{body}",
            self.address,
            self.token,
            body.len()
        );
        stream.write_all(head.as_bytes())?;
        stream.flush()?;
        let mut stream = BufReader::new(stream);
        let mut line = String::new();
        stream.read_line(&mut line)?;
        let status = line.split(' ').nth(1).and_then(|code| code.parse().ok());
        let status = status.ok_or_else(|| std::io::Error::other(format!("found {line:?}")))?;
        while line.trim_end() != "" {
            line.clear();
            stream.read_line(&mut line)?;
        }
        Ok((status, stream))
    }
}

fn refused(method: &str, path: &str, status: u16, answer: &Value) -> String {
    let message = answer["message"].as_str();
    let message = message.map_or_else(|| answer.to_string(), str::to_owned);
    format!("{method} {path}: {status}: {message}")
}
