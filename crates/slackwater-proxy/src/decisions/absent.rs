//! Replicas that could not be picked, as they are stored and reported.

use super::names::{name_of, part_of};
use crate::request_record::Directory;
use serde::Serialize;
use slackwater_core::policy::{Out, OutReason};
use slackwater_telemetry::replica_state::{ReplicaState, Why, of_health};
use std::borrow::Cow;

/// A replica that could not be picked, or only for less than its share.
#[derive(Debug, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[cfg_attr(feature = "schema", schemars(rename = "DecisionOut"))]
pub(super) struct Absent {
    /// Name of the replica.
    pub(super) replica: String,
    /// Its state and why it is in it, such as `limited: pushes requests back`. It is not in use
    /// while its tier of backups is not, and full without a free connection.
    pub(super) why: Cow<'static, str>,
    /// Share of the queries that the replica may get.
    pub(super) share: f64,
    /// Number of the replica's parts that this entry is about; absent if its policy treats the
    /// replica as one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) parts: Option<usize>,
}

impl Absent {
    /// Returns the replicas in this order: excluded replicas, replicas with less than their share,
    /// and last the replicas that are excluded for reasons other than their own behavior. Parts of
    /// one replica with the same reason are merged.
    pub(super) fn all(outs: &[Out], directory: Option<&dyn Directory>) -> Vec<Self> {
        let grave = |out: &&Out| match out.why {
            OutReason::TakenOut => 3,
            OutReason::Driver("not_in_use") => 2,
            _ => u8::from(out.share_millionths > 0),
        };
        let mut outs: Vec<_> = outs.iter().collect();
        outs.sort_by_key(grave);
        let mut all: Vec<Self> = Vec::with_capacity(outs.len());
        for out in outs {
            let told = Self::of(out, directory);
            // A part without a reason of its own has the reason of the other parts.
            let is_same = |other: &&mut Self| {
                let is_alike = other.why == told.why || out.why == OutReason::TakenOut;
                other.replica == told.replica && is_alike
            };
            match (all.iter_mut().find(is_same), told.parts) {
                (Some(other), Some(_)) => other.add(told.share),
                _ => all.push(told),
            }
        }
        all
    }

    fn of(out: &Out, directory: Option<&dyn Directory>) -> Self {
        Self {
            replica: name_of(out.replica, directory),
            why: why(out.why),
            share: f64::from(out.share_millionths) / 1e6,
            parts: part_of(out.replica, directory).map(|_| 1),
        }
    }

    /// Adds one more part, with that share.
    fn add(&mut self, share: f64) {
        let before = self.parts.unwrap_or(1);
        self.parts = Some(before + 1);
        let (before, all) = (before as f64, before as f64 + 1.0);
        self.share = (self.share * before + share) / all;
    }
}

/// The reason in words. Where it is a state, it has the state's one name.
fn why(reason: OutReason) -> Cow<'static, str> {
    let (state, why) = match reason {
        OutReason::Driver("down") => (ReplicaState::Down, Why::ChecksFailed(None)),
        OutReason::Driver("drained") => (ReplicaState::Draining, Why::Drained),
        OutReason::Draining => (ReplicaState::Draining, Why::ReportsDraining),
        OutReason::Lost => (ReplicaState::Unreachable, Why::ProbesTimeOut),
        OutReason::Health(health) => match of_health(health) {
            Some(judged) => judged,
            None => return ReplicaState::Available.as_str().into(),
        },
        OutReason::Driver("not_in_use") => return Why::Backup.to_string().into(),
        OutReason::Driver("full") => return "full: no free connection".into(),
        OutReason::TakenOut => return "down or draining".into(),
        other => return other.as_str().into(),
    };
    format!("{state}: {why}").into()
}

#[cfg(test)]
mod tests {
    use super::*;
    use slackwater_core::policy::HealthState;

    #[test]
    fn reasons_begin_with_a_state_where_one_applies() {
        for (reason, expected) in [
            (OutReason::Driver("down"), "down: health checks failed"),
            (
                OutReason::Driver("drained"),
                "draining: drained by an operator",
            ),
            (
                OutReason::Draining,
                "draining: the replica reports that it drains",
            ),
            (
                OutReason::Lost,
                "unreachable: probes time out, while other replicas answer",
            ),
            (
                OutReason::Driver("not_in_use"),
                "backup: its tier is not in use",
            ),
            (OutReason::Driver("full"), "full: no free connection"),
            (OutReason::TakenOut, "down or draining"),
            (
                OutReason::Health(HealthState::PushingBack),
                "limited: pushes requests back",
            ),
            (
                OutReason::Health(HealthState::OnProbation),
                "ejected: too slow, or stopped responding",
            ),
        ] {
            assert_eq!(why(reason), expected);
        }
        for health in HealthState::ALL {
            let told = why(OutReason::Health(health));
            let state = told.split(':').next().unwrap();
            assert!(ReplicaState::named(state).is_some(), "{told}");
        }
    }
}
