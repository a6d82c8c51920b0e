//! The configuration in force, written out as a file: every key in its full form, defaults included, host names as the addresses that they
//! resolved to. Loading it again gives the same configuration.

use super::ListenerTls;
use super::agent::{AgentConfig, orca_name};
use super::decisions::write_decisions;
use super::discovery::{DiscoverySettings, FleetSource};
use super::discovery::{DnsName, DnsServers};
use super::log::{write_access_log, write_log};
use super::model::{AdminSettings, Config, Limits, ReplicaSettings, ServiceConfig, Timeouts};
use super::passive_health::write_passive_health;
use super::policies::write_sections;
use super::proxy_protocol::name_of_version;
use super::request_id::write_request_id;
use super::routes::write_routes;
use super::tie::write_peers;
use super::tracing::write_tracing;
use super::upgrade_protocols::write_upgrade_protocols;
use crate::tls::ClientTls;
use crate::toml_reader::values::{show_bytes, show_duration};
use core::fmt::{self, Display, Write};
use std::path::Path;

impl Config {
    /// The whole configuration in TOML.
    pub fn to_toml(&self) -> String {
        let mut toml = String::new();
        // Writing to a string does not fail.
        let _ = self.write_toml(&mut toml);
        toml
    }

    fn write_toml(&self, to: &mut String) -> fmt::Result {
        writeln!(to, "workers = {}", self.workers)?;
        writeln!(
            to,
            "drain_delay = {}",
            quoted(show_duration(self.drain_delay))
        )?;
        self.connect.write(to)?;
        write_upgrade_protocols(to, &self.upgrade_protocols)?;
        for listener in &self.listeners {
            writeln!(to, "[[listeners]]")?;
            let address = listener.address.to_string();
            if listener.name != address {
                writeln!(to, "name = {}", quoted(&listener.name))?;
            }
            writeln!(to, "address = {}", quoted(address))?;
            if let Some(networks) = &listener.proxy_protocol {
                let networks: Vec<_> = networks.iter().map(quoted).collect();
                writeln!(to, "proxy_protocol = \"required\"")?;
                writeln!(to, "proxy_protocol_trust = [{}]", networks.join(", "))?;
            }
            writeln!(to)?;
            if let Some(tls) = &listener.tls {
                tls.write_toml(to, "listeners.tls")?;
            }
        }
        for service in &self.services {
            service.write_toml(to)?;
        }
        write_routes(to, self)?;
        write_dns(to, &self.dns)?;
        self.forwarded.write_toml(to)?;
        write_bounds(to, &self.timeouts, &self.limits)?;
        write_admin(to, &self.admin)?;
        write_log(to, &self.log)?;
        write_access_log(to, &self.access_log)?;
        write_request_id(to, &self.request_id)?;
        write_decisions(to, &self.decisions)?;
        write_tracing(to, &self.tracing)
    }
}

impl ServiceConfig {
    fn write_toml(&self, to: &mut String) -> fmt::Result {
        let prefix = &format!("services.{}.", self.name);
        writeln!(to, "[services.{}]", self.name)?;
        writeln!(to, "policy = {}", quoted(self.policy.name))?;
        if self.discovery.source == FleetSource::List {
            self.write_replicas(to)?;
        }
        writeln!(to)?;
        write_discovery(to, prefix, &self.discovery)?;
        write_replica(to, prefix, &self.replica, None)?;
        self.write_probe(to, prefix)?;
        write_sections(to, prefix, &self.policy_settings)?;
        let span = |span| quoted(show_duration(span));
        let timeouts: [(&str, &dyn Display); 2] = [
            ("connect", &span(self.timeouts.connect)),
            ("first_byte", &span(self.timeouts.first_byte)),
        ];
        write_section(to, &format!("{prefix}timeouts"), &timeouts)?;
        self.retries.write(to, prefix)?;
        self.hedge.write(to, prefix)?;
        self.tie.write(to, prefix)?;
        self.queue.write(to, prefix)?;
        self.health.write(to, prefix)?;
        write_passive_health(to, prefix, &self.passive_health)?;
        self.sticky.write(to, prefix)
    }

    fn write_replicas(&self, to: &mut String) -> fmt::Result {
        writeln!(to, "replicas = [")?;
        for replica in &self.replicas {
            let (address, probe) = (quoted(replica.address), quoted(replica.probe_address));
            write!(to, "  {{ address = {address}, probe = {probe}")?;
            if self.replica.tls.is_some() {
                let name = quoted(replica.server_name.to_str());
                write!(to, ", server_name = {name}")?;
            }
            if replica.weight != 1 {
                write!(to, ", weight = {}", replica.weight)?;
            }
            if replica.tier != 0 {
                write!(to, ", tier = {}", replica.tier)?;
            }
            writeln!(to, " }},")?;
        }
        writeln!(to, "]")
    }

