//! The demo's additions to live data: the positions of the knobs, and what the load generators
//! measure. `docs/reference/live.md` describes each field.

use super::args::{RATE_MAX, RATE_MIN};
use super::picture::{Picture, Quantiles, Recent, Side, Weather};
use super::replica::trouble::{Fault, Trouble};
use super::verdict::{Contender, Tense, doubt, verdict};
use core::time::Duration;
use serde::Serialize;
use serde_json::{Value, json};
use slackwater_admin::Extra;
use slackwater_core::policy::POLICIES;
use std::sync::Arc;
use tokio::sync::watch;

/// The latest picture; `None` before the first.
pub(super) type Latest = watch::Receiver<Option<Arc<Picture>>>;

/// The demo's part of live data, made from the latest picture.
#[derive(Debug)]
pub(super) struct DemoLive {
    pub(super) seed: u64,
    pub(super) latest: Latest,
}

impl DemoLive {
    fn fleet(&self) -> DemoFleet {
        let policies = POLICIES.iter().map(|it| Offered {
            name: it.name,
            about: it.about,
        });
        DemoFleet {
            policies: policies.collect(),
            rate_min: RATE_MIN,
            rate_max: RATE_MAX,
            taken_percent_max: Trouble::TAKEN_PERCENT_MAX,
            faults: Fault::NAMES,
            seed: self.seed,
        }
    }

    /// The tick; `None` before the first picture.
    fn tick(&self) -> Option<DemoTick> {
        let picture = self.latest.borrow().clone()?;
        Some(DemoTick {
            in_force: in_force(&picture),
            sides: picture.sides.each_ref().map(side),
        })
    }
}

impl Extra for DemoLive {
    fn fleet(&self) -> Value {
        json!(Self::fleet(self))
    }

    fn tick(&self) -> Value {
        json!(Self::tick(self))
    }
}

