//! The configuration of `slackwater agent`: a TOML file, flags, or both, with the same reader and the same manners as
//! `serve`'s.
//!
//! Keys that mean the same have the same names. What is an agent's alone is here: the server that it stands before, where
//! it answers probes, how it finds out that the server is gone, and how long it says so before it leaves itself.

use super::address::ReplicaAddress;
use super::address::{Address, loops_back, unreachable};
use super::agent_queue::{AgentQueue, RequestsMax};
use super::assemble::{count, read_limits, read_replica_settings, read_timeouts, timeout};
use super::connect::Connect;
use super::fleet::{Listener, listen_address, note_admin_collision, read_admin, read_listen};
use super::log::{LogSettings, read_log};
use super::model::{AdminSettings, Limits, ProbeKey, ReplicaProtocol, ReplicaSettings, Timeouts};
use super::network::Network;
use super::overrides::{scalar, texts};
use super::probe::{parse_path, read_key_file};
use super::remarks::exposed_admin;
use super::retries::name_of;
use super::server_process::ServerProcess;
use super::tie::read_peers;
use super::tls::{ListenerTls, read_listener_tls};
use super::upgrade_protocols::read_upgrade_protocols;
use crate::tls::ClientTls;
use crate::toml_reader::values::{boolean, nonzero, one_of, text, within};
use crate::toml_reader::{Flag, Item, Mistake, Mistakes, Reader, Remark, Severity, Source};
use core::net::{IpAddr, Ipv4Addr, SocketAddr};
use core::num::NonZeroU16;
use core::time::Duration;
use http::HeaderValue;
use rustls::pki_types::ServerName;
use slackwater_tower::server::TrackerConfig;
use std::path::{Path, PathBuf};

const MS: Duration = Duration::from_millis(1);
/// How a report is written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum OrcaForm {
    /// `TEXT name=value, …`.
    Text,
    /// `JSON {…}`.
    Json,
    /// `BIN` and Base64.
    Bin,
}

/// Which requests are answered with a report.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum OrcaReports {
    /// None.
    #[default]
    Never,
    /// Those that ask for one.
    Asked,
    /// All: in the form that they ask for, or else in this one.
    Always(OrcaForm),
}

/// What the key `orca` may say.
const ORCA: [(&str, OrcaReports); 5] = [
    ("none", OrcaReports::Never),
    ("asked", OrcaReports::Asked),
    ("text", OrcaReports::Always(OrcaForm::Text)),
    ("json", OrcaReports::Always(OrcaForm::Json)),
    ("bin", OrcaReports::Always(OrcaForm::Bin)),
];

/// What the key `orca` says for it.
pub(super) fn orca_name(written: OrcaReports) -> &'static str {
    name_of(&ORCA, |of| of == written)
}

const TO_EXPECTED: &str = "\"host:port\" or \"unix:/path/to/socket\"";

/// The longest path of a Unix socket, in bytes, its final zero not counted: what every system takes.
const SOCKET_PATH_BYTES_MAX: usize = 103;

