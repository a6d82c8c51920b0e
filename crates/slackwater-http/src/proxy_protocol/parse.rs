//! The bytes of a header: where it ends on a connection, and what it contains.
//!
//! The parser is strict: a sender of headers can claim any client address, so input that is not
//! exactly a header is refused, and nothing is guessed. TLVs are skipped, except for the checksum.

use core::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use core::str::FromStr;

/// The start of each version's header.
const SIGNATURE_1: &[u8] = b"PROXY ";
pub(super) const SIGNATURE_2: &[u8; 12] = b"\r\n\r\n\0\r\nQUIT\n";

/// The longest line of version 1, with its end.
const LINE_BYTES_MAX: usize = 107;
/// The bytes before the addresses in version 2.
const FIXED_BYTES: usize = 16;
/// The longest accepted header of version 2: far more than addresses and all TLVs in use.
const HEADER_BYTES_MAX: usize = 16 << 10;

/// The TLV with a checksum of the whole header.
const TLV_CRC32C: u8 = 3;

/// The content of a header.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Header {
    /// Source and destination of the client's connection. `None`: the proxy itself has connected
    /// (such as for a health check), or it does not know.
    pub addresses: Option<(SocketAddr, SocketAddr)>,
}

/// The result of parsing the bytes so far.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Parsed {
    /// All bytes so far belong to the header, and it is not complete.
    Unfinished,
    /// The header, and its length.
    Header(Header, usize),
}

/// Why bytes are not a header.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct Malformed(pub(super) &'static str);

const NONE: Header = Header { addresses: None };

/// Parses the first bytes of a connection. The result does not depend on how they were split.
pub fn parse(bytes: &[u8]) -> Result<Parsed, Malformed> {
    let begins = |signature: &[u8]| bytes.iter().zip(signature).all(|(one, other)| one == other);
    if begins(SIGNATURE_2) {
        parse_version_2(bytes)
    } else if begins(SIGNATURE_1) {
        parse_version_1(bytes)
    } else {
        Err(Malformed("no PROXY header"))
    }
}

fn parse_version_1(bytes: &[u8]) -> Result<Parsed, Malformed> {
    let possible = bytes.get(..LINE_BYTES_MAX).unwrap_or(bytes);
    let Some(end) = possible.iter().position(|byte| *byte == b'\n') else {
        return if bytes.len() < LINE_BYTES_MAX {
            Ok(Parsed::Unfinished)
        } else {
            Err(Malformed("a line of more than 107 bytes"))
        };
    };
    let line = possible[..end]
        .strip_suffix(b"\r")
        .ok_or(Malformed("a line that does not end with CR LF"))?;
    let line = core::str::from_utf8(line).map_err(|_| Malformed("a line that is not ASCII"))?;
    let mut words = line.split(' ').skip(1);
    let told = match words.next() {
        // Everything after it is ignored.
        Some("UNKNOWN") => NONE,
        Some("TCP4") => read_words::<Ipv4Addr>(words)?,
        Some("TCP6") => read_words::<Ipv6Addr>(words)?,
        _ => return Err(Malformed("a protocol other than TCP4, TCP6 and UNKNOWN")),
    };
    Ok(Parsed::Header(told, end + 1))
}

fn read_words<'a, A: FromStr + Into<IpAddr>>(
    mut words: impl Iterator<Item = &'a str>,
) -> Result<Header, Malformed> {
    let mut address = || {
        let address: A = words.next()?.parse().ok()?;
        Some(address.into())
    };
    let addresses: Option<(IpAddr, IpAddr)> = address().zip(address());
    let mut port = || {
        let word = words.next()?;
        // `parse` would accept a plus sign and leading zeros.
        let is_plain = word.bytes().all(|byte| byte.is_ascii_digit())
            && (word == "0" || !word.starts_with('0'));
        word.parse::<u16>().ok().filter(|_| is_plain)
    };
    let ports = port().zip(port());
    match (addresses, ports, words.next()) {
        (Some((from, to)), Some((from_port, to_port)), None) => Ok(Header {
            addresses: Some(((from, from_port).into(), (to, to_port).into())),
        }),
        _ => Err(Malformed("a line without two addresses and two ports")),
    }
}

