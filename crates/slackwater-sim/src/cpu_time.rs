//! What the simulation costs: CPU time, which neither a busy machine nor a second thread distorts as they do real time.

use core::time::Duration;
use rustix::time::{ClockId, clock_gettime};

/// CPU time that the calling thread has used so far.
pub(crate) fn of_this_thread() -> Duration {
    let used = clock_gettime(ClockId::ThreadCPUTime);
    // Neither part of it is negative.
    let seconds = u64::try_from(used.tv_sec).unwrap_or(0);
    let nanoseconds = u32::try_from(used.tv_nsec).unwrap_or(0);
    Duration::new(seconds, nanoseconds)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::hint::black_box;

    /// Uses so much CPU time, and says how much.
    fn work(at_least: Duration) -> Duration {
        let begun = of_this_thread();
        let mut number = 1_u64;
        while of_this_thread() - begun < at_least {
            for _ in 0..1_000 {
                number = black_box(number.wrapping_mul(3));
            }
        }
        of_this_thread() - begun
    }

    #[test]
    fn what_other_threads_use_does_not_count() {
        let before = of_this_thread();
        let other = std::thread::spawn(|| work(Duration::from_millis(20)));
        let others = other.join().expect("it ends");
        let own = of_this_thread() - before;
        assert!(others >= Duration::from_millis(20));
        assert!(
            own < Duration::from_millis(10),
            "{own:?}: waiting is no work"
        );
    }
}
