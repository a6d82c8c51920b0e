//! The status of `serve` for the admin server: the proxy's state, and what is set at run time.

use super::written::Written;
use crate::log::lost_lines;
use slackwater_admin::{Control, PolicyRefused};
use slackwater_config::SettingOverrides;
use slackwater_proxy::Workers;
use slackwater_telemetry::facts::{Facts, OverrideFacts, StatusSource};
use std::sync::{Arc, Mutex, OnceLock, PoisonError};

/// The status of the proxy, and of the process around it.
#[derive(Debug)]
pub(super) struct Status {
    pub(super) workers: Arc<Workers>,
    /// Settings that are set at run time.
    settings: Mutex<Arc<SettingOverrides>>,
    /// Policies of clusters that are not applied.
    refused: Mutex<Vec<PolicyRefused>>,
    /// The control that carries out changes; absent if changes are impossible.
    control: OnceLock<Control>,
}

impl Status {
    pub(super) fn new(workers: Arc<Workers>) -> Self {
        Self {
            workers,
            settings: Mutex::default(),
            refused: Mutex::default(),
            control: OnceLock::new(),
        }
    }

    /// Replaces the settings that are set at run time, and the policies that are refused.
    pub(super) fn set_settings(&self, written: &Written) {
        let place = self.settings.lock();
        *place.unwrap_or_else(PoisonError::into_inner) = Arc::new(written.set.clone());
        let place = self.refused.lock();
        *place.unwrap_or_else(PoisonError::into_inner) = written.refusals.shown();
    }

    /// Returns the policies of clusters that are not applied.
    pub(super) fn refused(&self) -> Vec<PolicyRefused> {
        let refused = self.refused.lock();
        refused.unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Returns the settings that are set at run time.
    pub(super) fn settings(&self) -> Arc<SettingOverrides> {
        let settings = self.settings.lock();
        Arc::clone(&settings.unwrap_or_else(PoisonError::into_inner))
    }

    /// Sets the control that carries out changes from now on.
    pub(super) fn set_control(&self, control: &Control) {
        let _ = self.control.set(control.clone());
    }

    fn override_facts(&self) -> Option<OverrideFacts> {
        let control = self.control.get()?;
        let count = |all: usize| u64::try_from(all).unwrap_or(u64::MAX);
        let services = self.workers.services();
        let replicas = services.iter().map(|service| service.orders.borrow().len());
        Some(OverrideFacts {
            allowed: control.is_allowed(),
            settings: count(self.settings().len()),
            replicas: count(replicas.sum()),
            refused: control.refused(),
        })
    }
}

impl StatusSource for Status {
    fn facts(&self) -> Facts {
        Facts {
            overrides: self.override_facts(),
            log_lost: lost_lines(),
            ..self.workers.facts()
        }
    }
}
