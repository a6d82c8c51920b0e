//! The engine by itself: what a step takes, what prompts and answers do to each other, and what the
//! prefix cache saves.

use super::*;

/// Steps of 10 ms, 1 ms for each answer, 10 µs for each token of a prompt; blocks of 10 tokens.
const SETTINGS: InferenceSettings = InferenceSettings {
    step_ns: 10e6,
    answer_ns: 1e6,
    context_token_ns: 0.0,
    prompt_token_ns: 10e3,
    tokens_per_step: 1_000,
    sequences_max: 8,
    block_tokens: 10,
    blocks: 1_000,
};
const MS: Time = 1_000_000;

fn prompt(name: u64, tokens: u32, answer_tokens: u32) -> Prompt {
    let blocks = (tokens + answer_tokens) / 10;
    Prompt {
        tokens,
        answer_tokens,
        blocks: (0..u64::from(blocks))
            .map(|block| name << 32 | block)
            .collect(),
    }
}

/// Plays until the engine is idle. Returns what happened, with times in milliseconds.
fn play(engine: &mut Inference) -> Vec<(f64, Progress)> {
    let mut all = Vec::new();
    while engine.next_event() != NEVER {
        let now = engine.next_event();
        let mut progress = Vec::new();
        engine.advance(now, &mut progress);
        all.extend(progress.into_iter().map(|it| (now as f64 / 1e6, it)));
    }
    all
}

fn at(all: &[(f64, Progress)], what: Progress) -> f64 {
    let found = all.iter().find(|(_, progress)| *progress == what);
    found.expect("it has happened").0
}

#[test]
fn prompt_is_read_in_one_step_and_each_token_takes_another() {
    let mut engine = Inference::new(SETTINGS, 1.0);
    engine.arrive(0, JobId(1), prompt(1, 500, 3));
    let all = play(&mut engine);
    // 10 ms and 500 tokens of 10 µs; then two steps with one answer each.
    let expected = [
        (15.0, Progress::FirstToken(JobId(1))),
        (37.0, Progress::Finished(JobId(1))),
    ];
    assert_eq!(all, expected);
}

#[test]
fn slow_engine_takes_as_many_times_as_long() {
    let mut engine = Inference::new(SETTINGS, 3.0);
    engine.arrive(0, JobId(1), prompt(1, 500, 3));
    let ended_at = at(&play(&mut engine), Progress::Finished(JobId(1)));
    assert!((ended_at - 111.0).abs() < 1e-9, "{ended_at}");
}

#[test]
fn tokens_a_second_grow_with_the_batch_up_to_a_cap() {
    let rate = |batch: u32| {
        let settings = InferenceSettings {
            sequences_max: 10_000,
            tokens_per_step: 100_000,
            blocks: 100_000,
            ..SETTINGS
        };
        let mut engine = Inference::new(settings, 1.0);
        for job in 0..batch {
            engine.arrive(0, JobId(job), prompt(u64::from(job), 1, 101));
        }
        let all = play(&mut engine);
        let ends = at(&all, Progress::Finished(JobId(0)));
        let begins = at(&all, Progress::FirstToken(JobId(0)));
        f64::from(batch) * 100.0 / (ends - begins)
    };
    let rates = [1, 4, 16, 64, 4_096].map(rate);
    assert!(rates.is_sorted(), "{rates:?}");
    // n tokens in 10 + n ms.
    assert!((rates[0] - 1.0 / 11.0).abs() < 0.02, "{rates:?}");
    assert!(rates[4] > 0.99 && rates[4] <= 1.01, "{rates:?}");
}

