//! Conversations end to end, and the parts of a run.

use super::engines::Engine as Machine;
use super::*;
use crate::machine::{JobId, Progress, Prompt};
use crate::policy::Clairvoyant;
use crate::scenario::InferenceSettings;
use crate::scenario::{Answers, Cost, Group, Load, Probes, Service, TokenCount};
use core::time::Duration;

const LEAST_LOADED: &str = "least_loaded";
const SYNC: &str = "prequal_sync";

fn prompts(routing: Routing) -> Prompts {
    let tokens = |mean| TokenCount { mean, sigma: 0.5 };
    Prompts {
        engine: InferenceSettings::QWEN3_32B,
        turns: 5.0,
        think: Duration::from_secs(4),
        systems: 8,
        zipf: 1.0,
        system_tokens: [1_000, 4_000],
        message: tokens(500.0),
        answer: tokens(100.0),
        context_max: 16_000,
        burst: None,
        restart: None,
        routing,
    }
}

/// Four engines, the last of them `slowness` times as slow, and two balancers, for 40 s after 20 s.
fn scenario(prompts: Prompts, slowness: f64) -> Scenario {
    let mut load = Load::even(4.0, 2);
    load.prompts = Some(Box::new(prompts));
    let group = |count| Group::healthy(count, Service::Latency);
    let mut fleet = vec![group(3), group(1)];
    fleet[1].slowness = slowness;
    Scenario {
        warmup: Duration::from_secs(20),
        span: Duration::from_secs(40),
        ..Scenario::plain(load, Cost::Fixed(Duration::from_secs(1)), fleet)
    }
}

fn play_slow(routing: Routing, policy: &str, slowness: f64) -> Measured {
    let scenario = scenario(prompts(routing), slowness);
    crate::run(
        &scenario,
        &PolicyChoice::named(policy).expect("it is one"),
        1,
    )
}

fn play(routing: Routing, policy: &str) -> Measured {
    play_slow(routing, policy, 1.0)
}

const fn probes(last: bool, others: usize) -> Routing {
    Routing::Probes(Probes {
        homes: 0,
        last,
        others,
        miss_weight: 0.0,
    })
}

#[test]
fn same_seed_gives_the_same_run() {
    let scenario = scenario(prompts(Routing::Sticky), 1.0);
    let policy = PolicyChoice::named("shortest_expected_delay").expect("it is one");
    let seen = |seed| {
        let run = crate::run(&scenario, &policy, seed);
        (run.queries, run.events, run.latency.mean())
    };
    assert_eq!(seen(1), seen(1));
    assert_ne!(seen(1), seen(2));
}

#[test]
fn turns_come_at_the_rate_of_the_load() {
    // An answer takes about the 8 s that the beginning of a run assumes.
    let mut prompts = prompts(Routing::Sticky);
    prompts.answer.mean = 280.0;
    let policy = PolicyChoice::named(LEAST_LOADED).expect("it is one");
    let run = crate::run(&scenario(prompts, 1.0), &policy, 1);
    // 160 in the mean. Sessions have five turns, so the deviation is √(160 · 9). The bound is
    // three deviations.
    assert!((46..274).contains(&run.queries), "{}", run.queries);
    assert_eq!(run.latency.count(), run.queries, "each has its first token");
    assert_eq!(run.errors, 0);
    let conversations = &run.conversations;
    assert!(conversations.per_token.quantile(0.5) >= Duration::from_millis(15));
    assert!(conversations.whole.mean() > run.latency.mean());
}

#[test]
fn sticky_sessions_stay_and_find_their_cache() {
    let sticky = play(Routing::Sticky, LEAST_LOADED).conversations;
    let robin = play(Routing::Policy, "round_robin").conversations;
    assert_eq!(sticky.moved, 0);
    assert!(
        (0.6..0.9).contains(&robin.moved_share()),
        "{}",
        robin.moved_share()
    );
    let shares = [robin.cached_share(), sticky.cached_share()];
    assert!(shares[1] > shares[0] + 0.1, "{shares:?}");
    assert!(shares[1] > 0.7, "{shares:?}");
}

#[test]
fn balancers_agree_on_the_engine_of_a_session() {
    for routing in [
        Routing::SessionHash,
        Routing::Keyed {
            answers: Answers::ScaledLoad,
        },
    ] {
        let moved = play(routing, LEAST_LOADED).conversations.moved_share();
        let bound = if routing == Routing::SessionHash {
            0.0
        } else {
            0.6
        };
        assert!(moved <= bound, "{moved}");
    }
}

