//! What is built: the machines, and the two variants of the command.

/// A kind of machine.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Target {
    /// Rust's name.
    pub(crate) triple: &'static str,
    /// The name of Debian, and also of container images.
    pub(crate) architecture: &'static str,
    /// Rust's name of the processor.
    pub(crate) processor: &'static str,
}

impl Target {
    /// Whether this machine runs its programs.
    pub(crate) fn is_here(self) -> bool {
        cfg!(target_os = "linux") && self.processor == std::env::consts::ARCH
    }
}

/// The targets of a release. Their programs are static, so they run on every Linux.
pub(crate) const TARGETS: [Target; 2] = [
    Target {
        triple: "x86_64-unknown-linux-musl",
        architecture: "amd64",
        processor: "x86_64",
    },
    Target {
        triple: "aarch64-unknown-linux-musl",
        architecture: "arm64",
        processor: "aarch64",
    },
];

/// The target of this machine's own toolchain, for `--short`.
///
/// # Errors
///
/// A release has no target for this processor.
pub(crate) fn host() -> Result<Target, String> {
    let triple = match std::env::consts::ARCH {
        "x86_64" => "x86_64-unknown-linux-gnu",
        "aarch64" => "aarch64-unknown-linux-gnu",
        other => return Err(format!("a release has no target for {other}")),
    };
    let same = |target: &&Target| target.processor == std::env::consts::ARCH;
    let target = TARGETS.iter().find(same);
    target
        .map(|target| Target { triple, ..*target })
        .ok_or_else(|| "a release has no target for this machine".to_owned())
}

/// What a build of the command contains.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Variant {
    /// Every feature.
    Full,
    /// The agent alone, for a sidecar's image.
    Agent,
}

impl Variant {
    /// Both.
    pub(crate) const ALL: [Self; 2] = [Self::Full, Self::Agent];

    /// The beginning of the names of its files, and the name of its image.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Full => "slackwater",
            Self::Agent => "slackwater-agent",
        }
    }

    /// Cargo's arguments.
    pub(crate) fn features(self) -> &'static [&'static str] {
        match self {
            Self::Full => &[],
            Self::Agent => &["--no-default-features"],
        }
    }
}
