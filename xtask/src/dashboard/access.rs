//! Accessibility: keyboard, names for screen readers, contrast; and that the page makes no external
//! requests.

use super::browser::Browser;
use super::tab::{Tab, View};
use super::{SMALL, Stage, WINDOW, axe};
use core::net::SocketAddr;

const UNITS: &str = include_str!("units.js");
const CONTRAST: &str = include_str!("contrast.js");
const FOCUS: &str = include_str!("focus.js");
const UNVISITED: &str = include_str!("unvisited.js");

/// After this many presses of Tab, the focus has been everywhere.
const TABS_MAX: usize = 120;

/// Checks a page that shows data, in `tab`, from the admin server at `admin`.
pub(super) fn run(stage: &mut Stage<'_>, step: &'static str, tab: &mut Tab, admin: SocketAddr) {
    let units = units(stage.browser, admin);
    stage.note(step, "the modules by themselves", units);
    let keys = keys(tab);
    stage.note(step, "everything is reached by keys, and seen to be", keys);
    let fleet = fleet_by_keys(tab);
    stage.note(step, "the fleet by keys", fleet);
    let pool = pool_by_keys(tab);
    stage.note(step, "the pool by keys", pool);
    let names = names(tab);
    stage.note(step, "controls have names", names);
    let contrast = contrast(tab);
    stage.note(step, "contrast, light and dark", contrast);
    let small = small(tab);
    stage.note(step, "a window of 390 pixels", small);
}

/// Checks the page by the rules of axe, in both themes.
pub(super) fn axe(stage: &mut Stage<'_>, step: &'static str, tab: &mut Tab) {
    let found = axe::check(&stage.axe, tab);
    stage.note(step, "axe", found);
}

/// Checks that the page has had no errors so far.
pub(super) fn quiet(tab: &mut Tab) -> Result<String, String> {
    match tab.problems() {
        [] => Ok("no errors, and no external request".to_owned()),
        problems => Err(problems.join("; ")),
    }
}

/// Checks the page's modules. They keep state, so this page is none that a later check looks at.
fn units(browser: &Browser, admin: SocketAddr) -> Result<String, String> {
    let mut tab = Tab::open(browser, admin, WINDOW)?;
    let failed = tab.evaluate(UNITS)?;
    tab.close()?;
    none_of(&failed, "all hold")
}

/// Returns the list as an error unless it is empty.
fn none_of(list: &serde_json::Value, otherwise: &str) -> Result<String, String> {
    match list.as_array() {
        Some(list) if list.is_empty() => Ok(otherwise.to_owned()),
        _ => Err(list.to_string()),
    }
}

fn keys(tab: &mut Tab) -> Result<String, String> {
    // Starts at the first control; a blur would continue from the last focus.
    tab.evaluate("document.querySelector('.skip').focus({ focusVisible: true })")?;
    let mut visited = 0;
    for _ in 0..TABS_MAX {
        let at = tab.evaluate(FOCUS)?;
        if at.is_null() {
            break;
        }
        tab.press("Tab")?;
        visited += 1;
        if at["seen"] != true || at["shown"] != true {
            return Err(format!("one does not see that it has the focus: {at}"));
        }
    }
    let unvisited = tab.evaluate(UNVISITED)?;
    none_of(&unvisited, &format!("{visited} places"))
        .map_err(|list| format!("not reached with the tabulator: {list}"))
}