/// A valid configuration of `slackwater agent`.
#[derive(Clone, Debug)]
pub struct AgentConfig {
    /// Where clients connect: 1 to 64 addresses, none twice. Port 0 lets the system choose.
    pub listen: Vec<SocketAddr>,
    /// TLS at all of them; `None`: clients connect without.
    pub tls: Option<ListenerTls>,
    /// The server.
    pub to: ReplicaAddress,
    /// The name that the server's certificate must be for. `None` for a Unix socket, which carries no TLS.
    pub to_name: Option<ServerName<'static>>,
    /// Threads that carry requests: 1 to 1,024, default 1.
    pub workers: NonZeroU16,
    /// How to speak to the server.
    pub replica: ReplicaSettings,
    /// Where probes are answered over UDP. `None`: at the addresses and ports of `listen`.
    pub probe_listen: Option<SocketAddr>,
    /// Where they are answered over HTTP: a path without query, default `/prequal/probe`.
    pub probe_path: String,
    /// Signs probes and their answers; others get none. `None`: unsigned.
    pub probe_key: Option<ProbeKey>,
    /// The file that it was read from.
    pub probe_key_file: Option<PathBuf>,
    /// For how long the server may give no sign of life before the agent connects to see whether it is there: 50 ms to
    /// 1 minute, default 1 s.
    pub check_interval: Duration,
    /// No latency is reported that is as old as this: 1 ms to 1 hour, default 3 s. `[T3]` `[Decision 0004]`
    pub sample_age_max: Duration,
    /// The queue before the server.
    pub queue: AgentQueue,
    /// Where the replicas are that it shares tied requests with: 0 to 64 networks. None: it shares none. `[H2]`
    pub peers: Vec<Network>,
    /// Which responses say how loaded the server is; default none.
    pub orca: OrcaReports,
    /// Which process or cgroup the server is; by default nobody knows.
    pub server_process: ServerProcess,
    /// The head of every response of the server says what probes say of RIF, capacity and cost; default no.
    pub report_with_responses: bool,
    /// From the signal to stop, when probes begin to tell, until the listeners close: 0 to 1 minute, default 1 s.
    pub drain_delay: Duration,
    /// As [`Config::upgrade_protocols`](super::Config::upgrade_protocols).
    pub upgrade_protocols: Vec<HeaderValue>,
    /// What becomes of CONNECT; default refused.
    pub connect: Connect,
    /// How long anything may take.
    pub timeouts: Timeouts,
    /// How much of anything there may be.
    pub limits: Limits,
    /// The admin server; none by default.
    pub admin: AdminSettings,
    /// The log.
    pub log: LogSettings,
}

/// A valid configuration, and what should be said about it.
#[derive(Clone, Debug)]
pub struct LoadedAgent {
    /// The configuration.
    pub config: AgentConfig,
    /// What is valid but probably not meant.
    pub remarks: Vec<Remark>,
}

/// Flags that stand for configuration keys. One that is given wins over the file's key.
#[derive(Clone, Debug, Default)]
#[cfg_attr(feature = "clap", derive(clap::Args))]
#[expect(
    clippy::doc_markdown,
    reason = "this is what the help shows, without markup"
)]
pub struct AgentOverrides {
    /// Where clients connect, in place of the server [key: listen]
    #[cfg_attr(
        feature = "clap",
        arg(long, value_name = "ADDR:PORT", value_delimiter = ',')
    )]
    pub listen: Vec<String>,
    /// The server that requests go to, as HOST:PORT or unix:/path [key: to]
    #[cfg_attr(feature = "clap", arg(long, value_name = "SERVER"))]
    pub to: Option<String>,
    /// Where UDP probes are answered [key: probe.listen; default: addresses and ports of --listen]
    #[cfg_attr(feature = "clap", arg(long, value_name = "ADDR:PORT"))]
    pub probe_listen: Option<String>,
    /// Where HTTP probes are answered [key: probe.path; default: /prequal/probe]
    #[cfg_attr(feature = "clap", arg(long, value_name = "PATH"))]
    pub probe_path: Option<String>,
    /// File with the key of probes, 32 to 128 hexadecimal digits [key: probe.key_file]
    #[cfg_attr(feature = "clap", arg(long, value_name = "FILE"))]
    pub key_file: Option<String>,
    /// What the server speaks: http1, h2c, or h2 with [replica.tls] in the file [key: replica.protocol; default: http1]
    #[cfg_attr(feature = "clap", arg(long, value_name = "PROTOCOL"))]
    pub protocol: Option<String>,
    /// Threads that carry requests, 1 to 1024 [key: workers; default: 1]
    #[cfg_attr(
        feature = "clap",
        arg(long, value_name = "N", allow_negative_numbers = true)
    )]
    pub workers: Option<String>,
    /// Where status and metrics are served, or "none" [key: admin.listen; default: none]
    #[cfg_attr(feature = "clap", arg(long, value_name = "ADDR:PORT"))]
    pub admin: Option<String>,
    /// Silence of the server after which a connection is tried, 50ms to 1m [key: check_interval; default: 1s]
    #[cfg_attr(
        feature = "clap",
        arg(long, value_name = "TIME", allow_hyphen_values = true)
    )]
    pub check_interval: Option<String>,
    /// From SIGTERM, when probes begin to say so, until listeners close, 0 to 1m [key: drain_delay; default: 1s]
    #[cfg_attr(
        feature = "clap",
        arg(long, value_name = "TIME", allow_hyphen_values = true)
    )]
    pub drain_delay: Option<String>,
    /// From then on, for requests still running, 0 to 24h [key: timeouts.drain; default: 30s]
    #[cfg_attr(
        feature = "clap",
        arg(long, value_name = "TIME", allow_hyphen_values = true)
    )]
    pub drain_timeout: Option<String>,
    /// To a connection to the server, 1ms to 1m [key: timeouts.connect; default: 1s]
    #[cfg_attr(
        feature = "clap",
        arg(long, value_name = "TIME", allow_hyphen_values = true)
    )]
    pub connect_timeout: Option<String>,
    /// From a request to the head of the server's response, 1ms to 24h [key: timeouts.first_byte; default: 60s]
    #[cfg_attr(
        feature = "clap",
        arg(long, value_name = "TIME", allow_hyphen_values = true)
    )]
    pub first_byte_timeout: Option<String>,
    /// For connections that carry nothing, 1ms to 24h [key: timeouts.idle; default: 60s]
    #[cfg_attr(
        feature = "clap",
        arg(long, value_name = "TIME", allow_hyphen_values = true)
    )]
    pub idle_timeout: Option<String>,
    /// What is logged: error, warn, info, debug or trace [key: log.level; default: info]
    #[cfg_attr(feature = "clap", arg(long, value_name = "LEVEL"))]
    pub log_level: Option<String>,
    /// What a line of the log looks like: text or json [key: log.format; default: text]
    #[cfg_attr(feature = "clap", arg(long, value_name = "FORMAT"))]
    pub log_format: Option<String>,
}

