//! Each pick can be recomputed from `/decisions` alone.
//!
//! Each policy picks for at least a thousand requests, over agents of which one fails now and then.
//! This is a second implementation of each rule, which reads nothing but the JSON. It calculates
//! the deciding values from the factors, compares them with the reported ones, and then picks.

use crate::clients::Client;
use crate::decisions::decisions;
use crate::proxy::{Proxy, agent};
use crate::replicas::Replica;
use core::cmp::Ordering;
use core::sync::atomic::{AtomicUsize, Ordering::Relaxed};
use core::time::Duration;
use serde_json::Value;
use slackwater_core::policy::{DEFAULT_POLICY, POLICIES};
use std::collections::BTreeSet;
use std::sync::Arc;
use tokio::task::JoinSet;

const REPLICAS: usize = 6;
const CLIENTS: usize = 12;
const REQUESTS_EACH: usize = 90;

/// A server that takes some milliseconds, and that fails every `fails_each` requests.
async fn server(fails_each: usize) -> Replica {
    let count = Arc::new(AtomicUsize::default());
    Replica::scripted(move |mut connection| {
        let count = Arc::clone(&count);
        async move {
            while connection.head().await.is_some() {
                let number = count.fetch_add(1, Relaxed) + 1;
                // Policies matter only if servers are slow.
                tokio::time::sleep(Duration::from_millis(1 + number as u64 % 3)).await;
                if number.is_multiple_of(fails_each) {
                    connection
                        .send("HTTP/1.1 503 Busy\r\ncontent-length: 0\r\n\r\n")
                        .await;
                } else {
                    connection.answer("served").await;
                }
            }
        }
    })
    .await
}

async fn ask(proxy: &Proxy) {
    let mut clients = JoinSet::new();
    for _ in 0..CLIENTS {
        let address = proxy.address;
        clients.spawn(async move {
            let mut client = Client::connect(address).await;
            for _ in 0..REQUESTS_EACH {
                client.get("/").await;
            }
        });
    }
    while let Some(ended) = clients.join_next().await {
        ended.unwrap();
    }
}

#[tokio::test]
async fn each_pick_of_each_policy_is_recomputed_from_the_decisions_alone() {
    let mut servers = Vec::new();
    for place in 0..REPLICAS {
        servers.push(server(if place == 0 { 9 } else { usize::MAX }).await);
    }
    let agents: Vec<_> = (servers.iter().map(|server| agent(server.address, ""))).collect();
    let addresses: Vec<_> = agents.iter().map(|agent| agent.address).collect();
    let mut compared = BTreeSet::new();
    // At first no agent has learned its capacity, and later each has. So the default plays twice.
    for entry in core::iter::once(&DEFAULT_POLICY).chain(POLICIES) {
        let policy = entry.name;
        let toml = format!(
            "policy = \"{policy}\"\n[probe]\ntransport = \"udp\"\n[decisions]\nsample = 1\n\
             capacity = 5000\n"
        );
        let proxy = Proxy::start(&addresses, &toml);
        ask(&proxy).await;
        let found = decisions(&proxy, "limit=5000", 1_000).await;
        let mut picks = 0;
        for attempt in found
            .iter()
            .flat_map(|it| it["attempts"].as_array().unwrap())
        {
            // A trial of an ejected replica is picked without a comparison.
            let Some(comparison) = attempt["comparison"].as_str() else {
                assert_eq!(attempt["reason"], "trial", "{policy}: {attempt}");
                continue;
            };
            compared.insert(comparison.to_owned());
            let pick = pick(comparison, attempt);
            assert_eq!(pick, attempt["replica"], "{policy}: {attempt}");
            picks += 1;
        }
        assert!(picks >= 1_000, "{policy}: {picks}");
    }
    let usual = POLICIES.iter().map(|entry| entry.comparisons[0].name);
    for name in usual.chain(["capacity_in_use"]) {
        assert!(
            compared.contains(name),
            "{name} was never made: {compared:?}"
        );
    }
}

/// A candidate for the request.
struct Candidate<'d>(&'d Value);

impl Candidate<'_> {
    fn get(&self, key: &str) -> Option<f64> {
        self.0["factors"][key].as_f64()
    }

    fn value(&self, key: &str) -> f64 {
        self.get(key)
            .unwrap_or_else(|| panic!("no {key} in {}", self.0))
    }

    /// A value that is reported exactly, as a whole number of parts.
    fn parts(&self, key: &str, parts: f64) -> u128 {
        whole(self.value(key) * parts)
    }

    fn number(&self) -> u64 {
        self.0["number"].as_u64().unwrap()
    }
}

