//! `cargo xtask dashboard`: the dashboard of `agent`, `demo` and `serve` in a real browser, with
//! small fleets and with a thousand replicas. Every control is used, and its effect is checked in
//! the page and in `/status`. Further checks: keyboard, names for screen readers, contrast, the
//! rules of axe, nothing off the screen, no error in the console, no external request. It also
//! takes the pictures for the documentation.

mod access;
mod agent;
mod axe;
mod browser;
mod demo;
mod devtools;
mod fleet;
mod options;
mod photographer;
mod serve;
mod tab;
mod views;

use crate::command::{find_slackwater, first_line};
use crate::folder::Folder;
use crate::loopback::pair::Programs;
use crate::loopback::processes::Processes;
use crate::report::{Page, Report};
use browser::Browser;
use core::time::Duration;
pub(crate) use options::Options;
use std::fs;
use std::path::PathBuf;
use tab::{Tab, View};

pub(crate) use photographer::Photographer;

/// Time from the start of a process until it answers.
const START_MAX: Duration = Duration::from_mins(1);

/// Largest size of a picture in bytes, so that a page with many of them loads everywhere.
const PICTURE_MAX: usize = 300_000;

/// The window of most pictures.
const WINDOW: View = View {
    width: 1440,
    height: 1000,
    dark: false,
};

/// Half of a laptop's screen.
const MIDDLE: View = View {
    width: 1024,
    height: 900,
    dark: false,
};

/// A phone.
const SMALL: View = View {
    width: 390,
    height: 844,
    dark: false,
};

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Theme {
    Light,
    Dark,
}

const BOTH: &[Theme] = &[Theme::Light, Theme::Dark];

/// Resources of every stage.
struct Stage<'s> {
    programs: Programs<'s>,
    browser: &'s Browser,
    folder: PathBuf,
    shots: Option<&'s PathBuf>,
    /// Share of an optimized build's request rate, in tenths.
    rate_tenths: u32,
    /// The script of axe, or why there is none.
    axe: Result<String, String>,
    report: &'s mut Report,
}

/// Runs every check. Returns an error if a check or a step failed.
pub(crate) fn run(options: &Options) -> Result<(), String> {
    let folder = Folder::new("dashboard", options.keep)?;
    let processes = Processes::new(&folder.path)?;
    processes.end_on_signals(folder.path.clone(), options.keep)?;
    let mut report = Report::default();
    let page = |tools| Page {
        title: "The dashboard in a browser",
        about: "`demo` and `serve` as processes, their pages in Chromium; see docs/research/dashboard-tests.md.",
        tools,
    };
    let chromium = browser::find(&processes)?;
    let slackwater = find_slackwater(options.slackwater.as_deref(), options.profile())?;
    if let Some(shots) = &options.shots {
        fs::create_dir_all(shots).map_err(|error| format!("{}: {error}", shots.display()))?;
    }
    let browser = Browser::start(&processes, &chromium, &folder.path)?;
    let mut stage = Stage {
        programs: Programs {
            processes: &processes,
            slackwater: &slackwater,
        },
        browser: &browser,
        folder: folder.path.clone(),
        shots: options.shots.as_ref(),
        rate_tenths: options.rate_tenths(),
        axe: axe::find(&processes, &folder.path),
        report: &mut report,
    };
    agent::run(&mut stage);
    views::run(&mut stage);
    let sizes: &[usize] = if options.short {
        &[3, 20]
    } else {
        &[3, 20, 100, 1_000]
    };
    for &replicas in sizes {
        // Two sides show the same charts, but narrower; two sizes are enough.
        if matches!(replicas, 20 | 1_000) {
            demo::run(&mut stage, replicas);
        }
        serve::run(&mut stage, replicas);
    }
    let version = first_line(&chromium, &["--version"]);
    report.finish(&page(version), options.report.as_deref())
}

impl Stage<'_> {
    /// Records the result of a check.
    fn note(&mut self, step: &'static str, what: &str, found: Result<String, String>) {
        self.report.add(step, what, found);
    }

    /// Requests per second, for a rate that an optimized build would have.
    const fn rate(&self, optimized: u32) -> u32 {
        optimized * self.rate_tenths / 10
    }

    /// Takes a picture in each theme, if pictures are requested.
    fn shoot(
        &mut self,
        tab: &mut Tab,
        name: &str,
        view: View,
        themes: &[Theme],
    ) -> Result<String, String> {
        let Some(shots) = self.shots else {
            return Ok("no pictures wanted".to_owned());
        };
        let mut sizes = Vec::new();
        for &theme in themes {
            let dark = theme == Theme::Dark;
            tab.look(View { dark, ..view })?;
            // The theme's change and the next data have been drawn by then.
            tab.evaluate(
                "new Promise((done) => requestAnimationFrame(() => requestAnimationFrame(done)))",
            )?;
            let theme = if dark { "dark" } else { "light" };
            let file = shots.join(format!("{name}-{theme}.png"));
            let size = tab.shoot(&file)?;
            if size > PICTURE_MAX {
                return Err(format!(
                    "{}: {size} bytes, at most {PICTURE_MAX}",
                    file.display()
                ));
            }
            sizes.push(format!("{name}-{theme}.png {} kB", size / 1000));
        }
        tab.look(WINDOW)?;
        Ok(sizes.join(", "))
    }
}
