//! The dates of a certificate. RFC 5280 §4.1.2.5
//!
//! webpki verifies certificates, but does not expose the dates. An operator must be warned before a
//! certificate ends, so the few bytes are parsed here. No decision depends on them: a certificate
//! whose dates cannot be read is still served.

use core::time::Duration;
use std::time::{SystemTime, UNIX_EPOCH};

const SEQUENCE: u8 = 0x30;
const EXPLICIT_0: u8 = 0xa0;
const UTC_TIME: u8 = 0x17;
const GENERALIZED_TIME: u8 = 0x18;
const DAY_S: i64 = 86_400;

/// The first and the last second of validity.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Validity {
    /// Start, in seconds since 1970.
    pub not_before_s: i64,
    /// End, in seconds since 1970.
    pub not_after_s: i64,
}

impl Validity {
    /// Reads the dates of a certificate in DER; `None` if they cannot be read.
    pub fn of(certificate: &[u8]) -> Option<Self> {
        let (_, certificate, _) = element(certificate)?;
        let (_, mut tbs, _) = element(certificate)?;
        if tbs.first() == Some(&EXPLICIT_0) {
            (_, _, tbs) = element(tbs)?;
        }
        // Serial number, signature algorithm, issuer.
        for _ in 0..3 {
            (_, _, tbs) = element(tbs)?;
        }
        let (SEQUENCE, validity, _) = element(tbs)? else {
            return None;
        };
        let (not_before_s, rest) = time(validity)?;
        let (not_after_s, _) = time(rest)?;
        Some(Self {
            not_before_s,
            not_after_s,
        })
    }

    /// Whole days until the certificate ends, rounded down; negative after its end.
    pub fn days_left(&self, now: SystemTime) -> i64 {
        self.left_s(now).div_euclid(DAY_S)
    }

    /// Seconds until the certificate ends; negative after its end.
    pub fn left_s(&self, now: SystemTime) -> i64 {
        self.not_after_s - seconds(now)
    }

    /// Whether it is not yet valid.
    pub fn is_future(&self, now: SystemTime) -> bool {
        seconds(now) < self.not_before_s
    }

    /// Whether its validity has ended.
    pub fn is_over(&self, now: SystemTime) -> bool {
        seconds(now) > self.not_after_s
    }
}

fn seconds(at: SystemTime) -> i64 {
    let since = at.duration_since(UNIX_EPOCH).unwrap_or(Duration::ZERO);
    i64::try_from(since.as_secs()).unwrap_or(i64::MAX)
}

/// Splits DER into tag, content, and the rest.
fn element(der: &[u8]) -> Option<(u8, &[u8], &[u8])> {
    let (&[tag, first], rest) = der.split_first_chunk::<2>()?;
    let (length, rest) = match first {
        0..=0x7f => (usize::from(first), rest),
        0x81..=0x84 => {
            let (digits, rest) = rest.split_at_checked(usize::from(first & 0x7f))?;
            let length = digits
                .iter()
                .fold(0, |sum, digit| sum << 8 | usize::from(*digit));
            (length, rest)
        }
        _ => return None,
    };
    let (content, rest) = rest.split_at_checked(length)?;
    Some((tag, content, rest))
}

/// Parses a time in one of its two forms; also returns the rest. Both end in Z, and years of two
/// digits are 1950 to 2049.
fn time(der: &[u8]) -> Option<(i64, &[u8])> {
    let (tag, digits, rest) = element(der)?;
    let digits = digits.strip_suffix(b"Z")?;
    let (century_digits, digits) = match tag {
        UTC_TIME => (None, digits),
        GENERALIZED_TIME => {
            let (century, digits) = digits.split_at_checked(2)?;
            (Some(pair(century)?), digits)
        }
        _ => return None,
    };
    let mut pairs = digits.chunks(2).map(pair);
    let mut next = || pairs.next().flatten();
    let (year, month, day) = (next()?, next()?, next()?);
    let (hour, minute, second) = (next()?, next()?, next()?);
    let century = century_digits.unwrap_or(if year < 50 { 20 } else { 19 });
    let days = days_from_1970(century * 100 + year, month, day)?;
    let seconds = days * DAY_S + hour * 3600 + minute * 60 + second;
    Some((seconds, rest))
}

