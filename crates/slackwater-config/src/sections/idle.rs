//! Remarks on keys that are set and have no effect, because of what other keys say.

use crate::table::{Section, field};
use crate::toml_reader::{Definition, Reader, Remark, Severity};

/// Returns a remark for each of these keys of a section that is set, because it has no effect.
pub(super) fn idle_keys<S: Section>(
    reader: &Reader<'_>,
    prefix: &str,
    is_idle: impl Fn(&str) -> bool,
    told: &str,
) -> Vec<Remark> {
    let keys = S::KEYS.iter().filter(|key| is_idle(key.name));
    keys.filter_map(|key| idle_key(reader, &field::<S>(prefix, key.name), told))
        .collect()
}

/// As [`idle_keys`], for a section that does nothing while its key `enabled` is not set.
pub(super) fn idle_without_switch<S: Section>(reader: &Reader<'_>, prefix: &str) -> Vec<Remark> {
    if reader.definition(&field::<S>(prefix, "enabled")).is_some() {
        return Vec::new();
    }
    let told = format!("only with {}.enabled = true", S::NAME);
    idle_keys::<S>(reader, prefix, |_| true, &told)
}

/// Whether the value of a key is not its default. A default without effect is no surprise, and each
/// [shown](crate::Config::to_toml) configuration has it.
pub(super) fn is_other<S: Section + Default>(settings: &S, name: &str) -> bool {
    let default = S::default();
    let mut keys = S::KEYS.iter().filter(|key| key.name == name);
    keys.any(|key| key.place.show(settings) != key.place.show(&default))
}

/// Returns a remark if the key is set, because it has no effect.
pub(super) fn idle_key(reader: &Reader<'_>, field: &str, told: &str) -> Option<Remark> {
    Some(idle(&reader.definition(field)?, told))
}

/// The remark on a key that is set there and has no effect.
pub(super) fn idle(definition: &Definition, told: &str) -> Remark {
    Remark {
        severity: Severity::Warning,
        about: definition.mistake(format!("does nothing here, {told}")),
    }
}
