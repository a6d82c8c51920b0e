//! The facts that decide a replica's state, merged over workers, and the rule that decides it.

use super::{ReplicaState, Why};
use crate::attempt_failure::{DownAfter, Failing, FailureKind};
use core::time::Duration;
use slackwater_core::policy::HealthState;

/// The facts about a replica, over all workers. Each holds as soon as it holds in one worker,
/// except [`available`](Self::available), which must hold in all.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[expect(
    clippy::struct_excessive_bools,
    reason = "each holds or not, whatever the others do"
)]
pub struct Signs {
    /// Its weight is 0.
    pub disabled: bool,
    /// Its health checks report it down; the last failure, if it is known.
    pub down: Option<Option<String>>,
    /// An agent cannot connect to it.
    pub not_connectable: bool,
    /// An operator drained it.
    pub drained: bool,
    /// It reports that it takes no new requests.
    pub draining: bool,
    /// It is an agent that reports so because its server is gone: it refused a request for that.
    pub server_gone: bool,
    /// Attempts at it, the last in a row over all workers, got no response.
    pub failing: Option<Failing>,
    /// It was down for such attempts lately, and has responded since.
    pub down_lately: bool,
    /// It is ejected, and each attempt since then, of which there is at least one, failed so.
    pub trials_unanswered: bool,
    /// It has answered probes before and no longer does, while other replicas answer.
    pub unreachable: bool,
    /// It answers no probes.
    pub unprobed: bool,
    /// The policy sends probes at all.
    pub probed: bool,
    /// Its policy polls, and treats an unprobed replica as an average one.
    pub polled: bool,
    /// Results of requests to it; `None` if no worker tracks them.
    pub health: Option<HealthSigns>,
    /// Every worker may choose it.
    pub available: bool,
    /// Requests in flight from this process.
    pub in_flight: u64,
}

/// Results of requests to a replica: the most severe state in any worker, and means over workers.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HealthSigns {
    /// Its state.
    pub state: HealthState,
    /// Number of workers that find it in this state.
    pub workers_agreeing: usize,
    /// Number of workers that judge it.
    pub workers: usize,
    /// Whether slowness limits its share, and not failures; `None` if workers differ.
    pub is_slow: Option<bool>,
    /// The share of its usual requests that it gets, in millionths.
    pub share_millionths: u32,
    /// The share of its requests that succeed, in millionths.
    pub success_millionths: u32,
    /// Recent latency of its successful responses; `None` if there were none.
    pub latency: Option<Duration>,
    /// Success rate of the median replica of the service.
    pub median_success_millionths: u32,
    /// Latency of the median replica of the service.
    pub median_latency: Option<Duration>,
}

impl Signs {
    /// The cause, if attempts without a response make the replica down. `after`: how many it takes.
    pub(crate) fn no_response(&self, after: DownAfter) -> Option<FailureKind> {
        let failing = self.failing.as_ref()?;
        let kind = failing.last.kind;
        if self.draining {
            // After an agent's report it gets few requests, so one that it refused is enough. Other
            // failures are expected while a planned drain ends.
            return self.server_gone.then_some(kind);
        }
        // An ejected replica gets few attempts, so it would take long to fail many of them.
        let after = if self.trials_unanswered {
            DownAfter::FIRST
        } else {
            after
        };
        failing.is_down(after).then_some(kind)
    }

    /// The state and its reason. If several apply, the first in this order wins: `disabled`, `down`
    /// by checks, `draining` by an operator, `down` because an agent's server is gone, `draining`
    /// by report, `down` by attempts, `unreachable`, `ejected`, `limited`, `warming_up`,
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
        // A replica that drains may stop answering probes and requests, which is expected then.
        if self.drained {
            return (Draining, Why::Drained);
        }
        // Failed attempts name the cause more precisely than probes and the policy's own judgement.
        let after = if self.down_lately {
            DownAfter::AGAIN
        } else {
            DownAfter::FIRST
        };
        if let Some(kind) = self.no_response(after) {
            return (Down, Why::NoResponse(kind));
        }
        if self.draining {
            return (Draining, Why::ReportsDraining);
        }
        if self.unreachable {
            return (Unreachable, Why::ProbesTimeOut);
        }
        if let Some(health) = &self.health
            && let Some((state, why)) = of_health(health.state)
        {
            return match (why, health.is_slow) {
                (Why::HeldBack, Some(true)) => (state, Why::HeldBackSlow),
                (Why::HeldBack, Some(false)) => (state, Why::HeldBackFailing),
                (why, _) => (state, why),
            };
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
