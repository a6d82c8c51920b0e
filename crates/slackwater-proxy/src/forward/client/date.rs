//! The `Date` field of responses that have none. RFC 9110 §6.6.1
//!
//! It is formatted once a second for each worker thread.

use core::cell::RefCell;
use core::time::Duration;
use httpdate::HttpDate;
use std::io::Write;
use std::time::{SystemTime, UNIX_EPOCH};

const LENGTH: usize = 29;
/// 9999-12-31 23:59:59, the last date that the format can express.
const LAST_SECOND: u64 = 253_402_300_799;

thread_local! {
    static LAST: RefCell<(u64, [u8; LENGTH])> = const { RefCell::new((u64::MAX, [0; LENGTH])) };
}

/// Passes the current date, as `Sun, 06 Nov 1994 08:49:37 GMT`.
pub(super) fn with_now<R>(use_it: impl FnOnce(&[u8]) -> R) -> R {
    let now = SystemTime::now().duration_since(UNIX_EPOCH);
    let seconds = now.map_or(0, |now| now.as_secs());
    LAST.with_borrow_mut(|(second, text)| {
        if *second != seconds {
            *second = seconds;
            *text = written(seconds);
        }
        use_it(text)
    })
}

/// Formats a date in the only form that may be sent. RFC 9110 §5.6.7
fn written(seconds: u64) -> [u8; LENGTH] {
    let time = UNIX_EPOCH + Duration::from_secs(seconds.min(LAST_SECOND));
    let mut text = *b"Thu, 01 Jan 1970 00:00:00 GMT";
    // It fits: every date is as long as that one.
    let _ = write!(&mut text[..], "{}", HttpDate::from(time));
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn dates_have_the_required_format() {
        for (seconds, text) in [
            (0, "Thu, 01 Jan 1970 00:00:00 GMT"),
            (784_111_777, "Sun, 06 Nov 1994 08:49:37 GMT"),
            (951_782_400, "Tue, 29 Feb 2000 00:00:00 GMT"),
            (1_798_761_599, "Thu, 31 Dec 2026 23:59:59 GMT"),
            (4_107_542_400, "Mon, 01 Mar 2100 00:00:00 GMT"),
            (LAST_SECOND, "Fri, 31 Dec 9999 23:59:59 GMT"),
            (u64::MAX, "Fri, 31 Dec 9999 23:59:59 GMT"),
        ] {
            assert_eq!(written(seconds), *text.as_bytes(), "{text}");
        }
    }
}
