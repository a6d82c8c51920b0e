//! A service's policy in a recording: its name and all of its settings, in the format of a
//! configuration.

use super::key::KeyRouting;
use super::passive_health::{read_passive_health, write_passive_health};
use super::policies::write_sections;
use super::{PolicySections, ServiceConfig};
use crate::toml_reader::values::{duration, quote, show_duration, whole};
use crate::toml_reader::{Mistakes, Reader, Source};
use core::time::Duration;
use slackwater_core::health::HealthConfig;
use slackwater_core::keys::KeyConfig;
use slackwater_core::policy::{PolicyEntry, PolicySettings, policy_named};

/// A policy from a recording.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RecordedPolicy {
    /// The policy.
    pub entry: &'static PolicyEntry,
    /// Its settings.
    pub settings: PolicySettings,
    /// The settings of passive health.
    pub health: HealthConfig,
    /// The settings of keys; `None` if requests have none.
    pub key: Option<KeyConfig>,
}

/// The longest warm-up by evidence.
const WARM_UP_MAX: &str = "discovery.warm_up";
/// Replicas of a key's set that are probed for it.
const HINT_HOMES: &str = "probe.hint_homes";

impl ServiceConfig {
    /// The settings of the policy and of passive health, in TOML.
    pub fn policy_toml(&self) -> String {
        let warm_up = self.passive_health.warm_up.as_ref();
        let warm_up = warm_up.map_or(Duration::ZERO, |warm_up| warm_up.span_max);
        let mut toml = format!("{WARM_UP_MAX} = {}\n", quote(show_duration(warm_up)));
        if self.key.is_on() {
            let homes = self.probe.hint_homes.to_string();
            toml.extend([HINT_HOMES, " = ", &homes, "\n"]);
            self.key.write_choice(&mut toml);
        }
        toml.push('\n');
        write_sections(&mut toml, "", &self.policy_settings);
        write_passive_health(&mut toml, "", &self.passive_health);
        toml
    }
}

/// Reads the settings of the policy called `name` that [`ServiceConfig::policy_toml`] wrote.
///
/// # Errors
///
/// Fails if there is no such policy, or if another version wrote other settings. The message names
/// the problem.
pub fn read_recorded_policy(name: &str, toml: &str) -> Result<RecordedPolicy, String> {
    let entry = policy_named(name).ok_or_else(|| format!("there is no policy {name:?}"))?;
    let source = Source::new("settings".into(), toml.to_owned());
    let reader = Reader::new(Some(&source), Vec::new());
    let mut reader = reader.map_err(|mistakes| mistakes.in_a_line())?;
    let warm_up = reader.setting(WARM_UP_MAX, Duration::ZERO, "a span of time", duration);
    let settings = PolicySections::read(&mut reader, "").settings;
    let (health, _) = read_passive_health(&mut reader, "", None, warm_up.value);
    let hint_homes = reader.setting(HINT_HOMES, 0, "a number", whole).value;
    let has_keys = reader.has("key");
    let key = KeyRouting::read(&mut reader, "", hint_homes, &mut Vec::new());
    let (_, mistakes) = reader.finish();
    if !mistakes.is_empty() {
        return Err(Mistakes::new(mistakes).in_a_line());
    }
    Ok(RecordedPolicy {
        entry,
        settings,
        health,
        key: has_keys.then_some(key.rule),
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sections::Config;

    fn service(toml: &str) -> ServiceConfig {
        let text = format!("listen = \"127.0.0.1:0\"\nreplicas = [\"127.0.0.1:1\"]\n{toml}");
        let config = Config::of_text("test", text).expect("a valid configuration");
        config.services.into_iter().next().expect("one")
    }

    #[test]
    fn policy_with_all_its_settings_round_trips() {
        for toml in [
            "",
            "policy = \"peak_ewma\"\npeak_ewma.decay = \"3s\"\nerror_aversion.enabled = false\n",
            "policy = \"c3\"\nprequal.probe_rate = 0.123457\nprequal.pool_capacity = 9\nc3.clients = 3\n",
            "error_aversion.enabled = false\nwarm_up.by_evidence = false\n",
            "error_aversion.enabled = false\ndiscovery.warm_up = \"7s\"\nwarm_up.share_min = 0.25\n",
            "key = { by = \"path\", set = 3, partitions = 64, replicate_max = 4 }\nprobe.hint_homes = 1\n",
            "latency_probation = { enabled = true, factor = 9 }\nejection = { trials = 0.01, back_off = \"1500us\", shadow_trials = true }\n",
        ] {
            let service = service(toml);
            let read = read_recorded_policy(service.policy.name, &service.policy_toml());
            let expected = RecordedPolicy {
                entry: service.policy,
                settings: service.policy_settings,
                health: service.passive_health,
                key: service.key.is_on().then_some(service.key.rule),
            };
            assert_eq!(read, Ok(expected), "{toml}");
        }
    }

    #[test]
    fn settings_of_another_version_are_reported() {
        let told = |name, toml| read_recorded_policy(name, toml).expect_err("it is strange");
        assert_eq!(told("swirl", ""), "there is no policy \"swirl\"");
        let strange = told("prequal", "prequal.swirl = 3\n");
        assert!(strange.contains("prequal.swirl"), "{strange}");
    }
}
