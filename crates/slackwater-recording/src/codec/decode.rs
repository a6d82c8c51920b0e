//! Bytes to entries. Bytes that no encoder wrote are rejected: nothing panics, and memory never
//! grows beyond what was read.

use super::{Context, STRANGER, answer, kind, narrow, report, request};
use crate::bytes::{Bytes, Malformed};
use crate::entry::{Answer, Asked, Entry};
use core::time::Duration;
use slackwater_core::keys::{Identity, KeyHash};
use slackwater_core::policy::{
    Attempt, Event, Outcome, PickReason, ProbeId, ProbeRound, Query, RoundReply,
};
use slackwater_core::{Instant, LoadReport, LoadScale, ReplicaId, ReplicaIds, Rif};
use std::borrow::Cow;

/// Reads the entries of a stream, one after another.
#[derive(Debug, Default)]
pub struct Decoder {
    context: Context,
    /// The last report that was read.
    report: Option<LoadReport>,
}

impl Decoder {
    /// Reads the next entry and the time at which it happened.
    ///
    /// # Errors
    ///
    /// No [`Encoder`](super::Encoder) wrote these bytes after the bytes that this decoder has
    /// already read.
    pub fn take(&mut self, bytes: &mut Bytes<'_>) -> Result<(Instant, Entry<'_>), Malformed> {
        let first = bytes.byte()?;
        if first & kind::FREE != 0 {
            return Err(Malformed("an event is of a kind that is not known"));
        }
        if first & kind::SAME_TIME == 0 {
            let at_ns = self.context.at_ns.checked_add(bytes.varint()?);
            self.context.at_ns = at_ns.ok_or(Malformed("a time is beyond the end of time"))?;
        }
        let is_plain = first & kind::PLAIN != 0;
        let at = Instant::from_nanos(self.context.at_ns);
        let entry = self.fields(bytes, first & kind::MASK, is_plain)?;
        Ok((at, entry))
    }

