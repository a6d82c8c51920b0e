//! Whether a connection that is silent while requests are out on it is alive: it is asked, and
//! given up if it doesn't answer. Nothing else would find out that a replica's machine is gone. All
//! times are in ticks.

/// What is known of one connection.
#[derive(Debug)]
pub(super) struct Liveness {
    /// It is asked after so long a silence.
    interval: u64,
    /// It has so long to say anything at all.
    timeout: u64,
    asked_at: Option<u64>,
}

/// What is to be done.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum LivenessAction {
    /// To look again after so many ticks.
    Wait(u64),
    /// To ask, and to look again after so many ticks.
    Ask(u64),
    /// To give it up.
    Dead,
}

impl Liveness {
    pub(crate) const fn new(interval: u64, timeout: u64) -> Self {
        Self {
            interval,
            timeout,
            asked_at: None,
        }
    }

    /// Until the first look.
    pub(crate) const fn interval(&self) -> u64 {
        self.interval
    }

    /// Looks at `now` at a connection that last received something at `received_at`; `is_busy`
    /// while requests are out on it.
    pub(crate) fn look(&mut self, now: u64, received_at: u64, is_busy: bool) -> LivenessAction {
        if !is_busy {
            self.asked_at = None;
            return LivenessAction::Wait(self.interval);
        }
        if let Some(asked_at) = self.asked_at.take()
            && received_at < asked_at
        {
            let waited_for = now.saturating_sub(asked_at);
            if waited_for >= self.timeout {
                return LivenessAction::Dead;
            }
            self.asked_at = Some(asked_at);
            return LivenessAction::Wait(self.timeout - waited_for);
        }
        let silent_for = now.saturating_sub(received_at);
        if silent_for < self.interval {
            return LivenessAction::Wait(self.interval - silent_for);
        }
        self.asked_at = Some(now);
        LivenessAction::Ask(self.timeout)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_silent_connection_is_asked_once_and_then_given_up() {
        let mut liveness = Liveness::new(10, 5);
        assert_eq!(liveness.look(10, 3, true), LivenessAction::Wait(3));
        assert_eq!(liveness.look(13, 3, true), LivenessAction::Ask(5));
        assert_eq!(liveness.look(15, 3, true), LivenessAction::Wait(3));
        assert_eq!(liveness.look(18, 3, true), LivenessAction::Dead);
    }

    #[test]
    fn whatever_it_says_it_is_alive() {
        let mut liveness = Liveness::new(10, 5);
        assert_eq!(liveness.look(10, 0, true), LivenessAction::Ask(5));
        assert_eq!(liveness.look(15, 10, true), LivenessAction::Wait(5));
        assert_eq!(liveness.look(20, 10, true), LivenessAction::Ask(5));
    }

    #[test]
    fn nothing_is_asked_while_nobody_waits() {
        let mut liveness = Liveness::new(10, 5);
        assert_eq!(liveness.look(100, 0, false), LivenessAction::Wait(10));
        assert_eq!(liveness.look(110, 0, true), LivenessAction::Ask(5));
        assert_eq!(liveness.look(120, 0, false), LivenessAction::Wait(10));
        // An answer that is late by then is asked for again.
        assert_eq!(liveness.look(130, 0, true), LivenessAction::Ask(5));
    }
}
