//! `serve` before a fleet in trouble, with load.

use super::fleet::Fleet;
use super::tab::Tab;
use super::{START_MAX, Stage, WINDOW, access};
use crate::loopback::load::Load;
use crate::loopback::ports::FreePorts;
use crate::loopback::{http, serve};
use core::net::SocketAddr;
use std::fs;

/// Load, in requests each second: what a small machine carries beside a browser. A larger fleet cannot be kept busy, but
/// shown.
const fn rate(replicas: usize) -> u32 {
    if replicas > 100 { 1_200 } else { 800 }
}

/// Longer than any check takes; it is ended before.
const LOAD_SECONDS: u32 = 900;

pub(super) fn run(stage: &mut Stage<'_>, replicas: usize) {
    const STEP: &str = "serve";
    let what = format!("{replicas} replicas");
    let played = play(stage, STEP, replicas);
    stage.note(STEP, &what, played);
}

fn play(stage: &mut Stage<'_>, step: &'static str, replicas: usize) -> Result<String, String> {
    let fleet = Fleet::start(replicas)?;
    let mut ports = FreePorts::default();
    let [address, admin] = [ports.take()?, ports.take()?];
    drop(ports);
    let file = stage.folder.join(format!("serve-{replicas}.toml"));
    let configuration = configuration(address, admin, &fleet.addresses);
    fs::write(&file, configuration).map_err(|error| format!("{}: {error}", file.display()))?;
    let _serve = serve::start(
        stage.programs.processes,
        stage.programs.slackwater,
        &file,
        (admin, START_MAX),
    )?;
    let arguments = [
        "--rate",
        &stage.rate(rate(replicas)).to_string(),
        "--seconds",
        &LOAD_SECONDS.to_string(),
    ]
    .map(str::to_owned);
    let url = format!("http://{address}/");
    let seen = stage.folder.join(format!("load-{replicas}.json"));
    let _load = Load::start(&stage.programs, "load", &url, seen, &arguments)?;

    let mut tab = Tab::open(stage.browser, admin, WINDOW)?;
    tab.wait(
        "requests, and a pool to choose from",
        "parseFloat(document.querySelector('.figures dd').textContent) > 0 && document.querySelectorAll('.pool tbody tr').length > 2",
    )?;
    let agrees = agrees_with_status(&mut tab, admin, replicas);
    stage.note(step, "the page says what /status says", agrees);
    let why = why(&mut tab);
    stage.note(step, "the next pick is the first by the rule", why);
    if replicas > 100 {
        let busy = busy(&mut tab);
        stage.note(step, "what the page costs", busy);
    } else {
        access::run(stage, step, &mut tab);
    }
    let shot = stage.shoot(&mut tab, &format!("serve-{replicas}"), WINDOW);
    stage.note(step, "pictures", shot);
    let quiet = access::quiet(&mut tab);
    tab.close()?;
    quiet
}

fn configuration(address: SocketAddr, admin: SocketAddr, replicas: &[SocketAddr]) -> String {
    let replicas: Vec<_> = replicas
        .iter()
        .map(|address| format!("\"{address}\""))
        .collect();
    format!(
        "listen = \"{address}\"\nreplicas = [{}]\n\n[admin]\nlisten = \"{admin}\"\n",
        replicas.join(", ")
    )
}

/// The table's replicas, and how many of them are out, as `/status` has them.
fn agrees_with_status(tab: &mut Tab, admin: SocketAddr, replicas: usize) -> Result<String, String> {
    tab.wait(
        "the replica that fails, and the one that drains, to be told so",
        "(() => { const said = document.querySelector('.fleet .summary').textContent; \
          const [may, all] = said.match(/[0-9,]+/g).map((text) => Number(text.replaceAll(',', ''))); \
          return may < all && said; })()",
    )?;
    let status = http::get_json(admin, "/status")?;
    let told = status["replicas"].as_array().map_or(0, Vec::len);
    let said = tab.evaluate("document.querySelector('.fleet .summary').textContent")?;
    let said = said.as_str().unwrap_or_default();
    let grouped = format!("of {}", with_commas(replicas));
    if told == replicas && said.contains(&grouped) {
        Ok(said.to_owned())
    } else {
        Err(format!(
            "/status has {told} replicas, the page says {said:?}"
        ))
    }
}

fn with_commas(number: usize) -> String {
    match number {
        0..1_000 => number.to_string(),
        _ => format!("{},{:03}", number / 1_000, number % 1_000),
    }
}

/// The first row of the pool is marked, is cold if any is, and of the cold ones the fastest.
fn why(tab: &mut Tab) -> Result<String, String> {
    let found = tab.evaluate(
        "(() => { const rows = [...document.querySelectorAll('.pool tbody tr')].map((row) => [...row.cells].map((cell) => cell.textContent)); \
          const ms = (text) => parseFloat(text.replaceAll(',', '')) * (text.endsWith(' s') ? 1000 : 1); \
          const cold = rows.filter((row) => row[6].startsWith('cold')); \
          return { next: rows[0], first: rows[0][0] === 'next', only: rows.filter((row) => row[0] === 'next').length === 1, \
            best: !cold.length || cold.every((row) => ms(row[3]) >= ms(rows[0][3])), rule: document.querySelector('.rule').textContent }; })()",
    )?;
    if found["first"] == true && found["only"] == true && found["best"] == true {
        Ok(found["rule"].as_str().unwrap_or_default().to_owned())
    } else {
        Err(found.to_string())
    }
}

/// Over ten ticks of live data.
fn busy(tab: &mut Tab) -> Result<String, String> {
    let before = tab.busy_seconds()?;
    let seconds = tab.evaluate(
        "new Promise((done) => { const begun = performance.now(); let ticks = 0; const source = new EventSource('/events'); \
          source.addEventListener('tick', () => { if (++ticks === 10) { source.close(); done((performance.now() - begun) / 1000); } }); })",
    )?;
    let spent = tab.busy_seconds()? - before;
    let seconds = seconds.as_f64().ok_or("the page counted no ticks")?;
    Ok(format!(
        "the whole browser takes {:.0} % of a core, over {seconds:.0} s",
        100.0 * spent / seconds
    ))
}
