//! Chooses one of several services, by weight.

use slackwater_core::Draw;
use slackwater_core::draw::below;

/// Services that share a route's requests.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Split {
    /// Indices of services, and weights from 0 to 65,535, of which at least one is not 0.
    parts: Vec<(usize, u16)>,
    sum: u32,
}

impl Split {
    /// The most services of one route. The sum of this many weights cannot overflow.
    pub const PARTS_MAX: usize = 64;

    /// Returns `None` if all weights are 0, or if there are too many parts.
    pub fn new(parts: Vec<(usize, u16)>) -> Option<Self> {
        let sum = parts.iter().map(|(_, weight)| u32::from(*weight)).sum();
        let fits = sum > 0 && parts.len() <= Self::PARTS_MAX;
        fits.then_some(Self { parts, sum })
    }

    /// All requests to one service.
    pub fn one(service: usize) -> Self {
        Self {
            parts: vec![(service, 1)],
            sum: 1,
        }
    }

    /// Each service by its index, with its weight.
    pub fn parts(&self) -> &[(usize, u16)] {
        &self.parts
    }

    /// Chooses a service in proportion to the weights, with one draw; with none if there is no
    /// choice.
    pub fn choose(&self, draw: &mut (impl Draw + ?Sized)) -> usize {
        if let [(service, _)] = *self.parts {
            return service;
        }
        let mut left = below(draw, self.sum);
        for &(service, weight) in &self.parts {
            match left.checked_sub(u32::from(weight)) {
                Some(rest) => left = rest,
                None => return service,
            }
        }
        // Unreachable: the draw is below the sum.
        self.parts.last().map_or(0, |(service, _)| *service)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shares_follow_the_weights_and_weight_0_gets_nothing() {
        let split = Split::new(vec![(7, 0), (4, 95), (2, 0), (9, 5), (1, 0)]).expect("a split");
        let mut counts = [0; 10];
        for step in 0..100_u64 {
            // Draws that cover the range evenly.
            let draw = step * (u64::MAX / 100) + 1_000;
            counts[split.choose(&mut || draw)] += 1;
        }
        assert_eq!((counts[4], counts[9]), (95, 5));
        assert_eq!(split.choose(&mut || 0), 4);
        assert_eq!(split.choose(&mut || u64::MAX), 9);
    }

    #[test]
    fn one_service_needs_no_draw_and_zero_weights_are_invalid() {
        let mut draws = 0;
        let chosen = Split::one(3).choose(&mut || {
            draws += 1;
            0
        });
        assert_eq!((chosen, draws), (3, 0));
        assert_eq!(Split::new(vec![(0, 0), (1, 0)]), None);
        assert_eq!(Split::new(Vec::new()), None);
        let many = vec![(0, u16::MAX); Split::PARTS_MAX];
        assert!(Split::new(many.clone()).is_some());
        assert_eq!(Split::new([many, vec![(1, 1)]].concat()), None);
    }
}
