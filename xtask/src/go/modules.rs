//! The list of Go modules.

/// A Go module of the tree.
#[derive(Debug)]
pub(super) struct Module {
    /// Its folder, from the root.
    pub(super) folder: &'static str,
    /// The files of dependencies that it is tested with: the oldest and the newest versions.
    pub(super) dependencies: &'static [&'static str],
    /// Its packages that have fuzz targets.
    pub(super) fuzzed: &'static [&'static str],
}

/// The module whose packages replay vectors.
pub(super) const CORE: &Module = &Module {
    folder: "go",
    dependencies: &["go.mod"],
    fuzzed: &["health", "load", "policy", "probe"],
};

/// Every module.
pub(super) const MODULES: &[&Module] = &[
    CORE,
    &Module {
        folder: "go/grpc",
        dependencies: &["go.mod", "go.newest.mod"],
        fuzzed: &[".", "probepb"],
    },
    &Module {
        folder: "go/grpc/interop",
        dependencies: &["go.mod"],
        fuzzed: &[],
    },
    &Module {
        folder: "go/grpc/xdstest",
        dependencies: &["go.mod"],
        fuzzed: &[],
    },
];
