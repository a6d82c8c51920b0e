//! Scenarios of a replica that measures its own load: the tracker, the capacity and the rates.

use crate::chance::Chance;
use crate::line::{Object, nanos};
use core::time::Duration;
use slackwater_core::tracker::{
    Arrival, CapacityEstimator, CpuTotals, End, LoadTracker, RecentRates, ThreadTotals, Totals,
    TrackerConfig,
};
use slackwater_core::{Instant, LoadReport, Rif};
use std::collections::{BTreeMap, BTreeSet};

const US: u64 = 1_000;
const MS: u64 = 1_000_000;
const SECOND: u64 = 1_000 * MS;

/// What a scenario is about.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Subject {
    Tracker,
    /// The tracker, and what is learned from it and from CPU time.
    Capacity,
    Rates,
}

impl Subject {
    pub(crate) const fn name(self) -> &'static str {
        match self {
            Self::Tracker => "tracker",
            Self::Capacity => "capacity",
            Self::Rates => "rates",
        }
    }

    /// Plays a scenario and returns its lines.
    pub(crate) fn play(self, scenario: &str, chance: Chance, events: u64) -> String {
        match self {
            Self::Rates => rates(scenario, chance, events),
            Self::Tracker | Self::Capacity => Server::new(self, scenario, chance).play(events),
        }
    }
}

/// What happens later at the server.
#[derive(Clone, Copy, Debug)]
enum Action {
    Arrive,
    Head(u64, End),
    Finish(u64, End),
    Withdraw(u64),
    Report,
    Look,
    ConditionChange,
}

/// CPU time, as the operating system counts it.
#[derive(Clone, Copy, Debug)]
struct Cpu {
    totals: Option<CpuTotals>,
    settled_at: u64,
    /// The cores that its queries get at present, in thousandths.
    millicores: u32,
    /// Queries wait for something else than the CPU.
    is_locked: bool,
}

/// A server with its tracker.
#[derive(Debug)]
struct Server {
    chance: Chance,
    tracker: LoadTracker,
    capacity: Option<CapacityEstimator>,
    arrivals: BTreeMap<u64, Arrival>,
    queue: BTreeMap<(u64, u64), Action>,
    queued: u64,
    clock: u64,
    queries: u64,
    finished: u64,
    lines: String,
    events: u64,
    gap_ns: u64,
    base_ns: u64,
    cores: u64,
    /// Times in a thousand that the clock steps back.
    steps_back: u32,
    heads: u32,
    /// Streams in a thousand queries, and those that are in flight.
    stream_share: u32,
    streams: BTreeSet<u64>,
    slow: u64,
    stopped: bool,
    coarse: bool,
    cpu: Cpu,
}

impl Server {
    fn new(subject: Subject, scenario: &str, mut chance: Chance) -> Self {
        let config = config(&mut chance);
        let mut settings = Object::new();
        settings.number("sample_window", nanos(config.sample_window));
        settings.number("window_samples_min", config.window_samples_min as u64);
        let remembered = config.remembered_samples_max as u64;
        settings.number("remembered_samples_max", remembered);
        settings.number("sample_age_max", nanos(config.sample_age_max));
        settings.number("sample_capacity", config.sample_capacity as u64);
        let mut header = Object::new();
        header.text("scenario", scenario);
        header.object("settings", settings);
        let gap_ns = chance.one_of(&[50 * US, MS, 10 * MS, 60 * MS]);
        let base_ns = gap_ns / 4 * chance.one_of(&[1_u64, 2, 4, 8, 16]);
        let cores = chance.one_of(&[1_u64, 1, 2, 4]);
        let is_measured = !chance.in_1000(400);
        let threads = (!chance.in_1000(200)).then(ThreadTotals::default);
        let limit = chance.one_of(&[None, Some(500), Some(1_000), Some(2_000), Some(4_000)]);
        let period = chance.one_of(&[None, None, Some(Duration::from_millis(100))]);
        let totals = CpuTotals {
            used: Duration::from_millis(80),
            threads,
            limit_millicores: limit,
            quota_period: period,
        };
        let clock = chance.one_of(&[0, 9_000_000_000, 1_790_000_000_000_000_000]);
        let cpu = Cpu {
            totals: is_measured.then_some(totals),
            settled_at: clock,
            millicores: chance.one_of(&[300, 1_000, 2_000, 4_000]),
            is_locked: chance.in_1000(200),
        };
        Self {
            tracker: LoadTracker::new(&config),
            capacity: (subject == Subject::Capacity).then(CapacityEstimator::default),
            arrivals: BTreeMap::new(),
            queue: BTreeMap::new(),
            queued: 0,
            clock,
            queries: 0,
            finished: 0,
            lines: format!("{}\n", header.finish()),
            events: 0,
            gap_ns,
            base_ns,
            cores,
            steps_back: chance.one_of(&[0, 0, 20]),
            heads: chance.one_of(&[0, 500, 900]),
            // A copy draws, so that scenarios without streams are as before there were any.
            stream_share: if chance.clone().in_1000(988) { 0 } else { 300 },
            streams: BTreeSet::new(),
            slow: 1,
            stopped: false,
            coarse: chance.in_1000(80),
            cpu,
            chance,
        }
    }

