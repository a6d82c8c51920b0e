//! Converts values to positions on an axis, and places its ticks: at 1, 2 or 5 times a power of
//! ten, or at decades if logarithmic.
//!
//! A scale always has a range above zero, for any values: none, equal ones, or values that are not
//! numbers.

use crate::number::{at_most, significant};

/// A tick and its label.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Tick {
    pub value: f64,
    pub label: String,
}

/// How far a scale extends beyond its values.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Ends {
    /// To the next round number. A linear scale begins at zero unless that would waste most of it.
    Round,
    /// Same as `Round`, and a linear scale always begins at zero.
    FromZero,
    /// Just far enough for a whole mark at the end.
    Tight,
    /// Not at all.
    Exact,
}

/// A range of values along an axis.
#[derive(Clone, Debug)]
pub(super) struct Scale {
    log: bool,
    low: f64,
    high: f64,
    /// Ticks with labels.
    pub ticks: Vec<Tick>,
    /// Lines without labels between the ticks of a logarithmic scale.
    pub minor: Vec<f64>,
}

/// The largest value that can be drawn. Larger ones count as infinite, so that arithmetic stays
/// finite.
const VALUE_MAX: f64 = 1e15;

impl Scale {
    /// Returns a scale of all `values` that it can show, with about `ticks` ticks.
    pub(super) fn new(
        values: impl Iterator<Item = f64>,
        log: bool,
        ends: Ends,
        ticks: usize,
    ) -> Self {
        let shown = values.filter(|&value| can_show(log, value));
        let range = shown.fold(None, |range: Option<(f64, f64)>, value| {
            let (low, high) = range.unwrap_or((value, value));
            Some((low.min(value), high.max(value)))
        });
        if log {
            Self::logarithmic(range, ends, ticks)
        } else {
            Self::linear(range, ends, ticks)
        }
    }

    /// Returns whether the scale can show a value.
    pub(super) fn shows(&self, value: f64) -> bool {
        can_show(self.log, value)
    }

    /// Returns where a value lies between the ends: 0 at the low one, 1 at the high one; beyond
    /// them for values outside.
    pub(super) fn share(&self, value: f64) -> f64 {
        if self.log {
            (value / self.low).log10() / (self.high / self.low).log10()
        } else {
            (value - self.low) / (self.high - self.low)
        }
    }

    /// Returns the value at a share, the inverse of [`Scale::share`].
    pub(super) fn value_at(&self, share: f64) -> f64 {
        if self.log {
            self.low * (self.high / self.low).powf(share)
        } else {
            self.low + share * (self.high - self.low)
        }
    }

    /// Returns the value, or the nearer end if it lies beyond.
    pub(super) fn clamp(&self, value: f64) -> f64 {
        value.clamp(self.low, self.high)
    }

    /// Returns whether a value lies between the ends.
    pub(super) fn contains(&self, value: f64) -> bool {
        (self.low..=self.high).contains(&value)
    }

    fn linear(range: Option<(f64, f64)>, ends: Ends, ticks: usize) -> Self {
        let (mut low, mut high) = range.unwrap_or((0.0, 1.0));
        let from_zero = match ends {
            Ends::Round => low >= 0.0 && low <= 0.6 * high,
            Ends::FromZero => low >= 0.0,
            Ends::Tight | Ends::Exact => false,
        };
        if from_zero {
            low = 0.0;
        }
        let size = high.abs().max(low.abs());
        if high - low <= (1e-9 * size).max(1.0 / VALUE_MAX) {
            let margin = if size < 1.0 / VALUE_MAX {
                1.0
            } else {
                0.5 * size
            };
            (low, high) = (low - margin, high + margin);
        }
        if ends == Ends::Tight {
            let margin = 0.02 * (high - low);
            (low, high) = (low - margin, high + margin);
        }
        let step = step(high - low, ticks);
        if matches!(ends, Ends::Round | Ends::FromZero) {
            low = (low / step + 1e-9).floor() * step;
            high = (high / step - 1e-9).ceil() * step;
        }
        Self {
            log: false,
            low,
            high,
            ticks: linear_ticks(low, high, step),
            minor: Vec::new(),
        }
    }

