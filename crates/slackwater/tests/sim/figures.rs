//! `sim fig6` and the other figures: checked, written, listed.

use crate::rig::{Scratch, sim, stderr, stdout};

#[test]
fn figure_is_checked_and_written() {
    let scratch = Scratch::new("sim-figure");
    let out = scratch.path("out");
    let arguments = [
        "fig6",
        "--seeds",
        "1",
        "--seconds",
        "0.2",
        "--warmup",
        "0",
        "--out",
        &out,
    ];
    let output = sim(&arguments);
    assert_eq!(output.status.code(), Some(0), "{}", stderr(&output));
    assert!(
        stdout(&output).contains("not reproduced"),
        "{}",
        stdout(&output)
    );
    for name in ["fig6.csv", "fig6.html", "fig6-1.svg"] {
        assert!(scratch.0.join("out").join(name).exists(), "{name}");
    }
    let output = sim(&[&arguments[..], &["--strict"]].concat());
    assert_eq!(output.status.code(), Some(1));
    assert!(
        stderr(&output).contains("--strict: "),
        "{}",
        stderr(&output)
    );
}

#[test]
fn figures_are_listed_and_in_the_help() {
    let (list, help) = (stdout(&sim(&["list"])), stdout(&sim(&["--help"])));
    assert!(list.lines().count() >= 1);
    for line in list.lines() {
        let (name, title) = line.split_once(' ').expect("a name and a title");
        assert!(help.contains(&format!("  {name} ")), "{name}: {help}");
        let own = stdout(&sim(&[name, "--help"]));
        assert!(
            own.contains(title.trim()) && own.contains("--strict"),
            "{own}"
        );
    }
    assert!(help.contains("slackwater sim size my-fleet.toml"), "{help}");
}
