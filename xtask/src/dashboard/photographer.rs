//! Pictures of the dashboard for other chores.

use super::browser::{self, Browser};
use super::tab::{Tab, View};
use super::{BOTH, Theme, WINDOW};
use crate::loopback::processes::Processes;
use core::net::SocketAddr;
use std::fs;
use std::path::{Path, PathBuf};

/// A browser, and a folder for its pictures.
pub(crate) struct Photographer {
    browser: Browser,
    shots: PathBuf,
}

impl Photographer {
    /// Starts a browser, which keeps its own files in `folder`.
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

    /// Takes a picture of the dashboard there in each of the themes.
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
