//! Test vectors: seeded scenarios, played through the policies and the tracker of slackwater-core.
//!
//! An implementation in another language plays the same lines and must return the same results. The
//! same arguments give the same bytes on every machine. `vectors/policy/README.md` describes the
//! lines.

#![forbid(unsafe_code)]

mod canonical;
mod chance;
mod families;
mod file;
mod habits;
mod key_table;
mod keys;
mod line;
mod load;
mod machine;
mod numbers;
mod player;
mod settings;
mod world;

pub use canonical::counter_names;
pub use file::{Amount, Difference, File, LONG, files};

use chance::Chance;
use habits::Habits;
use keys::Keys;
use line::Object;
use player::Player;
use slackwater_core::health;
use slackwater_core::policy::PolicyEntry;
use world::World;

/// What a set of scenarios has in common.
#[derive(Clone, Copy, Debug)]
struct Family {
    /// The policy.
    entry: &'static PolicyEntry,
    /// Whether health is around it.
    guarded: bool,
    /// Whether keys are around all of that.
    keyed: bool,
}

impl Family {
    /// Its name, which is that of its file.
    fn name(&self) -> String {
        let suffix = if self.guarded { "-guarded" } else { "" };
        format!("{}{suffix}", self.entry.name)
    }

    /// The name of its scenario `number`. No two are the same.
    fn scenario_name(&self, number: u64) -> String {
        let prefix = if self.keyed { "keys-" } else { "" };
        format!("{prefix}{}-{number}", self.name())
    }

    /// Plays its scenario `number`, with this many `events`, and returns the lines.
    fn scenario(&self, number: u64, events: u64) -> String {
        let name = self.scenario_name(number);
        let family = name.strip_suffix(&format!("-{number}")).unwrap_or(&name);
        // Scenarios of different families have nothing in common.
        let mut seeds = Chance::new(canonical::fnv1a(family).wrapping_add(number));
        let seed = seeds.number();
        let mut chance = Chance::new(seeds.number());
        let settings = settings::policies(&mut chance, self.entry.may_be_local());
        let mut header = Object::new();
        header.text("scenario", &name);
        let config = self.guarded.then(|| settings::health(&mut chance));
        let policy = match &config {
            Some(config) => health::build(self.entry, &settings, config),
            None => (self.entry.build)(&settings),
        };
        header.text("policy", policy.name());
        header.number("seed", seed);
        header.object("settings", settings::policy_text(self.entry, &settings));
        if let Some(config) = &config {
            header.object("health", settings::health_text(config));
        }
        let mut keys = self.keyed.then(|| Keys::of(&name));
        let config = keys.as_mut().map(Keys::settings);
        let policy = match &config {
            Some(config) => slackwater_core::keys::keyed(policy, config),
            None => policy,
        };
        if let Some(config) = &config {
            header.object("key", keys::text(config));
        }
        let player = Player::new(policy, seed, &header.finish(), self.keyed);
        let habits = Habits::drawn(&mut chance, self.guarded, number >= LONG);
        World::new(chance, player, habits, keys).play(events)
    }
}
