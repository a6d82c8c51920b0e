//! What the command line says beside, or in place of, a configuration file.
//!
//! Sub-commands that serve flatten [`Overrides`] into their own arguments. A flag that is given wins over the file's key
//! of the same meaning; lists replace, they do not add. Without a file the flags alone are the configuration.

use super::otel_variables::Variables;
use crate::toml_reader::Flag;
use toml::de::DeValue;

/// Flags that stand for configuration keys.
#[derive(Clone, Debug, Default)]
#[cfg_attr(feature = "clap", derive(clap::Args))]
#[expect(
    clippy::doc_markdown,
    reason = "this is what the help shows, without markup"
)]
pub struct Overrides {
    /// Where clients connect [key: listen]
    #[cfg_attr(
        feature = "clap",
        arg(long, value_name = "ADDR:PORT", value_delimiter = ',')
    )]
    pub listen: Vec<String>,
    /// The replicas, separated by commas [key: replicas]
    #[cfg_attr(
        feature = "clap",
        arg(long, value_name = "HOST:PORT,…", value_delimiter = ',')
    )]
    pub replicas: Vec<String>,
    /// Who chooses.
    #[cfg_attr(feature = "clap", arg(long, value_name = "NAME", help = policy_help()))]
    pub policy: Option<String>,
    /// Threads that carry requests [key: workers; default: one for each core]
    #[cfg_attr(
        feature = "clap",
        arg(long, value_name = "N", allow_negative_numbers = true)
    )]
    pub workers: Option<String>,
    /// What carries probes: udp, http or none [key: probe.transport; default: udp]
    #[cfg_attr(feature = "clap", arg(long, value_name = "TRANSPORT"))]
    pub probe: Option<String>,
    /// Where status and metrics are served, or "none" [key: admin.listen; default: 127.0.0.1:9900]
    #[cfg_attr(feature = "clap", arg(long, value_name = "ADDR:PORT"))]
    pub admin: Option<String>,
    /// What is logged: error, warn, info, debug or trace [key: log.level; default: info]
    #[cfg_attr(feature = "clap", arg(long, value_name = "LEVEL"))]
    pub log_level: Option<String>,
    /// What a line of the log looks like: text or json [key: log.format; default: text]
    #[cfg_attr(feature = "clap", arg(long, value_name = "FORMAT"))]
    pub log_format: Option<String>,
    /// Where a line for each request goes: none, stdout, stderr or a file [key: access_log.to; default: none]
    #[cfg_attr(feature = "clap", arg(long, value_name = "WHERE"))]
    pub access_log: Option<String>,
    /// What stands in for keys of `[tracing]`; whoever serves asks the environment.
    #[cfg_attr(feature = "clap", arg(skip))]
    pub variables: Variables,
}

#[cfg(feature = "clap")]
fn policy_help() -> String {
    use slackwater_core::policy::{DEFAULT_POLICY, POLICIES};
    let names: Vec<_> = POLICIES.iter().map(|entry| entry.name).collect();
    let names = names.join(", ");
    let default = DEFAULT_POLICY.name;
    format!("Who chooses: {names} [key: policy; default: {default}]")
}

impl Overrides {
    pub(super) fn flags(&self) -> Vec<Flag<'_>> {
        let flag = |field, name, values| Flag {
            field,
            name,
            values,
        };
        vec![
            flag("listen", "--listen", texts(&self.listen)),
            flag("replicas", "--replicas", texts(&self.replicas)),
            flag("policy", "--policy", texts(&self.policy)),
            flag(
                "workers",
                "--workers",
                self.workers.iter().map(|number| scalar(number)).collect(),
            ),
            flag("probe.transport", "--probe", texts(&self.probe)),
            flag("admin.listen", "--admin", texts(&self.admin)),
            flag("log.level", "--log-level", texts(&self.log_level)),
            flag("log.format", "--log-format", texts(&self.log_format)),
            flag("access_log.to", "--access-log", texts(&self.access_log)),
        ]
    }
}

pub(super) fn texts<'v>(written: impl IntoIterator<Item = &'v String>) -> Vec<DeValue<'v>> {
    written.into_iter().map(|one| text(one)).collect()
}

fn text(written: &str) -> DeValue<'_> {
    DeValue::String(written.into())
}

/// A number if it is one, else the text, which the key's own parser then refuses.
pub(super) fn scalar(written: &str) -> DeValue<'_> {
    match DeValue::parse(written) {
        Ok(value) if value.get_ref().is_integer() => value.into_inner(),
        _ => text(written),
    }
}
