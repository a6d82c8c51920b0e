//! The arguments of `slackwater demo`, and their conversion into [`Settings`]: everything is
//! checked before anything starts.

use crate::json_output::JsonOutput;
use crate::record::RecordArgs;
use crate::seed::parse_seed;
use core::net::{Ipv4Addr, SocketAddr};
use core::time::Duration;
use slackwater_config::Fault;
use slackwater_core::policy::{POLICIES, PolicyEntry, policy_named};
use std::path::PathBuf;

const EXAMPLES: &str = "\
Examples:
  slackwater demo                                          prequal against round_robin, until Ctrl-C
  slackwater demo --seconds 30 --json demo.json            half a minute, figures to a file
  slackwater demo --versus least_loaded                    against one that counts its own requests
  slackwater demo --policy random --versus round_robin     two that measure nothing
  slackwater demo --policy shortest_expected_delay         serve's default policy
  slackwater demo --replicas 24 --rate 800 --seed 7        a larger fleet, other weather
  slackwater demo --seconds 60 --record demo.rec           for slackwater sim replay

Both sides get the same requests at the same times, over real HTTP through the proxy of `serve`.
The replicas are emulated: a request takes time there, not processor. docs/reference/demo.md
describes what that shows and what it does not.
Ctrl-C stops sending, waits for running requests and sums up; a second one does not wait.
Exit codes: 0 it ran, whichever side won; 1 it could not run; 2 bad arguments.";

/// Arguments of `slackwater demo`.
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Args {
    // The names come from the registry, so the help is always up to date.
    #[arg(long, value_name = "NAME", default_value = "prequal", help = format!("Policy of the first side: {}", names()))]
    policy: String,
    /// Policy of the second side; the same names
    #[arg(long, value_name = "NAME", default_value = "round_robin")]
    versus: String,
    /// Replicas on each side, 2 to 1000
    #[arg(
        long,
        value_name = "N",
        default_value_t = 10,
        allow_negative_numbers = true
    )]
    replicas: usize,
    /// Requests per second to each side, 1 to 2000: what two cores carry for both [default: 40 for
    /// each replica, at most 2000]
    #[arg(long, value_name = "R", allow_negative_numbers = true)]
    rate: Option<f64>,
    /// End after this many seconds, above 0 and at most 86400 [default: run until Ctrl-C, or for a
    /// day]
    #[arg(long, value_name = "S", allow_negative_numbers = true)]
    seconds: Option<f64>,
    /// Seed of arrivals, costs of requests, neighbours and slow episodes: the same seed gives the
    /// same load and troubles
    #[arg(long, value_name = "N", default_value_t = 1, allow_negative_numbers = true, value_parser = parse_seed)]
    seed: u64,
    /// Write the figures to this file as JSON at the end; - is standard output, instead of all else
    /// there
    #[arg(long, value_name = "FILE")]
    json: Option<PathBuf>,
    /// Where the page is served [default: 127.0.0.1:9900, or the next of 20 ports that is free]
    #[arg(long, value_name = "ADDR:PORT")]
    admin: Option<SocketAddr>,
    /// Print a line every two seconds instead of the live table, as when standard output is no
    /// terminal
    #[arg(long)]
    no_table: bool,
    #[command(flatten)]
    record: RecordArgs,
}

/// Fleet sizes that are accepted.
const REPLICAS: core::ops::RangeInclusive<usize> = 2..=1_000;

/// The rate at which the emulated fleet is calibrated, for each replica.
const RATE_PER_REPLICA: f64 = 40.0;

/// Lowest rate that is accepted, in requests per second to each side.
pub(super) const RATE_MIN: f64 = 1.0;
/// Highest rate that is accepted: what two cores carry for both sides.
pub(super) const RATE_MAX: f64 = 2_000.0;

const SECONDS_MAX: f64 = 86_400.0;

/// Address of the page, if no other is given. If its port is taken, the next ones are tried.
const ADMIN_DEFAULT: SocketAddr =
    SocketAddr::new(core::net::IpAddr::V4(Ipv4Addr::LOCALHOST), 9_900);

/// Ports tried from the default on.
const ADMIN_PORTS: u16 = 20;

/// The checked settings of a demo.
#[derive(Debug)]
pub(super) struct Settings {
    /// The policy of each side.
    pub(super) policies: [&'static PolicyEntry; 2],
    /// Replicas on each side.
    pub(super) replicas: usize,
    /// Requests per second to each side.
    pub(super) rate_per_second: f64,
    /// The demo's length; `None` runs until stopped, but at most for [`Settings::LENGTH_MAX`].
    pub(super) length: Option<Duration>,
    /// Seed of all random draws.
    pub(super) seed: u64,
    /// The file for the figures at the end.
    pub(super) json: Option<JsonOutput>,
    /// Addresses for the page, to be tried in order.
    pub(super) admin: Vec<SocketAddr>,
    /// Whether to show the live table, if the terminal can show it.
    pub(super) is_table_wanted: bool,
    /// The recordings of both sides.
    pub(super) record: RecordArgs,
}

impl Settings {
    /// Longest run of a demo without `--seconds`.
    pub(super) const LENGTH_MAX: Duration = Duration::from_hours(24);
}

impl Args {
    /// Checks the arguments; opens the JSON file.
    pub(super) fn settings(self) -> Result<Settings, Fault> {
        let policies = [
            policy("--policy", &self.policy)?,
            policy("--versus", &self.versus)?,
        ];
        if !REPLICAS.contains(&self.replicas) {
            return Err(Fault::usage(format!(
                "--replicas {}: must be from {} to {}",
                self.replicas,
                REPLICAS.start(),
                REPLICAS.end()
            )));
        }
        let rate_per_second = self.rate.unwrap_or_else(|| {
            let in_proportion = RATE_PER_REPLICA * self.replicas as f64;
            in_proportion.min(RATE_MAX)
        });
        if !(RATE_MIN..=RATE_MAX).contains(&rate_per_second) {
            return Err(Fault::usage(format!(
                "--rate {rate_per_second}: must be from {RATE_MIN} to {RATE_MAX} requests per second, what two cores carry for both sides"
            )));
        }
        let length = self.seconds.map(length).transpose()?;
        let admin = self
            .admin
            .map_or_else(default_admin, |address| vec![address]);
        Ok(Settings {
            policies,
            replicas: self.replicas,
            rate_per_second,
            length,
            seed: self.seed,
            json: self.json.map(JsonOutput::open).transpose()?,
            admin,
            is_table_wanted: !self.no_table,
            record: self.record,
        })
    }
}

/// The names of all policies.
fn names() -> String {
    let names: Vec<_> = POLICIES.iter().map(|entry| entry.name).collect();
    names.join(", ")
}

fn policy(option: &str, name: &str) -> Result<&'static PolicyEntry, Fault> {
    policy_named(name)
        .ok_or_else(|| Fault::usage(format!("{option} {name:?}: must be one of {}", names())))
}

