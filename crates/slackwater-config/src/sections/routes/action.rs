//! What happens to a route's requests: exactly one of the keys `service`, `services`, `redirect`
//! and `respond`.

use super::{Named, heads, mirror, when};
use crate::routes::{
    Action, Conditions, FixedResponse, Forward, HeaderChanges, PathRule, Redirect, RetryRules,
    RouteRetries, Split, Template,
};
use crate::sections::connect::CONNECT;
use crate::sections::{Connect, ReplicaProtocol};
use crate::table::{self, Judge, Kind};
use crate::toml_reader::values::{text, whole, within};
use crate::toml_reader::{Definition, Item, Mistake, Reader};
use bytes::Bytes;
use http::{HeaderValue, StatusCode};

const ONE_EXPECTED: &str = "one of service, services, redirect and respond";
/// The largest body of an answer from the configuration.
const BODY_BYTES_MAX: usize = 64 << 10;
/// The statuses that a redirect may have.
const REDIRECTS: [u16; 5] = [301, 302, 303, 307, 308];

/// Reads the action of a route; `None` after a mistake.
pub(super) fn read(
    reader: &mut Reader<'_>,
    prefix: &str,
    named: Named<'_>,
    when: Option<&Conditions>,
) -> Option<Action> {
    let set = ["service", "services", "redirect", "respond"]
        .into_iter()
        .filter(|key| reader.has(&format!("{prefix}{key}")))
        .collect::<Vec<_>>();
    let forward = read_forward(reader, prefix, named, when);
    let redirect = read_redirect(reader, &format!("{prefix}redirect"), when);
    let respond = read_respond(reader, &format!("{prefix}respond"));
    match *set {
        [] => {
            reader.add_missing_key(&format!("{prefix}service"), ONE_EXPECTED);
            None
        }
        ["service" | "services"] => forward.map(|forward| Action::Forward(Box::new(forward))),
        [other] => {
            note_idle(reader, prefix, other);
            match other {
                "redirect" => redirect.map(Action::Redirect),
                _ => respond.map(Action::Respond),
            }
        }
        [first, second, ..] => {
            reader.add_mistake_near(
                &format!("{prefix}{second}"),
                format!("stands beside {first}, expected {ONE_EXPECTED}"),
            );
            None
        }
    }
}

/// Records a mistake for keys that change a request to a service, if the route leads to none.
fn note_idle(reader: &mut Reader<'_>, prefix: &str, action: &str) {
    for key in [
        "rewrite",
        "request_headers",
        "timeouts",
        "limits",
        "connect",
        "mirror",
        "retries",
    ] {
        let field = format!("{prefix}{key}");
        if reader.has(&field) {
            reader.add_mistake_near(
                &field,
                format!("stands beside {action}, expected it only where requests go to a service"),
            );
        }
    }
}

fn read_forward(
    reader: &mut Reader<'_>,
    prefix: &str,
    named: Named<'_>,
    when: Option<&Conditions>,
) -> Option<Forward> {
    let one = reader.take(&format!("{prefix}service"));
    let one = one.map(|item| reader.note(named.service(&item)));
    let several = read_services(reader, &format!("{prefix}services"), named);
    let rewrite = heads::read_rewrite(reader, &format!("{prefix}rewrite"), when);
    let request_headers: Option<HeaderChanges> =
        heads::read_changes(reader, &format!("{prefix}request_headers"));
    let bounds = table::read(reader, prefix);
    let connect = CONNECT.take(reader, &format!("{prefix}connect"), &Judge::none());
    let mirror = mirror::read(reader, prefix, named);
    let retries = retries(reader, prefix);
    let services = match one {
        Some(service) => Split::one(service?),
        None => several?,
    };
    if let Some(definition) = reader.definition(&format!("{prefix}connect"))
        && connect == Some(Connect::Pass)
    {
        note_tunnels_over_http2(reader, &definition, &services, named);
    }
    Some(Forward {
        connect: connect.unwrap_or(named.connect),
        rewrite: rewrite?,
        request_headers: request_headers?,
        bounds,
        mirror,
        retries: retries.map(|keys| Box::new(retries_at(reader, prefix, keys, &services, named))),
        services,
    })
}

/// A tunnel takes over its request's connection, which over HTTP/2 carries other requests, too.
fn note_tunnels_over_http2(
    reader: &mut Reader<'_>,
    definition: &Definition,
    services: &Split,
    named: Named<'_>,
) {
    let mut parts = services.parts().iter();
    let over_http2 = parts.find_map(|&(place, _)| {
        let service = named.services.get(place)?;
        (service.replica.protocol != ReplicaProtocol::Http1).then_some(service)
    });
    if let Some(service) = over_http2 {
        reader.add_mistake(definition.mistake(format!(
            "leads to {}, expected replicas with protocol = \"http1\": over HTTP/2 there are no tunnels here",
            service.name
        )));
    }
}

/// The route's own retry keys.
fn retries(reader: &mut Reader<'_>, prefix: &str) -> Option<Vec<(&'static str, String)>> {
    let rules: RetryRules = table::read(reader, prefix);
    let set_keys = table::shown(&rules);
    let set_keys = set_keys.filter(|(key, _)| reader.has(&table::field::<RetryRules>(prefix, key)));
    Some(set_keys.collect()).filter(|set_keys: &Vec<_>| !set_keys.is_empty())
}