#[test]
fn rounds_take_a_round_trip_and_find_the_cache() {
    for (routing, policy, count) in [
        (
            Routing::Keyed {
                answers: Answers::ScaledLoad,
            },
            SYNC,
            3.0,
        ),
        (
            Routing::Keyed {
                answers: Answers::ExpectedDelay,
            },
            SYNC,
            3.0,
        ),
        (probes(false, 4), LEAST_LOADED, 4.0),
    ] {
        let run = play(routing, policy);
        assert!((run.probes_per_query() - count).abs() < 0.2, "{routing:?}");
        assert!(run.conversations.cached_share() > 0.7, "{routing:?}");
        // Two delays for the round, two for the turn, and a step.
        let fastest = run.latency.quantile(0.0);
        assert!(fastest >= Duration::from_micros(16_200), "{fastest:?}");
    }
}

#[test]
fn slow_engine_gets_less_by_expected_delay_than_by_hash() {
    let share = |routing| {
        let run = play_slow(routing, LEAST_LOADED, 5.0);
        run.queries_by_replica[3] as f64 / run.queries as f64
    };
    let [hash, delay] = [Routing::SessionHash, probes(true, 3)].map(share);
    assert!(hash > 0.05 && delay < 0.5 * hash, "{hash} {delay}");
    let reports = share(Routing::StickyReports { miss_weight: 0.0 });
    assert!(reports < 0.7 * hash, "{hash} {reports}");
}

#[test]
fn scores_prefer_the_engine_that_has_the_prefix() {
    // Each of the two balancers remembers half of the turns.
    for (exact, moved, cached) in [(false, 0.6, 0.5), (true, 0.4, 0.7)] {
        let run = play(Routing::PrefixScore { exact }, LEAST_LOADED).conversations;
        assert!(run.moved_share() < moved, "{exact} {}", run.moved_share());
        assert!(
            run.cached_share() > cached,
            "{exact} {}",
            run.cached_share()
        );
    }
}

#[test]
fn turns_of_an_engine_that_restarts_go_elsewhere() {
    let mut prompts = prompts(Routing::Sticky);
    prompts.restart = Some(Restart {
        engine: 0,
        at: Duration::from_secs(30),
        down_for: Duration::from_secs(10),
    });
    let scenario = scenario(prompts, 1.0);
    let policy = PolicyChoice::named(LEAST_LOADED).expect("it is one");
    let run = crate::run(&scenario, &policy, 1);
    let unfinished = run.queries - run.latency.count();
    assert_eq!(unfinished, 0, "each turn gets its first token");
    assert!(run.conversations.moved > 0);
    assert!(
        run.errors < 10,
        "only answers in progress break off: {}",
        run.errors
    );
}

/// What balancers count is what is in flight, at any time, even while an engine restarts.
#[test]
fn balancers_count_what_is_in_flight() {
    let mut prompts = prompts(probes(true, 2));
    prompts.restart = Some(Restart {
        engine: 1,
        at: Duration::from_secs(10),
        down_for: Duration::from_secs(5),
    });
    let scenario = scenario(prompts.clone(), 1.0);
    let policy = PolicyChoice::named("shortest_expected_delay").expect("it is one");
    let mut run = Run::new(&scenario, &prompts, &policy, 1).expect("no clairvoyant");
    run.begin(&scenario);
    for _ in 0..20_000 {
        run.now = run.queue.next_at();
        let what = run.queue.pop().expect("sessions go on");
        run.play(what);
        let sent: u32 = run.balancers.iter().flat_map(|it| &it.sent).sum();
        let open = run.turns.iter().filter(|(_, turn)| turn.is_sent()).count();
        assert_eq!(sent as usize, open);
    }
    assert!(run.now > 12_000_000_000, "the restart was played");
    assert!(run.turns.len() < 200 && run.probes.len() < 200 && run.rounds.len() < 20);
}

#[test]
fn clairvoyants_play_no_conversations() {
    let prompts = prompts(Routing::Policy);
    let scenario = scenario(prompts.clone(), 1.0);
    let policy = PolicyChoice::clairvoyant(Clairvoyant::Greedy);
    let never = AtomicBool::new(false);
    assert!(run(&scenario, &prompts, &policy, 1, &never).is_none());
}

#[test]
fn text_of_a_session_grows_and_begins_with_its_system_prompt() {
    let mut prompts = prompts(Routing::Policy);
    prompts.systems = 1;
    prompts.system_tokens = [640, 640];
    let mut sessions = Sessions::new(&prompts, 1.0, 7);
    let mut one = sessions.begin(false, None);
    let [first, second] = [(); 2].map(|()| one.turn(&prompts).expect("short"));
    assert!(second.tokens > first.tokens + first.answer_tokens);
    assert!(second.blocks.starts_with(&first.blocks));
    assert_eq!(
        first.blocks.len(),
        ((first.tokens + first.answer_tokens) / 64) as usize
    );
    let other = sessions.begin(false, None).turn(&prompts).expect("short");
    let same = first.blocks.iter().zip(other.blocks.iter());
    assert_eq!(same.take_while(|(a, b)| a == b).count(), 10, "640 tokens");
    let past = sessions.begin(true, None).turn(&prompts).expect("short");
    assert_eq!(past.blocks[..10], first.blocks[..10]);
}

