//! What a control plane calls a fleet.

use core::fmt;

/// The name of a fleet at a control plane. As text: `web`, and `cluster web`.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum FleetName {
    /// The name of a cluster (CDS), which leads to the endpoints.
    Cluster(String),
    /// The name of the endpoints themselves (EDS).
    Endpoints(String),
}

impl FleetName {
    /// The longest name of a resource, in bytes.
    pub const BYTES_MAX: usize = 1024;

    /// Whether a text can be the name of one resource: 1 to [`Self::BYTES_MAX`] bytes without
    /// control characters. To subscribe to `*` is to subscribe to all, so it is none.
    pub fn fits(name: &str) -> bool {
        (1..=Self::BYTES_MAX).contains(&name.len())
            && !name.chars().any(char::is_control)
            && name != "*"
    }
}

impl fmt::Display for FleetName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Cluster(name) => write!(f, "cluster {name}"),
            Self::Endpoints(name) => f.write_str(name),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_log_tells_a_cluster_from_its_endpoints() {
        let names = [FleetName::Cluster, FleetName::Endpoints].map(|of| of("web".to_owned()));
        assert_eq!(names.map(|it| it.to_string()), ["cluster web", "web"]);
    }
}
