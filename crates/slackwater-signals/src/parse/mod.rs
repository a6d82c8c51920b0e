//! Parses the files of `/proc` and of cgroups. The parsers are strict about form: a file that is
//! not as the kernel writes it gives `None`. They never panic, whatever the bytes.

mod cgroup;
mod mounts;
mod process;

pub(crate) use cgroup::{
    PerPeriod, QuotaUs, cfs_period, cfs_quota, cpu_list_count, cpu_max, cpu_stat, pressure_some,
};
pub(crate) use mounts::{Membership, Mount, memberships, mounts};
pub(crate) use process::{Run, schedstat, stat_ticks, thread_ids};

/// Parses a text of digits only. `None` if the number does not fit.
pub(crate) fn number(text: &[u8]) -> Option<u64> {
    if text.is_empty() {
        return None;
    }
    text.iter().try_fold(0_u64, |value, byte| {
        let digit = byte.is_ascii_digit().then(|| u64::from(byte - b'0'))?;
        value.checked_mul(10)?.checked_add(digit)
    })
}

/// Parses a number that ends with this byte. Returns the number and the rest after the byte. It is
/// a single pass because it runs for each thread.
fn number_until(text: &[u8], end: u8) -> Option<(u64, &[u8])> {
    /// This many digits always fit.
    const FIT: usize = 19;
    let mut value = 0_u64;
    for (place, byte) in text.iter().enumerate().take(FIT) {
        let digit = byte.wrapping_sub(b'0');
        if digit > 9 {
            let is_number = place > 0 && *byte == end;
            return is_number.then_some((value, &text[place + 1..]));
        }
        value = value * 10 + u64::from(digit);
    }
    for (place, byte) in text.iter().enumerate().skip(FIT) {
        let digit = byte.wrapping_sub(b'0');
        if digit > 9 {
            return (*byte == end).then_some((value, &text[place + 1..]));
        }
        value = value.checked_mul(10)?.checked_add(digit.into())?;
    }
    None
}

/// Returns the line of a file of one line, without its end.
pub(crate) fn only_line(text: &[u8]) -> Option<&[u8]> {
    let line = text.strip_suffix(b"\n")?;
    (!line.contains(&b'\n')).then_some(line)
}

/// Parses a file of one line that is a number.
pub(crate) fn only_number(text: &[u8]) -> Option<u64> {
    let (value, text) = number_until(text, b'\n')?;
    text.is_empty().then_some(value)
}

/// Returns the lines of a file that ends with the end of a line.
fn lines(text: &[u8]) -> Option<impl Iterator<Item = &[u8]>> {
    Some(text.strip_suffix(b"\n")?.split(|byte| *byte == b'\n'))
}

/// Splits at the first of these bytes, and drops it.
fn split_once(text: &[u8], at: u8) -> Option<(&[u8], &[u8])> {
    let place = text.iter().position(|byte| *byte == at)?;
    Some((&text[..place], &text[place + 1..]))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn numbers_are_digits_within_range() {
        assert_eq!(number(b"0"), Some(0));
        assert_eq!(number(b"18446744073709551615"), Some(u64::MAX));
        assert_eq!(number(b"18446744073709551616"), None);
        for text in ["", "-1", "+1", " 1", "1 ", "1.0", "0x1", "\u{661}"] {
            assert_eq!(number(text.as_bytes()), None, "{text}");
        }
        assert_eq!(only_number(b"7\n"), Some(7));
        assert_eq!(only_number(b"7"), None, "cut off");
        assert_eq!(only_number(b"7\n8\n"), None);
        let until_blank = |text: &'static [u8]| number_until(text, b' ');
        let (most, rest) = (u64::MAX, &b"2 "[..]);
        assert_eq!(until_blank(b"18446744073709551615 2 "), Some((most, rest)));
        for text in [
            "18446744073709551616 ",
            "184467440737095516150 ",
            " ",
            "",
            "7",
            "7\n",
            "-7 ",
        ] {
            assert_eq!(until_blank(text.as_bytes()), None, "{text}");
        }
    }

    /// Bytes that resemble what kernels write: their words and numbers, in any order and cut
    /// anywhere.
    fn nearly() -> impl Strategy<Value = Vec<u8>> {
        let word = prop_oneof![
            Just(b"some avg10=0.00 avg60=0.00 avg300=0.00 total=".to_vec()),
            Just(b"usage_usec ".to_vec()),
            Just(b"throttled_time ".to_vec()),
            Just(b"max ".to_vec()),
            Just(b"-1".to_vec()),
            Just(b"0::/".to_vec()),
            Just(b"4:cpu,cpuacct:/".to_vec()),
            Just(b"30 27 0:25 / /sys rw - cgroup2 cgroup2 rw".to_vec()),
            Just(b"\\040".to_vec()),
            Just(b"7 (a) S".to_vec()),
            Just(b"0-3,8".to_vec()),
            Just(b" ".to_vec()),
            Just(b"\n".to_vec()),
            any::<u64>().prop_map(|it| it.to_string().into_bytes()),
            prop::collection::vec(any::<u8>(), 0..8),
        ];
        prop::collection::vec(word, 0..24).prop_map(|words| words.concat())
    }

    proptest! {
        #[test]
        fn arbitrary_bytes_never_panic(text in nearly()) {
            let _ = schedstat(&text);
            let _ = stat_ticks(&text);
            let _ = cpu_stat(&text);
            let _ = cpu_max(&text);
            let _ = cfs_quota(&text);
            let _ = cfs_period(&text);
            let _ = cpu_list_count(&text);
            let _ = pressure_some(&text);
            let _ = only_number(&text);
            let _ = memberships(&text);
            let _ = mounts(&text);
            let mut ids = Vec::new();
            let mut partial = None;
            thread_ids(&text, &mut partial, &mut ids);
        }

        #[test]
        fn numbers_round_trip(value: u64) {
            prop_assert_eq!(number(value.to_string().as_bytes()), Some(value));
        }

        #[test]
        fn truncated_schedstat_is_rejected(used: u64, waited: u64, times: u64, cut in 0_usize..80) {
            let text = format!("{used} {waited} {times}\n");
            let whole = schedstat(text.as_bytes());
            prop_assert_eq!(whole, Some(Run { used, waited }));
            if cut < text.len() {
                prop_assert_eq!(schedstat(&text.as_bytes()[..cut]), None);
            }
        }
    }
}
