//! The configuration of `slackwater agent`: a TOML file, flags, or both, with the same reader and
//! conventions as `serve`'s.
//!
//! Keys with the same meaning have the same names. The keys in this file belong to an agent only:
//! the server behind it, where it answers probes, how it finds out that the server is gone, and how
//! long it announces its own shutdown.

use super::address::ReplicaAddress;
use super::address::{Address, loops_back, unreachable};
use super::admin::AdminSettings;
use super::agent_hint::HintSettings;
use super::agent_queue::{AgentQueue, RequestsMax};
use super::assemble::Workers;
use super::connect::Connect;
use super::files::file_name;
use super::fleet::{Listener, listen_address, note_admin_collision, read_admin, read_listen};
use super::kinds::PATH;
use super::log::LogSettings;
use super::model::{Limits, ProbeKey, Timeouts};
use super::network::Network;
use super::overrides::flags;
use super::probe::read_key_file;
use super::remarks::exposed_admin;
use super::replica::{ReplicaProtocol, ReplicaSettings, read_replica_settings};
use super::server_process::ServerProcess;
use super::tie::read_peers;
use super::tls::{ListenerTls, read_listener_tls};
use super::upgrade_protocols::{BeyondRequests, remark_upgrades};
use crate::table::{
    self, Boolean, Choice, Described, FILE, HOUR, Kind, LIST, MINUTE, MS, SECOND, STRING, Span,
    Within, keys, settings,
};
use crate::tls::ClientTls;
use crate::toml_reader::values::{quote, text};
use crate::toml_reader::{Item, Mistake, Mistakes, Reader, Remark, Severity, Source};
use core::net::SocketAddr;
use core::num::NonZeroU16;
use core::time::Duration;
use http::HeaderValue;
use rustls::pki_types::ServerName;
use slackwater_core::report::PROBE_PATH;
use slackwater_core::tracker::TrackerConfig;
use std::path::{Path, PathBuf};

/// The format of a report.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum OrcaForm {
    /// `TEXT name=value, …`.
    Text,
    /// `JSON {…}`.
    Json,
    /// `BIN` and Base64.
    Bin,
}

/// The responses that carry a report.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum OrcaReports {
    /// None.
    #[default]
    Never,
    /// Responses to requests that ask for a report.
    Asked,
    /// All responses, in the format that the request asks for, by default in this one.
    Always(OrcaForm),
}

settings! {
    /// The top-level keys, except lists and addresses.
    pub(super) struct AgentKeys in "" {
        /// Threads that carry requests. One carries tens of thousands of small requests a second,
        /// and the machine is mostly the server's.
        workers: NonZeroU16 = NonZeroU16::MIN, Workers("");
        /// Silence after which the agent checks whether the server is there.
        check_interval: Duration = SECOND, Within(Span, Duration::from_millis(50)..=MINUTE);
        /// Latencies of this age are no longer reported; without one, balancers assume an average
        /// replica and compare requests in flight. `[T3]` `[Decision 0004]`
        sample_age_max: Duration = TrackerConfig::default().sample_age_max, Within(Span, MS..=HOUR);
        /// Responses that carry an [ORCA report](agent.md#orca-reports) of the server's load:
        /// `"none"`, `"asked"` (to requests with `endpoint-load-metrics-format`), or all, in this
        /// format.
        orca: OrcaReports = OrcaReports::Never, Choice(&ORCA);
        /// Whether every response of the server reports its load, with its
        /// [capacity and cost](agent.md#capacity). Balancers then send fewer probes.
        report_with_responses: bool = false, Boolean;
        /// From SIGTERM, when probe responses begin to announce it, until listeners close. At least
        /// as long as balancers keep a report.
        drain_delay: Duration = SECOND, Within(Span, Duration::ZERO..=MINUTE);
    } then {
        /// Where clients connect, in place of the server. Port 0: the system chooses one that is
        /// free for UDP, too.
        listen: Described("an address, or a list of 1 to 64", LIST), "required";
        /// The server: `"host:port"`, or `"unix:/absolute/path"` of a Unix socket. A host name must
        /// have one address.
        to: Described("an address, or a socket", STRING), "required";
    }
}

/// The rows of keys in sections that `serve` has, too.
#[derive(Clone, Default)]
pub(super) struct AgentRows;

