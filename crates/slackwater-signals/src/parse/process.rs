//! Files of processes and threads.

use super::{number, number_until, only_line};

/// What a thread has used and waited for, in nanoseconds.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub(crate) struct Run {
    pub(crate) used: u64,
    pub(crate) waited: u64,
}

/// Parses `schedstat` of a thread: time on CPUs, time in the run queue, and how often it got a CPU.
pub(crate) fn schedstat(text: &[u8]) -> Option<Run> {
    let (used, text) = number_until(text, b' ')?;
    let (waited, text) = number_until(text, b' ')?;
    let (_, text) = number_until(text, b'\n')?;
    text.is_empty().then_some(Run { used, waited })
}

/// Parses the CPU time of a process in ticks, user and system, from its `stat`: fields 14 and 15 of
/// `proc_pid_stat(5)`.
pub(crate) fn stat_ticks(text: &[u8]) -> Option<u64> {
    let line = only_line(text)?;
    // The process name may contain parentheses and spaces. The first field after it is the third.
    let behind = line.iter().rposition(|byte| *byte == b')')?;
    let fields = line.get(behind + 2..)?.split(|byte| *byte == b' ');
    let mut times = fields.skip(14 - 3);
    let user = number(times.next()?)?;
    user.checked_add(number(times.next()?)?)
}

/// Parses thread ids, one on each line, of a file that is read in pieces. `partial` is the
/// unfinished line. Threads that cannot be seen from here have the id 0.
pub(crate) fn thread_ids(piece: &[u8], partial: &mut Option<u32>, ids: &mut Vec<u32>) {
    for byte in piece {
        if byte.is_ascii_digit() {
            let value = partial.unwrap_or(0).saturating_mul(10);
            *partial = Some(value.saturating_add(u32::from(byte - b'0')));
        } else {
            ids.extend(partial.take());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn schedstat_gives_used_and_waited_time() {
        let run = Run {
            used: 168_091,
            waited: 3_851_942,
        };
        assert_eq!(schedstat(b"168091 3851942 2\n"), Some(run));
        for text in [
            "",
            "1 2\n",
            "1 2 3",
            "1 2 3 4\n",
            "1  2 3\n",
            "1 -2 3\n",
            "1 2 3\n\n",
        ] {
            assert_eq!(schedstat(text.as_bytes()), None, "{text:?}");
        }
    }

    #[test]
    fn process_name_may_contain_any_characters_in_stat() {
        let stat = b"7 (a) (b c) S 1 1 1 0 -1 4 5 6 7 8 150 50 9 9 20 0 3 0 777 4096 9 18446744073709551615\n";
        assert_eq!(stat_ticks(stat), Some(200));
        assert_eq!(stat_ticks(b"7 (a) S 1\n"), None);
        assert_eq!(stat_ticks(b"7 (a)\n"), None);
    }

    #[test]
    fn thread_ids_may_be_split_across_reads() {
        let (mut partial, mut ids) = (None, Vec::new());
        thread_ids(b"12\n0\n3", &mut partial, &mut ids);
        assert_eq!((partial, ids.as_slice()), (Some(3), &[12, 0][..]));
        thread_ids(b"4\n", &mut partial, &mut ids);
        assert_eq!((partial, ids.as_slice()), (None, &[12, 0, 34][..]));
    }
}
