//! For any list of events: what is written is read back, a cut-off stream is read as far as it is
//! whole, and reading corrupted bytes ends.

use super::{Decoder, Encoder, STRANGER};
use crate::{Answer, Asked, Bytes, Entry, Request};
use core::time::Duration;
use proptest::collection::vec;
use proptest::prelude::*;
use slackwater_core::keys::{Identity, KeyHash};
use slackwater_core::policy::{
    Attempt, Event, Outcome, PickReason, ProbeId, ProbeRound, RoundReply,
};
use slackwater_core::{Instant, LoadReport, LoadScale, ReplicaId, ReplicaIds, Rif};
use std::borrow::Cow;

/// An event in the making: its kind, and small and large numbers for its fields.
type Seed = (u8, Vec<u64>);

fn seeds() -> impl Strategy<Value = Vec<Seed>> {
    let number = prop_oneof![0..5_u64, 0..2_000_u64, any::<u64>()];
    vec((any::<u8>(), vec(number, 12)), 0..40)
}

/// Makes events from numbers. It makes only possible events: no replica leaves that is not in the
/// fleet.
struct Maker {
    ids: ReplicaIds,
    members: Vec<ReplicaId>,
    now_ns: u64,
}

/// Picks one item of a list.
fn one<T: Copy>(all: &[T], number: u64) -> T {
    all[usize::try_from(number % all.len() as u64).expect("less than the list")]
}

fn small(number: u64) -> u32 {
    u32::try_from(number >> 32).expect("32 bits")
        ^ u32::try_from(number & 0xffff_ffff).expect("32 bits")
}

fn scale(number: u64) -> LoadScale {
    LoadScale::from_1024ths(1 + u16::try_from(number % 4_096).expect("few"))
}

fn text(number: u64) -> String {
    let letters = ["", "GET", "acme", "ü", "0123456789", "x-y_z"];
    let times = usize::try_from(number / 7 % 7).expect("few");
    one(&letters, number).repeat(times)
}

fn report(n: &[u64]) -> LoadReport {
    let latency = (!n[0].is_multiple_of(3)).then(|| Duration::from_nanos(n[1]));
    let mut report = LoadReport::new(Rif::new(small(n[2])), latency);
    report.draining = n[3].is_multiple_of(5);
    report.load_scale = scale(n[4]);
    let has = |bit: u64| n[5] >> bit & 1 == 1;
    report.incarnation = has(0).then_some(n[6]);
    report.error_millionths = has(1).then_some(small(n[7]));
    report.cpu_millionths = has(2).then_some(small(n[8]));
    report.query_rate_millis = has(3).then_some(small(n[9]));
    report.capacity_millirif = has(4).then_some(small(n[10]));
    report.cost = has(5).then_some(Duration::from_nanos(n[11]));
    report
}

impl Maker {
    fn replica(&self, number: u64) -> ReplicaId {
        let members = self.members.len() as u64;
        let place = usize::try_from(number % (members + 1)).expect("few");
        self.members.get(place).copied().unwrap_or(STRANGER)
    }

