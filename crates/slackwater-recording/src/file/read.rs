//! Reads a recording to its end, or as far as it is whole.

use super::format::{
    Block, END_BYTES, End, Head, MAGIC, StreamHead, VERSION_MIN, first_block, parse,
};
use std::collections::BTreeMap;

/// A recording.
#[derive(Debug, PartialEq, Eq)]
pub struct Recording {
    /// What is recorded, and by which software.
    pub head: Head,
    /// Streams in the order in which they began.
    pub streams: Vec<RecordedStream>,
    /// Why the recording ends where it does.
    pub end: Ending,
}

/// The events of a worker's policy.
#[derive(Debug, PartialEq, Eq)]
pub struct RecordedStream {
    /// The policy that they belong to.
    pub head: StreamHead,
    /// Bytes for a [`Decoder`](crate::Decoder).
    pub events: Vec<u8>,
}

/// How a recording ends.
#[derive(Debug, PartialEq, Eq)]
pub enum Ending {
    /// The recording has an end block.
    EndBlock(End),
    /// The file is torn: no whole block follows after `at` bytes.
    Torn {
        /// Bytes from the start.
        at: usize,
        /// The reason, in lower case and without a full stop.
        why: &'static str,
    },
}

/// Parses `bytes` as a recording.
///
/// # Errors
///
/// The bytes are not a recording, or one of another version. The message names the reason.
pub fn read(bytes: &[u8]) -> Result<Recording, String> {
    let [name @ .., newest] = MAGIC;
    let rest = bytes.strip_prefix(name.as_slice());
    let (&version, mut rest) = rest
        .and_then(<[u8]>::split_first)
        .ok_or("is no recording of slackwater's")?;
    if !(VERSION_MIN..=newest).contains(&version) {
        return Err(format!(
            "is a recording of version {version}, this command reads versions {VERSION_MIN} to {newest}"
        ));
    }
    let mut streams = Vec::<RecordedStream>::new();
    let mut places = BTreeMap::new();
    let mut head = None;
    let end = loop {
        let at = bytes.len() - rest.len();
        let block = first_block(rest).and_then(|(content, after)| {
            rest = after;
            parse(content, version)
        });
        let block = match block {
            Ok(block) => block,
            Err(malformed) => {
                break Ending::Torn {
                    at,
                    why: malformed.0,
                };
            }
        };
        // A second head, a repeated stream or events of an unknown stream end the reading.
        let is_taken = match block {
            Block::Head(said) => {
                let is_first = head.is_none();
                head.get_or_insert(said);
                is_first
            }
            Block::Stream(said) => {
                let is_new = !places.contains_key(&said.number);
                if is_new {
                    places.insert(said.number, streams.len());
                    streams.push(RecordedStream {
                        head: said,
                        events: Vec::new(),
                    });
                }
                is_new
            }
            Block::Events { stream, events } => {
                let place = places.get(&stream);
                let stream = place.and_then(|place| streams.get_mut(*place));
                stream
                    .map(|it| it.events.extend_from_slice(events))
                    .is_some()
            }
            Block::End(end) => break Ending::EndBlock(end),
        };
        if !is_taken {
            let why = "a block does not belong where it is";
            break Ending::Torn { at, why };
        }
    };
    let head = head.ok_or_else(|| {
        format!("has no head: it is cut off within its first {END_BYTES} bytes or so")
    })?;
    Ok(Recording { head, streams, end })
}
