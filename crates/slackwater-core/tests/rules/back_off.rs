//! A2, A4 and Decision 0011: fewer probes while probes show an overload, and never more than the
//! limit per second.

use crate::world::{MS, World, load, rate};
use core::time::Duration;
use slackwater_core::policy::prequal::PrequalSettings;
use slackwater_core::policy::{Event, Policy};
use slackwater_core::{Draw, Instant, ReplicaId};
use std::collections::VecDeque;

/// What happens to a probe.
#[derive(Clone, Copy, Debug)]
enum Fate {
    /// Answered this many milliseconds later.
    After(u32),
    Lost,
    Unsent,
}

const SOON: Fate = Fate::After(1);

/// A fleet under steady load, and a driver that treats each probe as given.
struct Drive {
    world: World,
    queries_per_ms: u32,
    due: VecDeque<(Instant, slackwater_core::policy::Probe)>,
    /// All probed replicas, in order.
    probed: Vec<ReplicaId>,
    queries: u64,
}

impl Drive {
    fn new(replicas: usize, settings: PrequalSettings) -> Self {
        Self {
            world: World::new(replicas, settings),
            queries_per_ms: 1,
            due: VecDeque::new(),
            probed: Vec::new(),
            queries: 0,
        }
    }

    /// Plays `ms` milliseconds. `fate` gets the place of the replica in the fleet, and the number
    /// of probes so far.
    fn play(&mut self, ms: u32, mut fate: impl FnMut(usize, usize) -> Fate) {
        for _ in 0..ms {
            self.world.now += MS;
            let now = self.world.now;
            let (due, later): (VecDeque<_>, _) = self.due.drain(..).partition(|&(at, _)| at <= now);
            self.due = later;
            for (_, probe) in due {
                self.world.answer(probe, &load(1, 5));
            }
            if self.world.policy.poll_timeout().is_some_and(|at| at <= now) {
                (self.world.policy).handle(now, Event::Timeout, &mut self.world.draw);
                self.send(&mut fate);
            }
            for _ in 0..self.queries_per_ms {
                let _ = self.world.pick();
                self.queries += 1;
                self.send(&mut fate);
            }
        }
    }

    fn send(&mut self, fate: &mut impl FnMut(usize, usize) -> Fate) {
        for probe in self.world.probes() {
            let replicas = &self.world.replicas;
            let place = replicas.iter().position(|&id| id == probe.replica);
            self.probed.push(probe.replica);
            match fate(place.expect("known"), self.probed.len()) {
                Fate::After(ms) => self.due.push_back((self.world.now + ms * MS, probe)),
                Fate::Lost => {}
                Fate::Unsent => self.world.unsend(probe),
            }
        }
    }

    /// Probes per query that were triggered in the next `ms` milliseconds, in thousandths.
    fn asked(&mut self, ms: u32, fate: impl FnMut(usize, usize) -> Fate) -> u64 {
        let (queries, left_out) = (self.queries, self.left_out());
        self.play(ms, fate);
        3_000 - (self.left_out() - left_out) * 1_000 / (self.queries - queries)
    }

    /// Probes that the next query triggers, in thousandths.
    fn wanted(&self) -> Option<u32> {
        let rate = self.world.policy.snapshot(self.world.now).probe_rate;
        rate.map(|rate| rate.millionths() / 1_000)
    }

    fn left_out(&self) -> u64 {
        self.world.policy.counters().probes_backed_off
    }
}

/// The shipped settings, except for the interval of probes to one replica.
fn shipped() -> PrequalSettings {
    PrequalSettings {
        probe_interval_min: Duration::ZERO,
        ..PrequalSettings::default()
    }
}

fn never_lowered() -> PrequalSettings {
    PrequalSettings {
        probe_rate_min: rate(16_000_000),
        ..shipped()
    }
}

