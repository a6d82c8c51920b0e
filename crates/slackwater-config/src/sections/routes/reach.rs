//! What routes mean together: routes that no request reaches, services without a route, redirects
//! that lead back to themselves.

use super::LocatedRoute;
use crate::routes::{
    Action, Asked, HeaderTest, HostRule, Parts, Path, PathRule, Reading, Route, host_of,
};
use crate::sections::listeners::LocatedListener;
use crate::sections::model::ServiceConfig;
use crate::toml_reader::{Definition, Reader, Remark, Severity};
use http::uri::{Authority, Uri};
use http::{HeaderValue, Method};
use slackwater_http::Fields;

/// Warns about routes after one that takes all their requests, and about services that get no
/// requests.
pub(super) fn remarks(
    reader: &Reader<'_>,
    routes: &[LocatedRoute],
    services: &[ServiceConfig],
) -> Vec<Remark> {
    let warning = |definition: &Definition, message: String| Remark {
        severity: Severity::Warning,
        about: definition.mistake(message),
    };
    let mut remarks = Vec::new();
    for (index, later) in routes.iter().enumerate() {
        let mut earlier = routes.iter().take(index);
        if let Some(first) = earlier.find(|first| first.route.when.covers(&later.route.when)) {
            let told = format!(
                "is never reached: {} takes all of its requests",
                first.definition.field
            );
            remarks.push(warning(&later.definition, told));
        }
    }
    remarks.extend(
        routes
            .iter()
            .filter_map(|route| literal_star(reader, route)),
    );
    for (place, service) in services.iter().enumerate() {
        let leads_there = |it: &LocatedRoute| match &it.route.then {
            Action::Forward(forward) => {
                let mut parts = forward.services.parts().iter();
                let is_copied = forward.mirror.is_some_and(|mirror| mirror.service == place);
                is_copied || parts.any(|&(service, weight)| service == place && weight > 0)
            }
            Action::Redirect(_) | Action::Respond(_) => false,
        };
        let field = format!("services.{}", service.name);
        if !routes.iter().any(leads_there)
            && let Some(definition) = reader.section_definition(&field)
        {
            remarks.push(warning(
                &definition,
                "gets no requests: no route leads to it".to_owned(),
            ));
        }
    }
    remarks
}

/// Warns about a path with a star: other software reads it as a wildcard, routes read it as a
/// character.
fn literal_star(reader: &Reader<'_>, route: &LocatedRoute) -> Option<Remark> {
    let (key, path) = match route.route.when.path.as_ref()? {
        PathRule::Exact(path) => ("path", path),
        PathRule::Prefix(path) => ("path_prefix", path),
    };
    let (before, _) = path.split_once('*')?;
    let about = reader.definition(&format!("{}.{key}", route.definition.field))?;
    let prefix = match before.rfind('/') {
        None | Some(0) => "/",
        Some(slash) => before.get(..slash)?,
    };
    let message = format!(
        "has a \"*\", which is an ordinary character here: only paths with a \"*\" in them match; for all paths below \
         {prefix} write path_prefix = {prefix:?}"
    );
    Some(Remark {
        severity: Severity::Warning,
        about: about.mistake(message),
    })
}

/// Records a mistake for each redirect whose target the same route would redirect again. It sends
/// an example request of the route to the redirect's target, so it cannot find all of them.
pub(super) fn note_circles(
    reader: &mut Reader<'_>,
    routes: &[LocatedRoute],
    listeners: &[LocatedListener],
) {
    for LocatedRoute { route, definition } in routes {
        let is_own = |(place, _): &(usize, &LocatedListener)| {
            route.when.listeners.is_empty() || route.when.listeners.contains(place)
        };
        let own: Vec<_> = (listeners.iter().enumerate())
            .filter(is_own)
            .map(|(place, listener)| Entrance {
                place,
                port: listener.config.address.port(),
                scheme: match listener.config.tls {
                    Some(_) => "https",
                    None => "http",
                },
            })
            .collect();
        if own
            .iter()
            .any(|by| leads_back(route, by, &own) == Some(true))
        {
            let told = "leads back to this route, which would redirect it again, forever";
            reader.add_mistake_near(
                &format!("{}.redirect.to", definition.field),
                told.to_owned(),
            );
        }
    }
}

/// A listener through which a route's requests arrive.
struct Entrance {
    place: usize,
    port: u16,
    scheme: &'static str,
}

/// Returns whether a request that came in through the listener `by` is redirected to the same
/// route, through any of `entrances`; `None` if that cannot be decided.
fn leads_back(route: &Route, by: &Entrance, entrances: &[Entrance]) -> Option<bool> {
    let Action::Redirect(redirect) = &route.then else {
        return Some(false);
    };
    let host = match route.when.hosts.first() {
        Some(HostRule::Exact(name)) => name.clone(),
        Some(HostRule::Below(name)) => format!("a.{name}"),
        None => "host.example".to_owned(),
    };
    let (path, rest) = match &route.when.path {
        Some(PathRule::Exact(path)) => (path.clone(), String::new()),
        Some(PathRule::Prefix(prefix)) => (format!("{prefix}/x"), "/x".to_owned()),
        None => ("/x".to_owned(), "/x".to_owned()),
    };
    let parts = Parts {
        scheme: by.scheme,
        host: &host,
        path: &path,
        rest: &rest,
        query: None,
    };
    let target: Uri = redirect.to.fill(&parts).parse().ok()?;
    // Port forwarding may map the target's default port to any of our listeners.
    let takes = |entrance: &&Entrance| {
        entrance.scheme == target.scheme_str().unwrap_or(by.scheme)
            && target.port_u16().is_none_or(|port| port == entrance.port)
    };
    let Some(back) = entrances.iter().find(takes) else {
        return Some(false);
    };
    let mut headers = Fields::new();
    for rule in &route.when.headers {
        let value = match &rule.test {
            HeaderTest::Present => "x",
            HeaderTest::Absent => continue,
            HeaderTest::Exact(text) | HeaderTest::Prefix(text) => text,
        };
        headers.insert(&rule.name, HeaderValue::from_str(value).ok()?);
    }
    let local = Authority::try_from(host.as_str()).ok()?;
    let asked = Asked {
        listener: back.place,
        method: route.when.methods.first().unwrap_or(&Method::GET),
        host: host_of(&target, &headers, &local),
        path: Path::new(target.path()),
        headers: &headers,
    };
    // If the route names no host, another host's server is unknown here, so it does not count.
    let is_elsewhere = route.when.hosts.is_empty() && asked.host != host;
    Some(!is_elsewhere && route.when.read(&asked) == Reading::Meant)
}
