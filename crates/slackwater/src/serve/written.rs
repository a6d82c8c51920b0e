//! The configuration as it is written, in a file and in flags, and what is set over it at run time.

use super::Args;
use slackwater_config::Fault;
use slackwater_config::toml_reader::{Mistakes, Source};
use slackwater_config::{Config, Loaded, Overrides, SettingOverrides, Variables};
use slackwater_discovery::file_watch::FileWatch;
use std::path::PathBuf;
use std::sync::Arc;

/// The configuration as it is written, which may change.
#[derive(Debug)]
pub(super) struct Written {
    file: Option<PathBuf>,
    overrides: Overrides,
    /// Absent: only a signal says that it is to be read again.
    watch: Option<FileWatch>,
    /// The file's text that is in force. What is set at run time is set over that, and not over
    /// what somebody is writing.
    source: Option<Arc<Source>>,
    /// What is in force of that.
    pub(super) set: SettingOverrides,
}

/// A configuration that may be taken, and what it comes from.
#[derive(Debug)]
pub(super) struct Read {
    pub(super) loaded: Loaded,
    source: Option<Arc<Source>>,
    pub(super) set: SettingOverrides,
}

impl Written {
    /// `set` is what is set at run time from the start on.
    pub(super) fn new(args: Args, set: SettingOverrides) -> Self {
        let Args {
            config,
            watch,
            mut overrides,
            record: _,
        } = args;
        overrides.variables = Variables::of_process();
        let watched = config.iter().filter(|_| watch).cloned();
        let watched: Vec<_> = watched.collect();
        Self {
            watch: (!watched.is_empty()).then(|| FileWatch::new(watched)),
            file: config,
            overrides,
            source: None,
            set,
        }
    }

    /// Reads it for the first time.
    pub(super) fn load(&mut self) -> Result<Loaded, Fault> {
        let source = self.read()?;
        let loaded = Config::load_over(source.as_deref(), &self.overrides, &self.set)?;
        self.source = source;
        Ok(loaded)
    }

    /// Whether there is a file that could be read again.
    pub(super) const fn has_file(&self) -> bool {
        self.file.is_some()
    }

    /// Reads the file again, beside whoever else is on this thread: host names may take their time.
    pub(super) async fn load_again(&self) -> Result<Read, Fault> {
        let source = self.read()?;
        Ok(self.load_over(source, self.set.clone()).await??)
    }

    /// What would be in force with these settings in place of those that are set now; the file is
    /// as it is in force.
    pub(super) async fn load_with(
        &self,
        set: SettingOverrides,
    ) -> Result<Result<Read, Mistakes>, Fault> {
        self.load_over(self.source.clone(), set).await
    }

    async fn load_over(
        &self,
        source: Option<Arc<Source>>,
        set: SettingOverrides,
    ) -> Result<Result<Read, Mistakes>, Fault> {
        let overrides = self.overrides.clone();
        let load = move || {
            let loaded = Config::load_over(source.as_deref(), &overrides, &set)?;
            Ok(Read {
                loaded,
                source,
                set,
            })
        };
        let loaded = tokio::task::spawn_blocking(load).await;
        loaded.map_err(|_| Fault::runtime("the configuration could not be read"))
    }

    /// What was read is in force.
    pub(super) fn take(&mut self, source: Option<Arc<Source>>, set: SettingOverrides) {
        self.source = source;
        self.set = set;
    }

    fn read(&self) -> Result<Option<Arc<Source>>, Mistakes> {
        let source = self.file.as_deref().map(Source::read).transpose();
        let source = source.map_err(|mistake| Mistakes::new(vec![mistake]))?;
        Ok(source.map(Arc::new))
    }

    /// Waits until the file has changed; for ever, where nobody looks.
    pub(super) async fn changed(&mut self) {
        match &mut self.watch {
            Some(watch) => watch.changed().await,
            None => core::future::pending().await,
        }
    }
}

impl Read {
    /// The configuration, and the rest.
    pub(super) fn into_parts(self) -> (Loaded, Option<Arc<Source>>, SettingOverrides) {
        (self.loaded, self.source, self.set)
    }
}