    fn fields(
        &mut self,
        bytes: &mut Bytes<'_>,
        kind: u8,
        is_plain: bool,
    ) -> Result<Entry<'_>, Malformed> {
        Ok(match kind {
            kind::NAMED => Entry::Named {
                replica: self.replica(bytes)?,
                name: Cow::Owned(name(bytes)?),
            },
            kind::ADD => Entry::Event(Event::Added(self.newcomer(bytes)?)),
            kind::REMOVE => {
                let replica = self.replica(bytes)?;
                self.context.leave(replica);
                Entry::Event(Event::Removed(replica))
            }
            kind::AVAILABLE => Entry::Event(Event::Available(self.replica(bytes)?, is_plain)),
            kind::QUERY => Entry::Query {
                asked: self.asked(bytes, is_plain)?,
                answer: self.answer(bytes)?,
            },
            kind::TRIAL => Entry::Trial {
                answer: if is_plain { None } else { self.pick(bytes)? },
            },
            kind::HEAD => Entry::Head {
                sent_at_ns: self.since(bytes)?,
                outcome: outcome(bytes)?,
            },
            kind::DONE => Entry::Done {
                sent_at_ns: self.since(bytes)?,
                outcome: outcome(bytes)?,
            },
            kind::ROUND => Entry::Round {
                started_at_ns: self.since(bytes)?,
                asked: self.asked(bytes, is_plain)?,
                replies: self.replies(bytes)?,
                answer: self.pick(bytes)?,
            },
            kind::POLL => Entry::Poll {
                probe: if is_plain {
                    None
                } else {
                    Some((probe(bytes)?, self.replica(bytes)?))
                },
            },
            kind::REPORT => Entry::Event(Event::Report(probe(bytes)?, self.report(bytes)?)),
            kind::SIBLING_REPORT => {
                let replica = self.replica(bytes)?;
                Entry::Event(Event::SiblingReport(replica, self.report(bytes)?))
            }
            kind::SIBLING_QUERIES => {
                let replica = self.replica(bytes)?;
                Entry::Event(Event::SiblingQueries(replica, bytes.number()?))
            }
            kind::CARRIED_REPORT => {
                let replica = self.replica(bytes)?;
                Entry::Event(Event::CarriedReport(replica, self.report(bytes)?))
            }
            kind::PROBE_LOST => Entry::Event(Event::ProbeLost(probe(bytes)?)),
            kind::PROBE_UNSENT => Entry::Event(Event::ProbeUnsent(probe(bytes)?)),
            kind::TIMEOUT => Entry::Event(Event::Timeout),
            kind::IDENTIFIED => {
                let replica = self.replica(bytes)?;
                let (name, part) = (bytes.varint()?, bytes.number()?);
                Entry::Event(Event::Identified(replica, Identity { name, part }))
            }
            kind::FAR => {
                let replica = self.replica(bytes)?;
                let round_trip = Duration::from_nanos(bytes.varint()?);
                Entry::Event(Event::Far(replica, round_trip))
            }
            kind::REQUEST => Entry::Request {
                sent_at_ns: self.since(bytes)?,
                request: Cow::Owned(request::request(bytes, &mut self.context.texts)?),
            },
            _ => return Err(Malformed("an event is of a kind that is not known")),
        })
    }

    /// Reads a replica that joins. Indices are dense: an index is never higher than the number of
    /// replicas that joined before. Policies rely on [`ReplicaIds::MAX`].
    fn newcomer(&mut self, bytes: &mut Bytes<'_>) -> Result<ReplicaId, Malformed> {
        let (index, generation): (u32, u32) = (bytes.number()?, bytes.number()?);
        let replica = ReplicaId::from_bits(u64::from(generation) << u32::BITS | u64::from(index));
        if u64::from(index) > self.context.joined || replica.index() >= ReplicaIds::MAX {
            return Err(Malformed("a replica joins out of turn"));
        }
        self.context.join(replica);
        Ok(replica)
    }

    fn replica(&self, bytes: &mut Bytes<'_>) -> Result<ReplicaId, Malformed> {
        let number: usize = bytes.number()?;
        let Some(index) = number.checked_sub(1) else {
            return Ok(STRANGER);
        };
        let member = self.context.members.get(index).copied().flatten();
        member.ok_or(Malformed("a replica is named that is not in the fleet"))
    }

    fn report(&mut self, bytes: &mut Bytes<'_>) -> Result<&LoadReport, Malformed> {
        let report = report::report(bytes, &mut self.context.seen)?;
        Ok(self.report.insert(report))
    }

    fn since(&self, bytes: &mut Bytes<'_>) -> Result<u64, Malformed> {
        let at_ns = self.context.at_ns.checked_sub(bytes.varint()?);
        at_ns.ok_or(Malformed("a time is before the beginning of time"))
    }

    fn asked(&self, bytes: &mut Bytes<'_>, is_plain: bool) -> Result<Asked<'static>, Malformed> {
        if is_plain {
            return Ok(Asked::new(Query::first()));
        }
        let attempt = one_of(&Attempt::ALL, bytes.byte()?)?;
        let avoid = self.several(bytes)?;
        let flags = bytes.byte()?;
        let pin = flags & narrow::PIN;
        let all = narrow::PIN | narrow::KEY | narrow::AMONG | narrow::HOMES;
        if pin == narrow::PIN || flags & !all != 0 {
            return Err(Malformed("a query is narrowed in a way that is not known"));
        }
        let pinned = match pin {
            0 => None,
            _ => Some(self.replica(bytes)?),
        };
        let key = match flags & narrow::KEY {
            0 => None,
            _ => Some(KeyHash::from_bits(bytes.varint()?)),
        };
        let mut narrowed = |flag: u8| {
            if flags & flag == 0 {
                return Ok(Vec::new());
            }
            let replicas = self.several(bytes)?;
            if replicas.is_empty() {
                return Err(Malformed("a query is narrowed to no replica"));
            }
            Ok(replicas)
        };
        Ok(Asked {
            attempt,
            avoid: Cow::Owned(avoid),
            pinned,
            has_room: pin == 2,
            key,
            among: Cow::Owned(narrowed(narrow::AMONG)?),
            homes: Cow::Owned(narrowed(narrow::HOMES)?),
        })
    }

    /// Reads a list. Its length is at most the number of bytes that remain.
    fn several(&self, bytes: &mut Bytes<'_>) -> Result<Vec<ReplicaId>, Malformed> {
        let count: usize = bytes.number()?;
        if count > bytes.rest().len() {
            return Err(Malformed("a list is longer than what follows"));
        }
        (0..count).map(|_| self.replica(bytes)).collect()
    }

    fn answer(&self, bytes: &mut Bytes<'_>) -> Result<Answer, Malformed> {
        Ok(match bytes.byte()? {
            answer::NO_REPLICA => Answer::NoReplica,
            answer::PROBE => Answer::Probe {
                targets: self.several(bytes)?,
            },
            reason => Answer::Pick {
                reason: one_of(&PickReason::ALL, reason - answer::PICK)?,
                replica: self.replica(bytes)?,
            },
        })
    }

    fn pick(&self, bytes: &mut Bytes<'_>) -> Result<Option<(ReplicaId, PickReason)>, Malformed> {
        match self.answer(bytes)? {
            Answer::Pick { replica, reason } => Ok(Some((replica, reason))),
            Answer::NoReplica => Ok(None),
            Answer::Probe { .. } => Err(Malformed("a round leads to another one")),
        }
    }

    fn replies(&self, bytes: &mut Bytes<'_>) -> Result<Vec<(ReplicaId, RoundReply)>, Malformed> {
        let count: usize = bytes.number()?;
        if count > ProbeRound::MAX_PROBES + 1 {
            return Err(Malformed("a round has more answers than one can have"));
        }
        (0..count)
            .map(|_| Ok((self.replica(bytes)?, reply(bytes)?)))
            .collect()
    }
}

fn name(bytes: &mut Bytes<'_>) -> Result<String, Malformed> {
    let name = bytes.text()?;
    if name.len() > Entry::NAME_MAX {
        return Err(Malformed("a replica's name is too long"));
    }
    Ok(name.to_owned())
}

fn probe(bytes: &mut Bytes<'_>) -> Result<ProbeId, Malformed> {
    let (place, serial): (u32, u32) = (bytes.number()?, bytes.number()?);
    let bits = u64::from(serial) << u32::BITS | u64::from(place);
    Ok(ProbeId::from_bits(bits))
}

fn reply(bytes: &mut Bytes<'_>) -> Result<RoundReply, Malformed> {
    let flags = bytes.byte()?;
    if flags == 0 {
        return Ok(RoundReply::Lost);
    }
    if flags & !7 != 0 || flags & 1 == 0 {
        return Err(Malformed("a round's answer is of a kind that is not known"));
    }
    Ok(RoundReply::Answered {
        rif: Rif::new(bytes.number()?),
        load_scale: LoadScale::from_1024ths(bytes.number()?),
        latency: if flags & 2 == 0 {
            None
        } else {
            Some(Duration::from_nanos(bytes.varint()?))
        },
        draining: flags & 4 != 0,
    })
}

fn outcome(bytes: &mut Bytes<'_>) -> Result<Outcome, Malformed> {
    one_of(&Outcome::ALL, bytes.byte()?)
}

fn one_of<T: Copy>(all: &[T], place: u8) -> Result<T, Malformed> {
    let one = all.get(usize::from(place)).copied();
    one.ok_or(Malformed("a word is not known"))
}
