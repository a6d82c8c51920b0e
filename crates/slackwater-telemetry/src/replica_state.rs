//! The state of a replica: one word, with its start and its reason, for every display.
//!
//! `top`, the dashboard, `slackwater admin status`, `/status`, the metrics and the log all read the
//! same [`Standing`]. Only this module makes it:
//! [`StateTracker`](crate::state_tracker::StateTracker) merges the facts of all workers and
//! remembers when a state began, and [`Signs::state`] decides.

mod signs;

pub use signs::{HealthSigns, Signs, of_health};

use crate::attempt_failure::FailureKind;
use core::fmt;
use core::time::Duration;
use serde::{Deserialize, Serialize};
use slackwater_core::named;
use std::time::SystemTime;

named! {
    /// The state of a replica. The states are in order of severity, the worst last; the index of
    /// each is its [`code`](Self::code).
    #[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
    pub enum ReplicaState by as_str {
        /// It takes its share of the requests.
        #[default]
        Available = "available",
        /// Its weight is 0.
        Disabled = "disabled",
        /// It answers no probes; local measurements are used.
        Unprobed = "unprobed",
        /// It takes a growing share.
        WarmingUp = "warming_up",
        /// It takes less than its share, for failures or pushback.
        Limited = "limited",
        /// It takes no new requests, on purpose.
        Draining = "draining",
        /// It is taken out for failures.
        Ejected = "ejected",
        /// Probes of it time out.
        Unreachable = "unreachable",
        /// Its health checks failed, or attempts at it get no response.
        Down = "down",
    }
}

impl ReplicaState {
    /// Returns the state with that name.
    pub fn named(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|state| state.as_str() == name)
    }

    /// Its meaning, as a sentence for people.
    pub const fn meaning(self) -> &'static str {
        match self {
            Self::Available => "It takes its share of the requests.",
            Self::Disabled => "Its weight is 0.",
            Self::Unprobed => "It answers no probes; local measurements are used.",
            Self::WarmingUp => "It takes a growing share of the requests.",
            Self::Limited => "It takes less than its share, for failures or pushback.",
            Self::Draining => "It takes no new requests, on purpose.",
            Self::Ejected => "It is taken out for failures.",
            Self::Unreachable => "Probes of it time out.",
            Self::Down => "Its health checks failed, or attempts at it get no response.",
        }
    }

    /// A symbol for charts; empty for a healthy replica.
    pub const fn sign(self) -> &'static str {
        match self {
            Self::Available => "",
            Self::Disabled => "·",
            Self::Unprobed => "?",
            Self::WarmingUp => "▴",
            Self::Limited => "▾",
            Self::Draining => "↓",
            Self::Unreachable => "∅",
            Self::Ejected | Self::Down => "✕",
        }
    }

    /// Its code in live data.
    pub const fn code(self) -> u8 {
        self as u8
    }

    /// Whether the policy may choose it.
    pub const fn takes_requests(self) -> bool {
        matches!(
            self,
            Self::Available | Self::Unprobed | Self::WarmingUp | Self::Limited
        )
    }

    /// Returns whether an operator must know of it; the log has it as a warning.
    pub const fn is_alarming(self) -> bool {
        matches!(self, Self::Ejected | Self::Unreachable | Self::Down)
    }

    /// Returns whether an operator caused it on purpose.
    pub const fn is_on_purpose(self) -> bool {
        matches!(self, Self::Draining | Self::Disabled)
    }
}

impl fmt::Display for ReplicaState {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.as_str())
    }
}

