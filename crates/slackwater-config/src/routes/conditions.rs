//! A route's conditions on a request. All of them must hold; a list holds if one of its entries
//! does.

use super::host::HostRule;
use super::path::{Path, PathRule, Reading};
use http::Method;
use http::header::HeaderName;
use slackwater_http::{Fields, Value};

/// The conditions of a route. An empty or absent one always holds.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Conditions {
    /// Listeners, by index, any of which matches; empty: every listener.
    pub listeners: Vec<usize>,
    /// Hosts, any of which matches; empty: every host.
    pub hosts: Vec<HostRule>,
    /// Paths; `None`: every path.
    pub path: Option<PathRule>,
    /// Methods, any of which matches; empty: every method.
    pub methods: Vec<Method>,
    /// Conditions on headers, all of which must hold.
    pub headers: Vec<HeaderRule>,
}

/// A condition on a header.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HeaderRule {
    /// The header field.
    pub name: HeaderName,
    /// The test of its value.
    pub test: HeaderTest,
}

/// A test of a header. If the header is repeated, one of its values must pass.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum HeaderTest {
    /// The header is present, with any value.
    Present,
    /// The header is absent.
    Absent,
    /// The value equals this text, byte for byte.
    Exact(String),
    /// The value begins with this text, byte for byte; never empty.
    Prefix(String),
}

/// The parts of a request that conditions look at.
#[derive(Clone, Copy, Debug)]
pub struct Asked<'r> {
    /// The listener's index.
    pub listener: usize,
    /// The method.
    pub method: &'r Method,
    /// The host, as returned by [`host_of`](super::host_of).
    pub host: &'r str,
    /// The path, without the query.
    pub path: Path<'r>,
    /// The header fields.
    pub headers: &'r Fields,
}

impl Conditions {
    /// Returns whether the conditions hold. Only the path can make the result doubtful.
    pub fn read(&self, asked: &Asked<'_>) -> Reading {
        let hosts = &self.hosts;
        let holds = (self.listeners.is_empty() || self.listeners.contains(&asked.listener))
            && (self.methods.is_empty() || self.methods.contains(asked.method))
            && (hosts.is_empty() || hosts.iter().any(|host| host.matches(asked.host)));
        let reading = match &self.path {
            _ if !holds => Reading::NotMeant,
            None => Reading::Meant,
            Some(path) => path.read(asked.path),
        };
        // Headers are compared last: a client may send thousands, and there may be many routes.
        match reading {
            Reading::NotMeant => Reading::NotMeant,
            _ if !self.headers.iter().all(|rule| rule.holds(asked.headers)) => Reading::NotMeant,
            _ => reading,
        }
    }

    /// Whether one client may send requests that match these conditions and others that match
    /// `other`, to one host at one listener. Compares the conditions one by one, so it may miss
    /// some.
    pub fn shares_clients(&self, other: &Self) -> bool {
        let (mine, others) = (&self.listeners, &other.listeners);
        let any_listener = mine.is_empty() || others.is_empty();
        let overlaps = |one: &HostRule| {
            let mut others = other.hosts.iter();
            others.any(|other| one.covers(other) || other.covers(one))
        };
        (any_listener || mine.iter().any(|listener| others.contains(listener)))
            && (self.hosts.is_empty() || other.hosts.is_empty() || self.hosts.iter().any(overlaps))
    }

    /// Whether these conditions hold for every request that `other` holds for. Compares the
    /// conditions one by one, so it may miss some.
    pub fn covers(&self, other: &Self) -> bool {
        let any_listener = self.listeners.is_empty();
        let any_method = self.methods.is_empty();
        let host_is_covered = |host: &HostRule| self.hosts.iter().any(|own| own.covers(host));
        (any_listener || includes(&self.listeners, &other.listeners))
            && (any_method || includes(&self.methods, &other.methods))
            && (self.hosts.is_empty()
                || !other.hosts.is_empty() && other.hosts.iter().all(host_is_covered))
            && (self.path.as_ref())
                .is_none_or(|own| other.path.as_ref().is_some_and(|path| own.covers(path)))
            && self
                .headers
                .iter()
                .all(|own| other.headers.iter().any(|rule| own.covers(rule)))
    }
}

/// Whether `part` is not empty and `list` contains all of it.
fn includes<T: PartialEq>(list: &[T], part: &[T]) -> bool {
    !part.is_empty() && part.iter().all(|one| list.contains(one))
}

impl HeaderRule {
    fn holds(&self, headers: &Fields) -> bool {
        let mut values = headers.get_all(&self.name).map(Value::as_bytes);
        match &self.test {
            HeaderTest::Present => values.next().is_some(),
            HeaderTest::Absent => values.next().is_none(),
            HeaderTest::Exact(text) => values.any(|value| value == text.as_bytes()),
            HeaderTest::Prefix(text) => values.any(|value| value.starts_with(text.as_bytes())),
        }
    }

