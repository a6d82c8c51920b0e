//! Exploration.
use core::time::Duration;
use slackwater_core::policy::prequal::PrequalSettings;
use slackwater_core::policy::*;
use slackwater_core::{Quantile, Rate};
use slackwater_sim::presets::*;
use slackwater_sim::scenario::*;
use slackwater_sim::*;

fn scenario(name: &str) -> Scenario {
    let (kind, load) = name.split_once('@').unwrap();
    let load: f64 = load.parse().unwrap();
    match kind {
        "even" => at_load(load, testbed()),
        "unequal" => at_load(load, unequal_halves(testbed())),
        "tight" => at_load(load, tight()),
        "tightuneq" => at_load(load, unequal_halves(tight())),
        "packeduneq" => at_load(load, unequal_halves(packed())),
        "ln15" => {
            let mut s = testbed();
            s.cost = Cost::Lognormal {
                median: Duration::from_micros(28_017),
                sigma: 1.5,
            };
            at_load(load, s)
        }
        "ln2" => {
            let mut s = testbed();
            s.cost = Cost::Lognormal {
                median: Duration::from_micros(11_680),
                sigma: 2.0,
            };
            at_load(load, s)
        }
        "pareto" => {
            let mut s = testbed();
            s.cost = Cost::Pareto {
                least: Duration::from_micros(28_770),
                alpha: 1.5,
            };
            at_load(load, s)
        }
        _ => {
            // web-8x4@.85 fifo-8x4@.75 hob-8x4@.6 tb-8x4@1.57 het-8x4@1.03
            let (kind, size) = kind.split_once('-').unwrap();
            let (n, c) = size.split_once('x').unwrap();
            let (n, c): (usize, usize) = (n.parse().unwrap(), c.parse().unwrap());
            match kind {
                "web" => web(n, c, load),
                "fifo" => one_slow_fifo(n, c, load),
                "hob" => web(n, c, load),
                "tb" => at_load(load, sized(n, c, testbed())),
                "het" => at_load(load, unequal_halves(sized(n, c, testbed()))),
                _ => panic!(),
            }
        }
    }
}

fn policy(name: &str) -> PolicyChoice {
    let mut s = PolicySettings::default();
    if let Some(rest) = name.strip_prefix("capacity,") {
        let mut r = CapacitySettings::default();
        for part in rest.split(',').filter(|p| !p.is_empty()) {
            let (k, v) = part.split_once('=').unwrap();
            let v: f64 = v.parse().unwrap();
            match k {
                "p" => r.probe_rate = Rate::from_millionths((v * 1e6) as u32).unwrap(),
                "b" => r.cost_band_millionths = (v * 1e6) as u32,
                _ => panic!(),
            }
        }
        s.capacity = r.validate().unwrap();
        return PolicyChoice::with_settings("capacity", s)
            .unwrap()
            .called(name);
    }
    match name {
        "prequal" => {
            s.prequal = PrequalSettings::paper().validate().unwrap();
            PolicyChoice::with_settings("prequal", s).unwrap()
        }
        "rif_only" => {
            let mut p = PrequalSettings::paper();
            p.rif_limit_quantile = Quantile::ZERO;
            s.prequal = p.validate().unwrap();
            PolicyChoice::with_settings("prequal", s)
                .unwrap()
                .called(name)
        }
        _ => PolicyChoice::named(name).unwrap(),
    }
}

fn main() {
    let args: Vec<String> = std::env::args().skip(1).collect();
    let seeds: u64 = args[0].parse().unwrap();
    let span: u64 = args[1].parse().unwrap();
    let cases: Vec<&str> = args[2].split(';').collect();
    let policies: Vec<&str> = args[3].split(';').collect();
    for case in cases {
        let mut sc = scenario(case);
        sc.span = Duration::from_secs(span);
        sc.warmup = Duration::from_secs(span.min(20));
        if case.starts_with("hob") {
            sc = hobbled(sc);
        }
        if std::env::var("NOCPU").is_ok() { for g in &mut sc.fleet { g.tells_cpu = false; } }
        for g in &mut sc.fleet { g.learns_capacity = true; g.carries_reports = true; }
        for name in &policies {
            let mut all: Option<Measured> = None;
            let mut each = vec![];
            for seed in 1..=seeds {
                let m = run(&sc, &policy(name), seed);
                each.push(m.latency.quantile(0.999).as_millis());
                match &mut all {
                    None => all = Some(m),
                    Some(a) => a.merge(&m),
                }
            }
            let m = all.unwrap();
            let q = |q: f64| m.latency.quantile(q).as_secs_f64() * 1e3;
            println!(
                "{case:14} {name:26} p50 {:6.1} p99 {:7.1} p99.9 {:7.1} err {:.4} probes {:.2} rif99 {} {:?}",
                q(0.5),
                q(0.99),
                q(0.999),
                m.errors as f64 / m.queries as f64,
                m.probes as f64 / m.queries as f64,
                m.rif_quantile(0.99),
                each
            );
        }
    }
}
