//! `slackwater check` from the outside: exit codes, standard output and standard error.
//!
//! Each fixture states in comments what is expected of it: each `#: ` line is the first line of one
//! mistake or remark, without the file's name, in order. Files in `bad` have mistakes, files in
//! `good` have at most remarks. `BLESS=1` writes what is found into the fixtures; read it before
//! you commit it.

#![expect(
    clippy::expect_used,
    reason = "what helpers of a test cannot do ends the test"
)]

use slackwater_config::Variables;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

const MARK: &str = "#: ";

fn fixtures() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/fixtures")
}

/// The program, without the developer's variables that would configure it.
fn slackwater() -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_slackwater"));
    for name in Variables::names() {
        command.env_remove(name);
    }
    command
}

/// Runs `slackwater check` in the directory of the fixtures.
fn check(arguments: &[&str]) -> Output {
    slackwater()
        .arg("check")
        .args(arguments)
        .current_dir(fixtures())
        .output()
        .expect("the command runs")
}

fn stdout(output: &Output) -> String {
    String::from_utf8_lossy(&output.stdout).into_owned()
}

fn stderr(output: &Output) -> String {
    String::from_utf8_lossy(&output.stderr).into_owned()
}

/// The fixtures of a directory, as their names from the fixtures' root.
fn names(directory: &str) -> Vec<String> {
    let entries = fs::read_dir(fixtures().join(directory)).expect("a directory of fixtures");
    let files = entries.map(|entry| PathBuf::from(entry.expect("an entry").file_name()));
    let mut names: Vec<_> = files
        .filter(|file| file.extension().is_some_and(|end| end == "toml"))
        .map(|file| format!("{directory}/{}", file.display()))
        .collect();
    names.sort();
    names
}

/// The lines that a fixture expects, and those that the command printed: first lines, without the
/// file's name.
fn expected_and_found(name: &str, output: &Output) -> (Vec<String>, Vec<String>) {
    let file = fixtures().join(name);
    let told = stderr(output);
    let found: Vec<_> = told
        .lines()
        .filter_map(|line| line.strip_prefix(name)?.strip_prefix(':'))
        .map(|line| line.trim_start().to_owned())
        .collect();
    if std::env::var_os("BLESS").is_some() {
        bless(&file, &found);
    }
    let text = fs::read_to_string(&file).expect("a fixture");
    let expected = text.lines().filter_map(|line| line.strip_prefix(MARK));
    (expected.map(str::to_owned).collect(), found)
}

/// Appends what was found to the fixture, where it moves no line.
fn bless(file: &Path, found: &[String]) {
    let text = fs::read_to_string(file).expect("a fixture");
    let kept = text.lines().filter(|line| !line.starts_with(MARK));
    let found = found.iter().map(|line| format!("{MARK}{line}"));
    let lines: Vec<_> = kept.map(str::to_owned).chain(found).collect();
    fs::write(file, lines.join("\n") + "\n").expect("a fixture");
}

/// In a fresh clone the umask determines the mode of key files, and the command would warn about
/// it.
fn keep_key_secret() {
    for key in [
        "good/probe.key",
        "good/tls.key",
        "good/collector.headers",
        "good/admin.token",
    ] {
        keep_secret(&fixtures().join(key));
    }
}

fn keep_secret(file: &Path) {
    #[cfg(unix)]
    {
        use std::os::unix::fs::PermissionsExt;
        fs::set_permissions(file, fs::Permissions::from_mode(0o600)).expect("a fixture");
    }
}

#[test]
fn every_mistake_is_found_and_reported_with_its_position() {
    let names = names("bad");
    assert!(names.len() >= 25, "the fixtures are there");
    for name in names {
        let output = check(&[&name]);
        let (expected, found) = expected_and_found(&name, &output);
        assert_eq!(found, expected, "{name}");
        assert!(!found.is_empty(), "{name}");
        assert_eq!(output.status.code(), Some(2), "{name}");
        assert_eq!(stdout(&output), "", "{name}");
    }
}