    fn logarithmic(range: Option<(f64, f64)>, ends: Ends, ticks: usize) -> Self {
        let (mut low, mut high) = range.unwrap_or((1.0, 10.0));
        if high <= low * (1.0 + 1e-9) {
            (low, high) = (low / 2.0, high * 2.0);
        }
        match ends {
            Ends::Round | Ends::FromZero => {
                low = round_below(low);
                high = round_above(high);
            }
            Ends::Tight => {
                let margin = (high / low).powf(0.02);
                (low, high) = (low / margin, high * margin);
            }
            Ends::Exact => {}
        }
        let decades = (high / low).log10();
        // Short ranges have linear ticks, medium ones 1, 2 and 5, and long ones powers of ten.
        let (ticks, minor) = if decades < 0.7 {
            (linear_ticks(low, high, step(high - low, ticks)), Vec::new())
        } else if decades <= 3.0 {
            let labelled = multiples(low, high, &[1.0, 2.0, 5.0]);
            (
                labels(&labelled),
                multiples(low, high, &[3.0, 4.0, 6.0, 7.0, 8.0, 9.0]),
            )
        } else {
            let all = multiples(low, high, &[1.0]);
            let stride = all.len().div_ceil(ticks.max(1)).max(1);
            let labelled: Vec<f64> = all.iter().copied().step_by(stride).collect();
            (
                labels(&labelled),
                if stride == 1 { Vec::new() } else { all },
            )
        };
        Self {
            log: true,
            low,
            high,
            ticks,
            minor,
        }
    }
}

fn can_show(log: bool, value: f64) -> bool {
    value.abs() <= VALUE_MAX && (!log || value >= 1.0 / VALUE_MAX)
}

/// Returns 1, 2 or 5 times a power of ten, so that about `count` of them make up `range`.
fn step(range: f64, count: usize) -> f64 {
    let raw = range / count.max(1) as f64;
    let magnitude = 10f64.powf(raw.log10().floor());
    let factor = [1.0, 2.0, 5.0]
        .into_iter()
        .find(|factor| factor * magnitude >= raw * (1.0 - 1e-9));
    factor.unwrap_or(10.0) * magnitude
}

/// Returns multiples of `step`.
fn linear_ticks(low: f64, high: f64, step: f64) -> Vec<Tick> {
    let decimals = decimals_of(step);
    let mut ticks = Vec::new();
    let mut index = (low / step - 1e-6).ceil();
    while index * step <= high + 1e-6 * step && ticks.len() < 100 {
        let value = index * step;
        ticks.push(Tick {
            value,
            label: at_most(value, decimals).map_or_else(String::new, |text| label(value, &text)),
        });
        index += 1.0;
    }
    ticks
}

/// Returns the decimals that distinguish neighbouring ticks.
fn decimals_of(step: f64) -> usize {
    let mut decimals = 0;
    let mut scaled = step;
    while scaled < 0.999 && decimals < 15 {
        scaled *= 10.0;
        decimals += 1;
    }
    decimals
}

/// Formats a label, with separated thousands.
fn label(value: f64, text: &str) -> String {
    if value.abs() >= 1_000.0 || value < 0.0 {
        significant(value)
    } else {
        text.to_owned()
    }
}

/// Returns `factors` times powers of ten between the ends, in order.
fn multiples(low: f64, high: f64, factors: &[f64]) -> Vec<f64> {
    let mut found = Vec::new();
    let mut decade = low.log10().floor();
    while 10f64.powf(decade) <= high * (1.0 + 1e-9) && found.len() < 1_000 {
        let candidates = factors.iter().map(|factor| factor * 10f64.powf(decade));
        found.extend(
            candidates.filter(|value| (low * (1.0 - 1e-9)..=high * (1.0 + 1e-9)).contains(value)),
        );
        decade += 1.0;
    }
    found
}

fn labels(values: &[f64]) -> Vec<Tick> {
    let tick = |&value: &f64| Tick {
        value,
        label: significant(value),
    };
    values.iter().map(tick).collect()
}

/// Returns the largest of 1, 2 and 5 times a power of ten that is not above `value`.
fn round_below(value: f64) -> f64 {
    let decade = 10f64.powf(value.log10().floor());
    let factor = [5.0, 2.0]
        .into_iter()
        .find(|factor| factor * decade <= value * (1.0 + 1e-9));
    factor.unwrap_or(1.0) * decade
}