fn length(seconds: f64) -> Result<Duration, Fault> {
    Duration::try_from_secs_f64(seconds)
        .ok()
        .filter(|length| !length.is_zero() && seconds <= SECONDS_MAX)
        .ok_or_else(|| {
            Fault::usage(format!(
                "--seconds {seconds}: must be above 0 and at most {SECONDS_MAX}"
            ))
        })
}

fn default_admin() -> Vec<SocketAddr> {
    let port = ADMIN_DEFAULT.port();
    let ports = port..port + ADMIN_PORTS;
    ports
        .map(|port| SocketAddr::new(ADMIN_DEFAULT.ip(), port))
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::Parser;

    #[derive(Debug, Parser)]
    struct Cli {
        #[command(flatten)]
        args: Args,
    }

    fn settings(line: &str) -> Result<Settings, String> {
        let words = core::iter::once("demo").chain(line.split_whitespace());
        let cli = Cli::try_parse_from(words).map_err(|error| error.to_string())?;
        cli.args.settings().map_err(|fault| fault.to_string())
    }

    fn policies(settings: &Settings) -> [&'static str; 2] {
        settings.policies.map(|policy| policy.name)
    }

    #[test]
    fn defaults_are_prequal_against_round_robin_until_stopped() {
        let settings = settings("").unwrap();
        assert_eq!(policies(&settings), ["prequal", "round_robin"]);
        assert_eq!((settings.replicas, settings.seed), (10, 1));
        assert!((settings.rate_per_second - 400.0).abs() < 1e-9);
        assert!(settings.length.is_none() && settings.json.is_none());
        assert!(settings.is_table_wanted);
        let first = settings.admin.first().map(ToString::to_string);
        assert_eq!(first.as_deref(), Some("127.0.0.1:9900"));
        assert_eq!(settings.admin.len(), 20);
    }

    #[test]
    fn arguments_become_settings() {
        let settings = settings(
            "--policy least_loaded --versus random --replicas 3 --rate 12.5 --seconds 0.5 --seed 9 --admin [::1]:81 --no-table",
        )
        .unwrap();
        assert_eq!(policies(&settings), ["least_loaded", "random"]);
        assert_eq!((settings.replicas, settings.seed), (3, 9));
        assert!((settings.rate_per_second - 12.5).abs() < 1e-9);
        assert_eq!(settings.length, Some(Duration::from_millis(500)));
        assert_eq!(settings.admin, ["[::1]:81".parse().unwrap()]);
        assert!(!settings.is_table_wanted);
    }

    #[test]
    fn the_default_rate_grows_with_the_fleet_up_to_the_bound() {
        let rate = |line| settings(line).unwrap().rate_per_second;
        assert!((rate("--replicas 2") - 80.0).abs() < 1e-9);
        assert!((rate("--replicas 50") - RATE_MAX).abs() < 1e-9);
        assert!((rate("--replicas 1000") - RATE_MAX).abs() < 1e-9);
    }

    #[test]
    fn invalid_values_are_reported_with_the_allowed_ones() {
        let names = "must be one of prequal, prequal_sync, linear,";
        for (line, complaint) in [
            ("--policy nginx", format!("--policy \"nginx\": {names}")),
            ("--versus Random", format!("--versus \"Random\": {names}")),
            (
                "--replicas 1",
                "--replicas 1: must be from 2 to 1000".into(),
            ),
            (
                "--replicas 1001",
                "--replicas 1001: must be from 2 to 1000".into(),
            ),
            ("--rate 0", "--rate 0: must be from 1 to 2000".into()),
            ("--rate NaN", "--rate NaN: must be from 1 to 2000".into()),
            ("--rate 2001", "--rate 2001: must be from 1 to 2000".into()),
            ("--seconds 0", "--seconds 0: must be above 0".into()),
            ("--seconds -1", "--seconds -1: must be above 0".into()),
            ("--seconds inf", "--seconds inf: must be above 0".into()),
            ("--seconds 1e9", "at most 86400".into()),
            ("--admin somewhere", "--admin".into()),
            (
                "--json /nowhere/at/all.json",
                "--json /nowhere/at/all.json: cannot be written".into(),
            ),
        ] {
            let error = settings(line).unwrap_err();
            assert!(error.contains(&complaint), "{line}: {error}");
        }
    }
}
