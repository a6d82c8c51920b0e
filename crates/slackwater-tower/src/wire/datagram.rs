//! Probes over UDP: one small datagram each way. Also the messages between replicas about tied
//! copies, which are not answered. `docs/reference/probe-protocol.md` has the tables and the
//! reasons.
//!
//! All kinds have a base of 96 bytes with every field at a fixed, big-endian offset. A request's
//! hint follows its base, and a keyed datagram ends in a tag. Requests are padded so that no reply
//! is larger than its request. Sockets, clocks and the matching of nonces are elsewhere.

use super::key::TAG_BYTES;
use super::{HINT_BYTES_MAX, ProbeKey};
use core::time::Duration;
use slackwater_core::tail::TieName;
use slackwater_core::{LoadReport, LoadScale, Rif};

pub use super::HintTooLong;
pub use super::malformed::Malformed;

/// The size of a request without hint and key: 96 bytes. Shorter ones are refused.
pub const REQUEST_BYTES_MIN: usize = BASE_BYTES;

/// The size of the largest reply of this version: 112 bytes, the last 16 of them the tag of a keyed
/// one. Replies of later versions may be longer, within [`DATAGRAM_BYTES_MAX`] and their request's
/// size.
pub const REPLY_BYTES_MAX: usize = BASE_BYTES + TAG_BYTES;

/// The largest datagram that may be sent, and that every receiver must accept: 512 bytes.
pub const DATAGRAM_BYTES_MAX: usize = 512;

const BASE_BYTES: usize = 96;
const MAGIC: [u8; 4] = *b"SLWP";
const VERSION: u8 = 1;
const KIND_REQUEST: u8 = 1;
const KIND_REPLY: u8 = 2;
const KIND_BEGUN: u8 = 3;

/// Offsets of fields in the base.
mod at {
    pub(super) const MAGIC: usize = 0;
    pub(super) const VERSION: usize = 4;
    pub(super) const KIND: usize = 5;
    pub(super) const FLAGS: usize = 6;
    pub(super) const NONCE: usize = 8;
    pub(super) const HINT_BYTES: usize = 16;
    pub(super) const PRESENT: usize = 16;
    pub(super) const RIF: usize = 20;
    pub(super) const LATENCY_NS: usize = 24;
    pub(super) const INCARNATION: usize = 32;
    pub(super) const COST_NS: usize = 40;
    pub(super) const ERROR_MILLIONTHS: usize = 48;
    pub(super) const CPU_MILLIONTHS: usize = 52;
    pub(super) const QUERY_RATE_MILLIS: usize = 56;
    pub(super) const CAPACITY_MILLIRIF: usize = 60;
    pub(super) const LOAD_SCALE: usize = 64;
}

/// Bits of `FLAGS`.
mod flag {
    pub(super) const KEYED: u16 = 1 << 0;
    pub(super) const DRAINING: u16 = 1 << 1;
}

/// Bits of `PRESENT`: which optional fields of a reply are valid.
mod present {
    pub(super) const LATENCY: u32 = 1 << 0;
    pub(super) const LOAD_SCALE: u32 = 1 << 1;
    pub(super) const INCARNATION: u32 = 1 << 2;
    pub(super) const ERROR: u32 = 1 << 3;
    pub(super) const CPU: u32 = 1 << 4;
    pub(super) const QUERY_RATE: u32 = 1 << 5;
    pub(super) const CAPACITY: u32 = 1 << 6;
    pub(super) const COST: u32 = 1 << 7;
}

/// A client's probe.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ProbeRequest<'a> {
    /// Comes back in the reply. It must be hard to guess, and must not be used again while a reply
    /// may still arrive.
    pub nonce: u64,
    /// The query's hint, for replicas that scale their load by it; at most [`HINT_BYTES_MAX`]
    /// bytes, empty for none. `[S3]`
    pub hint: &'a [u8],
}

/// A replica's answer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ProbeReply {
    /// The request's nonce.
    pub nonce: u64,
    /// The replica's load.
    pub report: LoadReport,
}

/// Writes `request` to the start of `into` and returns its size in bytes: [`REQUEST_BYTES_MIN`] for
/// an unkeyed one without a hint.
pub fn encode_request(
    request: &ProbeRequest<'_>,
    key: Option<&ProbeKey>,
    into: &mut [u8; DATAGRAM_BYTES_MAX],
) -> Result<usize, HintTooLong> {
    let bytes = request.hint.len();
    let hint_bytes = match u16::try_from(bytes) {
        Ok(hint_bytes) if bytes <= HINT_BYTES_MAX => hint_bytes,
        _ => return Err(HintTooLong { bytes }),
    };
    let mut base = head(KIND_REQUEST, flags_for(key), request.nonce);
    put(&mut base, at::HINT_BYTES, hint_bytes.to_be_bytes());
    into[..BASE_BYTES].copy_from_slice(&base);
    into[BASE_BYTES..BASE_BYTES + bytes].copy_from_slice(request.hint);
    Ok(seal(into, BASE_BYTES + bytes, key))
}

