//! A reader of the live stream, which keeps the last tick.

use core::net::SocketAddr;
use serde_json::Value;
use std::io::{BufRead, BufReader, Write};
use std::net::TcpStream;
use std::sync::{Arc, Mutex, PoisonError};

/// The last tick of a stream. Its thread ends with the stream.
#[derive(Clone, Debug)]
pub(super) struct Live(Arc<Mutex<Value>>);

impl Live {
    /// Reads the stream of the admin server at `admin`.
    ///
    /// # Errors
    ///
    /// Fails if the server does not accept the request.
    pub(super) fn read(admin: SocketAddr) -> Result<Self, String> {
        let wrong = |error| format!("GET {admin}/events: {error}");
        let mut stream = TcpStream::connect(admin).map_err(wrong)?;
        let request = format!("GET /events HTTP/1.1\r\nhost: {admin}\r\n\r\n");
        stream.write_all(request.as_bytes()).map_err(wrong)?;
        let last = Arc::new(Mutex::new(Value::Null));
        let place = Arc::clone(&last);
        std::thread::spawn(move || {
            let mut is_tick = false;
            for line in BufReader::new(stream).lines().map_while(Result::ok) {
                match line.split_once(": ") {
                    Some(("event", name)) => is_tick = name == "tick",
                    Some(("data", data)) if is_tick => {
                        if let Ok(tick) = serde_json::from_str(data) {
                            *place.lock().unwrap_or_else(PoisonError::into_inner) = tick;
                        }
                    }
                    _ => {}
                }
            }
        });
        Ok(Self(last))
    }

    /// The last tick; `null` before the first.
    pub(super) fn tick(&self) -> Value {
        let last = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        last.clone()
    }
}
