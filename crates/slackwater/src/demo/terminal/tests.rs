//! Frames and plain lines as they appear: exact text for exact pictures.

use super::frame::{Size, frame};
use super::plain_line;
use crate::demo::picture::{
    Balancer, Phase, Picture, Quantiles, Recent, ReplicaState, Second, Side, Weather,
};
use crate::demo::replica::trouble::{Fault, Trouble};
use core::time::Duration;

/// p50, p99 and p99.9.
fn quantiles(ms: [f64; 3]) -> Quantiles {
    Quantiles {
        p50_ms: ms[0],
        p99_ms: ms[1],
        p999_ms: ms[2],
    }
}

fn side(policy: &'static str, rifs: &[u32], latency: Option<Quantiles>) -> Side {
    let replica = |rif: &u32| ReplicaState {
        rif: *rif,
        rif_high: *rif,
        served: 100,
    };
    Side {
        service: policy.to_owned(),
        policy,
        requests: 9_204,
        errors: 0,
        recent: Recent {
            requests: 4_010,
            errors: 0,
            latency,
        },
        overall: Recent {
            requests: 9_204,
            errors: 0,
            latency,
        },
        replicas: rifs.iter().map(replica).collect(),
        balancer: Balancer::default(),
    }
}

fn picture(first: Side, second: Side) -> Picture {
    let weather = |index| Weather {
        capacity_cores: 1.4,
        hobbled: index == 2,
        trouble: Trouble::default(),
    };
    let second_of_history = |number| Second {
        number,
        hobbled: None,
        sides: [first.overall.latency, second.overall.latency],
    };
    Picture {
        phase: Phase::Running,
        elapsed: Duration::from_millis(23_400),
        length: Some(Duration::from_secs(30)),
        rate: 400.0,
        weather: true,
        turns: 0,
        seed: 1,
        sent_late_p99_ms: 0.2,
        replicas: (0..first.replicas.len()).map(weather).collect(),
        history: (0..4).map(second_of_history).collect(),
        sides: [first, second],
    }
}

fn example() -> Picture {
    picture(
        side(
            "prequal",
            &[3, 0, 2, 5],
            Some(quantiles([21.4, 142.2, 180.0])),
        ),
        side(
            "round_robin",
            &[4, 1, 97, 6],
            Some(quantiles([24.0, 1_310.0, 1_890.0])),
        ),
    )
}

fn text(picture: &Picture, columns: usize, rows: usize) -> String {
    let lines = frame(picture, "http://127.0.0.1:9900/", Size { columns, rows });
    let lines: Vec<_> = lines
        .iter()
        .map(|line| line.render(columns, false))
        .collect();
    lines.join("\n")
}

#[test]
fn faults_of_replicas_are_shown_as_text() {
    let side = || side("prequal", &[1, 2, 3], None);
    let mut picture = picture(side(), side());
    let last = |picture: &Picture| text(picture, 80, 40).lines().last().map(str::to_owned);
    assert_eq!(last(&picture).as_deref(), Some("nothing measured yet"));
    assert!(plain_line(&picture).ends_with("slowed: 2"));
    picture.replicas[0].trouble.fault = Fault::Killed;
    picture.replicas[2].trouble.taken_percent = 80;
    picture.weather = false;
    let said = "replica 0 killed, 2 80 % taken; no slow episodes by themselves";
    assert_eq!(last(&picture).as_deref(), Some(said));
    assert!(plain_line(&picture).ends_with("slowed: 2; 0 killed, 2 80 % taken"));
}

#[test]
fn a_frame_shows_both_sides_beside_each_other() {
    let expected = "\
slackwater demo  4 replicas a side, 400 requests/s to each          0:23 of 0:30
page http://127.0.0.1:9900/   seed 1                              Ctrl-C ends it

             ■ prequal                          ■ round_robin
                 last 10 s   since start            last 10 s   since start
  p50                21 ms         21 ms                24 ms         24 ms
  p99               142 ms        142 ms             1,310 ms      1,310 ms
  p99.9             180 ms        180 ms             1,890 ms      1,890 ms
  requests           4,010         9,204                4,010         9,204
  errors                 0             0                    0             0

requests in flight at each replica
  0          ▋ 3                                ▊ 4
  1           0                                 ▏ 1
▶ 2 slowed   ▍ 2                                ████████████████████▍ 97
  3          █ 5                                █▎ 6

p99 of each second, last minute; from 10 ms to 10 s, logarithmic
  prequal       ▄▄▄▄
  round_robin   ▆▆▆▆

prequal's p99 is 0.11 of round_robin's: 142 ms against 1,310 ms";
    assert_eq!(text(&example(), 80, 24), expected);
}

