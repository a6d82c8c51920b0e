//! The first tutorial, executed by a shell as it is written.

use crate::folder;
use crate::pages::code_of;
use std::fs;
use std::path::Path;
use std::process::Command;

const PAGE: &str = "docs/tutorials/first-hour.md";

/// A loopback address of this test alone, where the page's ports are free.
const HOST: &str = "127.93.0.1";

/// The commands of the page, at the test's own address, with shorter loads.
fn script() -> String {
    let blocks = code_of(PAGE);
    let shell = blocks.iter().filter(|block| block.info == "sh");
    // Slackwater is built already, so it is not installed.
    let typed = shell.filter(|block| !block.text.contains("cargo "));
    let mut script = typed.map(|block| block.text.as_str()).collect::<String>();
    script = script.replace("127.0.0.1", HOST);
    script = script
        .replace("--seconds 10", "--seconds 2")
        .replace("sleep 3", "sleep 0.5");
    // The page uses the default address of the status, which the test replaces.
    script = script
        .replace(
            "slackwater serve ",
            &format!("slackwater serve --admin {HOST}:9900 "),
        )
        .replace(
            "slackwater ready",
            &format!("slackwater ready --admin {HOST}:9900"),
        )
        .replace(
            "slackwater admin ",
            &format!("slackwater admin --admin {HOST}:9900 "),
        );
    // No process outlives the test, even if a step fails.
    format!("trap 'kill $(jobs -p) 2>/dev/null; kill -CONT $(jobs -p) 2>/dev/null' EXIT\n{script}")
}

#[test]
fn first_tutorial_works_as_written() {
    let folder = folder("session");
    let script = script();
    fs::write(folder.join("session.sh"), &script).expect("a file");
    let command = Path::new(env!("CARGO_BIN_EXE_slackwater"));
    let path = std::env::var("PATH").unwrap_or_default();
    let commands = command.parent().expect("the command's folder").display();
    // With `bash -e` the first command that fails ends the session.
    let output = Command::new("timeout")
        .args(["120", "bash", "-eu", "session.sh"])
        .current_dir(&folder)
        .env("PATH", format!("{commands}:{path}"))
        .output()
        .expect("bash runs; the tutorial needs it, and python3");
    let shown = String::from_utf8_lossy(&output.stdout);
    let told = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{script}\n{shown}\n{told}");
    assert!(shown.contains("hello"), "{shown}");
    assert_eq!(
        shown.matches("p99.9").count(),
        2,
        "two loads: {shown}\n{told}"
    );
}