    fn write_probe(&self, to: &mut String, prefix: &str) -> fmt::Result {
        let transport = quoted(self.probe.transport.as_str());
        writeln!(to, "[{prefix}probe]\ntransport = {transport}")?;
        if let Some(port) = self.probe.port {
            writeln!(to, "port = {port}")?;
        }
        writeln!(to, "path = {}", quoted(&self.probe.path))?;
        if self.replica.tls.is_some() {
            writeln!(to, "tls = {}", self.probe.tls)?;
        }
        if let Some(file) = &self.probe.key_file {
            writeln!(to, "key_file = {}", file_name(file))?;
        }
        writeln!(to)
    }
}

impl AgentConfig {
    /// The whole configuration in TOML.
    pub fn to_toml(&self) -> String {
        let mut toml = String::new();
        // Writing to a string does not fail.
        let _ = self.write_toml(&mut toml);
        toml
    }

    fn write_toml(&self, to: &mut String) -> fmt::Result {
        let span = |span| quoted(show_duration(span));
        let listen: Vec<_> = self.listen.iter().map(quoted).collect();
        writeln!(to, "listen = [{}]", listen.join(", "))?;
        writeln!(to, "to = {}", quoted(&self.to))?;
        writeln!(to, "workers = {}", self.workers)?;
        writeln!(to, "check_interval = {}", span(self.check_interval))?;
        writeln!(to, "sample_age_max = {}", span(self.sample_age_max))?;
        writeln!(to, "orca = {}", quoted(orca_name(self.orca)))?;
        writeln!(to, "report_with_responses = {}", self.report_with_responses)?;
        writeln!(to, "drain_delay = {}", span(self.drain_delay))?;
        self.connect.write(to)?;
        write_upgrade_protocols(to, &self.upgrade_protocols)?;
        if let Some(tls) = &self.tls {
            tls.write_toml(to, "tls")?;
        }
        write_replica(to, "", &self.replica, self.server_process.field().as_ref())?;
        writeln!(to, "[probe]")?;
        if let Some(address) = self.probe_listen {
            writeln!(to, "listen = {}", quoted(address))?;
        }
        writeln!(to, "path = {}", quoted(&self.probe_path))?;
        if let Some(file) = &self.probe_key_file {
            writeln!(to, "key_file = {}", file_name(file))?;
        }
        writeln!(to)?;
        self.queue.write(to)?;
        write_peers(to, &self.peers)?;
        write_bounds(to, &self.timeouts, &self.limits)?;
        write_admin(to, &self.admin)?;
        write_log(to, &self.log)
    }
}

/// Those keys that do something.
fn write_discovery(to: &mut String, prefix: &str, discovery: &DiscoverySettings) -> fmt::Result {
    let span = |span| quoted(show_duration(span));
    writeln!(to, "[{prefix}discovery]")?;
    match &discovery.source {
        FleetSource::List => (),
        FleetSource::Dns(name @ DnsName::Host(..)) => writeln!(to, "dns = {}", quoted(name))?,
        FleetSource::Dns(name @ DnsName::Service(_)) => writeln!(to, "srv = {}", quoted(name))?,
        FleetSource::File(file) => writeln!(to, "file = {}", file_name(file))?,
    }
    if let FleetSource::Dns(_) = discovery.source {
        writeln!(to, "ttl_min = {}", span(discovery.ttl.min))?;
        writeln!(to, "ttl_max = {}", span(discovery.ttl.max))?;
    }
    if discovery.source != FleetSource::List {
        writeln!(to, "keep_share = {}", discovery.guard.keep_share)?;
        writeln!(to, "keep_time = {}", span(discovery.guard.keep_time))?;
    }
    writeln!(to, "warm_up = {}\n", span(discovery.warm_up))
}

fn write_dns(to: &mut String, dns: &DnsServers) -> fmt::Result {
    let servers: Vec<_> = dns.servers.iter().map(quoted).collect();
    writeln!(to, "[dns]\nservers = [{}]", servers.join(", "))?;
    let timeout = quoted(show_duration(dns.timeout));
    writeln!(to, "timeout = {timeout}\n")
}

/// What is shown may be saved anywhere, and a relative name starts from there.
pub(super) fn file_name(file: &Path) -> String {
    let file = std::path::absolute(file).unwrap_or_else(|_| file.to_owned());
    quoted(file.display())
}

