//! Scenario files from the inside: the result of reading a file, and the completeness of the
//! documentation. Broken files are in `tests/fixtures/sim`; `tests/sim.rs` runs the command itself
//! on them.

use super::*;
use slackwater_sim::presets;
use slackwater_sim::scenario::{
    Arrivals, Batching, Change, FailureCost, Group, Neighbour, Quota, Sharing, Swing,
};
use std::collections::BTreeSet;
use std::path::PathBuf;

const MS: Duration = Duration::from_millis(1);

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

fn everything() -> PathBuf {
    root().join("crates/slackwater/tests/fixtures/sim/good/everything.sim.toml")
}

fn load(file: &Path) -> ScenarioFile {
    ScenarioFile::load(file).unwrap_or_else(|fault| panic!("{fault}"))
}

#[test]
fn testbed_example_equals_the_testbed_preset() {
    let file = load(&root().join("deploy/examples/testbed.sim.toml"));
    assert_eq!(file.scenario, presets::at_load(1.27, testbed()));
}

#[test]
fn cpu_quotas_example_matches_the_measured_setup() {
    let file = load(&root().join("deploy/examples/cpu-quotas.sim.toml"));
    let quota = |cpu| {
        let quota = Quota {
            cpu,
            period: 100 * MS,
            at_once: 1.0,
            neighbour: None,
        };
        let healthy = Group::healthy(3, Service::Quota(quota));
        Group {
            learns_capacity: true,
            carries_reports: true,
            ..healthy
        }
    };
    assert_eq!(file.scenario.fleet, [quota(20 * MS), quota(10 * MS)]);
    assert_eq!(file.scenario.load.clients, [1.0; 4]);
    // As in the calculation of `cargo xtask room`: 312 requests of 2.17 ms per second.
    let rate = file.scenario.load.rate;
    assert!((rate - 312.0).abs() < 1.0, "{rate}");
}

#[test]
fn minimal_file_is_a_valid_scenario() {
    let file = load(&root().join("crates/slackwater/tests/fixtures/sim/good/minimal.sim.toml"));
    let scenario = file.scenario;
    let sharing = Sharing {
        cores: 1.0,
        bucket: 0.0,
        burst: 1.0,
        contention_loss: 0.0,
    };
    assert_eq!(
        scenario.fleet,
        [Group::healthy(8, Service::Shared(sharing))]
    );
    assert_eq!(scenario.load.clients, [1.0]);
    assert_eq!(scenario.load.arrivals, Arrivals::Poisson);
    assert_eq!(scenario.load.hedge, None);
    assert_eq!(file.health, None, "a policy as it is");
    assert!((scenario.load.rate - 0.85 * 8.0 / 0.005).abs() < 1e-9);
    assert_eq!(scenario.cost, Cost::Exponential(5 * MS));
    assert_eq!((scenario.antagonists, scenario.events.len()), (None, 0));
    assert_eq!(scenario.network, testbed().network);
    assert_eq!(scenario.deadline, 5_000 * MS);
    assert!(!scenario.cancel_expired);
    assert_eq!((scenario.warmup, scenario.span), (10_000 * MS, 60_000 * MS));
}

#[test]
fn all_values_of_a_file_reach_scenario_and_policies() {
    let ScenarioFile {
        scenario,
        settings,
        health,
    } = load(&everything());
    assert_eq!(scenario.load.clients, [1.0, 1.0, 2.5]);
    assert_eq!(scenario.replicas(), 13);
    let trace: &[Duration] = &[MS / 2, 3 * MS, 12 * MS];
    assert_eq!(
        scenario.fleet[2].service,
        Service::LatencyTrace(trace.into())
    );
    let quota = Quota {
        cpu: 150 * MS,
        period: 50 * MS,
        at_once: 4.0,
        neighbour: Some(Neighbour {
            share: 0.25,
            least: 200 * MS,
            most: 400 * MS,
        }),
    };
    assert_eq!(scenario.fleet[3].service, Service::Quota(quota));
    assert_eq!(
        scenario.fleet[0].stall.map(|stall| stall.lasts),
        Some(200 * MS)
    );
    let answer: Vec<bool> = (scenario.fleet.iter())
        .map(|group| group.answers_probes)
        .collect();
    assert_eq!(answer, [false, true, true, true]);
    let learning: Vec<_> = (scenario.fleet.iter())
        .map(|group| {
            (
                group.learns_capacity,
                group.tells_cpu,
                group.carries_reports,
            )
        })
        .collect();
    let usual = (false, true, false);
    assert_eq!(learning, [(true, false, true), usual, usual, usual]);
    let noise: Vec<_> = scenario
        .fleet
        .iter()
        .map(|group| group.report_noise)
        .collect();
    assert_eq!(noise, [0.3, 0.0, 0.0, 0.0]);
    let failures: Vec<_> = (scenario.fleet.iter())
        .filter_map(|group| group.failure)
        .map(|failure| (failure.cost, failure.until, failure.reported_until))
        .collect();
    assert_eq!(
        failures,
        [
            (FailureCost::Share(0.5), Duration::MAX, 1_000 * MS),
            (FailureCost::Fixed(MS), Duration::MAX, Duration::MAX),
        ]
    );
    assert_eq!(
        scenario.fleet[0].stall.map(|stall| stall.regular),
        Some(true)
    );
    assert_eq!(
        scenario.events[1].change,
        Change::Restart {
            down_for: 500 * MS,
            cold_slowness: 2.0,
            warm_after: 100 * MS
        }
    );
    assert_eq!(
        scenario.events[4].change,
        Change::Suspend {
            suspended_for: 100 * MS
        }
    );
    assert_eq!(scenario.antagonists.map(|them| them.machines), Some(20));
    let shares = (scenario.antagonists).map(|them| (them.slow_share, them.fast_share));
    assert_eq!(shares, Some((0.3, 0.4)));
    assert_eq!(settings.prequal.pool_capacity, 8);
    assert_eq!(settings.peak_ewma.choices, 3);
    let health = health.expect("it is on");
    let cost = health.errors.as_ref().map(|errors| errors.failure_cost);
    let factor = (health.probation.as_ref()).map(|probation| probation.factor);
    let warm_up = (health.warm_up.as_ref()).map(|it| it.share_min.millionths());
    assert_eq!((cost, factor, warm_up), (Some(10), Some(5), Some(200_000)));
    assert_eq!(health.back_off, 500 * MS);
}

