//! CPU time that the simulation uses. Unlike real time, it does not depend on other load of the
//! machine or on other threads.

use core::time::Duration;
use rustix::time::{ClockId, clock_gettime};

/// A point on the calling thread's CPU clock, which stands still while other threads run.
#[derive(Clone, Copy, Debug)]
pub(crate) struct CpuTime(Duration);

impl CpuTime {
    pub(crate) fn now() -> Self {
        let used = clock_gettime(ClockId::ThreadCPUTime);
        // Neither part of it is negative.
        let seconds = u64::try_from(used.tv_sec).unwrap_or(0);
        let nanoseconds = u32::try_from(used.tv_nsec).unwrap_or(0);
        Self(Duration::new(seconds, nanoseconds))
    }

    /// Returns the CPU time that the thread has used since. Call it on the same thread.
    pub(crate) fn elapsed(self) -> Duration {
        Self::now().0.saturating_sub(self.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use core::hint::black_box;

    /// Uses at least this much CPU time, and returns how much it used.
    fn work(at_least: Duration) -> Duration {
        let begun = CpuTime::now();
        let mut number = 1_u64;
        while begun.elapsed() < at_least {
            for _ in 0..1_000 {
                number = black_box(number.wrapping_mul(3));
            }
        }
        begun.elapsed()
    }

    #[test]
    fn cpu_time_excludes_other_threads() {
        let before = CpuTime::now();
        let other = std::thread::spawn(|| work(Duration::from_millis(20)));
        let others = other.join().expect("it ends");
        let own = before.elapsed();
        assert!(others >= Duration::from_millis(20));
        assert!(
            own < Duration::from_millis(10),
            "{own:?}: waiting is no work"
        );
    }
}
