//! The process's limit of open files: every connection takes a descriptor, and one that goes on to
//! a replica a second one.
//!
//! Many systems start processes with a soft limit of 1,024, for programs that use `select`; whoever
//! doesn't may raise it to the hard limit. Nothing here fails: where raising is not allowed, what
//! there is has to do.

use rustix::process::{Resource, getrlimit, setrlimit};
use slackwater_config::Limits;

/// What every system allows, also those that refuse to lift the limit altogether.
const MODEST: u64 = 10_240;

/// For listeners, runtimes, probes, the log, and connections to the admin server.
const KEPT_BACK: u64 = 128;

/// Raises the limit of open files as far as allowed; what it then is. `None`: there is none.
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

/// So many connections are enough for whoever has not asked for a number.
const UNASKED: u32 = 4_096;

/// Says what `connections_max` promises beyond the limit of open files, if it does. Its default is
/// a bound, not a promise: that is told only where it is far off.
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
    fn each_connection_counts_twice() {
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