impl AgentOverrides {
    fn flags(&self) -> Vec<Flag<'_>> {
        let one = |field, name, value| Flag {
            field,
            name,
            values: texts(value),
        };
        vec![
            Flag {
                field: "listen",
                name: "--listen",
                values: texts(&self.listen),
            },
            one("to", "--to", &self.to),
            one("log.level", "--log-level", &self.log_level),
            one("log.format", "--log-format", &self.log_format),
            one("probe.listen", "--probe-listen", &self.probe_listen),
            one("probe.path", "--probe-path", &self.probe_path),
            one("probe.key_file", "--key-file", &self.key_file),
            one("replica.protocol", "--protocol", &self.protocol),
            Flag {
                field: "workers",
                name: "--workers",
                values: self.workers.iter().map(|text| scalar(text)).collect(),
            },
            one("admin.listen", "--admin", &self.admin),
            one("check_interval", "--check-interval", &self.check_interval),
            one("drain_delay", "--drain-delay", &self.drain_delay),
            one("timeouts.drain", "--drain-timeout", &self.drain_timeout),
            one(
                "timeouts.connect",
                "--connect-timeout",
                &self.connect_timeout,
            ),
            one(
                "timeouts.first_byte",
                "--first-byte-timeout",
                &self.first_byte_timeout,
            ),
            one("timeouts.idle", "--idle-timeout", &self.idle_timeout),
        ]
    }
}

impl AgentConfig {
    /// Reads the file, if there is one, lays the flags over it, and checks the result. A host name in `to` is resolved
    /// here, once.
    ///
    /// # Errors
    ///
    /// Every mistake found; a [`Fault`](crate::fault::Fault) by `?`.
    pub fn load(file: Option<&Path>, flags: &AgentOverrides) -> Result<LoadedAgent, Mistakes> {
        let source = file.map(Source::read).transpose();
        let source = source.map_err(|mistake| Mistakes::new(vec![mistake]))?;
        Self::load_source(source.as_ref(), flags)
    }