/// Why a replica is in its state.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum Why {
    /// No reason: there is nothing to explain.
    #[default]
    Nothing,
    /// Its tier is not in use.
    Backup,
    /// Its weight is 0.
    NoWeight,
    /// Its health checks failed; the last failure, if it is known.
    ChecksFailed(Option<String>),
    /// The server behind an agent cannot be connected to.
    NotConnectable,
    /// Attempts at it get no response.
    NoResponse(FailureKind),
    /// An operator drained it.
    Drained,
    /// It reports that it takes no new requests.
    ReportsDraining,
    /// Probes time out, while other replicas answer theirs.
    ProbesTimeOut,
    /// It failed too often.
    Failures,
    /// It was too slow, or stopped responding.
    Slowness,
    /// It fails more often than others, or is slower, in the judgement of different workers.
    HeldBack,
    /// It fails more often than others.
    HeldBackFailing,
    /// It is slower than others.
    HeldBackSlow,
    /// It pushes requests back.
    Pushback,
    /// It was ejected, and its share grows again.
    Returning,
    /// It is new, or has restarted.
    New,
    /// It answers no probes: the policy uses local measurements.
    NoReport,
    /// It answers no probes: the policy treats it as an average replica.
    NoReportPolled,
}

impl Why {
    /// Whether each worker finds so by the requests that it sent itself.
    const fn is_of_workers(&self) -> bool {
        matches!(
            self,
            Self::Failures
                | Self::Slowness
                | Self::HeldBack
                | Self::HeldBackFailing
                | Self::HeldBackSlow
        )
    }

    /// How an operator can fix it; empty if there is nothing to do.
    pub const fn remedy(&self) -> &'static str {
        match self {
            Self::NoResponse(kind) => kind.remedy(),
            Self::ChecksFailed(_) | Self::NotConnectable => {
                "see whether it runs and answers its check"
            }
            Self::ProbesTimeOut => {
                "see whether the replica and its agent run, and whether the probe port is open"
            }
            Self::Failures => "see the replica's own log for errors; compare what was deployed",
            Self::NoReport | Self::NoReportPolled => {
                "run an agent before it, or open the way to its probe port"
            }
            Self::Slowness => "look at the replica's machine; compare it with the others",
            _ => "",
        }
    }
}

impl fmt::Display for Why {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Nothing => "",
            Self::Backup => "backup: its tier is not in use",
            Self::NoWeight => "its weight is 0",
            Self::ChecksFailed(None) => "health checks failed",
            Self::ChecksFailed(Some(failure)) => {
                return write!(f, "health checks failed: {failure}");
            }
            Self::NotConnectable => "the server cannot be connected to",
            Self::NoResponse(kind) => kind.as_str(),
            Self::Drained => "drained by an operator",
            Self::ReportsDraining => "the replica reports that it drains",
            Self::ProbesTimeOut => "probes time out, while other replicas answer",
            Self::Failures => "too many failures",
            Self::Slowness => "too slow, or stopped responding",
            Self::HeldBack => "fails more often than others, or is slower",
            Self::HeldBackFailing => "fails more often than others",
            Self::HeldBackSlow => "slower than others",
            Self::Pushback => "pushes requests back",
            Self::Returning => "back from ejection",
            Self::New => "new or restarted",
            Self::NoReport => "no probe answered, so local measurements are used",
            Self::NoReportPolled => "no probe answered, so it counts as an average replica",
        })
    }
}

/// The state of a replica, its start and its reason.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Standing {
    /// Its state.
    pub state: ReplicaState,
    /// Start of the state; `None` if the replica was in it when the process first saw it.
    pub since: Option<SystemTime>,
    /// The reason.
    pub why: Why,
    /// The share of its usual requests that it gets, in millionths, as the mean over workers;
    /// `None` if no worker limits it.
    pub share_millionths: Option<u32>,
    /// The facts behind the decision.
    pub signs: Signs,
}

impl Standing {
    /// The share of its usual requests in percent, rounded; at least 1 if it gets any. `None` in a
    /// state that another cause than its share decides.
    pub fn share_percent(&self) -> Option<u32> {
        use ReplicaState::{Ejected, Limited, WarmingUp};

        let is_limited = matches!(self.state, Limited | WarmingUp | Ejected);
        let share = self.share_millionths.filter(|_| is_limited)?;
        Some((share.saturating_add(5_000) / 10_000).max(u32::from(share > 0)))
    }

