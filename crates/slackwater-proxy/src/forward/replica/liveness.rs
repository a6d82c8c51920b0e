//! Checks whether a connection that is silent while requests are in flight is alive. It sends a
//! PING, and gives the connection up if nothing arrives in time. Without this check, the loss of a
//! replica's machine would go unnoticed. All times are in ticks.

/// PINGs after `interval` until the next response head. Servers of gRPC-Go, by default, end a
/// connection at the fourth PING within five minutes without a head or data from them.
const QUICK_MAX: u32 = 2;

/// State of one connection.
#[derive(Debug)]
pub(super) struct Liveness {
    /// Silence after which a PING is sent.
    interval: u64,
    /// Silence after which one is sent once there were [`QUICK_MAX`].
    long_interval: u64,
    /// Time in which anything must arrive after that.
    timeout: u64,
    /// When the last PING was sent, whether it is unanswered, and the number since the last
    /// response head.
    asked_at: u64,
    is_asked: bool,
    quick: u32,
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
    pub(crate) const fn new(interval: u64, long_interval: u64, timeout: u64) -> Self {
        Self {
            interval,
            long_interval,
            timeout,
            asked_at: 0,
            is_asked: false,
            quick: 0,
        }
    }

    /// Time until the first look.
    pub(crate) const fn interval(&self) -> u64 {
        self.interval
    }

    /// Decides at `now` about a connection that last received data at `received_at` and a response
    /// head at `answered_at`; `is_busy` is whether requests are in flight.
    pub(crate) fn look(
        &mut self,
        now: u64,
        (received_at, answered_at): (u64, u64),
        is_busy: bool,
    ) -> LivenessAction {
        if !is_busy {
            self.is_asked = false;
            return LivenessAction::Wait(self.interval);
        }
        if core::mem::take(&mut self.is_asked) && received_at < self.asked_at {
            let waited_for = now.saturating_sub(self.asked_at);
            if waited_for >= self.timeout {
                return LivenessAction::Dead;
            }
            self.is_asked = true;
            return LivenessAction::Wait(self.timeout - waited_for);
        }
        if answered_at > self.asked_at {
            self.quick = 0;
        }
        let silent_for = now.saturating_sub(received_at);
        let interval = match self.quick {
            QUICK_MAX => self.long_interval,
            _ => self.interval,
        };
        if silent_for < interval {
            // A head may come meanwhile, after which the next PING is due earlier.
            let next = if silent_for < self.interval {
                self.interval - silent_for
            } else {
                (interval - silent_for).min(self.interval)
            };
            return LivenessAction::Wait(next);
        }
        self.quick = (self.quick + 1).min(QUICK_MAX);
        (self.asked_at, self.is_asked) = (now, true);
        LivenessAction::Ask(self.timeout)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn idle_connection_gets_one_ping_and_is_then_closed() {
        let mut liveness = Liveness::new(10, 330, 5);
        assert_eq!(liveness.look(10, (3, 0), true), LivenessAction::Wait(3));
        assert_eq!(liveness.look(13, (3, 0), true), LivenessAction::Ask(5));
        assert_eq!(liveness.look(15, (3, 0), true), LivenessAction::Wait(3));
        assert_eq!(liveness.look(18, (3, 0), true), LivenessAction::Dead);
    }

    #[test]
    fn any_received_data_is_a_sign_of_life() {
        let mut liveness = Liveness::new(10, 330, 5);
        assert_eq!(liveness.look(10, (0, 0), true), LivenessAction::Ask(5));
        assert_eq!(liveness.look(15, (10, 0), true), LivenessAction::Wait(5));
        assert_eq!(liveness.look(20, (10, 0), true), LivenessAction::Ask(5));
    }

    /// Looks as often as it is told to, from second 0 to 1000, at a peer that answers each PING at
    /// once, and sends heads at these seconds. Returns when PINGs were sent.
    fn pings(heads: &[u64]) -> Vec<u64> {
        let mut liveness = Liveness::new(10, 330, 5);
        let (mut now, mut received_at, mut sent) = (10, 0, Vec::new());
        while now < 1000 {
            let heads = heads.iter().filter(|head| **head <= now);
            let answered_at = heads.max().copied().unwrap_or(0);
            received_at = answered_at.max(received_at);
            now += match liveness.look(now, (received_at, answered_at), true) {
                LivenessAction::Wait(ticks) => ticks,
                LivenessAction::Ask(ticks) => {
                    sent.push(now);
                    received_at = now;
                    ticks
                }
                LivenessAction::Dead => panic!("{sent:?}"),
            };
        }
        sent
    }

    #[test]
    fn pings_are_rare_while_no_head_comes() {
        assert_eq!(pings(&[]), [10, 20, 350, 680]);
        assert_eq!(pings(&[300]), [10, 20, 310, 320, 650, 980]);
        assert_eq!(pings(&[15]), [10, 25, 35, 365, 695]);
    }

    #[test]
    fn no_ping_is_sent_while_no_request_waits() {
        let mut liveness = Liveness::new(10, 330, 5);
        assert_eq!(liveness.look(100, (0, 0), false), LivenessAction::Wait(10));
        assert_eq!(liveness.look(110, (0, 0), true), LivenessAction::Ask(5));
        assert_eq!(liveness.look(120, (0, 0), false), LivenessAction::Wait(10));
        // A PING that is still unanswered by then is repeated.
        assert_eq!(liveness.look(130, (0, 0), true), LivenessAction::Ask(5));
    }
}