#[test]
fn good_files_are_summarized_with_their_remarks() {
    keep_key_secret();
    for name in names("good") {
        let output = check(&[&name]);
        let (expected, found) = expected_and_found(&name, &output);
        assert_eq!(found, expected, "{name}");
        assert_eq!(output.status.code(), Some(0), "{name}: {}", stderr(&output));
        assert!(stdout(&output).starts_with(&format!("{name}: ok\n")));
    }
}

#[test]
fn a_mistake_shows_its_line_with_a_caret_below() {
    let told = stderr(&check(&["bad/workers_zero.toml"]));
    let expected = "bad/workers_zero.toml:3:11: workers: found 0, expected a number from 1 to 1,024; \
                    without the key there is one for each core\n \
                    3 | workers = 0\n   \
                    |           ^\n\
                    slackwater: 1 mistake in 1 of 1 file\n";
    assert_eq!(told, expected);
}

#[test]
fn a_summary_shows_policies_replicas_and_probes() {
    let shown = stdout(&check(&["good/everything.toml"]));
    assert_eq!(
        shown,
        "good/everything.toml: ok
  workers 3, listening at 127.0.0.1:8080 (TLS: 1 certificate, http/1.1, client certificates optional), [::1]:8080 (TLS: 1 certificate, http/1.1, client certificates optional)
  service default: policy prequal, 7 replicas over h2: 127.0.0.1:9001, [::1]:9001, 127.0.0.1:9002, 127.0.0.1:9003, 127.0.0.1:9004, 127.0.0.1:9005, 127.0.0.1:9006
    subset 3 of 20 replicas of each tier
    probes by udp, signed, to port 9100 of each replica that names no place of its own
    health checks by http (GET /healthz) every 2s: down after 4 failures, up after 3 successes
    sticky by the header x-user
    keys by header:x-user, else path_prefix:2: up to 1.5 times the mean load, sets of 2 replicas, 64 partitions, hot ones on up to 2 replicas
    retries: up to 4 attempts of safe methods, after 429, 502
  route 1: all requests: service default
  status and metrics at http://127.0.0.1:9901/
"
    );
}

