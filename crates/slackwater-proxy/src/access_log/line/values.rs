//! Numbers, addresses and dates, without `core::fmt`, which takes more instructions for a short
//! value than the rest of a line.

use crate::access_log::buffer::Line;
use core::fmt::{Display, Write};
use core::net::{IpAddr, Ipv4Addr, Ipv6Addr};
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
        let short = u32::try_from(number).unwrap_or(u32::MAX);
        let hundred = |place: u32| PAIRS[(short / place % 100) as usize];
        let (high, middle, low) = (hundred(10_000), hundred(100), hundred(1));
        // Most numbers of a line are short.
        match short {
            ..100 => self.put_array(&low),
            100..1_000 => self.put_arrays((&[middle[1]], &low, b"")),
            1_000..10_000 => self.put_arrays((&middle, &low, b"")),
            10_000..100_000 => self.put_arrays((&[high[1]], &middle, &low)),
            100_000..1_000_000 => self.put_arrays((&high, &middle, &low)),
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
#[derive(Debug, Default)]
pub(super) struct SecondText {
    text: String,
    of: Option<u64>,
}

impl SecondText {
    /// Returns the text of the time's second, and the microseconds since that began. `show` makes
    /// the text if the last time was in another second, and must always be the same.
    pub(super) fn of<T: Display>(&mut self, at: SystemTime, show: fn(Date) -> T) -> (&str, u32) {
        // As `Date` does, takes times before 1970 for its first moment.
        let since = at.duration_since(UNIX_EPOCH).unwrap_or_default();
        if self.of != Some(since.as_secs()) {
            self.of = Some(since.as_secs());
            self.text.clear();
            // Writing to a string cannot fail.
            let _ = write!(self.text, "{}", show(Date::of(at)));
        }
        (&self.text, since.subsec_micros())
    }
}
