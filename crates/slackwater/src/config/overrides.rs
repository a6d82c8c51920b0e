//! What the command line says beside, or in place of, a configuration file.
//!
//! Sub-commands that serve flatten [`Overrides`] into their own arguments. A flag that is given wins over the file's key
//! of the same meaning; lists replace, they do not add. Without a file the flags alone are the configuration.

/// Flags that stand for configuration keys.
#[derive(Clone, Debug, Default, clap::Args)]
pub(crate) struct Overrides {
    /// Where clients connect [key: listen]
    #[arg(long, value_name = "ADDR:PORT", value_delimiter = ',')]
    pub(crate) listen: Vec<String>,
    /// The replicas, separated by commas [key: replicas]
    #[arg(long, value_name = "HOST:PORT,…", value_delimiter = ',')]
    pub(crate) replicas: Vec<String>,
    /// Who chooses: prequal, prequal_sync, least_loaded, round_robin, random [key: policy; default: prequal]
    #[arg(long, value_name = "NAME")]
    pub(crate) policy: Option<String>,
    /// Threads that carry requests [key: workers; default: one for each core]
    #[arg(long, value_name = "N")]
    pub(crate) workers: Option<String>,
    /// What carries probes: udp, http or none [key: probe.transport; default: udp]
    #[arg(long, value_name = "TRANSPORT")]
    pub(crate) probe: Option<String>,
    /// Where status and metrics are served, or "none" [key: admin.listen; default: 127.0.0.1:9900]
    #[arg(long, value_name = "ADDR:PORT")]
    pub(crate) admin: Option<String>,
}
