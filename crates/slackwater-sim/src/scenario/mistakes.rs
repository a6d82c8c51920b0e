//! What is wrong with a scenario: every impossible value, by the path of its field.

use super::Scenario;

/// What is wrong with a scenario, and where.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Mistake {
    /// The field's path as the TOML form writes it: `fleet[1].cores`.
    pub field: String,
    /// What is wrong, and what would be right.
    pub message: String,
}

impl Scenario {
    /// All mistakes, in the order of the fields; none: the scenario can be played.
    pub fn mistakes(&self) -> Vec<Mistake> {
        unimplemented!()
    }
}
