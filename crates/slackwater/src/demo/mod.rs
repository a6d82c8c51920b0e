//! The sub-command `slackwater demo`: two policies balance the same load over two identical fleets
//! on this machine, visibly side by side.
//!
//! Real: the HTTP requests, the proxies (`serve`, in this process), the load layer and the UDP
//! probes of each replica, the load generator. Emulated: the service time of a replica (`replica`),
//! so that two cores can play a large fleet.
//!
//! | | |
//! |---|---|
//! | arguments | `args` |
//! | one side: replicas, proxy, load | `side`, `fleet`, `replica` |
//! | the run from start to end | `stage` |
//! | the state, as data | `observe` makes a `picture`; `history` keeps the last minute |
//! | the display | `terminal`, `page`, `live` |
//! | changes by users | `knobs`, queued in `knob_queue` |
//! | the results | `summary`, `verdict` |

mod args;
mod fleet;
mod history;
mod knob_queue;
mod knobs;
mod live;
mod observe;
mod page;
mod picture;
mod replica;
mod side;
mod stage;
mod summary;
mod terminal;
mod verdict;

pub(crate) use args::Args;

#[cfg(test)]
pub(crate) use knobs::{LoadBody, PolicyBody, ReplicaBody, ResetBody, WeatherBody};
#[cfg(test)]
pub(crate) use live::{DemoFleet, DemoTick, InForce};

use crate::descriptors;
use crate::json_output::JsonOutput;
use crate::output::print;
use crate::process::Signals;
use crate::terminal::words;
use args::Settings;
use core::time::Duration;
use slackwater_config::Fault;
use std::io::{self, Write};
use std::net::TcpListener;
use terminal::Screen;
use tokio::runtime::{Builder, Runtime};

/// Threads for the replicas of both sides and for both load generators.
const THREADS: usize = 2;

/// Timeout of everything that is still running at the end.
const SHUTDOWN_PATIENCE: Duration = Duration::from_secs(1);

/// Runs `slackwater demo`.
pub(crate) fn run(args: Args) -> Result<(), Fault> {
    let mut settings = args.settings()?;
    // Both ends of all the demo's connections are sockets of this one process.
    let _ = descriptors::raise_limit();
    let listener = page::bind(&settings.admin)?;
    let runtime = runtime()?;
    // Signals are caught before the first line is printed, so that a reader of that line may
    // already end the process.
    let signals = {
        let _inside = runtime.enter();
        Signals::new()?
    };
    let json = settings.json.take();
    let is_stdout_taken = json.as_ref().is_some_and(JsonOutput::is_stdout);
    let screen = screen(&settings, &listener, is_stdout_taken)?;
    let summary = runtime.block_on(stage::run(&settings, listener, screen, signals));
    runtime.shutdown_timeout(SHUTDOWN_PATIENCE);
    let summary = summary?;
    if !is_stdout_taken {
        print(&format!("\n{summary}\n"))?;
    }
    json.map_or(Ok(()), |json| json.write(&summary))
}

fn runtime() -> Result<Runtime, Fault> {
    Builder::new_multi_thread()
        .worker_threads(THREADS)
        .thread_name("demo")
        .enable_all()
        .build()
        .map_err(|error| Fault::runtime(format!("cannot start the runtime: {error}")))
}

/// Prints where the page is, and chooses how the run is shown.
fn screen(
    settings: &Settings,
    listener: &TcpListener,
    is_stdout_taken: bool,
) -> Result<Screen, Fault> {
    let address = listener.local_addr();
    let address = address
        .map_err(|error| Fault::runtime(format!("the page's address is unknown: {error}")))?;
    let page = format!("http://{address}/");
    if let Some(first) = settings.admin.first().filter(|first| first.port() != 0)
        && *first != address
    {
        let _ = writeln!(io::stderr(), "{first} is in use: the page is at {page}");
    }
    if is_stdout_taken {
        let _ = writeln!(io::stderr(), "page {page}");
        return Ok(Screen::Blank);
    }
    let [first, second] = settings.policies.map(|policy| policy.name);
    let screen = Screen::table_or_lines(settings.is_table_wanted, page.clone());
    if matches!(screen, Screen::Lines { .. }) {
        print(&format!(
            "slackwater demo: {first} and {second}, {} replicas a side, {} requests/s to each, seed {}\n\
             page {page}   Ctrl-C ends it; figures below are of the last {} s\n",
            settings.replicas,
            words::rate(settings.rate_per_second),
            settings.seed,
            observe::RECENT_SECONDS,
        ))?;
    }
    Ok(screen)
}
