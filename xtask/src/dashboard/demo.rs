//! `demo`: every control is used, and its effect is checked in the page and in `/status`.

use super::tab::{Tab, View};
use super::{BOTH, SMALL, START_MAX, Stage, Theme, WINDOW, access};
use crate::loopback::http;
use crate::loopback::ports::FreePorts;
use crate::loopback::processes::{Process, wait_for};
use core::net::SocketAddr;
use core::time::Duration;
use serde_json::Value;
use std::process::Command;

const STEP: &str = "demo";

/// A window with both sides' fleets in it.
const LARGE: View = View {
    height: 1180,
    ..WINDOW
};

/// Time since the start, as shown on the page.
const AFTER_20_S: &str = "(() => { const [, minutes, seconds] = document.querySelector('.demo > .about').textContent.match(/(\\d+):(\\d+) since the start/) ?? []; \
                          return 60 * minutes + Number(seconds) >= 20; })()";

/// Time for a change to appear in `/status`.
const EFFECT_MAX: Duration = Duration::from_mins(1);

/// Requests per second to each side.
const fn rate(replicas: usize) -> u32 {
    if replicas > 100 { 600 } else { 400 }
}

pub(super) fn run(stage: &mut Stage<'_>, replicas: usize) {
    let what = format!("{replicas} replicas a side");
    let played = play(stage, replicas);
    stage.note(STEP, &what, played);
}

fn start(stage: &Stage<'_>, admin: SocketAddr, replicas: usize) -> Result<Process, String> {
    let mut command = Command::new(stage.programs.slackwater);
    command.args(["demo", "--no-table", "--seed", "1"]);
    command.args(["--replicas", &replicas.to_string()]);
    command.args(["--rate", &stage.rate(rate(replicas)).to_string()]);
    command.args(["--admin", &admin.to_string()]);
    let mut demo = stage.programs.processes.start("demo", &mut command)?;
    wait_for("demo to be ready", START_MAX, || {
        demo.check_running()?;
        let ready = http::get(admin, "/readyz").is_ok_and(|answer| answer.status == 200);
        Ok(ready.then_some(()))
    })?;
    Ok(demo)
}

fn play(stage: &mut Stage<'_>, replicas: usize) -> Result<String, String> {
    let mut ports = FreePorts::default();
    let admin = ports.take()?;
    drop(ports);
    let _demo = start(stage, admin, replicas)?;
    let mut tab = Tab::open(stage.browser, admin, WINDOW)?;
    tab.wait(
        "both sides' p99",
        "document.querySelector('.verdict strong')?.textContent.length > 5",
    )?;
    if replicas > 100 {
        if stage.shots.is_some() {
            tab.wait("its first seconds to be over", AFTER_20_S)?;
        }
        let shot = stage.shoot(&mut tab, &format!("demo-{replicas}"), LARGE, BOTH);
        stage.note(STEP, "pictures", shot);
    } else {
        let mut knobs = Knobs {
            tab: &mut tab,
            admin,
            rate: stage.rate(rate(replicas)),
        };
        let checks: [(&str, Check<'_>); 9] = [
            (
                "the next pick is the first by the hot-cold rule",
                Knobs::why,
            ),
            ("weather", Knobs::weather),
            ("load", Knobs::load),
            ("noisy neighbour", Knobs::neighbour),
            ("stall", Knobs::stall),
            ("fail fast", Knobs::fail),
            ("kill", Knobs::kill),
            ("policy", Knobs::policy),
            ("reset", Knobs::reset),
        ];
        for (what, check) in checks {
            let found = check(&mut knobs);
            stage.note(STEP, what, found);
        }
        access::run(stage, STEP, &mut tab, admin);
        let shot = pictures(stage, &mut tab, admin, replicas);
        stage.note(STEP, "pictures", shot);
    }
    let quiet = access::quiet(&mut tab);
    tab.close()?;
    quiet
}

/// With a trouble that both sides have had for a while, and one opened replica.
fn pictures(
    stage: &mut Stage<'_>,
    tab: &mut Tab,
    admin: SocketAddr,
    replicas: usize,
) -> Result<String, String> {
    if stage.shots.is_none() {
        return Ok("none wanted".to_owned());
    }
    let mut knobs = Knobs {
        tab,
        admin,
        rate: stage.rate(rate(replicas)),
    };
    knobs.aim(7)?;
    knobs.take(90)?;
    knobs.status_until(
        "requests to wait at the second side's replica 7",
        |status| in_flight(status, 1, 7).filter(|rif| *rif >= 20),
    )?;
    // The controls used before may have scrolled the page.
    tab.evaluate("document.activeElement?.blur(); window.scrollTo(0, 0)")?;
    let name = format!("demo-{replicas}");
    let whole = stage.shoot(tab, &name, LARGE, BOTH)?;
    let small = stage.shoot(tab, &format!("{name}-small"), SMALL, &[Theme::Dark])?;
    tab.evaluate("document.querySelector('.why').scrollIntoView({ block: 'start' })")?;
    let why = stage.shoot(tab, &format!("{name}-why"), WINDOW, &[Theme::Dark])?;
    tab.evaluate("window.scrollTo(0, 0)")?;
    tab.press("f")?;
    tab.press("Home")?;
    for _ in 0..7 {
        tab.press("ArrowRight")?;
    }
    tab.press("Enter")?;
    tab.wait(
        "replica 7's past",
        "!document.querySelector('.sheet').hidden && [...document.querySelectorAll('.sheet .legend td')].some((cell) => cell.textContent !== '–')",
    )?;
    let replica = stage.shoot(tab, &format!("{name}-replica"), WINDOW, &[Theme::Light])?;
    tab.press("Escape")?;
    Ok([whole, small, why, replica].join(", "))
}

/// Uses a control and returns its effect.
type Check<'k> = fn(&mut Knobs<'k>) -> Result<String, String>;

