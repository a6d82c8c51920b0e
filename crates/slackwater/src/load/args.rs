//! The arguments of `slackwater load`, and their conversion into a [`Plan`]: everything is checked
//! before anything is sent.

use super::{Arrivals, Plan, Protocol, parse};
use crate::seed::parse_seed;
use bytes::Bytes;
use core::num::NonZeroUsize;
use core::time::Duration;
use http::Method;
use slackwater_config::Fault;
use slackwater_config::tls::ClientTls;
use std::path::PathBuf;
use std::sync::Arc;
use tokio_rustls::rustls::ClientConfig;

const EXAMPLES: &str = "\
Examples:
  slackwater load http://127.0.0.1:8080/ --rate 500 --seconds 10
  slackwater load http://127.0.0.1:8080/ --rate 2000 --seconds 60 --warmup 5 --json run.json
  slackwater load http://127.0.0.1:8080/ --rate 100 --arrivals constant --http 2 --connections 2
  slackwater load https://localhost:8443/ --rate 100 --http 2 --ca ca.pem
  slackwater load http://127.0.0.1:8080/items --rate 50 --method POST --body-file item.json

Latency counts from the moment a request was meant to start to the last byte of its answer.
Ctrl-C stops sending and waits for running requests; a second one exits at once. Both print the
figures so far.
Exit codes: 0 the run finished, whatever its errors; 1 it could not run, or had more than
--max-errors; 2 bad arguments.";

/// Arguments of `slackwater load`.
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Args {
    /// Target, as `http://HOST[:PORT]/PATH` or `https://…`
    url: String,
    /// Mean requests per second, above 0 and at most 1000000
    #[arg(long, value_name = "R", allow_negative_numbers = true)]
    rate: f64,
    /// Seconds to measure, above 0 and at most 604800
    #[arg(
        long,
        value_name = "S",
        default_value_t = 10.0,
        allow_negative_numbers = true
    )]
    seconds: f64,
    /// Seconds of load before that, not measured
    #[arg(
        long,
        value_name = "S",
        default_value_t = 0.0,
        allow_negative_numbers = true
    )]
    warmup: f64,
    /// Distribution of requests over time
    #[arg(long, value_enum, default_value_t = Arrivals::Poisson)]
    arrivals: Arrivals,
    /// HTTP version: 1 is HTTP/1.1; 2 is HTTP/2, by ALPN over https, with prior knowledge (h2c)
    /// over http
    #[arg(long, value_name = "VERSION", value_enum, default_value_t = HttpVersion::One)]
    http: HttpVersion,
    /// For https: trust the authorities in this PEM file [default: those of the system]
    #[arg(long, value_name = "FILE")]
    ca: Option<PathBuf>,
    /// For https: accept any certificate
    #[arg(long, conflicts_with = "ca")]
    insecure: bool,
    /// Most connections open at once, 1 to 65536 [default: 1000 with --http 1, 8 with --http 2]
    #[arg(long, value_name = "N", allow_negative_numbers = true)]
    connections: Option<usize>,
    /// Most requests at once on one connection with --http 2, 1 to 65536
    #[arg(
        long,
        value_name = "N",
        default_value_t = 100,
        allow_negative_numbers = true
    )]
    streams: usize,
    /// Most requests that wait for a connection; further ones fail with `overload`
    #[arg(long, value_name = "N", default_value_t = Plan::QUEUE_CAPACITY.get(), allow_negative_numbers = true)]
    queue: usize,
    /// Timeout from a request's intended start to the end of its response, at most 1h
    #[arg(
        long,
        value_name = "TIME",
        default_value = "5s",
        allow_hyphen_values = true
    )]
    timeout: String,
    /// The request's method [default: GET, or POST with a body]
    #[arg(long, value_name = "METHOD")]
    method: Option<String>,
    /// A header of the request; may be given several times
    #[arg(long = "header", value_name = "NAME: VALUE")]
    headers: Vec<String>,
    /// Send a body of N bytes, at most 1073741824
    #[arg(
        long,
        value_name = "N",
        conflicts_with = "body_file",
        allow_negative_numbers = true
    )]
    body_bytes: Option<usize>,
    /// Send this file as the body
    #[arg(long, value_name = "FILE")]
    body_file: Option<PathBuf>,
    /// Seed of Poisson arrivals
    #[arg(long, value_name = "N", default_value_t = 1, allow_negative_numbers = true, value_parser = parse_seed)]
    seed: u64,
    /// Threads, 1 to 64; one is best up to about 30,000 requests/s
    #[arg(
        long,
        value_name = "N",
        default_value_t = 1,
        allow_negative_numbers = true
    )]
    pub(super) threads: usize,
    /// Write the figures as JSON; - is standard output, in place of the table
    #[arg(long, value_name = "FILE")]
    pub(super) json: Option<PathBuf>,
    /// End with exit code 1 when more than N requests failed
    #[arg(long, value_name = "N", allow_negative_numbers = true)]
    pub(super) max_errors: Option<u64>,
    /// Show no progress and no table
    #[arg(long, short)]
    pub(super) quiet: bool,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
