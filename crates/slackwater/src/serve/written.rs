//! The configuration as written in a file and in flags, with the settings that are set over it at
//! run time.
//!
//! A policy that a cluster chooses must not keep an operator from changing the file. So a policy
//! that the rest of the configuration forbids is refused, and everything else is loaded without it.

use super::Args;
use super::refusals::{Refusal, Refusals};
use crate::process::log_remark;
use core::time::Duration;
use slackwater_config::Fault;
use slackwater_config::toml_reader::{Mistakes, Remark, Source};
use slackwater_config::{ChosenPolicy, Config, Loaded, Overrides, SettingOverrides, Variables};
use slackwater_discovery::file_watch::FileWatch;
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use tokio::task::{JoinError, JoinHandle};
use tokio::time::timeout;

/// The longest wait for the file at a reload: orders and other signals wait as well.
const READ_TIME_MAX: Duration = Duration::from_secs(10);

/// Policies that clusters choose, by service.
pub(super) type Choices = BTreeMap<String, ChosenPolicy>;

/// The written configuration, which may change.
#[derive(Debug)]
pub(super) struct Written {
    file: Option<PathBuf>,
    overrides: Overrides,
    /// `None`: the file is read again only on a signal.
    watch: Option<FileWatch>,
    /// Why the file could not be read at the last reload.
    unreadable: Option<String>,
    /// The last reading of the file, if it has not ended in time.
    reading: Option<JoinHandle<Result<Option<Arc<Source>>, Mistakes>>>,
    /// The text of the file that is in force. Settings at run time are set over this text, and not
    /// over a file that is being edited.
    source: Option<Arc<Source>>,
    /// Settings that are set at run time and in force.
    pub(super) set: SettingOverrides,
    /// Policies of clusters that are not applied.
    pub(super) refusals: Refusals,
    /// Remarks on what is in force.
    remarks: Vec<Remark>,
}

/// A configuration that can be put in force, and its sources.
#[derive(Debug)]
pub(super) struct Read {
    pub(super) loaded: Loaded,
    pub(super) sources: Sources,
}

