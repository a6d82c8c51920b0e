//! The knobs of the demo: parses a request into an order and checks its bounds.

use super::args::{RATE_MAX, RATE_MIN};
use super::replica::trouble::{Fault, Trouble};
use serde::Deserialize;
use serde::de::DeserializeOwned;
use slackwater_core::named;
use slackwater_core::policy::{POLICIES, PolicyEntry, policy_named};

/// One turn of a knob.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) enum Order {
    /// Sets the load, in requests per second to each side.
    Load(f64),
    /// Sets what is wrong with a replica, on both sides. Absent values stay as they are.
    Replica {
        index: usize,
        taken_percent: Option<u8>,
        fault: Option<Fault>,
    },
    /// Sets the policy of a side.
    Policy {
        side: usize,
        policy: &'static PolicyEntry,
    },
    /// Turns random slow episodes on or off.
    Weather(bool),
    /// Restores the state of the start.
    Reset,
}

named! {
    /// A knob, by the path of its request.
    #[derive(Debug, Clone, Copy, PartialEq, Eq)]
    pub(super) enum Knob by path {
        Load = "/demo/load",
        Replica = "/demo/replica",
        Policy = "/demo/policy",
        Weather = "/demo/weather",
        Reset = "/demo/reset",
    }
}

impl Knob {
    /// Parses the order in the JSON `body`, for fleets of this many replicas.
    ///
    /// # Errors
    /// What is wrong with the body, as text.
    pub(super) fn read(self, body: &[u8], replicas: usize) -> Result<Order, String> {
        match self {
            Self::Load => load(&json(body)?),
            Self::Replica => replica(&json(body)?, replicas),
            Self::Policy => policy(&json(body)?),
            Self::Weather => json(body).map(|weather: WeatherBody| Order::Weather(weather.on)),
            Self::Reset => json(body).map(|ResetBody {}| Order::Reset),
        }
    }
}

/// The load of both sides.
#[derive(Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[cfg_attr(test, schemars(rename = "DemoLoad"))]
#[serde(deny_unknown_fields)]
pub(crate) struct LoadBody {
    /// Requests per second to each side.
    #[cfg_attr(test, schemars(range(min = RATE_MIN, max = RATE_MAX)))]
    rate: f64,
}

/// What is wrong with a replica, on both sides. Absent values stay as they are.
#[derive(Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[cfg_attr(test, schemars(rename = "DemoReplica"))]
#[serde(deny_unknown_fields)]
pub(crate) struct ReplicaBody {
    /// Its place, from 0.
    replica: usize,
    /// Percent of its machine that a noisy neighbour takes; 0: none.
    #[cfg_attr(test, schemars(range(min = 0, max = Trouble::TAKEN_PERCENT_MAX)))]
    taken_percent: Option<u64>,
    /// The replica's own fault.
    #[cfg_attr(test, schemars(extend("enum" = Fault::NAMES)))]
    fault: Option<String>,
    /// Percent of its requests that are answered with 503, for the fault `failing`. Default: all.
    #[cfg_attr(test, schemars(range(min = 1, max = 100)))]
    failing_percent: Option<u64>,
}

/// The policy of a side.
#[derive(Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[cfg_attr(test, schemars(rename = "DemoSidePolicy"))]
#[serde(deny_unknown_fields)]
pub(crate) struct PolicyBody {
    /// The side, 0 or 1.
    #[cfg_attr(test, schemars(range(min = 0, max = 1)))]
    side: usize,
    /// The policy's name.
    #[cfg_attr(test, schemars(extend("enum" = POLICIES.iter().map(|it| it.name).collect::<Vec<_>>())))]
    policy: String,
}

/// Whether random slow episodes occur.
#[derive(Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[cfg_attr(test, schemars(rename = "DemoWeather"))]
#[serde(deny_unknown_fields)]
pub(crate) struct WeatherBody {
    /// They occur.
    on: bool,
}

/// An empty body.
#[derive(Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[cfg_attr(test, schemars(rename = "DemoReset"))]
#[serde(deny_unknown_fields)]
pub(crate) struct ResetBody {}

fn json<T: DeserializeOwned>(body: &[u8]) -> Result<T, String> {
    serde_json::from_slice(body).map_err(|error| format!("the body: {error}"))
}

fn load(body: &LoadBody) -> Result<Order, String> {
    let rate = body.rate;
    if (RATE_MIN..=RATE_MAX).contains(&rate) {
        Ok(Order::Load(rate))
    } else {
        Err(format!(
            "rate: found {rate}, expected from {RATE_MIN} to {RATE_MAX} requests per second"
        ))
    }
}

fn replica(body: &ReplicaBody, replicas: usize) -> Result<Order, String> {
    let index = body.replica;
    if index >= replicas {
        let last = replicas.saturating_sub(1);
        return Err(format!("replica: found {index}, expected from 0 to {last}"));
    }
    let taken = body.taken_percent;
    let taken_percent = taken
        .map(|percent| within("taken_percent", percent, 0, Trouble::TAKEN_PERCENT_MAX))
        .transpose()?;
    let failing = body.failing_percent;
    let failing = failing
        .map(|percent| within("failing_percent", percent, 1, 100))
        .transpose()?;
    let fault = match body.fault.as_deref() {
        Some("failing") => Some(Fault::Failing {
            percent: failing.unwrap_or(100),
        }),
        _ if failing.is_some() => {
            return Err("failing_percent: goes with \"fault\": \"failing\" only".to_owned());
        }
        Some("none") => Some(Fault::None),
        Some("killed") => Some(Fault::Killed),
        Some("stalled") => Some(Fault::Stalled),
        Some(other) => {
            let names = Fault::NAMES.join(", ");
            return Err(format!("fault: found {other:?}, expected one of {names}"));
        }
        None => None,
    };
    if taken_percent.is_none() && fault.is_none() {
        return Err("expected taken_percent, or fault, or both".to_owned());
    }
    Ok(Order::Replica {
        index,
        taken_percent,
        fault,
    })
}

