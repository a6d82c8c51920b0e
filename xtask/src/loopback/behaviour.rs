//! The behaviour of a replica's process, and its form as arguments.

/// The behaviour. Times are in milliseconds, shares in percent.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Behaviour {
    /// Concurrent requests; others wait in order.
    pub(crate) room: u64,
    /// Time for a request.
    pub(crate) service_ms: u64,
    /// Time for a request whose path begins with [`LONG`].
    pub(crate) long_ms: u64,
    /// Factor on the time of requests from SIGUSR1 to SIGUSR2.
    pub(crate) slower: u64,
    /// Share of requests that are answered with 500 at once, from SIGUSR1 to SIGUSR2.
    pub(crate) fails_percent: u64,
    /// Share of requests that take `stall_ms` longer.
    pub(crate) stalls_percent: u64,
    /// See `stalls_percent`.
    pub(crate) stall_ms: u64,
    /// Factor on the time of requests at the start of the process.
    pub(crate) cold_slower: u64,
    /// Time until that factor has fallen to 1.
    pub(crate) warm_ms: u64,
    /// Size of a response's body; 0 is a short text.
    pub(crate) body_bytes: u64,
    /// Responses are like those of gRPC, with a trailer, unless it is 0.
    pub(crate) trailers: u64,
    /// Seed of its random draws.
    pub(crate) seed: u64,
}

/// Paths of long requests begin with this.
pub(crate) const LONG: &str = "/long";

impl Default for Behaviour {
    fn default() -> Self {
        Self {
            room: 1,
            service_ms: 10,
            long_ms: 100,
            slower: 1,
            fails_percent: 0,
            stalls_percent: 0,
            stall_ms: 1_000,
            cold_slower: 1,
            warm_ms: 0,
            body_bytes: 0,
            trailers: 0,
            seed: 1,
        }
    }
}

type Field = fn(&mut Behaviour) -> &mut u64;

const FIELDS: [(&str, Field); 12] = [
    ("--room", |behaviour| &mut behaviour.room),
    ("--service-ms", |behaviour| &mut behaviour.service_ms),
    ("--long-ms", |behaviour| &mut behaviour.long_ms),
    ("--slower", |behaviour| &mut behaviour.slower),
    ("--fails-percent", |behaviour| &mut behaviour.fails_percent),
    ("--stalls-percent", |behaviour| {
        &mut behaviour.stalls_percent
    }),
    ("--stall-ms", |behaviour| &mut behaviour.stall_ms),
    ("--cold-slower", |behaviour| &mut behaviour.cold_slower),
    ("--warm-ms", |behaviour| &mut behaviour.warm_ms),
    ("--body-bytes", |behaviour| &mut behaviour.body_bytes),
    ("--trailers", |behaviour| &mut behaviour.trailers),
    ("--seed", |behaviour| &mut behaviour.seed),
];

/// Upper bound of every field, so that sums and products of a few do not overflow.
const FIELD_MAX: u64 = 1_000_000;

impl Behaviour {
    /// The arguments from which [`parse`](Self::parse) makes it again.
    pub(crate) fn arguments(&self) -> Vec<String> {
        let mut copy = self.clone();
        let mut argument =
            |(name, field): (&str, Field)| [name.to_owned(), field(&mut copy).to_string()];
        FIELDS.into_iter().flat_map(&mut argument).collect()
    }

    /// Parses arguments; missing ones have their default.
    pub(super) fn parse(arguments: &[String]) -> Result<Self, String> {
        let mut behaviour = Self::default();
        for pair in arguments.chunks(2) {
            let field = FIELDS.iter().find(|(name, _)| *name == pair[0]);
            let (_, field) =
                field.ok_or_else(|| format!("{:?} is not an option of a replica", pair[0]))?;
            let value = pair.get(1).and_then(|value| value.parse().ok());
            let value = value.filter(|value| *value <= FIELD_MAX);
            *field(&mut behaviour) =
                value.ok_or_else(|| format!("{}: expected a number up to {FIELD_MAX}", pair[0]))?;
        }
        Ok(behaviour)
    }

    /// Time in milliseconds that a request takes.
    pub(super) fn serves_ms(&self, asked: &Asked) -> u64 {
        let service = if asked.is_long {
            self.long_ms
        } else {
            self.service_ms
        };
        let slower = if asked.in_trouble { self.slower } else { 1 };
        // Decreases linearly, so that the process reaches its normal speed without a jump.
        let left_ms = self.warm_ms.saturating_sub(asked.age_ms);
        let colder = self.cold_slower.saturating_sub(1) * service * left_ms;
        let cold = colder.checked_div(self.warm_ms).unwrap_or(0);
        let stall = if asked.draw_percent < self.stalls_percent {
            self.stall_ms
        } else {
            0
        };
        service * slower + cold + stall
    }

    /// Whether a request is answered with 500 at once.
    pub(super) fn fails(&self, asked: &Asked) -> bool {
        asked.in_trouble && asked.draw_percent < self.fails_percent
    }
}

/// The inputs that decide how a request is served.
#[derive(Clone, Debug, Default)]
pub(super) struct Asked {
    pub(super) is_long: bool,
    /// Whether the last signal was SIGUSR1.
    pub(super) in_trouble: bool,
    /// Age of the process.
    pub(super) age_ms: u64,
    /// Random draw, from 0 to 99.
    pub(super) draw_percent: u64,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn arguments_round_trip() {
        let mut behaviour = Behaviour::default();
        for (number, (_, field)) in (100..).zip(FIELDS) {
            *field(&mut behaviour) = number;
        }
        assert_eq!(Behaviour::parse(&behaviour.arguments()), Ok(behaviour));
        assert_eq!(Behaviour::parse(&[]), Ok(Behaviour::default()));
        for (arguments, expected) in [
            (&["--rom", "1"][..], "\"--rom\" is not an option"),
            (&["--room"], "--room: expected a number"),
        ] {
            let arguments: Vec<_> = arguments.iter().map(ToString::to_string).collect();
            let message = Behaviour::parse(&arguments).unwrap_err();
            assert!(message.contains(expected), "{message}");
        }
    }

    #[test]
    fn a_request_takes_the_configured_time() {
        let behaviour = Behaviour {
            slower: 10,
            fails_percent: 50,
            stalls_percent: 1,
            cold_slower: 11,
            warm_ms: 1_000,
            ..Behaviour::default()
        };
        let warm = Asked {
            age_ms: 1_000,
            draw_percent: 50,
            ..Asked::default()
        };
        let serves = |change: fn(&mut Asked)| {
            let mut asked = warm.clone();
            change(&mut asked);
            (behaviour.serves_ms(&asked), behaviour.fails(&asked))
        };
        assert_eq!(serves(|_| ()), (10, false));
        assert_eq!(serves(|asked| asked.is_long = true), (100, false));
        assert_eq!(serves(|asked| asked.in_trouble = true), (100, false));
        assert_eq!(serves(|asked| asked.age_ms = 0), (110, false));
        assert_eq!(serves(|asked| asked.age_ms = 500), (60, false));
        assert_eq!(serves(|asked| asked.draw_percent = 1), (10, false));
        assert_eq!(serves(|asked| asked.draw_percent = 0), (1_010, false));
        let trouble = Asked {
            in_trouble: true,
            draw_percent: 49,
            ..warm.clone()
        };
        assert!(behaviour.fails(&trouble));
    }
}