pub(super) fn fleet_by_keys(tab: &mut Tab) -> Result<String, String> {
    tab.evaluate("document.activeElement?.blur()")?;
    tab.press("f")?;
    let option = "document.querySelector('[role=option]:not([hidden])')";
    let name = format!("{option}.textContent.split(' · ')[0]");
    tab.wait(
        "the first replica",
        &format!("{option}.getAttribute('aria-selected') === 'true'"),
    )?;
    let first = tab.evaluate(&name)?;
    tab.press("ArrowRight")?;
    let second = tab.wait("the next replica", &format!("{name} !== {first} && {name}"))?;
    tab.press("End")?;
    let last = tab.wait(
        "the last replica",
        &format!("{name} !== {second} && {name}"),
    )?;
    tab.press("Enter")?;
    tab.wait(
        "the replica's own figures",
        &format!("!document.querySelector('.sheet').hidden && document.querySelector('#replica-title').textContent === {last}"),
    )?;
    tab.wait(
        "its past",
        "[...document.querySelectorAll('.sheet .legend td')].some((cell) => cell.textContent !== '–')",
    )?;
    tab.press("Escape")?;
    tab.wait(
        "the fleet to have the focus again",
        "document.querySelector('.sheet').hidden && document.activeElement?.getAttribute('role') === 'listbox'",
    )?;
    tab.press("/")?;
    tab.wait("the filter", "document.activeElement?.id === 'filter'")?;
    for key in ["n", "o", "n", "e"] {
        tab.press(key)?;
    }
    tab.wait(
        "no replica to match",
        "document.querySelector('.fleet .none').textContent.startsWith('No replica matches the filter.')",
    )?;
    tab.evaluate("(() => { const filter = document.querySelector('#filter'); filter.value = ''; filter.dispatchEvent(new Event('input')); filter.blur(); })()")?;
    tab.press("t")?;
    tab.wait(
        "the table",
        "document.querySelector('.fleet .figures-table tbody tr')?.checkVisibility()",
    )?;
    let rows =
        tab.evaluate("document.querySelectorAll('.fleet .figures-table tbody tr').length")?;
    tab.press("t")?;
    tab.press("?")?;
    tab.wait("the help", "document.querySelector('#help').open")?;
    tab.press("Escape")?;
    tab.wait("no help", "!document.querySelector('#help').open")?;
    Ok(format!("from {first} to {last}; {rows} rows as tables"))
}

/// Tab stops at one row, arrow keys move on from there, and Enter opens a row.
fn pool_by_keys(tab: &mut Tab) -> Result<String, String> {
    let focused = "document.activeElement.closest('.pool tbody tr')";
    tab.wait(
        "a row to tab to",
        "(() => { const one = document.querySelector('.pool tbody button[tabindex=\"0\"]'); one?.focus(); return document.activeElement === one; })()",
    )?;
    tab.evaluate(&format!(
        "{focused}.parentElement.rows[0].querySelector('button').focus()"
    ))?;
    tab.press("ArrowDown")?;
    tab.wait(
        "the row below to have the focus",
        &format!("{focused}?.sectionRowIndex === 1"),
    )?;
    tab.press("Enter")?;
    tab.wait(
        "a replica's own figures",
        "!document.querySelector('.sheet').hidden && document.activeElement?.id === 'replica-title'",
    )?;
    let opened = tab.evaluate("document.querySelector('#replica-title').textContent")?;
    tab.press("Escape")?;
    tab.wait("no replica", "document.querySelector('.sheet').hidden")?;
    Ok(format!("{opened} opened"))
}

fn names(tab: &mut Tab) -> Result<String, String> {
    let names = tab.names()?;
    let nameless: Vec<_> = names
        .iter()
        .filter(|(_, name)| name.trim().is_empty())
        .map(|(role, _)| role.as_str())
        .collect();
    if nameless.is_empty() && names.len() > 10 {
        Ok(format!("{} of them", names.len()))
    } else {
        Err(format!("of {}, without a name: {nameless:?}", names.len()))
    }
}

fn contrast(tab: &mut Tab) -> Result<String, String> {
    for dark in [false, true] {
        tab.look(View { dark, ..WINDOW })?;
        let low = tab.evaluate(CONTRAST)?;
        none_of(&low, "")
            .map_err(|low| format!("{}: {low}", if dark { "dark" } else { "light" }))?;
    }
    tab.look(WINDOW)?;
    Ok("AA".to_owned())
}

/// Checks that nothing exceeds a small window.
fn small(tab: &mut Tab) -> Result<String, String> {
    tab.look(SMALL)?;
    let wide = tab.wait("a layout", "document.documentElement.scrollWidth")?;
    tab.look(WINDOW)?;
    if wide.as_u64().is_some_and(|wide| wide <= 390) {
        Ok("nothing sticks out".to_owned())
    } else {
        Err(format!("the page is {wide} pixels wide"))
    }
}