#[test]
fn sessions_end_before_their_text_is_too_long() {
    let prompts = Prompts {
        context_max: 3_000,
        ..prompts(Routing::Policy)
    };
    let mut session = Sessions::new(&prompts, 1.0, 7).begin(false, None);
    let mut turns = 0;
    while let Some(turn) = session.turn(&prompts) {
        assert!(turn.tokens + turn.answer_tokens <= 3_000);
        turns += 1;
    }
    assert!(turns < 10);
}

fn prompt(name: u64, tokens: u32) -> Prompt {
    Prompt {
        tokens,
        answer_tokens: 1,
        blocks: (0..u64::from(tokens / 64))
            .map(|block| name << 32 | block)
            .collect(),
    }
}

/// Plays an engine until it is idle. Returns when the first token of this job came.
fn drain(engine: &mut Machine, of: JobId) -> Time {
    let mut at = 0;
    while engine.machine.next_event() != NEVER {
        let now = engine.machine.next_event();
        let mut progress = Vec::new();
        engine.advance(now, &mut progress);
        if progress.contains(&Progress::FirstToken(of)) {
            at = now;
        }
    }
    at
}

/// An agent that has seen some prompts predicts the first token of the next one, on a slow engine,
/// too, behind others, and if half of the prompt is cached.
#[test]
fn agents_predict_the_first_token() {
    let prompts = prompts(Routing::Policy);
    let scenario = scenario(prompts.clone(), 3.0);
    for number in [0, 3] {
        let mut engine = Machine::new(&scenario, &prompts, number);
        let mut now = 0;
        for job in 0..20 {
            let _ = engine.arrive(now, JobId(job), prompt(u64::from(job), 4_096));
            now = drain(&mut engine, JobId(job)) + 1_000_000_000;
        }
        let half = Prompt {
            tokens: 8_192,
            ..prompt(19, 8_192)
        };
        let hint = engines::hint(&half, 64);
        assert_eq!(hint.len(), 32);
        for behind in 0..3 {
            let _ = engine.arrive(
                now,
                JobId(100 + behind),
                prompt(1_000 + u64::from(behind), 4_096),
            );
        }
        let expected = engine.answer(now, &hint, half.tokens).delay_ns();
        let _ = engine.arrive(now, JobId(200), half);
        let took = (drain(&mut engine, JobId(200)) - now) as f64;
        assert!(
            (0.8..1.25).contains(&(expected / took)),
            "{expected} {took}"
        );
    }
}

#[test]
fn engines_report_the_rate_of_finished_turns() {
    let prompts = prompts(Routing::Policy);
    let mut engine = Machine::new(&scenario(prompts.clone(), 1.0), &prompts, 0);
    assert_eq!(engine.report(0).query_rate_millis, None);
    for job in 0..6 {
        let arrival = engine.arrive(0, JobId(job), prompt(1, 64));
        engine.finished(1_000_000_000, arrival);
    }
    assert_eq!(engine.report(2_000_000_000).query_rate_millis, Some(3_000));
    engine.stop();
    assert_eq!(engine.report(2_000_000_000).query_rate_millis, None);
}

#[test]
fn answers_to_hints_scale_the_load_by_the_matched_share() {
    let prompts = prompts(Routing::Policy);
    let scenario = scenario(prompts.clone(), 1.0);
    let mut engine = Machine::new(&scenario, &prompts, 0);
    let _ = engine.arrive(0, JobId(1), prompt(1, 4_096));
    drain(&mut engine, JobId(1));
    let mut scale = |prompt: &Prompt| {
        let hint = engines::hint(prompt, 64);
        let answer = engine.answer(0, &hint, prompt.tokens);
        answer.report.load_scale.in_1024ths()
    };
    let [all, half, none] =
        [prompt(1, 4_096), prompt(1, 8_192), prompt(2, 4_096)].map(|it| scale(&it));
    assert_eq!([all, half, none], [256, 640, 1_024]);
    let half = prompt(1, 8_192);
    let answer = engine.answer(0, &engines::hint(&half, 64), half.tokens);
    assert_eq!(
        answer
            .as_report(Answers::ExpectedDelay)
            .load_scale
            .in_1024ths(),
        1_024
    );
    let latency = answer
        .as_report(Answers::ExpectedDelay)
        .latency
        .expect("known");
    assert!((latency.as_secs_f64() * 1e9 - answer.delay_ns()).abs() < 2.0);
}