#[test]
fn a2_without_overload_probe_back_off_has_no_effect() {
    // Round trips differ, one probe in a hundred is lost, one replica stops answering, and another
    // comes back.
    let fate = |place: usize, probes: usize| match (place, probes) {
        (7, 2_000..) | (3, 1_000..1_500) => Fate::Lost,
        (_, probes) if probes.is_multiple_of(100) => Fate::Lost,
        (place, probes) => Fate::After(u32::try_from(1 + (place + probes) % 20).expect("few")),
    };
    let [mut lowered, mut steady] =
        [shipped(), never_lowered()].map(|settings| Drive::new(20, settings));
    for drive in [&mut lowered, &mut steady] {
        drive.play(5_000, fate);
    }
    assert_eq!(lowered.probed, steady.probed, "probes");
    assert_eq!(
        lowered.world.policy.counters(),
        steady.world.policy.counters()
    );
    assert_eq!(lowered.world.pool(), steady.world.pool());
    let next = [lowered, steady].map(|mut drive| drive.world.draw.draw());
    assert_eq!(next[0], next[1], "draws");
}

#[test]
fn a2_probe_rate_falls_to_minimum_if_most_replies_are_late() {
    let mut drive = Drive::new(20, shipped());
    drive.play(1_000, |_, _| SOON);
    assert_eq!((drive.left_out(), drive.wanted()), (0, Some(3_000)));
    drive.play(2_000, |_, _| Fate::Lost);
    let probed = drive.probed.len();
    assert_eq!(drive.asked(3_000, |_, _| Fate::Lost), 1_000, "to the probe");
    assert_eq!(drive.wanted(), Some(1_000), "it is visible in a snapshot");
    assert!(drive.probed.len() > probed, "it goes on asking");
    let counters = drive.world.policy.counters();
    let wanted = counters.probes_sent
        + counters.probes_skipped_cap
        + counters.probes_skipped_outstanding
        + counters.probes_skipped_interval;
    // Probes of silent replicas are answered for.
    assert!(wanted <= 3 * drive.queries - drive.left_out() + counters.probes_idle);
}

#[test]
fn a2_back_off_needs_half_of_the_replicas_and_more_than_one() {
    // Each of these answers every other probe in time, so that none counts as lost.
    let in_trouble = |troubled: usize| {
        move |place: usize, probes: usize| {
            if place < troubled && probes.is_multiple_of(2) {
                Fate::Lost
            } else {
                SOON
            }
        }
    };
    for (replicas, troubled, falls) in [
        (20, 9, false),
        (20, 12, true),
        (1, 1, false),
        (2, 2, true),
        (3, 1, false),
    ] {
        let mut drive = Drive::new(replicas, shipped());
        drive.play(1_000, |_, _| SOON);
        let mut probes = vec![0; replicas];
        let fate = in_trouble(troubled);
        let mut each = |place: usize, _: usize| {
            probes[place] += 1;
            fate(place, probes[place])
        };
        drive.play(3_000, &mut each);
        assert_eq!(drive.left_out() > 0, falls, "{troubled} of {replicas}");
    }
}

#[test]
fn a2_stopped_replicas_do_not_trigger_back_off() {
    let mut drive = Drive::new(20, shipped());
    drive.play(1_000, |_, _| SOON);
    // One in five stops, then another one each second: 12 of 20 are gone in the end.
    for gone in 1..=3 {
        let fate = move |place: usize, _: usize| if place % 5 < gone { Fate::Lost } else { SOON };
        drive.play(1_000, fate);
    }
    assert_eq!(drive.left_out(), 0);
}

#[test]
fn a2_unprobed_replicas_do_not_trigger_back_off() {
    let mut drive = Drive::new(20, shipped());
    drive.play(2_000, |place, _| if place < 15 { Fate::Lost } else { SOON });
    assert_eq!(drive.left_out(), 0);
}

