//! The cost of a request: CPU time of one core, drawn from a normal distribution clipped at zero
//! whose standard deviation equals its mean, as in the paper's testbed [Prequal §5.1].
//!
//! The cost belongs to the request, not to the replica that serves it. It follows from the
//! request's number, so two fleets that receive the same numbers have the same work to do.

use core::time::Duration;

use super::draw::{Draws, Stream};

/// The distribution of costs in one world.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Costs {
    seed: u64,
    mean_before_clip: Duration,
}

impl Costs {
    /// Default of `mean_before_clip`: 20 ms of one core, so that the 1 ms of a timer is small
    /// beside a request.
    pub(crate) const MEAN_BEFORE_CLIP: Duration = Duration::from_millis(20);

    /// E max(0, N(1, 1)): what clipping does to the mean.
    const CLIP_FACTOR: f64 = 1.083_315;

    /// Returns costs with this mean and standard deviation before clipping; 0 makes every request
    /// free.
    pub(crate) fn new(seed: u64, mean_before_clip: Duration) -> Self {
        Self {
            seed,
            mean_before_clip,
        }
    }

    /// The mean cost of a request: 1.083 of the mean before clipping.
    pub(crate) fn mean(&self) -> Duration {
        self.mean_before_clip.mul_f64(Self::CLIP_FACTOR)
    }

    /// The cost of request number `number`; the same for every replica of every fleet in this
    /// world.
    pub(crate) fn numbered(&self, number: u64) -> Duration {
        self.draw(&mut Draws::new(self.seed, Stream::NumberedCost, number))
    }

    /// The generator for requests that `replica` receives without a number.
    pub(crate) fn unnumbered_draws(&self, replica: usize) -> Draws {
        Draws::new(self.seed, Stream::UnnumberedCost, replica as u64)
    }

    /// The cost of a request without a number: the next one of `draws`.
    pub(crate) fn draw(&self, draws: &mut Draws) -> Duration {
        self.mean_before_clip
            .mul_f64((1.0 + draws.normal()).max(0.0))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quantiles_are_those_of_the_clipped_normal() {
        let costs = Costs::new(3, Duration::from_millis(20));
        let mut sample: Vec<Duration> = (0..50_000).map(|number| costs.numbered(number)).collect();
        sample.sort_unstable();
        let at = |percent: usize, low_ms: u64, high_ms: u64| {
            let found = sample[percent * 500];
            let range = Duration::from_millis(low_ms)..Duration::from_millis(high_ms);
            assert!(range.contains(&found), "p{percent} is {found:?}");
        };
        assert_eq!(
            sample[7_500],
            Duration::ZERO,
            "16 % of the requests are free"
        );
        at(50, 19, 21);
        at(99, 64, 69);
        let mean = sample.iter().sum::<Duration>() / 50_000;
        assert!(
            mean.abs_diff(costs.mean()) < Duration::from_micros(300),
            "mean {mean:?}"
        );
    }

    #[test]
    fn numbered_requests_cost_the_same_on_each_replica() {
        let (here, there) = (
            Costs::new(3, Costs::MEAN_BEFORE_CLIP),
            Costs::new(3, Costs::MEAN_BEFORE_CLIP),
        );
        assert_eq!(here.numbered(41), there.numbered(41));
        let first = |replica| {
            let mut draws = here.unnumbered_draws(replica);
            (0..8).map(|_| here.draw(&mut draws)).collect::<Vec<_>>()
        };
        assert_eq!(first(1), first(1));
        assert_ne!(first(1), first(2));
    }

    #[test]
    fn a_mean_of_zero_makes_requests_free() {
        assert_eq!(Costs::new(3, Duration::ZERO).numbered(5), Duration::ZERO);
    }
}