#[expect(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "what is shown is not negative and far below 2^64"
)]
fn whole(value: f64) -> u128 {
    value.round() as u128
}

#[track_caller]
fn same(computed: f64, shown: f64, precision: f64) {
    let off = (computed - shown).abs();
    assert!(
        off <= precision * shown.abs().max(1.0),
        "{computed}, not {shown}"
    );
}

/// The replica that the rule picks.
fn pick(comparison: &str, attempt: &Value) -> String {
    let candidates = attempt["candidates"].as_array().unwrap().iter();
    let mut candidates: Vec<_> = candidates
        .filter(|it| it["avoided"] != true)
        .map(Candidate)
        .collect();
    candidates.sort_by_key(Candidate::number);
    let shared = |key: &str| attempt["shared"][key].as_f64();
    let draw = attempt["draw"].as_f64();
    match comparison {
        "expected_delay" => drawn(&lowest(&candidates, |it| expected_delay(it)), draw),
        "hot_cold" | "hot_cold_scaled" => {
            let limit = shared("rif_limit");
            drawn(&lowest(&candidates, |it| hot_cold(it, limit)), draw)
        }
        "fewest_in_flight" => {
            let key =
                |it: &Candidate<'_>| (it.value("out_of_reach") > 0.0, it.parts("in_flight", 1.0));
            drawn(&lowest(&candidates, key), draw)
        }
        "fewest_in_flight_in_turn" | "fewest_in_flight_of_drawn" => {
            first(&lowest(&candidates, |it| it.parts("in_flight", 1.0)))
        }
        "weighted_sum" => {
            let weight = whole(shared("rif_weight").unwrap() * 1e6);
            let scale_ns = whole(shared("rif_scale_us").unwrap() * 1e3);
            let key = |it: &Candidate<'_>| weighted_sum(it, weight, scale_ns);
            drawn(&lowest(&candidates, key), draw)
        }
        "cubic_score" => {
            let clients = shared("clients").unwrap();
            drawn(
                &lowest(&candidates, |it| Float(cubic_score(it, clients))),
                draw,
            )
        }
        "capacity_in_use" => drawn(&lowest(&candidates, capacity_in_use), draw),
        "lowest_cost_of_drawn" => first(&lowest(&candidates, |it| {
            let cost = it.value("latency_us") * (it.value("in_flight") + 1.0);
            same(cost, it.value("cost_us"), 1e-9);
            Float(cost)
        })),
        "lowest_reported_of_drawn" => {
            let (sum, reports) = (shared("reported_sum").unwrap(), shared("reports").unwrap());
            first(&lowest(&candidates, |it| {
                let compared = it.get("reported").map_or(sum, |rif| rif * reports);
                same(compared, it.value("compared"), 0.0);
                whole(compared)
            }))
        }
        "expected_latency" => by_chance(&candidates, draw.unwrap()),
        "next_turn_by_weight" => {
            let (turn, count) = (shared("turn").unwrap(), shared("replicas").unwrap());
            let key = |it: &Candidate<'_>| next_turn(it, whole(turn), whole(count));
            first(&lowest(&candidates, key))
        }
        "largest_weight" => {
            let key = |it: &Candidate<'_>| core::cmp::Reverse(it.parts("weight", 1.0));
            drawn(&lowest(&candidates, key), draw)
        }
        "next_in_turn" => name(&candidates[0]),
        "chance" => drawn(&candidates.iter().collect::<Vec<_>>(), draw),
        other => panic!("{other} is not implemented a second time"),
    }
}

/// All candidates with the lowest key, in the order of their numbers.
fn lowest<'c, 'd, K: Ord>(
    candidates: &'c [Candidate<'d>],
    key: impl Fn(&Candidate<'d>) -> K,
) -> Vec<&'c Candidate<'d>> {
    let least = candidates.iter().map(&key).min().expect("there are some");
    let equals = candidates.iter().filter(|it| key(it) == least);
    equals.collect()
}

fn name(candidate: &Candidate<'_>) -> String {
    candidate.0["replica"].as_str().unwrap().to_owned()
}