    /// As [`Self::load`], of a file that has been read.
    pub(super) fn load_source(
        source: Option<&Source>,
        flags: &AgentOverrides,
    ) -> Result<LoadedAgent, Mistakes> {
        assemble(Reader::new(source, flags.flags())?)
    }
}

fn assemble(mut reader: Reader<'_>) -> Result<LoadedAgent, Mistakes> {
    // Never bound: an address that nobody said is dropped again below.
    const UNSAID: SocketAddr = SocketAddr::new(IpAddr::V4(Ipv4Addr::LOCALHOST), 0);
    let reader_ref = &mut reader;
    let listeners = read_listen(reader_ref);
    let workers = read_workers(reader_ref);
    let probe_listen = read_probe_listen(reader_ref);
    let probe_path = read_probe_path(reader_ref);
    let (probe_key, key_remark) = read_key_file(reader_ref, "");
    let mut remarks: Vec<Remark> = key_remark.into_iter().collect();
    let tls = read_listener_tls(reader_ref, "tls", &mut remarks);
    let replica = read_replica_settings(reader_ref, "", &mut remarks);
    let to = read_to(reader_ref, &listeners, replica.tls.as_ref());
    let check = 50 * MS..=60_000 * MS;
    let check_interval = timeout(reader_ref, "check_interval", 1_000 * MS, &check);
    let age = MS..=Duration::from_hours(1);
    let age_default = TrackerConfig::default().sample_age_max;
    let sample_age_max = timeout(reader_ref, "sample_age_max", age_default, &age);
    let orca = reader_ref.setting("orca", OrcaReports::Never, "", |value| one_of(value, &ORCA));
    let server_process = ServerProcess::read(reader_ref);
    let report_with_responses = reader_ref.setting("report_with_responses", false, "", boolean);
    let queue = AgentQueue::read(reader_ref, &mut remarks);
    let has_queue = queue.requests_max != RequestsMax::None;
    let peers = read_peers(reader_ref, has_queue, &mut remarks);
    let delay = Duration::ZERO..=60_000 * MS;
    let drain_delay = timeout(reader_ref, "drain_delay", 1_000 * MS, &delay);
    let over_http2 =
        (replica.protocol != ReplicaProtocol::Http1).then_some("the server, which speaks");
    let upgrade_protocols = read_upgrade_protocols(reader_ref, over_http2, &mut remarks);
    let connect = Connect::read(reader_ref);
    let timeouts = read_timeouts(reader_ref);
    let limits = read_limits(reader_ref);
    let admin = read_admin(reader_ref, UNSAID).filter(|(_, said)| said.is_some());
    let connections_max = count(reader_ref, "admin.connections_max", 64, 1..=4096);
    let log = read_log(reader_ref);
    note_admin_collision(reader_ref, &listeners, admin.as_ref());

    if let Some((address, said)) = &admin {
        remarks.extend(exposed_admin(*address, said.as_ref(), false));
    }
    remarks.extend(wildcard_probes(&listeners, probe_listen.as_ref()));
    let probe_listen = probe_listen.map(|(address, _)| address);
    let (_, mistakes) = reader.finish();
    let (probe_key, probe_key_file) = probe_key.value.unzip();
    match to {
        Some((to, to_name)) if mistakes.is_empty() => Ok(LoadedAgent {
            config: AgentConfig {
                listen: listeners.into_iter().map(|(address, _)| address).collect(),
                tls,
                to,
                to_name,
                workers,
                replica,
                probe_listen,
                probe_path,
                probe_key,
                probe_key_file,
                check_interval,
                sample_age_max,
                queue,
                peers,
                orca: orca.value,
                server_process,
                report_with_responses: report_with_responses.value,
                drain_delay,
                upgrade_protocols,
                connect,
                timeouts,
                limits,
                admin: AdminSettings {
                    token: None,
                    listen: admin.map(|(address, _)| address),
                    connections_max,
                    metrics_replicas_max: None,
                },
                log,
            },
            remarks,
        }),
        _ => Err(Mistakes::new(mistakes)),
    }
}