fn write_replica(
    to: &mut String,
    prefix: &str,
    replica: &ReplicaSettings,
    process: Option<&(&'static str, String)>,
) -> fmt::Result {
    let protocol = replica.protocol.as_str(replica.tls.is_some());
    let fields: [(&str, &dyn Display); 2] = [
        ("protocol", &quoted(protocol)),
        ("idle_connections_max", &replica.idle_connections_max),
    ];
    // What an agent does not have is written only where it was said.
    let proxy_protocol = replica
        .proxy_protocol
        .map(|version| quoted(name_of_version(version)));
    let proxy_protocol =
        (proxy_protocol.iter()).map(|name| ("proxy_protocol", name as &dyn Display));
    let connections_max = replica.connections_max.iter();
    let connections_max = connections_max.map(|max| ("connections_max", max as &dyn Display));
    let fields = fields.into_iter().chain(connections_max);
    let process = process.map(|(key, value)| (*key, value as &dyn Display));
    let fields: Vec<_> = fields.chain(proxy_protocol).chain(process).collect();
    write_section(to, &format!("{prefix}replica"), &fields)?;
    let section = format!("{prefix}replica.tls");
    (replica.tls.as_ref()).map_or(Ok(()), |tls| write_replica_tls(to, &section, tls))
}

impl ListenerTls {
    fn write_toml(&self, to: &mut String, section: &str) -> fmt::Result {
        let Self {
            server,
            pass_client_certificate,
            handshakes_max,
        } = self;
        let protocols = server.protocols.iter();
        let protocols: Vec<_> = protocols
            .map(|protocol| quoted(protocol.as_str()))
            .collect();
        writeln!(to, "[{section}]\ncertificates = [")?;
        for files in &server.certificates {
            let (certificate, key) = (file_name(&files.certificate), file_name(&files.key));
            writeln!(to, "  {{ certificate = {certificate}, key = {key} }},")?;
        }
        writeln!(to, "]")?;
        if let Some((clients, required)) = server.clients.as_ref().zip(self.client_certificates()) {
            writeln!(to, "client_ca = {}", file_name(&clients.ca))?;
            writeln!(to, "client_certificates = {}", quoted(required))?;
            writeln!(to, "pass_client_certificate = {pass_client_certificate}")?;
        }
        writeln!(to, "version_min = {}", quoted(server.version_min.as_str()))?;
        writeln!(to, "protocols = [{}]", protocols.join(", "))?;
        writeln!(to, "tickets = {}", server.resumption.tickets)?;
        writeln!(to, "sessions_max = {}", server.resumption.sessions_max)?;
        writeln!(to, "handshakes_max = {handshakes_max}\n")
    }
}

fn write_replica_tls(to: &mut String, section: &str, tls: &ClientTls) -> fmt::Result {
    writeln!(to, "[{section}]")?;
    if let Some(ca) = &tls.ca {
        writeln!(to, "ca = {}", file_name(ca))?;
    }
    if let Some(name) = &tls.server_name {
        writeln!(to, "server_name = {}", quoted(name.to_str()))?;
    }
    if let Some(files) = &tls.identity {
        writeln!(to, "certificate = {}", file_name(&files.certificate))?;
        writeln!(to, "key = {}", file_name(&files.key))?;
    }
    let verify = if tls.verify {
        "true".to_owned()
    } else {
        quoted("insecure")
    };
    writeln!(to, "verify = {verify}\n")
}

fn write_admin(to: &mut String, admin: &AdminSettings) -> fmt::Result {
    let listen = admin.listen.map_or_else(|| quoted("none"), quoted);
    writeln!(to, "[admin]\nlisten = {listen}")?;
    writeln!(to, "connections_max = {}", admin.connections_max)?;
    if let Some((_, file)) = &admin.token {
        writeln!(to, "token_file = {}", file_name(file))?;
    }
    if let Some(max) = admin.metrics_replicas_max {
        writeln!(to, "metrics_replicas_max = {max}")?;
    }
    writeln!(to)
}

fn write_bounds(to: &mut String, t: &Timeouts, l: &Limits) -> fmt::Result {
    let span = |span| quoted(show_duration(span));
    let timeouts: [(&str, &dyn Display); 9] = [
        ("connect", &span(t.connect)),
        ("handshake", &span(t.handshake)),
        ("head", &span(t.head)),
        ("first_byte", &span(t.first_byte)),
        ("stall", &span(t.stall)),
        ("tunnel", &span(t.tunnel)),
        ("idle", &span(t.idle)),
        ("drain", &span(t.drain)),
        ("drain_idle", &span(t.drain_idle)),
    ];
    write_section(to, "timeouts", &timeouts)?;
    let limits: [(&str, &dyn Display); 4] = [
        ("connections_max", &l.connections_max),
        ("streams_max", &l.streams_max),
        ("head_bytes_max", &quoted(show_bytes(l.head_bytes_max))),
        ("head_fields_max", &l.head_fields_max),
    ];
    write_section(to, "limits", &limits)
}

pub(super) fn write_section(
    to: &mut String,
    name: &str,
    fields: &[(&str, &dyn Display)],
) -> fmt::Result {
    writeln!(to, "[{name}]")?;
    for (key, value) in fields {
        writeln!(to, "{key} = {value}")?;
    }
    writeln!(to)
}

pub(super) fn quoted(text: impl Display) -> String {
    toml::Value::String(text.to_string()).to_string()
}