/// Additional fields of a fleet in a demo.
#[derive(Debug, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[cfg_attr(test, schemars(rename = "DemoFleet"))]
pub(crate) struct DemoFleet {
    /// The policies that a side may have.
    policies: Vec<Offered>,
    /// The least load, in requests per second to each side.
    rate_min: f64,
    /// The highest load, likewise.
    rate_max: f64,
    /// The most that a neighbour takes of a replica's machine, in percent.
    taken_percent_max: u8,
    /// The names of faults, in the order that columns of faults count.
    faults: [&'static str; 4],
    /// Seed of arrivals, costs and weather.
    seed: u64,
}

/// A policy that a side may get.
#[derive(Debug, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[cfg_attr(test, schemars(rename = "DemoPolicy"))]
struct Offered {
    /// Its name.
    name: &'static str,
    /// Its description, in a sentence.
    about: &'static str,
}

/// The positions of the knobs, and their effects. It is also the answer to turning a knob.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[cfg_attr(test, schemars(rename = "DemoInForce"))]
pub(crate) struct InForce {
    /// Since the first request, in milliseconds.
    elapsed_ms: u64,
    /// How long the demo runs, in milliseconds; `null` until it is stopped.
    length_ms: Option<u64>,
    /// Requests per second that are being sent to each side.
    rate: f64,
    /// Whether random slow episodes occur.
    weather: bool,
    /// The replica that an episode slows now, by its place; `null`: none.
    slowed: Option<usize>,
    /// Lateness of sending, in milliseconds: 1 % of the requests leave at least this late.
    sent_late_p99_ms: f64,
    /// The difference between the sides in a sentence; empty before there is one.
    verdict: String,
    /// The reason to doubt the verdict; `null` if there is none.
    doubt: Option<String>,
    /// Columns over the replicas of one side; both sides have the same.
    replicas: Troubles,
}

/// What is wrong with replicas, as columns.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[cfg_attr(test, schemars(rename = "DemoReplicas"))]
struct Troubles {
    /// Percent of its machine that a noisy neighbour takes.
    taken_percent: Vec<u32>,
    /// Index of its fault in the fleet's `faults`.
    fault: Vec<u32>,
    /// Percent of its requests that are answered with 503 while its fault is `failing`; otherwise
    /// 0.
    failing_percent: Vec<u32>,
    /// Thousandths of a core that it has now.
    capacity_milli: Vec<u32>,
}

/// Additional fields of a tick in a demo.
#[derive(Debug, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[cfg_attr(test, schemars(rename = "DemoTick"))]
pub(crate) struct DemoTick {
    #[serde(flatten)]
    in_force: InForce,
    /// Both sides, in the order of the services.
    sides: [SideTick; 2],
}

/// One side, as its load generator measures it.
#[derive(Debug, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[cfg_attr(test, schemars(rename = "DemoSide"))]
struct SideTick {
    /// The name of its service.
    service: String,
    /// Its policy.
    policy: &'static str,
    /// Requests that have ended since the start.
    requests: u64,
    /// Requests since the start that failed.
    errors: u64,
    /// The last 10 s.
    recent: Figures,
    /// Since the start, or since the last change of a policy or reset.
    overall: Figures,
}

/// Requests that ended within a period. Latencies are from the intended start, in microseconds, and
/// `null` if no request ended.
#[derive(Debug, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[cfg_attr(test, schemars(rename = "DemoFigures"))]
struct Figures {
    /// Number of requests.
    requests: u64,
    /// Number of requests that failed.
    errors: u64,
    /// Median latency.
    p50_us: Option<u64>,
    /// 99th percentile of the latency.
    p99_us: Option<u64>,
    /// 99.9th percentile of the latency.
    p999_us: Option<u64>,
}

/// Returns the positions of the knobs in this picture.
pub(super) fn in_force(picture: &Picture) -> InForce {
    let names = picture.names();
    let contender = |index: usize| {
        let side: &Side = &picture.sides[index];
        Contender {
            name: &names[index],
            requests: side.overall.requests,
            errors: side.overall.errors,
            p99_ms: side.overall.latency.map(|it| it.p99_ms),
        }
    };
    let ms = |span: Duration| whole(span.as_secs_f64() * 1e3);
    let column =
        |of: fn(&Weather) -> u32| -> Vec<u32> { picture.replicas.iter().map(of).collect() };
    InForce {
        elapsed_ms: ms(picture.elapsed),
        length_ms: picture.length.map(ms),
        rate: picture.rate,
        weather: picture.weather,
        slowed: picture.hobbled(),
        sent_late_p99_ms: picture.sent_late_p99_ms,
        verdict: verdict([contender(0), contender(1)], Tense::Present),
        doubt: doubt(picture.sent_late_p99_ms, Tense::Present),
        replicas: Troubles {
            taken_percent: column(|it| it.trouble.taken_percent.into()),
            fault: column(|it| it.trouble.fault.code().into()),
            failing_percent: column(|it| it.trouble.fault.failing_percent().into()),
            capacity_milli: column(|it| {
                whole(it.capacity_cores * 1e3)
                    .try_into()
                    .unwrap_or(u32::MAX)
            }),
        },
    }
}

fn side(side: &Side) -> SideTick {
    SideTick {
        service: side.service.clone(),
        policy: side.policy,
        requests: side.requests,
        errors: side.errors,
        recent: figures(&side.recent),
        overall: figures(&side.overall),
    }
}

fn figures(figures: &Recent) -> Figures {
    let us = |of: fn(&Quantiles) -> f64| figures.latency.as_ref().map(|it| whole(of(it) * 1e3));
    Figures {
        requests: figures.requests,
        errors: figures.errors,
        p50_us: us(|it| it.p50_ms),
        p99_us: us(|it| it.p99_ms),
        p999_us: us(|it| it.p999_ms),
    }
}

/// Rounds to the nearest integer; NaN becomes 0.
#[expect(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "a conversion of a float saturates"
)]
fn whole(number: f64) -> u64 {
    number.round() as u64
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::demo::picture::{Balancer, Phase};
    use std::sync::Arc;
    use tokio::sync::watch;

    fn picture() -> Picture {
        let weather = |taken_percent, fault| Weather {
            capacity_cores: 1.25,
            hobbled: false,
            trouble: Trouble {
                taken_percent,
                fault,
            },
        };
        let recent = Recent {
            requests: 2_000,
            errors: 3,
            latency: Some(Quantiles {
                p50_ms: 20.5,
                p99_ms: 40.0,
                p999_ms: 80.0,
            }),
        };
        let side = |policy: &'static str| Side {
            service: format!("{policy}_2"),
            policy,
            requests: 9_000,
            errors: 4,
            recent,
            overall: recent,
            replicas: Vec::new(),
            balancer: Balancer::default(),
        };
        Picture {
            phase: Phase::Running,
            elapsed: Duration::from_millis(23_400),
            length: None,
            rate: 400.0,
            weather: true,
            turns: 0,
            seed: 1,
            sent_late_p99_ms: 0.25,
            replicas: vec![
                weather(80, Fault::None),
                weather(0, Fault::Failing { percent: 50 }),
            ],
            sides: [side("prequal"), side("random")],
            history: Vec::new(),
        }
    }

    /// Collects the keys of objects within objects; lists by their first entry.
    fn keys(value: &Value, at: &str, found: &mut Vec<String>) {
        match value {
            Value::Object(fields) => {
                for (name, value) in fields {
                    let at = format!("{at}.{name}");
                    keys(value, &at, found);
                    found.push(at);
                }
            }
            Value::Array(entries) => {
                if let Some(first) = entries.first().filter(|first| first.is_object()) {
                    keys(first, at, found);
                }
            }
            _ => {}
        }
    }

    fn has_the_shape_of(value: &Value, sample: &str) {
        let sample: Value = serde_json::from_str(sample).expect("JSON");
        let [mut are, mut should_be] = [Vec::new(), Vec::new()];
        keys(value, "", &mut are);
        keys(&sample["demo"], "", &mut should_be);
        assert_eq!(are, should_be);
    }

    #[test]
    fn demo_fields_have_the_shape_of_the_samples() {
        let (pictures, latest) = watch::channel(None);
        let live = DemoLive { seed: 7, latest };
        assert_eq!(Extra::tick(&live), Value::Null, "nothing has been seen yet");
        pictures.send_replace(Some(Arc::new(picture())));
        has_the_shape_of(
            &Extra::fleet(&live),
            include_str!("../../../slackwater-admin/src/live/samples/demo_fleet.json"),
        );
        let tick = Extra::tick(&live);
        has_the_shape_of(
            &tick,
            include_str!("../../../slackwater-admin/src/live/samples/demo_tick.json"),
        );
        let replicas = json!({
            "taken_percent": [80, 0],
            "fault": [0, 3],
            "failing_percent": [0, 50],
            "capacity_milli": [1_250, 1_250],
        });
        assert_eq!(tick["replicas"], replicas);
        assert_eq!(
            (&tick["elapsed_ms"], &tick["length_ms"]),
            (&json!(23_400), &Value::Null)
        );
        let second = &tick["sides"][1];
        assert_eq!(
            (&second["service"], &second["policy"]),
            (&json!("random_2"), &json!("random"))
        );
        assert_eq!(second["recent"]["p50_us"], 20_500);
        assert_eq!(second["requests"], 9_000);
    }
}
