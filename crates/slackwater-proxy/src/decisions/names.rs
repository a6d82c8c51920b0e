//! Names of replicas in decisions, and which part of a replica a policy chose.

use crate::request_record::Directory;
use serde::Serialize;
use slackwater_core::ReplicaId;

/// One part out of several.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[cfg_attr(feature = "schema", schemars(rename = "DecisionPart"))]
pub(super) struct Part {
    /// Counted from 1.
    #[serde(rename = "part")]
    pub(super) place: usize,
    /// Number of parts of the replica.
    #[serde(rename = "parts")]
    pub(super) of: usize,
}

/// Returns the user's name of a replica or, if it has left, its policy's id.
pub(super) fn name_of(replica: ReplicaId, directory: Option<&dyn Directory>) -> String {
    let name = directory.and_then(|directory| directory.name(replica));
    name.map_or_else(|| format!("{replica} (left)"), String::from)
}

/// Returns which part of a replica this is, if the replica is several to its policy.
pub(super) fn part_of(replica: ReplicaId, directory: Option<&dyn Directory>) -> Option<Part> {
    let (place, of) = directory?.part(replica)?;
    Some(Part { place, of })
}
