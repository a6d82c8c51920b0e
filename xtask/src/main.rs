//! Slackwater's own chores, so that no other task runner is needed: `cargo xtask test` is what CI
//! runs.

mod arguments;
mod caches;
mod chaos;
mod command;
mod conformance;
mod dashboard;
mod folder;
mod go;
mod kubernetes;
mod loopback;
mod mutants;
mod openapi;
mod outage;
mod output;
mod peers;
mod promtool;
mod provenance;
mod release;
mod report;
mod results;
mod room;
mod run;
mod siege;
mod site;
mod slow_requests;
mod spread;
mod table;
mod tidy;
mod training;
mod troubles;
mod vectors;

use loopback::replica;
use std::io::Write;
use std::process::ExitCode;

const USAGE: &str = "\
cargo xtask CHORE

  test    everything that a change must pass: format, tidy, lints, tests, documentation
  tidy    checks of the tree that no other tool does (seconds); --ratchet: updates the lists in xtask/ratchets/ of existing
          violations that are still allowed
          [--ratchet [--may-grow]]
  peers   serve and agents between real peers (nginx, curl, wrk, h2load), killed and restarted; Linux (two minutes)
          [--keep] [--size-mib N] [--seconds N] [--report FILE]
  chaos   load through serve over agents, while replicas are killed, stopped and slowed, and serve is reloaded and upgraded;
          no request may fail without cause (ten minutes)
          [--short] [--keep] [--seconds N] [--rate N] [--report FILE]
  troubles
          replicas that fail at once, hang, restart cold or stall, with and without the mechanisms against it;
          real processes; numbers without a verdict (fifteen minutes)
          fail-fast | stopped | restart | hedged | tied | all ... [--short] [--keep] [--seconds N] [--runs N] [--rate N]
          [--slackwater FILE] [--report FILE]
  siege   attacks on serve between real servers, compared with nginx and HAProxy; fails if a bar is missed
          (ten minutes; --short: only Slackwater, 90 s; --minutes N: one process under attack for this long)
          isolation | progress | endings | fairness | smuggling | fuzz | memory | replicas | floods | all ...
          [--short] [--minutes N] [--seed N] [--keep] [--slackwater FILE] [--report FILE]
  story   slow requests under load, in three sources: the access log, the decisions, and the spans at a collector; fails
          if they disagree (half a minute)
          [--short] [--keep] [--slackwater FILE] [--report FILE]
  outage  replicas are killed under load; the log, /readyz, admin status, the metrics, the live stream and /decisions must
          report it within two seconds, and report its end (half a minute)
          [--keep] [--slackwater FILE] [--shots FOLDER] [--report FILE]
  room    each policy before replicas that burn CPU under quotas, beside neighbours, or at twice the cost; as root, for cgroups
          (a minute with --short, otherwise a quarter of an hour for each of ten rounds)
          [--short] [--keep] [--case NAME] [--policies NAME,...] [--rounds N] [--seconds N] [--seed N] [--load PERCENT]
          [--cost-us N] [--threads N] [--workers N] [--period-ms N] [--slackwater FILE] [--out FOLDER]
  caches  replicas with a cache each, behind serve by key and behind Envoy, HAProxy and nginx with consistent hashing; peers that
          are not installed are skipped; numbers without a verdict (half an hour; --short: only Slackwater, half a minute)
          [--short] [--keep] [--case NAME] [--contenders NAME,...] [--rounds N] [--lanes N] [--seconds N] [--settle N] [--rate N]
          [--replicas N] [--workers N] [--hit-ms N] [--miss-ms N] [--keys N] [--cache N] [--zipf S] [--seed N]
          [--key LINE] [--slackwater FILE] [--keyed FILE] [--report FILE]
  conformance
          h2spec, gRPC's interop tests, grpcurl, curl and Chromium through serve, in plain and over TLS (two minutes)
          [--keep] [--slackwater FILE] [--report FILE]
  promtool
          checks the metrics, the alerts and their tests with Prometheus's own tool (seconds, once built)
          [--slackwater FILE]
  mutants small changes of the core's code, each of which a test should notice, as cargo-mutants lists them; writes
          results/core-mutants.md (all: an hour or two). --file: only those of a file, by a pattern, also several times
          --vectors: which of them the vectors notice, without any other test; writes results/vectors-mutants.md (half an hour)
          --search: looks among N scenarios for some that break more of them
          --go-on: keeps what earlier runs have found out about the same code and tests, and what was caught before vectors were
          added
          [--sample N] [--seed N] [--file PATTERN ...] [--vectors [--search N]] [--go-on] [--report FILE]
  vectors test vectors of policies and tracker for other languages, into vectors/ (seconds); --check: compares them with the
          core. --events: events of each scenario
          [--check] [--scenarios N] [--events N] [--first-seed N] [--out FOLDER]
  go      format, lints and tests of the Go modules, with vectors and short fuzzing; skipped, with the reason, without Go
          (four minutes, the first time six). --million: also with new vectors of more than a million events
          [--short] [--fuzz RUNS] [--million]
  kubernetes
          the Helm charts on a real control plane: pods come, go and fail under load, the API server is down, rights are taken
          away; as root, for network namespaces (six minutes; the first time builds Kubernetes with Go, half an hour)
          --charts: only checks the charts; --write: only writes deploy/kubernetes from them (seconds)
          [--charts | --write] [--short] [--case NAME] [--keep] [--slackwater FILE] [--programs FOLDER] [--old-etcd FILE]
          [--record FILE] [--report FILE]
  openapi checks docs/reference/openapi.json with openapi-spec-validator (a second)
  dashboard
          the dashboard of demo and of serve in Chromium: controls, keyboard, contrast, pictures, at 20 and at 1,000 replicas
          (four minutes; --short: 20 only, one minute; --debug: all with a build for tests)
          [--short] [--debug] [--shots FOLDER] [--keep] [--slackwater FILE] [--report FILE]
  site    the documentation as a site that works offline, into target/site; fails if a page is not listed, a link leads
          nowhere or a page loads something from elsewhere (two minutes to build it the first time, then seconds)
          [FOLDER | --check]
  release what people install, into target/dist: static programs, archives, Debian packages, container images, lists of what
          is in them, checksums (an hour and a half; --verify: builds twice and compares; --profiles: with the counts that
          a release of this commit has, in place of training; --untrained: without counts; --short: with this machine's own
          build, a minute once that is built)
          [--short [--slackwater FILE]] [--verify] [--profiles FOLDER | --untrained] [--target TRIPLE ...] [--out FOLDER]
  training
          the load under which the programs of a release count what they execute: serve, agent and load in several lanes; no
          request may fail (two minutes)
          [--keep] [--seconds N] [--slackwater FILE] [--agent FILE]
  results the simulator's figures for publication, into results/sim; needs a committed tree (an hour)
          [FIGURE ...] [--seeds N] [--first-seed N] [--threads N]
