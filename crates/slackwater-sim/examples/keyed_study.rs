//! Compares rules by key: scenario by scenario, rule by rule.

use core::time::Duration;
use slackwater_core::keys::KeySettings;
use slackwater_core::policy::{
    Counters, Decision, Event, Explanation, Fleet, Outcome, Policy, PolicyEntry, Probe, ProbeId,
    Query, Settings, Snapshot, Ticket,
};
use slackwater_core::{Draw, Instant, LoadScale, ReplicaId, SplitMix64};
use slackwater_sim::policy::{PeerRule, PolicyKind};
use slackwater_sim::runner::{Job, run_all};
use slackwater_sim::{Measured, PolicyChoice, Scenario, presets};
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

fn ours(inner: &str, change: impl Fn(&mut KeySettings)) -> PolicyChoice {
    let mut settings = KeySettings::default();
    change(&mut settings);
    let config = settings.validate().expect("valid");
    let scale = if inner == "prequal_sync" {
        LoadScale::from_1024ths(340)
    } else {
        LoadScale::ONE
    };
    let choice = PolicyChoice::shipped(inner).expect("listed");
    choice.keyed(config, scale)
}

#[derive(Clone, Copy, Debug)]
enum Delay {
    /// (level + 1) x long-run mean latency / workers-free.
    LevelTimesMean,
    /// reported latency, scaled by level.
    Reported,
    /// level alone
    Level,
}

#[derive(Clone, Copy, Debug)]
struct Rule {
    set: usize,
    /// home while level < cap * mean level; 0: no cap
    cap: f64,
    delay: Delay,
    /// home while delay(home) <= times * reference + plus_ms
    times: f64,
    plus_ms: f64,
    /// reference: best of set, or mean of all
    of_mean: bool,
    arith: bool,
    ewma: f64,
}

#[derive(Clone, Copy, Debug, Default)]
struct Row {
    own: u32,
    level: f64,
    latency_ms: f64,
    rif: f64,
    mean_ms: f64,
    known: bool,
}

#[derive(Debug)]
struct Variant {
    inner: Box<dyn Policy>,
    rule: Rule,
    rows: Vec<Row>,
    names: Vec<u64>,
}

fn mixed(bits: u64) -> u64 {
    SplitMix64::new(bits).draw()
}

impl Variant {
    fn delay(&self, r: ReplicaId) -> f64 {
        let row = self.rows[r.index()];
        match self.rule.delay {
            Delay::Level => row.level + 1.0,
            Delay::LevelTimesMean => (row.level + 1.0) * row.mean_ms,
            Delay::Reported => row.latency_ms * (row.level + 4.0) / (row.rif + 4.0),
        }
    }
    fn target(&self, key: u64) -> Option<ReplicaId> {
        let all = self.inner.fleet().available();
        let mut order: Vec<ReplicaId> = all.to_vec();
        order.sort_by_key(|r| core::cmp::Reverse(mixed(self.names[r.index()] ^ mixed(key))));
        let home = *order.first()?;
        let set = &order[..self.rule.set.min(order.len())];
        let mean: f64 = all.iter().map(|r| self.rows[r.index()].level).sum::<f64>() + 1.0;
        let cap = (self.rule.cap * mean / all.len() as f64).ceil();
        let below = |r: ReplicaId| self.rule.cap == 0.0 || self.rows[r.index()].level < cap;
        let best = *set
            .iter()
            .min_by(|a, b| self.delay(**a).total_cmp(&self.delay(**b)))?;
        let reference = if self.rule.of_mean {
            let mut d: Vec<f64> = all.iter().map(|r| self.delay(*r)).collect();
            if self.rule.arith {
                d = vec![d.iter().sum::<f64>() / d.len() as f64];
            }
            d.sort_by(f64::total_cmp);
            d[d.len() / 2]
        } else {
            self.delay(best)
        };
        if below(home) && self.delay(home) <= self.rule.times * reference + self.rule.plus_ms {
            return Some(home);
        }
        if below(best) {
            return Some(best);
        }
        all.iter()
            .copied()
            .min_by(|a, b| self.delay(*a).total_cmp(&self.delay(*b)))
    }
}

