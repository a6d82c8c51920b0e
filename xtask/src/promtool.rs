//! `cargo xtask promtool`: checks our metrics, alerts and rules with Prometheus's own tool.
//!
//! The rules are checked, and run on series with known results. The queries of the dashboard are
//! checked for syntax. The metrics are those of a running demo: a real proxy before replicas, with
//! requests and probes.

use crate::command::{find_slackwater, first_line, root};
use crate::folder::Folder;
use crate::loopback::http;
use crate::loopback::ports::FreePorts;
use crate::loopback::processes::{Processes, wait_for};
use crate::output::say;
use core::time::Duration;
use serde_json::{Value, json};
use std::fs;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

/// Path of the rules.
const RULES: &str = "deploy/prometheus/rules.yml";
/// Time for a demo to answer a request.
const LIMIT: Duration = Duration::from_mins(1);

/// The options.
#[derive(Debug, clap::Args)]
pub(crate) struct Options {
    /// The command whose metrics are checked; built by default
    #[arg(long, value_name = "FILE")]
    slackwater: Option<PathBuf>,
}

/// Runs it.
pub(crate) fn run(options: &Options) -> Result<(), String> {
    let version = first_line("promtool", &["--version"]);
    if version.is_empty() {
        return Err(
            "there is no promtool, so metrics and rules cannot be checked; install it (Debian: apt-get install prometheus)"
                .to_owned(),
        );
    }
    say(&version);
    promtool(&["check", "rules", RULES], None)?;
    promtool(&["test", "rules", "deploy/prometheus/rules_test.yml"], None)?;
    let folder = Folder::new("promtool", false)?;
    let queries = folder.path.join("queries.yml");
    let count = write_queries(&queries)?;
    promtool(&["check", "rules", &queries.to_string_lossy()], None)?;
    say(&format!(
        "promtool: {count} queries of the dashboard are queries"
    ));
    let slackwater = find_slackwater(options.slackwater.as_deref(), "dev")?;
    let processes = Processes::new(&folder.path)?;
    let admin = {
        // The ports are free again from here on.
        let mut ports = FreePorts::default();
        ports.take()?
    };
    let admin_said = admin.to_string();
    let mut command = Command::new(slackwater);
    command.args(["demo", "--no-table", "--replicas", "4", "--rate", "50"]);
    command.args(["--admin", &admin_said]);
    let mut demo = processes.start("demo", &mut command)?;
    let page = wait_for("the demo's first requests", LIMIT, || {
        demo.check_running()?;
        let page = http::get(admin, "/metrics").ok().map(|answer| answer.body);
        let answered = "slackwater_request_duration_seconds_bucket";
        Ok(page.filter(|page| page.contains(answered)))
    })?;
    promtool(&["check", "metrics"], Some(&page))?;
    say(&format!(
        "promtool: {} lines of metrics are clean",
        page.lines().count()
    ));
    Ok(())
}

/// Writes the dashboard's queries as rules, the form in which they can be checked; returns their
/// number.
fn write_queries(to: &Path) -> Result<usize, String> {
    const DASHBOARD: &str = "deploy/grafana/slackwater.json";
    let wrong = |error: &dyn core::fmt::Display| format!("{DASHBOARD}: {error}");
    let text = fs::read_to_string(root().join(DASHBOARD)).map_err(|error| wrong(&error))?;
    let dashboard: Value = serde_json::from_str(&text).map_err(|error| wrong(&error))?;
    let panels = dashboard["panels"].as_array().into_iter().flatten();
    let targets = (panels.clone())
        .filter_map(|panel| panel["targets"].as_array())
        .flatten();
    let annotations = dashboard["annotations"]["list"]
        .as_array()
        .into_iter()
        .flatten();
    let queries = targets
        .chain(annotations)
        .filter_map(|it| it["expr"].as_str());
    let rules: Vec<_> = (queries.enumerate())
        .map(|(number, query)| {
            let query = query.replace("$__rate_interval", "5m");
            json!({ "record": format!("query:{number}"), "expr": query })
        })
        .collect();
    if rules.is_empty() {
        return Err(wrong(&"it has no queries"));
    }
    let rules_text =
        fs::read_to_string(root().join(RULES)).map_err(|error| format!("{RULES}: {error}"))?;
    let of_picked = panels.flat_map(|panel| panel["targets"].as_array().into_iter().flatten());
    for query in of_picked.filter_map(|target| target["expr"].as_str()) {
        let metrics = ["slackwater_", "process_"].map(|begin| query.matches(begin).count());
        let picked = query.matches("instance=~\"$instance\"").count();
        if metrics.iter().sum::<usize>() != picked {
            return Err(wrong(&format!(
                "not of the process that is picked: {query}"
            )));
        }
        if let Some(strange) = strange_record(query, &rules_text) {
            return Err(wrong(&strange));
        }
    }
    let count = rules.len();
    // JSON is YAML.
    let file = json!({ "groups": [{ "name": "dashboard", "rules": rules }] });
    fs::write(to, file.to_string()).map_err(|error| format!("{}: {error}", to.display()))?;
    Ok(count)
}