#[test]
fn a2_late_means_half_the_deadline_and_eight_times_the_usual() {
    let after = |ms: u32| move |_: usize, _: usize| Fate::After(ms);
    for (usual, now, falls) in [
        (1, 25, true),
        (1, 24, false),
        (3, 25, true),
        (5, 39, false),
        (5, 42, true),
    ] {
        let mut drive = Drive::new(20, shipped());
        drive.play(1_000, after(usual));
        drive.play(1_000, after(now));
        assert_eq!(drive.left_out() > 0, falls, "{now} ms after {usual} ms");
    }
    let near = PrequalSettings {
        probe_deadline: 20 * MS,
        ..shipped()
    };
    for (now, falls) in [(9, false), (10, true)] {
        let mut drive = Drive::new(20, near.clone());
        drive.play(1_000, after(1));
        drive.play(1_000, after(now));
        assert_eq!(drive.left_out() > 0, falls, "{now} ms of 20");
    }
}

#[test]
fn a2_lasting_round_trip_becomes_usual_within_minutes() {
    let after = |ms: u32| move |_: usize, _: usize| Fate::After(ms);
    let mut drive = Drive::new(20, shipped());
    drive.play(1_000, after(3));
    assert!(
        drive.asked(10_000, after(30)) < 2_000,
        "the way is long now"
    );
    drive.play(130_000, after(30));
    assert_eq!(drive.asked(1_000, after(30)), 3_000, "and that is the way");
}

#[test]
fn a2_unsent_probes_trigger_back_off() {
    let unsent = |_: usize, probes: usize| match probes {
        probes if probes.is_multiple_of(50) => Fate::Unsent,
        _ => SOON,
    };
    let mut drive = Drive::new(20, shipped());
    drive.play(1_000, unsent);
    assert!(drive.asked(1_000, unsent) < 1_500);
}

#[test]
fn a4_capped_probes_trigger_back_off_if_as_many_as_sent() {
    for (places, falls) in [(8, true), (60, false)] {
        let settings = PrequalSettings {
            probes_outstanding_max: places,
            ..shipped()
        };
        let mut drive = Drive::new(100, settings);
        drive.play(3_000, |_, _| Fate::After(20));
        assert_eq!(drive.left_out() > 0, falls, "{places} places");
    }
}

#[test]
fn a2_back_off_takes_two_windows_in_a_row() {
    let mut drive = Drive::new(20, shipped());
    drive.play(1_000, |_, _| SOON);
    // All probes of a tenth of a second are lost, which is known when their deadlines pass.
    drive.play(90, |_, _| Fate::Lost);
    drive.play(1_000, |_, _| SOON);
    assert_eq!(drive.left_out(), 0);
    drive.play(350, |_, _| Fate::Lost);
    drive.play(100, |_, _| SOON);
    assert!(drive.left_out() > 0);
}

#[test]
fn a2_probe_rate_recovers_within_30_s_of_timely_replies() {
    let mut drive = Drive::new(20, shipped());
    drive.play(1_000, |_, _| SOON);
    drive.play(3_000, |_, _| Fate::Lost);
    assert_eq!(drive.asked(1_000, |_, _| Fate::Lost), 1_000);
    // After ten seconds all are silent, and their lost probes no longer count.
    drive.play(10_000, |_, _| Fate::Lost);
    assert_eq!(drive.asked(5_000, |_, _| Fate::Lost), 1_000);
    let halfway = drive.asked(10_000, |_, _| SOON);
    assert!((1_300..1_700).contains(&halfway), "{halfway}");
    let wanted = drive.wanted();
    assert!(
        wanted.is_some_and(|rate| (1_900..2_100).contains(&rate)),
        "{wanted:?}"
    );
    drive.play(10_500, |_, _| SOON);
    assert_eq!(drive.asked(1_000, |_, _| SOON), 3_000);
    assert_eq!(drive.wanted(), Some(3_000));
}

