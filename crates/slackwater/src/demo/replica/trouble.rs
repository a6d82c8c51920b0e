//! The faults that a user gives a replica, in addition to the load of its neighbours.

/// What is wrong with a replica.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum Fault {
    /// Nothing.
    #[default]
    None,
    /// It is gone: connections end, new ones are refused, probes are not answered.
    Killed,
    /// It accepts connections and requests and does nothing, as if stopped with SIGSTOP; probes are
    /// not answered.
    Stalled,
    /// It answers a part of its requests with 503 at once, and probes as usual.
    Failing {
        /// Percentage of failing requests, 1 to 100.
        percent: u8,
    },
}

impl Fault {
    /// The names of all faults. The index of each is its number in live data.
    pub(crate) const NAMES: [&'static str; 4] = ["none", "killed", "stalled", "failing"];

    /// Its index in [`NAMES`](Self::NAMES).
    pub(crate) const fn code(self) -> u8 {
        match self {
            Self::None => 0,
            Self::Killed => 1,
            Self::Stalled => 2,
            Self::Failing { .. } => 3,
        }
    }

    /// The percentage of requests that fail at once.
    pub(crate) const fn failing_percent(self) -> u8 {
        match self {
            Self::Failing { percent } => percent,
            Self::None | Self::Killed | Self::Stalled => 0,
        }
    }

    /// Returns whether probes are answered.
    pub(crate) const fn answers_probes(self) -> bool {
        matches!(self, Self::None | Self::Failing { .. })
    }
}

/// All that is wrong with a replica.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Trouble {
    /// Percentage of its machine that a noisy neighbour takes, up to
    /// [`TAKEN_PERCENT_MAX`](Self::TAKEN_PERCENT_MAX).
    pub(crate) taken_percent: u8,
    /// The replica's own fault.
    pub(crate) fault: Fault,
}

impl Trouble {
    /// Largest value of `taken_percent`.
    pub(crate) const TAKEN_PERCENT_MAX: u8 = 95;

    /// What is wrong, as text; `None` if nothing is.
    pub(crate) fn words(self) -> Option<String> {
        let fault = match self.fault {
            Fault::None => None,
            Fault::Killed => Some("killed".to_owned()),
            Fault::Stalled => Some("stalled".to_owned()),
            Fault::Failing { percent } => Some(format!("fails {percent} %")),
        };
        let taken = self.taken_percent;
        let taken = (taken > 0).then(|| format!("{taken} % taken"));
        match (fault, taken) {
            (Some(fault), Some(taken)) => Some(format!("{fault} and {taken}")),
            (fault, taken) => fault.or(taken),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn faults_have_codes_and_descriptions() {
        let told = |taken_percent, fault: Fault| {
            let trouble = Trouble {
                taken_percent,
                fault,
            };
            (Fault::NAMES[usize::from(fault.code())], trouble.words())
        };
        let some = |words: &str| Some(words.to_owned());
        assert_eq!(told(0, Fault::None), ("none", None));
        assert_eq!(told(80, Fault::None), ("none", some("80 % taken")));
        assert_eq!(told(0, Fault::Killed), ("killed", some("killed")));
        assert_eq!(
            told(5, Fault::Stalled),
            ("stalled", some("stalled and 5 % taken"))
        );
        let failing = Fault::Failing { percent: 50 };
        assert_eq!(told(0, failing), ("failing", some("fails 50 %")));
        assert_eq!(
            (failing.failing_percent(), Fault::Killed.failing_percent()),
            (50, 0)
        );
    }
}
