//! The page's layout and views: nothing off the screen, nothing covered, selection by click; the
//! list of services, the configuration, an empty service, and problems.

use super::tab::{Tab, View};
use super::{BOTH, START_MAX, Stage, WINDOW, access};
use crate::loopback::ports::FreePorts;
use crate::loopback::processes::wait_for;
use crate::loopback::{http, serve};
use core::net::SocketAddr;
use core::time::Duration;
use rustix::process::{Signal, kill_process};
use std::fs;
use std::io::Write;
use std::net::{TcpListener, TcpStream};

const STEP: &str = "views";

/// Time for a change to appear.
const EFFECT_MAX: Duration = Duration::from_secs(20);

/// As narrow as a phone held upright.
const NARROW: View = View {
    width: 400,
    height: 800,
    dark: false,
};

/// Elements wider than their container: a column that one has to scroll to.
const OFF: &str = "[...document.querySelectorAll('main, .card, .plot, .table-box, .pool-box, .problems')] \
    .filter((box) => box.checkVisibility() && box.scrollWidth > box.clientWidth + 1) \
    .map((box) => `${box.className} of ${box.closest('section')?.querySelector('h2, h3')?.textContent}: ${box.scrollWidth} > ${box.clientWidth}`)";

/// At 1440 pixels no column is off the screen, neither in the chart nor in the table.
pub(super) fn layout(tab: &mut Tab) -> Result<String, String> {
    tab.look(WINDOW)?;
    let picture = tab.evaluate(OFF)?;
    tab.press("t")?;
    tab.wait(
        "the table",
        "document.querySelector('.fleet .figures-table tbody tr')?.checkVisibility()",
    )?;
    let table = tab.evaluate(OFF)?;
    tab.press("t")?;
    for (what, off) in [("the picture", picture), ("the table", table)] {
        if off.as_array().is_none_or(|it| !it.is_empty()) {
            return Err(format!("{what}: {off}"));
        }
    }
    Ok("all of it".to_owned())
}

/// At 400 pixels the header scrolls with the page, and the page is no wider than the window.
pub(super) fn header(tab: &mut Tab) -> Result<String, String> {
    tab.look(NARROW)?;
    let found = tab.evaluate(
        "(() => { window.scrollTo(0, 600); const at = document.elementFromPoint(200, 4); \
          const found = { covered: Boolean(at?.closest('header')), wide: document.documentElement.scrollWidth, scrolled: window.scrollY }; \
          window.scrollTo(0, 0); return found; })()",
    )?;
    tab.look(WINDOW)?;
    let is_good = found["covered"] == false
        && found["wide"].as_u64().is_some_and(|wide| wide <= 400)
        && found["scrolled"].as_u64() > Some(0);
    if is_good {
        Ok("nothing is covered".to_owned())
    } else {
        Err(found.to_string())
    }
}

/// Hovering over a replica shows its values, a click selects it, another click deselects it.
pub(super) fn select(tab: &mut Tab) -> Result<String, String> {
    let point = |kind: &str| {
        format!(
            "(() => {{ const plot = document.querySelector('.fleet .plot'); const box = plot.getBoundingClientRect(); \
              plot.dispatchEvent(new PointerEvent('{kind}', {{ bubbles: true, clientX: box.x + 0.5 * box.width, clientY: box.y + box.height - 30 }})); return true; }})()"
        )
    };
    tab.evaluate(&point("pointermove"))?;
    let tip = tab.wait(
        "the values of the replica pointed at",
        "(() => { const tip = document.querySelector('.fleet .tip'); return tip.checkVisibility() && /in flight/.test(tip.textContent) && tip.querySelector('b').textContent; })()",
    )?;
    let title = "!document.querySelector('.sheet').hidden && (document.querySelector('#replica-title').textContent || null)";
    tab.evaluate(&point("click"))?;
    let chosen = tab.wait("the replica to be selected", title)?;
    if chosen != tip {
        return Err(format!("pointed at {tip}, selected {chosen}"));
    }
    // The card may have another width now.
    tab.evaluate("document.querySelector('#replica-close').click()")?;
    tab.wait(
        "nothing to be selected",
        "document.querySelector('.sheet').hidden",
    )?;
    tab.evaluate(&point("pointerleave"))?;
    ranges(tab)?;
    Ok(tip.to_string())
}