    fn asked(&self, n: &[u64]) -> Asked<'static> {
        let several = |count: u64, from: u64| -> Vec<_> {
            let replicas = (0..count).map(|more| self.replica(from.wrapping_add(more)));
            replicas.collect()
        };
        let pinned = n[3].is_multiple_of(2).then(|| self.replica(n[4]));
        Asked {
            attempt: one(&Attempt::ALL, n[2]),
            avoid: Cow::Owned(several(n[0] % 4, n[1])),
            pinned,
            // Only a pinned replica can have been waited for.
            has_room: pinned.is_some() && n[3].is_multiple_of(4),
            key: n[5].is_multiple_of(3).then(|| KeyHash::from_bits(n[6])),
            among: Cow::Owned(several(n[5] % 3, n[6])),
            homes: Cow::Owned(several(n[6] % 3, n[5])),
        }
    }

    fn pick(&self, n: &[u64]) -> Option<(ReplicaId, PickReason)> {
        let is_some = !n[0].is_multiple_of(4);
        is_some.then(|| (self.replica(n[1]), one(&PickReason::ALL, n[2])))
    }

    fn answer(&self, n: &[u64]) -> Answer {
        if n[3].is_multiple_of(5) {
            let targets = (0..n[0] % 6).map(|more| self.replica(n[1].wrapping_add(more)));
            return Answer::Probe {
                targets: targets.collect(),
            };
        }
        (self.pick(n)).map_or(Answer::NoReplica, |(replica, reason)| Answer::Pick {
            replica,
            reason,
        })
    }

    fn reply(&self, n: u64) -> (ReplicaId, RoundReply) {
        let reply = match n % 4 {
            0 => RoundReply::Lost,
            some => RoundReply::Answered {
                rif: Rif::new(small(n)),
                latency: (some > 1).then(|| Duration::from_nanos(n)),
                load_scale: scale(n),
                draining: some == 3,
            },
        };
        (self.replica(n), reply)
    }

    fn event(&mut self, kind: u8, n: &[u64]) -> Entry<'static> {
        let replica = self.replica(n[0]);
        let probe = ProbeId::from_bits(n[1]);
        let outcome = one(&Outcome::ALL, n[2]);
        let before = self.now_ns - n[3].min(self.now_ns);
        let report: &LoadReport = Box::leak(Box::new(report(n)));
        match kind % 20 {
            0 => Entry::Named {
                replica,
                name: Cow::Owned(text(n[4])),
            },
            1 => {
                let replica = self.ids.allocate().expect("room");
                self.members.push(replica);
                Entry::Event(Event::Added(replica))
            }
            2 => {
                if let Some(place) = self.members.iter().position(|member| *member == replica) {
                    self.members.remove(place);
                    self.ids.release(replica);
                }
                Entry::Event(Event::Removed(replica))
            }
            3 => Entry::Event(Event::Available(replica, n[4].is_multiple_of(2))),
            4 => Entry::Query {
                asked: self.asked(&n[4..]),
                answer: self.answer(&n[6..]),
            },
            5 => Entry::Trial {
                answer: self.pick(&n[6..]),
            },
            6 => Entry::Head {
                sent_at_ns: before,
                outcome,
            },
            7 => Entry::Done {
                sent_at_ns: before,
                outcome,
            },
            8 => {
                let count = usize::try_from(n[5]).unwrap_or(0) % (ProbeRound::MAX_PROBES + 2);
                let replies = n.iter().cycle().take(count);
                Entry::Round {
                    started_at_ns: before,
                    asked: self.asked(&n[4..]),
                    replies: replies.map(|n| self.reply(*n)).collect(),
                    answer: self.pick(&n[6..]),
                }
            }
            9 => Entry::Poll {
                probe: n[4].is_multiple_of(2).then_some((probe, replica)),
            },
            10 => Entry::Event(Event::Report(probe, report)),
            11 => Entry::Event(Event::SiblingReport(replica, report)),
            12 => Entry::Event(Event::SiblingQueries(replica, small(n[4]))),
            13 => Entry::Event(Event::CarriedReport(replica, report)),
            14 => Entry::Event(Event::ProbeLost(probe)),
            15 => Entry::Event(Event::ProbeUnsent(probe)),
            16 => Entry::Event(Event::Timeout),
            17 => {
                let (name, part) = (n[4], small(n[5]));
                Entry::Event(Event::Identified(replica, Identity { name, part }))
            }
            18 => Entry::Event(Event::Far(replica, Duration::from_nanos(n[4]))),
            _ => Entry::Request {
                sent_at_ns: before,
                request: Cow::Owned(Request {
                    method: text(n[4]),
                    status: Some(100 + u16::try_from(n[5] % 500).expect("few")),
                    bytes_in: n[6],
                    bytes_out: n[7],
                    fields: (n[8..].iter())
                        .map(|n| (!n.is_multiple_of(3)).then(|| text(*n)))
                        .collect(),
                }),
            },
        }
    }
}