    /// The reason in words, with the number of workers that find so if others do not; `None` if
    /// there is nothing to explain.
    pub fn why(&self) -> Option<String> {
        let (why, state) = (&self.why, self.state);
        let judged = self.signs.health.as_ref().filter(|_| why.is_of_workers());
        match judged.map(|health| (health.workers_agreeing, health.workers)) {
            _ if *why == Why::Nothing => None,
            Some((some, all)) if some < all => {
                Some(format!("{why}; {state} by {some} of {all} workers"))
            }
            _ => Some(why.to_string()),
        }
    }
}

impl Standing {
    /// How an operator can fix it; `None` if there is nothing to do.
    pub fn remedy(&self) -> Option<String> {
        let remedy = self.why.remedy();
        (!remedy.is_empty()).then(|| remedy.to_owned())
    }
}

/// Whether a service has a replica that takes requests.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ServiceStanding {
    /// All replicas that should take requests are down, ejected or unreachable. Requests are still
    /// sent `[A8]`.
    pub all_fail: bool,
    /// Start of this state; `None` if it does not hold, or held when the process first saw the
    /// service.
    pub since: Option<SystemTime>,
    /// The reason that most of the replicas have; empty while they do not all fail.
    pub why: String,
    /// The remedy.
    pub remedy: &'static str,
    /// Replicas that should take requests: neither disabled nor draining.
    pub wanted: usize,
    /// Replicas in `wanted` that are neither down, ejected nor unreachable.
    pub taking: usize,
    /// Age of the newest evidence about any replica that is down because of failed attempts; `None`
    /// if other evidence decides, which is always fresh.
    pub evidence_age: Option<Duration>,
}

/// The description of a state, so that displays need no state names; `docs/reference/live.md`
/// documents each field.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct StateFacts {
    /// The state's name for programs.
    pub name: String,
    /// Its meaning, as a sentence.
    pub meaning: String,
    /// A symbol for charts; empty for a healthy replica.
    pub sign: String,
    /// Whether replicas in this state take requests.
    pub takes_requests: bool,
    /// Whether an operator must know of it.
    #[serde(default)]
    pub alarming: bool,
}

impl From<ReplicaState> for StateFacts {
    fn from(state: ReplicaState) -> Self {
        Self {
            name: state.as_str().to_owned(),
            meaning: state.meaning().to_owned(),
            sign: state.sign().to_owned(),
            takes_requests: state.takes_requests(),
            alarming: state.is_alarming(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn state_codes_and_names_round_trip() {
        for (place, state) in ReplicaState::ALL.into_iter().enumerate() {
            assert_eq!(usize::from(state.code()), place);
            assert_eq!(ReplicaState::named(state.as_str()), Some(state));
        }
        assert!(ReplicaState::ALL.is_sorted());
        assert_eq!(ReplicaState::named("lost"), None);
    }

    #[test]
    fn share_percent_rounds_up_above_zero() {
        let percent = |share_millionths| {
            Standing {
                state: ReplicaState::Limited,
                share_millionths,
                ..Standing::default()
            }
            .share_percent()
        };
        assert_eq!(percent(None), None);
        assert_eq!(percent(Some(0)), Some(0));
        assert_eq!(percent(Some(1)), Some(1));
        assert_eq!(percent(Some(125_000)), Some(13));
        assert_eq!(percent(Some(1_000_000)), Some(100));
        // The share of a replica that is down, for example, is not the reason.
        let with_share = ReplicaState::ALL.into_iter().filter(|state| {
            let standing = Standing {
                state: *state,
                share_millionths: Some(300_000),
                ..Standing::default()
            };
            standing.share_percent().is_some()
        });
        let with_share: Vec<_> = with_share.map(ReplicaState::as_str).collect();
        assert_eq!(with_share, ["warming_up", "limited", "ejected"]);
    }
}
