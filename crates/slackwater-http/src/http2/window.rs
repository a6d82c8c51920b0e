//! Windows: how much may be sent before the other side has taken it. RFC 9113 §5.2, §6.9

/// No window is larger.
pub(super) const WINDOW_MAX: u32 = (1 << 31) - 1;

/// Every window at first.
pub(super) const WINDOW_FIRST: u32 = 65_535;

/// A window grew beyond [`WINDOW_MAX`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Overflow;

/// What we may send. Below zero when the other side has made its windows smaller. RFC 9113 §6.9.2
#[derive(Clone, Copy, Debug)]
pub(super) struct SendWindow {
    room: i64,
    /// The most that it ever was.
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

    /// The most that there ever was room for: what the other side takes before it has to have read
    /// some.
    pub(super) fn largest(self) -> usize {
        usize::try_from(self.largest).unwrap_or(0)
    }

    /// So many are sent, of those for which there is room.
    pub(super) fn take(&mut self, octets: usize) {
        self.room -= i64::try_from(octets).unwrap_or(i64::MAX);
    }
}

/// The most that is kept of any window, and of what is kept for one stream. There are servers whose
/// window is as large as may be.
const KEPT_MAX: usize = 1 << 20;
const KEPT_OF_STREAM_MAX: usize = 16 << 10;

/// What of a connection's window is kept for short bodies, so that those that nobody reads do not
/// stop them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Kept {
    /// Octets that only streams use which have hardly sent anything yet.
    pub(super) room: usize,
    /// So much a stream may have sent, unread, to be one of those.
    pub(super) of_stream: usize,
}

impl Kept {
    /// Where all streams are one client's.
    pub(super) const NOTHING: Self = Self {
        room: 0,
        of_stream: 0,
    };

    /// Of a window of so many octets. Receivers give a window back when half of it was read, and
    /// some (nginx) when more than three quarters of a very large one were: less than that must not
    /// be left to long bodies.
    pub(super) fn of(window: usize) -> Self {
        Self {
            room: (window / 4).min(KEPT_MAX),
            of_stream: window.div_ceil(64).min(KEPT_OF_STREAM_MAX),
        }
    }
}

/// What the other side may send, and what of it is to be given back.
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

    /// What the other side would have to take, were all of it given back.
    #[cfg(test)]
    pub(super) const fn missing(&self) -> u32 {
        self.size - self.left - self.taken
    }

    /// It is as large as this from now on, unless it is larger. By how much more, of which the
    /// other side is to be told.
    pub(super) fn widen_to(&mut self, size: u32) -> u32 {
        let more = size.saturating_sub(self.size);
        self.widen(more);
        more
    }

    /// It is larger from now on, by so many octets, of which the other side is to be told.
    pub(super) fn widen(&mut self, octets: u32) {
        self.size += octets;
        self.left += octets;
    }

    /// So many have come; `false` if there was no room for them.
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

    /// So many that have come are taken. Gives what the other side is to be told, which is seldom:
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
    fn a_window_may_be_below_zero_and_not_above_its_maximum() {
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
    fn what_is_taken_is_given_back_by_halves() {
        let mut window = ReceiveWindow::new(100);
        assert!(window.receive(100));
        assert!(!window.receive(1));
        assert_eq!(window.release(49), None);
        assert!(!window.receive(1), "it has not been told yet");
        assert_eq!(window.release(1), Some(50));
        assert!(window.receive(50));
        assert!(!window.receive(1));
        assert_eq!(window.release(0), None);
        assert_eq!(window.release(100), Some(100));
    }
}
