//! Compares rules by key: scenario by scenario, rule by rule.

use core::time::Duration;
use slackwater_core::LoadScale;
use slackwater_core::keys::KeySettings;
use slackwater_core::policy::Settings;
use slackwater_sim::policy::PeerRule;
use slackwater_sim::runner::{Job, run_all};
use slackwater_sim::{Measured, PolicyChoice, Scenario, presets};
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

fn ours(inner: &str, change: impl Fn(&mut KeySettings)) -> PolicyChoice {
    let mut settings = KeySettings::default();
    change(&mut settings);
    let config = settings.validate().expect("valid");
    let scale = if inner == "prequal_sync" { LoadScale::from_1024ths(340) } else { LoadScale::ONE };
    let choice = PolicyChoice::shipped(inner).expect("listed");
    choice.keyed(config, scale)
}

fn main() {
    let args: Vec<String> = std::env::args().collect();
    let seeds: u64 = args.get(1).map_or(2, |s| s.parse().unwrap());
    let span: u64 = args.get(2).map_or(10, |s| s.parse().unwrap());
    let only: Option<&str> = args.get(3).map(String::as_str);
    let pols: Option<&str> = args.get(4).map(String::as_str);
    let slow = |s: Scenario| presets::one_replica(s, |r| r.slowness = 3.0);
    let mut scenarios: Vec<(String, Scenario)> = Vec::new();
    for clients in [1, 4, 16, 64] {
        scenarios.push((format!("3200x{clients}"), presets::keyed(3200.0, clients)));
        scenarios.push((format!("3840x{clients}"), presets::keyed(3840.0, clients)));
        scenarios.push((format!("slow3200x{clients}"), slow(presets::keyed(3200.0, clients))));
        scenarios.push((format!("slow3840x{clients}"), slow(presets::keyed(3840.0, clients))));
        scenarios.push((format!("hot3840x{clients}"), presets::hot(0.1, presets::keyed(3840.0, clients))));
        scenarios.push((format!("hotslow3840x{clients}"), slow(presets::hot(0.1, presets::keyed(3840.0, clients)))));
    }
    let mut policies: Vec<PolicyChoice> = vec![
        PolicyChoice::peer(PeerRule::Ring),
        PolicyChoice::peer(PeerRule::RingBounded),
        PolicyChoice::peer(PeerRule::MaglevBounded),
        PolicyChoice::peer(PeerRule::Rendezvous),
        PolicyChoice::peer(PeerRule::TwoHomes),
    ];
    let default = slackwater_core::default_policy();
    let default = default.name();
    for inner in [default, "prequal", "least_loaded"] {
        policies.push(ours(inner, |_| {}).called(format!("keyed {inner}")));
    }
    for f in [1_500_000, 2_000_000] {
        policies.push(ours(default, |s| s.balance_factor_millionths = f).called(format!("keyed {default} f{f}")));
    }
    for set in [1, 2, 8] {
        policies.push(ours(default, |s| s.set = set).called(format!("keyed {default} set{set}")));
    }
    policies.push(ours("prequal_sync", |_| {}).called("keyed prequal_sync"));
    policies.push(PolicyChoice::shipped(default).unwrap());
    for (name, scenario) in scenarios {
        if only.is_some_and(|only| !only.split(',').any(|o| name == o)) {
            continue;
        }
        let scenario = Arc::new(Scenario { warmup: Duration::from_secs(10), span: Duration::from_secs(span), ..scenario });
        assert_eq!(scenario.mistakes(), []);
        for policy in &policies {
            if pols.is_some_and(|only| !only.split(',').any(|o| policy.name.contains(o))) {
                continue;
            }
            let jobs: Vec<Job> = (1..=seeds)
                .map(|seed| Job { scenario: Arc::clone(&scenario), policy: policy.clone(), seed })
                .collect();
            let runs = run_all(&jobs, 2, &|_| {}, &AtomicBool::new(false));
            let all = Measured::together(&runs).unwrap();
            let ms = |q: f64| all.latency.quantile(q).as_secs_f64() * 1e3;
            let most = *all.queries_by_replica.iter().max().unwrap() as f64;
            let mean = all.queries as f64 / all.queries_by_replica.len() as f64;
            let p99s: Vec<String> = runs.iter().map(|r| format!("{:.0}", r.latency.quantile(0.99).as_secs_f64() * 1e3)).collect();
            println!(
                "{name:16} {:40} p50 {:6.1} p99 {:8.1} [{}] hit {:.3} max/mean {:.2} err {:.4} probes {:.2} cpu {:.1}s",
                policy.name, ms(0.5), ms(0.99), p99s.join(" "), all.hit_share(), most / mean, all.error_share(), all.probes_per_query(), all.cpu.as_secs_f64()
            );
        }
    }
}
