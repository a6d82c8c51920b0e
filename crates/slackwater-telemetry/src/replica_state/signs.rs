//! The facts that decide a replica's state, merged over workers, and the rule by which they do.

use super::{ReplicaState, Why};
use crate::attempt_failure::{DownAfter, Failing};
use core::time::Duration;
use slackwater_core::policy::HealthState;

/// What is known of a replica, over all workers. Each of it holds as soon as one worker finds it
/// so, but for [`available`](Self::available), which takes all of them.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[expect(
    clippy::struct_excessive_bools,
    reason = "each holds or not, whatever the others do"
)]
pub struct Signs {
    /// Its weight is 0.
    pub disabled: bool,
    /// Its health checks say that it is down; the last failure, if it is known.
    pub down: Option<Option<String>>,
    /// An agent cannot connect to it.
    pub not_connectable: bool,
    /// An operator drained it.
    pub drained: bool,
    /// It reports that it takes no new requests.
    pub draining: bool,
    /// Attempts at it, the last in a row over all workers, got no response.
    pub failing: Option<Failing>,
    /// It was down for such attempts lately, and has responded since.
    pub down_lately: bool,
    /// It has answered probes and does not any more, while others do.
    pub unreachable: bool,
    /// It answers no probes.
    pub unprobed: bool,
    /// Probes are sent at all.
    pub probed: bool,
    /// Its policy polls, and takes an unprobed replica for an average one.
    pub polled: bool,
    /// How requests to it went; `None` where no worker watches that.
    pub health: Option<HealthSigns>,
    /// Every worker may choose it.
    pub available: bool,
    /// Requests that the process has there.
    pub in_flight: u64,
}

/// How requests to a replica went: the most severe state that any worker has it in, and the means
/// over workers.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HealthSigns {
    /// Its state.
    pub state: HealthState,
    /// The part of its requests that it gets, in millionths.
    pub share_millionths: u32,
    /// The part of its requests that succeed, in millionths.
    pub success_millionths: u32,
    /// How long its good answers took of late; `None` if there were none.
    pub latency: Option<Duration>,
    /// The success of the median replica of the service.
    pub median_success_millionths: u32,
    /// The latency of the median replica of the service.
    pub median_latency: Option<Duration>,
}

impl Signs {
    /// The state, and why. Of several the first in this order wins: `disabled`, `down` by checks,
    /// `draining`, `down` by attempts, `unreachable`, `ejected`, `limited`, `warming_up`,
    /// `unprobed`, `available`.
    pub fn state(&self) -> (ReplicaState, Why) {
        use ReplicaState::{Available, Disabled, Down, Draining, Unprobed, Unreachable};

        if self.disabled {
            return (Disabled, Why::NoWeight);
        }
        if let Some(failure) = &self.down {
            return (Down, Why::ChecksFailed(failure.clone()));
        }
        if self.not_connectable {
            return (Down, Why::NotConnectable);
        }
        // One that goes on purpose stops answering probes and requests, which is no trouble then.
        if self.drained {
            return (Draining, Why::Drained);
        }
        if self.draining {
            return (Draining, Why::ReportsDraining);
        }
        // More specific than what probes and the policy's own judgement say of the same trouble.
        let after = if self.down_lately {
            DownAfter::AGAIN
        } else {
            DownAfter::FIRST
        };
        if let Some(failing) = self.failing.as_ref().filter(|it| it.is_down(after)) {
            return (Down, Why::NoResponse(failing.last.kind));
        }
        if self.unreachable {
            return (Unreachable, Why::ProbesTimeOut);
        }
        let health = self.health.as_ref().map(|health| health.state);
        if let Some(judged) = health.and_then(of_health) {
            return judged;
        }
        match (self.probed && self.unprobed, self.polled) {
            (true, true) => (Unprobed, Why::NoReportPolled),
            (true, false) => (Unprobed, Why::NoReport),
            (false, _) if !self.available => (Available, Why::Backup),
            (false, _) => (Available, Why::Nothing),
        }
    }
}

/// The state of a replica by how its requests went; `None` if nothing speaks against it.
pub const fn of_health(health: HealthState) -> Option<(ReplicaState, Why)> {
    use ReplicaState::{Ejected, Limited, WarmingUp};

    Some(match health {
        HealthState::Ejected => (Ejected, Why::Failures),
        HealthState::OnProbation => (Ejected, Why::Slowness),
        HealthState::HeldBack => (Limited, Why::HeldBack),
        HealthState::PushingBack => (Limited, Why::Pushback),
        HealthState::Returning => (WarmingUp, Why::Returning),
        HealthState::WarmingUp => (WarmingUp, Why::New),
        _ => return None,
    })
}

#[cfg(test)]
mod tests;
