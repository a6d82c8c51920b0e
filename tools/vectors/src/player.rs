//! Plays inputs to a policy, one line for each, with everything that the policy returned.

use crate::canonical;
use crate::chance::CountedDraws;
use crate::line::{Object, nanos};
use core::time::Duration;
use slackwater_core::keys::KeyHash;
use slackwater_core::policy::{
    Attempt, Decision, Event, Explanation, Outcome, Pick, Policy, Probe, ProbeRound, Query,
    RoundReply, Ticket,
};
use slackwater_core::{Instant, LoadReport, LoadScale, ReplicaId, Rif};
use std::collections::BTreeMap;

/// Lines between two hashes of the state.
const HASH_STEP: u64 = 64;
/// Hashes between two canonical texts.
const TEXT_STEP: u64 = 3;

/// Times between the last input and the hash.
const PAUSES_NS: [u64; 4] = [0, 7_000_000, 0, 1_100_000_000];

/// A policy that is being played, and the lines so far.
#[derive(Debug)]
pub(crate) struct Player {
    policy: Box<dyn Policy>,
    draws: CountedDraws,
    tickets: BTreeMap<u64, Ticket>,
    /// Rounds that wait for answers, with their queries.
    rounds: BTreeMap<u64, (ProbeRound, Asked)>,
    queries: u64,
    pub(crate) lines: String,
    pub(crate) events: u64,
    hashes: u64,
    /// With keys: what the choice for a key was made from is a result, too.
    explanation: Option<Explanation>,
}

/// A query as the driver keeps it.
#[derive(Clone, Debug, Default)]
pub(crate) struct Asked {
    pub(crate) attempt: Attempt,
    pub(crate) avoid: Vec<ReplicaId>,
    pub(crate) pinned: Option<ReplicaId>,
    pub(crate) has_room: bool,
    pub(crate) key: Option<KeyHash>,
}

/// What a query got: its number, and the replica or the round.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Answer {
    Replica(u64, ReplicaId),
    Round(u64),
    Nothing,
}

impl Player {
    pub(crate) fn new(policy: Box<dyn Policy>, seed: u64, header: &str, has_keys: bool) -> Self {
        Self {
            policy,
            draws: CountedDraws::new(seed),
            tickets: BTreeMap::new(),
            rounds: BTreeMap::new(),
            queries: 0,
            lines: format!("{header}\n"),
            events: 0,
            hashes: 0,
            explanation: has_keys.then(Explanation::new),
        }
    }

    pub(crate) fn timeout(&self) -> Option<u64> {
        self.policy.poll_timeout().map(Instant::as_nanos)
    }

    pub(crate) fn wants_trial(&self) -> bool {
        self.policy.wants_trial()
    }

    /// Ends a line: polls the policy as a driver does after each input. Returns the probes.
    fn end(&mut self, t: u64, mut line: Object) -> Vec<Probe> {
        let now = Instant::from_nanos(t);
        let mut probes = Vec::new();
        while let Some(probe) = self.policy.poll_probe(now, &mut self.draws) {
            probes.push(probe);
        }
        if !probes.is_empty() {
            let texts: Vec<String> = (probes.iter())
                .map(|probe| {
                    let (id, replica) = (probe.id.to_bits(), probe.replica.to_bits());
                    format!("[{id},{replica},{}]", probe.deadline.as_nanos())
                })
                .collect();
            line.raw("probes", &format!("[{}]", texts.join(",")));
        }
        line.maybe("timeout", self.timeout());
        line.flag("trial", self.wants_trial());
        line.number("draws", self.draws.count);
        self.put(line);
        self.events += 1;
        if self.events.is_multiple_of(HASH_STEP) {
            let has_text = self.hashes.is_multiple_of(TEXT_STEP);
            self.hash(t, has_text);
        }
        probes
    }

    fn put(&mut self, line: Object) {
        self.lines.push_str(&line.finish());
        self.lines.push('\n');
    }

    /// Writes a hash of the state, and the canonical text if `has_text`.
    pub(crate) fn hash(&mut self, t: u64, has_text: bool) {
        // The state is also looked at when nothing has happened for some time.
        let place = usize::try_from(self.hashes % 4).unwrap_or(0);
        let t = t.saturating_add(PAUSES_NS[place]);
        let text = canonical::text(&*self.policy, Instant::from_nanos(t));
        let mut line = start(t, "snapshot");
        line.text("hash", &format!("{:016x}", canonical::fnv1a(&text)));
        if has_text {
            line.text("text", &text);
        }
        self.hashes += 1;
        self.put(line);
    }

