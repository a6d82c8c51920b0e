use core::time::Duration;
use slackwater_sim::scenario::*;
use slackwater_sim::{PolicyChoice, presets};
fn main() {
    for (label, fifo, w, sigma) in [
        ("ps", false, 1, 1.0),
        ("ps", false, 2, 1.0),
        ("ps", false, 4, 1.0),
        ("fifo", true, 1, 0.5),
        ("fifo", true, 1, 1.0),
        ("fifo", true, 2, 1.0),
        ("fifo", true, 4, 1.0),
        ("fifo", true, 4, 1.5),
        ("fifo", true, 8, 1.0),
    ] {
        for load in [0.3, 0.5, 0.75] {
            let mut s = presets::els(load);
            let c = w as f64;
            s.fleet[0].service = if fifo {
                Service::Fifo { workers: w }
            } else {
                Service::Shared(Sharing {
                    cores: c,
                    bucket: 0.0,
                    burst: 1.0,
                    contention_loss: 0.0,
                })
            };
            s.cost = Cost::Lognormal {
                median: Duration::from_secs_f64(4.0 * c / 1030.0 / f64::exp(sigma * sigma / 2.0)),
                sigma,
            };
            s.span = Duration::from_secs_f64(60000.0 / s.load.rate);
            let m: Vec<_> = ["least_loaded", "round_robin", "els", "prequal", "peak_ewma"]
                .iter()
                .map(|p| {
                    let m = slackwater_sim::run(&s, &PolicyChoice::named(p).unwrap(), 1);
                    (
                        m.latency.quantile(0.75).as_secs_f64() * 1e3,
                        m.latency.quantile(0.99).as_secs_f64() * 1e3,
                    )
                })
                .collect();
            print!(
                "{label} w{w} s{sigma} load {load}: LL p75 {:.1} p99 {:.1} |",
                m[0].0, m[0].1
            );
            for x in &m[1..] {
                print!(
                    " {:+.0}% {:+.0}% |",
                    100.0 * (x.0 / m[0].0 - 1.0),
                    100.0 * (x.1 / m[0].1 - 1.0)
                );
            }
            println!();
        }
    }
}
