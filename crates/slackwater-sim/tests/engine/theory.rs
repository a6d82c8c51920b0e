//! The engine compared with queueing theory, and with a lower bound for every policy.

use super::rig::{SINGLE, everyone, ms, plain, play, regular, secs, shared, steady};
use slackwater_sim::scenario::{Cost, Group, Service};

/// Returns the mean number in a join-shortest-queue system of two M/M/1 servers (service rate 1,
/// ties at random). It solves the Markov chain of the two queues' lengths, cut off where its mass
/// is negligible.
fn jsq_of_two_mean_number(rho: f64) -> f64 {
    const CUT: usize = 32;
    let arrival = 2.0 * rho;
    let mut share = vec![vec![0.0; CUT]; CUT];
    share[0][0] = 1.0;
    // Uniformized: in each step one of the events happens, at rates that add up to `arrival` + 2.
    // The chain forgets its start within about 200 steps.
    let total = arrival + 2.0;
    for _ in 0..3_000 {
        let mut next = vec![vec![0.0; CUT]; CUT];
        for a in 0..CUT {
            for b in 0..CUT {
                let p = share[a][b];
                let up_a = (a + 1).min(CUT - 1);
                let up_b = (b + 1).min(CUT - 1);
                let to_a = match a.cmp(&b) {
                    core::cmp::Ordering::Less => 1.0,
                    core::cmp::Ordering::Equal => 0.5,
                    core::cmp::Ordering::Greater => 0.0,
                };
                next[up_a][b] += p * arrival / total * to_a;
                next[a][up_b] += p * arrival / total * (1.0 - to_a);
                next[a.saturating_sub(1)][b] += p / total;
                next[a][b.saturating_sub(1)] += p / total;
            }
        }
        share = next;
    }
    let mut mean = 0.0;
    for (a, row) in share.iter().enumerate() {
        for (b, p) in row.iter().enumerate() {
            mean += p * (a + b) as f64;
        }
    }
    mean
}

#[test]
fn random_policy_matches_independent_mm1_queues() {
    let mut scenario = plain(200.0, vec![Group::healthy(4, SINGLE)]);
    scenario.cost = Cost::Exponential(ms(10));
    scenario.warmup = secs(2);
    scenario.span = secs(250);
    let measured = play(&scenario, "random");
    // ρ = 0.5: sojourn times are exponential with mean 10 ms / (1 - ρ) = 20 ms. The mean of n =
    // 50,000 of them has the variance ρ (2 + 5ρ - 4ρ² + ρ³) / (1 - ρ)⁴ / n service times squared: a
    // deviation of 0.24 ms. The bound is four deviations.
    let mean_ms = measured.latency.mean().as_secs_f64() * 1e3;
    assert!((mean_ms - 20.0).abs() < 1.0, "{mean_ms}");
    // The relative tolerance above, on 1 - 1/e and on 1 - 1/e³.
    for (bound, share) in [(ms(20), 0.632), (ms(60), 0.950)] {
        let found = measured.latency.share_at_most(bound);
        assert!((found - share).abs() < 0.02, "{bound:?}: {found}");
    }
    // Utilization: binomial shares of exponential work, relative deviation sqrt(2 / 50,000) = 0.6
    // %.
    let utilization = measured.utilization.mean();
    assert!((utilization - 0.5).abs() < 0.015, "{utilization}");
    // Little's law, at each of the four replicas: RIF = 50 a second × 20 ms = 1.
    let rif = measured.rif.mean();
    assert!((rif - 1.0).abs() < 0.06, "{rif}");
}

#[test]
fn central_jsq_of_two_servers_matches_its_markov_chain() {
    let rho = 0.8;
    let number = jsq_of_two_mean_number(rho);
    // ρ = 0.8: above M/M/2 with one queue, 2ρ / (1 - ρ²) = 4.44, and below two M/M/1 queues, 8.
    assert!(number > 4.44 && number < 6.0, "{number}");
    let mut scenario = plain(160.0, vec![Group::healthy(2, SINGLE)]);
    scenario.cost = Cost::Exponential(ms(10));
    scenario.warmup = secs(5);
    scenario.span = secs(400);
    let measured = play(&scenario, "jsq");
    let found = measured.latency.mean().as_secs_f64() * 160.0; // Little's law
    // 64,000 queries. The queue is similar to an M/M/1 of twice the speed, whose mean has, by the
    // formula above, a relative deviation of 2 % here. The bound is four deviations.
    assert!((found / number - 1.0).abs() < 0.08, "{found}, not {number}");
}

