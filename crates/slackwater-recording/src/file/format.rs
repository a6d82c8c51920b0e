//! The blocks of a recording's file as bytes. Each has its length and a checksum, so a torn file
//! can be read up to the damage.

use crate::{Bytes, Malformed, Request, put_text, put_varint};
use crc32c::crc32c;

/// The first bytes of a file; the last byte is the version. Streams of version 1 do not name the
/// recorded fields of requests, and have no requests.
pub const MAGIC: [u8; 8] = *b"slkwrec\x02";
/// The oldest version that can be read.
pub(super) const VERSION_MIN: u8 = 1;
/// The longest block. A longer length is an error.
pub const BLOCK_MAX: usize = 1 << 20;
/// Bytes before a block's content: its length and checksum.
pub const FRAME_BYTES: usize = 8;
/// Bytes of the block that ends a file, with its frame.
pub const END_BYTES: usize = FRAME_BYTES + 2;

const TEXT_MAX: usize = 64 << 10;
const NAME_MAX: usize = 256;

const HEAD: u8 = b'H';
const STREAM: u8 = b'S';
const EVENTS: u8 = b'E';
const END: u8 = b'Z';

/// What is recorded, and by which software.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Head {
    /// Start in milliseconds since 1970.
    pub started_ms: u64,
    /// The command and its version.
    pub software: String,
}

/// The policy of a worker.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StreamHead {
    /// The number that its events carry, unique in a file.
    pub number: u32,
    /// When its clock began, in nanoseconds after the recording began.
    pub since_ns: u64,
    /// Number of the worker, from 0.
    pub worker: u16,
    /// The seed of its policy's draws.
    pub seed: u64,
    /// The service whose replicas it chooses from.
    pub service: String,
    /// Its name, as in the configuration.
    pub policy: String,
    /// All settings of the policy and of the layers around it, in TOML.
    pub settings: String,
    /// The fields of requests whose values are recorded.
    pub fields: Vec<String>,
}

/// Why a recording has ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum End {
    /// The process has ended.
    Complete = 1,
    /// The file has reached its largest size.
    Full = 2,
    /// Events came faster than they could be written.
    Behind = 3,
    /// The file could not be written.
    Unwritable = 4,
}

impl End {
    /// All reasons.
    pub const ALL: [Self; 4] = [Self::Complete, Self::Full, Self::Behind, Self::Unwritable];

    /// Returns the reason as text for people.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Complete => "the process ended",
            Self::Full => "the file was as large as it may be",
            Self::Behind => "events came faster than they could be written",
            Self::Unwritable => "the file could not be written",
        }
    }
}

/// The content of a block.
#[derive(Debug, PartialEq, Eq)]
pub enum Block<'b> {
    /// The first block.
    Head(Head),
    /// A policy, before its first events.
    Stream(StreamHead),
    /// Calls of a policy and their results.
    Events {
        /// The number of the stream.
        stream: u32,
        /// Bytes for a [`Decoder`](crate::Decoder), after those of the stream's earlier blocks.
        events: &'b [u8],
    },
    /// The last block.
    End(End),
}

impl Block<'_> {
    /// Returns the block with its frame.
    pub fn framed(&self) -> Vec<u8> {
        let mut block = vec![0; FRAME_BYTES];
        match self {
            Self::Head(head) => {
                block.push(HEAD);
                put_varint(&mut block, head.started_ms);
                put_text(&mut block, &head.software, NAME_MAX);
            }
            Self::Stream(head) => {
                block.push(STREAM);
                put_varint(&mut block, head.number.into());
                put_varint(&mut block, head.since_ns);
                put_varint(&mut block, head.worker.into());
                block.extend_from_slice(&head.seed.to_le_bytes());
                put_text(&mut block, &head.service, NAME_MAX);
                put_text(&mut block, &head.policy, NAME_MAX);
                put_text(&mut block, &head.settings, TEXT_MAX);
                put_varint(&mut block, head.fields.len() as u64);
                for field in &head.fields {
                    put_text(&mut block, field, NAME_MAX);
                }
            }
            Self::Events { stream, events } => {
                block.push(EVENTS);
                put_varint(&mut block, (*stream).into());
                block.extend_from_slice(events);
            }
            Self::End(end) => block.extend_from_slice(&[END, *end as u8]),
        }
        let content = block.split_off(FRAME_BYTES);
        let length = u32::try_from(content.len()).unwrap_or(u32::MAX);
        block[..4].copy_from_slice(&length.to_le_bytes());
        block[4..].copy_from_slice(&crc32c(&content).to_le_bytes());
        block.extend_from_slice(&content);
        block
    }
}

/// Parses a block's content in a file of that version.
pub(super) fn parse(content: &[u8], version: u8) -> Result<Block<'_>, Malformed> {
    let mut bytes = Bytes::new(content);
    let block = match bytes.byte()? {
        HEAD => Block::Head(Head {
            started_ms: bytes.varint()?,
            software: bytes.text()?.to_owned(),
        }),
        STREAM => Block::Stream(StreamHead {
            number: bytes.number()?,
            since_ns: bytes.varint()?,
            worker: bytes.number()?,
            seed: bytes.word()?,
            service: bytes.text()?.to_owned(),
            policy: bytes.text()?.to_owned(),
            settings: bytes.text()?.to_owned(),
            fields: match version {
                VERSION_MIN => Vec::new(),
                _ => fields(&mut bytes)?,
            },
        }),
        EVENTS => Block::Events {
            stream: bytes.number()?,
            events: core::mem::replace(&mut bytes, Bytes::new(&[])).rest(),
        },
        END => {
            let number = bytes.byte()?;
            let end = End::ALL.into_iter().find(|end| *end as u8 == number);
            Block::End(end.ok_or(Malformed("it ends for a reason that is not known"))?)
        }
        _ => return Err(Malformed("a block is of a kind that is not known")),
    };
    if bytes.is_empty() {
        Ok(block)
    } else {
        Err(Malformed("a block is longer than its content"))
    }
}

fn fields(bytes: &mut Bytes<'_>) -> Result<Vec<String>, Malformed> {
    let count: usize = bytes.number()?;
    if count > Request::FIELDS_MAX {
        return Err(Malformed("a stream names more fields than are recorded"));
    }
    (0..count)
        .map(|_| bytes.text().map(str::to_owned))
        .collect()
}

/// Returns the content of the first block of `bytes` and the bytes after it, or why there is no
/// block.
pub fn first_block(bytes: &[u8]) -> Result<(&[u8], &[u8]), Malformed> {
    const CUT_OFF: Malformed = Malformed("it is cut off");
    let (length, rest) = bytes.split_first_chunk().ok_or(CUT_OFF)?;
    let (checksum, rest) = rest.split_first_chunk().ok_or(CUT_OFF)?;
    let length = u32::from_le_bytes(*length) as usize;
    if length > BLOCK_MAX {
        return Err(Malformed("a block is longer than any is"));
    }
    let (content, rest) = rest.split_at_checked(length).ok_or(CUT_OFF)?;
    if crc32c(content) != u32::from_le_bytes(*checksum) {
        return Err(Malformed("a block's checksum is not that of its bytes"));
    }
    Ok((content, rest))
}
