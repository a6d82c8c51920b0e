//! The sub-command `slackwater admin`: an operator inspects and changes a running `serve` from a
//! shell.
//!
//! Each command is one request to the admin server, and `docs/reference/admin.md` says what it
//! does. This module reads the arguments and prints the answer.

mod setting;
mod token;
mod words;

use crate::admin_client::{self, Address, Failure, Wanted, address, block_on, encode};
use crate::output::print;
use bytes::Bytes;
use core::time::Duration;
use http::{HeaderValue, Response, StatusCode};
use serde::de::DeserializeOwned;
use serde_json::{Map, Value, json};
use setting::Setting;
use slackwater_admin::{Overrides, Reloaded, ReplicaOverridden, SettingsChanged};
use slackwater_config::Fault;
use slackwater_config::toml_reader::values::parse_duration;
use std::path::PathBuf;
use std::time::Instant;
use token::{Token, VARIABLE};
use words::{Status, clean_lines, counted};

/// Polling interval while waiting for a replica's requests to end.
const LOOK_INTERVAL: Duration = Duration::from_millis(200);

const JSON: &str = "application/json";
const TEXT: &str = "text/plain";

const EXAMPLES: &str = "\
Examples:
  slackwater admin status                              the serve on this machine, at 127.0.0.1:9900
  slackwater admin decisions --slower-than 100ms       why the replicas of slow requests were picked
  export SLACKWATER_ADMIN_TOKEN=$(cat /etc/slackwater/token)
  slackwater admin drain 10.0.0.1:8080 --wait 30s      before that replica is stopped
  slackwater admin undrain 10.0.0.1:8080
  slackwater admin weight 10.0.0.1:8080 3              instead of its fleet's weight
  slackwater admin policy least_loaded --dry-run
  slackwater admin set prequal.probe_rate=2 hedge.enabled=true
  slackwater admin overrides --json
  slackwater admin clear
  slackwater admin reload --admin lb-3.example.com --token-file /etc/slackwater/token

Changes need the token from the file that admin.token_file of that serve names. Pass it by
--token-file, or in the environment as SLACKWATER_ADMIN_TOKEN. Changes outlive reloads and upgrades,
and end with a restart; permanent ones belong in the configuration.
Exit codes: 0 done; 1 no answer from the server, or not possible; 2 mistaken arguments or token.";

/// Arguments of `slackwater admin`.
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Args {
    /// Where the status is served: admin.listen of a serve
    #[arg(long, global = true, value_name = "ADDRESS", default_value = "127.0.0.1:9900", value_parser = address::parse)]
    admin: Address,
    /// A file with the token, in place of the one in the environment
    #[arg(long, global = true, value_name = "FILE")]
    token_file: Option<PathBuf>,
    /// Write the answer in JSON, as the server sends it
    #[arg(long, global = true)]
    json: bool,
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, clap::Subcommand)]
enum Command {
    /// Show the state of the process, its services and their replicas
    Status,
    /// Show why replicas were picked, for requests whose decisions are kept
    Decisions(Filter),
    /// Show what is changed at run time, and since when
    Overrides,
    /// Write the configuration in force, as a file; needs the token
    Config,
    /// Send a replica no new requests; running ones end
    Drain {
        #[command(flatten)]
        replica: ReplicaName,
        /// Wait until this process has no more requests there, at most this long
        #[arg(long, value_name = "DURATION", value_parser = duration)]
        wait: Option<Duration>,
    },
    /// Send requests to a drained replica again
    Undrain(ReplicaName),
    /// Give a replica another weight
    Weight {
        #[command(flatten)]
        replica: ReplicaName,
        /// From 0 (none of the requests) to 65535, or "fleet" for its fleet's weight
        #[arg(value_name = "WEIGHT", value_parser = weight)]
        weight: Weight,
    },
    /// Give a service another policy
    Policy {
        /// Its name; slackwater serve --help lists them
        policy: String,
        #[command(flatten)]
        how: How,
    },
    /// Set keys of a service, with priority over the file and the flags
    Set {
        /// A key as in the configuration, and its value
        #[arg(required = true, value_name = "KEY=VALUE", value_parser = Setting::parse)]
        settings: Vec<Setting>,
        #[command(flatten)]
        how: How,
    },
    /// Remove keys that were set, so that the file and the flags apply again
    Unset {
        /// A key as in the configuration
        #[arg(required = true, value_name = "KEY")]
        keys: Vec<String>,
        #[command(flatten)]
        how: How,
    },
    /// Read the configuration again, as SIGHUP does
    Reload {
        /// Change nothing, and show what would change
        #[arg(long)]
        dry_run: bool,
    },
    /// Remove what was changed at run time
    Clear {
        /// Only of this service
        #[arg(long, value_name = "NAME")]
        service: Option<String>,
    },
}

