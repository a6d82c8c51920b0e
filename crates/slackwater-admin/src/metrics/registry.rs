//! The list of all metrics.

use super::family::Family;
use super::{own, policy, process, replica, service, standing, system, workers};

/// All metrics by subject, in the order in which they are written.
pub(crate) const SUBJECTS: [(&str, &[Family]); 8] = [
    ("Process", process::FAMILIES),
    ("Services", service::FAMILIES),
    ("Replicas", replica::FAMILIES),
    ("Where replicas stand", standing::FAMILIES),
    ("Picks, probes and reports", policy::FAMILIES),
    ("Workers", workers::FAMILIES),
    ("Before a replica (`agent`)", own::FAMILIES),
    ("The system's view", system::FAMILIES),
];

/// All metrics.
pub(crate) fn families() -> impl Iterator<Item = &'static Family> {
    SUBJECTS.into_iter().flat_map(|(_, families)| families)
}