fn parse_version_2(bytes: &[u8]) -> Result<Parsed, Malformed> {
    let Some((fixed, rest)) = bytes.split_at_checked(FIXED_BYTES) else {
        return Ok(Parsed::Unfinished);
    };
    let [version_and_command, family, length @ ..] = [fixed[12], fixed[13], fixed[14], fixed[15]];
    let length = usize::from(u16::from_be_bytes(length));
    if version_and_command >> 4 != 2 {
        return Err(Malformed("a version other than 1 and 2"));
    }
    let speaks_for_itself = match version_and_command & 0xf {
        0 => true,
        1 => false,
        _ => return Err(Malformed("a command other than LOCAL and PROXY")),
    };
    // With LOCAL everything else must be ignored, so a health check need not fill it in.
    if !speaks_for_itself && (family >> 4 > 3 || family & 0xf > 2) {
        return Err(Malformed("an unknown kind of address or of connection"));
    }
    if FIXED_BYTES + length > HEADER_BYTES_MAX {
        return Err(Malformed("a header of more than 16 KiB"));
    }
    let Some(body) = rest.get(..length) else {
        return Ok(Parsed::Unfinished);
    };
    let total = FIXED_BYTES + length;
    if speaks_for_itself {
        return Ok(Parsed::Header(NONE, total));
    }
    let (addresses_bytes, addresses) = match family >> 4 {
        1 => (12, body.first_chunk().map(ipv4)),
        2 => (36, body.first_chunk().map(ipv6)),
        3 => (216, None),
        _ => (0, None),
    };
    let tlvs =
        (body.get(addresses_bytes..)).ok_or(Malformed("a header too short for its addresses"))?;
    check_tlvs(&bytes[..total], total - tlvs.len())?;
    // Addresses of datagrams are not used here.
    let is_stream = family & 0xf == 1;
    let addresses = addresses.filter(|_| is_stream);
    Ok(Parsed::Header(Header { addresses }, total))
}

fn ipv4(bytes: &[u8; 12]) -> (SocketAddr, SocketAddr) {
    let number = |at: usize| {
        let octets = bytes[at..at + 4].iter();
        let number = octets.fold(0, |number: u32, byte| number << 8 | u32::from(*byte));
        IpAddr::from(Ipv4Addr::from_bits(number))
    };
    with_ports(number(0), number(4), &bytes[8..])
}

fn ipv6(bytes: &[u8; 36]) -> (SocketAddr, SocketAddr) {
    let number = |at: usize| {
        let octets = bytes[at..at + 16].iter();
        let number = octets.fold(0, |number: u128, byte| number << 8 | u128::from(*byte));
        IpAddr::from(Ipv6Addr::from_bits(number))
    };
    with_ports(number(0), number(16), &bytes[32..])
}

fn with_ports(from: IpAddr, to: IpAddr, ports: &[u8]) -> (SocketAddr, SocketAddr) {
    let port = |at: usize| u16::from(ports[at]) << 8 | u16::from(ports[at + 1]);
    ((from, port(0)).into(), (to, port(2)).into())
}

/// Skips the TLVs of a header, which begin at `start` and must end with it.
fn check_tlvs(header: &[u8], start: usize) -> Result<(), Malformed> {
    const BROKEN: Malformed = Malformed("a TLV that ends beyond the header");
    let mut at = start;
    while at < header.len() {
        let [kind, high, low] = *header[at..].first_chunk().ok_or(BROKEN)?;
        let value_at = at + 3;
        let value_end = value_at + usize::from(u16::from_be_bytes([high, low]));
        let value = header.get(value_at..value_end).ok_or(BROKEN)?;
        if kind == TLV_CRC32C {
            let told = <[u8; 4]>::try_from(value).ok().map(u32::from_be_bytes);
            // The checksum is computed with zeros in its own place.
            let pieces = [&header[..value_at], &[0; 4], &header[value_end..]];
            let made = pieces.into_iter().fold(0, crc32c::crc32c_append);
            if told != Some(made) {
                return Err(Malformed("a checksum that is not the header's"));
            }
        }
        at = value_end;
    }
    Ok(())
}

#[cfg(test)]
mod tests;
