//! Windows: how much may be sent before the peer has taken it. RFC 9113 §5.2, §6.9

/// The largest window.
pub(super) const WINDOW_MAX: u32 = (1 << 31) - 1;

/// The initial size of every window.
pub(super) const WINDOW_FIRST: u32 = 65_535;

/// A window grew beyond [`WINDOW_MAX`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Overflow;

/// What we may send. Negative after the peer has reduced its windows. RFC 9113 §6.9.2
#[derive(Clone, Copy, Debug)]
pub(super) struct SendWindow {
    room: i64,
    /// The largest value so far.
    largest: i64,
}

impl SendWindow {
    pub(super) fn new(octets: u32) -> Self {
        let room = i64::from(octets);
        Self {
            room,
            largest: room,
        }
    }

    pub(super) fn grow(&mut self, octets: i64) -> Result<(), Overflow> {
        let grown = self.room + octets;
        if grown > i64::from(WINDOW_MAX) {
            return Err(Overflow);
        }
        self.room = grown;
        self.largest = self.largest.max(grown);
        Ok(())
    }

    pub(super) fn room(self) -> usize {
        usize::try_from(self.room).unwrap_or(0)
    }

    /// The largest window so far: what the peer accepts before it must have read some.
    pub(super) fn largest(self) -> usize {
        usize::try_from(self.largest).unwrap_or(0)
    }

    /// Subtracts octets that were sent; there must be room for them.
    pub(super) fn take(&mut self, octets: usize) {
        self.room -= i64::try_from(octets).unwrap_or(i64::MAX);
    }
}

/// The most that is reserved of any window, and for one stream. The limits matter because some
/// servers announce the largest window.
const KEPT_MAX: usize = 1 << 20;
const KEPT_OF_STREAM_MAX: usize = 16 << 10;

/// The part of a connection's window that is reserved for short bodies, so that bodies that the
/// peer does not read cannot block them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Kept {
    /// Octets that only streams with a short body may use.
    pub(super) room: usize,
    /// A stream with more unread octets than this has a long body.
    pub(super) of_stream: usize,
}

impl Kept {
    /// Without a reserve, for servers: all streams belong to one client.
    pub(super) const NOTHING: Self = Self {
        room: 0,
        of_stream: 0,
    };

    /// Computes the reserve of a window of this size. Receivers return a window when half of it was
    /// read, and some (nginx) when more than three quarters of a very large one were. Long bodies
    /// must be able to use at least that much.
    pub(super) fn of(window: usize) -> Self {
        Self {
            room: (window / 4).min(KEPT_MAX),
            of_stream: window.div_ceil(64).min(KEPT_OF_STREAM_MAX),
        }
    }
}

/// What the peer may send, and what must be returned to it.
#[derive(Clone, Copy, Debug)]
pub(super) struct ReceiveWindow {
    size: u32,
    left: u32,
    taken: u32,
}

impl ReceiveWindow {
    pub(super) const fn new(size: u32) -> Self {
        Self {
            size,
            left: size,
            taken: 0,
        }
    }

    /// The octets that have arrived and have not been taken.
    #[cfg(test)]
    pub(super) const fn missing(&self) -> u32 {
        self.size - self.left - self.taken
    }

    /// Enlarges the window to `size`, unless it is larger. Returns the difference, which must be
    /// sent to the peer.
    pub(super) fn widen_to(&mut self, size: u32) -> u32 {
        let more = size.saturating_sub(self.size);
        self.widen(more);
        more
    }

    /// Enlarges the window by this many octets, which must be sent to the peer.
    pub(super) fn widen(&mut self, octets: u32) {
        self.size += octets;
        self.left += octets;
    }

    /// Subtracts octets that have arrived; `false` if the window is too small for them.
    pub(super) fn receive(&mut self, octets: usize) -> bool {
        let left = u32::try_from(octets).ok();
        match left.and_then(|octets| self.left.checked_sub(octets)) {
            Some(left) => {
                self.left = left;
                true
            }
            None => false,
        }
    }

    /// Records that octets were taken. Returns the increment to send to the peer, which is rare:
    /// half of a window at once.
    pub(super) fn release(&mut self, octets: usize) -> Option<u32> {
        self.taken += u32::try_from(octets).unwrap_or(0);
        if self.taken < self.size.div_ceil(2) || self.taken == 0 {
            return None;
        }
        self.left += self.taken;
        Some(core::mem::take(&mut self.taken))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn send_window_may_be_negative_but_not_overflow() {
        let mut window = SendWindow::new(10);
        window.take(10);
        assert_eq!(window.room(), 0);
        assert_eq!(window.grow(-5), Ok(()));
        assert_eq!(window.room(), 0);
        assert_eq!(window.grow(6), Ok(()));
        assert_eq!(window.room(), 1);
        assert_eq!(window.grow(i64::from(WINDOW_MAX) - 1), Ok(()));
        assert_eq!(window.grow(1), Err(Overflow));
        assert_eq!(window.room(), WINDOW_MAX as usize);
    }

    #[test]
    fn window_updates_are_sent_by_halves() {
        let mut window = ReceiveWindow::new(100);
        assert!(window.receive(100));
        assert!(!window.receive(1));
        assert_eq!(window.release(49), None);
        assert!(!window.receive(1), "the update has not been sent yet");
        assert_eq!(window.release(1), Some(50));
        assert!(window.receive(50));
        assert!(!window.receive(1));
        assert_eq!(window.release(0), None);
        assert_eq!(window.release(100), Some(100));
    }
}