fn pair(digits: &[u8]) -> Option<i64> {
    let &[tens, ones] = digits else { return None };
    let digit = |byte: u8| char::from(byte).to_digit(10).map(i64::from);
    Some(digit(tens)? * 10 + digit(ones)?)
}

/// Days in the proleptic Gregorian calendar. Years begin in March here, so that the leap day is the
/// last.
fn days_from_1970(year: i64, month: i64, day: i64) -> Option<i64> {
    if !(1..=12).contains(&month) || !(1..=31).contains(&day) {
        return None;
    }
    let months_from_march = (month + 9) % 12;
    let year = if month <= 2 { year - 1 } else { year };
    let leap_days = year.div_euclid(4) - year.div_euclid(100) + year.div_euclid(400);
    let day_of_year = (153 * months_from_march + 2) / 5 + day - 1;
    // 719,468 days before 1970 was the first of March of the year 0.
    Some(365 * year + leap_days + day_of_year - 719_468)
}

#[cfg(test)]
mod tests {
    use super::*;
    use rcgen::{CertificateParams, KeyPair, date_time_ymd};

    fn made(from: (i32, u8, u8), until: (i32, u8, u8)) -> Vec<u8> {
        let mut params = CertificateParams::new(["a.test".to_owned()]).expect("a name");
        params.not_before = date_time_ymd(from.0, from.1, from.2);
        params.not_after = date_time_ymd(until.0, until.1, until.2);
        let key = KeyPair::generate().expect("a key");
        params
            .self_signed(&key)
            .expect("a certificate")
            .der()
            .to_vec()
    }

    #[test]
    fn validity_dates_are_read_exactly() {
        // Both forms: years to 2049 have two digits, later ones four.
        for (from, until, not_before_s, not_after_s) in [
            ((1970, 1, 1), (2000, 2, 29), 0, 951_782_400),
            ((2000, 3, 1), (2049, 12, 31), 951_868_800, 2_524_521_600),
            ((2024, 12, 31), (2050, 1, 1), 1_735_603_200, 2_524_608_000),
            ((1950, 1, 1), (2100, 3, 1), -631_152_000, 4_107_542_400),
        ] {
            let validity = Validity::of(&made(from, until)).expect("readable");
            assert_eq!(
                (validity.not_before_s, validity.not_after_s),
                (not_before_s, not_after_s)
            );
        }
    }

    #[test]
    fn remaining_days_are_exact_to_the_second() {
        let validity = Validity {
            not_before_s: 100,
            not_after_s: 100 + 2 * DAY_S,
        };
        let at = |seconds| UNIX_EPOCH + Duration::from_secs(seconds);
        assert!(validity.is_future(at(99)) && !validity.is_future(at(100)));
        assert_eq!(validity.days_left(at(100)), 2);
        assert_eq!(validity.days_left(at(101)), 1);
        let last = 100 + 2 * 86_400;
        assert_eq!(validity.days_left(at(last)), 0);
        assert!(!validity.is_over(at(last)));
        assert_eq!(validity.days_left(at(last + 1)), -1);
        assert!(validity.is_over(at(last + 1)));
    }

    #[test]
    fn garbage_has_no_dates_and_causes_no_panic() {
        let der = made((2020, 1, 1), (2030, 1, 1));
        for cut in 0..der.len().min(200) {
            let _ = Validity::of(&der[..cut]);
        }
        assert_eq!(Validity::of(&[]), None);
        assert_eq!(Validity::of(&[0x30, 0x84, 0xff, 0xff, 0xff, 0xff]), None);
        let month_13 = der
            .windows(2)
            .position(|pair| pair == [UTC_TIME, 13])
            .expect("a date");
        let mut wrong = der;
        wrong[month_13 + 4..month_13 + 6].copy_from_slice(b"13");
        assert_eq!(Validity::of(&wrong), None);
    }
}
