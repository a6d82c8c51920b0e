//! What is told of the keys of `[[routes]]`, most of which are read and shown by hand.

use crate::table::{BOOLEAN, Described, LIST, STRING, keys};

/// The keys of one route, but for those that have tables of their own.
#[derive(Clone, Default)]
pub(crate) struct RouteRows;

keys! { RouteRows in "routes[]" {
    /// By which listener the request came in.
    listeners: Described("names of listeners", LIST), "any";
    /// For which host, without port and whatever the case.
    host: Described("hosts, or `\"*.example.com\"` for all below it", LIST), "any";
    /// This path, and no other.
    path: Described("a path", STRING), "any";
    /// This path and all below it, by segments: `/api` is not `/apix`. Not beside `path`.
    path_prefix: Described("a path", STRING), "any";
    /// The method.
    method: Described("methods", LIST), "any";
    /// Fields of the head; each table has to hold. One of the three tests below in each.
    headers: Described("a list of tables", "{}"), "any";
    /// The name of the field.
    headers_name as "headers[].name": Described("a field's name", STRING), "required";
    /// Whether it is there.
    headers_present as "headers[].present": Described("`true` or `false`", BOOLEAN), "";
    /// One of its values is this one.
    headers_exact as "headers[].exact": Described("a text", STRING), "";
    /// One of its values begins so.
    headers_prefix as "headers[].prefix": Described("a text", STRING), "";
    /// It goes there.
    service: Described("the name of a service", STRING), "";
    /// It goes to one of these, by chance and in proportion to the weights.
    services: Described("a list of 1 to 64 tables", "{}"), "";
    /// Where this part of the requests goes.
    services_name as "services[].name": Described("the name of a service", STRING), "required";
    /// 0: none. Not all of them.
    services_weight as "services[].weight": Described("0 to 65,535", WEIGHT), "required";
    /// The client is sent there. `{scheme}`, `{host}` (without port), `{path}`, `{rest}` (of the
    /// path, behind `path_prefix`) and `{query}` (with its question mark) are the request's; the
    /// scheme is what a proxy of `forwarded.trust` tells, if one does.
    redirect_to as "redirect.to": Described("a text", STRING), "required";
    /// The status of the redirect.
    redirect_status as "redirect.status": Described("301, 302, 303, 307, 308", REDIRECT), "307";
    /// It is answered so.
    respond_status as "respond.status": Described("200 to 599", STATUS), "required";
    /// The body of the answer.
    respond_body as "respond.body": Described("a text of at most 64 KiB", STRING), "empty";
    /// Of the body, where there is one.
    respond_content_type as "respond.content_type": Described("a text", STRING), "`\"text/plain; charset=utf-8\"`";
    /// What becomes of the route's requests with CONNECT. Replicas that get them speak HTTP/1.1.
    connect: Described("`\"refuse\"`, `\"pass\"`", r#"{"enum": ["refuse", "pass"]}"#), "the key `connect` at the top";
    /// What the replica is told.
    rewrite_host as "rewrite.host": Described("a host, perhaps with a port", STRING), "as the client said";
    /// As above. The query stays.
    rewrite_path as "rewrite.path": Described("a path", STRING), "as the client said";
    /// What stands in the place of the route's `path_prefix`. Not beside `path`.
    rewrite_path_prefix as "rewrite.path_prefix": Described("a path; `\"/\"` for none", STRING), "as the client said";
    /// Not sent to the replica.
    request_headers_remove as "request_headers.remove": Described("names of fields", LIST), "none";
    /// In place of those of that name.
    request_headers_set as "request_headers.set": Described("a table of fields", TEXTS), "none";
    /// Beside those of that name.
    request_headers_add as "request_headers.add": Described("a table of fields", TEXTS), "none";
    /// As above, towards the client, whoever made the response.
    response_headers_remove as "response_headers.remove": Described("names of fields", LIST), "none";
    /// As above.
    response_headers_set as "response_headers.set": Described("a table of fields", TEXTS), "none";
    /// As above.
    response_headers_add as "response_headers.add": Described("a table of fields", TEXTS), "none";
} }

const TEXTS: &str = r#"{"type": "object", "additionalProperties": {"type": "string"}}"#;
const WEIGHT: &str = r#"{"type": "integer", "minimum": 0, "maximum": 65535}"#;
const STATUS: &str = r#"{"type": "integer", "minimum": 200, "maximum": 599}"#;
const REDIRECT: &str = r#"{"enum": [301, 302, 303, 307, 308]}"#;