#[test]
fn prompts_and_answers_delay_each_other() {
    let mut alone = Inference::new(SETTINGS, 1.0);
    alone.arrive(0, JobId(1), prompt(1, 10, 11));
    let alone = at(&play(&mut alone), Progress::Finished(JobId(1)));
    let mut both = Inference::new(SETTINGS, 1.0);
    both.arrive(0, JobId(1), prompt(1, 10, 11));
    both.arrive(0, JobId(2), prompt(2, 5_000, 1));
    let both = play(&mut both);
    // The second prompt takes 50 ms of the steps that make the answer.
    let delayed = at(&both, Progress::Finished(JobId(1)));
    assert!((delayed - alone - 50.0).abs() < 1.0, "{delayed} {alone}");
    let first = at(&both, Progress::FirstToken(JobId(2)));
    // After a step of 10.1 ms for the first prompt, six steps of 11 ms, and 5,000 tokens of 10 µs.
    assert!((first - 126.1).abs() < 0.01, "{first}");
}

#[test]
fn cached_prefix_is_not_read_again() {
    let mut engine = Inference::new(SETTINGS, 1.0);
    engine.arrive(0, JobId(1), prompt(1, 500, 100));
    play(&mut engine);
    assert_eq!(engine.cached(&prompt(1, 800, 1).blocks, 800), 600);
    assert_eq!(engine.cached(&prompt(2, 800, 1).blocks, 800), 0);
    assert_eq!(engine.cached(&prompt(1, 600, 1).blocks, 600), 599);
    let begins = 10_000 * MS;
    engine.arrive(begins, JobId(2), prompt(1, 800, 2));
    let first = at(&play(&mut engine), Progress::FirstToken(JobId(2)));
    // The answer of the first turn is cached, too: 600 of 800 tokens.
    assert!((first - 10_012.0).abs() < 0.01, "{first}");
    assert_eq!(engine.tokens(), [1_300, 600]);
}

#[test]
fn prompts_beyond_the_largest_batch_wait_in_order() {
    let settings = InferenceSettings {
        sequences_max: 2,
        ..SETTINGS
    };
    let mut engine = Inference::new(settings, 1.0);
    for job in 0..4 {
        engine.arrive(0, JobId(job), prompt(u64::from(job), 10, 5));
    }
    // The first prompt is read by itself, since the others arrive after the step has begun.
    assert_eq!((engine.running(), engine.waiting()), (1, 3));
    let all = play(&mut engine);
    let first = |job| at(&all, Progress::FirstToken(JobId(job)));
    let finished = |job| at(&all, Progress::Finished(JobId(job)));
    assert!(first(1) < finished(0));
    assert!(first(2) > finished(0) && first(3) > finished(1));
    assert!(first(2) < first(3));
}

#[test]
fn prompts_wait_for_memory() {
    let settings = InferenceSettings {
        blocks: 100,
        ..SETTINGS
    };
    let mut engine = Inference::new(settings, 1.0);
    engine.arrive(0, JobId(1), prompt(1, 590, 10));
    engine.arrive(0, JobId(2), prompt(2, 590, 10));
    let all = play(&mut engine);
    let second = at(&all, Progress::FirstToken(JobId(2)));
    assert!(second > at(&all, Progress::Finished(JobId(1))));
    assert!(engine.memory_in_use() < 1e-9, "all is released");
    // The first has left 40 blocks.
    assert_eq!(engine.cached(&prompt(1, 600, 0).blocks, 600), 400);
}

#[test]
fn prompt_larger_than_the_memory_is_served_and_blocks_no_other() {
    let settings = InferenceSettings {
        blocks: 10,
        ..SETTINGS
    };
    let mut engine = Inference::new(settings, 1.0);
    engine.arrive(0, JobId(1), prompt(1, 2_000, 10));
    engine.arrive(0, JobId(2), prompt(2, 20, 10));
    let all = play(&mut engine);
    assert!(at(&all, Progress::Finished(JobId(1))) < at(&all, Progress::Finished(JobId(2))));
}

#[test]
fn stopped_engine_has_lost_its_cache() {
    let mut engine = Inference::new(SETTINGS, 1.0);
    engine.arrive(0, JobId(1), prompt(1, 500, 100));
    engine.clear();
    assert_eq!((engine.next_event(), engine.running()), (NEVER, 0));
    engine.arrive(0, JobId(2), prompt(1, 500, 1));
    play(&mut engine);
    engine.clear();
    assert_eq!(engine.cached(&prompt(1, 500, 1).blocks, 500), 0);
}
