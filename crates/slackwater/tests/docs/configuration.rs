//! Blocks of TOML, each given to `slackwater check`.

use crate::folder;
use crate::pages::{Code, code};
use core::fmt::Write as _;
use std::collections::BTreeSet;
use std::fs;
use std::path::Path;
use std::process::Command;
use toml::{Table, Value};

/// Checks a text, and returns the mistake with the names of the files that it is in.
fn check(folder: &Path, name: &str, text: &str) -> Result<(), String> {
    fs::write(folder.join(name), text).expect("a file");
    let output = Command::new(env!("CARGO_BIN_EXE_slackwater"))
        .args(["check", name])
        .current_dir(folder)
        .output()
        .expect("the command runs");
    if output.status.success() {
        return Ok(());
    }
    Err(String::from_utf8_lossy(&output.stderr).into_owned())
}

/// Puts the files that configurations name into a folder, and replaces the configurations' paths by
/// theirs: the test checks the configuration, not the machine.
fn with_files(folder: &Path, text: &str) -> String {
    let fixtures = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/fixtures");
    let mut out = text.to_owned();
    let quoted: BTreeSet<&str> = text.split('"').skip(1).step_by(2).collect();
    for path in quoted {
        let name = path.rsplit('/').next().unwrap_or(path);
        // No file is needed: this is a list of replicas, which is written here.
        let from = match name.rsplit('.').next() {
            Some("pem" | "crt") => "good/tls.pem",
            Some("key") if name.contains("probe") => "good/probe.key",
            Some("key") => "good/tls.key",
            Some("headers") => "good/collector.headers",
            Some("token") => "good/admin.token",
            Some("yaml") => "",
            _ if name == "token" => "good/admin.token",
            _ if name == "kubeconfig" => {
                let token = folder.join("token");
                fs::copy(fixtures.join("good/admin.token"), &token).expect("a copy");
                keep_secret(&token);
                "fleets/kubeconfig"
            }
            _ => continue,
        };
        let to = folder.join(name);
        if from.is_empty() {
            fs::write(&to, "- 127.0.0.1:9001\n").expect("a list of replicas");
        } else {
            fs::copy(fixtures.join(from), &to).expect("a copy");
        }
        keep_secret(&to);
        out = out.replace(&format!("\"{path}\""), &format!("\"{name}\""));
    }
    out
}

fn keep_secret(file: &Path) {
    #[cfg(unix)]
    {
        use std::os::unix::fs::PermissionsExt;
        fs::set_permissions(file, fs::Permissions::from_mode(0o600)).expect("a fixture");
    }
}

/// The names of the services that a value contains, at any depth.
fn services_named(value: &Value, named: &mut BTreeSet<String>) {
    match value {
        Value::Table(table) => {
            for (key, value) in table {
                let is_service = key == "service" || key == "name";
                match value {
                    Value::String(name) if is_service => drop(named.insert(name.clone())),
                    _ => services_named(value, named),
                }
            }
        }
        Value::Array(values) => values.iter().for_each(|value| services_named(value, named)),
        _ => {}
    }
}

/// Completes a part of a file to a whole one for `serve`.
fn completed(text: &str) -> String {
    let Ok(table) = text.parse::<Table>() else {
        return text.to_owned();
    };
    let has = |key: &str| table.contains_key(key);
    let mut whole = String::new();
    if !has("listen") && !has("listeners") {
        whole += "listen = \"127.0.0.1:8080\"\n";
    }
    let mut named = BTreeSet::new();
    if let Some(routes) = table.get("routes") {
        services_named(routes, &mut named);
    }
    if !has("replicas") && !has("services") && !has("discovery") && named.is_empty() {
        whole += "replicas = [\"127.0.0.1:9001\", \"127.0.0.1:9002\"]\n";
    }
    // `[listeners.tls]` belongs to the entry of `[[listeners]]` before it.
    if table.get("listeners").is_some_and(Value::is_table) {
        whole += "[[listeners]]\naddress = \"127.0.0.1:8080\"\n";
    }
    let at_top = whole
        .find("[[")
        .map_or(whole.as_str(), |at| &whole[..at])
        .to_owned();
    // Keys before the first table stay before the tables that are added.
    let rest = &whole[at_top.len()..];
    let (keys, tables) = text.split_at(if text.starts_with('[') {
        0
    } else {
        text.find("\n[").map_or(text.len(), |at| at + 1)
    });
    let mut whole = format!("{at_top}{keys}\n{rest}{tables}\n");
    let defined = table.get("services").and_then(Value::as_table);
    for name in named {
        if !defined.is_some_and(|services| services.contains_key(&name)) {
            let _ = writeln!(whole, "[services.{name}]\nreplicas = [\"127.0.0.1:9001\"]");
        }
    }
    whole
}

/// Returns what is wrong with a block, whichever kind of file it is a part of.
fn mistakes(folder: &Path, block: &Code) -> Result<(), String> {
    let text = with_files(folder, &block.text)
        .replace("\"a.internal:", "\"127.0.0.3:")
        .replace("/sys/fs/cgroup/system.slice/web.service", "/sys/fs/cgroup");
    let as_serve = check(folder, "serve.toml", &completed(&text));
    let Err(told) = as_serve else { return Ok(()) };
    let agent = "listen = \"127.0.0.1:8000\"\nto = \"127.0.0.1:80\"\n";
    let whole_agent = format!("{agent}{text}");
    let scenario = "[load]\nutilization = 0.85\n[cost]\nmean = \"5ms\"\n[[fleet]]\ncount = 8\n";
    let others = [
        ("agent.toml", text.clone()),
        ("agent.toml", whole_agent),
        ("fleet.sim.toml", text.clone()),
        ("fleet.sim.toml", format!("{scenario}{text}")),
    ];
    if others
        .iter()
        .any(|(name, text)| check(folder, name, text).is_ok())
    {
        return Ok(());
    }
    Err(told)
}

/// Returns whether a block is a part of another program's file.
fn is_other(text: &str) -> bool {
    text.starts_with("[dependencies]") || text.starts_with("[package]")
}

#[test]
fn configurations_in_the_docs_are_valid() {
    let folder = folder("configurations");
    let mut count = 0;
    let mut found = String::new();
    for block in code() {
        let mut info = block.info.split([',', ' ']);
        if block.is_inline || info.next() != Some("toml") || is_other(&block.text) {
            continue;
        }
        count += 1;
        match (mistakes(&folder, &block), info.any(|word| word == "fails")) {
            (Ok(()), false) | (Err(_), true) => {}
            (Ok(()), true) => {
                let _ = writeln!(found, "{}: is taken, and is to fail", block.place);
            }
            (Err(told), false) => {
                let _ = writeln!(found, "{}:\n{}\n{told}", block.place, block.text);
            }
        }
    }
    assert!(found.is_empty(), "{found}");
    assert!(count >= 20, "{count} configurations were found");
}

#[test]
fn a_mistake_in_a_part_of_a_file_is_found() {
    let folder = folder("mistakes");
    let block = |text: &str| Code {
        place: String::new(),
        info: "toml".to_owned(),
        is_inline: false,
        text: text.to_owned(),
    };
    let right = "timeouts.connect = \"1s\"\n\n[[routes]]\nservice = \"web\"\n";
    assert_eq!(mistakes(&folder, &block(right)), Ok(()));
    let wrong = "[helth]\ncheck = \"http\"\n";
    assert!(mistakes(&folder, &block(wrong)).is_err_and(|told| told.contains("helth")));
}
