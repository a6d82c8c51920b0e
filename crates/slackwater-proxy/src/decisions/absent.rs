//! Who could not be chosen when a replica was picked, as it is kept and told.

use super::names::{name_of, part_of};
use crate::request_record::Directory;
use serde::Serialize;
use slackwater_core::policy::{Out, OutReason};

/// Who could not be chosen, or not for its whole share.
#[derive(Debug, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[cfg_attr(feature = "schema", schemars(rename = "DecisionOut"))]
pub(super) struct Absent {
    /// Who it is.
    pub(super) replica: String,
    /// Why: `down`, `drained`, `draining`, `unreachable`, `full`, `not_in_use`, `taken_out`, or a
    /// state of health.
    pub(super) why: &'static str,
    /// The part of the queries that may go there.
    pub(super) share: f64,
    /// Of how many of its parts this is told; absent of a replica that is one to its policy.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) parts: Option<usize>,
}

impl Absent {
    /// Those that are out before those that have less than their share, and last whoever is out for
    /// nothing that it did. Parts of one replica that are out for the same reason are one.
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
            // Of a part without a reason of its own it is that of the others.
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

    /// One more part, with that share.
    fn add(&mut self, share: f64) {
        let before = self.parts.unwrap_or(1);
        self.parts = Some(before + 1);
        let (before, all) = (before as f64, before as f64 + 1.0);
        self.share = (self.share * before + share) / all;
    }
}