#[derive(Debug, clap::Args)]
struct ReplicaName {
    /// The replica's name, or its address
    replica: String,
    /// The replica's service; may be left out if there is only one
    #[arg(long, value_name = "NAME")]
    service: Option<String>,
}

#[derive(Debug, clap::Args)]
struct How {
    /// The service; may be left out if there is only one
    #[arg(long, value_name = "NAME")]
    service: Option<String>,
    /// Change nothing, and show what would change
    #[arg(long)]
    dry_run: bool,
}

/// Filters of the decisions. The server describes each of them.
#[derive(Debug, clap::Args)]
struct Filter {
    /// The request with this id, as in the access log
    #[arg(long)]
    id: Option<String>,
    /// Requests for this service
    #[arg(long, value_name = "NAME")]
    service: Option<String>,
    /// Requests with an attempt at this replica
    #[arg(long, value_name = "NAME")]
    replica: Option<String>,
    /// Requests with an attempt whose replica was picked for this reason, such as hot
    #[arg(long)]
    reason: Option<String>,
    /// Requests with an attempt of this kind: first, retry, hedge, tie or trial
    #[arg(long, value_name = "KIND")]
    attempt: Option<String>,
    /// Requests that failed (true) or that did not fail (false)
    #[arg(long, value_name = "BOOL", num_args = 0..=1, default_missing_value = "true")]
    failed: Option<bool>,
    /// Requests that took this long or longer, such as 50ms
    #[arg(long, value_name = "DURATION")]
    slower_than: Option<String>,
    /// At most this many, the newest
    #[arg(long, value_name = "COUNT")]
    limit: Option<u32>,
}

/// A weight in place of the fleet's; `None` restores the fleet's.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Weight(Option<u16>);

fn weight(text: &str) -> Result<Weight, String> {
    if text == "fleet" {
        return Ok(Weight(None));
    }
    let weight = text.parse().map(|weight| Weight(Some(weight)));
    weight.map_err(|_| "expected a whole number from 0 to 65535, or fleet".to_owned())
}

fn duration(text: &str) -> Result<Duration, String> {
    let span = parse_duration(text).and_then(Result::ok);
    span.ok_or_else(|| "expected a duration such as 30s or 1.5m".to_owned())
}

/// Returns whether an answer to `/decisions` has no decision.
fn has_no_decision(answer: &str, is_json: bool) -> bool {
    if is_json {
        let answer: Value = serde_json::from_str(answer).unwrap_or_default();
        answer["matching"] == 0
    } else {
        answer.starts_with("no ")
    }
}

/// Runs `slackwater admin`.
pub(crate) fn run(args: Args) -> Result<(), Fault> {
    let token = Token::find(args.token_file.as_deref())?;
    let server = Server {
        address: args.admin,
        token,
    };
    let text = block_on(server.carry_out(args.command, args.json))?;
    print(&text)
}

/// The admin server, and the credentials for it.
#[derive(Debug)]
struct Server {
    address: Address,
    token: Option<Token>,
}

