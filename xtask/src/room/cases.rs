//! The cases: fleets of machines with little CPU, equal or unequal. Plain data.

/// A machine: a part of a core with a quota, a replica on it, and optionally a neighbour.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Machine {
    /// CPU quota of the machine, in hundredths of a core.
    pub(super) quota_percent: u64,
    /// Factor on the CPU of its replica's requests.
    pub(super) slower: u64,
    /// Whether a neighbour comes and goes that takes half of it.
    pub(super) has_neighbour: bool,
}

/// A fleet.
#[derive(Clone, Debug)]
pub(super) struct Case {
    /// The name on the command line.
    pub(super) name: &'static str,
    pub(super) title: &'static str,
    pub(super) machines: Vec<Machine>,
}

/// Share of the time for which a neighbour is there, in the long run.
pub(super) const PRESENCE: f64 = 0.5;

/// Share that a neighbour takes while it is there, equal to the replica's.
const TAKEN: f64 = 0.5;

/// Number of replicas: six quotas of a fifth of a core leave four fifths of two cores for
/// everything else.
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

/// Makes a case; `change` receives each machine and whether it is in the second half.
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
    /// Requests per second that it can answer in the long run, if each costs this many seconds of
    /// CPU.
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
    /// Requests per second that the whole fleet can answer.
    pub(super) fn capacity(&self, cost_seconds: f64) -> f64 {
        let machines = self.machines.iter();
        machines.map(|machine| machine.capacity(cost_seconds)).sum()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn capacity_is_quota_minus_neighbours_divided_by_cost() {
        let capacity = |name: &str| {
            let cases = all();
            let case = cases.iter().find(|case| case.name == name).unwrap();
            let of_each = case.machines.iter().map(|machine| machine.capacity(0.002));
            let of_each: Vec<_> = of_each.collect();
            let sum: f64 = of_each.iter().sum();
            assert!((case.capacity(0.002) - sum).abs() < 1e-9);
            // In tenths, because sums of binary fractions are not exact.
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
    fn quotas_leave_half_of_a_core_to_the_measuring_processes() {
        for case in all() {
            let quotas = case.machines.iter().map(|machine| machine.quota_percent);
            assert!(quotas.sum::<u64>() <= 150, "{}", case.name);
        }
    }
}
