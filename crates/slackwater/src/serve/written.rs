//! The configuration as written in a file and in flags, with the settings that are set over it at
//! run time.

use super::Args;
use slackwater_config::Fault;
use slackwater_config::toml_reader::{Mistakes, Source};
use slackwater_config::{Config, Loaded, Overrides, SettingOverrides, Variables};
use slackwater_discovery::file_watch::FileWatch;
use std::path::PathBuf;
use std::sync::Arc;

/// The written configuration, which may change.
#[derive(Debug)]
pub(super) struct Written {
    file: Option<PathBuf>,
    overrides: Overrides,
    /// `None`: the file is read again only on a signal.
    watch: Option<FileWatch>,
    /// The text of the file that is in force. Settings at run time are set over this text, and not
    /// over a file that is being edited.
    source: Option<Arc<Source>>,
    /// Settings that are set at run time and in force.
    pub(super) set: SettingOverrides,
}

/// A configuration that can be put in force, and its sources.
#[derive(Debug)]
pub(super) struct Read {
    pub(super) loaded: Loaded,
    source: Option<Arc<Source>>,
    pub(super) set: SettingOverrides,
}

impl Written {
    /// Returns the configuration of these arguments; `set` are the settings at run time from the
    /// start on.
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

    /// Reads the configuration for the first time.
    pub(super) fn load(&mut self) -> Result<Loaded, Fault> {
        let source = self.read()?;
        let loaded = Config::load_over(source.as_deref(), &self.overrides, &self.set)?;
        self.source = source;
        Ok(loaded)
    }

    /// Returns whether there is a file that could be read again.
    pub(super) const fn has_file(&self) -> bool {
        self.file.is_some()
    }

    /// Reads the file again. It does not block this thread's other tasks, since resolving host
    /// names may take long.
    pub(super) async fn load_again(&self) -> Result<Read, Fault> {
        let source = self.read()?;
        Ok(self.load_over(source, self.set.clone()).await??)
    }

    /// Returns the configuration with these settings in place of the current ones, over the file's
    /// text that is in force.
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

    /// Notes what is in force now.
    pub(super) fn take(&mut self, source: Option<Arc<Source>>, set: SettingOverrides) {
        self.source = source;
        self.set = set;
    }

    fn read(&self) -> Result<Option<Arc<Source>>, Mistakes> {
        let source = self.file.as_deref().map(Source::read).transpose();
        let source = source.map_err(|mistake| Mistakes::new(vec![mistake]))?;
        Ok(source.map(Arc::new))
    }

    /// Waits until the file has changed; forever if the file is not watched.
    pub(super) async fn changed(&mut self) {
        match &mut self.watch {
            Some(watch) => watch.changed().await,
            None => core::future::pending().await,
        }
    }
}

impl Read {
    /// The configuration, and its sources.
    pub(super) fn into_parts(self) -> (Loaded, Option<Arc<Source>>, SettingOverrides) {
        (self.loaded, self.source, self.set)
    }
}
