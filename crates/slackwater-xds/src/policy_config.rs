//! The configuration of a policy, and its check by the owner of the client.

use serde_json::{Map, Value};

/// The configuration of a policy: an object of JSON. Whole numbers are integers.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct PolicyConfig(Map<String, Value>);

impl PolicyConfig {
    /// A configuration with these fields.
    pub const fn new(fields: Map<String, Value>) -> Self {
        Self(fields)
    }

    /// Its fields.
    pub const fn fields(&self) -> &Map<String, Value> {
        &self.0
    }
}

/// What is wrong with a configuration.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PolicyMistake {
    /// The field, such as `prequal.probeRate`. Empty for the configuration as a whole.
    pub field: String,
    /// What was found, and what was expected.
    pub message: String,
}

/// Checks a configuration, so that a bad one is rejected (NACK).
pub type PolicyCheck = fn(&PolicyConfig) -> Result<(), PolicyMistake>;
