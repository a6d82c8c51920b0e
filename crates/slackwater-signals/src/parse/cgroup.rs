//! Files of cgroups, of both versions, and pressure.

use super::{lines, number, only_line, only_number, split_once};
use crate::reading::Throttled;
use core::time::Duration;

/// `cpu.stat` of either version.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub(crate) struct CpuStat {
    /// CPU time; only in version 2.
    pub(crate) used: Option<Duration>,
    /// Throttling, if the cpu controller is on.
    pub(crate) throttled: Option<Throttled>,
}

/// Parses `cpu.stat`: a word and a number on each line. Unknown words are skipped.
pub(crate) fn cpu_stat(text: &[u8]) -> Option<CpuStat> {
    let mut stat = CpuStat::default();
    let (mut periods, mut throttled_periods, mut time) = (None, None, None);
    for line in lines(text)? {
        let (word, value) = split_once(line, b' ')?;
        let value = number(value)?;
        match word {
            b"usage_usec" => stat.used = Some(Duration::from_micros(value)),
            b"nr_periods" => periods = Some(value),
            b"nr_throttled" => throttled_periods = Some(value),
            b"throttled_usec" => time = Some(Duration::from_micros(value)),
            b"throttled_time" => time = Some(Duration::from_nanos(value)),
            _ => {}
        }
    }
    if let (Some(periods), Some(throttled_periods), Some(time)) = (periods, throttled_periods, time)
    {
        stat.throttled = Some(Throttled {
            time,
            periods,
            throttled_periods,
        });
    }
    Some(stat)
}

/// CPU time that may be used in each period, in microseconds; `None`: no limit.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) struct PerPeriod {
    pub(crate) quota_us: Option<u64>,
    pub(crate) period_us: u64,
}

impl PerPeriod {
    /// Returns the quota in thousandths of a core, 1 or more.
    pub(crate) fn millicores(self) -> Option<u32> {
        let millicores = u128::from(self.quota_us?) * 1000 / u128::from(self.period_us.max(1));
        Some(u32::try_from(millicores).unwrap_or(u32::MAX).max(1))
    }

    pub(crate) const fn period(self) -> Duration {
        Duration::from_micros(self.period_us)
    }
}

/// Parses `cpu.max`: the quota or `max`, and the period.
pub(crate) fn cpu_max(text: &[u8]) -> Option<PerPeriod> {
    let (quota, period) = split_once(only_line(text)?, b' ')?;
    let quota_us = match quota {
        b"max" => None,
        quota => Some(number(quota)?),
    };
    let period_us = number(period).filter(|period| *period > 0)?;
    Some(PerPeriod {
        quota_us,
        period_us,
    })
}

/// A quota in microseconds; `None`: no limit.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) struct QuotaUs(pub(crate) Option<u64>);

/// Parses `cpu.cfs_quota_us`: -1 means no limit.
pub(crate) fn cfs_quota(text: &[u8]) -> Option<QuotaUs> {
    if text == b"-1\n" {
        return Some(QuotaUs(None));
    }
    only_number(text).map(|quota_us| QuotaUs(Some(quota_us)))
}

/// Parses `cpu.cfs_period_us`.
pub(crate) fn cfs_period(text: &[u8]) -> Option<u64> {
    only_number(text).filter(|period| *period > 0)
}

/// Counts the CPUs in a list such as `0-3,8`. An empty list gives `None`: no thread can run on no
/// CPU.
pub(crate) fn cpu_list_count(text: &[u8]) -> Option<u32> {
    let mut count = 0_u64;
    for range in only_line(text)?.split(|byte| *byte == b',') {
        let (first, last) = split_once(range, b'-').unwrap_or((range, range));
        let (first, last) = (number(first)?, number(last)?);
        count = count.checked_add(last.checked_sub(first)?.checked_add(1)?)?;
    }
    u32::try_from(count).ok()
}

