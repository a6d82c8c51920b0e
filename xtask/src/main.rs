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

use clap::{Parser, Subcommand};
use loopback::replica;
use std::io::Write;
use std::process::ExitCode;

/// Slackwater's own chores
#[derive(Debug, Parser)]
#[command(
    bin_name = "cargo xtask",
    subcommand_value_name = "CHORE",
    subcommand_help_heading = "Chores",
    max_term_width = 100
)]
struct Cli {
    #[command(subcommand)]
    chore: Chore,
}

#[derive(Debug, Subcommand)]
enum Chore {
    /// Everything that a change must pass: format, tidy, lints, tests, documentation
    Test,
    /// Checks of the tree that no other tool does (seconds)
    Tidy(tidy::Options),
    /// Serve and agents between real peers (nginx, curl, wrk, h2load), killed and restarted; Linux
    /// (two minutes)
    Peers(peers::Options),
    /// Load through serve over agents, while replicas are killed, stopped and slowed, and serve is
    /// reloaded and upgraded; no request may fail without cause (ten minutes)
    Chaos(chaos::Options),
    /// A replica: HTTP/1.1 with a service time, for the chores that start it
    #[command(name = replica::CHORE, hide = true)]
    Replica(replica::Options),
    /// Replicas that fail at once, hang, restart cold or stall, with and without the mechanisms
    /// against it; real processes; numbers without a verdict (fifteen minutes)
    Troubles(troubles::Options),
    /// Attacks on serve between real servers, compared with nginx and HAProxy; fails if a bar is
    /// missed (ten minutes)
    Siege(siege::Options),
    /// Slow requests under load, in three sources: the access log, the decisions, and the spans at
    /// a collector; fails if they disagree (half a minute)
    #[command(name = "story")]
    SlowRequests(slow_requests::Options),
    /// Replicas are killed under load; the log, /readyz, admin status, the metrics, the live stream
    /// and /decisions must report it within two seconds, and report its end (half a minute)
    Outage(outage::Options),
    /// Each policy before replicas that burn CPU under quotas, beside neighbours, or at twice the
    /// cost; as root, for cgroups (a quarter of an hour for each round)
    Room(room::Options),
    /// Replicas with a cache each, behind serve by key and behind Envoy, HAProxy and nginx
    /// with consistent hashing; peers that are not installed are skipped; numbers without a verdict
    /// (half an hour)
    Caches(caches::Options),
    /// h2spec, gRPC's interop tests, grpcurl, curl and Chromium through serve, in plain and over
    /// TLS (two minutes)
    Conformance(conformance::Options),
    /// Checks the metrics, the alerts and their tests with Prometheus's own tool (seconds, once
    /// built)
    Promtool(promtool::Options),
    /// Small changes of the core's code, each of which a test should notice, as cargo-mutants lists
    /// them; writes results/core-mutants.md (all: an hour or two)
    Mutants(mutants::Options),
    /// Test vectors of policies and tracker for other languages, into vectors/ (seconds)
    Vectors(vectors::Options),
    /// Format, lints and tests of the Go modules, with vectors and short fuzzing; skipped, with the
    /// reason, without Go (four minutes, the first time six)
    Go(go::Options),
    /// The Helm charts on a real control plane: pods come, go and fail under load, the API server
    /// is down, rights are taken away; as root, for network namespaces (six minutes; the first time
    /// builds Kubernetes with Go, half an hour)
    Kubernetes(kubernetes::Options),
    /// Checks docs/reference/openapi.json with openapi-spec-validator (a second)
    Openapi,
    /// The dashboard of demo and of serve in Chromium: controls, keyboard, contrast, pictures, at
    /// 20 and at 1,000 replicas (four minutes)
    Dashboard(dashboard::Options),
    /// The documentation as a site that works offline; fails if a page is not listed, a link leads
    /// nowhere or a page loads something from elsewhere (two minutes to build it the first time,
    /// then seconds)
    Site(site::Options),
    /// What people install, into target/dist: static programs, archives, Debian packages, container
    /// images, lists of what is in them, checksums (an hour and a half)
    Release(release::Options),
    /// The load under which the programs of a release count what they execute: serve, agent and
    /// load in several lanes; no request may fail (two minutes)
    Training(training::Options),
    /// The simulator's figures for publication, into results/sim; needs a committed tree (an hour)
    Results(results::Options),
}

fn main() -> ExitCode {
    let outcome = match Cli::parse().chore {
        Chore::Test => run::test(),
        Chore::Tidy(options) => tidy::run(&options),
        Chore::Peers(options) => peers::run(&options),
        Chore::Chaos(options) => chaos::run(&options),
        Chore::Replica(options) => replica::run(&options),
        Chore::Troubles(options) => troubles::run(&options),
        Chore::Siege(options) => siege::run(&options),
        Chore::SlowRequests(options) => slow_requests::run(&options),
        Chore::Outage(options) => outage::run(&options),
        Chore::Room(options) => room::run(&options),
        Chore::Caches(options) => caches::run(&options),
        Chore::Conformance(options) => conformance::run(&options),
        Chore::Promtool(options) => promtool::run(&options),
        Chore::Mutants(options) => mutants::run(&options),
        Chore::Vectors(options) => vectors::run(&options),
        Chore::Go(options) => go::run(options),
        Chore::Kubernetes(options) => kubernetes::run(&options),
        Chore::Openapi => openapi::run(),
        Chore::Dashboard(options) => dashboard::run(&options),
        Chore::Site(options) => site::run(&options),
        Chore::Release(options) => release::run(&options),
        Chore::Training(options) => training::run(&options),
        Chore::Results(options) => results::run(&options),
    };
    match outcome {
        Ok(()) => ExitCode::SUCCESS,
        Err(message) => {
            let _ = writeln!(std::io::stderr(), "{message}");
            ExitCode::FAILURE
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::CommandFactory;

    #[test]
    fn the_command_line_is_consistent() {
        Cli::command().debug_assert();
    }
}
