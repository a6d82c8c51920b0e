//! Remarks on settings of keys and hints that have no effect.

use super::idle::is_other;
use super::key::KeyRouting;
use super::probe::ProbeSection;
use super::probe_hint::ProbeHint;
use super::sticky::{StickyBy, StickySettings};
use crate::table::field;
use crate::toml_reader::{Definition, Reader, Remark, Severity};
use slackwater_core::policy::{POLICIES, PolicyEntry, Reports};

/// What the remarks on keys depend on.
pub(super) struct KeyUse<'s> {
    pub(super) policy: &'static PolicyEntry,
    pub(super) probe: &'s ProbeSection,
    pub(super) sticky: &'s StickySettings,
    /// The probes of a round, and where they were set.
    pub(super) sync_probes: u8,
    pub(super) sync_probes_at: Option<&'s Definition>,
    /// The number of listed replicas; 0 if the fleet comes from elsewhere.
    pub(super) replicas: usize,
}

impl KeyUse<'_> {
    /// Warns about settings of keys that have no effect.
    pub(super) fn remarks(
        &self,
        key: &KeyRouting,
        reader: &Reader<'_>,
        prefix: &str,
    ) -> Vec<Remark> {
        let warning = |about: Definition, message: String| Remark {
            severity: Severity::Warning,
            about: about.mistake(message),
        };
        let definition = |name| {
            let definition = reader.definition(&field::<KeyRouting>(prefix, name));
            definition.filter(|_| is_other(key, name))
        };
        let mut remarks = Vec::new();
        let mut warn = |about: Option<Definition>, message: String| {
            remarks.extend(about.map(|about| warning(about, message)));
        };
        if key.is_on() {
            if self.policy.reports == Reports::Round {
                // It probes `probe.hint_homes` replicas of the key and compares their loads.
                let mut idle = vec!["set", "replicate_max", "replicate_above", "replicate_time"];
                if key.balance_factor > 0 {
                    idle.push("balance_factor");
                }
                for name in idle {
                    let message = format!(
                        "does nothing with policy = {:?}, whose probes find the load",
                        self.policy.name
                    );
                    warn(definition(name), message);
                }
            } else {
                if self.replicas > 0 && usize::from(key.set) > self.replicas {
                    let replicas = self.replicas;
                    let message = format!("is more than the {replicas} replicas that there are");
                    warn(definition("set"), message);
                }
                for name in ["replicate_above", "replicate_time"] {
                    if key.replicate_max == 1 {
                        let message = "does nothing with replicate_max = 1; set replicate_max = 4";
                        warn(definition(name), message.to_owned());
                    }
                }
            }
            let beside = match self.sticky.by {
                StickyBy::Header => Some("decides only for requests without sticky.header"),
                StickyBy::Address => Some("does nothing beside sticky.by"),
                StickyBy::None | StickyBy::Cookie => None,
            };
            if let Some(effect) = beside {
                let message = format!("{effect}, which decides first; leave one of them out");
                warn(definition("by"), message);
            }
        } else if !key.is_default() {
            let section = reader.section_definition(&format!("{prefix}key"));
            warn(
                section,
                "does nothing without the key by; add by = \"header:x-user\"".to_owned(),
            );
        }
        self.hint_remarks(key, &mut warn);
        self.note_no_random_probe(key, &mut warn);
        remarks
    }

    fn hint_remarks(&self, key: &KeyRouting, warn: &mut impl FnMut(Option<Definition>, String)) {
        let hint = self.probe.hint();
        if *hint != ProbeHint::None && self.policy.reports != Reports::Round {
            let name = self.policy.name;
            let message = format!(
                "does nothing with policy = {name:?}, only with {:?}, which probes for each request",
                with_rounds()
            );
            warn(self.probe.hint_at().cloned(), message);
        } else if *hint == ProbeHint::Key && !key.is_on() {
            let message = "does nothing without keys; set key.by = \"header:x-user\"";
            warn(self.probe.hint_at().cloned(), message.to_owned());
        }
        if self.policy.reports != Reports::Round || !key.is_on() {
            let message = format!(
                "does nothing without key.by and policy = {:?}",
                with_rounds()
            );
            warn(self.probe.hint_homes_at().cloned(), message);
        }
    }

    /// Warns if each probe of a round goes to a home, so that no other replica is ever compared.
    fn note_no_random_probe(
        &self,
        key: &KeyRouting,
        warn: &mut impl FnMut(Option<Definition>, String),
    ) {
        let (homes, probes) = (self.probe.hint_homes(), self.sync_probes);
        if self.policy.reports != Reports::Round || !key.is_on() || homes < probes {
            return;
        }
        let (about, other) = match self.probe.hint_homes_at() {
            Some(about) => (Some(about), format!("sync_probes = {probes}; set it below")),
            None => (
                self.sync_probes_at,
                format!("probe.hint_homes = {homes}; set it above"),
            ),
        };
        let message = format!("leaves no random probe with {other} that");
        warn(about.cloned(), message);
    }
}

/// The policy that probes for each request.
fn with_rounds() -> &'static str {
    let mut policies = POLICIES.iter();
    let found = policies.find(|policy| policy.reports == Reports::Round);
    found.map_or("", |policy| policy.name)
}
