//! The new process's part: receives the sockets of the old one, and reports when it serves.

use super::channel::{Channel, Purpose};
use core::time::Duration;
use slackwater_config::Fault;
use std::env;
use std::fs::File;
use std::io;
use std::os::fd::{AsFd, OwnedFd};

/// Set if standard input is the channel to a predecessor.
pub(super) const MARK: &str = "SLACKWATER_HAND_OVER";

/// Timeout of the predecessor's messages, all of which it sends at once.
const PATIENCE: Duration = Duration::from_secs(30);

/// The pending report that this process serves.
#[derive(Debug)]
pub(crate) struct Announce(Channel);

impl Announce {
    /// Reports that requests are accepted. It does not matter if the predecessor is gone.
    pub(crate) fn serving(self) {
        if let Err(error) = self.0.send_serving() {
            tracing::warn!(%error, "previous process not notified: it is gone");
        }
    }
}

/// What a predecessor has passed on.
#[derive(Debug)]
pub(super) struct Received {
    pub(super) announce: Announce,
    pub(super) sockets: Vec<(Purpose, OwnedFd)>,
}

/// Receives the sockets of a predecessor, if there is one.
///
/// # Errors
///
/// It sends something unknown, or nothing.
pub(super) fn receive() -> Result<Option<Received>, Fault> {
    if env::var_os(MARK).is_none() {
        return Ok(None);
    }
    let fault = |error: io::Error| {
        Fault::runtime(format!(
            "{MARK} is set, but no sockets come from a running slackwater by standard input: {error}"
        ))
    };
    let channel = channel().map_err(fault)?;
    let sockets = channel.receive_sockets().map_err(fault)?;
    Ok(Some(Received {
        sockets,
        announce: Announce(channel),
    }))
}

/// Takes the channel from standard input, and replaces it with an empty input, so that later
/// readers cannot interfere.
fn channel() -> io::Result<Channel> {
    let stdin = io::stdin();
    let channel = Channel::of(stdin.as_fd().try_clone_to_owned()?, PATIENCE)?;
    rustix::stdio::dup2_stdin(File::open("/dev/null")?)?;
    Ok(channel)
}