#[test]
fn power_of_two_choices_matches_theory() {
    // A single client that counts its own queries sees all queries.
    let mut scenario = plain(8_000.0, vec![Group::healthy(100, SINGLE)]);
    scenario.load.clients = vec![1.0];
    scenario.cost = Cost::Exponential(ms(10));
    scenario.warmup = secs(1);
    scenario.span = secs(5);
    let measured = play(&scenario, "power_of_d");
    // [Mitzenmacher, "The Power of Two Choices in Randomized Load Balancing", the supermarket
    // model]: as the number of servers grows, the mean time is Σ ρ^(2^i - 2) service times, i from
    // 1 up; with ρ = 0.8, 1.947.
    let expected: f64 = (1..8).map(|i| 0.8_f64.powi(2_i32.pow(i) - 2)).sum();
    assert!((expected - 1.947).abs() < 0.001, "{expected}");
    let found = measured.latency.mean().as_secs_f64() / 0.010;
    // The load of 40,000 queries deviates by sqrt(2 / 40,000) = 0.7 %, and 1 % of load is 1.8 % of
    // time: 1.3 %. The bound is four deviations, and 1 % for 100 servers being less than infinitely
    // many. One choice would give 5, three give 1.65.
    assert!(
        (found / expected - 1.0).abs() < 0.06,
        "{found}, not {expected}"
    );
}

#[test]
fn no_policy_is_faster_than_without_contention() {
    let mut scenario = plain(300.0, vec![Group::healthy(6, shared(2.0))]);
    scenario.cost = Cost::ClippedNormal {
        mean: ms(20),
        deviation: ms(20),
    };
    scenario.network = steady(ms(1));
    scenario.span = secs(3);
    // The queries above, each on an idle machine.
    let mut alone = scenario.clone();
    alone.fleet = vec![Group::healthy(6, Service::Latency)];
    let floor = play(&alone, "round_robin");
    for policy in everyone() {
        let found = play(&scenario, policy);
        assert_eq!(
            (found.queries, found.errors),
            (floor.queries, 0),
            "{policy}"
        );
        for q in [0.0, 0.25, 0.5, 0.9, 0.99, 1.0] {
            let (found, floor) = (found.latency.quantile(q), floor.latency.quantile(q));
            assert!(found >= floor, "{policy} at {q}: {found:?} below {floor:?}");
        }
    }
}

#[test]
fn clairvoyant_policies_rank_as_expected() {
    // One replica in two is four times as slow. A rule that knows this is better than one that only
    // counts, and counting is better than a random choice.
    let slow = Group {
        slowness: 4.0,
        ..Group::healthy(4, SINGLE)
    };
    let mut scenario = plain(300.0, vec![Group::healthy(4, SINGLE), slow]);
    scenario.cost = Cost::Exponential(ms(10));
    scenario.span = secs(20);
    let mean = |policy| play(&scenario, policy).latency.mean();
    let (greedy, jsq, chance) = (mean("greedy"), mean("jsq"), mean("random"));
    assert!(
        greedy < jsq && jsq < chance,
        "{greedy:?} {jsq:?} {chance:?}"
    );
    // Where half of the machines have fewer cores, weights follow the capacity, and counts do not.
    let small = Group::healthy(4, shared(1.0));
    let mut scenario = plain(1_000.0, vec![Group::healthy(4, shared(4.0)), small]);
    scenario.cost = Cost::Exponential(ms(15));
    scenario.span = secs(5);
    let weighted = play(&scenario, "jsq_weighted");
    let sent = &weighted.queries_by_replica;
    let (large, small): (u64, u64) = (sent[..4].iter().sum(), sent[4..].iter().sum());
    assert!(large > 3 * small, "{sent:?}");
    assert!(weighted.latency.mean() < play(&scenario, "jsq").latency.mean());
}

#[test]
fn clairvoyant_policies_count_queries_on_the_network() {
    // Five queries are on their way to each of two replicas, with just enough time between them.
    let mut scenario = regular(200.0, vec![Group::healthy(2, SINGLE)], Vec::new());
    scenario.network = steady(ms(50));
    for policy in ["jsq", "greedy", "jsq_weighted"] {
        let longest = play(&scenario, policy).latency.quantile(1.0);
        // A query finds at most one other there: ties are broken at random.
        assert!(
            longest >= ms(110) && longest <= ms(120),
            "{policy}: {longest:?}"
        );
    }
    assert!(play(&scenario, "random").latency.quantile(1.0) > ms(150));
}
