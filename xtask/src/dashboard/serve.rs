//! `serve` under load, before a fleet with troubles.

use super::fleet::{Fleet, ROOM};
use super::tab::Tab;
use super::{BOTH, MIDDLE, SMALL, START_MAX, Stage, Theme, WINDOW, access, views};
use crate::loopback::load::Load;
use crate::loopback::ports::FreePorts;
use crate::loopback::processes::wait_for;
use crate::loopback::{http, serve};
use core::net::SocketAddr;
use core::time::Duration;
use serde_json::Value;
use std::fs;

/// Requests per second: what a small machine can serve beside a browser, and no more than half of
/// what a few replicas can.
const fn rate(replicas: usize) -> u32 {
    match replicas {
        ..8 => 240,
        8..=100 => 800,
        _ => 1_200,
    }
}

/// Requests that take this long are recorded.
const SLOW: &str = "100ms";
const SLOW_US: u64 = 100_000;

/// Largest size of a tick in bytes: the part that does not depend on the fleet (counts, the reports
/// that each worker compares), and the part for each replica.
const TICK_BYTES_MAX: [usize; 2] = [10_600, 72];

/// Timeout for the page to agree, which is a second behind.
const AGREE_MAX: Duration = Duration::from_mins(1);

/// Longer than all checks; it is ended earlier.
const LOAD_SECONDS: u32 = 900;

pub(super) fn run(stage: &mut Stage<'_>, replicas: usize) {
    const STEP: &str = "serve";
    let what = format!("{replicas} replicas");
    let played = play(stage, STEP, replicas);
    stage.note(STEP, &what, played);
}

fn play(stage: &mut Stage<'_>, step: &'static str, replicas: usize) -> Result<String, String> {
    let rate = stage.rate(rate(replicas));
    let fleet = Fleet::start(replicas, rate)?;
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
        &rate.to_string(),
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
    stage.note(step, "the page matches /status", agrees);
    let why = why(&mut tab);
    stage.note(step, "the next pick is the first by the rule", why);
    let layout = views::layout(&mut tab);
    stage.note(step, "nothing is off the screen at 1440 pixels", layout);
    let header = views::header(&mut tab);
    stage.note(step, "the header covers nothing at 400 pixels", header);
    let select = views::select(&mut tab);
    stage.note(step, "a click selects, values on hover", select);
    let full = full(&mut tab);
    stage.note(step, "how full replicas are", full);
    let busy = busy(&mut tab, replicas);
    stage.note(step, "what the page costs", busy);
    let name = format!("serve-{replicas}");
    access::axe(stage, step, &mut tab);
    if replicas == 20 {
        access::run(stage, step, &mut tab, admin);
        let told = decision(&mut tab, admin);
        stage.note(step, "a slow request's decision", told);
        let shot = stage.shoot(
            &mut tab,
            &format!("{name}-decision"),
            WINDOW,
            &[Theme::Light],
        );
        stage.note(step, "picture of a decision", shot);
        tab.press("Escape")?;
        tab.evaluate("window.scrollTo(0, 0)")?;
    } else {
        let fleet = access::fleet_by_keys(&mut tab);
        stage.note(step, "the fleet by keys", fleet);
    }
    tab.evaluate("document.activeElement?.blur()")?;
    let shot = stage.shoot(&mut tab, &name, WINDOW, BOTH);
    stage.note(step, "pictures", shot);
    if matches!(replicas, 3 | 100) {
        for (view, width) in [(MIDDLE, 1024), (SMALL, 390)] {
            let shot = stage.shoot(&mut tab, &format!("{name}-{width}"), view, BOTH);
            stage.note(step, "pictures of smaller windows", shot);
        }
    }
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
        "listen = \"{address}\"\nreplicas = [{}]\n\n[admin]\nlisten = \"{admin}\"\n\n\
         [decisions]\ncapacity = 10000\nslower_than = \"{SLOW}\"\nfailed = true\n",
        replicas.join(", ")
    )
}

