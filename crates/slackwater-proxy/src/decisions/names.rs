//! What replicas are called in decisions, and which part of one a policy chose.

use crate::request_record::Directory;
use serde::Serialize;
use slackwater_core::ReplicaId;

/// Which of how many.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[cfg_attr(feature = "schema", schemars(rename = "DecisionPart"))]
pub(super) struct Part {
    /// Counted from 1.
    #[serde(rename = "part")]
    pub(super) place: usize,
    /// How many its replica has.
    #[serde(rename = "parts")]
    pub(super) of: usize,
}

/// What users call it or, if it has left, what its policy did.
pub(super) fn name_of(replica: ReplicaId, directory: Option<&dyn Directory>) -> String {
    let name = directory.and_then(|directory| directory.name(replica));
    name.map_or_else(|| format!("{replica} (left)"), String::from)
}

/// Which part of a replica this is, if it is one of several.
pub(super) fn part_of(replica: ReplicaId, directory: Option<&dyn Directory>) -> Option<Part> {
    let (place, of) = directory?.part(replica)?;
    Some(Part { place, of })
}
