//! Points in time in the formats of the log, in UTC.

use core::fmt;
use std::time::{SystemTime, UNIX_EPOCH};

const MONTHS: [&str; 12] = [
    "Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec",
];

const DAY_S: u64 = 24 * 60 * 60;

/// A point in time, split into its parts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Date {
    year: u64,
    /// Month, from 1 to 12.
    month: u64,
    /// Day, from 1 to 31.
    day: u64,
    hour: u64,
    minute: u64,
    second: u64,
    microsecond: u32,
}

impl Date {
    /// Converts a time. Times before 1970 become its first moment.
    pub fn of(time: SystemTime) -> Self {
        let since = time.duration_since(UNIX_EPOCH).unwrap_or_default();
        let (days, second) = (since.as_secs() / DAY_S, since.as_secs() % DAY_S);
        let (year, month, day) = civil(days);
        Self {
            year,
            month,
            day,
            hour: second / 3600,
            minute: second / 60 % 60,
            second: second % 60,
            microsecond: since.subsec_micros(),
        }
    }

    /// The format of web servers: `21/Nov/2026:19:54:11 +0000`.
    pub fn common(self) -> impl fmt::Display {
        let month = usize::try_from(self.month - 1).unwrap_or(0);
        fmt::from_fn(move |f| {
            let name = MONTHS.get(month).unwrap_or(&"Jan");
            write!(
                f,
                "{:02}/{name}/{:04}:{:02}:{:02}:{:02} +0000",
                self.day, self.year, self.hour, self.minute, self.second
            )
        })
    }

    /// The format of RFC 3339: `2026-11-21T19:54:11.000123Z`.
    pub fn rfc3339(self) -> impl fmt::Display {
        fmt::from_fn(move |f| write!(f, "{}.{:06}Z", self.rfc3339_second(), self.microsecond))
    }

    /// The part of [`Self::rfc3339`] before the fraction of the second: `2026-11-21T19:54:11`.
    pub fn rfc3339_second(self) -> impl fmt::Display {
        fmt::from_fn(move |f| {
            write!(
                f,
                "{:04}-{:02}-{:02}T{:02}:{:02}:{:02}",
                self.year, self.month, self.day, self.hour, self.minute, self.second
            )
        })
    }
}

/// Milliseconds since 1970; 0 before.
pub fn since_epoch_ms(at: SystemTime) -> u64 {
    let since = at.duration_since(UNIX_EPOCH).unwrap_or_default();
    u64::try_from(since.as_millis()).unwrap_or(u64::MAX)
}

/// Year, month and day of a number of days since 1 January 1970.
fn civil(days: u64) -> (u64, u64, u64) {
    // Days in 400 years. The era begins on 1 March of the year 0, so that a leap day is the last
    // day of its year.
    const ERA_DAYS: u64 = 146_097;
    let days = days + 719_468;
    let (era, day_of_era) = (days / ERA_DAYS, days % ERA_DAYS);
    let year_of_era =
        (day_of_era - day_of_era / 1_460 + day_of_era / 36_524 - day_of_era / 146_096) / 365;
    let day_of_year = day_of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    let month_from_march = (5 * day_of_year + 2) / 153;
    let day = day_of_year - (153 * month_from_march + 2) / 5 + 1;
    let month = if month_from_march < 10 {
        month_from_march + 3
    } else {
        month_from_march - 9
    };
    let year = 400 * era + year_of_era + u64::from(month <= 2);
    (year, month, day)
}

#[cfg(test)]
mod tests {
    use super::*;
    use core::time::Duration;

    #[test]
    fn dates_match_known_values() {
        // Output of `date -u -d @SECONDS`.
        for (seconds, common, rfc3339) in [
            (
                0,
                "01/Jan/1970:00:00:00 +0000",
                "1970-01-01T00:00:00.000007Z",
            ),
            (
                951_782_399,
                "28/Feb/2000:23:59:59 +0000",
                "2000-02-28T23:59:59.000007Z",
            ),
            (
                951_782_400,
                "29/Feb/2000:00:00:00 +0000",
                "2000-02-29T00:00:00.000007Z",
            ),
            (
                1_109_635_200,
                "01/Mar/2005:00:00:00 +0000",
                "2005-03-01T00:00:00.000007Z",
            ),
            (
                1_798_761_599,
                "31/Dec/2026:23:59:59 +0000",
                "2026-12-31T23:59:59.000007Z",
            ),
            (
                4_107_542_400,
                "01/Mar/2100:00:00:00 +0000",
                "2100-03-01T00:00:00.000007Z",
            ),
        ] {
            let date = Date::of(UNIX_EPOCH + Duration::new(seconds, 7_000));
            assert_eq!(date.common().to_string(), common);
            assert_eq!(date.rfc3339().to_string(), rfc3339);
        }
        let before = Date::of(UNIX_EPOCH - Duration::from_secs(1));
        assert_eq!(before, Date::of(UNIX_EPOCH));
    }

    #[test]
    fn consecutive_days_have_consecutive_dates() {
        let mut before = civil(0);
        for days in 1..100_000 {
            let (year, month, day) = civil(days);
            let follows = (year, month, day) == (before.0, before.1, before.2 + 1)
                || (year, month, day) == (before.0, before.1 + 1, 1)
                || (year, month, day) == (before.0 + 1, 1, 1);
            assert!(follows && day <= 31 && month <= 12, "{year}-{month}-{day}");
            before = (year, month, day);
        }
    }
}
