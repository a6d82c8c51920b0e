//! The date that a response gets which has none. RFC 9110 §6.6.1
//!
//! Written once a second for each worker's thread.

use core::cell::RefCell;
use std::time::{SystemTime, UNIX_EPOCH};

const LENGTH: usize = 29;
const DAYS: [&[u8; 3]; 7] = [b"Thu", b"Fri", b"Sat", b"Sun", b"Mon", b"Tue", b"Wed"];
const MONTHS: [&[u8; 3]; 12] = [
    b"Jan", b"Feb", b"Mar", b"Apr", b"May", b"Jun", b"Jul", b"Aug", b"Sep", b"Oct", b"Nov", b"Dec",
];

thread_local! {
    static LAST: RefCell<(u64, [u8; LENGTH])> = const { RefCell::new((u64::MAX, [0; LENGTH])) };
}

/// The date now, as `Sun, 06 Nov 1994 08:49:37 GMT`.
pub(super) fn with_now<R>(use_it: impl FnOnce(&[u8]) -> R) -> R {
    let now = SystemTime::now().duration_since(UNIX_EPOCH);
    let seconds = now.map_or(0, |now| now.as_secs());
    LAST.with_borrow_mut(|(second, text)| {
        if *second != seconds {
            *second = seconds;
            *text = write(seconds);
        }
        use_it(text)
    })
}

/// A date in the one form that may be sent. RFC 9110 §5.6.7
fn write(seconds: u64) -> [u8; LENGTH] {
    let (days, second) = (seconds / 86_400, seconds % 86_400);
    let (year, month, day) = civil(days);
    let mut text = *b"Thu, 01 Jan 1970 00:00:00 GMT";
    text[..3].copy_from_slice(DAYS[at(days % 7)]);
    two_digits(&mut text[5..7], day);
    text[8..11].copy_from_slice(MONTHS[at(month)]);
    two_digits(&mut text[12..14], year / 100);
    two_digits(&mut text[14..16], year % 100);
    two_digits(&mut text[17..19], second / 3_600);
    two_digits(&mut text[20..22], second / 60 % 60);
    two_digits(&mut text[23..25], second % 60);
    text
}

/// Year, month from 0 and day from 1 of a day since 1970-01-01.
///
/// Years are counted from March, so that the leap day is the last of one, and in eras of 400 years, which are all alike:
/// 146,097 days. A month's first day is then a linear function of the month, as (153 m + 2) / 5.
fn civil(days: u64) -> (u64, u64, u64) {
    let days = days + 719_468;
    let (era, day_of_era) = (days / 146_097, days % 146_097);
    let year_of_era =
        (day_of_era - day_of_era / 1_460 + day_of_era / 36_524 - day_of_era / 146_096) / 365;
    let day_of_year = day_of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    let month_from_march = (5 * day_of_year + 2) / 153;
    let day = day_of_year - (153 * month_from_march + 2) / 5 + 1;
    let month = (month_from_march + 2) % 12;
    let year = era * 400 + year_of_era + u64::from(month < 2);
    (year, month, day)
}

fn at(index: u64) -> usize {
    usize::try_from(index).unwrap_or(0)
}

fn two_digits(text: &mut [u8], number: u64) {
    let digit = |number: u64| b'0' + u8::try_from(number % 10).unwrap_or(0);
    text.copy_from_slice(&[digit(number / 10), digit(number)]);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn dates_are_written_as_they_must_be() {
        for (seconds, text) in [
            (0, "Thu, 01 Jan 1970 00:00:00 GMT"),
            (784_111_777, "Sun, 06 Nov 1994 08:49:37 GMT"),
            (951_782_399, "Mon, 28 Feb 2000 23:59:59 GMT"),
            (951_782_400, "Tue, 29 Feb 2000 00:00:00 GMT"),
            (951_868_800, "Wed, 01 Mar 2000 00:00:00 GMT"),
            (1_798_761_599, "Thu, 31 Dec 2026 23:59:59 GMT"),
            (4_107_542_400, "Mon, 01 Mar 2100 00:00:00 GMT"),
        ] {
            assert_eq!(write(seconds), *text.as_bytes(), "{text}");
        }
    }

    #[test]
    fn days_follow_each_other() {
        let lengths = |year: u64| {
            let leap =
                year.is_multiple_of(4) && (!year.is_multiple_of(100) || year.is_multiple_of(400));
            [
                31,
                28 + u64::from(leap),
                31,
                30,
                31,
                30,
                31,
                31,
                30,
                31,
                30,
                31,
            ]
        };
        let mut days = 0;
        for year in 1970..2405 {
            for (month, length) in (0..).zip(lengths(year)) {
                for day in 1..=length {
                    assert_eq!(civil(days), (year, month, day));
                    days += 1;
                }
            }
        }
    }
}
