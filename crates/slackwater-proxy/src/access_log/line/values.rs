//! Numbers, addresses and dates, without `core::fmt`, which takes more instructions for a short
//! value than the rest of a line.

use crate::access_log::buffer::Line;
use core::fmt::{Display, Write};
use core::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use core::ops::Range;
use core::time::Duration;
use slackwater_telemetry::date::Date;
use std::time::{SystemTime, UNIX_EPOCH};

/// The two digits of each number below 100.
const PAIRS: [[u8; 2]; 100] = {
    let mut table = [[b'0'; 2]; 100];
    let mut number = 0_u8;
    while number < 100 {
        table[number as usize] = [b'0' + number / 10, b'0' + number % 10];
        number += 1;
    }
    table
};

impl Line<'_> {
    /// Adds a number in decimal digits.
    #[inline]
    pub(super) fn number(self, number: u64) -> Self {
        match u8::try_from(number) {
            Ok(digit @ 0..10) => self.put_array(&[b'0' + digit]),
            _ => self.digits(number),
        }
    }

    fn digits(self, number: u64) -> Self {
        let pair = |number: u32| &PAIRS[(number % 100) as usize];
        // Most numbers of a line are short.
        match u32::try_from(number).unwrap_or(u32::MAX) {
            n @ ..100 => self.put_array(pair(n)),
            n @ 100..1_000 => self.put_arrays((&[pair(n / 100)[1]], pair(n), b"")),
            n @ 1_000..10_000 => self.put_arrays((pair(n / 100), pair(n), b"")),
            n @ 10_000..1_000_000 => {
                let line = match pair(n / 10_000) {
                    [b'0', digit] => self.put_array(&[*digit]),
                    both => self.put_array(both),
                };
                line.put_arrays((pair(n / 100), pair(n), b""))
            }
            _ => self.put(itoa::Buffer::new().format(number).as_bytes()),
        }
    }

    /// Adds an address as `IpAddr` shows it.
    pub(super) fn address(self, address: IpAddr) -> Self {
        match address {
            IpAddr::V4(address) => self.v4(address),
            IpAddr::V6(address) => self.v6(address),
        }
    }

    fn v4(self, address: Ipv4Addr) -> Self {
        let [first, rest @ ..] = address.octets();
        let mut line = self.number(first.into());
        for octet in rest {
            line = line.put_array(b".").number(octet.into());
        }
        line
    }

    /// RFC 5952: the first of the longest runs of zeros is left out, unless it is a single one.
    fn v6(self, address: Ipv6Addr) -> Self {
        if let Some(address) = address.to_ipv4_mapped() {
            return self.put_array(b"::ffff:").v4(address);
        }
        let segments = address.segments();
        let (mut zeros, mut run) = (0..0, 0..0);
        for (place, segment) in segments.into_iter().enumerate() {
            let end = place + 1;
            run = if segment == 0 {
                run.start..end
            } else {
                end..end
            };
            if run.len() > zeros.len().max(1) {
                zeros = run.clone();
            }
        }
        if zeros.is_empty() {
            return self.groups(&segments);
        }
        let line = self.groups(&segments[..zeros.start]).put_array(b"::");
        line.groups(&segments[zeros.end..])
    }

    /// Adds groups of hexadecimal digits without leading zeros, and colons between them.
    fn groups(mut self, segments: &[u16]) -> Self {
        for (place, segment) in segments.iter().enumerate() {
            if place > 0 {
                self = self.put_array(b":");
            }
            let digits = (16 - segment.leading_zeros()).div_ceil(4).max(1);
            for digit in (0..digits).rev() {
                let digit = usize::from(segment >> (4 * digit)) & 0xf;
                self = self.put_array(&[b"0123456789abcdef"[digit]]);
            }
        }
        self
    }

    /// Adds the six digits of microseconds within a second.
    pub(super) fn fraction(self, mut micros: u32) -> Self {
        let mut digits = [b'0'; 6];
        for digit in digits.iter_mut().rev() {
            *digit += (micros % 10) as u8;
            micros /= 10;
        }
        self.put_array(&digits)
    }
}

/// Returns whole microseconds.
pub(super) fn as_micros(span: Duration) -> u64 {
    let micros = u64::from(span.subsec_micros());
    span.as_secs()
        .saturating_mul(1_000_000)
        .saturating_add(micros)
}

/// The part of a date that is the same for a whole second, and the second that it is of.
#[derive(Debug)]
pub(super) struct SecondText {
    text: String,
    of: Range<SystemTime>,
}

impl Default for SecondText {
    fn default() -> Self {
        Self {
            text: String::new(),
            of: UNIX_EPOCH..UNIX_EPOCH,
        }
    }
}

impl SecondText {
    /// Returns the text of the time's second. `show` makes it if the last time was in another
    /// second, and must always be the same.
    #[inline]
    pub(super) fn of<T: Display>(&mut self, at: SystemTime, show: fn(Date) -> T) -> &str {
        if !self.of.contains(&at) {
            self.renew(at, show);
        }
        &self.text
    }

    #[cold]
    fn renew<T: Display>(&mut self, at: SystemTime, show: fn(Date) -> T) {
        // As `Date` does, takes times before 1970 for its first moment.
        let since = at.duration_since(UNIX_EPOCH).unwrap_or_default();
        let start = UNIX_EPOCH + Duration::from_secs(since.as_secs());
        let end = start.checked_add(Duration::from_secs(1));
        self.of = start..end.unwrap_or(start);
        self.text.clear();
        // Writing to a string cannot fail.
        let _ = write!(self.text, "{}", show(Date::of(at)));
    }

    /// Returns the microseconds of a time since that second began.
    pub(super) fn micros(&self, at: SystemTime) -> u32 {
        let since = at.duration_since(self.of.start).unwrap_or_default();
        since.subsec_micros()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_text_of_a_second_is_renewed_when_the_time_leaves_it() {
        let mut second = SecondText::default();
        // A first time, a later one in its second, its end, the next second, an earlier one, 1970.
        for (secs, nanos) in [
            (7, 0),
            (7, 3_000),
            (7, 999_999_999),
            (8, 0),
            (6, 5_000),
            (0, 0),
        ] {
            let at = UNIX_EPOCH + Duration::new(secs, nanos);
            assert_eq!(
                second.of(at, Date::common),
                Date::of(at).common().to_string()
            );
            assert_eq!(second.micros(at), nanos / 1_000, "{at:?}");
        }
        let before = UNIX_EPOCH - Duration::from_nanos(1);
        let first = Date::of(UNIX_EPOCH).common().to_string();
        assert_eq!(second.of(before, Date::common), first);
        assert_eq!(second.micros(before), 0);
    }
}