/// Reads a request. Additions of later versions, after the hint or in reserved bytes, are ignored.
pub fn decode_request<'a>(
    datagram: &'a [u8],
    key: Option<&ProbeKey>,
) -> Result<ProbeRequest<'a>, Malformed> {
    let (base, rest) = open(datagram, KIND_REQUEST, key)?;
    let hint_bytes = usize::from(u16::from_be_bytes(take(base, at::HINT_BYTES)));
    if hint_bytes > HINT_BYTES_MAX {
        return Err(Malformed::Hint);
    }
    Ok(ProbeRequest {
        nonce: u64::from_be_bytes(take(base, at::NONCE)),
        hint: rest.get(..hint_bytes).ok_or(Malformed::Hint)?,
    })
}

/// Writes `reply` to the start of `into` and returns its size in bytes: 96, or 112 with a key.
/// Durations of more than 2^64 − 1 ns (584 years) are sent as 2^64 − 1 ns.
pub fn encode_reply(
    reply: &ProbeReply,
    key: Option<&ProbeKey>,
    into: &mut [u8; DATAGRAM_BYTES_MAX],
) -> usize {
    let report = &reply.report;
    let draining = u16::from(report.draining) * flag::DRAINING;
    let mut base = head(KIND_REPLY, flags_for(key) | draining, reply.nonce);
    put(&mut base, at::RIF, report.rif.count().to_be_bytes());
    let mut present = 0;
    if let Some(latency) = report.known_latency() {
        present |= present::LATENCY;
        put(&mut base, at::LATENCY_NS, span_ns(latency).to_be_bytes());
    }
    if report.load_scale != LoadScale::ONE {
        present |= present::LOAD_SCALE;
        let parts = report.load_scale.in_1024ths();
        put(&mut base, at::LOAD_SCALE, parts.to_be_bytes());
    }
    if let Some(incarnation) = report.incarnation {
        present |= present::INCARNATION;
        put(&mut base, at::INCARNATION, incarnation.to_be_bytes());
    }
    if let Some(cost) = report.cost {
        present |= present::COST;
        put(&mut base, at::COST_NS, span_ns(cost).to_be_bytes());
    }
    for (bit, offset, value) in [
        (
            present::ERROR,
            at::ERROR_MILLIONTHS,
            report.error_millionths,
        ),
        (present::CPU, at::CPU_MILLIONTHS, report.cpu_millionths),
        (
            present::QUERY_RATE,
            at::QUERY_RATE_MILLIS,
            report.query_rate_millis,
        ),
        (
            present::CAPACITY,
            at::CAPACITY_MILLIRIF,
            report.capacity_millirif,
        ),
    ] {
        if let Some(value) = value {
            present |= bit;
            put(&mut base, offset, value.to_be_bytes());
        }
    }
    put(&mut base, at::PRESENT, present.to_be_bytes());
    into[..BASE_BYTES].copy_from_slice(&base);
    seal(into, BASE_BYTES, key)
}

/// Reads a reply. Unknown fields, and what follows the base, are ignored.
pub fn decode_reply(datagram: &[u8], key: Option<&ProbeKey>) -> Result<ProbeReply, Malformed> {
    let (base, _later_versions) = open(datagram, KIND_REPLY, key)?;
    let present = u32::from_be_bytes(take(base, at::PRESENT));
    let narrow = |bit: u32, offset: usize| {
        (present & bit != 0).then(|| u32::from_be_bytes(take(base, offset)))
    };
    let wide = |bit: u32, offset: usize| {
        (present & bit != 0).then(|| u64::from_be_bytes(take(base, offset)))
    };
    let mut report = LoadReport::new(
        Rif::new(u32::from_be_bytes(take(base, at::RIF))),
        wide(present::LATENCY, at::LATENCY_NS).map(Duration::from_nanos),
    );
    if present & present::LOAD_SCALE != 0 {
        let parts = u16::from_be_bytes(take(base, at::LOAD_SCALE));
        report.load_scale = LoadScale::from_1024ths(parts);
    }
    report.draining = flags_of(base) & flag::DRAINING != 0;
    report.incarnation = wide(present::INCARNATION, at::INCARNATION);
    report.error_millionths = narrow(present::ERROR, at::ERROR_MILLIONTHS);
    report.cpu_millionths = narrow(present::CPU, at::CPU_MILLIONTHS);
    report.query_rate_millis = narrow(present::QUERY_RATE, at::QUERY_RATE_MILLIS);
    report.capacity_millirif = narrow(present::CAPACITY, at::CAPACITY_MILLIRIF);
    report.cost = wide(present::COST, at::COST_NS).map(Duration::from_nanos);
    Ok(ProbeReply {
        nonce: u64::from_be_bytes(take(base, at::NONCE)),
        report,
    })
}

