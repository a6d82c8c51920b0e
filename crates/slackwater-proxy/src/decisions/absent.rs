//! Replicas that could not be picked, as they are stored and reported.

use super::names::{name_of, part_of};
use crate::request_record::Directory;
use serde::Serialize;
use slackwater_core::policy::{Out, OutReason};

/// A replica that could not be picked, or only for less than its share.
#[derive(Debug, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[cfg_attr(feature = "schema", schemars(rename = "DecisionOut"))]
pub(super) struct Absent {
    /// Name of the replica.
    pub(super) replica: String,
    /// Why: `down`, `drained`, `draining`, `unreachable`, `full`, `not_in_use`, `taken_out`, or a
    /// state of health.
    pub(super) why: &'static str,
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
            why: out.why.as_str(),
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
