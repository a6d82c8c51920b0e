//! The rows of the keys of `[[routes]]`, most of which are read and shown by hand.

use crate::table::{BOOLEAN, Described, LIST, STRING, keys};

/// The keys of a route, except those in tables of their own.
#[derive(Clone, Default)]
pub(crate) struct RouteRows;

keys! { RouteRows in "routes[]" {
    /// Listeners that the request may have come in by.
    listeners: Described("names of listeners", LIST), "any";
    /// The request's host, without port; case does not matter.
    host: Described("hosts, or `\"*.example.com\"` for all below it", LIST), "any";
    /// Exactly this path.
    path: Described("a path", STRING), "any";
    /// This path and all below it, by segments: `/api` does not match `/apix`. Not beside `path`.
    path_prefix: Described("a path", STRING), "any";
    /// The request's method.
    method: Described("methods", LIST), "any";
    /// Conditions on headers; all must hold. Each has one of the three tests below.
    headers: Described("a list of tables", "{}"), "any";
    /// The header's name.
    headers_name as "headers[].name": Described("a field's name", STRING), "required";
    /// Whether the header is there.
    headers_present as "headers[].present": Described("`true` or `false`", BOOLEAN), "";
    /// One of the header's values equals this text.
    headers_exact as "headers[].exact": Described("a text", STRING), "";
    /// One of the header's values begins with this text.
    headers_prefix as "headers[].prefix": Described("a text", STRING), "";
    /// The service that gets the request.
    service: Described("the name of a service", STRING), "";
    /// One of these services gets the request, at random in proportion to the weights.
    services: Described("a list of 1 to 64 tables", "{}"), "";
    /// The service.
    services_name as "services[].name": Described("the name of a service", STRING), "required";
    /// Its share of the requests. 0: none. Not 0 for all.
    services_weight as "services[].weight": Described("0 to 65,535", WEIGHT), "required";
    /// Target of a redirect. `{scheme}`, `{host}` (no port), `{path}`, `{rest}` (path behind
    /// `path_prefix`) and `{query}` (with `?`) are the request's.
    redirect_to as "redirect.to": Described("a text", STRING), "required";
    /// The status of the redirect.
    redirect_status as "redirect.status": Described("301, 302, 303, 307, 308", REDIRECT), "307";
    /// Status of a fixed response.
    respond_status as "respond.status": Described("200 to 599", STATUS), "required";
    /// Its body.
    respond_body as "respond.body": Described("a text of at most 64 KiB", STRING), "empty";
    /// Its `content-type`, if there is a body.
    respond_content_type as "respond.content_type": Described("a text", STRING), "`\"text/plain; charset=utf-8\"`";
    /// What happens to CONNECT requests of this route. Their replicas must speak HTTP/1.1.
    connect: Described("`\"refuse\"`, `\"pass\"`", r#"{"enum": ["refuse", "pass"]}"#), "the key `connect` at the top";
    /// `Host` sent to the replica.
    rewrite_host as "rewrite.host": Described("a host, perhaps with a port", STRING), "as sent by the client";
    /// Path sent to the replica. The query stays.
    rewrite_path as "rewrite.path": Described("a path", STRING), "as sent by the client";
    /// Replaces the route's `path_prefix`. Not beside `path`.
    rewrite_path_prefix as "rewrite.path_prefix": Described("a path; `\"/\"` for none", STRING), "as sent by the client";
    /// Headers not sent to the replica.
    request_headers_remove as "request_headers.remove": Described("names of fields", LIST), "none";
    /// Headers that replace those of the same name.
    request_headers_set as "request_headers.set": Described("a table of fields", TEXTS), "none";
    /// Headers added to those of the same name.
    request_headers_add as "request_headers.add": Described("a table of fields", TEXTS), "none";
    /// Headers not sent to the client, also of responses made here.
    response_headers_remove as "response_headers.remove": Described("names of fields", LIST), "none";
    /// Headers that replace those of the same name.
    response_headers_set as "response_headers.set": Described("a table of fields", TEXTS), "none";
    /// Headers added to those of the same name.
    response_headers_add as "response_headers.add": Described("a table of fields", TEXTS), "none";
} }

const TEXTS: &str = r#"{"type": "object", "additionalProperties": {"type": "string"}}"#;
const WEIGHT: &str = r#"{"type": "integer", "minimum": 0, "maximum": 65535}"#;
const STATUS: &str = r#"{"type": "integer", "minimum": 200, "maximum": 599}"#;
const REDIRECT: &str = r#"{"enum": [301, 302, 303, 307, 308]}"#;