/// Parses `total` of the line `some`, of `/proc/pressure/cpu` or of `cpu.pressure`.
pub(crate) fn pressure_some(text: &[u8]) -> Option<Duration> {
    let mut lines = lines(text)?;
    let line = lines.find_map(|line| line.strip_prefix(b"some "))?;
    let mut fields = line.split(|byte| *byte == b' ');
    for average in [b"avg10=".as_slice(), b"avg60=", b"avg300="] {
        fields.next()?.strip_prefix(average)?;
    }
    let total = number(fields.next()?.strip_prefix(b"total=")?)?;
    fields
        .next()
        .is_none()
        .then_some(Duration::from_micros(total))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cpu_stat_of_both_versions_is_parsed() {
        let old = b"nr_periods 20\nnr_throttled 19\nthrottled_time 1053379152\nnr_bursts 0\nburst_time 0\n";
        let throttled = Throttled {
            time: Duration::from_nanos(1_053_379_152),
            periods: 20,
            throttled_periods: 19,
        };
        let expected = CpuStat {
            used: None,
            throttled: Some(throttled),
        };
        assert_eq!(cpu_stat(old), Some(expected));
        let new = b"usage_usec 5\nuser_usec 3\nsystem_usec 2\nnr_periods 1\nnr_throttled 1\nthrottled_usec 9\n";
        let throttled = Throttled {
            time: Duration::from_micros(9),
            periods: 1,
            throttled_periods: 1,
        };
        let expected = CpuStat {
            used: Some(Duration::from_micros(5)),
            throttled: Some(throttled),
        };
        assert_eq!(cpu_stat(new), Some(expected));
        // Without the cpu controller there is only the time.
        let bare = cpu_stat(b"usage_usec 5\nuser_usec 3\nsystem_usec 2\n").unwrap();
        assert_eq!((bare.used, bare.throttled), (expected.used, None));
        for broken in ["", "usage_usec 5", "usage_usec\n", "usage_usec -5\n", "\n"] {
            assert_eq!(cpu_stat(broken.as_bytes()), None, "{broken:?}");
        }
    }

    #[test]
    fn quotas_of_both_versions_are_parsed() {
        let limit = |text: &[u8]| cpu_max(text).map(PerPeriod::millicores);
        assert_eq!(limit(b"max 100000\n"), Some(None));
        assert_eq!(limit(b"150000 100000\n"), Some(Some(1500)));
        assert_eq!(limit(b"1000 10000000\n"), Some(Some(1)), "never 0");
        assert_eq!(limit(b"18446744073709551615 1\n"), Some(Some(u32::MAX)));
        for broken in ["max\n", "max 0\n", "Max 100000\n", "-1 100000\n", "1 2 3\n"] {
            assert_eq!(limit(broken.as_bytes()), None, "{broken:?}");
        }
        assert_eq!(cfs_quota(b"-1\n"), Some(QuotaUs(None)));
        assert_eq!(cfs_quota(b"20000\n"), Some(QuotaUs(Some(20_000))));
        assert_eq!(cfs_quota(b"-2\n"), None);
        assert_eq!(cfs_period(b"0\n"), None);
    }

    #[test]
    fn cpu_lists_are_counted() {
        assert_eq!(cpu_list_count(b"0-3,8\n"), Some(5));
        assert_eq!(cpu_list_count(b"7\n"), Some(1));
        for broken in ["\n", "3-1\n", "0-\n", "0,\n", "0-18446744073709551615\n"] {
            assert_eq!(cpu_list_count(broken.as_bytes()), None, "{broken:?}");
        }
    }

    #[test]
    fn pressure_is_the_total_of_the_some_line() {
        let text = b"some avg10=9.68 avg60=3.00 avg300=2.84 total=56196065\nfull avg10=0.00 avg60=0.00 avg300=0.00 total=7\n";
        let expected = Some(Duration::from_micros(56_196_065));
        assert_eq!(pressure_some(text), expected);
        // Kernels before 5.13 have no line `full`.
        let first = text.iter().position(|byte| *byte == b'\n').unwrap();
        assert_eq!(pressure_some(&text[..=first]), expected);
        assert_eq!(pressure_some(&text[..first]), None, "cut off");
        assert_eq!(pressure_some(b"some total=5\n"), None);
        assert_eq!(
            pressure_some(b"full avg10=0.00 avg60=0.00 avg300=0.00 total=7\n"),
            None
        );
    }
}
