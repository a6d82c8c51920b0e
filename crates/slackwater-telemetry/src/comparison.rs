//! How a policy compares replicas, for programs and people: the factors with their units, the
//! formula, the order, and the tie-breaker.
//!
//! The core describes each [`Comparison`] once. Each display of decisions builds its columns from
//! that description, and reads the values here.

use serde::{Deserialize, Serialize, Serializer};
use slackwater_core::policy::{Comparison, Equals, Factor, POLICIES, Step, Values};
use std::collections::BTreeMap;

/// A comparison; `docs/reference/decisions.md` documents each field.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(default)]
pub struct ComparisonFacts {
    /// Its name.
    pub name: String,
    /// The formula of the decisive value.
    pub formula: String,
    /// Values that are the same for all candidates.
    pub shared: Vec<FactorFacts>,
    /// Values of each candidate.
    pub factors: Vec<FactorFacts>,
    /// The criteria that order candidates, the first one first.
    pub order: Vec<StepFacts>,
    /// The tie-breaker: `first`, `draw` or `chances`.
    pub equals: String,
    /// The factor with the probabilities, if the tie-breaker is `chances`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub chances: Option<String>,
}

/// A factor of a comparison.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(default)]
pub struct FactorFacts {
    /// Its key among the values.
    pub key: String,
    /// Its name, for people.
    pub name: String,
    /// Its unit: `requests`, `microseconds`, `share`, `count` or `flag`.
    pub unit: String,
}

/// A criterion of the order.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(default)]
pub struct StepFacts {
    /// The key of the factor that is compared.
    pub by: String,
    /// The value that wins: `lowest` or `highest`.
    pub best: String,
    /// The key of a flag; if it is 1, this step is skipped.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub unless: Option<String>,
}

impl From<&Comparison> for ComparisonFacts {
    fn from(comparison: &Comparison) -> Self {
        let factors = |factors: &[Factor]| factors.iter().map(FactorFacts::from).collect();
        let chances = match comparison.equals {
            Equals::Chances(by) => Some(by.to_owned()),
            Equals::First | Equals::Draw => None,
        };
        Self {
            name: comparison.name.to_owned(),
            formula: comparison.formula.to_owned(),
            shared: factors(comparison.shared),
            factors: factors(comparison.factors),
            order: comparison.order.iter().map(StepFacts::from).collect(),
            equals: comparison.equals.as_str().to_owned(),
            chances,
        }
    }
}

impl From<&Factor> for FactorFacts {
    fn from(factor: &Factor) -> Self {
        Self {
            key: factor.key.to_owned(),
            name: factor.name.to_owned(),
            unit: factor.unit.as_str().to_owned(),
        }
    }
}

impl From<&Step> for StepFacts {
    fn from(step: &Step) -> Self {
        Self {
            by: step.by.to_owned(),
            best: step.best.as_str().to_owned(),
            unless: step.unless.map(str::to_owned),
        }
    }
}

/// Returns every comparison of the policies, each once.
pub fn comparisons() -> Vec<ComparisonFacts> {
    let all = POLICIES.iter().flat_map(|entry| entry.comparisons);
    let by_name: BTreeMap<_, _> = all.map(|&it| (it.name, it)).collect();
    by_name.into_values().map(ComparisonFacts::from).collect()
}

/// Values of some factors of a comparison. As JSON it is an object: the known values by key.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Figures {
    /// The factors.
    pub factors: &'static [Factor],
    /// Their values, in the core's units.
    pub values: Values,
}

impl Figures {
    /// The values of a candidate.
    pub fn of_candidate(comparison: Option<&'static Comparison>, values: Values) -> Self {
        Self {
            factors: comparison.map_or(&[], |comparison| comparison.factors),
            values,
        }
    }

    /// The values that all candidates have in common.
    pub fn shared(comparison: Option<&'static Comparison>, values: Values) -> Self {
        Self {
            factors: comparison.map_or(&[], |comparison| comparison.shared),
            values,
        }
    }

    /// Iterates over the factors with their values in their units, if known.
    pub fn iter(&self) -> impl Iterator<Item = (&'static Factor, Option<f64>)> + use<> {
        let Self { factors, values } = *self;
        let places = factors.iter().enumerate();
        places.map(move |(place, factor)| (factor, values.at(place).map(|it| in_unit(factor, it))))
    }

    /// The value of a factor, if it is known.
    pub fn get(&self, key: &str) -> Option<f64> {
        let (_, value) = self.iter().find(|(factor, _)| factor.key == key)?;
        value
    }

    /// The known values by key.
    pub fn to_map(&self) -> BTreeMap<String, f64> {
        let known = |(factor, value): (&Factor, Option<f64>)| Some((factor.key.to_owned(), value?));
        self.iter().filter_map(known).collect()
    }
}

/// A value in the unit of its factor.
fn in_unit(factor: &Factor, value: u64) -> f64 {
    let counted = if factor.is_float {
        f64::from_bits(value)
    } else {
        value as f64
    };
    counted / factor.parts as f64
}

impl Serialize for Figures {
    fn serialize<S: Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
        let known = self.iter();
        to.collect_map(known.filter_map(|(factor, value)| Some((factor.key, value?))))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use slackwater_core::policy::DEFAULT_POLICY;

    #[test]
    fn values_have_units_and_unknown_ones_are_omitted() {
        const FACTORS: &[Factor] = &[
            Factor::time("a_us", "a", 1_000),
            Factor::requests("b", "b", 1_024),
            Factor::time("c_us", "c", 1_000).float(),
            Factor::share("d", "d"),
        ];
        let figures = Figures {
            factors: FACTORS,
            values: Values::of([1_500, 512, 2_500.0_f64.to_bits()]),
        };
        let json = serde_json::to_string(&figures).expect("numbers");
        assert_eq!(json, r#"{"a_us":1.5,"b":0.5,"c_us":2.5}"#);
        assert_eq!((figures.get("b"), figures.get("d")), (Some(0.5), None));
        assert_eq!(figures.to_map().len(), 3);
    }

    #[test]
    fn default_policy_lists_its_factors_in_formula_order() {
        let facts = ComparisonFacts::from(DEFAULT_POLICY.comparisons[0]);
        let names: Vec<_> = facts.factors.iter().map(|it| it.name.as_str()).collect();
        let expected = [
            "requests in flight",
            "mean latency",
            "turn surcharge",
            "expected delay",
            "last turn",
        ];
        assert_eq!(names, expected);
        assert!(comparisons().contains(&facts));
    }
}