fn within(name: &str, percent: u64, least: u8, most: u8) -> Result<u8, String> {
    u8::try_from(percent)
        .ok()
        .filter(|percent| (least..=most).contains(percent))
        .ok_or_else(|| format!("{name}: found {percent}, expected from {least} to {most}"))
}

fn policy(body: &PolicyBody) -> Result<Order, String> {
    let side = body.side;
    if side > 1 {
        return Err(format!("side: found {side}, expected 0 or 1"));
    }
    let policy = policy_named(&body.policy).ok_or_else(|| {
        let names: Vec<_> = POLICIES.iter().map(|entry| entry.name).collect();
        let names = names.join(", ");
        format!("policy: found {:?}, expected one of {names}", body.policy)
    })?;
    Ok(Order::Policy { side, policy })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(knob: Knob, body: &str) -> Result<Order, String> {
        knob.read(body.as_bytes(), 10)
    }

    #[test]
    fn requests_are_parsed_into_orders() {
        assert_eq!(read(Knob::Load, r#"{"rate": 12.5}"#), Ok(Order::Load(12.5)));
        assert_eq!(
            read(Knob::Weather, r#"{"on": false}"#),
            Ok(Order::Weather(false))
        );
        assert_eq!(read(Knob::Reset, "{}"), Ok(Order::Reset));
        let policy = policy_named("random").expect("it is there");
        let order = Order::Policy { side: 1, policy };
        assert_eq!(
            read(Knob::Policy, r#"{"side": 1, "policy": "random"}"#),
            Ok(order)
        );
        let replica = |taken_percent, fault| {
            Ok(Order::Replica {
                index: 9,
                taken_percent,
                fault,
            })
        };
        for (body, order) in [
            (r#""taken_percent": 0"#, replica(Some(0), None)),
            (r#""taken_percent": 95"#, replica(Some(95), None)),
            (r#""fault": "none""#, replica(None, Some(Fault::None))),
            (r#""fault": "killed""#, replica(None, Some(Fault::Killed))),
            (r#""fault": "stalled""#, replica(None, Some(Fault::Stalled))),
            (
                r#""fault": "failing""#,
                replica(None, Some(Fault::Failing { percent: 100 })),
            ),
            (
                r#""taken_percent": 5, "fault": "failing", "failing_percent": 1"#,
                replica(Some(5), Some(Fault::Failing { percent: 1 })),
            ),
        ] {
            let body = format!("{{\"replica\": 9, {body}}}");
            assert_eq!(read(Knob::Replica, &body), order, "{body}");
        }
    }

    #[test]
    fn invalid_values_are_reported_with_the_allowed_ones() {
        for (knob, body, complaint) in [
            (
                Knob::Load,
                r#"{"rate": 0.5}"#,
                "rate: found 0.5, expected from 1 to 2000",
            ),
            (
                Knob::Load,
                r#"{"rate": 2001}"#,
                "rate: found 2001, expected from 1 to 2000",
            ),
            (Knob::Load, r#"{"rate": 1e999}"#, "the body: "),
            (
                Knob::Load,
                r#"{"rat": 5}"#,
                "the body: unknown field `rat`, expected `rate`",
            ),
            (Knob::Load, "", "the body: EOF"),
            (Knob::Weather, r#"{"on": 1}"#, "the body: invalid type"),
            (
                Knob::Reset,
                r#"{"all": true}"#,
                "the body: unknown field `all`",
            ),
            (
                Knob::Policy,
                r#"{"side": 2, "policy": "random"}"#,
                "side: found 2, expected 0 or 1",
            ),
            (
                Knob::Policy,
                r#"{"side": 0, "policy": "nginx"}"#,
                "policy: found \"nginx\", expected one of prequal, ",
            ),
            (
                Knob::Replica,
                r#"{"replica": 10}"#,
                "replica: found 10, expected from 0 to 9",
            ),
            (
                Knob::Replica,
                r#"{"replica": 0}"#,
                "expected taken_percent, or fault",
            ),
            (
                Knob::Replica,
                r#"{"replica": 0, "taken_percent": 96}"#,
                "taken_percent: found 96, expected from 0 to 95",
            ),
            (
                Knob::Replica,
                r#"{"replica": 0, "fault": "failing", "failing_percent": 0}"#,
                "failing_percent: found 0, expected from 1 to 100",
            ),
            (
                Knob::Replica,
                r#"{"replica": 0, "fault": "killed", "failing_percent": 5}"#,
                "failing_percent: goes with \"fault\": \"failing\" only",
            ),
            (
                Knob::Replica,
                r#"{"replica": 0, "fault": "gone"}"#,
                "fault: found \"gone\", expected one of none, killed, stalled, failing",
            ),
        ] {
            let error = read(knob, body).expect_err(body);
            assert!(error.starts_with(complaint), "{body}: {error}");
        }
    }
}