keys! { AgentRows in "" {
    /// Where UDP probes are answered. Not a wildcard on a machine with several addresses: a reply
    /// must leave from the address that was probed.
    probe_listen as "probe.listen": Described("an address", STRING), "as `listen`";
    /// A file with only the server's process id, for [its capacity](agent.md#capacity). Not beside
    /// `replica.cgroup`.
    pid_file as "replica.pid_file": FILE, "none";
    /// The directory of the server's cgroup, as an absolute path; includes its child cgroups.
    cgroup as "replica.cgroup": Described("a directory", STRING), "none";
    /// The networks of other agents with which [tied requests](../explanation/tying.md) are shared.
    /// None: every copy that comes is served.
    peers as "tie.peers": Described("a list of up to 256 networks", LIST), "`[]`";
} }

/// The values of the key `orca`.
const ORCA: [(&str, OrcaReports); 5] = [
    ("none", OrcaReports::Never),
    ("asked", OrcaReports::Asked),
    ("text", OrcaReports::Always(OrcaForm::Text)),
    ("json", OrcaReports::Always(OrcaForm::Json)),
    ("bin", OrcaReports::Always(OrcaForm::Bin)),
];

const TO_EXPECTED: &str = "\"host:port\" or \"unix:/path/to/socket\"";

/// The longest path of a Unix socket in bytes, without the final zero: the most that every system
/// accepts.
const SOCKET_PATH_BYTES_MAX: usize = 103;

/// A valid configuration of `slackwater agent`.
#[derive(Clone, Debug)]
pub struct AgentConfig {
    /// Where clients connect: 1 to 64 addresses, none twice. Port 0 lets the system choose.
    pub listen: Vec<SocketAddr>,
    /// TLS of all listeners; `None`: clients connect without TLS.
    pub tls: Option<ListenerTls>,
    /// The server.
    pub to: ReplicaAddress,
    /// The name that the server's certificate must have. `None` for a Unix socket, which carries no
    /// TLS.
    pub to_name: Option<ServerName<'static>>,
    /// Threads that carry requests: 1 to 1,024, default 1.
    pub workers: NonZeroU16,
    /// Protocol and connections to the server.
    pub replica: ReplicaSettings,
    /// Where probes are answered over UDP. `None`: at the addresses and ports of `listen`.
    pub probe_listen: Option<SocketAddr>,
    /// The path of HTTP probes, without a query; default `/prequal/probe`.
    pub probe_path: String,
    /// Key that signs probes and their answers; unsigned probes are then ignored. `None`: unsigned.
    pub probe_key: Option<ProbeKey>,
    /// The file that the key was read from.
    pub probe_key_file: Option<PathBuf>,
    /// Silence of the server after which the agent opens a connection to check it: 50 ms to 1
    /// minute, default 1 s.
    pub check_interval: Duration,
    /// Latencies of this age are not reported: 1 ms to 1 hour, default 3 s. `[T3]`
    /// `[Decision 0004]`
    pub sample_age_max: Duration,
    /// The queue before the server.
    pub queue: AgentQueue,
    /// The memory of hints that the server has answered. `[S3]`
    pub hint: HintSettings,
    /// Networks of the replicas that it shares tied requests with: 0 to 256. Empty: it shares none.
    /// `[H2]`
    pub peers: Vec<Network>,
    /// The responses that report the server's load; default none.
    pub orca: OrcaReports,
    /// The server's process or cgroup; unknown by default.
    pub server_process: ServerProcess,
    /// Whether the head of every response of the server carries the RIF, capacity and cost that
    /// probes report; default no.
    pub report_with_responses: bool,
    /// From SIGTERM, when probe responses begin to announce it, until the listeners close: 0 to 1
    /// minute, default 1 s.
    pub drain_delay: Duration,
    /// As [`Config::upgrade_protocols`](super::Config::upgrade_protocols).
    pub upgrade_protocols: Vec<HeaderValue>,
    /// Handling of CONNECT; default: refused.
    pub connect: Connect,
    /// Timeouts.
    pub timeouts: Timeouts,
    /// Limits.
    pub limits: Limits,
    /// The admin server; none by default.
    pub admin: AdminSettings,
    /// The log.
    pub log: LogSettings,
}

/// A valid configuration, with remarks about it.
#[derive(Clone, Debug)]
pub struct LoadedAgent {
    /// The configuration.
    pub config: AgentConfig,
    /// Remarks on settings that are valid but probably not meant.
    pub remarks: Vec<Remark>,
}