/// The replicas' reported capacity is in the chart's legend, in the table and beside each replica,
/// with the share in use.
fn full(tab: &mut Tab) -> Result<String, String> {
    let key = tab.evaluate(
        "[...document.querySelectorAll('.fleet-key li')].map((item) => item.textContent)",
    )?;
    let is_told = |text: &str| {
        key.as_array()
            .is_some_and(|items| items.iter().any(|it| it == text))
    };
    // Cells have no room for it; there the capacity determines the fill level.
    if !is_told("what it can carry") && is_told("p50 to p99 seen here") {
        return Err(format!(
            "the picture has no key of what replicas can carry: {key}"
        ));
    }
    tab.press("t")?;
    let told = tab.wait(
        "a table of who is how full",
        "(() => { const table = document.querySelector('.fleet .figures-table'); if (!table?.checkVisibility()) return null; \
          const heads = [...table.tHead.rows[0].cells].map((cell) => cell.textContent); \
          const at = (name) => heads.indexOf(name); \
          const rows = [...table.tBodies[0].rows].map((row) => ['in flight, reported', 'can carry', 'full'].map((name) => row.cells[at(name)]?.textContent)); \
          return rows.every((row) => row.every((text) => text !== undefined)) && rows.some(([rif]) => Number(rif) > 0) && rows; })()",
    );
    tab.press("t")?;
    let told = told?;
    let rows = told.as_array().map_or(&[][..], Vec::as_slice);
    let room = f64::from(ROOM);
    let agrees = |row: &Value| {
        let [rif, carried, full] = [0, 1, 2].map(|cell| row[cell].as_str().unwrap_or_default());
        // It has not reported yet.
        if carried == "–" {
            return full == "–";
        }
        let number = |text: &str| text.trim_end_matches(" %").replace(',', "").parse::<f64>();
        let share = number(rif).map(|rif| rif / room * 100.0);
        number(carried) == Ok(room)
            && share.is_ok_and(|share| number(full).is_ok_and(|full| (full - share).abs() < 0.6))
    };
    match rows.iter().find(|row| !agrees(row)) {
        Some(row) => Err(format!("of {room} that each can carry, a row has {row}")),
        None => Ok(format!("{} rows", rows.len())),
    }
}

/// The number of replicas, as in `/status`, and the number that accept requests, by the states in a
/// tick.
fn agrees_with_status(tab: &mut Tab, admin: SocketAddr, replicas: usize) -> Result<String, String> {
    const SUMMARY_AND_STATES: &str = "new Promise((done) => { const source = new EventSource('/events'); let states; \
        source.addEventListener('fleet', (event) => { ({ states } = JSON.parse(event.data)); }); \
        source.addEventListener('tick', (event) => { const said = document.querySelector('.fleet .summary').textContent; source.close(); \
          done({ said, states: JSON.parse(event.data).services[0].replicas.state.map((code) => states[code]) }); }); })";
    const OUT: [&str; 5] = ["disabled", "down", "draining", "unreachable", "ejected"];
    let whole = http::get_json(admin, "/status")?;
    let told = whole["replicas"].as_array().map_or(0, Vec::len);
    if told != replicas {
        return Err(format!("/status has {told} replicas of {replicas}"));
    }
    let mut last = String::new();
    let agreed = wait_for("the page to say what live data say", AGREE_MAX, || {
        let found = tab.evaluate(SUMMARY_AND_STATES)?;
        let states = found["states"].as_array().into_iter().flatten();
        let out = states.filter(|state| OUT.contains(&state.as_str().unwrap_or_default()));
        let out = out.count();
        let said = found["said"].as_str().unwrap_or_default();
        let [may, of] = [replicas.saturating_sub(out), replicas].map(with_commas);
        let expected = format!("{may} of {of} replicas take requests");
        last = format!("{said:?}, expected {expected:?}");
        // In all but the smallest fleet one replica drains and one fails from the start, which must
        // be reported first.
        let is_settled = out > 0 || replicas < 20;
        Ok((is_settled && said.starts_with(&expected)).then(|| said.to_owned()))
    });
    agreed.map_err(|error| format!("{error}: {last}"))
}

fn with_commas(number: usize) -> String {
    match number {
        0..1_000 => number.to_string(),
        _ => format!("{},{:03}", number / 1_000, number % 1_000),
    }
}

/// The first row of the pool is marked and has the lowest expected delay, by the default policy;
/// the sentence says so.
fn why(tab: &mut Tab) -> Result<String, String> {
    let found = tab.wait(
        "two reports to choose from",
        "(() => { const table = document.querySelector('.pool:not(.fullest)'); const place = [...table.tHead.rows[0].cells].findIndex((head) => ['expected delay', 'score'].includes(head.textContent)); if (place < 0) return null; const rows = [...document.querySelectorAll('.pool:not(.fullest) tbody tr')].map((row) => [...row.cells].map((cell) => cell.textContent)); \
          const ms = (text) => parseFloat(text.replaceAll(',', '')) * (text.endsWith(' s') ? 1000 : text.endsWith(' µs') ? 0.001 : 1); \
          if (rows[0]?.[0] !== 'next' || rows.length < 2) return null; const rule = document.querySelector('.rule').textContent; \
          return { next: rows[0], only: rows.filter((row) => row[0] === 'next').length === 1, \
            best: rows.every((row) => !(ms(row[place]) < ms(rows[0][place]))) && rule.includes(`Next pick: ${rows[0][1]}.`) && (rule.includes('expected delay = ') || rule.includes('score = ')), rule, rows }; })()",
    )?;
    if found["only"] == true && found["best"] == true {
        Ok(found["rule"].as_str().unwrap_or_default().to_owned())
    } else {
        Err(found.to_string())
    }
}