/// Selects a range of time, and checks the values at a moment.
fn ranges(tab: &mut Tab) -> Result<(), String> {
    for ms in [900_000, 60_000, 300_000] {
        tab.click(&format!(".ranges [data-ms='{ms}']"))?;
        tab.wait(
            "the range to be pressed",
            &format!("document.querySelector(\".ranges [data-ms='{ms}']\").getAttribute('aria-pressed') === 'true'"),
        )?;
    }
    tab.evaluate(
        "(() => { const plot = document.querySelector('.chart .plot'); const box = plot.getBoundingClientRect(); \
          plot.dispatchEvent(new PointerEvent('pointermove', { clientX: box.right - 40, clientY: box.y + 20 })); })()",
    )?;
    tab.wait(
        "the values of a moment",
        "document.querySelector('.chart .legend thead th:nth-child(2)').textContent.startsWith('−')",
    )?;
    tab.evaluate(
        "document.querySelector('.chart .plot').dispatchEvent(new PointerEvent('pointerleave'))",
    )?;
    tab.evaluate("window.scrollTo(0, 0)").map(drop)
}

/// Three services of a `serve`: one that works, one that is down, one without replicas.
pub(super) fn run(stage: &mut Stage<'_>) {
    let played = play(stage);
    stage.note(STEP, "services and configuration", played);
}

fn play(stage: &mut Stage<'_>) -> Result<String, String> {
    let replica = replica()?;
    let mut ports = FreePorts::default();
    let [address, admin, dead] = [ports.take()?, ports.take()?, ports.take()?];
    drop(ports);
    let file = stage.folder.join("views.toml");
    let text = configuration(address, admin, replica, dead);
    fs::write(&file, &text).map_err(|error| format!("{}: {error}", file.display()))?;
    let serve = serve::start(
        stage.programs.processes,
        stage.programs.slackwater,
        &file,
        (admin, START_MAX),
    )?;
    let mut tab = Tab::open_at(stage.browser, admin, WINDOW, "/#web")?;
    let idle = tab.wait(
        "what to do while no request has come",
        "document.querySelector('.idle-hint')?.checkVisibility() && document.querySelector('.idle-hint').textContent",
    );
    stage.note(STEP, "no request yet", idle.map(|it| it.to_string()));
    for _ in 0..20 {
        http::get(address, "/").map(drop)?;
    }
    let quiet = tab.wait(
        "the hint to go",
        "document.querySelector('.idle-hint').checkVisibility() === false",
    );
    stage.note(STEP, "requests have come", quiet.map(|_| String::new()));
    let services = services(&mut tab);
    stage.note(STEP, "all services at a glance", services);
    access::axe(stage, STEP, &mut tab);
    let shot = stage.shoot(&mut tab, "services", WINDOW, BOTH);
    stage.note(STEP, "pictures of all services", shot);
    // A configuration with a mistake is rejected, and the page shows that without a reload.
    fs::write(&file, text.replace("policy = ", "polcy = "))
        .map_err(|error| format!("{}: {error}", file.display()))?;
    kill_process(serve.pid(), Signal::HUP).map_err(|error| format!("SIGHUP: {error}"))?;
    let configuration = shown_configuration(&mut tab, admin, address);
    stage.note(STEP, "the page of the configuration", configuration);
    access::axe(stage, STEP, &mut tab);
    let shot = stage.shoot(&mut tab, "configuration", WINDOW, BOTH);
    stage.note(STEP, "pictures of the configuration", shot);
    let empty = empty(&mut tab);
    stage.note(STEP, "a service without replicas", empty);
    access::axe(stage, STEP, &mut tab);
    let shot = stage.shoot(&mut tab, "serve-0", WINDOW, BOTH);
    stage.note(STEP, "pictures without replicas", shot);
    drop(serve);
    let lost = tab.wait(
        "the connection to be lost",
        "document.querySelector('#banner').checkVisibility() && /^Connection lost.*Showing data from [0-9]+ s ago/.test(document.querySelector('#banner').textContent) && document.querySelector('#banner').textContent",
    );
    stage.note(
        STEP,
        "the connection is lost",
        lost.map(|it| it.to_string()),
    );
    tab.close()?;
    Ok("three services".to_owned())
}

/// Starts a replica that answers every request at once.
fn replica() -> Result<SocketAddr, String> {
    let wrong = |error: std::io::Error| format!("a replica cannot be started: {error}");
    let listener = TcpListener::bind("127.0.0.1:0").map_err(wrong)?;
    let address = listener.local_addr().map_err(wrong)?;
    // It ends with xtask.
    std::thread::spawn(move || {
        for stream in listener.incoming().flatten() {
            std::thread::spawn(move || answer(stream));
        }
    });
    Ok(address)
}