impl Server {
    /// Runs a command and returns its output.
    async fn carry_out(&self, command: Command, is_json: bool) -> Result<String, Fault> {
        match command {
            Command::Status => {
                let authority = self.address.authority();
                let answer = self.exchange(Wanted::read("/status", JSON)).await?;
                let now = words::sent_at(&answer);
                let render = |status: &Status| words::status(status, &authority, now);
                self.render(answer.body(), is_json, render)
            }
            Command::Decisions(filter) => {
                let (form, accept) = if is_json {
                    ("json", JSON)
                } else {
                    ("text", TEXT)
                };
                let answer = self.read(&filter.path(form), accept).await?;
                let answer = clean_lines(&text(&answer));
                if let Some(replica) = &filter.replica
                    && has_no_decision(&answer, is_json)
                {
                    // A replica that has left the fleet may have decisions, so the fleet is read
                    // only now.
                    let status: Status = self.understand(&self.read("/status", JSON).await?)?;
                    if let Some(why) = status.lacks(replica) {
                        return Err(Fault::usage(format!("--replica: {why}")));
                    }
                }
                Ok(answer)
            }
            Command::Overrides => {
                let render = |told: &Overrides| {
                    words::overrides(told)
                        .unwrap_or_else(|| "nothing is changed at run time\n".to_owned())
                };
                let answer = self.read("/overrides", JSON).await?;
                self.render(&answer, is_json, render)
            }
            Command::Config if is_json => Err(Fault::usage(
                "--json: the configuration is a file in TOML; leave --json out",
            )),
            Command::Config => {
                let wanted = Wanted::read("/config", "application/toml");
                let answer = self.ask(wanted.by(self.authorization())).await?;
                Ok(clean_lines(&text(&answer)))
            }
            Command::Drain { replica, wait } => {
                let change = replica.change("drained", true.into());
                let answer = self.change("/replica", &change).await?;
                let told: ReplicaOverridden = self.understand(&answer)?;
                if let Some(patience) = wait {
                    self.wait(&told, patience).await?;
                }
                self.render(&answer, is_json, words::replica)
            }
            Command::Undrain(replica) => {
                let change = replica.change("drained", false.into());
                self.changed("/replica", &change, is_json, words::replica)
                    .await
            }
            Command::Weight { replica, weight } => {
                let change = replica.change("weight", weight.0.into());
                self.changed("/replica", &change, is_json, words::replica)
                    .await
            }
            Command::Policy { policy, how } => {
                let set = Map::from_iter([("policy".to_owned(), policy.into())]);
                self.set(set, how, is_json).await
            }
            Command::Set { settings, how } => self.set(Setting::all(settings), how, is_json).await,
            Command::Unset { keys, how } => {
                let keys = keys.into_iter().map(|key| (key, Value::Null));
                self.set(keys.collect(), how, is_json).await
            }
            Command::Reload { dry_run } => {
                let change = json!({ "dry_run": dry_run });
                let render = |told: &Reloaded| words::reloaded(told);
                self.changed("/reload", &change, is_json, render).await
            }
            Command::Clear { service } => {
                let change = json!({ "service": service });
                let render = |told: &Overrides| match words::overrides(told) {
                    Some(tables) => format!("taken back:\n{tables}"),
                    None => "there was nothing to take back\n".to_owned(),
                };
                self.changed("/overrides/clear", &change, is_json, render)
                    .await
            }
        }
    }

    async fn set(&self, set: Map<String, Value>, how: How, is_json: bool) -> Result<String, Fault> {
        let change = json!({ "service": how.service, "set": set, "dry_run": how.dry_run });
        let render = |told: &SettingsChanged| words::settings(told);
        self.changed("/settings", &change, is_json, render).await
    }

    /// Waits until this process has no more requests at a replica.
    async fn wait(&self, drained: &ReplicaOverridden, patience: Duration) -> Result<(), Fault> {
        let begun = Instant::now();
        let mut is_idle = false;
        loop {
            tokio::time::sleep(LOOK_INTERVAL).await;
            let status: Status = self.understand(&self.read("/status", JSON).await?)?;
            let replica = status.replicas.iter().find(|it| it.is(drained));
            let in_flight = replica.map(words::Replica::in_flight).ok_or_else(|| {
                Fault::runtime(format!(
                    "{}: drained, but it has left the fleet, so how many requests it still has is unknown",
                    words::named(drained),
                ))
            })?;
            let was_idle = core::mem::replace(&mut is_idle, in_flight == 0);
            // Two polls in a row: at the first one a worker may not have applied the drain yet.
            if is_idle && was_idle {
                return Ok(());
            }
            if in_flight > 0 && begun.elapsed() >= patience {
                return Err(Fault::runtime(format!(
                    "{}: drained, but after {patience:?} it still has {}; wait longer, or stop it all the same",
                    words::named(drained),
                    counted(in_flight, "request"),
                )));
            }
        }
    }

