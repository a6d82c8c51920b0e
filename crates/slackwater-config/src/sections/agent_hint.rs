//! An agent's `[hint]`: the memory of what its server has answered lately.

use crate::table::{self, HOUR, Number, SECOND, Share, Span, Within, millionths, settings};
use crate::toml_reader::{Reader, Remark, Severity};
use core::num::NonZeroUsize;
use core::time::Duration;
use slackwater_core::{LoadScale, Quantile};

settings! {
    /// The memory of hints that the server has answered.
    pub struct HintSettings in "hint" {
        /// Hints of answered requests that the agent remembers: about as many as the server's cache
        /// has entries. 0: none.
        cache_entries: u32 = 0, Within(Number, 0..=10_000_000);
        /// A hint is forgotten this long after its last answer.
        age: Duration = Duration::from_mins(10), Within(Span, SECOND..=AGE_MAX);
        /// The reported load for a probe whose hint is remembered, as a share of the true one.
        scale: Quantile = millionths(330_000), Within(Share, millionths(1_000)..=Quantile::ONE);
    }
}

const AGE_MAX: Duration = HOUR.saturating_mul(24);

impl HintSettings {
    /// Reads the section.
    pub(super) fn read(reader: &mut Reader<'_>, remarks: &mut Vec<Remark>) -> Self {
        let settings: Self = table::read(reader, "");
        if settings.cache_entries == 0
            && let Some(about) = reader.section_definition("hint")
            && reader.definition("hint.cache_entries").is_none()
        {
            remarks.push(Remark {
                severity: Severity::Warning,
                about: about.mistake("does nothing without hint.cache_entries = 100000"),
            });
        }
        settings
    }

    /// The number of hints; `None` if hints are off.
    pub fn entries(&self) -> Option<NonZeroUsize> {
        NonZeroUsize::new(usize::try_from(self.cache_entries).unwrap_or(usize::MAX))
    }

    /// The scale of the load.
    pub fn load_scale(&self) -> LoadScale {
        let parts = u64::from(self.scale.millionths()) * 1024 / 1_000_000;
        LoadScale::from_1024ths(u16::try_from(parts).unwrap_or(u16::MAX))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sections::{AgentConfig, AgentOverrides, LoadedAgent};
    use crate::toml_reader::Source;

    fn load(toml: &str) -> LoadedAgent {
        let text = format!("listen = \"127.0.0.1:1\"\nto = \"127.0.0.1:2\"\n{toml}");
        let source = Source::new("a.toml".into(), text);
        AgentConfig::load_source(Some(&source), &AgentOverrides::default()).expect("valid")
    }

    #[test]
    fn hints_are_off_by_default() {
        let hint = load("").config.hint;
        assert_eq!(hint.entries(), None);
        assert_eq!(hint.load_scale().in_1024ths(), 337);
    }

    #[test]
    fn hints_are_read_and_shown() {
        let toml = "[hint]\ncache_entries = 5000\nage = \"1m\"\nscale = 0.5\n";
        let config = load(toml).config;
        assert_eq!(config.hint.entries().map(NonZeroUsize::get), Some(5000));
        assert_eq!(config.hint.age, Duration::from_mins(1));
        assert_eq!(config.hint.load_scale().in_1024ths(), 512);
        assert!(config.to_toml().contains("[hint]\ncache_entries = 5000\n"));
    }

    #[test]
    fn settings_of_no_hints_are_remarked_on() {
        let told = |toml| load(toml).remarks.iter().map(|it| it.about.to_string()).collect::<Vec<_>>();
        assert!(told("hint.age = \"1m\"\n")[0].contains("does nothing without hint.cache_entries"));
        assert_eq!(told("hint.cache_entries = 0\n"), [""; 0]);
    }
}
