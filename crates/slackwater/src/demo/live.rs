//! What the demo adds to live data: what the knobs stand at, and what the load generators see. `docs/live.md` has each field.

use super::args::{RATE_MAX, RATE_MIN};
use super::page::Latest;
use super::picture::{Picture, Recent, Side};
use super::replica::trouble::{Fault, Trouble};
use super::verdict::{Contender, Tense, doubt, verdict};
use crate::admin::Extra;
use serde_json::{Value, json};
use slackwater_core::policy::POLICIES;

/// The demo's part of live data, from the picture last made.
#[derive(Debug)]
pub(super) struct DemoLive {
    pub(super) seed: u64,
    pub(super) latest: Latest,
}

impl Extra for DemoLive {
    fn fleet(&self) -> Value {
        let policies = POLICIES.iter();
        let policies = policies.map(|it| json!({"name": it.name, "about": it.about}));
        json!({
            "policies": policies.collect::<Vec<_>>(),
            "rate_min": RATE_MIN,
            "rate_max": RATE_MAX,
            "taken_percent_max": Trouble::TAKEN_PERCENT_MAX,
            "faults": Fault::NAMES,
            "seed": self.seed,
        })
    }

    fn tick(&self) -> Value {
        let latest = self.latest.borrow().clone();
        latest.map_or(Value::Null, |picture| {
            let mut tick = in_force(&picture);
            if let Value::Object(fields) = &mut tick {
                let sides = picture.sides.iter().map(side);
                fields.insert("sides".to_owned(), sides.collect());
            }
            tick
        })
    }
}

/// What the knobs stand at, and how that goes.
pub(super) fn in_force(picture: &Picture) -> Value {
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
    let column = |of: fn(&super::picture::Weather) -> u32| -> Vec<u32> {
        picture.replicas.iter().map(of).collect()
    };
    json!({
        "elapsed_ms": whole(picture.elapsed.0.as_secs_f64() * 1e3),
        "length_ms": picture.length.map(|length| whole(length.0.as_secs_f64() * 1e3)),
        "rate": picture.rate,
        "weather": picture.weather,
        "slowed": picture.hobbled(),
        "sent_late_p99_ms": picture.sent_late_p99_ms,
        "verdict": verdict([contender(0), contender(1)], Tense::Present),
        "doubt": doubt(picture.sent_late_p99_ms, Tense::Present),
        "replicas": {
            "taken_percent": column(|it| it.trouble.taken_percent.into()),
            "fault": column(|it| it.trouble.fault.code().into()),
            "failing_percent": column(|it| it.trouble.fault.failing_percent().into()),
            "capacity_milli": column(|it| whole(it.capacity_cores * 1e3).try_into().unwrap_or(u32::MAX)),
        },
    })
}

fn side(side: &Side) -> Value {
    json!({
        "service": side.service,
        "policy": side.policy,
        "requests": side.requests,
        "errors": side.errors,
        "recent": figures(&side.recent),
        "overall": figures(&side.overall),
    })
}

fn figures(figures: &Recent) -> Value {
    let us = |ms: f64| whole(ms * 1e3);
    json!({
        "requests": figures.requests,
        "errors": figures.errors,
        "p50_us": figures.latency.map(|it| us(it.p50_ms)),
        "p99_us": figures.latency.map(|it| us(it.p99_ms)),
        "p999_us": figures.latency.map(|it| us(it.p999_ms)),
    })
}

/// The nearest whole number; what is none is 0.
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
    use crate::demo::picture::{Balancer, Phase, Quantiles, Seconds, Weather};
    use core::time::Duration;
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
            about: "",
            requests: 9_000,
            errors: 4,
            recent,
            overall: recent,
            replicas: Vec::new(),
            balancer: Balancer::default(),
        };
        Picture {
            phase: Phase::Running,
            elapsed: Seconds(Duration::from_millis(23_400)),
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

    /// The keys of objects within objects; lists by their first entry.
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
    fn what_is_added_has_the_shape_of_the_samples() {
        let (pictures, latest) = watch::channel(None);
        let live = DemoLive { seed: 7, latest };
        assert_eq!(live.tick(), Value::Null, "nothing has been seen yet");
        pictures.send_replace(Some(Arc::new(picture())));
        has_the_shape_of(
            &live.fleet(),
            include_str!("../admin/live/samples/demo_fleet.json"),
        );
        let tick = live.tick();
        has_the_shape_of(&tick, include_str!("../admin/live/samples/demo_tick.json"));
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
