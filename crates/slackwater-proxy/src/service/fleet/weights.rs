//! Weights as parts: a policy sees a replica of weight three as three replicas at one address.
//!
//! Only the ratio of weights matters, so they are divided by their greatest common divisor. If that
//! leaves too many parts, they are rounded.

/// Maximum number of parts of one replica. A weight below 1/128 of the largest counts as 1/128.
const PARTS_MAX: u32 = 128;

/// Maximum number of parts of a fleet, unless it has more replicas.
const FLEET_PARTS_MAX: u64 = 1 << 18;

/// Returns the number of parts of each replica; 0 for a weight of 0.
pub(crate) fn parts(weights: &[u32]) -> Vec<u32> {
    let common = weights
        .iter()
        .fold(0, |common, &weight| gcd(common, weight));
    let largest = weights
        .iter()
        .max()
        .map_or(0, |largest| largest / common.max(1));
    let sum: u64 = weights
        .iter()
        .map(|weight| u64::from(weight / common.max(1)))
        .sum();
    // The largest replica gets as many parts as the fleet's limit allows.
    let fitting = u64::from(largest) * FLEET_PARTS_MAX / sum.max(1);
    let most = u64::from(largest.min(PARTS_MAX)).min(fitting.max(1));
    let of = |&weight: &u32| {
        let part = u64::from(weight) * most;
        let whole = u64::from(largest) * u64::from(common);
        let rounded = (part + whole / 2) / whole.max(1);
        u32::try_from(rounded)
            .unwrap_or(PARTS_MAX)
            .max(u32::from(weight > 0))
    };
    weights.iter().map(of).collect()
}

const fn gcd(a: u32, b: u32) -> u32 {
    if b == 0 { a } else { gcd(b, a % b) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn weights_are_reduced_to_their_ratio() {
        assert_eq!(parts(&[1, 1, 1]), [1, 1, 1]);
        assert_eq!(parts(&[60, 60]), [1, 1]);
        assert_eq!(parts(&[10, 20, 30]), [1, 2, 3]);
        assert_eq!(parts(&[3, 0, 1]), [3, 0, 1]);
        assert_eq!(parts(&[0, 5]), [0, 1]);
        assert_eq!(parts(&[0, 0]), [0, 0]);
        assert!(parts(&[]).is_empty());
    }

    #[test]
    fn too_many_parts_are_rounded_to_at_least_1() {
        assert_eq!(parts(&[65_535, 1]), [128, 1]);
        assert_eq!(parts(&[1000, 500, 3]), [128, 64, 1]);
        let mut many = vec![65_535; 65_536];
        many[0] = 1;
        let parts = parts(&many);
        let sum: u64 = parts.iter().copied().map(u64::from).sum();
        assert!(sum <= FLEET_PARTS_MAX + 65_536, "{sum}");
        assert_eq!((parts[0], parts[1]), (1, 4));
    }
}