flags! {
    /// Flags that set configuration keys. A flag takes precedence over the file's key.
    pub struct AgentOverrides lists {
        /// Where clients connect, in place of the server [key: listen]
        listen "--listen" "ADDR:PORT" => "listen";
    } values {
        /// The server that requests go to, as HOST:PORT or unix:/path [key: to]
        to "--to" "SERVER" => "to";
        /// Where UDP probes are answered [key: probe.listen; default: addresses and ports of
        /// --listen]
        probe_listen "--probe-listen" "ADDR:PORT" => "probe.listen";
        /// Where HTTP probes are answered [key: probe.path; default: /prequal/probe]
        probe_path "--probe-path" "PATH" => "probe.path";
        /// File with the key of probes, 32 to 128 hexadecimal digits [key: probe.key_file]
        key_file "--key-file" "FILE" => "probe.key_file";
        /// What the server speaks: http1, h2c, or h2 with [replica.tls] in the file [key:
        /// replica.protocol; default: http1]
        protocol "--protocol" "PROTOCOL" => "replica.protocol";
        /// Threads that carry requests, 1 to 1024 [key: workers; default: 1]
        workers "--workers" "N" => "workers", allow_negative_numbers = true;
        /// Where status and metrics are served, or "none" [key: admin.listen; default: none]
        admin "--admin" "ADDR:PORT" => "admin.listen";
        /// Time without a response after which the agent checks the connection, 50ms to 1m [key:
        /// check_interval; default: 1s]
        check_interval "--check-interval" "TIME" => "check_interval", allow_hyphen_values = true;
        /// Time from SIGTERM, when probes report draining, until listeners close, 0 to 1m [key:
        /// drain_delay; default: 1s]
        drain_delay "--drain-delay" "TIME" => "drain_delay", allow_hyphen_values = true;
        /// Time that running requests then have to finish, 0 to 24h [key: timeouts.drain; default:
        /// 30s]
        drain_timeout "--drain-timeout" "TIME" => "timeouts.drain", allow_hyphen_values = true;
        /// Timeout to connect to the server, 1ms to 1m [key: timeouts.connect; default: 1s]
        connect_timeout "--connect-timeout" "TIME" => "timeouts.connect", allow_hyphen_values = true;
        /// Timeout from a request to the head of the response, 1ms to 24h [key:
        /// timeouts.first_byte; default: 60s]
        first_byte_timeout "--first-byte-timeout" "TIME" => "timeouts.first_byte", allow_hyphen_values = true;
        /// Timeout of idle connections, 1ms to 24h [key: timeouts.idle; default: 60s]
        idle_timeout "--idle-timeout" "TIME" => "timeouts.idle", allow_hyphen_values = true;
        /// Lowest level that is logged: error, warn, info, debug or trace [key: log.level; default:
        /// info]
        log_level "--log-level" "LEVEL" => "log.level";
        /// Format of the log: text or json [key: log.format; default: text]
        log_format "--log-format" "FORMAT" => "log.format";
    }
}

impl AgentConfig {
    /// Reads the file, if there is one, applies the flags over it, and checks the result. A host
    /// name in `to` is resolved here, once.
    ///
    /// # Errors
    ///
    /// Returns every mistake found; `?` converts them to a [`Fault`](crate::fault::Fault).
    pub fn load(file: Option<&Path>, flags: &AgentOverrides) -> Result<LoadedAgent, Mistakes> {
        let source = file.map(Source::read).transpose();
        let source = source.map_err(|mistake| Mistakes::new(vec![mistake]))?;
        Self::load_source(source.as_ref(), flags)
    }

    /// Like [`Self::load`], for a file that has already been read.
    ///
    /// # Errors
    ///
    /// Returns the same errors.
    pub fn load_source(
        source: Option<&Source>,
        flags: &AgentOverrides,
    ) -> Result<LoadedAgent, Mistakes> {
        assemble(Reader::new(source, flags.flags())?)
    }
}