    fn covers(&self, other: &Self) -> bool {
        use HeaderTest::{Absent, Exact, Prefix, Present};
        self.name == other.name
            && match (&self.test, &other.test) {
                (Present, test) => *test != Absent,
                (Prefix(own), Exact(text) | Prefix(text)) => text.starts_with(own.as_str()),
                (own, test) => own == test,
            }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use Reading::{Doubtful, Meant, NotMeant};

    fn header(name: &'static str, test: HeaderTest) -> HeaderRule {
        HeaderRule {
            name: HeaderName::from_static(name),
            test,
        }
    }

    fn strict() -> Conditions {
        Conditions {
            listeners: vec![1, 2],
            hosts: vec![
                HostRule::Exact("a.example".to_owned()),
                HostRule::Below("b.example".to_owned()),
            ],
            path: Some(PathRule::prefix("/api")),
            methods: vec![Method::GET, Method::HEAD],
            headers: vec![header("x-canary", HeaderTest::Present)],
        }
    }

    #[test]
    fn all_conditions_must_hold_with_one_match_in_each_list() {
        let conditions = strict();
        let mut headers = Fields::new();
        headers.insert("x-canary", "1");
        let none = Fields::new();
        let asked = Asked {
            listener: 2,
            method: &Method::HEAD,
            host: "x.b.example",
            path: Path::new("/api/x"),
            headers: &headers,
        };
        assert_eq!(conditions.read(&asked), Meant);
        let others = [
            Asked {
                listener: 0,
                ..asked
            },
            Asked {
                method: &Method::POST,
                ..asked
            },
            Asked {
                host: "b.example",
                ..asked
            },
            Asked {
                path: Path::new("/x"),
                ..asked
            },
            Asked {
                headers: &none,
                ..asked
            },
        ];
        for other in &others {
            assert_eq!(conditions.read(other), NotMeant, "{other:?}");
            assert_eq!(Conditions::default().read(other), Meant, "{other:?}");
        }
        let odd = Asked {
            path: Path::new("/api/.."),
            ..asked
        };
        assert_eq!(conditions.read(&odd), Doubtful);
        let odd_elsewhere = Asked { listener: 0, ..odd };
        assert_eq!(conditions.read(&odd_elsewhere), NotMeant);
        assert_eq!(
            Conditions::default().read(&odd),
            Meant,
            "the path is not compared"
        );
    }

    #[test]
    fn field_values_match_exactly_and_any_of_several_suffices() {
        let mut headers = Fields::new();
        headers.append("x-a", "one");
        headers.append("x-a", "two");
        let exact = |text: &str| HeaderTest::Exact(text.to_owned());
        let prefix = |text: &str| HeaderTest::Prefix(text.to_owned());
        for (rule, expected) in [
            (header("x-a", HeaderTest::Present), true),
            (header("x-b", HeaderTest::Present), false),
            (header("x-a", HeaderTest::Absent), false),
            (header("x-b", HeaderTest::Absent), true),
            (header("x-a", exact("two")), true),
            (header("x-a", exact("Two")), false),
            (header("x-a", exact("tw")), false),
            (header("x-a", prefix("tw")), true),
            (header("x-a", prefix("wo")), false),
            (header("x-b", prefix("t")), false),
        ] {
            assert_eq!(rule.holds(&headers), expected, "{rule:?}");
        }
    }

    #[test]
    fn conditions_cover_equal_and_stricter_ones() {
        let all = Conditions::default();
        let strict = strict();
        assert!(all.covers(&all) && all.covers(&strict) && strict.covers(&strict));
        assert!(!strict.covers(&all));
        let loosened: [fn(&mut Conditions); 6] = [
            |c| c.hosts.clear(),
            |c| c.listeners.push(3),
            |c| c.hosts.push(HostRule::Exact("c.example".to_owned())),
            |c| c.path = Some(PathRule::prefix("/")),
            |c| c.methods.clear(),
            |c| c.headers.clear(),
        ];
        for loosen in loosened {
            let mut looser = strict.clone();
            loosen(&mut looser);
            assert!(!strict.covers(&looser), "{looser:?}");
            assert!(looser.covers(&strict), "{looser:?}");
        }
        let exact = |text: &str| header("x-canary", HeaderTest::Exact(text.to_owned()));
        let prefix = |text: &str| header("x-canary", HeaderTest::Prefix(text.to_owned()));
        for (rule, other, expected) in [
            (prefix("a"), exact("ab"), true),
            (prefix("a"), prefix("ab"), true),
            (prefix("ab"), prefix("a"), false),
            (exact("a"), exact("a"), true),
            (exact("a"), exact("b"), false),
            (header("x-canary", HeaderTest::Present), exact("a"), true),
            (
                header("x-canary", HeaderTest::Present),
                header("x-canary", HeaderTest::Absent),
                false,
            ),
            (header("x-other", HeaderTest::Present), exact("a"), false),
        ] {
            assert_eq!(rule.covers(&other), expected, "{rule:?} {other:?}");
        }
    }
}
