//! The configuration: a TOML file, flags, or both, parsed once into valid types.
//!
//! [`Config::load`] is the only way in. It finds as many mistakes as it can before it gives up, and each says where it is
//! (file, line, column, or the flag), which field, what was wrong and what was expected. What is suspicious but valid
//! comes back as a [`Remark`] beside the configuration. Nothing is read again later: a change takes a restart.

mod address;
mod agent;
mod assemble;
mod fleet;
mod mistake;
mod model;
mod overrides;
mod prequal;
mod probe;
mod reader;
mod remarks;
mod show;
mod source;
mod suggest;
#[cfg(test)]
mod tests;
mod values;

pub(crate) use agent::{AgentConfig, AgentOverrides};
pub(crate) use mistake::{Mistakes, Remark, Severity};
pub(crate) use model::{
    AdminSettings, Config, Limits, ProbeSettings, ProbeTransport, ReplicaConfig, ReplicaProtocol,
    ReplicaSettings, Timeouts,
};
pub(crate) use overrides::Overrides;

use assemble::assemble;
use mistake::Mistake;
use reader::Reader;
use source::Source;
use std::path::Path;

/// A valid configuration, and what should be said about it.
#[derive(Clone, Debug)]
pub(crate) struct Loaded {
    /// The configuration.
    pub(crate) config: Config,
    /// What is valid but probably not meant. Whoever serves logs these once.
    pub(crate) remarks: Vec<Remark>,
}

impl Config {
    /// Reads the file, if there is one, lays the flags over it, and checks the result. Host names are resolved here,
    /// once.
    ///
    /// # Errors
    ///
    /// Every mistake found, in the order of the file; a [`Fault`](crate::fault::Fault) by `?`.
    pub(crate) fn load(file: Option<&Path>, flags: &Overrides) -> Result<Loaded, Mistakes> {
        let source = file.map(Source::read).transpose();
        let source = source.map_err(|mistake| Mistakes::new(vec![mistake]))?;
        let reader = Reader::new(source.as_ref(), flags.flags())?;
        if reader.is_empty() && file.is_some() {
            return Err(Mistakes::new(vec![Mistake {
                place: reader.whole_place(),
                field: String::new(),
                message: "is empty, expected at least the keys listen and replicas".to_owned(),
            }]));
        }
        assemble(reader).1
    }
}
