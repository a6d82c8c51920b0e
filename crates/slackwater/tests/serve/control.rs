//! Changes at run time, at the admin server: authorization, and the effects on requests.

mod command;
mod handed_over;
mod refusals;
mod replicas;
mod settings;

use crate::proxy::Proxy;
use crate::reload::{Written, config};
use crate::replicas::Replica;
use serde_json::Value;
use std::path::PathBuf;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

pub(crate) const TOKEN: &str = "5f0c6b1e9d2a48c7";

/// A file with a token, removed when dropped.
pub(crate) struct Token(PathBuf);

impl Token {
    pub(crate) fn new(name: &str) -> Self {
        let name = format!("slackwater-token-{name}-{}", std::process::id());
        let token = Self(std::env::temp_dir().join(name));
        token.become_text(&format!("{TOKEN}\n"));
        token
    }

    fn become_text(&self, text: &str) {
        std::fs::write(&self.0, text).unwrap();
    }

    fn path(&self) -> &str {
        self.0.to_str().unwrap()
    }

    pub(crate) fn section(&self) -> String {
        format!("[admin]\ntoken_file = \"{}\"\n", self.0.display())
    }
}

impl Drop for Token {
    fn drop(&mut self) {
        let _ = std::fs::remove_file(&self.0);
    }
}

/// A proxy before these replicas at which `TOKEN` authorizes changes.
pub(crate) fn controlled(name: &str, replicas: &[&Replica]) -> (Proxy, Written, Token) {
    let token = Token::new(name);
    let written = Written::new(name, &config(replicas, &token.section()));
    (written.serve(&[]), written, token)
}

/// Sends a request to the admin server. Returns the status and the body of its answer.
pub(crate) async fn send(proxy: &Proxy, request: &str, headers: &str, body: &str) -> (u16, String) {
    let mut stream = TcpStream::connect(proxy.admin).await.unwrap();
    let length = body.len();
    let text = format!(
        "{request} HTTP/1.1\r\nhost: admin:9900\r\nconnection: close\r\ncontent-length: {length}\r\n{headers}\r\n{body}"
    );
    stream.write_all(text.as_bytes()).await.unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).await.unwrap();
    let (head, body) = answer.split_once("\r\n\r\n").unwrap();
    (head[9..12].parse().unwrap(), body.to_owned())
}

fn bearer(token: &str) -> String {
    format!("authorization: Bearer {token}\r\ncontent-type: application/json\r\n")
}

/// Sends an authorized request.
async fn ask(proxy: &Proxy, path: &str, body: &Value) -> (u16, String) {
    let request = format!("POST {path}");
    send(proxy, &request, &bearer(TOKEN), &body.to_string()).await
}

/// Sends an authorized request, which must succeed.
pub(crate) async fn done(proxy: &Proxy, path: &str, body: &Value) -> Value {
    let (status, text) = ask(proxy, path, body).await;
    assert_eq!(status, 200, "{path} {body}: {text}");
    serde_json::from_str(&text).unwrap()
}

pub(crate) async fn overrides(proxy: &Proxy) -> Value {
    serde_json::from_str(&proxy.admin_page("/overrides").await).unwrap()
}