    /// Changes something and formats the answer as text.
    async fn changed<T: DeserializeOwned>(
        &self,
        path: &str,
        change: &Value,
        is_json: bool,
        render: impl FnOnce(&T) -> String,
    ) -> Result<String, Fault> {
        let answer = self.change(path, change).await?;
        self.render(&answer, is_json, render)
    }

    fn render<T: DeserializeOwned>(
        &self,
        answer: &[u8],
        is_json: bool,
        render: impl FnOnce(&T) -> String,
    ) -> Result<String, Fault> {
        let told = self.understand(answer)?;
        if is_json {
            return Ok(clean_lines(&text(answer)));
        }
        Ok(render(&told))
    }

    fn understand<T: DeserializeOwned>(&self, answer: &[u8]) -> Result<T, Fault> {
        let read = serde_json::from_slice(answer);
        read.map_err(|error| {
            let why = format!("its answer cannot be read, so it may be another version: {error}");
            Failure::Strange(why).at(&self.address)
        })
    }

    async fn read(&self, path: &str, accept: &'static str) -> Result<Bytes, Fault> {
        self.ask(Wanted::read(path, accept)).await
    }

    async fn change(&self, path: &str, change: &Value) -> Result<Bytes, Fault> {
        let wanted = Wanted::change(path, change.to_string().into());
        self.ask(wanted.by(self.authorization())).await
    }

    /// The header with the token. It is sent in plain text, so only requests that need it carry it.
    fn authorization(&self) -> Option<&HeaderValue> {
        self.token.as_ref().map(Token::authorization)
    }

    async fn ask(&self, wanted: Wanted<'_>) -> Result<Bytes, Fault> {
        Ok(self.exchange(wanted).await?.into_body())
    }

    async fn exchange(&self, wanted: Wanted<'_>) -> Result<Response<Bytes>, Fault> {
        let is_change = wanted.is_change();
        let answer = admin_client::answer(&self.address, wanted).await;
        answer.map_err(|failure| self.fault(&failure, is_change))
    }

    /// Returns the error, with the remedy.
    fn fault(&self, failure: &Failure, is_change: bool) -> Fault {
        let place = format!("the admin server at {}", self.address.authority());
        match failure {
            Failure::Refused(StatusCode::UNAUTHORIZED, _) => Fault::usage(match self.token {
                Some(_) => format!(
                    "{place} does not know this token, expected the one in the file that its admin.token_file names"
                ),
                None => format!(
                    "{place} wants a token: name its file with --token-file, or have it in the environment as {VARIABLE}"
                ),
            }),
            // The router's answer for an unknown path.
            Failure::Refused(StatusCode::NOT_FOUND, why) if why.starts_with("there is no /") => {
                Fault::usage(format!(
                    "{place} has nothing of that: it is an agent, a demo or an older slackwater; serve has it"
                ))
            }
            Failure::Refused(status, why) if status.is_client_error() => {
                Fault::usage(format!("{place}: {}", clean_lines(why).trim_end()))
            }
            Failure::Late if is_change => Fault::runtime(format!(
                "{place}: no answer in time; it may be done all the same, which slackwater admin overrides shows"
            )),
            failure => failure.at(&self.address),
        }
    }
}

impl ReplicaName {
    fn change(&self, what: &str, value: Value) -> Value {
        let mut change = json!({ "service": self.service, "replica": self.replica });
        change[what] = value;
        change
    }
}