/// The sources of a configuration.
#[derive(Debug)]
pub(super) struct Sources {
    source: Option<Arc<Source>>,
    pub(super) set: SettingOverrides,
    /// Policies of clusters that the configuration forbids, by service.
    pub(super) refused: Vec<(String, Refusal)>,
    remarks: Vec<Remark>,
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
            unreadable: None,
            reading: None,
            source: None,
            set,
            refusals: Refusals::default(),
            remarks: Vec::new(),
        }
    }

    /// Reads the configuration for the first time. The log does not run yet: log the `refusals`
    /// later.
    pub(super) fn load(&mut self) -> Result<Loaded, Fault> {
        let source = read(self.file.as_deref())?;
        let mut base = self.set.clone();
        let choices = base.take_chosen();
        let Read { loaded, sources } = load_allowed(source, &self.overrides, base, choices)?;
        self.replace(sources, &loaded.config);
        Ok(loaded)
    }

    /// Returns whether there is a file that could be read again.
    pub(super) const fn has_file(&self) -> bool {
        self.file.is_some()
    }

    /// Reads the file again. If it is watched and cannot be read, it is tried again later. This
    /// does not block this thread's other tasks, since a file system may hang, and resolving host
    /// names may take long.
    pub(super) async fn load_again(&mut self) -> Result<Read, Fault> {
        let source = self.read().await;
        self.unreadable = source.as_ref().err().map(Fault::to_string);
        if let Some(watch) = &mut self.watch {
            watch.retry(self.unreadable.is_some());
        }
        self.load_read(source?).await
    }

    /// Like [`load_again`](Self::load_again), but a failure has no consequences.
    pub(super) async fn try_to_load(&mut self) -> Result<Read, Fault> {
        let source = self.read().await?;
        self.load_read(source).await
    }

    async fn load_read(&self, source: Option<Arc<Source>>) -> Result<Read, Fault> {
        let mut base = self.set.clone();
        let choices = base.take_chosen();
        let read = self.load_over(source, base, choices).await?;
        read.map_err(|mistakes| mistakes.fault_without_source("configuration"))
    }

    /// Reads the file. If it hangs, the thread that reads stays blocked, so no other reads until it
    /// ends.
    async fn read(&mut self) -> Result<Option<Arc<Source>>, Fault> {
        let late = |_| Fault::runtime("the configuration cannot be read: its file hangs");
        if let Some(hanging) = &mut self.reading {
            let _ = timeout(READ_TIME_MAX, hanging).await.map_err(late)?;
        }
        let file = self.file.clone();
        let reading = tokio::task::spawn_blocking(move || read(file.as_deref()));
        let reading = self.reading.insert(reading);
        let done = timeout(READ_TIME_MAX, reading).await.map_err(late)?;
        self.reading = None;
        let read = done.map_err(unreadable)?;
        read.map_err(|mistakes| mistakes.fault_without_source("configuration"))
    }

    /// Returns the configuration with these settings in place of the current ones and those of
    /// these policies that it allows, over the file's text that is in force.
    pub(super) async fn load_with(
        &self,
        set: SettingOverrides,
        choices: Choices,
    ) -> Result<Result<Read, Mistakes>, Fault> {
        self.load_over(self.source.clone(), set, choices).await
    }

    async fn load_over(
        &self,
        source: Option<Arc<Source>>,
        base: SettingOverrides,
        choices: Choices,
    ) -> Result<Result<Read, Mistakes>, Fault> {
        let overrides = self.overrides.clone();
        let load = move || load_allowed(source, &overrides, base, choices);
        let loaded = tokio::task::spawn_blocking(load).await;
        loaded.map_err(unreadable)
    }

    /// Logs the remarks on a configuration that those on the current one lack.
    pub(super) fn log_new_remarks(&self, remarks: &[Remark]) {
        let new = remarks.iter().filter(|it| !self.remarks.contains(it));
        new.for_each(log_remark);
    }

    /// Notes what is in force now.
    pub(super) fn take(&mut self, sources: Sources, config: &Config) {
        self.replace(sources, config);
        self.refusals.log();
    }

    /// Notes policies that are not applied.
    pub(super) fn refuse(&mut self, refused: Vec<(String, Refusal)>) {
        for (service, refusal) in refused {
            self.refusals.add(service, refusal);
        }
        self.refusals.log();
    }

    fn replace(&mut self, sources: Sources, config: &Config) {
        self.source = sources.source;
        self.set = sources.set;
        self.remarks = sources.remarks;
        for (service, refusal) in sources.refused {
            self.refusals.add(service, refusal);
        }
        self.refusals.forget_applied(&self.set);
        self.refusals.retain(|service, refused| {
            config.policy_cluster(service).as_ref() == Some(&refused.by)
        });
    }

    /// Waits until the file has changed, or no longer fails to be read as at the last reload;
    /// forever if the file is not watched. Cancel safe.
    pub(super) async fn changed(&mut self) {
        loop {
            let Some(watch) = &mut self.watch else {
                return core::future::pending().await;
            };
            watch.changed().await;
            if self.unreadable.is_none() {
                return;
            }
            // This call may be cancelled while it reads.
            watch.retry(true);
            let failure = self.read().await.err();
            if failure.map(|it| it.to_string()) != self.unreadable {
                return;
            }
        }
    }
}

impl Read {
    fn new(
        loaded: Loaded,
        source: Option<Arc<Source>>,
        mut set: SettingOverrides,
        refused: Vec<(String, Refusal)>,
    ) -> Self {
        set.forget_other_clusters(&loaded.config);
        let sources = Sources {
            source,
            set,
            refused,
            remarks: loaded.remarks.clone(),
        };
        Self { loaded, sources }
    }
}

/// The thread that reads has panicked.
fn unreadable(_: JoinError) -> Fault {
    Fault::runtime("the configuration could not be read")
}

/// Reads the file, if there is one.
fn read(file: Option<&Path>) -> Result<Option<Arc<Source>>, Mistakes> {
    let source = file.map(Source::read).transpose();
    let source = source.map_err(|mistake| Mistakes::new(vec![mistake]))?;
    Ok(source.map(Arc::new))
}

