//! A metric with the source of its samples.

use super::metric::{Kind, Label, Metric};
use super::scrape::Scrape;
use super::text::{Format, Samples};

/// A metric with the source of its samples.
#[derive(Debug)]
pub(crate) struct Family {
    pub(crate) metric: Metric,
    pub(super) write: fn(&Scrape<'_>, &mut Samples<'_>),
}

impl Family {
    /// A count that only rises. `name` is without `_total`.
    pub(super) const fn counter(
        name: &'static str,
        help: &'static str,
        labels: &'static [Label],
        write: fn(&Scrape<'_>, &mut Samples<'_>),
    ) -> Self {
        Self::of(Kind::Counter, name, help, labels, write)
    }

    /// A value that rises and falls.
    pub(super) const fn gauge(
        name: &'static str,
        help: &'static str,
        labels: &'static [Label],
        write: fn(&Scrape<'_>, &mut Samples<'_>),
    ) -> Self {
        Self::of(Kind::Gauge, name, help, labels, write)
    }

    /// A histogram of latencies.
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

/// Writes a metric; writes nothing if it has no samples now.
pub(super) fn write_family(
    text: &mut String,
    format: Format,
    family: &'static Family,
    scrape: &Scrape<'_>,
) {
    let mut samples = Samples::new(text, format, &family.metric);
    (family.write)(scrape, &mut samples);
}
