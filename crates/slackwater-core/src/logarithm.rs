//! Binary logarithms as whole numbers, so that two implementations agree bit for bit.

/// Binary places of [`log2`].
pub(crate) const PLACES: u32 = 24;

/// The binary logarithm with [`PLACES`] binary places, rounded down. 0 for 0.
pub(crate) const fn log2(value: u64) -> u64 {
    let Some(whole) = value.checked_ilog2() else {
        return 0;
    };
    let mut log = whole as u64;
    // The mantissa is from 1 to 2, with 31 binary places. Each square that reaches 2 adds a place.
    let mut rest = (value << (63 - whole)) >> 32;
    let mut places = 0;
    while places < PLACES {
        rest = (rest * rest) >> 31;
        let place = rest >> 32;
        rest >>= place;
        log = log << 1 | place;
        places += 1;
    }
    log
}

/// `−log2(fraction / 2^64)` with 56 binary places, for all but the fraction 0, which counts as 1.
///
/// It is fast, since it interpolates between 257 values. It never rises with the fraction, and is
/// too high by less than 0.2 %.
pub(crate) fn minus_log2(fraction: u64) -> u64 {
    let fraction = fraction | 1;
    let zeros = fraction.leading_zeros();
    let mantissa = fraction << zeros;
    let [place, ..] = (mantissa << 1).to_be_bytes();
    let (upper, lower) = (STEPS[usize::from(place)], STEPS[usize::from(place) + 1]);
    let rest = (1 << 32) - (mantissa >> 23 & 0xffff_ffff);
    (((u64::from(zeros) << PLACES) + lower) << 32) + (upper - lower) * rest
}

/// `1 − log2(1 + place / 256)`, with [`PLACES`] binary places.
static STEPS: [u64; 257] = {
    let mut steps = [0; 257];
    let mut place = 0;
    while place < 257 {
        steps[place] = (9 << PLACES) - log2(256 + place as u64);
        place += 1;
    }
    steps
};

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn log2_is_accurate_to_six_digits() {
        for (value, log) in [
            (0, 0),
            (1, 0),
            (2, 1_000_000),
            (3, 1_584_962),
            (10, 3_321_928),
            (1_000_003, 19_931_572),
            (1 << 40, 40_000_000),
            (u64::MAX, 63_999_999),
        ] {
            assert_eq!((log2(value) * 1_000_000) >> PLACES, log, "{value}");
        }
    }

    #[test]
    fn minus_log2_is_at_most_a_five_hundredth_too_high() {
        for (fraction, millionths) in [
            (1 << 63, 1_000_000),
            (1 << 62, 2_000_000),
            (3 << 62, 415_037),
            // 1 − 2^−9, in the middle of the last step, and 1 − 2^−20.
            (u64::MAX << 55, 2_820),
            (u64::MAX << 44, 1),
            (1, 64_000_000),
            (0, 64_000_000),
        ] {
            let found = u128::from(minus_log2(fraction)) * 1_000_000;
            let excess = (found >> 56).checked_sub(millionths);
            assert!(excess <= Some(millionths / 500), "{fraction:x}: {excess:?}");
        }
    }

    #[test]
    fn minus_log2_never_rises() {
        let of = |place: u64| minus_log2(place << 48 | place);
        assert!((1..1 << 16).all(|place| of(place) < of(place - 1)));
        assert!(minus_log2(u64::MAX) < 1 << 32);
    }
}