/// Loads the configuration over the settings in `base`, with those of these policies that it
/// allows.
///
/// # Errors
///
/// The configuration cannot be loaded even without these policies.
fn load_allowed(
    source: Option<Arc<Source>>,
    overrides: &Overrides,
    base: SettingOverrides,
    choices: Choices,
) -> Result<Read, Mistakes> {
    let load = |set: &SettingOverrides| Config::load_over(source.as_deref(), overrides, set);
    let mut set = base.clone();
    for (service, chosen) in &choices {
        set.choose(service, chosen.clone());
    }
    let mistakes = match load(&set) {
        Ok(loaded) => return Ok(Read::new(loaded, source, set, Vec::new())),
        Err(mistakes) if choices.is_empty() => return Err(mistakes),
        Err(mistakes) => mistakes,
    };
    // If this fails, too, then no policy is at fault.
    let mut loaded = load(&base)?;
    let (mut set, mut refused) = (base, Vec::new());
    // Each policy is tried beside those that are allowed. The result for a single one is known.
    let mut known = (choices.len() == 1).then_some(mistakes);
    for (service, chosen) in choices {
        if loaded.config.policy_cluster(&service).as_ref() != Some(&chosen.by) {
            continue;
        }
        let mut with = set.clone();
        with.choose(&service, chosen.clone());
        match known.take().map_or_else(|| load(&with), Err) {
            Ok(it) => (loaded, set) = (it, with),
            Err(mistakes) => {
                let why = mistakes.in_a_line();
                refused.push((service, Refusal { chosen, why }));
            }
        }
    }
    Ok(Read::new(loaded, source, set, refused))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::record::RecordArgs;
    use core::pin::pin;
    use futures_util::FutureExt;
    use slackwater_discovery::testing::Folder;
    use tokio::time::advance;

    const PATIENCE: Duration = Duration::from_mins(1);

    /// A file that exists, stays as it is, and cannot be read: a folder.
    fn unreadable() -> Written {
        let args = Args {
            config: Some("src".into()),
            watch: true,
            overrides: Overrides::default(),
            record: RecordArgs::default(),
        };
        Written::new(args, SettingOverrides::default())
    }

    #[tokio::test(start_paused = true)]
    async fn a_file_that_cannot_be_read_is_tried_until_it_can_though_it_is_unchanged() {
        let mut written = unreadable();
        written.load_again().await.expect_err("it is a folder");
        let as_before = timeout(PATIENCE, written.changed()).await;
        as_before.expect_err("each failure is reported once");
        for other in ["no such file", "Cargo.toml"] {
            written.file = Some(other.into());
            let otherwise = timeout(PATIENCE, written.changed()).await;
            otherwise.expect("it is tried again");
            written.load_again().await.expect_err("no configuration");
        }
        let in_vain = timeout(PATIENCE, written.changed()).await;
        in_vain.expect_err("it can be read, and nothing has changed");
    }

    /// A FIFO has an end only once a program has written to it.
    #[tokio::test(start_paused = true)]
    async fn a_file_that_hangs_is_waited_for_ten_seconds() {
        let folder = Folder::new("hangs");
        let fifo = folder.path("fifo");
        let made = std::process::Command::new("mkfifo").arg(&fifo).status();
        assert!(made.expect("a program").success());
        let mut written = unreadable();
        written.file = Some(fifo.clone());
        let mut late = Vec::new();
        for _ in 0..2 {
            let mut loading = pin!(written.load_again());
            for wait in [
                Duration::ZERO,
                Duration::from_millis(9_990),
                Duration::from_millis(20),
            ] {
                advance(wait).await;
                let failure = loading.as_mut().now_or_never().map(Result::err);
                late.push(failure.flatten().map(|fault| fault.to_string()));
            }
        }
        // The runtime waits for the thread that reads.
        std::fs::write(&fifo, "").expect("it is read");
        let hangs = Some("the configuration cannot be read: its file hangs".to_owned());
        assert_eq!(late, [None, None, hangs.clone(), None, None, hangs]);
        let text = "listen = \"127.0.0.1:0\"\nreplicas = [\"127.0.0.1:1\"]\n";
        written.file = Some(folder.write("regular.toml", text));
        written.load_again().await.expect("it is another file now");
    }

    #[tokio::test(start_paused = true)]
    async fn a_file_that_a_dry_run_could_not_read_is_not_tried_again() {
        let mut written = unreadable();
        written.try_to_load().await.expect_err("it is a folder");
        written.file = Some("Cargo.toml".into());
        let again = timeout(PATIENCE, written.changed()).await;
        again.expect_err("nothing has changed");
    }
}
