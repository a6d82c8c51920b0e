//! The first tutorial, typed as it stands, by a shell.

use crate::folder;
use crate::pages::code_of;
use std::fs;
use std::net::TcpListener;
use std::path::Path;
use std::process::Command;

const PAGE: &str = "docs/tutorials/first-hour.md";

/// The ports that the page uses.
const PORTS: &[&str] = &["8080", "9001", "9002", "9101", "9102", "9900"];

/// Free ports, one for each of the page's. All are bound before the first is given back.
fn free_ports() -> Vec<String> {
    let listeners: Vec<TcpListener> = PORTS
        .iter()
        .map(|_| TcpListener::bind("127.0.0.1:0").expect("a free port"))
        .collect();
    let port = |listener: &TcpListener| listener.local_addr().expect("an address").port();
    listeners.iter().map(|one| port(one).to_string()).collect()
}

/// The commands of the page, on ports that are free, with shorter loads.
fn script() -> String {
    let blocks = code_of(PAGE);
    let shell = blocks.iter().filter(|block| block.info == "sh");
    // It is installed here.
    let typed = shell.filter(|block| !block.text.contains("cargo "));
    let mut script = typed.map(|block| block.text.as_str()).collect::<String>();
    let ports = free_ports();
    for (from, to) in PORTS.iter().zip(&ports) {
        script = script.replace(&format!(":{from}"), &format!(":{to}"));
        script = script.replace(&format!("http.server {from}"), &format!("http.server {to}"));
    }
    let admin = &ports[PORTS.len() - 1];
    script = script
        .replace("--seconds 10", "--seconds 2")
        .replace("sleep 3", "sleep 0.5");
    // What the page does at the default address of the status.
    script = script
        .replace(
            "slackwater serve ",
            &format!("slackwater serve --admin 127.0.0.1:{admin} "),
        )
        .replace(
            "slackwater ready",
            &format!("slackwater ready --admin 127.0.0.1:{admin}"),
        )
        .replace(
            "slackwater admin ",
            &format!("slackwater admin --admin 127.0.0.1:{admin} "),
        );
    // Whatever fails, no process outlives the test.
    format!("trap 'kill $(jobs -p) 2>/dev/null; kill -CONT $(jobs -p) 2>/dev/null' EXIT\n{script}")
}

#[test]
fn the_first_hour_goes_as_it_is_written() {
    let folder = folder("session");
    let script = script();
    fs::write(folder.join("session.sh"), &script).expect("a file");
    let command = Path::new(env!("CARGO_BIN_EXE_slackwater"));
    let path = std::env::var("PATH").unwrap_or_default();
    let commands = command.parent().expect("the command's folder").display();
    // With `bash -e` the first command that fails ends it.
    let output = Command::new("bash")
        .args(["-eu", "session.sh"])
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