fn read_probe_listen(reader: &mut Reader<'_>) -> Option<Listener> {
    let item = reader.take("probe.listen")?;
    let address = reader.note(listen_address(&item))?;
    Some((address, Some(item.said)))
}

/// A socket bound to every address answers from the one that the system prefers, and whoever asked another one takes the
/// answer for a stranger's.
fn wildcard_probes(listeners: &[Listener], probe_listen: Option<&Listener>) -> Option<Remark> {
    let mut answering = probe_listen.map_or(listeners, core::slice::from_ref).iter();
    let (address, said) = answering.find(|(address, _)| address.ip().is_unspecified())?;
    Some(Remark {
        severity: Severity::Note,
        about: said.as_ref()?.mistake(format!(
            "{address} is every address of this machine, and the system chooses from which one a UDP probe is \
             answered; where balancers ask another one the answer is lost, so give the one that they ask here or as \
             probe.listen (--probe-listen)"
        )),
    })
}

/// The key `to`; `None` after a mistake.
fn read_to(
    reader: &mut Reader<'_>,
    listeners: &[Listener],
    tls: Option<&ClientTls>,
) -> Option<(ReplicaAddress, Option<ServerName<'static>>)> {
    let Some(item) = reader.take("to") else {
        let expected = format!("the server: {TO_EXPECTED}");
        reader.add_missing("to", "--to", &expected);
        return None;
    };
    reader.note(parse_to(&item, listeners, tls))
}

fn parse_to(
    item: &Item<'_>,
    listeners: &[Listener],
    tls: Option<&ClientTls>,
) -> Result<(ReplicaAddress, Option<ServerName<'static>>), Mistake> {
    let written = item.read(|value| text(value, TO_EXPECTED), TO_EXPECTED)?;
    let wrong = |why: &str| item.mistake(format!("found {written:?}, {why}"));
    if let Some(path) = written.strip_prefix("unix:") {
        return match path.len() {
            _ if !path.starts_with('/') => Err(wrong(
                "expected an absolute path, as in \"unix:/run/app.sock\"",
            )),
            _ if tls.is_some() => Err(wrong(
                "a Unix socket, which carries no TLS; expected no section [replica.tls]",
            )),
            1..=SOCKET_PATH_BYTES_MAX => Ok((ReplicaAddress::Unix(PathBuf::from(path)), None)),
            _ => Err(wrong(&format!(
                "expected a path of at most {SOCKET_PATH_BYTES_MAX} bytes, as sockets need"
            ))),
        };
    }
    let host = Address::parse(written).map_err(|why| wrong(&why))?;
    let addresses = host.resolve().map_err(|why| wrong(&why))?;
    let &[address] = addresses.as_slice() else {
        return Err(wrong(&format!(
            "which has {} addresses, expected one server",
            addresses.len()
        )));
    };
    if let Some(why) = unreachable(address) {
        return Err(wrong(why));
    }
    if (listeners.iter()).any(|(listen, _)| loops_back(*listen, address)) {
        return Err(wrong("which is where the agent itself listens"));
    }
    let name = tls.and_then(|tls| tls.server_name.clone());
    let name = name.or_else(|| host.server_name());
    Ok((ReplicaAddress::Tcp(address), name))
}

fn read_workers(reader: &mut Reader<'_>) -> NonZeroU16 {
    const MOST: NonZeroU16 = NonZeroU16::MIN.saturating_add(1023);
    let range = "a number from 1 to 1,024";
    let workers = reader.setting("workers", NonZeroU16::MIN, range, |value| {
        nonzero(value).and_then(|workers| within(workers, &(NonZeroU16::MIN..=MOST)))
    });
    workers.value
}

fn read_probe_path(reader: &mut Reader<'_>) -> String {
    const PATH: &str = slackwater_tower::wire::PROBE_PATH;
    let Some(item) = reader.take("probe.path") else {
        return PATH.to_owned();
    };
    let path = item.read(parse_path, "").and_then(|path| {
        if path.query().is_some() {
            return Err(item.mistake(format!("found {path}, expected a path without a query")));
        }
        Ok(path.path().to_owned())
    });
    reader.note(path).unwrap_or_default()
}