struct Knobs<'k> {
    tab: &'k mut Tab,
    admin: SocketAddr,
    /// Requests per second to each side, as at the start.
    rate: u32,
}

impl Knobs<'_> {
    /// Polls `/status` until `look` finds something.
    fn status_until<T>(
        &self,
        what: &str,
        shows: impl Fn(&Value) -> Option<T>,
    ) -> Result<T, String> {
        let what = format!("{what}, in /status");
        wait_for(&what, EFFECT_MAX, || {
            Ok(shows(&http::get_json(self.admin, "/status")?))
        })
    }

    fn aim(&mut self, replica: usize) -> Result<(), String> {
        self.choose("#target", &replica.to_string())?;
        let expression = format!(
            "document.querySelector('#target').value === '{replica}' && document.querySelector('.knobs .trouble').getAttribute('aria-label').endsWith(' {replica}')"
        );
        self.tab
            .wait("the knobs to aim at it", &expression)
            .map(drop)
    }

    fn choose(&mut self, selector: &str, value: &str) -> Result<(), String> {
        let expression = format!(
            "(() => {{ const chooser = document.querySelector({selector:?}); chooser.focus(); chooser.value = {value:?}; \
             chooser.dispatchEvent(new Event('input')); chooser.dispatchEvent(new Event('change')); chooser.blur(); return chooser.value; }})()"
        );
        let chosen = self.tab.evaluate(&expression)?;
        if chosen == value {
            Ok(())
        } else {
            Err(format!("{selector} has no {value:?}; it is at {chosen}"))
        }
    }

    fn take(&mut self, percent: u32) -> Result<(), String> {
        self.choose("#knobs-taken", &percent.to_string())
    }

    /// Checks that the page lists a trouble.
    fn listed(&mut self, text: &str) -> Result<(), String> {
        let expression =
            format!("document.querySelector('.troubles').textContent.includes({text:?})");
        self.tab
            .wait(&format!("{text:?} to be listed"), &expression)
            .map(drop)
    }

    /// Checks that the page lists no trouble, except those that come automatically.
    fn none_listed(&mut self) -> Result<(), String> {
        self.tab
            .wait(
                "no trouble to be listed",
                "![...document.querySelectorAll('.troubles button')].some((end) => end.checkVisibility())",
            )
            .map(drop)
    }

    fn weather(&mut self) -> Result<String, String> {
        self.tab.click("#weather")?;
        self.tab.wait(
            "the weather to be off",
            "!document.querySelector('#weather').checked && !document.querySelector('.troubles').textContent.includes('slow episode')",
        )?;
        let demo = self.tick_demo()?;
        if demo["weather"] == false && demo["slowed"].is_null() {
            Ok("off".to_owned())
        } else {
            Err(format!("the next tick says {demo}"))
        }
    }

    /// The demo's part of the next tick, as any reader of the stream receives it.
    fn tick_demo(&mut self) -> Result<Value, String> {
        self.tab.evaluate(
            "new Promise((done) => { const source = new EventSource('/events'); source.addEventListener('tick', (event) => { \
              source.close(); done(JSON.parse(event.data).demo); }); })",
        )
    }

    fn load(&mut self) -> Result<String, String> {
        let [before, _] = self.rates()?;
        let half = self.rate / 2;
        self.choose("#load", &half.to_string())?;
        let said = format!(
            "[...document.querySelectorAll('.figures dd')].filter((figure) => figure.parentElement.textContent.startsWith('requests/s')) \
             .every((figure) => Math.abs(Number(figure.textContent.replaceAll(',', '')) - {half}) < {half} * 0.35)"
        );
        self.tab.wait("the page to say it", &said)?;
        let [first, second] = self.rates()?;
        if first < 0.8 * before && second < 0.8 * before {
            Ok(format!(
                "{before:.0} requests/s before, {first:.0} and {second:.0} then, by /status"
            ))
        } else {
            Err(format!(
                "{before:.0} requests/s before, {first:.0} and {second:.0} after"
            ))
        }
    }

    /// Requests per second to each side, from two readings of `/status`.
    fn rates(&mut self) -> Result<[f64; 2], String> {
        let look = |admin| -> Result<(f64, [f64; 2]), String> {
            let status = http::get_json(admin, "/status")?;
            let uptime = status["uptime_ms"].as_f64().unwrap_or_default();
            Ok((uptime, [0, 1].map(|side| picks(&status, side))))
        };
        let (begun, before) = look(self.admin)?;
        let admin = self.admin;
        let (ended, after) = wait_for("two seconds of figures", EFFECT_MAX, || {
            let (now, picks) = look(admin)?;
            Ok((now - begun >= 2_000.0).then_some((now, picks)))
        })?;
        let seconds = (ended - begun) / 1_000.0;
        Ok([0, 1].map(|side: usize| (after[side] - before[side]) / seconds))
    }

    fn neighbour(&mut self) -> Result<String, String> {
        self.choose("#load", &self.rate.to_string())?;
        self.aim(2)?;
        self.take(90)?;
        self.listed("neighbour takes 90 %")?;
        let rif = self.status_until(
            "requests to wait at the second side's replica 2",
            |status| in_flight(status, 1, 2).filter(|rif| *rif >= 5),
        )?;
        self.take(0)?;
        self.none_listed()?;
        Ok(format!("{rif} in flight at the second side's replica"))
    }

    fn stall(&mut self) -> Result<String, String> {
        self.aim(3)?;
        self.tab.click("#demo [data-fault=stalled]")?;
        self.listed("stalled")?;
        let rif = self.status_until(
            "requests to be stuck at the second side's replica 3",
            |status| in_flight(status, 1, 3).filter(|rif| *rif >= 10),
        )?;
        self.end()?;
        let after = self.status_until("them to go on", |status| {
            in_flight(status, 1, 3).filter(|after| *after < rif)
        })?;
        Ok(format!(
            "{rif} stuck at the second side's replica, {after} afterwards"
        ))
    }

    /// Ends the trouble with its button in the list.
    fn end(&mut self) -> Result<(), String> {
        self.tab.click(".troubles button")?;
        self.none_listed()
    }

    fn fail(&mut self) -> Result<String, String> {
        self.aim(4)?;
        let failed = |status: &Value| replica(status, 1, 4)["requests"]["responses_5xx"].as_u64();
        let before = self.status_until("figures", failed)?;
        self.tab.click("#demo [data-fault=failing]")?;
        self.listed("fails")?;
        let after = self.status_until("503s of the second side's replica 4", |status| {
            failed(status).filter(|after| *after > before + 3)
        })?;
        self.tab.wait(
            "errors to be shown",
            "[...document.querySelectorAll('.figures .bad')].some((figure) => figure.textContent.startsWith('errors'))",
        )?;
        // Pressing it again ends the trouble.
        self.tab.click("#demo [data-fault=failing]")?;
        self.none_listed()?;
        Ok(format!("{} answered with 5xx", after - before))
    }

    fn kill(&mut self) -> Result<String, String> {
        self.aim(5)?;
        let refused = |status: &Value| {
            let requests = &replica(status, 1, 5)["requests"];
            let of = |field: &str| requests[field].as_u64().unwrap_or_default();
            Some(of("connect_failures") + of("broken"))
        };
        let before = self.status_until("figures", refused)?;
        self.tab.click("#demo [data-fault=killed]")?;
        self.listed("killed")?;
        let after = self.status_until("connections that are refused", |status| {
            refused(status).filter(|after| *after > before)
        })?;
        self.tab.wait(
            "the button to be pressed",
            "document.querySelector('#demo [data-fault=killed]').getAttribute('aria-pressed') === 'true'",
        )?;
        self.end()?;
        Ok(format!("{} refused or cut", after - before))
    }

    /// Checks that the first row of the first side's pool is marked, is cold if any is, and is the
    /// fastest of the cold ones.
    fn why(&mut self) -> Result<String, String> {
        let found = self.tab.wait(
            "two reports to choose from",
            "(() => { const side = document.querySelector('.side'); const rows = [...side.querySelectorAll('.pool:not(.fullest) tbody tr')].map((row) => [...row.cells].map((cell) => cell.textContent)); \
              const ms = (text) => parseFloat(text.replaceAll(',', '')) * (text.endsWith(' s') ? 1000 : text.endsWith(' µs') ? 0.001 : 1); \
              if (rows[0]?.[0] !== 'next') return null; const cold = rows.filter((row) => row[4] === 'no'); \
              return { next: rows[0], only: rows.filter((row) => row[0] === 'next').length === 1, \
                best: !cold.length || cold.every((row) => ms(row[3]) >= ms(rows[0][3])), rule: side.querySelector('.rule').textContent }; })()",
        )?;
        if found["only"] == true && found["best"] == true {
            Ok(found["rule"].as_str().unwrap_or_default().to_owned())
        } else {
            Err(found.to_string())
        }
    }

    fn policy(&mut self) -> Result<String, String> {
        self.choose(".side:nth-child(2) select.policy", "least_loaded")?;
        let policy = self.status_until("another policy of the second side", |status| {
            let policy = status["services"][1]["policy"].as_str()?;
            (policy == "least_loaded").then(|| policy.to_owned())
        })?;
        self.tab.wait(
            "the page to say it",
            "document.querySelector('#side-1').textContent === 'least_loaded'",
        )?;
        Ok(policy)
    }

    fn reset(&mut self) -> Result<String, String> {
        self.aim(6)?;
        self.take(50)?;
        self.listed("neighbour takes 50 %")?;
        self.tab.click("#reset")?;
        self.none_listed()?;
        self.status_until("the second side's first policy", |status| {
            (status["services"][1]["policy"] == "round_robin").then_some(())
        })?;
        let demo = self.tick_demo()?;
        if demo["weather"] == true {
            Ok("no trouble, the weather on, the policies as at first".to_owned())
        } else {
            Err(format!("the next tick says {demo}"))
        }
    }
}

/// A replica of a side in `/status`.
fn replica(status: &Value, side: usize, index: usize) -> &Value {
    let service = &status["services"][side]["name"];
    let replicas = status["replicas"].as_array().into_iter().flatten();
    let mut own = replicas.filter(|replica| replica["service"] == *service);
    own.nth(index).unwrap_or(&Value::Null)
}

fn in_flight(status: &Value, side: usize, index: usize) -> Option<u64> {
    replica(status, side, index)["in_flight"].as_u64()
}

/// Picks of a side since the start.
fn picks(status: &Value, side: usize) -> f64 {
    let picks = status["services"][side]["counts"]["picks"].as_object();
    picks
        .into_iter()
        .flatten()
        .filter_map(|(_, count)| count.as_f64())
        .sum()
}
