//! What `slackwater check` says about a configuration of `slackwater agent`.

use super::{Valid, admin, tls};
use slackwater_config::toml_reader::{Mistakes, Source};
use slackwater_config::{AgentConfig, AgentOverrides, LoadedAgent};

/// Reads a configuration.
pub(super) fn read(source: &Source, show: bool) -> Result<Valid, Mistakes> {
    let LoadedAgent { config, remarks } =
        AgentConfig::load_source(Some(source), &AgentOverrides::default())?;
    let text = if show {
        config.to_toml()
    } else {
        summary(&config)
    };
    Ok(Valid { remarks, text })
}

/// Returns a few lines that summarize the configuration.
fn summary(config: &AgentConfig) -> String {
    let listen: Vec<_> = config.listen.iter().map(ToString::to_string).collect();
    let listen = listen.join(", ");
    let tls = config.tls.as_ref().map_or_else(String::new, tls);
    let signed = config.probe_key.as_ref().map_or("", |_| ", signed,");
    let probes =
        (config.probe_listen).map_or_else(|| listen.clone(), |address| address.to_string());
    format!(
        "  agent before {} over {}, workers {}, listening at {listen}{tls}\n  \
         probes by udp{signed} at {probes}, by http at {}\n  {}\n",
        config.to,
        (config.replica.protocol).as_str(config.replica.tls.is_some()),
        config.workers,
        config.probe_path,
        admin(&config.admin),
    )
}