#[test]
fn with_few_rows_the_chart_is_hidden_first_then_blank_lines() {
    let whole = text(&example(), 80, 24);
    let (body, verdict) = whole.rsplit_once("\n\n").unwrap();
    let (without_chart, _) = body.rsplit_once("\n\n").unwrap();
    let expected = format!("{without_chart}\n\n{verdict}");
    assert_eq!(text(&example(), 80, 20), expected);
    let expected = expected.replacen("ends it\n\n", "ends it\n", 1);
    assert_eq!(text(&example(), 80, 18), expected);
    let expected = format!(
        "{}\n{verdict}",
        without_chart.replacen("ends it\n\n", "ends it\n", 1)
    );
    assert_eq!(text(&example(), 80, 17), expected);
}

#[test]
fn large_fleet_is_drawn_with_vertical_bars() {
    let rif = |index: u32| if index == 2 { 60 } else { index % 7 };
    let frame_of = |replicas| {
        let rifs: Vec<u32> = (0..replicas).map(rif).collect();
        let latency = Some(quantiles([21.4, 142.2, 180.0]));
        let sides = ["prequal", "random"].map(|policy| side(policy, &rifs, latency));
        let [first, second] = sides;
        text(&picture(first, second), 80, 24)
    };
    let expected = "\
requests in flight at each replica, full height 64
                    ▆
                    █
  prequal         ▁ █ ▁ ▁ ▁ ▂   ▁ ▁ ▁ ▁ ▁ ▂   ▁ ▁ ▁ ▁ ▁ ▂   ▁ ▁ ▁ ▁ ▁ ▂   ▁
                    ▆
                    █
  random          ▁ █ ▁ ▁ ▁ ▂   ▁ ▁ ▁ ▁ ▁ ▂   ▁ ▁ ▁ ▁ ▁ ▂   ▁ ▁ ▁ ▁ ▁ ▂   ▁
                    ▲ 2 slowed";
    assert!(frame_of(30).contains(expected), "{}", frame_of(30));
    let dense = "  prequal        ▁█▁▁▁▂ ▁▁▁▁▁▂ ▁▁▁▁▁▂ ▁▁▁▁▁▂ ▁▁▁▁▁▂ ▁▁▁▁▁▂ ▁▁▁▁▁▂\n";
    assert!(frame_of(50).contains(dense), "{}", frame_of(50));
}

#[test]
fn a_busy_computer_is_reported_at_the_bottom() {
    let mut busy = example();
    busy.sent_late_p99_ms = 12.0;
    let warning = "this computer is too busy: 1 % of the requests leave over 12 ms late";
    assert!(text(&busy, 80, 24).ends_with(warning));
}

#[test]
fn frame_fits_a_terminal_of_any_size() {
    for columns in [0, 1, 40, 71, 80, 500] {
        for rows in [0, 1, 2, 10, 24, 100] {
            let lines = frame(&example(), "http://127.0.0.1:9900/", Size { columns, rows });
            assert!(lines.len() <= rows.saturating_sub(1));
            for line in lines {
                assert!(line.render(columns, false).chars().count() <= columns);
            }
        }
    }
}

#[test]
fn missing_values_are_shown_as_dashes() {
    let picture = picture(side("random", &[0, 0], None), side("random", &[0, 0], None));
    assert_eq!(
        plain_line(&picture),
        "  0:23  random (1): p50 –, p99 –, p99.9 –, 0 errors;  random (2): p50 –, p99 –, p99.9 –, 0 errors;  slowed: none"
    );
    assert!(text(&picture, 80, 24).ends_with("nothing measured yet"));
}

#[test]
fn a_plain_line_shows_the_last_seconds() {
    assert_eq!(
        plain_line(&example()),
        "  0:23  prequal: p50 21 ms, p99 142 ms, p99.9 180 ms, 0 errors;  round_robin: p50 24 ms, p99 1,310 ms, p99.9 1,890 ms, 0 errors;  slowed: 2"
    );
}
