//! Writes the configuration in force as a file: every key in its full form, with defaults, and host
//! names as the addresses that they resolved to. Loading it again gives the same configuration.

use super::agent::AgentConfig;
use super::discovery::FleetSource;
use super::model::{Config, ServiceConfig, Timeouts};
use super::passive_health::write_passive_health;
use super::policies::write_sections;
use super::routes::write_routes;
use super::tie::write_peers;
use super::tracing::write_tracing;
use super::xds::write_xds;
use crate::table;
use crate::toml_reader::values::quote;

impl Config {
    /// The whole configuration in TOML.
    pub fn to_toml(&self) -> String {
        let mut toml = String::new();
        let to = &mut toml;
        self.write_keys(to);
        for listener in &self.listeners {
            listener.write(to);
        }
        for service in &self.services {
            service.write(to);
        }
        write_routes(to, self);
        table::write(to, "", &self.dns);
        write_xds(to, &self.xds);
        table::write(to, "", &self.zone);
        if self.follows_cluster() {
            self.kubernetes.write(to);
        }
        table::write(to, "", &self.forwarded);
        table::write(to, "", &self.timeouts);
        table::write(to, "", &self.limits);
        self.admin.write(to);
        table::write(to, "", &self.log);
        table::write(to, "", &self.access_log);
        table::write(to, "", &self.request_id);
        table::write(to, "", &self.decisions);
        write_tracing(to, &self.tracing);
        toml
    }
}

impl ServiceConfig {
    fn write(&self, to: &mut String) {
        let prefix = &format!("services.{}.", self.name);
        let is_list = self.discovery.source == FleetSource::List;
        let replicas = is_list.then(|| ("replicas", self.shown_replicas()));
        let policy = [("policy", quote(self.policy.name))];
        let keys = policy.into_iter().chain(replicas);
        table::write_keys(to, &format!("services.{}", self.name), keys);
        self.discovery.write(to, prefix);
        table::write(to, prefix, &self.subset);
        self.replica.write(to, prefix, None);
        self.probe.write(to, prefix, self.replica.tls.is_some());
        write_sections(to, prefix, &self.policy_settings);
        let timeouts = table::shown(&self.timeouts);
        let own = timeouts.filter(|(name, _)| Timeouts::OF_SERVICE.contains(name));
        table::write_keys(to, &format!("{prefix}timeouts"), own);
        self.retries.write(to, prefix);
        table::write(to, prefix, &self.hedge);
        table::write(to, prefix, &self.tie);
        table::write(to, prefix, &self.queue);
        table::write(to, prefix, &self.health);
        write_passive_health(to, prefix, &self.passive_health);
        table::write(to, prefix, &self.sticky);
        self.key.write(to, prefix);
    }
}

impl AgentConfig {
    /// The whole configuration in TOML.
    pub fn to_toml(&self) -> String {
        let mut toml = String::new();
        let to = &mut toml;
        self.write_keys(to);
        if let Some(tls) = &self.tls {
            tls.write(to, "");
        }
        self.replica.write(to, "", self.server_process.field());
        self.write_probe(to);
        self.queue.write(to);
        table::write(to, "", &self.hint);
        write_peers(to, &self.peers);
        table::write(to, "", &self.timeouts);
        table::write(to, "", &self.limits);
        self.admin.write(to);
        table::write(to, "", &self.log);
        toml
    }
}