enum HttpVersion {
    #[value(name = "1")]
    One,
    #[value(name = "2")]
    Two,
}

const RATE_MAX: f64 = 1e6;
const COUNT_MAX: usize = 65_536;
const QUEUE_MAX: usize = 16_777_216;
const BODY_BYTES_MAX: usize = 1 << 30;
const CONNECTIONS_HTTP2: NonZeroUsize = NonZeroUsize::MIN.saturating_add(7);

impl Args {
    /// Checks the arguments and makes a plan from them. Reads the file of the body.
    pub(super) fn plan(&self) -> Result<Plan, Fault> {
        let target = parse::url(&self.url)?;
        let mut plan = Plan::new(target, self.rate()?, self.duration()?);
        plan.warmup = parse::seconds("--warmup", self.warmup)?;
        plan.arrivals = self.arrivals;
        if self.http == HttpVersion::Two {
            plan.protocol = Protocol::Http2 {
                streams_per_connection: parse::count("--streams", self.streams, COUNT_MAX)?,
            };
            plan.connections = CONNECTIONS_HTTP2;
        }
        if let Some(connections) = self.connections {
            plan.connections = parse::count("--connections", connections, COUNT_MAX)?;
        }
        plan.queue_capacity = parse::count("--queue", self.queue, QUEUE_MAX)?;
        plan.timeout = parse::timeout(&self.timeout)?;
        plan.seed = self.seed;
        plan.tls = self.tls(&plan)?;
        plan.body = self.body()?;
        plan.method = self.method()?;
        plan.headers = parse::headers(&self.headers)?;
        Ok(plan)
    }

    /// Returns the TLS configuration for `https://`, with its authorities; `None` for `http://`.
    fn tls(&self, plan: &Plan) -> Result<Option<Arc<ClientConfig>>, Fault> {
        if plan.target.scheme_str() != Some("https") {
            let flag = match (&self.ca, self.insecure) {
                (Some(_), _) => "--ca",
                (None, true) => "--insecure",
                (None, false) => return Ok(None),
            };
            return Err(Fault::usage(format!(
                "{flag}: does nothing for {}; use an https:// URL",
                plan.target
            )));
        }
        let settings = ClientTls {
            ca: self.ca.clone(),
            verify: !self.insecure,
            ..ClientTls::default()
        };
        let client = settings
            .read()
            .map_err(|flaw| Fault::usage(format!("--ca {flaw}")))?;
        Ok(Some(client.with_sessions(plan.protocol.alpn(), 1)))
    }

    fn rate(&self) -> Result<f64, Fault> {
        let rate = self.rate;
        if rate.is_finite() && rate > 0.0 && rate <= RATE_MAX {
            Ok(rate)
        } else {
            Err(Fault::usage(format!(
                "--rate {rate}: must be above 0 and at most {RATE_MAX} requests per second"
            )))
        }
    }

    fn duration(&self) -> Result<Duration, Fault> {
        let duration = parse::seconds("--seconds", self.seconds)?;
        if duration.is_zero() {
            return Err(Fault::usage("--seconds 0: must be above 0"));
        }
        Ok(duration)
    }

    fn body(&self) -> Result<Bytes, Fault> {
        if let Some(path) = &self.body_file {
            let body = std::fs::read(path).map_err(|error| {
                Fault::usage(format!(
                    "--body-file {}: cannot be read: {error}",
                    path.display()
                ))
            })?;
            return Ok(body.into());
        }
        match self.body_bytes.unwrap_or(0) {
            length if length <= BODY_BYTES_MAX => Ok(vec![b'x'; length].into()),
            length => Err(Fault::usage(format!(
                "--body-bytes {length}: must be at most {BODY_BYTES_MAX}"
            ))),
        }
    }

