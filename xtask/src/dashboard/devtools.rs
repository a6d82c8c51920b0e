//! A client for Chromium's `DevTools` protocol, with the part that a page needs: commands and their
//! answers, and events, which are kept until they are read.
//!
//! We have our own client, because the crates that drive a browser bring an async runtime and
//! generated types. They would cost everyone who builds xtask minutes, for the dozen commands that
//! are sent here.

use core::time::Duration;
use serde_json::{Value, json};
use std::io::ErrorKind;
use std::net::TcpStream;
use std::time::Instant;
use tokio_tungstenite::tungstenite::{Error, Message, WebSocket, client};

/// Timeout for an answer.
const ANSWER_MAX: Duration = Duration::from_mins(1);

/// How long a read waits before it checks the time.
const READ: Duration = Duration::from_millis(20);

/// A connection to a browser, and to one of its pages once it is attached.
pub(super) struct DevTools {
    socket: WebSocket<TcpStream>,
    sent: u64,
    session: Option<String>,
    events: Vec<Value>,
}

impl DevTools {
    /// Connects to the browser that listens at `port` for `path`.
    pub(super) fn connect(port: u16, path: &str) -> Result<Self, String> {
        let wrong = |error: &dyn core::fmt::Display| format!("the browser's DevTools: {error}");
        let stream = TcpStream::connect(("127.0.0.1", port)).map_err(|error| wrong(&error))?;
        let url = format!("ws://127.0.0.1:{port}{path}");
        let (socket, _) = client(url, stream).map_err(|error| wrong(&error))?;
        let stream = socket.get_ref();
        stream
            .set_read_timeout(Some(READ))
            .map_err(|error| wrong(&error))?;
        Ok(Self {
            socket,
            sent: 0,
            session: None,
            events: Vec::new(),
        })
    }

    /// Sends all further commands to a page.
    pub(super) fn attach(&mut self, session: String) {
        self.session = Some(session);
    }

    /// Sends a command to the page and waits for its answer.
    pub(super) fn call(&mut self, method: &str, parameters: &Value) -> Result<Value, String> {
        self.ask(method, parameters, self.session.clone())
    }

    /// Sends a command to the browser itself and waits for its answer.
    pub(super) fn call_browser(&mut self, method: &str) -> Result<Value, String> {
        self.ask(method, &json!({}), None)
    }

    fn ask(
        &mut self,
        method: &str,
        parameters: &Value,
        session: Option<String>,
    ) -> Result<Value, String> {
        let wrong = |why: &dyn core::fmt::Display| format!("{method}: {why}");
        self.sent += 1;
        let number = self.sent;
        let mut command = json!({"id": number, "method": method, "params": parameters});
        if let Some(session) = session {
            command["sessionId"] = json!(session);
        }
        self.socket
            .send(Message::text(command.to_string()))
            .map_err(|error| wrong(&error))?;
        let begun = Instant::now();
        while begun.elapsed() < ANSWER_MAX {
            match self.read()? {
                Some(message) if message["id"] == number => {
                    return match message.get("error") {
                        Some(error) => Err(wrong(error)),
                        None => Ok(message["result"].clone()),
                    };
                }
                Some(message) if message.get("method").is_some() => self.events.push(message),
                _ => (),
            }
        }
        Err(wrong(&"no answer within a minute"))
    }

    /// Returns the events since the last call.
    pub(super) fn take_events(&mut self) -> Vec<Value> {
        core::mem::take(&mut self.events)
    }

    fn read(&mut self) -> Result<Option<Value>, String> {
        match self.socket.read() {
            Ok(Message::Text(text)) => serde_json::from_str(&text)
                .map(Some)
                .map_err(|error| format!("the browser's DevTools: {error}")),
            Ok(_) => Ok(None),
            Err(Error::Io(error))
                if matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::TimedOut) =>
            {
                Ok(None)
            }
            Err(error) => Err(format!("the browser's DevTools: {error}")),
        }
    }
}
