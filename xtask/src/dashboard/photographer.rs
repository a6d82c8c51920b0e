//! Takes pictures of the dashboard for other chores.

use super::browser::{self, Browser};
use super::tab::{Tab, View};
use super::{BOTH, Theme, WINDOW};
use crate::loopback::processes::Processes;
use core::net::SocketAddr;
use std::fs;
use std::path::{Path, PathBuf};

/// A browser, and a folder for pictures.
pub(crate) struct Photographer {
    browser: Browser,
    shots: PathBuf,
}

impl Photographer {
    /// Starts a browser, whose own files go into `folder`.
    pub(crate) fn start(
        processes: &Processes,
        folder: &Path,
        shots: &Path,
    ) -> Result<Self, String> {
        fs::create_dir_all(shots).map_err(|error| format!("{}: {error}", shots.display()))?;
        let chromium = browser::find(processes)?;
        Ok(Self {
            browser: Browser::start(processes, &chromium, folder)?,
            shots: shots.to_owned(),
        })
    }

    /// Takes a picture of the dashboard at `admin` in each theme.
    pub(crate) fn shoot(&self, admin: SocketAddr, name: &str) -> Result<(), String> {
        let mut tab = Tab::open(&self.browser, admin, WINDOW)?;
        for &theme in BOTH {
            let dark = theme == Theme::Dark;
            tab.look(View { dark, ..WINDOW })?;
            let theme = if dark { "dark" } else { "light" };
            tab.shoot(&self.shots.join(format!("{name}-{theme}.png")))?;
        }
        tab.close()
    }
}