    fn method(&self) -> Result<Method, Fault> {
        let has_body = self.body_file.is_some() || self.body_bytes.is_some();
        let Some(method) = &self.method else {
            return Ok(if has_body { Method::POST } else { Method::GET });
        };
        match Method::from_bytes(method.as_bytes()) {
            Ok(Method::CONNECT) => Err(Fault::usage(
                "--method CONNECT: opens a tunnel instead of getting an answer; use another method",
            )),
            Ok(method) => Ok(method),
            Err(_) => Err(Fault::usage(format!(
                "--method {method:?}: not an HTTP method, such as GET, POST or PUT"
            ))),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::Parser;

    #[derive(Debug, Parser)]
    struct Command {
        #[command(flatten)]
        args: Args,
    }

    fn plan(line: &str) -> Result<Plan, String> {
        let words = ["load"].into_iter().chain(line.split_whitespace());
        let command = Command::try_parse_from(words).map_err(|error| error.to_string())?;
        command.args.plan().map_err(|fault| {
            assert!(matches!(fault, Fault::Usage(_)), "{fault:?}");
            fault.to_string()
        })
    }

    #[test]
    fn default_arguments_make_a_valid_plan() {
        let plan = plan("http://127.0.0.1:8080/x --rate 500").unwrap();
        assert_eq!(plan.target, "http://127.0.0.1:8080/x");
        assert_eq!(
            (plan.duration, plan.warmup),
            (Duration::from_secs(10), Duration::ZERO)
        );
        assert_eq!((plan.slots(), plan.queue_capacity.get()), (1_000, 65_536));
        assert_eq!(
            (plan.method, plan.timeout),
            (Method::GET, Duration::from_secs(5))
        );
    }

    #[test]
    fn http2_slots_are_connections_times_streams_and_body_means_post() {
        let plan = plan("http://[::1]/ --rate 1 --http 2 --streams 5 --body-bytes 3").unwrap();
        assert_eq!(plan.slots(), 40);
        assert_eq!(
            (plan.method, plan.body),
            (Method::POST, Bytes::from_static(b"xxx"))
        );
    }

    #[test]
    fn a_mistake_names_the_argument_the_value_and_the_remedy() {
        for (line, expected) in [
            ("http://a/ --rate 0", "--rate 0: must be above 0"),
            ("http://a/ --rate NaN", "--rate NaN: must be above 0"),
            ("http://a/ --rate -5", "--rate -5: must be above 0"),
            ("http://a/ --rate inf", "--rate inf: must be above 0"),
            (
                "http://a/ --rate 1 --seconds 0",
                "--seconds 0: must be above 0",
            ),
            (
                "http://a/ --rate 1 --seconds NaN",
                "--seconds NaN: must be from 0",
            ),
            (
                "http://a/ --rate 1 --seconds 1e9",
                "must be from 0 to 604800 seconds",
            ),
            (
                "http://a/ --rate 1 --warmup -1",
                "--warmup -1: must be from 0",
            ),
            (
                "http://a/ --rate 1 --connections 0",
                "--connections 0: must be from 1",
            ),
            (
                "http://a/ --rate 1 --http 2 --streams 0",
                "--streams 0: must be from 1",
            ),
            ("http://a/ --rate 1 --queue 0", "--queue 0: must be from 1"),
            (
                "http://a/ --rate 1 --timeout 0s",
                "--timeout \"0s\": must be a time",
            ),
            (
                "http://a/ --rate 1 --timeout 5parsecs",
                "--timeout \"5parsecs\"",
            ),
            ("http://a/ --rate 1 --timeout -5s", "--timeout \"-5s\""),
            ("http://a/ --rate 1 --timeout 2h", "at most 1h"),
            (
                "http://a/ --rate 1 --method G/T",
                "--method \"G/T\": not an HTTP method",
            ),
            (
                "http://a/ --rate 1 --method CONNECT",
                "--method CONNECT: opens a tunnel",
            ),
            ("http://a/ --rate 1 --header nothing", "must be NAME: VALUE"),
            (
                "http://a/ --rate 1 --header b@d:x",
                "not a valid header name",
            ),
            (
                "http://a/ --rate 1 --header content-length:3",
                "set by the generator",
            ),
            (
                "http://a/ --rate 1 --body-file /no/such/file",
                "--body-file /no/such/file: cannot",
            ),
            (
                "http://a/ --rate 1 --body-bytes 1073741825",
                "must be at most 1073741824",
            ),
            (
                "https://a/ --rate 1 --ca /no/such/file",
                "--ca /no/such/file: ",
            ),
            (
                "http://a/ --rate 1 --ca x.pem",
                "--ca: does nothing for http://a/",
            ),
            (
                "http://a/ --rate 1 --insecure",
                "--insecure: does nothing for http://a/",
            ),
            ("ftp://a/ --rate 1", "the scheme ftp is not http or https"),
            (
                "127.0.0.1:80 --rate 1",
                "must begin with http:// or https://",
            ),
            ("/path --rate 1", "must begin with http:// or https://"),
            ("http:///path --rate 1", "URL \"http:///path\""),
            ("http://u:p@a/ --rate 1", "use --header 'authorization"),
            ("http://a:99999/ --rate 1", "URL \"http://a:99999/\""),
            ("http://a:0/ --rate 1", "the port must be"),
        ] {
            let message = plan(line).unwrap_err();
            assert!(message.contains(expected), "{line}: {message}");
        }
    }
}
