//! The configuration: a TOML file, flags, or both, parsed once into valid types.
//!
//! The entry points are [`Config::load_over`] and [`AgentConfig::load`]. Each finds as many
//! mistakes as it can before it gives up. Each mistake names its place (file, line, column, or the
//! flag), the field, what was wrong and what was expected. A suspicious but valid setting adds a
//! [`Remark`] beside the configuration.

mod address;
mod admin;
mod agent;
mod agent_hint;
mod agent_queue;
mod assemble;
mod cluster_policy;
mod collector_headers;
mod connect;
mod decisions;
mod discovery;
mod files;
mod fleet;
mod fleet_file;
mod forwarded;
mod health;
mod hedge;
mod idle;
mod json_value;
mod key;
mod key_use;
mod kinds;
mod kubernetes;
mod listeners;
mod log;
mod model;
mod network;
mod overrides;
mod pages;
mod passive_health;
mod policies;
mod probe;
mod probe_hint;
mod proxy_protocol;
mod queue;
mod recorded;
mod remarks;
mod replica;
mod request_id;
mod retries;
mod routes;
mod run_time;
mod server_process;
mod services;
mod show;
mod sticky;
mod subset;
mod variables;

#[cfg(test)]
mod tests;
mod tie;
mod tls;
mod tracing;
mod upgrade_protocols;
mod xds;
mod zone;

pub use address::{OwnAddresses, ReplicaAddress, unreachable};
pub use admin::{AdminSettings, AdminToken};
pub use agent::{AgentConfig, AgentOverrides, LoadedAgent, OrcaForm, OrcaReports};
pub use agent_hint::HintSettings;
pub use cluster_policy::ClusterPolicy;
pub use collector_headers::CollectorHeaders;
pub use connect::Connect;
pub use decisions::DecisionSettings;
pub use discovery::{
    DiscoverySettings, DnsName, DnsServers, FleetSource, GuardSettings, REPLICAS_MAX, TtlBounds,
};
pub use fleet_file::read_fleet_file;
pub use forwarded::ForwardedSettings;
pub use health::{HealthCheck, HealthSettings, Thresholds};
pub use hedge::HedgingSettings;
pub use key::{KeyRouting, KeySeed, KeySource};
pub use kubernetes::{KubernetesService, KubernetesSettings, PodPort, Topology};
pub use log::{
    AccessLogFormat, AccessLogSettings, AccessLogTarget, LogFormat, LogLevel, LogSettings,
};
pub use model::{
    Config, Limits, ListenerConfig, ProbeTransport, ReplicaConfig, ServiceConfig, Timeouts,
};
pub use network::Network;
pub use overrides::Overrides;
pub use pages::{agent_json_schema, json_schema, restart_keys};
pub use passive_health::read_played_health;
pub use policies::PolicySections;
pub use probe_hint::ProbeHint;
pub use queue::QueueSettings;
pub use recorded::{RecordedPolicy, read_recorded_policy};
pub use replica::{ReplicaProtocol, ReplicaSettings};
pub use request_id::{RequestIdSettings, holds_secrets};
pub use retries::RetrySettings;
pub use run_time::{ChosenPolicy, PolicyCluster, SettingOverride, SettingOverrides};
pub use server_process::ServerProcess;
pub use sticky::{SameSite, StickyBy, StickySettings};
pub use subset::SubsetSettings;
pub use tie::{TieDelay, TyingSettings};
pub use tls::ListenerTls;
pub use tracing::{CollectorProtocol, Endpoint, ParentRule, TracingSettings};
pub use variables::Variables;
pub use xds::XdsSettings;
pub use zone::{Zone, ZoneSettings};

use crate::toml_reader::{Mistake, Mistakes, Place, Reader, Remark, Source};
use assemble::assemble;

/// A valid configuration, with remarks about it.
#[derive(Clone, Debug)]
pub struct Loaded {
    /// The configuration.
    pub config: Config,
    /// Remarks on settings that are valid but probably not meant. `serve` logs them once.
    pub remarks: Vec<Remark>,
    /// The services without a `policy` key, which use the default.
    pub policies_unnamed: Vec<String>,
}

/// Whether a file belongs to `slackwater agent`: only such a file has the key `to`. Any other is of
/// `slackwater serve`.
///
/// # Errors
///
/// The text is not TOML.
pub fn belongs_to_agent(source: &Source) -> Result<bool, Mistakes> {
    let reader = Reader::new(Some(source), Vec::new())?;
    Ok(reader.section_definition("to").is_some())
}

impl Config {
    /// Applies the flags over a file that has been read, if there is one, and the overrides set at
    /// run time over both, and checks the result. Host names are resolved here, once. Policies of
    /// clusters that the file does not name any more are ignored.
    ///
    /// # Errors
    ///
    /// Returns every mistake found, in the order of the file; `?` converts them to a
    /// [`Fault`](crate::fault::Fault).
    pub fn load_over(
        source: Option<&Source>,
        flags: &Overrides,
        set: &SettingOverrides,
    ) -> Result<Loaded, Mistakes> {
        let flags_given = flags.flags();
        let are_flags_empty = flags_given.iter().all(|flag| flag.values.is_empty());
        source.map_or(Ok(()), |source| Self::refuse_empty(source, are_flags_empty))?;
        let mut reader = Reader::new(source, flags_given)?;
        reader.suggest(crate::table::FOREIGN_NAMES);
        reader.suggest(policies::foreign_names::KEYS);
        set.put_over(&mut reader);
        let loaded = assemble(reader, &flags.variables).1?;
        // The control plane is known only now: its address may be in a bootstrap file.
        let mut fitting = set.clone();
        fitting.forget_other_clusters(&loaded.config);
        if fitting.chosen() == set.chosen() {
            return Ok(loaded);
        }
        Self::load_over(source, flags, &fitting)
    }

    /// Refuses an empty file, which has probably been truncated, and one of comments that is
    /// `alone`, without flags.
    fn refuse_empty(source: &Source, alone: bool) -> Result<(), Mistakes> {
        let is_nothing = |line: &str| line.is_empty() || alone && line.starts_with('#');
        if !source.text().lines().all(|line| is_nothing(line.trim())) {
            return Ok(());
        }
        Err(Mistakes::new(vec![Mistake {
            place: Place::File(source.file().to_owned()),
            field: String::new(),
            message: "is empty, expected at least the keys listen and replicas".to_owned(),
        }]))
    }

    /// Reads a configuration from text, as if a file of this name had it.
    ///
    /// # Errors
    ///
    /// Returns the same errors as [`Self::load_over`].
    pub fn of_text(name: &str, text: String) -> Result<Self, Mistakes> {
        let source = Source::new(name.into(), text);
        let loaded = Self::load_source(Some(&source), &Overrides::default())?;
        Ok(loaded.config)
    }

    /// Like [`Self::load_over`], without overrides set at run time.
    ///
    /// # Errors
    ///
    /// Returns the same errors.
    pub fn load_source(source: Option<&Source>, flags: &Overrides) -> Result<Loaded, Mistakes> {
        Self::load_over(source, flags, &SettingOverrides::default())
    }
}