    pub(crate) fn handle(&mut self, t: u64, event: Event<'_>) -> Vec<Probe> {
        self.policy
            .handle(Instant::from_nanos(t), event, &mut self.draws);
        self.end(t, event_line(t, event))
    }

    /// Asks for a replica.
    pub(crate) fn choose(&mut self, t: u64, asked: Asked) -> (Answer, Vec<Probe>) {
        self.queries += 1;
        let number = self.queries;
        let query = Query {
            attempt: asked.attempt,
            avoid: &asked.avoid,
            key: asked.key,
            among: &[],
            homes: &[],
            pinned: asked.pinned,
            has_room: asked.has_room,
            round: None,
        };
        let now = Instant::from_nanos(t);
        let policy = &mut self.policy;
        let decision = policy.choose(now, query, &mut self.draws, self.explanation.as_mut());
        let mut line = start(t, "choose");
        line.number("q", number);
        let attempt = match asked.attempt {
            Attempt::Retry => Some("retry"),
            Attempt::Hedge => Some("hedge"),
            Attempt::Trial => Some("trial"),
            _ => None,
        };
        if let Some(attempt) = attempt {
            line.text("attempt", attempt);
        }
        if !asked.avoid.is_empty() {
            line.numbers("avoid", asked.avoid.iter().map(|id| id.to_bits()));
        }
        line.maybe("pinned", asked.pinned.map(ReplicaId::to_bits));
        line.flag("room", asked.has_room);
        line.maybe("key", asked.key.map(KeyHash::to_bits));
        self.put_key_choice(asked.key, &mut line);
        let answer = match decision {
            Decision::Pick(pick) => self.picked(number, pick, &mut line),
            Decision::Probe(round) => {
                line.numbers("round", round.targets().map(ReplicaId::to_bits));
                line.number("round_deadline", round.deadline().as_nanos());
                self.rounds.insert(number, (round, asked));
                Answer::Round(number)
            }
            Decision::NoReplica => Answer::Nothing,
        };
        let probes = self.end(t, line);
        (answer, probes)
    }

    /// Writes what the last choice, for this key, was made from.
    fn put_key_choice(&self, key: Option<KeyHash>, line: &mut Object) {
        let choice = self.explanation.as_ref().and_then(Explanation::key);
        let Some(choice) = choice.filter(|_| key.is_some()) else {
            return;
        };
        let mut made_from = Object::new();
        made_from.maybe("partition", choice.partition);
        made_from.number("homes", choice.homes);
        let servers: Vec<String> = (choice.set().iter())
            .map(|server| {
                let cap = server
                    .cap
                    .map_or_else(|| "null".to_owned(), |cap| cap.to_string());
                let avoided = u8::from(server.avoided);
                format!(
                    "[{},{},{cap},{avoided}]",
                    server.replica.to_bits(),
                    server.load
                )
            })
            .collect();
        made_from.raw("set", &format!("[{}]", servers.join(",")));
        line.object("made_from", made_from);
    }

    fn picked(&mut self, number: u64, pick: Pick, line: &mut Object) -> Answer {
        let replica = pick.ticket.replica();
        let mut picked = Object::new();
        picked.number("replica", replica.to_bits());
        picked.text("reason", pick.reason.as_str());
        picked.maybe("rif_limit", pick.rif_limit.map(Rif::count));
        if pick.candidates > 0 {
            picked.number("candidates", pick.candidates);
        }
        picked.maybe("runner_up", pick.runner_up.map(ReplicaId::to_bits));
        if pick.probing > Duration::ZERO {
            picked.number("probing", nanos(pick.probing));
        }
        if let Some(report) = pick.chosen {
            let mut chosen = Object::new();
            chosen.number("rif", report.rif.count());
            chosen.maybe("latency", report.latency.map(nanos));
            chosen.number("age", nanos(report.age));
            chosen.number("uses", report.uses_left);
            chosen.flag("local", report.local);
            chosen.flag("hot", report.hot);
            picked.object("chosen", chosen);
        }
        line.object("pick", picked);
        self.tickets.insert(number, pick.ticket);
        Answer::Replica(number, replica)
    }

    /// The round of a query, to pass answers to.
    pub(crate) fn round(&mut self, number: u64) -> Option<&mut ProbeRound> {
        self.rounds.get_mut(&number).map(|(round, _)| round)
    }