fn answer(mut stream: TcpStream) {
    use std::io::{BufRead, BufReader};
    let Ok(reader) = stream.try_clone() else {
        return;
    };
    for line in BufReader::new(reader).lines() {
        match line {
            Ok(line) if line.is_empty() => {
                let sent = stream.write_all(b"HTTP/1.1 200 OK\r\ncontent-length: 0\r\n\r\n");
                if sent.is_err() {
                    return;
                }
            }
            Ok(_) => (),
            Err(_) => return,
        }
    }
}

fn configuration(
    address: SocketAddr,
    admin: SocketAddr,
    replica: SocketAddr,
    dead: SocketAddr,
) -> String {
    format!(
        "[[listeners]]\nname = \"inside\"\naddress = \"{address}\"\n\n[admin]\nlisten = \"{admin}\"\n\n\
         [services.web]\npolicy = \"prequal\"\nreplicas = [\"{replica}\"]\n\n\
         [services.ill]\nreplicas = [\"{dead}\"]\nhealth = {{ check = \"tcp\", interval = \"1s\" }}\n\n\
         [services.void]\ndiscovery = {{ dns = \"replicas.invalid:80\" }}\n\n\
         [[routes]]\nhost = \"ill.test\"\nservice = \"ill\"\n\n\
         [[routes]]\npath_prefix = \"/void\"\nservice = \"void\"\n\n[[routes]]\nservice = \"web\"\n"
    )
}

/// Each service is a row, the ill ones first; the list of problems has the one that is down, and
/// why.
fn services(tab: &mut Tab) -> Result<String, String> {
    tab.evaluate("location.hash = '#/services'; true")?;
    tab.wait(
        "the services, the ill ones first",
        "(() => { const rows = [...document.querySelectorAll('.services tbody tr')]; const names = rows.map((row) => row.querySelector('button').textContent); \
          return names.length === 3 && names[2] === 'web' && rows[2].cells[1].textContent === 'none'; })()",
    )?;
    let problem = tab.wait(
        "the replica that is down among the problems",
        "[...document.querySelectorAll('.problems li b')].map((text) => text.textContent).find((text) => /^ill: all 1 replica fail: health checks failed: /.test(text))",
    )?;
    tab.evaluate(
        "[...document.querySelectorAll('.problems li button')].find((show) => show.getAttribute('aria-label').startsWith('Show: ill: all 1 replica fail')).click()",
    )?;
    tab.wait(
        "that replica, with since when, why, and its last check",
        "!document.querySelector('.sheet').hidden && ['since', 'last check', 'what to do'].every((name) => [...document.querySelectorAll('.facts th')].some((cell) => cell.textContent === name))",
    )?;
    tab.press("Escape")?;
    tab.evaluate("location.hash = '#/services'; true")?;
    Ok(problem.to_string())
}

/// The page matches `/status`, and shows the reload that failed.
fn shown_configuration(
    tab: &mut Tab,
    admin: SocketAddr,
    address: SocketAddr,
) -> Result<String, String> {
    let status = wait_for("the reload to be refused", EFFECT_MAX, || {
        let status = http::get_json(admin, "/status")?;
        Ok((status["reloads"]["refused"] == 1).then_some(status))
    })?;
    tab.evaluate("location.hash = '#/configuration'; true")?;
    tab.wait(
        "the reload that was refused",
        "/^Refused at .*polcy/s.test(document.querySelector('.reload').textContent)",
    )?;
    let rows = |id: &str| {
        format!(
            "[...document.querySelectorAll('#{id} tbody tr')].map((row) => [...row.cells].map((cell) => cell.textContent))"
        )
    };
    let listeners = tab.evaluate(&rows("listeners"))?;
    let routes = tab.evaluate(&rows("routes"))?;
    let told = status["routes"].as_array().map_or(0, Vec::len);
    let agrees = listeners[0][0] == "inside"
        && listeners[0][1] == address.to_string()
        && routes.as_array().map_or(0, Vec::len) == told
        && routes[0][2] == "ill.test"
        && routes[1][3] == "/void/*"
        && routes[2][5] == "web";
    if agrees {
        Ok(format!("{told} routes"))
    } else {
        Err(format!("listeners {listeners}, routes {routes}"))
    }
}

/// The page says why there are no replicas, and what to do.
fn empty(tab: &mut Tab) -> Result<String, String> {
    tab.evaluate("location.hash = '#void'; true")?;
    let said = tab.wait(
        "why there are no replicas",
        "(() => { const none = document.querySelector('.fleet .none'); return none?.checkVisibility() && /^void has no replicas.*replicas\\.invalid/.test(none.textContent) && none.textContent; })()",
    )?;
    Ok(said.to_string())
}