fn assemble(mut reader: Reader<'_>) -> Result<LoadedAgent, Mistakes> {
    let reader_ref = &mut reader;
    reader_ref.suggest(table::FOREIGN_NAMES);
    let listeners = read_listen(reader_ref);
    let keys: AgentKeys = table::read(reader_ref, "");
    let beyond: BeyondRequests = table::read(reader_ref, "");
    let probe_listen = read_probe_listen(reader_ref);
    let probe_path = read_probe_path(reader_ref);
    let (probe_key, key_remark) = read_key_file(reader_ref, "");
    let mut remarks: Vec<Remark> = key_remark.into_iter().collect();
    let tls = read_listener_tls(reader_ref, "", &mut remarks);
    let replica = read_replica_settings(
        reader_ref,
        "",
        |key| key == ReplicaSettings::OF_AGENT,
        &mut remarks,
    );
    let to = read_to(reader_ref, &listeners, replica.tls.as_ref());
    let server_process = ServerProcess::read(reader_ref);
    let queue = AgentQueue::read(reader_ref, &mut remarks);
    let has_queue = queue.requests_max != RequestsMax::None;
    let hint = HintSettings::read(reader_ref, &mut remarks);
    let peers = read_peers(reader_ref, has_queue, &mut remarks);
    let over_http2 =
        (replica.protocol != ReplicaProtocol::Http1).then_some("the server, which speaks");
    remarks.extend(remark_upgrades(reader_ref, &beyond, over_http2));
    let timeouts = table::read(reader_ref, "");
    let limits = table::read(reader_ref, "");
    let admin = read_admin(reader_ref, None);
    let mut admin_settings = AdminSettings {
        metrics_replicas_max: None,
        ..AdminSettings::default()
    };
    let is_meant = |key: &str| key == AdminSettings::OF_AGENT;
    table::read_keys(reader_ref, "", &mut admin_settings, is_meant);
    let log = table::read(reader_ref, "");
    note_admin_collision(reader_ref, &listeners, admin.as_ref());

    if let Some((address, definition)) = &admin {
        remarks.extend(exposed_admin(*address, definition.as_ref(), false));
    }
    remarks.extend(wildcard_probes(&listeners, probe_listen.as_ref()));
    let probe_listen = probe_listen.map(|(address, _)| address);
    let (_, mistakes) = reader.finish();
    let (probe_key, probe_key_file) = probe_key.unzip();
    match to {
        Some((to, to_name)) if mistakes.is_empty() => Ok(LoadedAgent {
            config: AgentConfig {
                listen: listeners.into_iter().map(|(address, _)| address).collect(),
                tls,
                to,
                to_name,
                workers: keys.workers,
                replica,
                probe_listen,
                probe_path,
                probe_key,
                probe_key_file,
                check_interval: keys.check_interval,
                sample_age_max: keys.sample_age_max,
                queue,
                hint,
                peers,
                orca: keys.orca,
                server_process,
                report_with_responses: keys.report_with_responses,
                drain_delay: keys.drain_delay,
                upgrade_protocols: beyond.upgrade_protocols,
                connect: beyond.connect,
                timeouts,
                limits,
                admin: AdminSettings {
                    listen: admin.map(|(address, _)| address),
                    ..admin_settings
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
    Some((address, Some(item.definition)))
}

/// A socket bound to every address answers from the address that the system prefers. A client that
/// sent its probe to another one does not accept the answer.
fn wildcard_probes(listeners: &[Listener], probe_listen: Option<&Listener>) -> Option<Remark> {
    let mut answering = probe_listen.map_or(listeners, core::slice::from_ref).iter();
    let (address, definition) = answering.find(|(address, _)| address.ip().is_unspecified())?;
    Some(Remark {
        severity: Severity::Note,
        about: definition.as_ref()?.mistake(format!(
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

impl AgentConfig {
    /// Writes the top-level keys.
    pub(super) fn write_keys(&self, to: &mut String) {
        let keys = AgentKeys {
            workers: self.workers,
            check_interval: self.check_interval,
            sample_age_max: self.sample_age_max,
            orca: self.orca,
            report_with_responses: self.report_with_responses,
            drain_delay: self.drain_delay,
        };
        let beyond = BeyondRequests {
            connect: self.connect,
            upgrade_protocols: self.upgrade_protocols.clone(),
        };
        let listen: Vec<_> = self.listen.iter().map(quote).collect();
        let addresses = [
            ("listen", format!("[{}]", listen.join(", "))),
            ("to", quote(&self.to)),
        ];
        let keys = table::shown(&keys).chain(table::shown(&beyond));
        table::write_keys(to, "", addresses.into_iter().chain(keys));
    }

    /// Writes where probes are answered.
    pub(super) fn write_probe(&self, to: &mut String) {
        let listen = self.probe_listen.map(|address| ("listen", quote(address)));
        let key_file = self
            .probe_key_file
            .as_deref()
            .map(|file| ("key_file", file_name(file)));
        let keys = listen
            .into_iter()
            .chain([("path", quote(&self.probe_path))]);
        table::write_keys(to, "probe", keys.chain(key_file));
    }
}

fn read_probe_path(reader: &mut Reader<'_>) -> String {
    let Some(item) = reader.take("probe.path") else {
        return PROBE_PATH.to_owned();
    };
    let path = item
        .read(|value| PATH.read(value), PATH.expected)
        .and_then(|path| {
            if path.query().is_some() {
                return Err(item.mistake(format!("found {path}, expected a path without a query")));
            }
            Ok(path.path().to_owned())
        });
    reader.note(path).unwrap_or_default()
}
