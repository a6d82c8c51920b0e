//! `sim size`: the answer agrees with theory.

use crate::rig::{Scratch, sim, stderr, stdout};

/// The mean time in a queue with `servers` servers of `rate` each, Poisson arrivals: Erlang's C
/// formula.
fn mean_seconds(arrivals: f64, rate: f64, servers: u32) -> f64 {
    let offered = arrivals / rate;
    // Erlang B by its recursion, then C from B.
    let blocked = (1..=servers).fold(1.0, |blocked, servers| {
        offered * blocked / (f64::from(servers) + offered * blocked)
    });
    let load = offered / f64::from(servers);
    let waits = blocked / (1.0 - load * (1.0 - blocked));
    1.0 / rate + waits / (f64::from(servers) * rate - arrivals)
}

#[test]
fn fleet_size_matches_the_erlang_c_formula() {
    let scratch = Scratch::new("sim-size");
    // 4.5 servers' worth of work. `greedy` sends each query where it ends first, which over
    // single-threaded servers equals one queue before all of them: M/M/c.
    let file = scratch.file(
        "mmc.toml",
        "span = \"10s\"\nwarmup = \"2s\"\n[load]\nrate = 450\n[cost]\nmean = \"10ms\"\n\
         [[fleet]]\ncount = 5\nservice = \"fifo\"\n[network]\ndelay = 0\n",
    );
    let (too_few, enough) = (mean_seconds(450.0, 100.0, 5), mean_seconds(450.0, 100.0, 6));
    // 25 and 13 ms: far enough apart for ten seconds to distinguish them.
    assert!(
        too_few > 0.018 * 1.3 && enough < 0.018 / 1.3,
        "{too_few} {enough}"
    );
    let output = sim(&["size", &file, "--slo", "mean=18ms", "--policy", "greedy"]);
    assert_eq!(output.status.code(), Some(0), "{}", stderr(&output));
    let shown = stdout(&output);
    let row: Vec<_> = shown
        .lines()
        .find_map(|line| line.strip_prefix("greedy"))
        .expect("a row")
        .split_whitespace()
        .collect();
    assert_eq!(row[0], "6", "{shown}");
    let output = sim(&[
        "size",
        &file,
        "--slo",
        "mean=18ms",
        "--policy",
        "greedy",
        "--most",
        "5",
    ]);
    assert!(stdout(&output).contains("> 5"), "{}", stdout(&output));
}
