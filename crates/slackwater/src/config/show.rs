//! The configuration in force, written out as a file: every key in its full form, defaults included, host names as the addresses that they
//! resolved to. Loading it again gives the same configuration.

use super::agent::AgentConfig;
use super::log::{write_access_log, write_log};
use super::model::{AdminSettings, Config, Limits, ReplicaSettings, ServiceConfig, Timeouts};
use super::policies::write_sections;
use super::routes::write_routes;
use crate::toml_reader::values::{show_bytes, show_duration};
use core::fmt::{self, Display, Write};
use std::path::Path;

impl Config {
    /// The whole configuration in TOML.
    pub(crate) fn to_toml(&self) -> String {
        let mut toml = String::new();
        // Writing to a string does not fail.
        let _ = self.write_toml(&mut toml);
        toml
    }

    fn write_toml(&self, to: &mut String) -> fmt::Result {
        writeln!(to, "workers = {}\n", self.workers)?;
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
        }
        for service in &self.services {
            service.write_toml(to)?;
        }
        write_routes(to, self)?;
        self.forwarded.write_toml(to)?;
        write_bounds(to, &self.timeouts, &self.limits)?;
        write_admin(to, &self.admin)?;
        write_log(to, &self.log)?;
        write_access_log(to, &self.access_log)
    }
}

impl ServiceConfig {
    fn write_toml(&self, to: &mut String) -> fmt::Result {
        let prefix = &format!("services.{}.", self.name);
        writeln!(to, "[services.{}]", self.name)?;
        writeln!(to, "policy = {}", quoted(self.policy.name))?;
        writeln!(to, "replicas = [")?;
        for replica in &self.replicas {
            let (address, probe) = (quoted(replica.address), quoted(replica.probe_address));
            writeln!(to, "  {{ address = {address}, probe = {probe} }},")?;
        }
        writeln!(to, "]\n")?;
        write_replica(to, prefix, &self.replica)?;
        self.write_probe(to, prefix)?;
        write_sections(to, prefix, &self.policy_settings)?;
        let span = |span| quoted(show_duration(span));
        let timeouts: [(&str, &dyn Display); 2] = [
            ("connect", &span(self.timeouts.connect)),
            ("first_byte", &span(self.timeouts.first_byte)),
        ];
        write_section(to, &format!("{prefix}timeouts"), &timeouts)?;
        self.retries.write(to, prefix)?;
        self.queue.write(to, prefix)?;
        self.health.write(to, prefix)?;
        self.sticky.write(to, prefix)
    }

    fn write_probe(&self, to: &mut String, prefix: &str) -> fmt::Result {
        let transport = quoted(self.probe.transport.as_str());
        writeln!(to, "[{prefix}probe]\ntransport = {transport}")?;
        if let Some(port) = self.probe.port {
            writeln!(to, "port = {port}")?;
        }
        writeln!(to, "path = {}", quoted(&self.probe.path))?;
        if let Some(file) = &self.probe.key_file {
            writeln!(to, "key_file = {}", key_file(file))?;
        }
        writeln!(to)
    }
}

impl AgentConfig {
    /// The whole configuration in TOML.
    pub(crate) fn to_toml(&self) -> String {
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
        writeln!(to, "drain_delay = {}\n", span(self.drain_delay))?;
        write_replica(to, "", &self.replica)?;
        writeln!(to, "[probe]")?;
        if let Some(address) = self.probe_listen {
            writeln!(to, "listen = {}", quoted(address))?;
        }
        writeln!(to, "path = {}", quoted(&self.probe_path))?;
        if let Some(file) = &self.probe_key_file {
            writeln!(to, "key_file = {}", key_file(file))?;
        }
        writeln!(to)?;
        write_bounds(to, &self.timeouts, &self.limits)?;
        write_admin(to, &self.admin)?;
        write_log(to, &self.log)
    }
}

/// What is shown may be saved anywhere, and a relative name starts from there.
fn key_file(file: &Path) -> String {
    let file = std::path::absolute(file).unwrap_or_else(|_| file.to_owned());
    quoted(file.display())
}

fn write_replica(to: &mut String, prefix: &str, replica: &ReplicaSettings) -> fmt::Result {
    let fields: [(&str, &dyn Display); 2] = [
        ("protocol", &quoted(replica.protocol.as_str())),
        ("idle_connections_max", &replica.idle_connections_max),
    ];
    write_section(to, &format!("{prefix}replica"), &fields)
}

fn write_admin(to: &mut String, admin: &AdminSettings) -> fmt::Result {
    let listen = admin.listen.map_or_else(|| quoted("none"), quoted);
    writeln!(to, "[admin]\nlisten = {listen}")?;
    writeln!(to, "connections_max = {}\n", admin.connections_max)
}

fn write_bounds(to: &mut String, t: &Timeouts, l: &Limits) -> fmt::Result {
    let span = |span| quoted(show_duration(span));
    let timeouts: [(&str, &dyn Display); 5] = [
        ("connect", &span(t.connect)),
        ("head", &span(t.head)),
        ("first_byte", &span(t.first_byte)),
        ("idle", &span(t.idle)),
        ("drain", &span(t.drain)),
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
