//! Why a subcommand failed, and its exit code.
//!
//! Exit codes are part of the interface (`slackwater --help` lists them): 0 success, 1 failure
//! while running, 2 invalid arguments or configuration, 130 stopped by the user before the end.

use std::process::ExitCode;

/// The failure of a subcommand. The message says what was wrong, where, and what to do, in lower
/// case and without a full stop.
#[derive(Debug, thiserror::Error)]
pub enum Fault {
    /// The user's arguments or configuration are wrong; nothing was started.
    #[error("{0}")]
    Usage(String),
    /// The machine or a peer failed: a port in use, a file that cannot be written, a failed run.
    #[error("{0}")]
    Runtime(String),
    /// The user stopped it before it had a result.
    #[error("{0}")]
    Interrupted(String),
}

impl Fault {
    /// A mistake in the arguments or the configuration.
    pub fn usage(message: impl Into<String>) -> Self {
        Self::Usage(message.into())
    }

    /// A failure while running.
    pub fn runtime(message: impl Into<String>) -> Self {
        Self::Runtime(message.into())
    }

    /// The exit code of the process.
    pub fn exit_code(&self) -> ExitCode {
        match self {
            Self::Usage(_) => ExitCode::from(2),
            Self::Runtime(_) => ExitCode::from(1),
            Self::Interrupted(_) => ExitCode::from(130),
        }
    }
}

impl From<std::io::Error> for Fault {
    fn from(error: std::io::Error) -> Self {
        Self::runtime(error.to_string())
    }
}
