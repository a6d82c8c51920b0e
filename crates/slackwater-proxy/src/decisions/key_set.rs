//! The set of a request's key, as it is stored and reported.

use super::names::name_of;
use crate::request_record::Directory;
use core::fmt::{self, Write};
use serde::Serialize;
use slackwater_core::policy::{KeyChoice, KeyServer};

/// What the choice for the request's key was made from.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[cfg_attr(feature = "schema", schemars(rename = "DecisionKey"))]
pub(super) struct KeySet {
    /// Partition of the key; absent without partitions.
    #[serde(skip_serializing_if = "Option::is_none")]
    partition: Option<u16>,
    /// Number of the first replicas of the set that are its homes.
    homes: u8,
    /// The set, in its order.
    set: Vec<KeyReplica>,
}

/// A replica of the key's set.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[cfg_attr(feature = "schema", schemars(rename = "DecisionKeyReplica"))]
struct KeyReplica {
    /// Name of the replica.
    replica: String,
    /// Requests in flight as reported, plus those that this worker has sent there since.
    load: u64,
    /// The load from which it gets no more requests of its keys; absent without a bound.
    #[serde(skip_serializing_if = "Option::is_none")]
    cap: Option<u64>,
    /// Whether this request avoided the replica; absent if not.
    #[serde(skip_serializing_if = "core::ops::Not::not")]
    avoided: bool,
}

impl KeySet {
    pub(super) fn of(choice: &KeyChoice, directory: Option<&dyn Directory>) -> Self {
        let replica = |server: &KeyServer| KeyReplica {
            replica: name_of(server.replica, directory),
            load: server.load,
            cap: server.cap,
            avoided: server.avoided,
        };
        Self {
            partition: choice.partition,
            homes: choice.homes,
            set: choice.set().iter().map(replica).collect(),
        }
    }

    /// Memory use in bytes, beside the value itself.
    pub(super) fn bytes(&self) -> usize {
        let replica = |it: &KeyReplica| size_of::<KeyReplica>() + it.replica.len();
        self.set.iter().map(replica).sum()
    }

    /// Writes a line such as `key: home a (2 in flight, cap 2); set b (0, cap 2), c (0, cap 2)`.
    pub(super) fn write(&self, to: &mut String) -> fmt::Result {
        write!(to, "     key")?;
        if let Some(partition) = self.partition {
            write!(to, " in partition {partition}")?;
        }
        let (homes, others) = self
            .set
            .split_at_checked(self.homes.into())
            .unwrap_or((&self.set, &[]));
        let list = |replicas: &[KeyReplica]| {
            let replicas: Vec<_> = replicas.iter().map(KeyReplica::in_words).collect();
            replicas.join(", ")
        };
        let plural = if homes.len() == 1 { "" } else { "s" };
        write!(to, ": home{plural} {}", list(homes))?;
        if !others.is_empty() {
            write!(to, "; set {}", list(others))?;
        }
        writeln!(to)
    }
}

impl KeyReplica {
    fn in_words(&self) -> String {
        let cap = match self.cap {
            Some(cap) if self.load >= cap => format!(" of {cap}, busy"),
            Some(cap) => format!(" of {cap}"),
            None => String::new(),
        };
        let avoided = if self.avoided { ", avoided" } else { "" };
        format!("{} ({} in flight{cap}{avoided})", self.replica, self.load)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn replica(name: &str, load: u64, cap: Option<u64>, avoided: bool) -> KeyReplica {
        KeyReplica {
            replica: name.to_owned(),
            load,
            cap,
            avoided,
        }
    }

    #[test]
    fn set_is_described_in_its_order() {
        let mut text = String::new();
        let mut set = KeySet {
            partition: Some(7),
            homes: 1,
            set: vec![
                replica("a", 3, Some(3), false),
                replica("b", 0, Some(3), true),
                replica("c", 1, None, false),
            ],
        };
        set.write(&mut text).expect("text");
        assert_eq!(
            text,
            "     key in partition 7: home a (3 in flight of 3, busy); \
             set b (0 in flight of 3, avoided), c (1 in flight)\n"
        );
        set.homes = 3;
        text.clear();
        set.write(&mut text).expect("text");
        assert!(text.contains(": homes a (") && !text.contains("; set"), "{text}");
    }
}