/// Measures ten ticks of live data. Their size is limited; times depend on the machine's other
/// load, and are only reported.
fn busy(tab: &mut Tab, replicas: usize) -> Result<String, String> {
    const TICKS: u32 = 10;
    let before = tab.spent()?;
    let heard = tab.evaluate(
        "new Promise((done) => { const begun = performance.now(); let [ticks, bytes] = [0, 0]; const source = new EventSource('/events'); \
          source.addEventListener('tick', (event) => { bytes += event.data.length; if (++ticks < 10) return; \
            source.close(); done({ seconds: (performance.now() - begun) / 1000, bytes }); }); })",
    )?;
    let after = tab.spent()?;
    let (Some(seconds), Some(bytes)) = (heard["seconds"].as_f64(), heard["bytes"].as_u64()) else {
        return Err("the page counted no ticks".to_owned());
    };
    let each_ms = |before: f64, after: f64| 1_000.0 * (after - before) / f64::from(TICKS);
    let bytes = bytes / u64::from(TICKS);
    let found = format!(
        "a tick is {bytes} bytes, {:.0} ms in the script, {:.0} ms of CPU in the page's process; the whole browser takes {:.0} % of a core",
        each_ms(before.script, after.script),
        each_ms(before.page, after.page),
        100.0 * (after.browser - before.browser) / seconds
    );
    let [base, each] = TICK_BYTES_MAX;
    let most = base + replicas * each;
    if bytes <= most as u64 {
        Ok(found)
    } else {
        Err(format!("{found}; a tick may have {most} bytes"))
    }
}

/// Opens a slow request that was recorded, and compares the page with `/decisions`.
fn decision(tab: &mut Tab, admin: SocketAddr) -> Result<String, String> {
    tab.evaluate(
        "(() => { const kind = document.querySelector('#decisions select'); kind.value = 'slow'; kind.dispatchEvent(new Event('change')); })()",
    )?;
    // A request that the rule decided, which therefore has candidates.
    tab.wait(
        "a slow request that was kept",
        "(() => { const ms = (text) => parseFloat(text.replaceAll(',', '')) * (text.endsWith(' s') ? 1000 : 1); \
          const slow = [...document.querySelectorAll('#decisions .decisions tbody tr')].find((row) => { \
            const texts = [...row.cells].map((cell) => cell.textContent); \
            return texts.some((text) => /^[0-9.,]+ (ms|s)$/.test(text) && ms(text) >= 100) && texts.some((text) => text === 'lowest expected delay'); }); \
          slow?.querySelector('button').click(); return Boolean(slow); })()",
    )?;
    let story = tab.wait(
        "its story",
        "(() => { const story = document.querySelector('#story[open]'); if (!story) return null; \
          const fact = (name) => [...story.querySelectorAll('.facts tr')].find((row) => row.cells[0].textContent === name)?.cells[1].textContent; \
          const rows = [...story.querySelectorAll('.candidates.pool tbody tr')].map((row) => [...row.cells].slice(0, 2).map((cell) => cell.textContent)); \
          const marked = (mark) => rows.filter(([of]) => of === mark).map(([, replica]) => replica); \
          return { id: fact('id'), tries: [...story.querySelectorAll('.waterfall tbody tr')].map((row) => row.cells[1].textContent), \
            chosen: marked('chosen'), second: marked('runner-up'), compared: rows.length, why: story.querySelector('.rule').textContent }; })()",
    )?;
    let id = story["id"].as_str().unwrap_or_default();
    let kept = http::get_json(admin, &format!("/decisions?id={id}"))?;
    let kept = &kept["decisions"][0];
    let attempts = kept["attempts"].as_array().map_or(&[][..], Vec::as_slice);
    let of = |pointer: &str| -> Value {
        let found = attempts
            .iter()
            .filter_map(|attempt| attempt.pointer(pointer));
        found.cloned().collect()
    };
    let compared = attempts
        .iter()
        .filter_map(|attempt| attempt["candidates"].as_array());
    let compared: usize = compared.map(Vec::len).sum();
    let agrees = story["tries"] == of("/replica")
        && story["chosen"] == of("/replica")
        && story["second"] == of("/runner_up/replica")
        && story["compared"] == compared
        && kept["total_us"].as_u64() >= Some(SLOW_US);
    if agrees {
        Ok(format!(
            "{id}: {}",
            story["why"].as_str().unwrap_or_default()
        ))
    } else {
        Err(format!("the page tells {story}, /decisions has {kept}"))
    }
}
