//! The process's limit of open files. Each client connection takes a descriptor, and each
//! connection to a replica another one.
//!
//! Many systems start processes with a soft limit of 1,024, for programs that use `select`. Other
//! programs may raise it to the hard limit. Nothing here fails: if raising is not allowed, the
//! current limit stays.

use rustix::process::{Resource, getrlimit, setrlimit};
use slackwater_config::Limits;

/// A limit that every system allows, also those that do not allow an unlimited number.
const MODEST: u64 = 10_240;

/// Descriptors reserved for listeners, runtimes, probes, the log, and connections to the admin
/// server.
const KEPT_BACK: u64 = 128;

/// Raises the limit of open files as far as allowed. Returns the limit then in force; `None` if
/// there is none.
pub(crate) fn raise_limit() -> Option<u64> {
    let hard = getrlimit(Resource::Nofile).maximum;
    for wanted in [hard, Some(hard.unwrap_or(MODEST).min(MODEST))] {
        let mut limit = getrlimit(Resource::Nofile);
        let is_less = |current: u64| wanted.is_none_or(|wanted| current < wanted);
        if limit.current.is_some_and(is_less) {
            limit.current = wanted;
            let _ = setrlimit(Resource::Nofile, limit);
        }
    }
    getrlimit(Resource::Nofile).current
}

/// The number of connections that is enough if none is configured.
const UNASKED: u32 = 4_096;

/// Returns a remark if `connections_max` exceeds what the limit of open files allows. Its default
/// is a bound and not a promise, so a remark on the default is made only if the limit is far too
/// low.
pub(crate) fn remark(limit: Option<u64>, connections_max: u32) -> Option<String> {
    let limit = limit?;
    let carried = limit.saturating_sub(KEPT_BACK) / 2;
    let is_default = connections_max == Limits::default().connections_max;
    let promised = if is_default { UNASKED } else { connections_max };
    (u64::from(promised) > carried).then(|| {
        format!(
            "limits.connections_max is {connections_max}, but this process may open {limit} files, enough for some \
             {carried} connections with one to a replica each; raise the hard limit (ulimit -Hn, LimitNOFILE= of \
             systemd), or lower limits.connections_max"
        )
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_connection_needs_two_descriptors() {
        assert_eq!(remark(None, u32::MAX), None);
        assert_eq!(remark(Some(1_128), 500), None);
        let told = remark(Some(1_128), 501).expect("one too many");
        assert!(
            told.contains("is 501, but this process may open 1128 files"),
            "{told}"
        );
        assert!(told.contains("some 500 connections"), "{told}");
        assert!(remark(Some(0), 1).is_some());
        assert_eq!(
            remark(Some(20_000), Limits::default().connections_max),
            None
        );
        assert!(remark(Some(1_024), Limits::default().connections_max).is_some());
    }
}