/// Checks the recorded series of a query: the rules must record each, and it must be of the
/// selected services, because it covers all processes.
fn strange_record(query: &str, rules: &str) -> Option<String> {
    let is_of_name = |letter: char| letter.is_ascii_alphanumeric() || matches!(letter, '_' | ':');
    let recorded = |name: &str| {
        let mut records = (rules.lines()).filter_map(|line| line.split_once("- record: "));
        records.any(|(_, recorded)| recorded.trim() == name)
    };
    let mut names = (query.split(|letter| !is_of_name(letter)))
        .filter(|name| name.contains(":slackwater:"))
        .peekable();
    names.peek()?;
    if let Some(name) = names.clone().find(|name| !recorded(name)) {
        return Some(format!("{RULES} does not record {name}: {query}"));
    }
    let picked = query.matches("{service=~\"$service\"}").count();
    (names.count() != picked).then(|| format!("not of the service that is picked: {query}"))
}

/// Runs the tool; any complaint is a failure, even a mere recommendation.
fn promtool(arguments: &[&str], input: Option<&str>) -> Result<(), String> {
    let told = arguments.join(" ");
    let wrong = |error: std::io::Error| format!("promtool {told}: {error}");
    let stdin = if input.is_some() {
        Stdio::piped()
    } else {
        Stdio::null()
    };
    let mut command = Command::new("promtool");
    command.args(arguments).current_dir(root()).stdin(stdin);
    let mut child = (command.stdout(Stdio::piped()).stderr(Stdio::piped()))
        .spawn()
        .map_err(wrong)?;
    if let (Some(mut pipe), Some(input)) = (child.stdin.take(), input) {
        pipe.write_all(input.as_bytes()).map_err(wrong)?;
    }
    let output = child.wait_with_output().map_err(wrong)?;
    if output.status.success() {
        say(&format!("promtool {told}: passed"));
        return Ok(());
    }
    let text = [output.stdout, output.stderr].concat();
    Err(format!(
        "promtool {told}:\n{}",
        String::from_utf8_lossy(&text)
    ))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn queries_use_existing_recorded_series_with_the_chosen_service() {
        let rules = "      - record: service:slackwater:rif_mean5m\n        expr: up\n";
        let strange = |query: &str| strange_record(query, rules).unwrap_or_default();
        let good = "2 * quantile_over_time(0.99, service:slackwater:rif_mean5m{service=~\"$service\"}[7d]) + 1";
        assert_eq!(strange(good), "");
        assert_eq!(strange("rate(slackwater_picks_total[5m])"), "");
        let misspelt = "service:slackwater:rif_mean{service=~\"$service\"}";
        let said = strange(misspelt);
        assert!(
            said.contains("does not record service:slackwater:rif_mean:"),
            "{said}"
        );
        let said = strange("service:slackwater:rif_mean5m");
        assert!(
            said.starts_with("not of the service that is picked"),
            "{said}"
        );
    }
}
