//! The limit of interim responses, for both protocols. RFC 9110 §15.2
//!
//! Each costs its reader as much as a head, and none ends the exchange. An exchange with more of
//! them fails, like one whose response is not HTTP.

/// The most interim responses of one exchange. A replica has few reasons to send more than two
/// (100, then 103). Go's `net/http` gave up after 5 until Go 1.24, which limits their octets
/// instead of their number.
const INTERIM_MAX: u8 = 32;

/// The number of interim responses of one exchange so far.
#[derive(Clone, Copy, Debug, Default)]
pub struct InterimCount(u8);

impl InterimCount {
    /// Counts one more; `false` if it exceeds the limit.
    pub const fn add_one(&mut self) -> bool {
        self.0 = self.0.saturating_add(1);
        self.0 <= INTERIM_MAX
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn at_most_32_interim_responses_are_allowed() {
        let mut count = InterimCount::default();
        for _ in 0..32 {
            assert!(count.add_one());
        }
        for _ in 0..1000 {
            assert!(!count.add_one());
        }
    }
}
