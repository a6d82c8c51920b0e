//! One page in the browser, used by keyboard and mouse, and the record of its errors.

use super::browser::Browser;
use super::devtools::DevTools;
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use core::net::SocketAddr;
use core::time::Duration;
use serde_json::{Value, json};
use std::fs;
use std::path::Path;
use std::time::Instant;

/// Timeout for a condition of the page.
const CONDITION_MAX: Duration = Duration::from_mins(1);

/// Interval of checks of the condition.
const LOOK: Duration = Duration::from_millis(50);

/// Size and theme of the window.
#[derive(Clone, Copy, Debug)]
pub(super) struct View {
    pub(super) width: u32,
    pub(super) height: u32,
    pub(super) dark: bool,
}

/// Seconds since the start: CPU time of all of the browser's processes, CPU time of the page's own
/// process, time in its scripts, and elapsed time.
#[derive(Clone, Copy, Debug)]
pub(super) struct Spent {
    pub(super) browser: f64,
    pub(super) page: f64,
    pub(super) script: f64,
}

/// A page of the dashboard.
pub(super) struct Tab {
    devtools: DevTools,
    address: SocketAddr,
    target: String,
    /// Errors in the page so far.
    problems: Vec<String>,
}

impl Tab {
    /// Opens the dashboard at `address`, and waits until it shows data.
    pub(super) fn open(browser: &Browser, address: SocketAddr, view: View) -> Result<Self, String> {
        Self::open_at(browser, address, view, "/")
    }

    /// Like [`open`](Self::open), at a path, which may name a service.
    pub(super) fn open_at(
        browser: &Browser,
        address: SocketAddr,
        view: View,
        path: &str,
    ) -> Result<Self, String> {
        let mut devtools = browser.connect()?;
        let made = devtools.call("Target.createTarget", &json!({"url": "about:blank"}))?;
        let target = text(&made, "targetId");
        let attached = devtools.call(
            "Target.attachToTarget",
            &json!({"targetId": target, "flatten": true}),
        )?;
        devtools.attach(text(&attached, "sessionId"));
        let mut tab = Self {
            devtools,
            address,
            target,
            problems: Vec::new(),
        };
        for domain in [
            "Page",
            "Runtime",
            "Log",
            "Network",
            "Accessibility",
            "Performance",
        ] {
            tab.devtools.call(&format!("{domain}.enable"), &json!({}))?;
        }
        // Otherwise another tab that opens or closes takes the focus from the page for a while, and
        // no `:focus` holds then.
        tab.devtools.call(
            "Emulation.setFocusEmulationEnabled",
            &json!({"enabled": true}),
        )?;
        tab.look(view)?;
        let url = format!("http://{address}{path}");
        tab.devtools.call("Page.navigate", &json!({"url": url}))?;
        tab.wait(
            "figures",
            "document.querySelector('#link')?.dataset.link === 'live' && document.querySelector('#sides .figures')?.children.length > 3",
        )?;
        Ok(tab)
    }

    /// Sets the window's size and the system's theme.
    pub(super) fn look(&mut self, view: View) -> Result<(), String> {
        let View { width, height, .. } = view;
        let size =
            json!({"width": width, "height": height, "deviceScaleFactor": 1, "mobile": false});
        self.devtools
            .call("Emulation.setDeviceMetricsOverride", &size)?;
        let scheme = if view.dark { "dark" } else { "light" };
        let media = json!({"features": [{"name": "prefers-color-scheme", "value": scheme}]});
        self.devtools.call("Emulation.setEmulatedMedia", &media)?;
        Ok(())
    }

    /// Evaluates an expression in the page; a promise is awaited.
    pub(super) fn evaluate(&mut self, expression: &str) -> Result<Value, String> {
        let parameters = json!({"expression": expression, "awaitPromise": true, "returnByValue": true, "userGesture": true});
        let answer = self.devtools.call("Runtime.evaluate", &parameters)?;
        match answer.get("exceptionDetails") {
            Some(details) => {
                let begins: String = expression.chars().take(100).collect();
                Err(format!("{begins}…: {details}"))
            }
            None => Ok(answer["result"]["value"].clone()),
        }
    }

    /// Waits until an expression is true; the error has its last value.
    pub(super) fn wait(&mut self, what: &str, expression: &str) -> Result<Value, String> {
        let begun = Instant::now();
        loop {
            let value = self.evaluate(expression)?;
            if !matches!(value, Value::Null | Value::Bool(false)) {
                return Ok(value);
            }
            if begun.elapsed() >= CONDITION_MAX {
                let seen =
                    self.evaluate("document.querySelector('main').innerText.slice(0, 400)")?;
                return Err(format!("waited for {what}; the page says {seen}"));
            }
            std::thread::sleep(LOOK);
        }
    }

    /// Clicks on the middle of the element that a selector finds.
    pub(super) fn click(&mut self, selector: &str) -> Result<(), String> {
        let place = format!(
            "(() => {{ const found = document.querySelector({selector:?}); if (!found) return null; \
             found.scrollIntoView({{ block: 'center' }}); const box = found.getBoundingClientRect(); \
             return [box.x + box.width / 2, box.y + box.height / 2]; }})()"
        );
        let place = self.evaluate(&place)?;
        let (Some(x), Some(y)) = (place[0].as_f64(), place[1].as_f64()) else {
            return Err(format!("there is no {selector} to click on"));
        };
        for kind in ["mousePressed", "mouseReleased"] {
            let event = json!({"type": kind, "x": x, "y": y, "button": "left", "buttons": 1, "clickCount": 1});
            self.devtools.call("Input.dispatchMouseEvent", &event)?;
        }
        Ok(())
    }

