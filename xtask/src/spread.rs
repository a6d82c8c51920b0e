//! Summarizes runs by median and quartiles.

/// Median and quartiles of some numbers.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Spread {
    pub(crate) least: f64,
    /// The lower quartile: a quarter of the numbers is not above it.
    pub(crate) low: f64,
    pub(crate) median: f64,
    /// The upper quartile: a quarter of the numbers is not below it.
    pub(crate) high: f64,
    pub(crate) most: f64,
}

impl Spread {
    /// Returns `None` for no numbers. Each value is one of the numbers; of two in the middle it is
    /// the larger.
    pub(crate) fn of(numbers: impl IntoIterator<Item = f64>) -> Option<Self> {
        let mut numbers: Vec<f64> = numbers.into_iter().collect();
        numbers.sort_by(f64::total_cmp);
        let last = numbers.len().checked_sub(1)?;
        Some(Self {
            least: numbers[0],
            low: numbers[last / 4],
            median: numbers[numbers.len() / 2],
            high: numbers[last - last / 4],
            most: numbers[last],
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn spread_has_median_quartiles_and_extremes() {
        let told = |numbers: &[f64]| {
            let spread = Spread::of(numbers.iter().copied())?;
            Some([
                spread.least,
                spread.low,
                spread.median,
                spread.high,
                spread.most,
            ])
        };
        assert_eq!(told(&[]), None);
        assert_eq!(told(&[3.0]), Some([3.0; 5]));
        assert_eq!(told(&[3.0, 9.0, 1.0]), Some([1.0, 1.0, 3.0, 9.0, 9.0]));
        let nine = [5.0, 1.0, 9.0, 3.0, 7.0, 2.0, 8.0, 4.0, 6.0];
        assert_eq!(told(&nine), Some([1.0, 3.0, 5.0, 7.0, 9.0]));
    }
}
