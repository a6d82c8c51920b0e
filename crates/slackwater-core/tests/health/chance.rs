//! Random events in a fleet: a replica is always left to choose, shares stay in range, and a
//! replica that recovers gets its whole share back.

use crate::fleet::{Client, KINDS, MS, Manner, SECOND};
use core::time::Duration;
use slackwater_core::draw::below;
use slackwater_core::health::{HealthSettings, HealthState};
use slackwater_core::policy::{Event, Outcome};
use slackwater_core::{LoadReport, Rif, SplitMix64};

fn some_manner(draw: &mut SplitMix64) -> Manner {
    let bad = [Outcome::Failed, Outcome::NoConnection, Outcome::PushedBack];
    Manner {
        fails: [0, 0, 5, 50, 100][below(draw, 5) as usize],
        bad: bad[below(draw, 3) as usize],
        takes: MS * [10, 10, 20, 60, 400][below(draw, 5) as usize],
        fails_after: MS * below(draw, 30),
        is_stopped: below(draw, 8) == 0,
        ..Manner::default()
    }
}

#[test]
fn one_replica_stays_available_and_recovered_ones_regain_full_share() {
    for (seed, kind) in (0..).zip(KINDS.into_iter().cycle().take(2 * KINDS.len())) {
        let mut draw = SplitMix64::new(seed);
        let replicas = 1 + below(&mut draw, 7) as usize;
        let mut client = Client::new(kind, replicas, HealthSettings::default());
        for _ in 0..40 {
            let replicas = u32::try_from(client.replicas.len()).expect("few");
            let place = below(&mut draw, replicas) as usize;
            let replica = client.replicas[place];
            match below(&mut draw, 10) {
                0 => {
                    client.join();
                }
                1 => {
                    let offered = below(&mut draw, 2) == 0;
                    client.handle(Event::Available(replica, offered));
                }
                2 => {
                    let mut report = LoadReport::new(Rif::ZERO, None);
                    report.incarnation = Some(below(&mut draw, 3).into());
                    report.error_millionths = Some(below(&mut draw, 1_000_001));
                    client.hear(place, &report);
                }
                3 => client.resume(place),
                _ => client.manners[place] = some_manner(&mut draw),
            }
            client.run(MS * below(&mut draw, 3_000));
            for place in 0..client.replicas.len() {
                let view = client.view(place);
                assert!(view.share_millionths <= 1_000_000, "{seed}: {view:?}");
            }
        }
        for place in 0..client.replicas.len() {
            let replica = client.replicas[place];
            client.handle(Event::Available(replica, true));
            client.resume(place);
            client.manners[place] = Manner::default();
        }
        assert!(!client.policy.fleet().available().is_empty(), "{seed}");
        // Policies with their own memory may probe slow-looking replicas too rarely, so these take
        // longer.
        let span = if kind == "peak_ewma" { 240 } else { 90 };
        client.run(Duration::from_secs(span));
        let states = client.states();
        assert!(
            states.iter().all(|&state| state == HealthState::Sound),
            "{seed} {kind}: {states:?}"
        );
        client.run(SECOND);
    }
}