    fn play(mut self, events: u64) -> String {
        self.plan(0, Action::Report);
        self.plan(self.gap_ns, Action::Arrive);
        self.plan(self.gap_ns * 20, Action::ConditionChange);
        if self.capacity.is_some() {
            self.plan(0, Action::Look);
        }
        while self.events < events
            && let Some(((at, _), action)) = self.queue.pop_first()
        {
            self.clock = self.clock.max(at);
            self.act(action);
        }
        self.lines
    }

    fn plan(&mut self, after_ns: u64, action: Action) {
        self.queued += 1;
        self.queue
            .insert((self.clock.saturating_add(after_ns), self.queued), action);
    }

    fn now(&mut self) -> u64 {
        let clock = if self.coarse {
            self.clock - self.clock % (20 * MS)
        } else {
            self.clock
        };
        if self.chance.in_1000(self.steps_back) {
            return clock.saturating_sub(self.chance.wide(self.base_ns * 2));
        }
        clock
    }

    fn put(&mut self, line: Object) {
        self.lines.push_str(&line.finish());
        self.lines.push('\n');
        self.events += 1;
    }

    fn act(&mut self, action: Action) {
        let t = self.now();
        let now = Instant::from_nanos(t);
        match action {
            Action::Arrive => self.arrive(t),
            Action::Head(query, end) => {
                if let Some(arrival) = self.arrivals.get_mut(&query) {
                    self.tracker.head_ready(now, arrival, end);
                    self.put(query_line(t, "head", query, Some(end)));
                }
            }
            Action::Finish(query, end) => {
                if let Some(arrival) = self.arrivals.remove(&query) {
                    self.streams.remove(&query);
                    self.tracker.finish(now, arrival, end);
                    self.finished += u64::from(end != End::Cancelled);
                    self.put(query_line(t, "finish", query, Some(end)));
                }
            }
            Action::Withdraw(query) => {
                if let Some(arrival) = self.arrivals.remove(&query) {
                    self.tracker.withdraw(arrival);
                    self.put(query_line(t, "withdraw", query, None));
                }
            }
            Action::Report => {
                let after = self.chance.wide(self.gap_ns * 4);
                self.plan(after + US, Action::Report);
                self.report(t);
            }
            Action::Look => {
                let after = self.chance.one_of(&[10 * MS, 50 * MS, 51 * MS, 200 * MS]);
                self.plan(after, Action::Look);
                self.look(t);
            }
            Action::ConditionChange => {
                let after = self.chance.wide(self.gap_ns * 60);
                self.plan(after + US, Action::ConditionChange);
                self.settle_cpu();
                self.slow = self.chance.one_of(&[1, 1, 1, 2, 5, 30]);
                self.stopped = self.chance.in_1000(200);
                self.cpu.millicores = self.chance.one_of(&[300, 1_000, 2_000, 4_000]);
                self.cpu.is_locked ^= self.chance.in_1000(150);
                if self.chance.in_1000(200) {
                    self.gap_ns = self
                        .chance
                        .one_of(&[50 * US, MS, 10 * MS, 60 * MS, 900 * MS]);
                }
            }
        }
    }

    /// Queries in flight that are no streams.
    fn at_work(&self) -> u64 {
        (self.arrivals.len() - self.streams.len()) as u64
    }