    /// Ends a round with the answers that it has.
    pub(crate) fn end_round(&mut self, t: u64, number: u64) -> (Answer, Vec<Probe>) {
        let Some((round, asked)) = self.rounds.remove(&number) else {
            return (Answer::Nothing, Vec::new());
        };
        let query = Query {
            attempt: asked.attempt,
            avoid: &asked.avoid,
            key: asked.key,
            among: &[],
            homes: &[],
            pinned: asked.pinned,
            has_room: asked.has_room,
            round: Some(&round),
        };
        let now = Instant::from_nanos(t);
        let policy = &mut self.policy;
        let decision = policy.choose(now, query, &mut self.draws, self.explanation.as_mut());
        let mut line = start(t, "round");
        line.number("q", number);
        self.put_key_choice(asked.key, &mut line);
        let replies: Vec<String> = (round.replies())
            .map(|(replica, reply)| format!("[{},{}]", replica.to_bits(), reply_text(reply)))
            .collect();
        line.raw("replies", &format!("[{}]", replies.join(",")));
        let answer = match decision.pick() {
            Some(pick) => self.picked(number, pick, &mut line),
            None => Answer::Nothing,
        };
        let probes = self.end(t, line);
        (answer, probes)
    }

    pub(crate) fn head(&mut self, t: u64, number: u64, outcome: Outcome) -> Vec<Probe> {
        let Some(ticket) = self.tickets.get_mut(&number) else {
            return Vec::new();
        };
        self.policy
            .handle_head(Instant::from_nanos(t), ticket, outcome);
        self.end_query(t, "head", number, outcome)
    }

    pub(crate) fn done(&mut self, t: u64, number: u64, outcome: Outcome) -> Vec<Probe> {
        let Some(ticket) = self.tickets.remove(&number) else {
            return Vec::new();
        };
        self.policy
            .handle_query_done(Instant::from_nanos(t), ticket, outcome);
        self.end_query(t, "done", number, outcome)
    }

    fn end_query(&mut self, t: u64, op: &str, number: u64, outcome: Outcome) -> Vec<Probe> {
        let mut line = start(t, op);
        line.number("q", number).text("outcome", outcome.as_str());
        self.end(t, line)
    }
}

fn start(t: u64, op: &str) -> Object {
    let mut line = Object::new();
    line.number("t", t).text("op", op);
    line
}

fn event_line(t: u64, event: Event<'_>) -> Object {
    let of = |op: &str, replica: ReplicaId| {
        let mut line = start(t, op);
        line.number("replica", replica.to_bits());
        line
    };
    let with = |mut line: Object, report: &LoadReport| {
        line.object("report", report_object(report));
        line
    };
    let probe = |op: &str, id: u64| {
        let mut line = start(t, op);
        line.number("probe", id);
        line
    };
    match event {
        Event::Added(replica) => of("added", replica),
        Event::Removed(replica) => of("removed", replica),
        Event::Identified(replica, identity) => {
            let mut line = of("identified", replica);
            line.number("name", identity.name);
            line.number("part", identity.part);
            line
        }
        Event::Far(replica, round_trip) => {
            let mut line = of("far", replica);
            line.number("round_trip_ns", nanos(round_trip));
            line
        }
        Event::Available(replica, available) => {
            let mut line = of("available", replica);
            line.boolean("available", available);
            line
        }
        Event::Report(id, report) => with(probe("report", id.to_bits()), report),
        Event::SiblingReport(replica, report) => with(of("sibling_report", replica), report),
        Event::SiblingQueries(replica, queries) => {
            let mut line = of("sibling_queries", replica);
            line.number("queries", queries);
            line
        }
        Event::CarriedReport(replica, report) => with(of("carried_report", replica), report),
        Event::ProbeLost(id) => probe("probe_lost", id.to_bits()),
        Event::ProbeUnsent(id) => probe("probe_unsent", id.to_bits()),
        Event::Timeout => start(t, "timeout"),
    }
}

/// A report as JSON: keys that are missing are absent from the report.
fn report_object(report: &LoadReport) -> Object {
    let mut object = Object::new();
    object.number("rif", report.rif.count());
    object.maybe("latency", report.latency.map(nanos));
    if report.load_scale != LoadScale::ONE {
        object.number("load_scale", report.load_scale.in_1024ths());
    }
    object.flag("draining", report.draining);
    object.maybe("incarnation", report.incarnation);
    object.maybe("errors", report.error_millionths);
    object.maybe("cpu", report.cpu_millionths);
    object.maybe("query_rate", report.query_rate_millis);
    object.maybe("capacity", report.capacity_millirif);
    object.maybe("cost", report.cost.map(nanos));
    object
}

fn reply_text(reply: RoundReply) -> String {
    match reply {
        RoundReply::Answered {
            rif,
            latency,
            load_scale,
            draining,
        } => {
            let mut report = LoadReport::new(rif, latency);
            (report.load_scale, report.draining) = (load_scale, draining);
            report_object(&report).finish()
        }
        _ => "null".to_owned(),
    }
}
