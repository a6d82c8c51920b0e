//! Plays a recorded policy again, call by call. The same settings, draws and inputs give the same
//! picks, unless the code has changed in between.

use slackwater_core::policy::{
    Decision, Pick, PickReason, Policy, ProbeId, ProbeRound, Query, RoundReply, Ticket,
};
use slackwater_core::{Instant, LoadReport, ReplicaId, SplitMix64};
use slackwater_recording::{Answer, Entry};
use std::collections::BTreeMap;

/// Plays recorded calls to a policy again.
#[derive(Debug)]
pub struct Player {
    policy: Box<dyn Policy>,
    draw: SplitMix64,
    /// Tickets of queries in flight, by the time of their pick.
    tickets: BTreeMap<u64, Ticket>,
    /// Synchronous rounds that have not ended, by the time at which they began.
    rounds: BTreeMap<u64, ProbeRound>,
    events: u64,
    picks: u64,
    probes: u64,
}

/// The first place where a policy's result differs from the recorded one.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("event {event}, after {pick} picks, at {at}: recorded {recorded}, replayed {replayed}")]
pub struct Difference {
    /// Entries of the stream before it.
    pub event: u64,
    /// Picks of the stream before it.
    pub pick: u64,
    /// When it happened, on the clock of its stream.
    pub at: Instant,
    /// The recorded result.
    pub recorded: String,
    /// The result now.
    pub replayed: String,
}

/// The recorded result and the result now, which differ.
type Differing = (String, String);

impl Player {
    /// Returns a player for a stream that was recorded from such a policy with this seed. `policy`
    /// must have no replicas yet.
    pub fn new(policy: Box<dyn Policy>, seed: u64) -> Self {
        Self {
            policy,
            draw: SplitMix64::new(seed),
            tickets: BTreeMap::new(),
            rounds: BTreeMap::new(),
            events: 0,
            picks: 0,
            probes: 0,
        }
    }

    /// Returns how many picks were the same so far.
    pub const fn picks(&self) -> u64 {
        self.picks
    }

    /// Returns how many probes were the same so far.
    pub const fn probes(&self) -> u64 {
        self.probes
    }

    /// Plays the next entry of the stream.
    ///
    /// # Errors
    ///
    /// The policy's result differs. Further entries have no meaning after that.
    pub fn play(&mut self, at: Instant, entry: &Entry<'_>) -> Result<(), Difference> {
        let played = self.ask(at, entry);
        played.map_err(|(recorded, replayed)| Difference {
            event: self.events,
            pick: self.picks,
            at,
            recorded,
            replayed,
        })?;
        self.events += 1;
        Ok(())
    }

    fn ask(&mut self, now: Instant, entry: &Entry<'_>) -> Result<(), Differing> {
        let Self { policy, draw, .. } = self;
        match entry {
            Entry::Named { .. } | Entry::Request { .. } => (),
            Entry::Event(event) => policy.handle(now, *event, draw),
            Entry::Query { asked, answer } => {
                let decision = policy.choose(now, asked.query(), draw, None);
                return self.compare(answer, decision);
            }
            Entry::Trial { answer } => {
                let decision = policy.choose(now, Query::trial(), draw, None);
                return self.compare_pick(*answer, decision.pick());
            }
            Entry::Head {
                sent_at_ns,
                outcome,
            } => {
                let ticket = self.tickets.get_mut(sent_at_ns);
                let ticket = ticket.ok_or_else(|| unknown_query(*sent_at_ns))?;
                policy.handle_head(now, ticket, *outcome);
            }
            Entry::Done {
                sent_at_ns,
                outcome,
            } => {
                let ticket = self.tickets.remove(sent_at_ns);
                let ticket = ticket.ok_or_else(|| unknown_query(*sent_at_ns))?;
                policy.handle_query_done(now, ticket, *outcome);
            }
            Entry::Round {
                started_at_ns,
                asked,
                replies,
                answer,
            } => {
                let round = self.rounds.remove(started_at_ns);
                let mut round = round.ok_or_else(|| unknown_query(*started_at_ns))?;
                hand_in(&mut round, replies);
                let query = Query {
                    round: Some(&round),
                    ..asked.query()
                };
                let decision = policy.choose(now, query, draw, None);
                return self.compare_pick(*answer, decision.pick());
            }
            Entry::Poll { probe } => {
                let replayed = policy.poll_probe(now, draw);
                let replayed = replayed.map(|probe| (probe.id, probe.replica));
                if *probe != replayed {
                    return Err((probe_text(*probe), probe_text(replayed)));
                }
                self.probes += u64::from(probe.is_some());
            }
        }
        Ok(())
    }