#[test]
fn swings_distances_batches_and_two_kinds_of_costs_reach_the_scenario() {
    let toml = r#"
        load = { rate = 50, swing = { period = "20s", amplitude = 0.5 } }
        cost = { kind = "bimodal", cheap = "2ms", dear = "90ms", dear_share = 0.1 }
        fleet = [
            { count = 2, service = "batch", batch_max = 8, batch_added = 0.1 },
            { count = 1, extra_delay = "50ms" },
        ]
    "#;
    let source = Source::new("example.sim.toml".into(), toml.to_owned());
    let scenario = match ScenarioFile::of(&source) {
        Ok(file) => file.scenario,
        Err(mistakes) => panic!("{mistakes}"),
    };
    let swing = Swing {
        period: 20_000 * MS,
        amplitude: 0.5,
    };
    assert_eq!(scenario.load.swing, Some(swing));
    let cost = Cost::Bimodal {
        cheap: 2 * MS,
        dear: 90 * MS,
        dear_share: 0.1,
    };
    assert_eq!(scenario.cost, cost);
    let batching = Batching { max: 8, added: 0.1 };
    assert_eq!(scenario.fleet[0].service, Service::Batch(batching));
    let delays: Vec<_> = scenario
        .fleet
        .iter()
        .map(|group| group.extra_delay)
        .collect();
    assert_eq!(delays, [Duration::ZERO, 50 * MS]);
}

/// All keys that the program reads; elements of lists have the form `fleet[].cores`.
fn all_fields() -> BTreeSet<String> {
    let source = Source::read(&everything()).expect("a fixture");
    let reader = Reader::new(Some(&source), Vec::new()).expect("valid TOML");
    let fields = read(reader).0.into_iter();
    fields.filter(|field| !field.ends_with("[]")).collect()
}

/// Whether a field belongs to a policy's section. These are documented with `serve`'s
/// configuration, where a test compares them.
fn is_policys(field: &str) -> bool {
    let file = std::fs::read_to_string(root().join("docs/reference/configuration.md"))
        .expect("documentation");
    field.contains('.') && file.contains(&format!("| `{field}` |"))
}

#[test]
fn the_documentation_has_every_key_and_no_other() {
    let text =
        std::fs::read_to_string(root().join("docs/reference/scenario.md")).expect("documentation");
    let documented: BTreeSet<String> = text
        .lines()
        .filter_map(|line| line.strip_prefix("| `")?.split('`').next())
        .map(str::to_owned)
        .collect();
    let own: BTreeSet<String> = (all_fields().into_iter())
        .filter(|field| !is_policys(field))
        .collect();
    assert_eq!(documented, own);
}

#[test]
fn every_example_of_the_documentation_is_a_scenario() {
    let page = root().join("docs/reference/scenario.md");
    let text = std::fs::read_to_string(page).expect("documentation");
    let samples = text.split("```toml\n").skip(1);
    let mut examples = samples.filter_map(|it| it.split("```").next()).peekable();
    // Examples without a load, a cost and a fleet are appended to the first one.
    let first = *examples.peek().expect("an example");
    let mut count = 0;
    for toml in examples {
        let is_whole = ["load", "cost", "fleet"].iter().all(|it| toml.contains(it));
        let before = if is_whole { "" } else { first };
        let whole = format!("{before}\n{toml}");
        let source = Source::new("example.sim.toml".into(), whole.clone());
        if let Err(mistakes) = ScenarioFile::of(&source) {
            panic!("{mistakes}\n{whole}");
        }
        count += 1;
    }
    assert!(count > 10, "{count} examples");
}
