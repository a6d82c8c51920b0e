//! What is played: machines with little room, alike or not. Plain data.

/// One machine: a part of a core with a quota, a replica on it, and perhaps a neighbour.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Machine {
    /// CPU for all that is on it, in hundredths of a core.
    pub(super) quota_percent: u64,
    /// Its replica burns so many times the CPU for each request.
    pub(super) slower: u64,
    /// Somebody comes and goes who takes half of it.
    pub(super) has_neighbour: bool,
}

/// A fleet.
#[derive(Debug)]
pub(super) struct Case {
    /// As on the command line.
    pub(super) name: &'static str,
    pub(super) title: &'static str,
    pub(super) machines: Vec<Machine>,
}

/// Of the time, neighbours are there for so much, in the long run.
pub(super) const PRESENCE: f64 = 0.5;

/// What a neighbour takes while it is there: its share is as large as the replica's.
const TAKEN: f64 = 0.5;

/// Replicas: six quotas of a fifth of a core leave four fifths of two cores to whatever is not
/// measured.
const MACHINES: usize = 6;

const PLAIN: Machine = Machine {
    quota_percent: 20,
    slower: 1,
    has_neighbour: false,
};

/// Every case.
pub(super) fn all() -> Vec<Case> {
    vec![
        case("even", "all alike", |_, _| ()),
        case(
            "quota",
            "the second half has half of the quota",
            halve_quota,
        ),
        case(
            "antagonist",
            "the second half has neighbours that come and go, and take half of the CPU while they are there",
            |machine, is_second_half| machine.has_neighbour = is_second_half,
        ),
        case(
            "slow",
            "the second half burns twice the CPU for each request, as older hardware would",
            |machine, is_second_half| machine.slower *= if is_second_half { 2 } else { 1 },
        ),
        {
            let title =
                "the second half has half of the quota, and every second machine has a neighbour";
            let mut mixed = case("mixed", title, halve_quota);
            for machine in mixed.machines.iter_mut().step_by(2) {
                machine.has_neighbour = true;
            }
            mixed
        },
    ]
}

fn halve_quota(machine: &mut Machine, is_second_half: bool) {
    machine.quota_percent /= if is_second_half { 2 } else { 1 };
}

/// `change` is told of each machine whether it is of the second half.
fn case(name: &'static str, title: &'static str, change: fn(&mut Machine, bool)) -> Case {
    let mut machines = vec![PLAIN; MACHINES];
    for (index, machine) in machines.iter_mut().enumerate() {
        change(machine, index >= MACHINES / 2);
    }
    Case {
        name,
        title,
        machines,
    }
}

impl Machine {
    /// Requests of so many seconds of CPU that it can answer per second, in the long run.
    pub(super) fn capacity(&self, cost_seconds: f64) -> f64 {
        let taken = if self.has_neighbour {
            PRESENCE * TAKEN
        } else {
            0.0
        };
        let cores = self.quota_percent as f64 / 100.0 * (1.0 - taken);
        cores / (cost_seconds * self.slower as f64)
    }
}

impl Case {
    /// The same for the whole fleet.
    pub(super) fn capacity(&self, cost_seconds: f64) -> f64 {
        let machines = self.machines.iter();
        machines.map(|machine| machine.capacity(cost_seconds)).sum()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn capacity_is_quota_less_neighbours_by_cost() {
        let capacity = |name: &str| {
            let cases = all();
            let case = cases.iter().find(|case| case.name == name).unwrap();
            let of_each = case.machines.iter().map(|machine| machine.capacity(0.002));
            let of_each: Vec<_> = of_each.collect();
            let sum: f64 = of_each.iter().sum();
            assert!((case.capacity(0.002) - sum).abs() < 1e-9);
            // In tenths, for a sum of binary fractions is not always what it would be on paper.
            let of_each = of_each
                .iter()
                .map(|capacity| (capacity * 10.0).round() / 10.0);
            of_each.collect::<Vec<_>>()
        };
        assert_eq!(capacity("even"), [100.0; 6]);
        assert_eq!(capacity("quota"), [100.0, 100.0, 100.0, 50.0, 50.0, 50.0]);
        assert_eq!(
            capacity("antagonist"),
            [100.0, 100.0, 100.0, 75.0, 75.0, 75.0]
        );
        assert_eq!(capacity("slow"), [100.0, 100.0, 100.0, 50.0, 50.0, 50.0]);
        assert_eq!(capacity("mixed"), [75.0, 100.0, 75.0, 50.0, 37.5, 50.0]);
    }

    #[test]
    fn quotas_leave_half_a_core_of_two_to_the_apparatus() {
        for case in all() {
            let quotas = case.machines.iter().map(|machine| machine.quota_percent);
            assert!(quotas.sum::<u64>() <= 150, "{}", case.name);
        }
    }
}