    fn compare(&mut self, recorded: &Answer, replayed: Decision) -> Result<(), Differing> {
        match (recorded, replayed) {
            (Answer::Pick { replica, reason }, Decision::Pick(pick)) => {
                self.compare_pick(Some((*replica, *reason)), Some(pick))
            }
            (Answer::NoReplica, Decision::NoReplica) => Ok(()),
            (Answer::Probe { targets }, Decision::Probe(round))
                if round.targets().eq(targets.iter().copied()) =>
            {
                let began = round.started_at().as_nanos();
                self.rounds.insert(began, round);
                Ok(())
            }
            (recorded, replayed) => Err((answer_text(recorded), decision_text(&replayed))),
        }
    }

    fn compare_pick(
        &mut self,
        recorded: Option<(ReplicaId, PickReason)>,
        replayed: Option<Pick>,
    ) -> Result<(), Differing> {
        let answer = (replayed.as_ref()).map(|pick| (pick.ticket.replica(), pick.reason));
        if recorded != answer {
            return Err((pick_text(recorded), pick_text(answer)));
        }
        if let Some(pick) = replayed {
            let sent_at = pick.ticket.sent_at().as_nanos();
            self.tickets.insert(sent_at, pick.ticket);
            self.picks += 1;
        }
        Ok(())
    }
}

/// Passes the replies to its probes to a round.
fn hand_in(round: &mut ProbeRound, replies: &[(ReplicaId, RoundReply)]) {
    for &(replica, reply) in replies {
        if let RoundReply::Answered {
            rif,
            latency,
            load_scale,
            draining,
        } = reply
        {
            let mut report = LoadReport::new(rif, latency);
            (report.load_scale, report.draining) = (load_scale, draining);
            round.handle_report(replica, &report);
        } else {
            round.handle_lost(replica);
        }
    }
}

fn unknown_query(sent_at_ns: u64) -> Differing {
    let at = Instant::from_nanos(sent_at_ns);
    (
        format!("the end of a query of {at}"),
        "no such query is out".to_owned(),
    )
}

fn pick_text(pick: Option<(ReplicaId, PickReason)>) -> String {
    pick.map_or_else(
        || "no replica".to_owned(),
        |(replica, reason)| format!("{replica} ({reason})"),
    )
}

fn answer_text(answer: &Answer) -> String {
    match answer {
        Answer::Pick { replica, reason } => pick_text(Some((*replica, *reason))),
        Answer::Probe { targets } => round_text(targets.iter().copied()),
        Answer::NoReplica => pick_text(None),
    }
}

fn decision_text(decision: &Decision) -> String {
    match decision {
        Decision::Pick(pick) => pick_text(Some((pick.ticket.replica(), pick.reason))),
        Decision::Probe(round) => round_text(round.targets()),
        Decision::NoReplica => pick_text(None),
    }
}

fn round_text(targets: impl Iterator<Item = ReplicaId>) -> String {
    let targets: Vec<_> = targets.map(|target| target.to_string()).collect();
    format!("a round that probes {}", targets.join(", "))
}

fn probe_text(probe: Option<(ProbeId, ReplicaId)>) -> String {
    match probe {
        Some((probe, replica)) => format!("probe {:x} of {replica}", probe.to_bits()),
        None => "no probe".to_owned(),
    }
}
