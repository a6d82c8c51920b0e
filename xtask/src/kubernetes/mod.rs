//! `cargo xtask kubernetes`: the Helm charts on a real control plane.
//!
//! etcd, the API server and the controllers are real, and so are Slackwater, its agents and the
//! replicas. A thread stands in for scheduler and kubelet. It runs each pod as processes in a
//! network namespace of its own; Slackwater has the user, the rights and the read-only root that
//! its manifest asks for. The proxy reads `EndpointSlice`s with the token and the Role of its
//! chart.

mod api;
mod cases;
mod chart;
mod cluster;
mod kubelet;
mod network;
mod options;
mod pod;
mod record;
mod site;
mod tools;
mod volumes;

use crate::command::{build_agent, build_slackwater};
use crate::folder::Folder;
use crate::loopback::pair::Programs;
use crate::loopback::processes::Processes;
use crate::output::say;
use crate::report::{Outcome, Page, Report};
use cases::{Case, Run};
use chart::Charts;
use core::time::Duration;
use record::Recording;
use site::Site;
use tools::Tools;

pub(crate) use chart::check as check_charts;
pub(crate) use options::Options;

/// How long the API server is down in the short form.
const SHORT_OUTAGE: Duration = Duration::from_secs(5);

/// Plays all cases.
///
/// # Errors
///
/// Fails if a program could not be built or started, or if a case failed.
pub(crate) fn run(options: &Options) -> Result<(), String> {
    let tools = Tools::find(options.programs.as_deref(), options.charts || options.write)?;
    let helm = tools.path("helm");
    if options.write {
        return chart::write(helm);
    }
    chart::check_with(helm.clone())?;
    if options.charts {
        return Ok(());
    }
    let (slackwater, agent) = match &options.slackwater {
        Some(file) => (file.clone(), file.clone()),
        None => (build_slackwater("dev", &[])?, build_agent("dev")?),
    };
    // Before any thread starts, because only this one and what it starts later enters it.
    network::enter()?;
    let folder = Folder::new("kubernetes", options.keep)?;
    let processes = Processes::new(&folder.path)?;
    processes.end_on_signals(folder.path.clone(), options.keep)?;
    let programs = Programs {
        processes: &processes,
        slackwater: &slackwater,
    };
    let charts = Charts::new(helm)?;
    let mut report = Report::default();
    let (on_new, on_old): (Vec<_>, Vec<_>) =
        (options.cases()).partition(|case| !matches!(case.run, Run::OnOldEtcd(_)));
    if !on_new.is_empty() {
        let site = folder.path.join("site");
        let mut site = Site::start(
            (programs, &agent),
            &tools,
            &charts,
            &tools.path("etcd"),
            site,
        )?;
        if options.short {
            site.outage = SHORT_OUTAGE;
        }
        let recording = match &options.record {
            None => None,
            Some(file) => Some(Recording::start(&site.cluster.api, file)?),
        };
        site.install()?;
        for case in on_new {
            play(case, &mut site, &mut report);
        }
        drop(recording);
    }
    for case in on_old {
        match options.old_etcd.as_ref().filter(|_| !options.short) {
            None => report.add(
                case.name,
                case.expects,
                Outcome::NotRun("needs --old-etcd FILE (Debian: etcd-server 3.4)".to_owned()),
            ),
            Some(etcd) => {
                let site = folder.path.join("site-old");
                let site = Site::start((programs, &agent), &tools, &charts, etcd, site);
                match site.and_then(|site| site.install().map(|()| site)) {
                    Ok(mut site) => play(case, &mut site, &mut report),
                    Err(why) => report.add(case.name, case.expects, Err(why)),
                }
            }
        }
    }
    let page = Page {
        title: "On a Kubernetes control plane",
        about: "The [chart](../docs/how-to/helm.md) and an example with agents, installed on a real etcd, API server and controllers; \
                pods are processes in network namespaces. The debug build serves 50 requests per second; \
                `xtask/src/kubernetes` says how.",
        tools: tools::versions(),
    };
    report.finish(&page, options.report.as_deref())
}

/// Plays a case, and makes sure that the next one finds everything in order.
fn play(case: &Case, site: &mut Site<'_>, report: &mut Report) {
    let (Run::OnNewEtcd(run) | Run::OnOldEtcd(run)) = case.run;
    say(&format!("{}: expects that {}", case.name, case.expects));
    let found = run(site);
    let failures = site.kubelet.failures();
    if found.is_err() {
        for failure in failures.iter().take(5) {
            say(&format!("  kubelet: {failure}"));
        }
    }
    report.add(case.name, case.expects, found);
    if let Err(why) = cases::restore(site) {
        say(&format!("  after {}: {why}", case.name));
    }
}