impl Filter {
    fn path(&self, form: &str) -> String {
        let Self {
            id,
            service,
            replica,
            reason,
            attempt,
            failed,
            slower_than,
            limit,
        } = self;
        let mut path = format!("/decisions?format={form}");
        for (name, value) in [
            ("id", id.clone()),
            ("service", service.clone()),
            ("replica", replica.clone()),
            ("reason", reason.clone()),
            ("attempt", attempt.clone()),
            ("failed", failed.map(|failed| failed.to_string())),
            ("slower_than", slower_than.clone()),
            ("limit", limit.map(|limit| limit.to_string())),
        ] {
            if let Some(value) = value {
                path += "&";
                path += name;
                path += "=";
                path.extend(encode(&value));
            }
        }
        path
    }
}

fn text(answer: &[u8]) -> String {
    String::from_utf8_lossy(answer).into_owned()
}

#[cfg(test)]
mod tests {
    use super::*;
    use tokio::io::AsyncReadExt;
    use tokio::net::TcpListener;

    fn fault(failure: &Failure, is_change: bool) -> Fault {
        let server = Server {
            address: address::parse("lb:1").expect("an address"),
            token: None,
        };
        server.fault(failure, is_change)
    }

    #[test]
    fn usage_errors_are_distinguished_from_runtime_errors() {
        let refused = |status: u16, why: &str| {
            let status = StatusCode::from_u16(status).expect("a status");
            fault(&Failure::Refused(status, why.to_owned()), true)
        };
        for (status, why, told) in [
            (401, "x", "the admin server at lb:1 wants a token"),
            (404, "there is no /replica here", "it is an agent, a demo"),
            (
                404,
                "there is no service \"a\"\n",
                "lb:1: there is no service \"a\"",
            ),
            (422, "a: 1\nb: 2\n", "lb:1: a: 1\nb: 2"),
        ] {
            let Fault::Usage(text) = refused(status, why) else {
                panic!("{status} {why}");
            };
            assert!(text.contains(told), "{text}");
            assert!(!text.ends_with('\n'));
        }
        let Fault::Runtime(text) = refused(503, "stopping\n") else {
            panic!("it could not be done");
        };
        assert!(text.ends_with("it answered 503 Service Unavailable: stopping"));
        for (is_change, is_told) in [(true, true), (false, false)] {
            let text = fault(&Failure::Late, is_change).to_string();
            assert_eq!(text.contains("may be done all the same"), is_told, "{text}");
        }
    }

    /// Runs a command and returns the head of the request that it sends.
    async fn said(command: Command) -> String {
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
        let address = listener.local_addr().expect("bound").to_string();
        let server = Server {
            address: address::parse(&address).expect("an address"),
            token: Some(Token::of("0123456789abcdef")),
        };
        let asked = tokio::spawn(async move { server.carry_out(command, false).await });
        let (mut stream, _) = listener.accept().await.expect("a client connects");
        let mut head = Vec::new();
        while !head.ends_with(b"\r\n\r\n") {
            head.push(stream.read_u8().await.expect("a whole head"));
        }
        drop(stream);
        let outcome = asked.await.expect("no panic");
        assert!(outcome.is_err(), "no answer was sent");
        String::from_utf8(head).expect("text")
    }

    #[tokio::test]
    async fn token_is_sent_only_if_needed() {
        let clear = || Command::Clear { service: None };
        for (command, is_said) in [
            (Command::Status, false),
            (Command::Overrides, false),
            (Command::Config, true),
            (clear(), true),
        ] {
            let head = said(command).await;
            let token = "authorization: Bearer 0123456789abcdef\r\n";
            assert_eq!(head.contains(token), is_said, "{head}");
        }
        let head = said(clear()).await;
        assert!(
            head.starts_with("POST /overrides/clear HTTP/1.1\r\n"),
            "{head}"
        );
        assert!(
            head.contains("content-type: application/json\r\n"),
            "{head}"
        );
    }

    #[test]
    fn weight_is_a_number_or_that_of_the_fleet() {
        assert_eq!(weight("fleet"), Ok(Weight(None)));
        assert_eq!(weight("65535"), Ok(Weight(Some(65_535))));
        for odd in ["65536", "-1", "1.5", ""] {
            assert!(weight(odd).is_err(), "{odd}");
        }
    }
}