/// Returns the events made from the numbers, their bytes, and where each event ends.
fn made(seeds: &[Seed]) -> (Vec<(u64, Entry<'static>)>, Vec<u8>, Vec<usize>) {
    let mut maker = Maker {
        ids: ReplicaIds::new(),
        members: Vec::new(),
        now_ns: 0,
    };
    let (mut encoder, mut bytes) = (Encoder::default(), Vec::new());
    let (mut events, mut ends) = (Vec::new(), vec![0]);
    for (kind, numbers) in seeds {
        let passed = if *kind > 128 { 0 } else { numbers[0] };
        maker.now_ns = maker.now_ns.saturating_add(passed);
        let event = maker.event(*kind, numbers);
        encoder.put(&mut bytes, Instant::from_nanos(maker.now_ns), &event);
        events.push((maker.now_ns, event));
        ends.push(bytes.len());
    }
    (events, bytes, ends)
}

/// Passes each entry that can be read to `look`. Returns whether reading ended with an error.
fn read(bytes: &[u8], mut look: impl FnMut(u64, &Entry<'_>)) -> bool {
    let (mut decoder, mut rest) = (Decoder::default(), Bytes::new(bytes));
    while !rest.is_empty() {
        let Ok((at, entry)) = decoder.take(&mut rest) else {
            return true;
        };
        look(at.as_nanos(), &entry);
    }
    false
}

/// Returns whether exactly these entries are read, and whether reading ended with an error.
fn reads(bytes: &[u8], entries: &[(u64, Entry<'_>)]) -> (bool, bool) {
    let mut expected = entries.iter();
    let mut is_same = true;
    let is_torn = read(bytes, |at, entry| {
        is_same &= expected
            .next()
            .is_some_and(|it| (it.0, &it.1) == (at, entry));
    });
    (is_same && expected.next().is_none(), is_torn)
}

/// How many replicas a query names in lists.
fn narrowed(asked: &Asked<'_>) -> usize {
    asked.avoid.len() + asked.among.len() + asked.homes.len()
}

proptest! {
    #![proptest_config(ProptestConfig {
        failure_persistence: None,
        ..ProptestConfig::with_cases(64)
    })]

    #[test]
    fn encoded_events_round_trip(seeds in seeds()) {
        let (events, bytes, _) = made(&seeds);
        prop_assert_eq!(reads(&bytes, &events), (true, false));
    }

    #[test]
    fn truncated_bytes_decode_up_to_the_last_whole_event(seeds in seeds(), cut in any::<prop::sample::Index>()) {
        let (events, bytes, ends) = made(&seeds);
        let cut = cut.index(bytes.len() + 1);
        let whole = ends.partition_point(|end| *end <= cut) - 1;
        prop_assert_eq!(reads(&bytes[..cut], &events[..whole]), (true, cut != ends[whole]));
    }

    #[test]
    fn corrupted_bytes_yield_a_bounded_number_of_entries(
        seeds in seeds(),
        flips in vec(any::<prop::sample::Index>(), 1..6),
    ) {
        let (_, mut bytes, _) = made(&seeds);
        if bytes.is_empty() {
            return Ok(());
        }
        let bits = bytes.len() * 8;
        for flip in flips {
            let bit = flip.index(bits);
            bytes[bit / 8] ^= 1 << (bit % 8);
        }
        let listed = |entry: &Entry<'_>| match entry {
            Entry::Query { asked, answer: Answer::Probe { targets } } => narrowed(asked) + targets.len(),
            Entry::Query { asked, .. } => narrowed(asked),
            Entry::Round { asked, replies, .. } => narrowed(asked) + replies.len(),
            Entry::Named { name, .. } => name.len(),
            _ => 0,
        };
        let (mut entries, mut kept) = (0, 0);
        read(&bytes, |_, entry| {
            entries += 1;
            kept += listed(entry);
        });
        prop_assert!(entries <= bytes.len());
        prop_assert!(kept <= bytes.len(), "{kept} of {}", bytes.len());
    }

    #[test]
    fn random_bytes_never_panic(bytes in vec(any::<u8>(), 0..2_000)) {
        let mut entries = 0;
        read(&bytes, |_, _| entries += 1);
        prop_assert!(entries <= bytes.len());
    }
}
