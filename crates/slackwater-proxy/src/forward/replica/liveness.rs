//! Checks whether a connection that is silent while requests are in flight is alive. It sends a
//! PING, and gives the connection up if nothing arrives in time. Without this check, the loss of a
//! replica's machine would go unnoticed. All times are in ticks.

/// State of one connection.
#[derive(Debug)]
pub(super) struct Liveness {
    /// Silence after which a PING is sent.
    interval: u64,
    /// Time in which anything must arrive after that.
    timeout: u64,
    asked_at: Option<u64>,
}

/// What to do next.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum LivenessAction {
    /// Look again after this many ticks.
    Wait(u64),
    /// Send a PING, and look again after this many ticks.
    Ask(u64),
    /// Give the connection up.
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

    /// Time until the first look.
    pub(crate) const fn interval(&self) -> u64 {
        self.interval
    }

    /// Decides at `now` about a connection that last received data at `received_at`; `is_busy` is
    /// whether requests are in flight.
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
    fn idle_connection_gets_one_ping_and_is_then_closed() {
        let mut liveness = Liveness::new(10, 5);
        assert_eq!(liveness.look(10, 3, true), LivenessAction::Wait(3));
        assert_eq!(liveness.look(13, 3, true), LivenessAction::Ask(5));
        assert_eq!(liveness.look(15, 3, true), LivenessAction::Wait(3));
        assert_eq!(liveness.look(18, 3, true), LivenessAction::Dead);
    }

    #[test]
    fn any_received_data_is_a_sign_of_life() {
        let mut liveness = Liveness::new(10, 5);
        assert_eq!(liveness.look(10, 0, true), LivenessAction::Ask(5));
        assert_eq!(liveness.look(15, 10, true), LivenessAction::Wait(5));
        assert_eq!(liveness.look(20, 10, true), LivenessAction::Ask(5));
    }

    #[test]
    fn no_ping_is_sent_while_no_request_waits() {
        let mut liveness = Liveness::new(10, 5);
        assert_eq!(liveness.look(100, 0, false), LivenessAction::Wait(10));
        assert_eq!(liveness.look(110, 0, true), LivenessAction::Ask(5));
        assert_eq!(liveness.look(120, 0, false), LivenessAction::Wait(10));
        // A PING that is still unanswered by then is repeated.
        assert_eq!(liveness.look(130, 0, true), LivenessAction::Ask(5));
    }
}