impl Policy for Variant {
    fn name(&self) -> &'static str {
        self.inner.name()
    }
    fn handle(&mut self, now: Instant, event: Event<'_>, draw: &mut dyn Draw) {
        match event {
            Event::Added(r) => {
                if self.rows.len() <= r.index() {
                    self.rows.resize(r.index() + 1, Row::default());
                    self.names.resize(r.index() + 1, 0);
                }
            }
            Event::Identified(r, i) => self.names[r.index()] = i.name,
            Event::Report(p, report) => {
                if let Some(r) = self.inner.probe_target(p) {
                    let row = &mut self.rows[r.index()];
                    row.level = f64::from(report.rif.count()).max(f64::from(row.own));
                    row.rif = f64::from(report.rif.count());
                    if let Some(l) = report.latency {
                        let l = l.as_secs_f64() * 1e3;
                        row.latency_ms = l;
                        let per = l;
                        row.mean_ms = if row.known {
                            row.mean_ms * (1.0 - self.rule.ewma) + per * self.rule.ewma
                        } else {
                            per
                        };
                        row.known = true;
                    }
                }
            }
            _ => {}
        }
        self.inner.handle(now, event, draw);
    }
    fn choose(
        &mut self,
        now: Instant,
        query: Query<'_>,
        draw: &mut dyn Draw,
        e: Option<&mut Explanation>,
    ) -> Decision {
        let target = query.key.and_then(|k| self.target(k.to_bits()));
        let d = self.inner.choose(
            now,
            Query {
                pinned: target,
                ..query
            },
            draw,
            e,
        );
        if let Decision::Pick(p) = &d {
            let row = &mut self.rows[p.ticket.replica().index()];
            row.own += 1;
            row.level += 1.0;
        }
        d
    }
    fn handle_head(&mut self, now: Instant, t: &mut Ticket, o: Outcome) {
        self.inner.handle_head(now, t, o);
    }
    fn handle_query_done(&mut self, now: Instant, t: Ticket, o: Outcome) {
        let row = &mut self.rows[t.replica().index()];
        row.own -= 1;
        row.level = (row.level - 1.0).max(f64::from(row.own));
        self.inner.handle_query_done(now, t, o);
    }
    fn poll_probe(&mut self, now: Instant, draw: &mut dyn Draw) -> Option<Probe> {
        self.inner.poll_probe(now, draw)
    }
    fn probe_target(&self, p: ProbeId) -> Option<ReplicaId> {
        self.inner.probe_target(p)
    }
    fn poll_timeout(&self) -> Option<Instant> {
        self.inner.poll_timeout()
    }
    fn wants_trial(&self) -> bool {
        self.inner.wants_trial()
    }
    fn fleet(&self) -> &Fleet {
        self.inner.fleet()
    }
    fn counters(&self) -> Counters {
        self.inner.counters()
    }
    fn snapshot(&self, now: Instant) -> Snapshot {
        self.inner.snapshot(now)
    }
}

thread_local! { static NONE: () = (); }
static RULE: std::sync::Mutex<Option<Rule>> = std::sync::Mutex::new(None);
static VARIANT: PolicyEntry = PolicyEntry {
    name: "variant",
    about: "a variant",
    build: |s| {
        let entry = slackwater_core::policy::policy_named("shortest_expected_delay").unwrap();
        Box::new(Variant {
            inner: (entry.build)(s),
            rule: RULE.lock().unwrap().unwrap(),
            rows: vec![],
            names: vec![],
        })
    },
    ..slackwater_core::policy::DEFAULT_POLICY
};

fn variant(rule: Rule, name: &str) -> (PolicyChoice, Rule) {
    (
        PolicyChoice {
            name: name.to_owned(),
            kind: PolicyKind::Shipped {
                entry: &VARIANT,
                settings: Box::default(),
                health: None,
                keys: None,
            },
        },
        rule,
    )
}

fn figure(args: &[String]) {
    use slackwater_sim::figure::{self, Effort};
    let began = std::time::Instant::now();
    let figure = figure::named(&args[2]).expect("a figure");
    let seeds: u64 = args[3].parse().unwrap();
    let effort = Effort {
        seeds: slackwater_sim::Seeds::up_to(seeds),
        span: None,
        warmup: None,
    };
    let progress = |p: slackwater_sim::runner::Progress| eprint!("\r{} of {}", p.done, p.total);
    let played = figure::play(figure, &effort, 2, &progress, &AtomicBool::new(false));
    let findings = figure.findings(&played);
    let events: u64 = played.iter().flat_map(|p| &p.runs).map(|r| r.events).sum();
    let runs = played.iter().map(|p| p.runs.len()).sum::<usize>();
    let cpu: f64 = played
        .iter()
        .flat_map(|p| &p.runs)
        .map(|r| r.cpu.as_secs_f64())
        .sum();
    println!(
        "{}",
        slackwater_sim::report::summary(figure, &played, &findings)
    );
    println!(
        "{runs} runs, {:.1} s; {:.1} million events, {:.1} s of CPU time",
        began.elapsed().as_secs_f64(),
        events as f64 / 1e6,
        cpu
    );
    let about = slackwater_sim::report::RunInfo {
        command: format!(
            "slackwater sim {} --seeds {seeds} --out results/sim",
            args[2]
        ),
        version: format!(
            "slackwater {}, commit {}",
            env!("CARGO_PKG_VERSION"),
            args[5]
        ),
        threads: 2,
        wall: began.elapsed(),
    };
    let files = slackwater_sim::report::write(
        std::path::Path::new(&args[4]),
        figure,
        &played,
        &findings,
        &about,
    );
    println!("{files:?}");
}

