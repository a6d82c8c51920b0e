//! Names from nginx, `HAProxy`, Envoy and other software, and the key or value that Slackwater has
//! instead. One row for each key; a row's key and example are tested against the tables of keys.
//!
//! Capitals and dashes (`maxAttempts`, `max-attempts`) and another order of our own words
//! (`max_attempts` for `attempts_max`) need no row.

use crate::toml_reader::values::{Unfit, meant, one_of};
use crate::toml_reader::{ForeignName, is_same};
use toml::de::DeValue;

/// Declares rows: the names, optionally the sections in which they mean the key, the key, and an
/// example value.
macro_rules! foreign_names {
    ($($($name:literal)|+ $(in $($section:literal)|+)? => $key:literal = $example:literal;)*) => {
        &[$($crate::toml_reader::ForeignName {
            within: &[$($($section),+)?],
            names: &[$($name),+],
            key: $key,
            example: $example,
        },)*]
    };
}

pub(crate) use foreign_names;

/// Keys and sections.
pub(crate) const KEYS: &[ForeignName] = foreign_names! {
    "upstream" | "upstreams" | "backend" | "backends" | "server" | "servers" | "endpoint" | "endpoints"
        | "target" | "targets" | "cluster" | "clusters" | "members" | "pool"
        in "" => "replicas" = r#"["10.0.0.1:8080", "10.0.0.2:8080"]"#;
    "bind" | "port" | "listener" | "listen_addr" | "listen_address" | "listen_port" | "bind_address" | "address" | "addr"
        in "" => "listen" = r#""0.0.0.0:8080""#;
    "proxy_pass" | "forward_to" | "upstream_addr" in "" => "to" = r#""127.0.0.1:8080""#;
    "worker_processes" | "worker_threads" | "threads" | "nbthread" | "nbproc" | "concurrency"
        in "" => "workers" = "4";

    "attempts" | "tries" | "num_retries" | "retry_count" | "max_retries" | "max_tries" | "proxy_next_upstream_tries"
        => "retries.attempts_max" = "3";
    "retry" | "retry_policy" | "proxy_next_upstream" | "retry_on" in "" => "retries.attempts_max" = "3";
    "retry_on" | "proxy_next_upstream" in "retries" => "retries.on" = r#"["reset", "timeout"]"#;
    "per_try_timeout" => "retries.attempt_timeout" = r#""1s""#;

    "connect_timeout" | "proxy_connect_timeout" | "timeout_connect" => "timeouts.connect" = r#""1s""#;
    "request_timeout" | "read_timeout" | "response_timeout" | "proxy_read_timeout" | "timeout_server" | "upstream_timeout"
        => "timeouts.first_byte" = r#""30s""#;
    "idle_timeout" | "keepalive_timeout" | "keep_alive" | "keepalive" => "timeouts.idle" = r#""1m""#;
    "client_header_timeout" | "timeout_http_request" | "header_timeout" => "timeouts.head" = r#""10s""#;
    "shutdown_timeout" | "graceful_timeout" | "drain_timeout" | "hard_stop_after" | "worker_shutdown_timeout"
        => "timeouts.drain" = r#""30s""#;
    "timeout" in "" => "timeouts.first_byte" = r#""30s""#;

    "body_bytes_max" | "client_max_body_size" | "max_body_size" | "body_max" | "max_request_bytes" | "max_request_body"
        | "request_body_max_size" in "" | "limits" => "routes[].limits.body_bytes_max" = r#""1MiB""#;
    "maxconn" | "worker_connections" | "max_connections" => "limits.connections_max" = "10000";
    "max_concurrent_streams" | "http2_max_concurrent_streams" => "limits.streams_max" = "256";
    "large_client_header_buffers" | "max_header_size" | "max_request_headers_kb" => "limits.head_bytes_max" = r#""64KiB""#;

    "certificate" | "cert" | "crt" | "cert_file" | "certificate_file" | "certificate_path" | "ssl_certificate" | "tls_cert"
        | "key_file" | "private_key" | "ssl_certificate_key" | "tls_key" | "ssl" | "https"
        in "" | "tls" => "tls.certificates" = r#"[{ certificate = "www.pem", key = "www.key" }]"#;
    "key" in "tls" => "tls.certificates" = r#"[{ certificate = "www.pem", key = "www.key" }]"#;
    "certificate" | "cert" | "crt" | "cert_file" | "certificate_file" | "certificate_path" | "ssl_certificate"
        | "key" | "key_file" | "private_key" | "ssl_certificate_key"
        in "listeners[].tls" | "listeners[]"
        => "listeners[].tls.certificates" = r#"[{ certificate = "www.pem", key = "www.key" }]"#;
    "ssl_client_certificate" | "ca" | "ca_file" | "client_ca_file" | "trusted_ca" in "tls" => "tls.client_ca" = r#""ca.pem""#;
    "ssl_protocols" | "min_version" | "tls_version" | "minimum_protocol_version" in "" | "tls" => "tls.version_min" = r#""1.2""#;
    "alpn" | "alpn_protocols" in "" | "tls" => "tls.protocols" = r#"["h2", "http/1.1"]"#;

    "health_check" | "healthcheck" | "health_checks" | "healthchecks" | "httpchk" | "active_health_check"
        => "health.check" = r#""http""#;
    "type" | "kind" | "protocol" | "mode" in "health" => "health.check" = r#""http""#;
    "uri" | "url" | "endpoint" in "health" => "health.path" = r#""/healthz""#;
    "inter" | "period" | "every" in "health" => "health.interval" = r#""5s""#;
    "unhealthy_threshold" | "failure_threshold" | "fails" in "health" => "health.fall" = "3";
    "healthy_threshold" | "success_threshold" | "passes" in "health" => "health.rise" = "2";
    "expected_statuses" | "match" | "status" in "health" => "health.statuses" = "[200]";
    "outlier_detection" | "circuit_breaker" | "circuit_breakers" | "max_fails" | "passive_health" | "passive_health_check"
        => "ejection.out_max" = "0.5";
    "slow_start" | "slowstart" | "slow_start_config" => "discovery.warm_up" = r#""30s""#;

    "sticky_session" | "sticky_sessions" | "stickiness" | "affinity" | "session_affinity" | "stick_table" | "cookie" | "persistence"
        in "" => "sticky.by" = r#""cookie""#;
    "ip_hash" | "source_hash" in "" => "sticky.by" = r#""address""#;
    "hash" | "hash_policy" | "hash_key" | "hash_type" | "consistent_hash" | "ring_hash" | "maglev" | "keys" in ""
        => "key.by" = r#""header:x-user""#;
    "header" | "hash" | "hash_on" | "on" | "type" | "source" in "key" => "key.by" = r#""header:x-user""#;
    "hash_balance_factor" => "key.balance_factor" = r#""125%""#;
    "balance_factor" in "" => "key.balance_factor" = r#""125%""#;
    "type" | "kind" | "mode" | "policy" in "sticky" => "sticky.by" = r#""cookie""#;
    "cookie_name" in "sticky" => "sticky.cookie" = r#""slackwater""#;
    "header_name" in "sticky" => "sticky.header" = r#""x-user""#;

    "route" | "location" | "locations" | "frontend" | "frontends" | "virtual_hosts" | "vhosts" | "paths" | "rules" | "matchers"
        in "" => "routes[].path_prefix" = r#""/api""#;
    "server_name" | "hostname" | "hosts" | "domain" | "domains" | "authority"
        in "" | "routes[]" => "routes[].host" = r#""www.example.com""#;
    "prefix" | "path_beg" | "location" | "uri" in "routes[]" => "routes[].path_prefix" = r#""/api""#;
    "backend" | "cluster" | "upstream" | "use_backend" | "to" in "routes[]" => "routes[].service" = r#""web""#;
    "return" | "direct_response" in "routes[]" => "routes[].respond" = "{ status = 404 }";
    "timeout" in "routes[]" => "routes[].timeouts.total" = r#""30s""#;
    "proxy_set_header" | "request_headers_to_add" | "set_headers" in "" | "routes[]"
        => "routes[].request_headers.set" = r#"{ x-from = "edge" }"#;
    "add_header" | "response_headers_to_add" in "" | "routes[]"
        => "routes[].response_headers.set" = r#"{ x-from = "edge" }"#;

    "metrics" | "stats" | "status" | "prometheus" | "dashboard" | "admin_address" | "metrics_port" in ""
        => "admin.listen" = r#""127.0.0.1:9900""#;
    "address" | "bind" | "port" in "admin" => "admin.listen" = r#""127.0.0.1:9900""#;
    "error_log" | "log_level" | "loglevel" | "logging" | "logs" | "verbosity" in "" => "log.level" = r#""info""#;
    "log_format" in "" => "log.format" = r#""json""#;
    "file" | "path" | "output" in "access_log" => "access_log.to" = r#""/var/log/slackwater/access.log""#;
    "trusted_proxies" | "set_real_ip_from" | "real_ip" | "xff_num_trusted_hops" | "forwardfor" in ""
        => "forwarded.trust" = r#"["10.0.0.0/8"]"#;
    "accept_proxy" | "send_proxy" | "proxy_protocol" in "" => "listeners[].proxy_protocol" = r#""required""#;
    "resolver" | "resolvers" | "nameservers" | "nameserver" in "" | "dns" => "dns.servers" = r#"["10.0.0.53:53"]"#;
    "backup" | "backups" | "priority" in "" | "replicas[]" => "replicas[].tier" = "1";
    "locality" | "availability_zone" | "az" in "replicas[]" => "replicas[].zone" = r#""eu-west-1a""#;
    "zone" | "locality" in "kubernetes" => "zone.name" = r#""eu-west-1a""#;
    "max_conns" | "maxqueue" | "max_pending_requests" in "" => "queue.waiting_max" = "1024";
    "otel" | "opentelemetry" | "opentracing" | "jaeger" in "" => "tracing.endpoint" = r#""http://127.0.0.1:4317""#;
};

