//! Routes, written out as a file.

use super::mirror;
use crate::routes::{
    Action, HeaderChanges, HeaderTest, HostRule, PathRewrite, PathRule, Rewrite, Route,
};
use crate::sections::connect::CONNECT;
use crate::sections::model::Config;
use crate::table::{self, Kind};
use crate::toml_reader::values::quote as quoted;
use core::fmt::{self, Display, Write};

/// Writes every route.
pub(crate) fn write_routes(to: &mut String, config: &Config) {
    // Writing to a string cannot fail.
    let _ = write_all(to, config);
}

fn write_all(to: &mut String, config: &Config) -> fmt::Result {
    for route in &config.routes {
        writeln!(to, "[[routes]]")?;
        write_conditions(to, config, route)?;
        write_action(to, config, route)?;
        write_changes(to, "response_headers", &route.response_headers)?;
        writeln!(to)?;
    }
    Ok(())
}

fn list(values: impl Iterator<Item: Display>) -> String {
    let values: Vec<_> = values.map(quoted).collect();
    format!("[{}]", values.join(", "))
}

fn write_conditions(to: &mut String, config: &Config, route: &Route) -> fmt::Result {
    let when = &route.when;
    if !when.listeners.is_empty() {
        let listeners = when.listeners.iter();
        let named = listeners.filter_map(|place| config.listeners.get(*place));
        writeln!(to, "listeners = {}", list(named.map(|it| &it.name)))?;
    }
    if !when.hosts.is_empty() {
        let hosts = when.hosts.iter().map(HostRule::written);
        writeln!(to, "host = {}", list(hosts))?;
    }
    match &when.path {
        Some(PathRule::Exact(path)) => writeln!(to, "path = {}", quoted(path))?,
        Some(PathRule::Prefix(path)) if path.is_empty() => writeln!(to, "path_prefix = \"/\"")?,
        Some(PathRule::Prefix(path)) => writeln!(to, "path_prefix = {}", quoted(path))?,
        None => (),
    }
    if !when.methods.is_empty() {
        writeln!(to, "method = {}", list(when.methods.iter()))?;
    }
    if !when.headers.is_empty() {
        writeln!(to, "headers = [")?;
        for rule in &when.headers {
            let test = match &rule.test {
                HeaderTest::Present => "present = true".to_owned(),
                HeaderTest::Absent => "present = false".to_owned(),
                HeaderTest::Exact(text) => format!("exact = {}", quoted(text)),
                HeaderTest::Prefix(text) => format!("prefix = {}", quoted(text)),
            };
            writeln!(to, "  {{ name = {}, {test} }},", quoted(&rule.name))?;
        }
        writeln!(to, "]")?;
    }
    Ok(())
}

fn write_action(to: &mut String, config: &Config, route: &Route) -> fmt::Result {
    let name = |place: usize| {
        let service = config.services.get(place);
        service.map_or_else(String::new, |service| quoted(&service.name))
    };
    match &route.then {
        Action::Forward(forward) => {
            match *forward.services.parts() {
                [(service, _)] => writeln!(to, "service = {}", name(service))?,
                ref parts => {
                    writeln!(to, "services = [")?;
                    for &(service, weight) in parts {
                        writeln!(to, "  {{ name = {}, weight = {weight} }},", name(service))?;
                    }
                    writeln!(to, "]")?;
                }
            }
            write_rewrite(to, &forward.rewrite)?;
            write_changes(to, "request_headers", &forward.request_headers)?;
            if let Some(connect) = Kind::show(&CONNECT, &forward.connect)
                && forward.connect != config.connect
            {
                writeln!(to, "connect = {connect}")?;
            }
            for (key, value) in table::shown(&forward.bounds) {
                writeln!(to, "{key} = {value}")?;
            }
            for (key, value) in forward.retries.iter().flat_map(|retries| &retries.set_keys) {
                writeln!(to, "retries.{key} = {value}")?;
            }
            match &forward.mirror {
                Some(mirror) => writeln!(to, "mirror = {}", mirror::shown(config, mirror)),
                None => Ok(()),
            }
        }
        Action::Redirect(redirect) => writeln!(
            to,
            "redirect = {{ status = {}, to = {} }}",
            redirect.status.as_u16(),
            quoted(redirect.to.written())
        ),
        Action::Respond(response) => writeln!(
            to,
            "respond = {{ status = {}, body = {}, content_type = {} }}",
            response.status.as_u16(),
            quoted(String::from_utf8_lossy(&response.body)),
            quoted(String::from_utf8_lossy(response.content_type.as_bytes())),
        ),
    }
}

fn write_rewrite(to: &mut String, rewrite: &Rewrite) -> fmt::Result {
    let mut keys = Vec::new();
    if let Some(host) = &rewrite.host {
        keys.push(format!("host = {}", quoted(host)));
    }
    match &rewrite.path {
        Some(PathRewrite::Whole(path)) => keys.push(format!("path = {}", quoted(path))),
        Some(PathRewrite::Prefix { with, .. }) => {
            let with = if with.is_empty() { "/" } else { with };
            keys.push(format!("path_prefix = {}", quoted(with)));
        }
        None => (),
    }
    if keys.is_empty() {
        return Ok(());
    }
    writeln!(to, "rewrite = {{ {} }}", keys.join(", "))
}

fn write_changes(to: &mut String, name: &str, changes: &HeaderChanges) -> fmt::Result {
    if changes.is_empty() {
        return Ok(());
    }
    let table = |pairs: &[(http::HeaderName, http::HeaderValue)]| {
        let pairs = pairs.iter().map(|(name, value)| {
            let value = quoted(String::from_utf8_lossy(value.as_bytes()));
            format!("{} = {value}", quoted(name))
        });
        format!("{{ {} }}", pairs.collect::<Vec<_>>().join(", "))
    };
    writeln!(
        to,
        "{name} = {{ remove = {}, set = {}, add = {} }}",
        list(changes.remove.iter()),
        table(&changes.set),
        table(&changes.add)
    )
}