/// Writes to the start of `into` that the copy with this name has started, and returns the size in
/// bytes: 96, or 112 with a key. `[H2]`
pub fn encode_begun(
    name: TieName,
    key: Option<&ProbeKey>,
    into: &mut [u8; DATAGRAM_BYTES_MAX],
) -> usize {
    into[..BASE_BYTES].copy_from_slice(&head(KIND_BEGUN, flags_for(key), name.0));
    seal(into, BASE_BYTES, key)
}

/// Reads the name of the copy that has started elsewhere. Additions of later versions are ignored.
/// `[H2]`
pub fn decode_begun(datagram: &[u8], key: Option<&ProbeKey>) -> Result<TieName, Malformed> {
    let (base, _later_versions) = open(datagram, KIND_BEGUN, key)?;
    Ok(TieName(u64::from_be_bytes(take(base, at::NONCE))))
}

fn flags_for(key: Option<&ProbeKey>) -> u16 {
    u16::from(key.is_some()) * flag::KEYED
}

fn flags_of(base: &[u8; BASE_BYTES]) -> u16 {
    u16::from_be_bytes(take(base, at::FLAGS))
}

/// Makes a base with its first 16 bytes filled in and the rest zero.
fn head(kind: u8, flags: u16, nonce: u64) -> [u8; BASE_BYTES] {
    let mut base = [0; BASE_BYTES];
    put(&mut base, at::MAGIC, MAGIC);
    put(&mut base, at::VERSION, [VERSION]);
    put(&mut base, at::KIND, [kind]);
    put(&mut base, at::FLAGS, flags.to_be_bytes());
    put(&mut base, at::NONCE, nonce.to_be_bytes());
    base
}

/// Appends the tag to a datagram of `bytes` bytes, if there is a key. Returns the whole size.
fn seal(datagram: &mut [u8; DATAGRAM_BYTES_MAX], bytes: usize, key: Option<&ProbeKey>) -> usize {
    let Some(key) = key else { return bytes };
    let tag = key.tag(&datagram[..bytes]);
    datagram[bytes..bytes + TAG_BYTES].copy_from_slice(&tag);
    bytes + TAG_BYTES
}

/// Makes the checks that all kinds share. Returns the base, and the bytes between base and tag.
fn open<'a>(
    datagram: &'a [u8],
    kind: u8,
    key: Option<&ProbeKey>,
) -> Result<(&'a [u8; BASE_BYTES], &'a [u8]), Malformed> {
    if datagram.len() > DATAGRAM_BYTES_MAX {
        return Err(Malformed::TooLong);
    }
    let (base, rest) = datagram
        .split_first_chunk::<BASE_BYTES>()
        .ok_or(Malformed::TooShort)?;
    if take(base, at::MAGIC) != MAGIC {
        return Err(Malformed::NotAProbe);
    }
    if take(base, at::VERSION) != [VERSION] {
        return Err(Malformed::Version);
    }
    if take(base, at::KIND) != [kind] {
        return Err(Malformed::Kind);
    }
    match (key, flags_of(base) & flag::KEYED != 0) {
        (None, false) => Ok((base, rest)),
        (Some(_), false) => Err(Malformed::Unkeyed),
        (None, true) => Err(Malformed::Keyed),
        (Some(key), true) => {
            let (rest, tag) = rest
                .split_last_chunk::<TAG_BYTES>()
                .ok_or(Malformed::TooShort)?;
            let covered = &datagram[..datagram.len() - TAG_BYTES];
            if key.accepts(covered, tag) {
                Ok((base, rest))
            } else {
                Err(Malformed::Authentication)
            }
        }
    }
}

#[inline]
fn put<const N: usize>(base: &mut [u8; BASE_BYTES], offset: usize, bytes: [u8; N]) {
    base[offset..offset + N].copy_from_slice(&bytes);
}

#[inline]
fn take<const N: usize>(base: &[u8; BASE_BYTES], offset: usize) -> [u8; N] {
    let mut bytes = [0; N];
    bytes.copy_from_slice(&base[offset..offset + N]);
    bytes
}

fn span_ns(span: Duration) -> u64 {
    u64::try_from(span.as_nanos()).unwrap_or(u64::MAX)
}