#[test]
fn a2_probe_rate_does_not_recover_while_replies_are_half_late() {
    let after = |ms: u32| move |_: usize, _: usize| Fate::After(ms);
    for (ms, comes_back) in [(11, true), (14, false)] {
        let mut drive = Drive::new(20, shipped());
        drive.play(1_000, after(1));
        drive.play(3_000, after(30));
        drive.play(10_000, after(ms));
        let asked = drive.asked(1_000, after(ms));
        assert_eq!(asked > 1_000, comes_back, "{asked} at {ms} ms");
    }
}

#[test]
fn a10_removal_rate_follows_report_rate() {
    let mut drive = Drive::new(100, shipped());
    drive.play(1_000, |_, _| SOON);
    let removed = |drive: &Drive| {
        let counters = drive.world.policy.counters();
        counters.removed_oldest + counters.removed_worst + counters.removals_withheld
    };
    drive.play(3_000, |_, _| Fate::After(45));
    let (before, queries) = (removed(&drive), drive.queries);
    drive.play(3_000, |_, _| Fate::After(45));
    let each = (removed(&drive) - before) * 1_000 / (drive.queries - queries);
    assert_eq!(each, 333, "a third of one for each query");
}

#[test]
fn a2_rate_equal_to_its_minimum_is_never_lowered() {
    for least in [3_000_000, 16_000_000] {
        let settings = PrequalSettings {
            probe_rate_min: rate(least),
            ..shipped()
        };
        let mut drive = Drive::new(20, settings);
        drive.play(1_000, |_, _| SOON);
        drive.play(3_000, |_, _| Fate::Lost);
        assert_eq!(drive.left_out(), 0);
    }
}

fn capped(per_second: u32) -> PrequalSettings {
    PrequalSettings {
        probes_per_second_max: per_second,
        ..never_lowered()
    }
}

#[test]
fn a4_probes_per_second_are_capped() {
    let mut drive = Drive::new(20, capped(500));
    drive.play(10_000, |_, _| SOON);
    let counters = drive.world.policy.counters();
    // The bucket starts with 50.
    let sent = counters.probes_sent;
    assert!((5_040..=5_051).contains(&sent), "{sent}");
    assert!(counters.probes_skipped_rate > 20_000);
    let all = sent + counters.probes_skipped_rate + counters.probes_skipped_outstanding;
    assert_eq!(all, 3 * drive.queries + counters.probes_idle);
}

#[test]
fn a4_unsent_probes_return_their_tokens() {
    let mut drive = Drive::new(20, capped(10));
    drive.play(1_000, |_, probes| match probes {
        ..=1_000 => Fate::Unsent,
        _ => SOON,
    });
    let counters = drive.world.policy.counters();
    assert_eq!(counters.probes_unsent, 1_000);
    let sent = counters.probes_sent - counters.probes_unsent;
    assert!((20..=26).contains(&sent), "{sent}");
}

#[test]
fn a3_idle_clients_probe_within_the_cap() {
    let mut drive = Drive::new(20, capped(10));
    drive.queries_per_ms = 0;
    drive.play(10_000, |_, _| SOON);
    let counters = drive.world.policy.counters();
    assert!(counters.probes_idle >= 200, "they are triggered");
    let sent = counters.probes_sent;
    assert!((110..=116).contains(&sent), "{sent}");
}

#[test]
fn a13_unprobed_replica_is_rediscovered_at_a_low_probe_cap() {
    let mut drive = Drive::new(4, capped(20));
    drive.play(
        20_000,
        |place, _| if place == 0 { Fate::Lost } else { SOON },
    );
    let is_silent = |drive: &Drive| {
        let world = &drive.world;
        let views = world.policy.snapshot(world.now).replicas;
        let view = views.iter().find(|it| it.replica == world.replicas[0]);
        view.is_some_and(|it| it.unprobed)
    };
    assert!(is_silent(&drive));
    drive.play(5_000, |_, _| SOON);
    assert!(!is_silent(&drive));
}
