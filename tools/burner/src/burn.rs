//! Burns CPU by the thread's own clock: it takes longer after a quota has run out, or beside a
//! neighbour, as real work does.

use core::hint::black_box;
use core::time::Duration;
use rustix::time::{ClockId, clock_gettime};

/// Burns this much CPU time of this thread, and at most some microseconds more.
pub(crate) fn burn(time: Duration) {
    let end = cpu_time() + time;
    while cpu_time() < end {
        turn();
    }
}

/// A microsecond or two of work between readings of the clock, which cost a system call.
pub(crate) fn turn() {
    // Each value depends on the previous one, and on nothing in memory.
    let mut value = 1_u64;
    for _ in 0..1_000 {
        value = black_box(value.wrapping_mul(0x9e37_79b9_7f4a_7c15));
    }
}

/// CPU time of this thread since its start.
pub(crate) fn cpu_time() -> Duration {
    let time = clock_gettime(ClockId::ThreadCPUTime);
    // Neither is ever negative.
    Duration::new(
        u64::try_from(time.tv_sec).unwrap_or(0),
        u32::try_from(time.tv_nsec).unwrap_or(0),
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn burn_uses_the_cpu_time_of_its_thread() {
        let begun = cpu_time();
        burn(Duration::from_millis(3));
        assert!(cpu_time().saturating_sub(begun) >= Duration::from_millis(3));
        // Waiting does not burn CPU time.
        let begun = cpu_time();
        let other = std::thread::spawn(|| burn(Duration::from_millis(20)));
        other.join().unwrap();
        assert!(cpu_time().saturating_sub(begun) < Duration::from_millis(20));
    }
}