";

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let outcome = match arguments.iter().map(String::as_str).collect::<Vec<_>>()[..] {
        ["test"] => run::test(),
        ["tidy", ref options @ ..] => tidy::run(options),
        ["peers", ref options @ ..] => peers::run(options),
        ["chaos", ref options @ ..] => chaos::run(options),
        [replica::CHORE, ref options @ ..] => replica::run(options),
        ["troubles", ref options @ ..] => troubles::run(options),
        ["room", ref options @ ..] => room::run(options),
        ["caches", ref options @ ..] => caches::run(options),
        ["outage", ref options @ ..] => outage::run(options),
        ["story", ref options @ ..] => slow_requests::run(options),
        ["conformance", ref options @ ..] => conformance::run(options),
        ["promtool", ref options @ ..] => promtool::run(options),
        ["mutants", ref options @ ..] => mutants::run(options),
        ["vectors", ref options @ ..] => vectors::run(options),
        ["kubernetes", ref options @ ..] => kubernetes::run(options),
        ["go", ref options @ ..] => go::run(options),
        ["openapi", ref options @ ..] => openapi::run(options),
        ["dashboard", ref options @ ..] => dashboard::run(options),
        ["site", ref options @ ..] => site::run(options),
        ["release", ref options @ ..] => release::run(options),
        ["training", ref options @ ..] => training::run(options),
        ["siege", ref options @ ..] => siege::run(options),
        ["results", ref options @ ..] => results::run(options),
        _ => Err(USAGE.to_owned()),
    };
    match outcome {
        Ok(()) => ExitCode::SUCCESS,
        Err(message) => {
            let _ = writeln!(std::io::stderr(), "{message}");
            ExitCode::FAILURE
        }
    }
}
