//! A metric with where its samples come from.

use super::metric::{Kind, Label, Metric};
use super::scrape::Scrape;
use super::text::{Format, Samples};

/// One metric, and where its samples come from.
#[derive(Debug)]
pub(crate) struct Family {
    pub(crate) metric: Metric,
    pub(super) write: fn(&Scrape<'_>, &mut Samples<'_>),
}

impl Family {
    /// Something that only rises. `name` is without `_total`.
    pub(super) const fn counter(
        name: &'static str,
        help: &'static str,
        labels: &'static [Label],
        write: fn(&Scrape<'_>, &mut Samples<'_>),
    ) -> Self {
        Self::of(Kind::Counter, name, help, labels, write)
    }

    /// Something that rises and falls.
    pub(super) const fn gauge(
        name: &'static str,
        help: &'static str,
        labels: &'static [Label],
        write: fn(&Scrape<'_>, &mut Samples<'_>),
    ) -> Self {
        Self::of(Kind::Gauge, name, help, labels, write)
    }

    /// Latencies.
    pub(super) const fn histogram(
        name: &'static str,
        help: &'static str,
        labels: &'static [Label],
        write: fn(&Scrape<'_>, &mut Samples<'_>),
    ) -> Self {
        Self::of(Kind::Histogram, name, help, labels, write)
    }

    const fn of(
        kind: Kind,
        name: &'static str,
        help: &'static str,
        labels: &'static [Label],
        write: fn(&Scrape<'_>, &mut Samples<'_>),
    ) -> Self {
        let metric = Metric {
            name,
            kind,
            help,
            labels,
        };
        Self { metric, write }
    }
}

/// Writes a metric; nothing at all if it has no samples now.
pub(super) fn write_family(
    text: &mut String,
    format: Format,
    family: &'static Family,
    scrape: &Scrape<'_>,
) {
    let mut samples = Samples::new(text, format, &family.metric);
    (family.write)(scrape, &mut samples);
}
