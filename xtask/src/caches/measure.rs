//! The measurements of a turn, from what clients saw.

use serde_json::Value;

/// A measurement.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Column {
    /// Share of the requests with a response whose key was in the replica's cache.
    HitRate,
    /// Requests of the replica with the most of them, divided by the mean.
    MaxToMean,
    /// Share of the requests at the replica that has the case's trouble.
    Share,
    P50,
    P99,
    P999,
    /// Share of failed requests.
    Errors,
    /// The generator's own lateness, at its 99th percentile.
    Late,
}

impl Column {
    pub(super) const ALL: [Self; 8] = [
        Self::HitRate,
        Self::MaxToMean,
        Self::Share,
        Self::P50,
        Self::P99,
        Self::P999,
        Self::Errors,
        Self::Late,
    ];

    /// The header of its column.
    pub(super) const fn title(self) -> &'static str {
        match self {
            Self::HitRate => "hits %",
            Self::MaxToMean => "max/mean",
            Self::Share => "its share %",
            Self::P50 => "p50 ms",
            Self::P99 => "p99 ms",
            Self::P999 => "p99.9 ms",
            Self::Errors => "errors %",
            Self::Late => "late ms",
        }
    }

    /// The value in a table cell.
    pub(super) fn written(self, value: f64) -> String {
        match self {
            Self::P50 | Self::P99 | Self::P999 => format!("{value:.0}"),
            Self::HitRate | Self::Share | Self::Late => format!("{value:.1}"),
            Self::MaxToMean | Self::Errors => format!("{value:.2}"),
        }
    }
}

/// The measurements of one turn.
#[derive(Clone, Debug)]
pub(super) struct Found {
    /// What the generator printed.
    pub(super) raw: Value,
    replicas: usize,
    /// Index of the replica that has the case's trouble.
    pub(super) troubled: usize,
}

impl Found {
    /// # Errors
    ///
    /// Fails without a measured request.
    pub(super) fn new(raw: Value, replicas: usize, troubled: usize) -> Result<Self, String> {
        if raw["requests"].as_u64().unwrap_or_default() == 0 {
            return Err(format!("no request was measured: {raw}"));
        }
        Ok(Self {
            raw,
            replicas,
            troubled,
        })
    }

    /// Requests that failed.
    pub(super) fn errors(&self) -> u64 {
        self.raw["errors"].as_u64().unwrap_or_default()
    }

    pub(super) fn of(&self, column: Column) -> Option<f64> {
        let number = |name: &str| self.raw[name].as_f64();
        let answered = number("hits")? + number("misses")?;
        let at = |index: usize| self.raw["by_replica"][index.to_string()].as_f64();
        let value = match column {
            Column::HitRate => number("hits")? / answered * 100.0,
            Column::MaxToMean => {
                let most = (0..self.replicas).filter_map(at).fold(0.0, f64::max);
                most / answered * self.replicas as f64
            }
            Column::Share => at(self.troubled).unwrap_or_default() / answered * 100.0,
            Column::P50 => number("p50_ms")?,
            Column::P99 => number("p99_ms")?,
            Column::P999 => number("p999_ms")?,
            Column::Errors => number("errors")? / number("requests")? * 100.0,
            Column::Late => number("late_p99_ms")?,
        };
        value.is_finite().then_some(value)
    }

    /// A turn in a line.
    pub(super) fn line(&self) -> String {
        let values = Column::ALL.into_iter().filter_map(|column| {
            let value = column.written(self.of(column)?);
            Some(format!("{} {value}", column.title()))
        });
        values.collect::<Vec<_>>().join(", ")
    }
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;
    use serde_json::json;

    /// A turn with this hit rate and p99.
    pub(crate) fn found(hits: u64, p99_ms: f64) -> Found {
        let raw = json!({
            "requests": 110, "hits": hits, "misses": 100 - hits, "errors": 10,
            "by_replica": {"0": 25, "1": 75}, "p50_ms": 7.0, "p99_ms": p99_ms, "p999_ms": 900.0, "late_p99_ms": 1.25,
        });
        Found::new(raw, 4, 1).unwrap()
    }

    #[test]
    fn measurements_are_computed_from_the_counts() {
        let found = found(80, 300.0);
        let of = |column| found.of(column).unwrap();
        for (column, expected) in [
            (Column::HitRate, 80.0),
            (Column::MaxToMean, 3.0),
            (Column::Share, 75.0),
            (Column::P99, 300.0),
            (Column::Errors, 1_000.0 / 110.0),
        ] {
            assert!((of(column) - expected).abs() < 1e-9, "{column:?}");
        }
        assert_eq!(found.errors(), 10);
        assert!(
            found.line().starts_with("hits % 80.0, max/mean 3.00, "),
            "{}",
            found.line()
        );
        let nothing = Found::new(json!({"requests": 0}), 4, 1).unwrap_err();
        assert!(nothing.contains("no request was measured"), "{nothing}");
    }
}
