//! Conversations with a language model: sessions whose prompts grow turn by turn, the engines that
//! answer, and the rule that sends each turn to an engine.

use core::time::Duration;

/// What an engine can do. Times are in nanoseconds.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct InferenceSettings {
    /// A step that has nothing to do but to read the weights: above 0.
    pub step_ns: f64,
    /// What each answer in progress adds to a step. Its inverse is the cap on tokens a second.
    pub answer_ns: f64,
    /// What each token that is kept of an answer in progress adds: its keys and values are read.
    pub context_token_ns: f64,
    /// What each token of a prompt adds: the inverse of the speed of reading prompts.
    pub prompt_token_ns: f64,
    /// The most tokens of a step: at least 1.
    pub tokens_per_step: u32,
    /// The most sequences in progress: at least 1.
    pub sequences_max: usize,
    /// Tokens of a block: at least 1.
    pub block_tokens: u32,
    /// Memory, in blocks. A prompt with its answer must fit.
    pub blocks: usize,
}

impl InferenceSettings {
    /// Qwen3-32B in 16 bits on two A100 SXM of 80 GB with tensor parallelism. The model and the
    /// size of a block are those of llm-d's guide to precise prefix routing. Times are rooflines of
    /// public figures: 32.8 billion parameters, and 64 layers with 8 heads for keys and values of
    /// 128 values each (model card), 2.04 TB/s and 312 TFLOP/s for each GPU (data sheet), of which
    /// 65 % of the bandwidth and 45 % of the arithmetic are used. Sequences and tokens of a step
    /// are among vLLM's defaults. Memory is 90 % of 160 GB, less the weights and 4 GB, at 262 kB a
    /// token.
    pub const QWEN3_32B: Self = Self {
        step_ns: 25e6,
        answer_ns: 234e3,
        context_token_ns: 100.0,
        prompt_token_ns: 234e3,
        tokens_per_step: 8_192,
        sequences_max: 256,
        block_tokens: 64,
        blocks: 4_400,
    };
}

/// The demand of conversations, and how it is routed. The scenario's fleet has as many engines as
/// replicas, and each group's slowness is that of its engines. The load's rate is that of turns, in
/// the mean, and each client is a balancer. Each turn of a session comes to a random balancer.
///
/// A turn's prompt is everything before it: the system prompt, which many sessions share, all
/// earlier messages and answers, and a new message. The next turn follows a think time after the
/// answer has ended, unless the session ends.
#[derive(Clone, Debug, PartialEq)]
pub struct Prompts {
    /// What each engine can do.
    pub engine: InferenceSettings,
    /// Mean number of turns of a session, geometric: 1 or more.
    pub turns: f64,
    /// Mean time between the end of an answer and the next turn, exponential.
    pub think: Duration,
    /// Number of system prompts: at least 1.
    pub systems: usize,
    /// Exponent of Zipf's law by which sessions choose their system prompt; 0: evenly.
    pub zipf: f64,
    /// The shortest and the longest system prompt, in tokens; lengths are uniform between.
    pub system_tokens: [u32; 2],
    /// Tokens of a new message.
    pub message: TokenCount,
    /// Tokens of an answer.
    pub answer: TokenCount,
    /// A session ends before its prompt and answer would have more tokens than this.
    pub context_max: u32,
    /// Sessions that begin at once with a system prompt of their own; `None`: there are none.
    pub burst: Option<Burst>,
    /// An engine that restarts, by its number; `None`: none does.
    pub restart: Option<Restart>,
    /// The rule that chooses the engine of a turn.
    pub routing: Routing,
}

/// A number of tokens, drawn from a lognormal distribution: at least 1.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct TokenCount {
    /// The mean.
    pub mean: f64,
    /// The standard deviation of the logarithm.
    pub sigma: f64,
}

/// Sessions that begin within a short time and share a system prompt that was not used before.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Burst {
    /// When the first one begins, after the start of the run.
    pub at: Duration,
    /// How many begin.
    pub sessions: u32,
    /// The time within which they begin, evenly.
    pub within: Duration,
    /// Tokens of their system prompt.
    pub system_tokens: u32,
}

/// A restart of an engine. Answers that are in progress there break off. Turns without a first
/// token are sent elsewhere.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Restart {
    /// The engine's number, from 0.
    pub engine: usize,
    /// When it stops, after the start of the run. All balancers learn it at once.
    pub at: Duration,
    /// How long it is away. It comes back with an empty cache.
    pub down_for: Duration,
}

/// How the engine of a turn is chosen. Rules that choose by themselves charge their choice to the
/// policy, and a session is known by its number.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Routing {
    /// The policy chooses, and sees no session.
    Policy,
    /// The session's first engine in rendezvous order.
    SessionHash,
    /// The session's first engine in rendezvous order that has less than `factor` times its share
    /// of this balancer's requests in flight.
    BoundedHash {
        /// 1.25 in the examples of Envoy and `HAProxy`.
        factor: f64,
    },
    /// The policy chooses for a session's first turn, and later turns go to the same engine: a
    /// cookie.
    Sticky,
    /// The policy, with the session as the query's key and the default settings of keys.
    Keyed {
        /// What engines answer to a policy's synchronous probes.
        answers: Answers,
    },
    /// Weighted scores from scrapes every 50 ms, as the endpoint pickers of llm-d and the Gateway
    /// API Inference Extension do: 2 · the place between the longest queue and the shortest,
    /// 2 · free memory, 3 · the matched share of the prefix. The highest score wins.
    PrefixScore {
        /// Whether matches are those of the engines' caches, reported by events. Otherwise each
        /// balancer remembers which prefixes it has sent where.
        exact: bool,
    },
    /// A synchronous round of probes with the prompt's hint for each turn. The earliest expected
    /// answer wins.
    Probes(Probes),
    /// The session's engine (cookie), unless by the engines' last reports another one would begin
    /// the answer earlier. Reports carry the time until a prompt is begun and the time for a token,
    /// and are 50 ms old at most. The balancer adds what it has sent since.
    StickyReports {
        /// See [`Probes`].
        miss_weight: f64,
    },
}

/// What an engine answers to a synchronous probe that carries the hint of a prompt.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Answers {
    /// Its load, scaled by `1 − 0.75 · matched share`. `[S3]`
    ScaledLoad,
    /// Its load, with the expected delay of this prompt as the latency.
    ExpectedDelay,
}

/// The engines that a round probes, and how their answers are compared: by the expected delay of
/// this prompt, which is that of the tokens ahead of it and of its own ones that are not in the
/// cache, times the engine's measured time for a token.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Probes {
    /// The first engines in the session's rendezvous order.
    pub homes: usize,
    /// Whether the engine of the session's last turn is probed (cookie).
    pub last: bool,
    /// Further engines, drawn at random.
    pub others: usize,
    /// How often a prompt's uncached tokens count in addition, for the time that they take from
    /// others. 0: only this prompt's delay counts.
    pub miss_weight: f64,
}