/// The names that other software has for a value, and its name here.
pub(crate) type ForeignValue = (&'static [&'static str], &'static str);

/// Values of keys that take one of a few names. The values of `policy` are with the policies'
/// sections.
const VALUES: &[ForeignValue] = &[
    (&["warning"], "warn"),
    (&["fatal", "crit", "critical"], "error"),
    (&["verbose"], "debug"),
    (&["http2", "http/2", "http/2.0", "grpc"], "h2"),
    (&["http/1", "http/1.0", "http11", "http/1.1"], "http1"),
    (&["https", "httpchk"], "http"),
    (&["connect", "l4"], "tcp"),
    (
        &["ip", "source", "client_ip", "source_ip", "ip_hash"],
        "address",
    ),
    (&["session"], "cookie"),
    (&["off", "disabled", "false"], "none"),
    (&["TLSv1.2", "tls12", "TLS1.2"], "1.2"),
    (&["TLSv1.3", "tls13", "TLS1.3"], "1.3"),
];

/// Reads one of a few names. If the name is another software's, the error names ours.
pub(crate) fn choice<T: Copy>(value: &DeValue<'_>, names: &[(&str, T)]) -> Result<T, Unfit> {
    choice_with(value, names, VALUES)
}

/// Reads one of a few names; `rows` has the names that other software has for them.
pub(crate) fn choice_with<T: Copy>(
    value: &DeValue<'_>,
    names: &[(&str, T)],
    rows: &[ForeignValue],
) -> Result<T, Unfit> {
    one_of(value, names).map_err(|unfit| {
        let text = value.as_str().unwrap_or_default();
        let is_ours = |name: &str| names.iter().any(|(known, _)| *known == name);
        let is_foreign =
            |row: &&ForeignValue| is_ours(row.1) && row.0.iter().any(|name| is_same(name, text));
        match rows.iter().find(is_foreign) {
            Some((_, ours)) => meant(text, ours, names),
            None => unfit,
        }
    })
}