/// The retry rules at each service of the route.
fn retries_at(
    reader: &mut Reader<'_>,
    prefix: &str,
    set_keys: Vec<(&'static str, String)>,
    services: &Split,
    named: Named<'_>,
) -> RouteRetries {
    let mut at = Vec::new();
    for &(place, _) in services.parts() {
        if let Some(service) = named.services.get(place) {
            let mut rules = service.retries.rules.clone();
            table::read_keys(reader, prefix, &mut rules, |_| true);
            at.push((place, rules));
        }
    }
    RouteRetries { set_keys, at }
}

/// Reads the key `services`: a list of tables with a name and a weight each.
fn read_services(reader: &mut Reader<'_>, field: &str, named: Named<'_>) -> Option<Split> {
    let items = reader.take_list(field)?;
    let read: Vec<_> = (items.iter())
        .map(|item| read_part(reader, item, named))
        .collect();
    let parts: Vec<_> = read.into_iter().collect::<Option<_>>()?;
    let twice = (1..parts.len()).find(|&at| parts[..at].iter().any(|part| part.0 == parts[at].0));
    if let Some(item) = twice.and_then(|at| items.get(at)) {
        reader.add_mistake(item.mistake("names a service again, expected each once"));
        return None;
    }
    let split = Split::new(parts);
    if split.is_none() {
        reader.add_mistake_near(
            field,
            format!(
                "leads nowhere, expected from 1 to {} services, one of them with a weight above 0",
                Split::PARTS_MAX
            ),
        );
    }
    split
}

fn read_part(reader: &mut Reader<'_>, item: &Item<'_>, named: Named<'_>) -> Option<(usize, u16)> {
    const EXPECTED: &str = "a table such as { name = \"web\", weight = 95 }";
    if !item.value.is_table() {
        reader.add_mistake(item.mistake(format!("is no table, expected {EXPECTED}")));
        return None;
    }
    let [name, weight] =
        ["name", "weight"].map(|key| reader.take(&format!("{}.{key}", item.definition.field)));
    let [Some(name), Some(weight)] = [name, weight] else {
        reader.add_mistake(item.mistake(format!("is incomplete, expected {EXPECTED}")));
        return None;
    };
    let place = reader.note(named.service(&name));
    let weight = reader.note(weight.read(whole, "a whole number from 0 to 65,535"));
    Some((place?, weight?))
}

/// Reads the section `redirect`; `None` if it is missing or wrong.
fn read_redirect(
    reader: &mut Reader<'_>,
    field: &str,
    when: Option<&Conditions>,
) -> Option<Redirect> {
    const STATUS_EXPECTED: &str = "one of 301, 302, 303, 307, 308";
    let is_there = reader.has(field);
    let status = reader.setting(
        &format!("{field}.status"),
        StatusCode::TEMPORARY_REDIRECT,
        STATUS_EXPECTED,
        |value| {
            let status: u16 = whole(value)?;
            let status = Some(status).filter(|status| REDIRECTS.contains(status));
            status
                .and_then(|status| StatusCode::from_u16(status).ok())
                .ok_or(crate::toml_reader::values::Unfit::Range)
        },
    );
    let to_field = format!("{field}.to");
    let Some(to) = reader.take(&to_field) else {
        if is_there {
            reader.add_missing_key(
                &to_field,
                "where to, such as \"https://{host}{path}{query}\"",
            );
        }
        return None;
    };
    let template = reader.note(template(&to))?;
    let has_prefix = when.is_none_or(|when| matches!(when.path, Some(PathRule::Prefix(_))));
    if template.has_rest() && !has_prefix {
        reader.add_mistake(to.mistake(
            "has {rest} in it, expected a path_prefix in this route: {rest} is what comes behind it",
        ));
        return None;
    }
    Some(Redirect {
        status: status.value,
        to: template,
    })
}

fn template(item: &Item<'_>) -> Result<Template, Mistake> {
    const EXPECTED: &str = "a text such as \"https://{host}{path}{query}\"";
    let written = item.read(|value| text(value, EXPECTED), "")?;
    Template::parse(written).map_err(|why| item.mistake(format!("found {written:?}, {why}")))
}

/// Reads the section `respond`; `None` if it is missing or wrong.
fn read_respond(reader: &mut Reader<'_>, field: &str) -> Option<FixedResponse> {
    let is_there = reader.has(field);
    let status_field = format!("{field}.status");
    let status = reader.take(&status_field);
    if status.is_none() && is_there {
        reader.add_missing_key(&status_field, "a status from 200 to 599");
    }
    let body = reader.take(&format!("{field}.body"));
    let body = match &body {
        Some(item) => reader.note(body_text(item)),
        None => Some(Bytes::new()),
    };
    let content_type = reader.take(&format!("{field}.content_type"));
    let content_type = match &content_type {
        Some(item) => reader.note(when::header_text(item)),
        None => Some("text/plain; charset=utf-8".to_owned()),
    };
    let status: u16 = reader.note(status?.read(
        |value| whole(value).and_then(|status| within(status, &(200..=599))),
        "a status from 200 to 599",
    ))?;
    let body = body?;
    let status = StatusCode::from_u16(status).ok()?;
    let has_no_body = [StatusCode::NO_CONTENT, StatusCode::NOT_MODIFIED].contains(&status);
    if has_no_body && !body.is_empty() {
        reader.add_mistake_near(
            &format!("{field}.body"),
            format!(
                "stands beside status {}, which has no body",
                status.as_u16()
            ),
        );
        return None;
    }
    Some(FixedResponse {
        status,
        body,
        content_type: HeaderValue::try_from(content_type?).ok()?,
    })
}

fn body_text(item: &Item<'_>) -> Result<Bytes, Mistake> {
    let body = item.read(|value| text(value, "a text"), "")?;
    if body.len() > BODY_BYTES_MAX {
        return Err(item.mistake(format!("has {} bytes, expected at most 64KiB", body.len())));
    }
    Ok(Bytes::copy_from_slice(body.as_bytes()))
}