#[test]
fn summary_lists_routes_and_disabled_features() {
    let shown = stdout(&check(&["good/path_with_a_star.toml"]));
    let end = "
    no health checks
    not sticky
    retries: up to 3 attempts of idempotent methods, after 502, 503, 504
  route 1: path /api/*: service default
  route 2: path_prefix /static/*.css: service default
  route 3: path /*: service default
  status and metrics at http://127.0.0.1:9900/
";
    assert!(shown.ends_with(end), "{shown}");
    let shown = stdout(&check(&["good/routes.toml"]));
    for line in [
        "route 1: host www.example.com: redirect 308 to {scheme}://example.com{path}{query}",
        "route 2: listener public, path_prefix /admin: answer 403",
        "route 3: path /robots.txt, method GET or HEAD: answer 204",
        "route 7: path /health: service web, with retries of its own",
        "route 8: path_prefix /: service web (weight 95) or canary (weight 5)",
    ] {
        assert!(shown.contains(&format!("\n  {line}\n")), "{line}\n{shown}");
    }
}

#[test]
fn files_that_cannot_be_read_are_named() {
    let directory = std::env::temp_dir().join(format!("slackwater-check-{}", std::process::id()));
    fs::create_dir_all(&directory).expect("a directory for the test");
    let file = |name: &str, bytes: &[u8]| {
        let file = directory.join(name);
        fs::write(&file, bytes).expect("a file for the test");
        file.to_string_lossy().into_owned()
    };
    let absent = directory.join("absent").to_string_lossy().into_owned();
    let cases = [
        (
            file("empty", b""),
            ": is empty, expected at least the keys listen and replicas",
        ),
        (
            file("comments", b"# nothing\n\n"),
            ": is empty, expected at least the keys listen and replicas",
        ),
        (
            file(
                "latin1",
                b"listen = \"127.0.0.1:1\"\npolicy = \"pr\xe9qual\"\n",
            ),
            ":2:13: encoding: byte 0xe9 is not UTF-8, expected UTF-8 text",
        ),
        (
            file("huge", &vec![b'#'; (1 << 20) + 1]),
            ": is larger than 1 MiB, expected a configuration file",
        ),
        (absent, ": there is no such file"),
        (
            directory.to_string_lossy().into_owned(),
            ": is a directory, expected a file",
        ),
        (file("zeros", &[0; 64]), ":1:1: syntax: "),
        (file("deep", "[".repeat(100_000).as_bytes()), ":1:"),
    ];
    let all: Vec<_> = cases.iter().map(|(name, _)| name.as_str()).collect();
    let output = check(&all);
    let told = stderr(&output);
    for (name, message) in &cases {
        assert!(
            told.contains(&format!("{name}{message}")),
            "{name}{message}:\n{told}"
        );
    }
    assert!(told.ends_with("in 8 of 8 files\n"), "{told}");
    assert_eq!(output.status.code(), Some(2));
    fs::remove_dir_all(&directory).expect("the test's own directory");
}

#[test]
fn one_bad_file_among_good_ones_fails_the_check() {
    let output = check(&["good/minimal.toml", "bad/syntax.toml"]);
    assert_eq!(output.status.code(), Some(2));
    assert!(stdout(&output).starts_with("good/minimal.toml: ok\n"));
    assert!(stderr(&output).contains("bad/syntax.toml:1:"));
}

#[test]
fn help_has_examples_and_exit_codes() {
    let help = stdout(&check(&["--help"]));
    assert!(
        help.contains("slackwater check --show slackwater.toml"),
        "{help}"
    );
    assert!(help.contains("Exit codes: 0"), "{help}");
}

#[test]
fn without_a_file_the_usage_is_shown() {
    let output = check(&[]);
    assert_eq!(output.status.code(), Some(2));
    assert!(stderr(&output).contains("<FILE>"));
}

#[test]
fn every_example_passes_the_check() {
    let examples = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../deploy/examples");
    let entries = fs::read_dir(&examples).expect("the examples");
    let files: Vec<_> = entries
        .map(|entry| entry.expect("an entry").path())
        .filter(|file| file.extension().is_some_and(|end| end == "toml"))
        .map(|file| file.to_string_lossy().into_owned())
        .collect();
    let is_scenario = |file: &&String| file.ends_with(".sim.toml");
    let scenarios = files.iter().filter(is_scenario).count();
    assert!(scenarios >= 3 && files.len() >= scenarios + 2, "{files:?}");
    for file in files {
        let output = check(&[&file]);
        assert_eq!(output.status.code(), Some(0), "{}", stderr(&output));
        assert_eq!(stderr(&output), "", "nothing to remark");
        assert!(stdout(&output).starts_with(&format!("{file}: ok\n")));
    }
}

/// The configurations on a page, from the lines of its blocks marked as TOML.
fn blocks_of_toml(page: &str) -> Vec<String> {
    let mut blocks = Vec::new();
    let mut lines = page.lines();
    while lines.by_ref().any(|line| line == "```toml") {
        let block: Vec<_> = lines.by_ref().take_while(|line| *line != "```").collect();
        blocks.push(block.join("\n"));
    }
    blocks
}

#[test]
fn hints_for_users_of_other_balancers_are_valid_files() {
    let page = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/how-to/migrating.md");
    let blocks = blocks_of_toml(&fs::read_to_string(page).expect("the page"));
    assert!(blocks.len() >= 6, "{} configurations", blocks.len());
    let directory = Path::new(env!("CARGO_TARGET_TMPDIR")).join("migrating");
    fs::create_dir_all(&directory).expect("a directory");
    for (from, to) in [
        ("tls.pem", ["www.pem", "api.pem"]),
        ("tls.key", ["www.key", "api.key"]),
    ] {
        for to in to {
            let to = directory.join(to);
            fs::copy(fixtures().join("good").join(from), &to).expect("a copy");
            keep_secret(&to);
        }
    }
    for (index, block) in blocks.iter().enumerate() {
        let file = directory.join(format!("{index}.toml"));
        fs::write(&file, block).expect("a file");
        let output = check(&[&file.to_string_lossy()]);
        assert_eq!(
            output.status.code(),
            Some(0),
            "{block}\n{}",
            stderr(&output)
        );
    }
}

#[test]
fn a_scenario_is_recognized_by_its_sections_and_summarized() {
    let name = "sim/good/minimal.sim.toml";
    let summary = "  8 replicas, 1 client, 1,360.0 queries/s (85 % of the fleet's allocation)
  60 s after 10 s of warm-up: some 81,600 queries with each seed
";
    assert_eq!(stdout(&check(&[name])), format!("{name}: ok\n{summary}"));
    let directory =
        std::env::temp_dir().join(format!("slackwater-scenario-file-{}", std::process::id()));
    fs::create_dir_all(&directory).expect("a directory for the test");
    let copy = directory.join("fleet.toml").to_string_lossy().into_owned();
    fs::copy(fixtures().join(name), &copy).expect("a copy");
    assert_eq!(stdout(&check(&[&copy])), format!("{copy}: ok\n{summary}"));
    let shown = check(&["--show", &copy]);
    assert_eq!(shown.status.code(), Some(2));
    let told = format!("{copy}: is a scenario, which --show does not show\n");
    assert!(stderr(&shown).starts_with(&told), "{}", stderr(&shown));
    // Only the name shows what an empty file was meant to be.
    let empty = directory.join("x.sim.toml").to_string_lossy().into_owned();
    fs::write(&empty, "").expect("a file");
    let told = stderr(&check(&[&empty]));
    assert!(told.contains("x.sim.toml: load.rate: is missing"), "{told}");
    fs::remove_dir_all(&directory).expect("the test's own directory");
}

#[test]
fn mistakes_in_a_scenario_are_reported_with_their_position() {
    let name = "sim/bad/many.sim.toml";
    let output = check(&[name, "good/minimal.toml"]);
    assert_eq!(output.status.code(), Some(2));
    let told = stderr(&output);
    assert!(
        told.starts_with(&format!("{name}:1:1: deadlin: unknown key, did you mean")),
        "{told}"
    );
    assert!(told.ends_with(" mistakes in 1 of 2 files\n"), "{told}");
}

#[test]
fn an_agents_file_is_recognized_by_its_server_and_shown_in_full() {
    let directory =
        std::env::temp_dir().join(format!("slackwater-agent-file-{}", std::process::id()));
    fs::create_dir_all(&directory).expect("a directory for the test");
    let file = directory.join("agent.toml").to_string_lossy().into_owned();
    fs::write(
        &file,
        "listen = \"127.0.0.1:8001\"\nto = \"unix:/run/app.sock\"\n",
    )
    .expect("a file");
    let output = check(&[&file]);
    assert_eq!(
        stdout(&output),
        format!(
            "{file}: ok
  agent before unix:/run/app.sock over http1, workers 1, listening at 127.0.0.1:8001
  probes by udp at 127.0.0.1:8001, by http at /prequal/probe
  no status or metrics: admin.listen is \"none\"
"
        )
    );
    let shown = stdout(&check(&["--show", &file]));
    assert!(shown.contains("drain_delay = \"1s\"\n"), "{shown}");
    assert!(shown.contains("sample_age_max = \"3s\"\n"), "{shown}");
    let again = directory.join("again.toml").to_string_lossy().into_owned();
    fs::write(&again, &shown).expect("a file");
    assert_eq!(stdout(&check(&["--show", &again])), shown);
    fs::write(&file, "listen = \"127.0.0.1:8001\"\nto = \"app\"\n").expect("a file");
    let output = check(&[&file]);
    assert_eq!(output.status.code(), Some(2));
    assert!(
        stderr(&output).contains("agent.toml:2:6: to: "),
        "{}",
        stderr(&output)
    );
    fs::remove_dir_all(&directory).expect("the test's own directory");
}

#[test]
fn namespace_of_a_cluster_must_be_known() {
    let output = check(&["fleets/no_namespace.toml"]);
    assert_eq!(output.status.code(), Some(2));
    let told = stderr(&output);
    let expected = "fleets/kubeconfig_nameless: names no namespace for web:http; ";
    assert!(told.starts_with(expected), "{told}");
}

#[test]
fn mistakes_of_a_fleet_file_are_reported_with_its_own_lines() {
    let output = check(&["fleets/mistaken.toml"]);
    assert_eq!(output.status.code(), Some(2));
    let told = stderr(&output);
    let found: Vec<_> = (told.lines())
        .filter(|line| line.starts_with("fleets/fleet.yaml:"))
        .collect();
    let expected = [
        "fleets/fleet.yaml:3:14: replicas[1].address: found \"127.0.0.1\", expected a port, as in \"10.0.0.1:8080\"",
        "fleets/fleet.yaml:4:12: replicas[1].probe: found 70000, expected \"host:port\", or a port from 1 to 65535 of the replica's own host",
        "fleets/fleet.yaml:5:5: replicas[2]: 127.0.0.1:9001 is replicas[0] again, expected each replica once",
        "fleets/fleet.yaml:6:5: replicas[3]: found 5, expected \"host:port\" or a table such as { address = \"10.0.0.1:8080\", probe = \"10.0.0.1:9000\" }",
    ];
    assert_eq!(found, expected, "{told}");
    assert!(
        told.contains("\n 3 |   - address: 127.0.0.1\n   |              ^^^^^^^^^\n"),
        "{told}"
    );

    let output = check(&["good/fleet_by_file.toml"]);
    let summary =
        "policy shortest_expected_delay, 2 replicas in a file over http1: good/fleet.json\n";
    assert!(stdout(&output).contains(summary), "{}", stdout(&output));
}

#[test]
fn opentelemetry_variables_are_checked_as_at_startup() {
    let file = std::env::temp_dir().join(format!("slackwater-otel-{}.toml", std::process::id()));
    let text = "listen = \"127.0.0.1:0\"\nreplicas = [\"127.0.0.1:1\"]\n[tracing]\n";
    fs::write(&file, text).expect("a file for the test");
    let output = slackwater()
        .args(["check", "--show"])
        .arg(&file)
        .env("OTEL_EXPORTER_OTLP_ENDPOINT", "http://10.0.0.9:4317")
        .env("OTEL_TRACES_SAMPLER", "always_on")
        .output()
        .expect("the command runs");
    fs::remove_file(&file).expect("the test's own file");
    assert!(output.status.success(), "{}", stderr(&output));
    let told = stderr(&output);
    let expected = "OTEL_TRACES_SAMPLER: tracing.sample: warning: found \"always_on\"";
    assert!(told.contains(expected), "{told}");
    let shown = stdout(&output);
    assert!(
        shown.contains("endpoint = \"http://10.0.0.9:4317/\""),
        "{shown}"
    );
    assert!(shown.contains("[tracing]"), "{shown}");
}

#[test]
fn schema_option_prints_the_json_schema() {
    for (command, file) in [
        ("serve", "configuration.schema.json"),
        ("agent", "agent.schema.json"),
    ] {
        let docs = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/reference");
        let described = fs::read_to_string(docs.join(file)).expect("it is kept fresh");
        let output = check(&["--schema", command]);
        assert!(output.status.success(), "{}", stderr(&output));
        assert_eq!(stdout(&output), described);
    }
    let both = check(&["--schema", "serve", "good/minimal.toml"]);
    assert_eq!(both.status.code(), Some(2), "a schema checks no file");
}