    /// Presses a key: a letter, or a key with a name.
    pub(super) fn press(&mut self, key: &str) -> Result<(), String> {
        let code = match key {
            "Tab" => 9,
            "Enter" => 13,
            "Escape" => 27,
            "ArrowRight" => 39,
            "ArrowDown" => 40,
            "End" => 35,
            "Home" => 36,
            _ => 0,
        };
        let mut event = json!({"type": "keyDown", "key": key, "windowsVirtualKeyCode": code});
        if code == 0 {
            event["text"] = json!(key);
        } else if key == "Enter" {
            event["text"] = json!("\r");
        }
        self.devtools
            .call("Input.dispatchKeyEvent", &event.clone())?;
        event["type"] = json!("keyUp");
        self.devtools.call("Input.dispatchKeyEvent", &event)?;
        Ok(())
    }

    /// Takes a picture of the window.
    pub(super) fn shoot(&mut self, file: &Path) -> Result<usize, String> {
        let answer = self
            .devtools
            .call("Page.captureScreenshot", &json!({"format": "png"}))?;
        let wrong = |why: &dyn core::fmt::Display| format!("{}: {why}", file.display());
        let picture = STANDARD
            .decode(text(&answer, "data"))
            .map_err(|error| wrong(&error))?;
        fs::write(file, &picture).map_err(|error| wrong(&error))?;
        Ok(picture.len())
    }

    /// Every control and image for a screen reader, with its role and its name.
    pub(super) fn names(&mut self) -> Result<Vec<(String, String)>, String> {
        const ROLES: [&str; 12] = [
            "button",
            "combobox",
            "slider",
            "checkbox",
            "searchbox",
            "textbox",
            "link",
            "listbox",
            "option",
            "image",
            "dialog",
            "region",
        ];
        let tree = self
            .devtools
            .call("Accessibility.getFullAXTree", &json!({}))?;
        let nodes = tree["nodes"].as_array().cloned().unwrap_or_default();
        let shown = nodes.iter().filter(|node| node["ignored"] == false);
        let named = shown.map(|node| {
            let of = |field: &str| text(&node[field], "value");
            (of("role"), of("name"))
        });
        Ok(named
            .filter(|(role, _)| ROLES.contains(&role.as_str()))
            .collect())
    }

    /// The page's resource usage so far.
    pub(super) fn spent(&mut self) -> Result<Spent, String> {
        let silent = || "the browser does not say how busy it was".to_owned();
        let answer = self.devtools.call_browser("SystemInfo.getProcessInfo")?;
        let processes = answer["processInfo"].as_array().ok_or_else(silent)?;
        let times = processes.iter().map(|process| process["cpuTime"].as_f64());
        let answer = self.devtools.call("Performance.getMetrics", &json!({}))?;
        let metrics = answer["metrics"].as_array().ok_or_else(silent)?;
        let of = |name: &str| {
            let metric = metrics.iter().find(|metric| metric["name"] == name);
            metric.and_then(|metric| metric["value"].as_f64())
        };
        Ok(Spent {
            browser: times.flatten().sum(),
            page: of("ProcessTime").ok_or_else(silent)?,
            script: of("ScriptDuration").ok_or_else(silent)?,
        })
    }

    /// Errors so far: console errors, exceptions, requests to other hosts, error responses.
    pub(super) fn problems(&mut self) -> &[String] {
        let own = format!("http://{}/", self.address);
        for event in self.devtools.take_events() {
            let parameters = &event["params"];
            let found = match event["method"].as_str().unwrap_or_default() {
                "Runtime.exceptionThrown" => Some(format!(
                    "exception: {}",
                    parameters["exceptionDetails"]["exception"]["description"]
                )),
                "Runtime.consoleAPICalled"
                    if ["error", "warning", "assert"]
                        .contains(&parameters["type"].as_str().unwrap_or_default()) =>
                {
                    Some(format!("console: {}", parameters["args"]))
                }
                "Log.entryAdded" if parameters["entry"]["level"] == "error" => {
                    let entry = &parameters["entry"];
                    Some(format!("log: {} {}", entry["text"], entry["url"]))
                }
                "Network.requestWillBeSent" => {
                    let url = text(&parameters["request"], "url");
                    let is_own = url.starts_with(&own) || url.starts_with("data:");
                    (!is_own).then(|| format!("external request: {url}"))
                }
                _ => None,
            };
            self.problems.extend(found);
        }
        &self.problems
    }

    /// Closes the page.
    pub(super) fn close(mut self) -> Result<(), String> {
        let target = self.target.clone();
        self.devtools
            .call("Target.closeTarget", &json!({"targetId": target}))
            .map(drop)
    }
}

fn text(value: &Value, field: &str) -> String {
    value[field].as_str().unwrap_or_default().to_owned()
}