fn main() {
    let args: Vec<String> = std::env::args().collect();
    if args.get(1).is_some_and(|arg| arg == "fig") {
        return figure(&args);
    }
    let seeds: u64 = args.get(1).map_or(2, |s| s.parse().unwrap());
    let span: u64 = args.get(2).map_or(10, |s| s.parse().unwrap());
    let only: Option<&str> = args.get(3).map(String::as_str);
    let pols: Option<&str> = args.get(4).map(String::as_str);
    let slow = |s: Scenario| presets::one_replica(s, |r| r.slowness = 3.0);
    let mut scenarios: Vec<(String, Scenario)> = Vec::new();
    for clients in [1, 4, 16, 64] {
        scenarios.push((format!("3200x{clients}"), presets::keyed(3200.0, clients)));
        scenarios.push((format!("3840x{clients}"), presets::keyed(3840.0, clients)));
        scenarios.push((
            format!("slow3200x{clients}"),
            slow(presets::keyed(3200.0, clients)),
        ));
        scenarios.push((
            format!("slow3840x{clients}"),
            slow(presets::keyed(3840.0, clients)),
        ));
        scenarios.push((
            format!("hot3840x{clients}"),
            presets::hot(0.1, presets::keyed(3840.0, clients)),
        ));
        scenarios.push((
            format!("restart3840x{clients}"),
            presets::restarting(presets::keyed(3840.0, clients)),
        ));
        scenarios.push((
            format!("hotslow3840x{clients}"),
            slow(presets::hot(0.1, presets::keyed(3840.0, clients))),
        ));
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
        policies.push(
            ours(default, |s| s.balance_factor_millionths = f)
                .called(format!("keyed {default} f{f}")),
        );
    }
    for set in [1, 2, 8] {
        policies.push(ours(default, |s| s.set = set).called(format!("keyed {default} set{set}")));
    }
    policies.push(ours("prequal_sync", |_| {}).called("keyed prequal_sync"));
    policies.push(PolicyChoice::shipped(default).unwrap());
    let mut policies: Vec<(PolicyChoice, Option<Rule>)> =
        policies.into_iter().map(|p| (p, None)).collect();
    let base = Rule {
        set: 4,
        cap: 0.0,
        delay: Delay::Reported,
        times: 1.0,
        plus_ms: 0.0,
        of_mean: false,
        arith: false,
        ewma: 0.02,
    };
    let lm = Rule {
        delay: Delay::LevelTimesMean,
        times: 2.0,
        of_mean: true,
        ..base
    };
    for (name, rule) in [
        ("v lm x2 median", lm),
        ("v lm x2 mean", Rule { arith: true, ..lm }),
        (
            "v lm x1.75 mean",
            Rule {
                arith: true,
                times: 1.75,
                ..lm
            },
        ),
        (
            "v lm x2.5 mean",
            Rule {
                arith: true,
                times: 2.5,
                ..lm
            },
        ),
        (
            "v lm x2 mean ewma.2",
            Rule {
                arith: true,
                ewma: 0.2,
                ..lm
            },
        ),
        (
            "v lm x2 mean ewma.005",
            Rule {
                arith: true,
                ewma: 0.005,
                ..lm
            },
        ),
        (
            "v lm x2 mean set2",
            Rule {
                arith: true,
                set: 2,
                ..lm
            },
        ),
        (
            "v lm x2 mean set8",
            Rule {
                arith: true,
                set: 8,
                ..lm
            },
        ),
        (
            "v level cap2",
            Rule {
                cap: 2.0,
                delay: Delay::Level,
                times: 1e9,
                ..base
            },
        ),
    ] {
        let (p, r) = variant(rule, name);
        policies.push((p, Some(r)));
    }
    for (name, scenario) in scenarios {
        if only.is_some_and(|only| !only.split(',').any(|o| name == o)) {
            continue;
        }
        let scenario = Arc::new(Scenario {
            warmup: Duration::from_secs(15),
            span: Duration::from_secs(span),
            ..scenario
        });
        assert_eq!(scenario.mistakes(), []);
        for (policy, rule) in &policies {
            *RULE.lock().unwrap() = *rule;
            if pols.is_some_and(|only| !only.split(',').any(|o| policy.name.contains(o))) {
                continue;
            }
            let jobs: Vec<Job> = (1..=seeds)
                .map(|seed| Job {
                    scenario: Arc::clone(&scenario),
                    policy: policy.clone(),
                    seed,
                })
                .collect();
            let runs = run_all(&jobs, 2, &|_| {}, &AtomicBool::new(false));
            let all = Measured::together(&runs).unwrap();
            let ms = |q: f64| all.latency.quantile(q).as_secs_f64() * 1e3;
            let most = *all.queries_by_replica.iter().max().unwrap() as f64;
            let mean = all.queries as f64 / all.queries_by_replica.len() as f64;
            let p99s: Vec<String> = runs
                .iter()
                .map(|r| format!("{:.0}", r.latency.quantile(0.99).as_secs_f64() * 1e3))
                .collect();
            println!(
                "{name:16} {:40} p50 {:6.1} p99 {:8.1} [{}] hit {:.3} max/mean {:.2} err {:.4} probes {:.2} cpu {:.1}s",
                policy.name,
                ms(0.5),
                ms(0.99),
                p99s.join(" "),
                all.hit_share(),
                most / mean,
                all.error_share(),
                all.probes_per_query(),
                all.cpu.as_secs_f64()
            );
        }
    }
}