fn first(equals: &[&Candidate<'_>]) -> String {
    name(equals[0])
}

/// One of several equals: the one with index ⌊draw × count⌋.
fn drawn(equals: &[&Candidate<'_>], draw: Option<f64>) -> String {
    if equals.len() == 1 {
        return first(equals);
    }
    let draw = draw.expect("a draw decides between equals");
    let place = (0..equals.len()).rfind(|place| *place as f64 <= draw * equals.len() as f64);
    name(equals[place.unwrap()])
}

/// Picks randomly, in proportion to the weights.
fn by_chance(candidates: &[Candidate<'_>], draw: f64) -> String {
    let weight = |it: &Candidate<'_>| {
        let room = (it.value("usual_in_flight") + 1.0) / (it.value("in_flight") + 1.0);
        let may_be = 1.0 - it.value("excluded");
        may_be * room.min(1.0) / it.value("expected_latency_us")
    };
    let total: f64 = candidates.iter().map(weight).sum();
    let mut up_to = 0.0;
    for candidate in candidates {
        let chance = weight(candidate) / total;
        same(chance, candidate.value("chance"), 1e-9);
        up_to += chance;
        if draw < up_to {
            return name(candidate);
        }
    }
    panic!("chances add up to one");
}

fn expected_delay(it: &Candidate<'_>) -> (Float, u128) {
    // Requests in flight include this one.
    let queue = it.value("in_flight") + it.value("turn_surcharge");
    let delay = it.value("expected_delay_us");
    same(it.value("mean_latency_us") * queue, delay, 1e-5);
    (Float(delay), it.parts("last_turn", 1.0))
}

fn hot_cold(it: &Candidate<'_>, limit: Option<f64>) -> (bool, u128, u128) {
    let (rif, latency) = (it.parts("in_flight", 1_024.0), it.parts("latency_us", 1e3));
    let hot = limit.is_some_and(|limit| it.value("in_flight") >= limit);
    assert_eq!(hot, it.value("hot") > 0.0, "{}", it.0);
    if hot {
        (hot, rif, latency)
    } else {
        (hot, latency, rif)
    }
}

fn weighted_sum(it: &Candidate<'_>, weight: u128, scale_ns: u128) -> (u128, u128) {
    let (rif, latency_ns) = (it.parts("in_flight", 1.0), it.parts("latency_us", 1e3));
    let score = weight * scale_ns * rif + (1_000_000 - weight) * latency_ns;
    same(score as f64 / 1e9, it.value("score_us"), 1e-12);
    let unweighted = scale_ns * rif + latency_ns;
    assert_eq!(unweighted, it.parts("unweighted_us", 1e3));
    (score, unweighted)
}

fn cubic_score(it: &Candidate<'_>, clients: f64) -> f64 {
    let queue = 1.0 + it.value("own_in_flight") * clients + it.value("mean_in_flight");
    let (service, response) = (it.value("service_time_us"), it.value("response_time_us"));
    let score = response - service + queue.powi(3) * service;
    same(score, it.value("score_us"), 1e-9);
    score
}

fn capacity_in_use(it: &Candidate<'_>) -> (Float, u128) {
    let (in_use, capacity) = (it.value("in_use"), it.value("capacity"));
    // A report of little load counts as more with age, and a replica that is ahead of its turn.
    let requests = it.value("in_flight") + 1.0;
    let fresh = requests / (0.85 * capacity.max(1.0));
    assert!(in_use >= fresh * (1.0 - 1e-5), "{}", it.0);
    let shares = capacity.max(1.0);
    let overload = 1.0 + 1.5 * (shares - 1.0) / shares;
    let mut longer = (1.0 + overload * (in_use - 1.0).max(0.0)) * (1.0 + 0.3 * in_use);
    if capacity < 1.0 {
        // It waits behind the earlier requests, which take longer than their cost.
        let with_this = (in_use * 0.85).max(1.0);
        longer *= (1.0 + (with_this - 1.0) / capacity) / with_this;
    }
    same(it.value("alone_us") * longer, it.value("score_us"), 1e-4);
    (Float(it.value("score_us")), it.parts("last_turn", 1.0))
}

/// The candidate's first turn that is not skipped, within eight rounds.
fn next_turn(it: &Candidate<'_>, turn: u128, count: u128) -> u128 {
    let (weight, place) = (it.parts("weight", 1.0), it.parts("place", 1.0));
    let of_its = (turn..turn + 8 * count).filter(|turn| turn % count == place);
    let mut turns = of_its.filter(|turn| {
        let round = turn / count;
        (weight * round + place * 32_767) % 65_535 >= 65_535 - weight
    });
    let next = turns.next();
    assert_eq!(next, it.get("next_turn").map(whole), "{}", it.0);
    next.unwrap_or(u128::MAX)
}

/// A float with a total order.
#[derive(Clone, Copy, PartialEq)]
struct Float(f64);

impl Eq for Float {}

impl Ord for Float {
    fn cmp(&self, other: &Self) -> Ordering {
        self.0.total_cmp(&other.0)
    }
}

impl PartialOrd for Float {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}