    fn arrive(&mut self, t: u64) {
        let gap = match self.chance.within(0, 40) {
            0..=5 => 0,
            6 => self.gap_ns * 80,
            _ => self.chance.wide(self.gap_ns * 2),
        };
        self.plan(gap, Action::Arrive);
        self.settle_cpu();
        self.queries += 1;
        let query = self.queries;
        let arrival = self.tracker.arrive(Instant::from_nanos(t));
        self.arrivals.insert(query, arrival);
        self.put(query_line(t, "arrive", query, None));
        if self.stream_share > 0 && self.chance.in_1000(self.stream_share) {
            self.streams.insert(query);
            let takes = SECOND * u64::from(self.chance.within(5, 60));
            self.plan(takes, Action::Finish(query, End::Success));
            return;
        }
        let in_flight = self.at_work().max(self.cores);
        let spread = u64::from(self.chance.within(600, 1_400));
        let takes = self.base_ns * in_flight / self.cores * self.slow / 1_000 * spread;
        let given_up = self.base_ns * 40;
        if self.chance.in_1000(15) {
            self.plan(takes / 8, Action::Withdraw(query));
        } else if self.stopped || takes > given_up || self.chance.in_1000(20) {
            let after = given_up.min(if self.stopped { given_up } else { takes / 2 });
            self.plan(after, Action::Finish(query, End::Cancelled));
        } else {
            let end = if self.chance.in_1000(60) {
                End::Failed
            } else {
                End::Success
            };
            let mut body = 0;
            if self.chance.in_1000(self.heads) {
                self.plan(takes, Action::Head(query, end));
                body = self.chance.wide(takes + 1);
                if self.chance.in_1000(50) {
                    self.plan(takes + body / 2, Action::Head(query, End::Success));
                }
            }
            let last = self
                .chance
                .one_of(&[end, end, end, End::Cancelled, End::Failed]);
            let last = if body == 0 { end } else { last };
            self.plan(takes + body, Action::Finish(query, last));
        }
    }

    fn report(&mut self, t: u64) {
        let now = Instant::from_nanos(t);
        let mut report = self.tracker.report(now);
        let mut line = start(t, "report");
        let source = match &self.capacity {
            Some(capacity) => capacity.fill_and_source(&mut report),
            None => None,
        };
        line.number("rif", report.rif.count());
        line.maybe("latency", report.latency.map(nanos));
        line.maybe("capacity", report.capacity_millirif);
        line.maybe("cost", report.cost.map(nanos));
        if let Some(source) = source {
            line.text("source", source.as_str());
        }
        line.number("rif_time", self.tracker.rif_time_ns(now));
        line.number("busy", self.tracker.busy_ns(now));
        self.put(line);
    }

    /// Looks whether a reading is due, and takes it; now and then without a look.
    fn look(&mut self, t: u64) {
        self.settle_cpu();
        let now = Instant::from_nanos(t);
        let skips_look = self.chance.in_1000(100);
        let has_cpu = !self.chance.in_1000(20);
        let Some(capacity) = &mut self.capacity else {
            return;
        };
        let mut reads = skips_look;
        if !skips_look {
            let look = capacity.look(now, &self.tracker);
            let mut line = start(t, "look");
            line.flag("reads", look.reads);
            line.flag("quiet", look.is_quiet);
            reads = look.reads;
            self.put(line);
        }
        let Some(capacity) = self.capacity.as_mut().filter(|_| reads) else {
            return;
        };
        let cpu = self.cpu.totals.filter(|_| has_cpu);
        capacity.read(now, &self.tracker, self.finished, cpu);
        let mut line = start(t, "reading");
        line.number("finished", self.finished);
        if let Some(cpu) = cpu {
            let mut totals = Object::new();
            totals.number("used", nanos(cpu.used));
            if let Some(threads) = cpu.threads {
                totals.number("threads_used", nanos(threads.used));
                totals.number("threads_waited", nanos(threads.waited));
            }
            totals.maybe("limit_millicores", cpu.limit_millicores);
            totals.maybe("quota_period", cpu.quota_period.map(nanos));
            line.object("cpu", totals);
        }
        self.put(line);
    }

