//! `[subset]`: the part of a large fleet that this process uses.

use super::idle::idle_key;
use super::key::KeyRouting;
use super::sticky::{StickyBy, StickySettings};
use super::variables::Variables;
use crate::table::{Maybe, Number, Or, Within, field, settings};
use crate::toml_reader::{Reader, Remark, Severity};
use slackwater_core::subset::Subset;

/// Highest number of a process.
const INDEX_MAX: u32 = 1 << 20;
/// A smaller subset is no choice.
const SIZE_MIN: u32 = 2;
/// With fewer replicas to choose from, tails are longer: see the how-to page of many proxies.
const SIZE_ADVISED: u32 = 16;

settings! {
    /// The part of the fleet that this process uses.
    #[derive(Copy)]
    pub struct SubsetSettings in "subset" {
        /// The most replicas of each tier that this process connects to and probes ([how
        /// many](../how-to/many-proxies.md)).
        size: Option<u32> = None, Or("all", Within(Number, SIZE_MIN..=65_536));
        /// Number of this process among all proxies of the service, from 0 without gaps, such as
        /// the ordinal of a `StatefulSet`: subsets then overlap evenly. Without it they are random.
        index: Option<Option<u32>> = None, Maybe(Or("none", Within(Number, 0..=INDEX_MAX))), "`SLACKWATER_INDEX`";
    }
}

impl SubsetSettings {
    /// The replicas of a tier that a process uses. A random subset follows from `seed`, which each
    /// process draws once.
    pub fn subset(&self, seed: u64) -> Subset {
        let size = self.size.unwrap_or(0) as usize;
        match self.index.flatten() {
            Some(index) => Subset::numbered(size, index),
            None => Subset::random(size, seed),
        }
    }

    /// Warns about settings that are probably not meant.
    pub(super) fn remarks(
        &self,
        sticky: &StickySettings,
        key: &KeyRouting,
        reader: &Reader<'_>,
        prefix: &str,
    ) -> Vec<Remark> {
        let about_size = |message: String| {
            let definition = reader.definition(&field::<Self>(prefix, "size"))?;
            Some(Remark {
                severity: Severity::Warning,
                about: definition.mistake(message),
            })
        };
        let mut remarks = Vec::new();
        let Some(size) = self.size else {
            let index = field::<Self>(prefix, "index");
            remarks.extend(idle_key(reader, &index, "only with subset.size"));
            return remarks;
        };
        if size < SIZE_ADVISED {
            let few = format!("leaves few replicas to choose from, advised {SIZE_ADVISED} or more");
            remarks.extend(about_size(few));
        }
        let apart = if key.is_on() {
            Some("key.by")
        } else {
            (sticky.by != StickyBy::None).then_some("sticky.by")
        };
        remarks.extend(apart.and_then(|with| {
            let message = format!(
                "gives each proxy other replicas, so with {with} a request finds its replica only at the same proxy"
            );
            about_size(message)
        }));
        remarks
    }
}

/// Numbers those of these subsets that the file does not number, if a variable has a number.
pub(super) fn number<'c>(
    reader: &mut Reader<'_>,
    variables: &Variables,
    subsets: impl Iterator<Item = &'c mut SubsetSettings>,
) {
    let mut random = subsets
        .filter(|subset| subset.size.is_some() && subset.index.is_none())
        .peekable();
    if random.peek().is_none() {
        return;
    }
    let index = variables.index("subset.index", INDEX_MAX);
    if let Some(index) = reader.note(index) {
        random.for_each(|subset| subset.index = index.map(Some));
    }
}
