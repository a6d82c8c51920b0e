//! Receives from the server for as long as the screen is open. When the stream breaks, it is opened
//! again, with growing pauses.

use super::message::{Fleet, Tick};
use crate::admin_client::{Address, Event, Failure, Stream};
use core::time::Duration;
use serde::de::DeserializeOwned;
use tokio::sync::mpsc;

/// Pause before the first retry; doubled for each further one.
const RETRY_FIRST: Duration = Duration::from_millis(500);
const RETRY_MAX: Duration = Duration::from_secs(8);

/// A message of the stream, or its end.
#[derive(Debug)]
pub(super) enum Received {
    Fleet(Box<Fleet>),
    Tick(Box<Tick>),
    /// The stream broke; the next attempt is after `wait`.
    Lost {
        why: String,
        wait: Duration,
    },
}

/// Receives from `stream` and its successors. Ends when the receiver is gone.
pub(super) async fn listen(address: Address, stream: Stream, out: mpsc::Sender<Received>) {
    let mut stream = Some(stream);
    let mut wait = RETRY_FIRST;
    loop {
        let opened = match stream.take() {
            Some(stream) => Ok(stream),
            None => Stream::open(&address).await,
        };
        let why = match opened {
            Ok(stream) => match receive(stream, &out, &mut wait).await {
                Some(why) => why,
                None => return,
            },
            Err(why) => why,
        };
        let lost = Received::Lost {
            why: why.to_string(),
            wait,
        };
        if out.send(lost).await.is_err() {
            return;
        }
        tokio::time::sleep(wait).await;
        wait = (wait * 2).min(RETRY_MAX);
    }
}

/// Receives one stream to its end. Returns why it ended; `None` if the receiver is gone. Once the
/// stream delivers a message, the next pause is short again.
async fn receive(
    mut stream: Stream,
    out: &mpsc::Sender<Received>,
    wait: &mut Duration,
) -> Option<Failure> {
    loop {
        let heard = match stream.next().await {
            Ok(event) => understand(&event),
            Err(failure) => return Some(failure),
        };
        match heard {
            Ok(None) => {}
            Ok(Some(heard)) => {
                *wait = RETRY_FIRST;
                out.send(heard).await.ok()?;
            }
            Err(failure) => return Some(failure),
        }
    }
}

/// Decodes an event; `None` if it is unknown here.
fn understand(event: &Event) -> Result<Option<Received>, Failure> {
    match event.name.as_str() {
        "fleet" => read(event).map(|fleet| Some(Received::Fleet(Box::new(fleet)))),
        "tick" => read(event).map(|tick| Some(Received::Tick(Box::new(tick)))),
        _ => Ok(None),
    }
}

/// Decodes the event's JSON.
pub(super) fn read<T: DeserializeOwned>(event: &Event) -> Result<T, Failure> {
    serde_json::from_str(&event.data).map_err(|error| {
        Failure::Strange(format!(
            "it sent a {} that cannot be read: {error}",
            event.name
        ))
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::admin_client::address;
    use tokio::io::{AsyncReadExt, AsyncWriteExt};
    use tokio::net::TcpListener;

    fn event(name: &str, data: &str) -> Event {
        Event {
            name: name.to_owned(),
            data: data.to_owned(),
        }
    }

    /// A server that sends this answer on each connection and closes it.
    async fn server(answer: &'static str) -> Address {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = address::parse(&listener.local_addr().unwrap().to_string()).unwrap();
        tokio::spawn(async move {
            loop {
                let (mut stream, _) = listener.accept().await.unwrap();
                let mut head = [0; 1_024];
                let _ = stream.read(&mut head).await.unwrap();
                stream.write_all(answer.as_bytes()).await.unwrap();
            }
        });
        address
    }

    #[tokio::test]
    async fn ended_stream_is_reported_and_reopened() {
        let answer = "HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\n\r\n\
            event: fleet\ndata: {\"revision\":7}\n\nevent: tick\ndata: {\"revision\":7}\n\n";
        let address = server(answer).await;
        let stream = Stream::open(&address).await.unwrap();
        let (sender, mut heard) = mpsc::channel(1);
        let listening = tokio::spawn(listen(address, stream, sender));
        for _ in 0..2 {
            let Some(Received::Fleet(fleet)) = heard.recv().await else {
                unreachable!("no fleet");
            };
            assert_eq!(fleet.revision, 7);
            assert!(matches!(heard.recv().await, Some(Received::Tick(_))));
            let Some(Received::Lost { why, wait }) = heard.recv().await else {
                unreachable!("nothing lost");
            };
            // A message was received before, so the pause is short again.
            assert_eq!((why.as_str(), wait), ("it ended the stream", RETRY_FIRST));
        }
        drop(heard);
        listening.await.unwrap();
    }

    #[tokio::test]
    async fn pauses_grow_while_the_server_does_not_answer() {
        let answer = "HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\n\r\n";
        let address = server(answer).await;
        let stream = Stream::open(&address).await.unwrap();
        // A port at which nothing listens any more.
        let closed = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let closed = address::parse(&closed.local_addr().unwrap().to_string()).unwrap();
        let (sender, mut heard) = mpsc::channel(1);
        tokio::time::pause();
        tokio::spawn(listen(closed, stream, sender));
        let mut waits = Vec::new();
        for _ in 0..6 {
            let Some(Received::Lost { wait, .. }) = heard.recv().await else {
                unreachable!("nothing lost");
            };
            waits.push(wait.as_millis());
        }
        assert_eq!(waits, [500, 1_000, 2_000, 4_000, 8_000, 8_000]);
    }

    #[test]
    fn unknown_events_are_skipped_and_unreadable_ones_are_reported() {
        let tick = understand(&event("tick", r#"{"revision":3,"later":{"a":[1]}}"#));
        let Ok(Some(Received::Tick(tick))) = tick else {
            unreachable!("{tick:?}");
        };
        assert_eq!((tick.revision, tick.services.len()), (3, 0));
        assert!(matches!(understand(&event("message", "x")), Ok(None)));
        let bad = understand(&event("fleet", r#"{"revision":"x"}"#)).unwrap_err();
        let text = bad.to_string();
        assert!(
            text.contains("it sent a fleet that cannot be read"),
            "{text}"
        );
    }
}