    /// Books the CPU time since the last time, at the present RIF.
    fn settle_cpu(&mut self) {
        let span_ns = self.clock - self.cpu.settled_at;
        self.cpu.settled_at = self.clock;
        let in_flight = self.at_work();
        let Some(totals) = &mut self.cpu.totals else {
            return;
        };
        let wanted = if self.cpu.is_locked {
            // All but one wait for a lock.
            in_flight.min(1) * 300
        } else {
            in_flight * 1_000
        };
        let used = wanted.min(self.cpu.millicores.into());
        let time = |millicores: u64| Duration::from_nanos(span_ns / 1_000 * millicores);
        totals.used = totals.used.saturating_add(time(used + 5));
        if let Some(threads) = &mut totals.threads {
            threads.used = threads.used.saturating_add(time(used));
            threads.waited = threads.waited.saturating_add(time(wanted - used));
        }
    }
}

fn start(t: u64, op: &str) -> Object {
    let mut line = Object::new();
    line.number("t", t).text("op", op);
    line
}

fn query_line(t: u64, op: &str, query: u64, end: Option<End>) -> Object {
    let mut line = start(t, op);
    line.number("q", query);
    if let Some(end) = end {
        let end = match end {
            End::Success => "success",
            End::Failed => "failed",
            End::Cancelled => "cancelled",
        };
        line.text("end", end);
    }
    line
}

/// Settings of a tracker: the defaults in half of the scenarios.
fn config(chance: &mut Chance) -> TrackerConfig {
    let mut config = TrackerConfig::default();
    if chance.in_1000(500) {
        return config;
    }
    let window = chance.one_of(&[0, MS, 20 * MS, 200 * MS]);
    config.sample_window = Duration::from_nanos(window);
    config.window_samples_min = chance.one_of(&[0, 1, 2, 5, 12]);
    config.remembered_samples_max = chance.one_of(&[0, 1, 3, 16, 64]);
    let age = chance.one_of(&[0, 50 * MS, 500 * MS, 3_000 * MS, 60_000 * MS]);
    config.sample_age_max = Duration::from_nanos(age);
    config.sample_capacity = chance.one_of(&[0, 2, 5, 16, 256, 5_000]);
    config
}

/// Rates from totals that are read now and then.
fn rates(scenario: &str, mut chance: Chance, events: u64) -> String {
    let millicores = chance.one_of(&[0, 250, 1_000, 4_000, u32::MAX]);
    let mut header = Object::new();
    header.text("scenario", scenario);
    header.number("millicores", millicores);
    let mut lines = format!("{}\n", header.finish());
    let mut rates = RecentRates::new(millicores);
    let mut clock = chance.one_of(&[0, 7_000_000_000]);
    let mut totals = Totals::default();
    let has_cpu = !chance.in_1000(300);
    for _ in 0..events / 2 {
        let step = chance.one_of(&[0, 300, 999, 1_000, 1_001, 2_000, 4_000, 30_000]);
        clock += step * MS;
        let t = if chance.in_1000(30) {
            clock.saturating_sub(1_500 * MS)
        } else {
            clock
        };
        let now = Instant::from_nanos(t);
        let most = step * chance.one_of(&[0, 1, 1_000, 9_000_000_000]);
        let finished = chance.wide(most + 1);
        totals.finished = totals.finished.saturating_add(finished);
        totals.failed = totals.failed.saturating_add(chance.wide(finished / 2 + 1));
        let used = Duration::from_nanos(chance.wide(step * MS * 4 + 1));
        let before = totals.cpu.unwrap_or_default();
        let is_read = has_cpu && !chance.in_1000(100);
        let cpu = before.saturating_add(used);
        totals.cpu = is_read.then_some(cpu);
        let mut line = start(t, "reading");
        line.number("finished", totals.finished);
        line.number("failed", totals.failed);
        line.maybe("cpu", totals.cpu.map(nanos));
        line.flag("due", rates.is_due(now));
        rates.read(now, totals);
        totals.cpu = Some(cpu);
        let mut report = LoadReport::new(Rif::ZERO, None);
        rates.fill(&mut report);
        line.maybe("errors", report.error_millionths);
        line.maybe("cpu_share", report.cpu_millionths);
        line.maybe("query_rate", report.query_rate_millis);
        lines.push_str(&line.finish());
        lines.push('\n');
        if chance.in_1000(15) {
            // The server restarts behind its agent, and its totals with it.
            totals = Totals::default();
        }
    }
    lines
}
