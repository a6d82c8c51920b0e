//! The lines of a watch: events that arrive in pieces of any size, each of a bounded length.

use bytes::BytesMut;
use http_body_util::BodyExt;
use hyper::body::{Body, Bytes};

/// The longest event, in bytes. An API server stores objects of at most about 1.5 MiB, and JSON
/// takes more than what it stores.
pub(super) const EVENT_BYTES_MAX: usize = 4 << 20;

/// Splits a body into lines.
#[derive(Debug)]
pub(super) struct Lines<B> {
    body: B,
    buffer: BytesMut,
    /// Bytes of the buffer that hold no line break.
    searched: usize,
}

impl<B> Lines<B>
where
    B: Body<Data = Bytes, Error: core::fmt::Display> + Unpin,
{
    pub(super) fn new(body: B) -> Self {
        Self {
            body,
            buffer: BytesMut::new(),
            searched: 0,
        }
    }

    /// Waits for the next line; `None` at the end of the body. Empty lines are skipped. Nothing is
    /// lost if the future is dropped.
    ///
    /// # Errors
    ///
    /// Fails if a line is too long, or if the body breaks off.
    pub(super) async fn next(&mut self) -> Result<Option<BytesMut>, String> {
        loop {
            let rest = self.buffer.get(self.searched..).unwrap_or_default();
            if let Some(at) = rest.iter().position(|byte| *byte == b'\n') {
                let line = self.buffer.split_to(self.searched + at + 1);
                self.searched = 0;
                if line.trim_ascii().is_empty() {
                    continue;
                }
                return Ok(Some(line));
            }
            self.searched = self.buffer.len();
            if self.buffer.len() > EVENT_BYTES_MAX {
                return Err(format!(
                    "sent an event of more than {EVENT_BYTES_MAX} bytes"
                ));
            }
            match self.body.frame().await {
                Some(Ok(frame)) => {
                    if let Ok(data) = frame.into_data() {
                        self.buffer.extend_from_slice(&data);
                    }
                }
                Some(Err(error)) => return Err(format!("broke off the watch: {error}")),
                None if self.buffer.trim_ascii().is_empty() => return Ok(None),
                None => return Err("ended the watch in the middle of an event".to_owned()),
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use core::convert::Infallible;
    use futures_util::FutureExt;
    use futures_util::stream;
    use http_body_util::{Full, StreamBody};
    use hyper::body::Frame;

    async fn lines(pieces: &[&'static str]) -> (Vec<String>, Option<String>) {
        let frames = pieces
            .iter()
            .map(|piece| Ok::<_, Infallible>(Frame::data(Bytes::from_static(piece.as_bytes()))));
        let mut lines = Lines::new(StreamBody::new(stream::iter(frames.collect::<Vec<_>>())));
        let mut found = Vec::new();
        loop {
            match lines.next().await {
                Ok(Some(line)) => found.push(String::from_utf8(line.to_vec()).expect("text")),
                Ok(None) => return (found, None),
                Err(why) => return (found, Some(why)),
            }
        }
    }

    #[tokio::test]
    async fn lines_are_put_together_from_pieces_of_any_size() {
        let (found, error) = lines(&["ab", "c\nd", "e", "\n\n \nf\ng\n"]).await;
        assert_eq!(found, ["abc\n", "de\n", "f\n", "g\n"]);
        assert_eq!(error, None);
        let (found, error) = lines(&["a\nb"]).await;
        assert_eq!(found, ["a\n"]);
        assert_eq!(
            error.as_deref(),
            Some("ended the watch in the middle of an event")
        );
    }

    #[tokio::test]
    async fn an_endless_line_is_refused_at_the_limit() {
        let mut fits = vec![b'a'; EVENT_BYTES_MAX];
        fits.push(b'\n');
        let mut lines = Lines::new(Full::new(Bytes::from(fits)));
        let line = lines.next().await.expect("in the limit");
        assert_eq!(line.map(|line| line.len()), Some(EVENT_BYTES_MAX + 1));

        let frame = || Ok::<_, Infallible>(Frame::data(Bytes::from(vec![b'a'; 65_536])));
        let mut lines = Lines::new(StreamBody::new(stream::repeat_with(frame)));
        let told = lines.next().now_or_never().expect("at the limit");
        assert_eq!(
            told,
            Err(format!(
                "sent an event of more than {EVENT_BYTES_MAX} bytes"
            ))
        );
        assert!(lines.buffer.len() <= EVENT_BYTES_MAX + 65_536);
    }
}
