//! The page of an agent before a working replica: the data about itself.

use super::tab::Tab;
use super::{Stage, WINDOW, access};
use crate::loopback::behaviour::Behaviour;
use crate::loopback::load::Load;
use crate::loopback::pair::Pair;
use crate::loopback::ports::FreePorts;
use std::fs;

/// Requests per second; the next constant: time for each. Five are in flight on average.
const RATE: u32 = 50;
const SERVICE_MS: u64 = 100;

/// Longer than all checks; it is ended earlier.
const LOAD_SECONDS: u32 = 300;

pub(super) fn run(stage: &mut Stage<'_>) {
    const STEP: &str = "agent";
    let played = play(stage);
    stage.note(STEP, "the data about itself", played);
}

fn play(stage: &Stage<'_>) -> Result<String, String> {
    let mut ports = FreePorts::default();
    let mut pair = Pair::new("page".to_owned(), &mut ports)?;
    drop(ports);
    let behaviour = Behaviour {
        room: 64,
        service_ms: SERVICE_MS,
        ..Behaviour::default()
    };
    pair.start_replica(&stage.programs, &behaviour)?;
    let file = stage.folder.join("agent.toml");
    let pid = pair.replica_pid().ok_or("there is no replica")?;
    let pid_file = stage.folder.join("replica.pid");
    let keys = format!("[replica]\npid_file = \"{}\"\n", pid_file.display());
    for (file, text) in [(&pid_file, pid.as_raw_nonzero().to_string()), (&file, keys)] {
        fs::write(file, text).map_err(|error| format!("{}: {error}", file.display()))?;
    }
    pair.start_agent(&stage.programs, &file)?;
    let arguments = [("--rate", RATE), ("--seconds", LOAD_SECONDS)];
    let arguments = arguments.map(|(name, value)| [name.to_owned(), value.to_string()]);
    let url = format!("http://{}/", pair.agent);
    let seen = stage.folder.join("load-agent.json");
    let _load = Load::start(
        &stage.programs,
        "load",
        &url,
        seen,
        arguments.as_flattened(),
    )?;
    let mut tab = Tab::open(stage.browser, pair.agent_admin, WINDOW)?;
    let said = tab.wait(
        "its own load, and what it has learned of the replica",
        "(() => { const said = Object.fromEntries([...document.querySelectorAll('#own:not([hidden]) dl > div')].map((one) => [...one.children].map((part) => part.textContent))); \
          const rate = parseFloat(document.querySelector('.side .figures dd').textContent); \
          return said['answers to probes'] === 'takes requests' && Number(said['in flight']) > 0 && parseFloat(said.latency) >= 50 && rate > 0 && \
            /^[0-9.,]+, by (waits|latency|cores)$/.test(said['server can carry']) && / %$/.test(said.full) && / (µs|ms)$/.test(said['a request costs']) && \
            / %$/.test(said['CPU in use']) && said; })()",
    )?;
    let quiet = access::quiet(&mut tab);
    tab.close()?;
    quiet.map(|quiet| format!("{said}; {quiet}"))
}
