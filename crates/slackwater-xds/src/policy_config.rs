//! The configuration of a policy, and its check by the owner of the client.

use serde_json::{Map, Number, Value};

/// The number of whole values of a double that are all exact: 2^53.
const EXACT_MAX: f64 = 9_007_199_254_740_992.0;

/// The configuration of a policy: an object of JSON. Whole numbers are integers.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct PolicyConfig(Map<String, Value>);

impl PolicyConfig {
    /// A configuration with these fields, in which each number may be a double.
    pub fn new(fields: Map<String, Value>) -> Self {
        Self(exact_fields(fields))
    }

    /// Its fields.
    pub const fn fields(&self) -> &Map<String, Value> {
        &self.0
    }
}

fn exact_fields(fields: Map<String, Value>) -> Map<String, Value> {
    let fields = fields.into_iter();
    fields.map(|(name, value)| (name, exact(value))).collect()
}

/// A value whose whole numbers are integers.
fn exact(value: Value) -> Value {
    match value {
        Value::Number(number) => whole(&number).map_or(Value::Number(number), Value::from),
        Value::Array(values) => values.into_iter().map(exact).collect(),
        Value::Object(fields) => exact_fields(fields).into(),
        other => other,
    }
}

/// A whole double as an integer.
fn whole(number: &Number) -> Option<i64> {
    let double = number.as_f64().filter(|_| number.is_f64())?;
    let is_exact = double.fract() == 0.0 && double.abs() <= EXACT_MAX;
    #[expect(
        clippy::cast_possible_truncation,
        reason = "it is whole and small enough"
    )]
    is_exact.then_some(double as i64)
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