/// Returns the smallest of 1, 2 and 5 times a power of ten that is not below `value`.
fn round_above(value: f64) -> f64 {
    let decade = 10f64.powf(value.log10().floor());
    let factor = [1.0, 2.0, 5.0]
        .into_iter()
        .find(|factor| factor * decade >= value * (1.0 - 1e-9));
    factor.unwrap_or(10.0) * decade
}

#[cfg(test)]
#[expect(clippy::float_cmp, reason = "values without any rounding are compared")]
mod tests {
    use super::*;

    fn labels_of(values: &[f64], log: bool, ends: Ends) -> Vec<String> {
        let scale = Scale::new(values.iter().copied(), log, ends, 6);
        scale.ticks.into_iter().map(|tick| tick.label).collect()
    }

    #[test]
    fn linear_ticks_are_round_and_cover_the_values() {
        let cases: [(&[f64], &[&str]); 6] = [
            (&[0.0, 9.3], &["0", "2", "4", "6", "8", "10"]),
            (&[80.0, 345.0], &["0", "100", "200", "300", "400"]),
            (
                &[262.0, 291.0],
                &["260", "265", "270", "275", "280", "285", "290", "295"],
            ),
            (
                &[0.72, 0.98],
                &["0.7", "0.75", "0.8", "0.85", "0.9", "0.95", "1"],
            ),
            (&[-3.0, 3.0], &["−3", "−2", "−1", "0", "1", "2", "3"]),
            (
                &[500.0, 5_000.0],
                &["0", "1,000", "2,000", "3,000", "4,000", "5,000"],
            ),
        ];
        for (values, ticks) in cases {
            assert_eq!(labels_of(values, false, Ends::Round), ticks);
        }
        assert_eq!(
            labels_of(&[9.0, 10.0], false, Ends::FromZero),
            ["0", "2", "4", "6", "8", "10"]
        );
        assert_eq!(
            labels_of(&[0.73, 1.74], false, Ends::Tight),
            ["0.8", "1", "1.2", "1.4", "1.6"]
        );
    }

    #[test]
    fn logarithmic_ticks_are_decades_or_1_2_5_or_finer() {
        let cases: [(&[f64], &[&str]); 4] = [
            (
                &[80.0, 4_900.0],
                &["50", "100", "200", "500", "1,000", "2,000", "5,000"],
            ),
            (&[0.001, 90.0], &["0.001", "0.01", "0.1", "1", "10", "100"]),
            (&[2.1, 4.0], &["2", "2.5", "3", "3.5", "4", "4.5", "5"]),
            (
                &[1e-6, 1e6],
                &["0.000001", "0.001", "1", "1,000", "1,000,000"],
            ),
        ];
        for (values, ticks) in cases {
            assert_eq!(labels_of(values, true, Ends::Round), ticks);
        }
    }

    #[test]
    fn values_map_between_the_ends_of_the_scale() {
        for (log, middle) in [(false, 50.5), (true, 10.0)] {
            let scale = Scale::new([1.0, 100.0].into_iter(), log, Ends::Exact, 6);
            assert_eq!((scale.share(1.0), scale.share(100.0)), (0.0, 1.0));
            assert!((scale.share(middle) - 0.5).abs() < 1e-12);
            assert!(scale.contains(middle) && !scale.contains(101.0));
            assert_eq!(scale.clamp(1e9), 100.0);
            assert!((scale.value_at(scale.share(20.0)) - 20.0).abs() < 1e-12);
        }
    }

    #[test]
    fn any_values_give_a_valid_scale() {
        let odd: [&[f64]; 9] = [
            &[],
            &[f64::NAN, f64::INFINITY, f64::NEG_INFINITY],
            &[0.0],
            &[7.0, 7.0],
            &[-7.0],
            &[1e308, -1e308],
            &[1e15, 1e15 - 1.0],
            &[1e-300, 1e-14],
            &[5e-324],
        ];
        for values in odd {
            for log in [false, true] {
                for ends in [Ends::Round, Ends::FromZero, Ends::Tight, Ends::Exact] {
                    let scale = Scale::new(values.iter().copied(), log, ends, 6);
                    assert!(scale.high > scale.low, "{values:?} {scale:?}");
                    assert!(scale.ticks.len() <= 15, "{values:?} {scale:?}");
                    for value in values.iter().copied().filter(|&value| scale.shows(value)) {
                        let share = scale.share(value);
                        assert!((-1e-6..=1.0 + 1e-6).contains(&share), "{value} {scale:?}");
                    }
                }
            }
        }
    }
}
