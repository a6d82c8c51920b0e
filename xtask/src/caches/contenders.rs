//! The balancers: each with the configuration that its documentation recommends for caches behind
//! it, retries for requests that reach no replica, and health checks where it has them.

use core::fmt::Write as _;
use core::net::SocketAddr;
use std::path::Path;

/// The header with the key.
pub(super) const KEY: &str = "x-key";

/// The cap of replicas, in percent of the mean, for each balancer that has one.
const BALANCE_PERCENT: u32 = 125;

/// A balancer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Contender {
    pub(super) name: &'static str,
    pub(super) kind: Kind,
    /// How it uses keys.
    pub(super) means: &'static str,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    Envoy(&'static str),
    Haproxy,
    Nginx,
    Slackwater(Mode),
}

/// How Slackwater uses keys.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Mode {
    /// The default policy.
    Keyed,
    /// Probes for each request, which carry the key; agents know the keys that they served.
    Hinted,
}

pub(super) const ALL: [Contender; 6] = [
    Contender {
        name: "envoy-maglev",
        kind: Kind::Envoy("MAGLEV"),
        means: "`MAGLEV`, `hash_balance_factor: 125`",
    },
    Contender {
        name: "envoy-ring-hash",
        kind: Kind::Envoy("RING_HASH"),
        means: "`RING_HASH`, `hash_balance_factor: 125`",
    },
    Contender {
        name: "haproxy",
        kind: Kind::Haproxy,
        means: "`hash-type consistent`, `hash-balance-factor 125`",
    },
    Contender {
        name: "nginx",
        kind: Kind::Nginx,
        means: "`hash … consistent`, which has no cap",
    },
    Contender {
        name: "slackwater",
        kind: Kind::Slackwater(Mode::Keyed),
        means: "`key.by`, and the defaults",
    },
    Contender {
        name: "slackwater-sync",
        kind: Kind::Slackwater(Mode::Hinted),
        means: "`key.by`, `policy = \"prequal_sync\"`, `probe.hint = \"key\"`; agents with `[hint]`",
    },
];

impl Contender {
    pub(super) const fn is_ours(&self) -> bool {
        matches!(self.kind, Kind::Slackwater(_))
    }
}

/// A process of a balancer.
#[derive(Debug)]
pub(super) struct Setup<'a> {
    pub(super) listen: SocketAddr,
    /// Slackwater's admin server.
    pub(super) admin: SocketAddr,
    /// The replicas, or the agents before them.
    pub(super) replicas: &'a [SocketAddr],
    /// For its files.
    pub(super) folder: &'a Path,
}

pub(super) fn envoy(setup: &Setup<'_>, policy: &str) -> String {
    let endpoints: Vec<_> = (setup.replicas.iter())
        .map(|replica| {
            format!(
                "{{ endpoint: {{ address: {{ socket_address: {{ address: {}, port_value: {} }} }} }} }}",
                replica.ip(),
                replica.port()
            )
        })
        .collect();
    let (listen, endpoints) = (setup.listen, endpoints.join(", "));
    format!(
        r#"static_resources:
  listeners:
  - address: {{ socket_address: {{ address: {ip}, port_value: {port} }} }}
    filter_chains:
    - filters:
      - name: envoy.filters.network.http_connection_manager
        typed_config:
          "@type": type.googleapis.com/envoy.extensions.filters.network.http_connection_manager.v3.HttpConnectionManager
          stat_prefix: web
          route_config:
            virtual_hosts:
            - name: all
              domains: ["*"]
              routes:
              - match: {{ prefix: "/" }}
                route:
                  cluster: app
                  hash_policy: [{{ header: {{ header_name: {KEY} }} }}]
                  retry_policy:
                    retry_on: connect-failure,refused-stream,reset
                    num_retries: 2
                    host_selection_retry_max_attempts: 5
                    retry_host_predicate:
                    - name: envoy.retry_host_predicates.previous_hosts
                      typed_config: {{ "@type": type.googleapis.com/envoy.extensions.retry.host.previous_hosts.v3.PreviousHostsPredicate }}
          http_filters:
          - name: envoy.filters.http.router
            typed_config: {{ "@type": type.googleapis.com/envoy.extensions.filters.http.router.v3.Router }}
  clusters:
  - name: app
    type: STATIC
    lb_policy: {policy}
    common_lb_config: {{ consistent_hashing_lb_config: {{ hash_balance_factor: {BALANCE_PERCENT} }} }}
    connect_timeout: 1s
    circuit_breakers: {{ thresholds: [{{ max_connections: 8192, max_pending_requests: 8192, max_requests: 8192, max_retries: 64 }}] }}
    health_checks:
    - {{ timeout: 1s, interval: 0.5s, no_traffic_interval: 0.5s, unhealthy_threshold: 2, healthy_threshold: 1, http_health_check: {{ path: /ready }} }}
    load_assignment:
      cluster_name: app
      endpoints:
      - lb_endpoints: [{endpoints}]
"#,
        ip = listen.ip(),
        port = listen.port(),
    )
}

pub(super) fn haproxy(setup: &Setup<'_>) -> String {
    let mut text = format!(
        "global\n  nbthread 1\n  maxconn 8192\n\
         defaults\n  mode http\n  timeout connect 1s\n  timeout client 60s\n  timeout server 60s\n  timeout queue 60s\n\
         \u{20} retries 2\n  option redispatch 1\n  retry-on conn-failure empty-response\n\
         frontend web\n  bind {} backlog 4096\n  default_backend app\n\
         backend app\n  balance hdr({KEY})\n  hash-type consistent sdbm avalanche\n  hash-balance-factor {BALANCE_PERCENT}\n\
         \u{20} http-reuse always\n  option httpchk GET /ready\n  default-server weight 10 check inter 500ms fall 2 rise 1\n",
        setup.listen
    );
    for (index, replica) in setup.replicas.iter().enumerate() {
        // Writing to a string cannot fail.
        let _ = writeln!(text, "  server r{index} {replica}");
    }
    text
}

pub(super) fn nginx(setup: &Setup<'_>) -> String {
    let folder = setup.folder.display();
    let mut text = format!(
        "daemon off;\nmaster_process off;\nworker_processes 1;\nworker_rlimit_nofile 16384;\n\
         pid {folder}/nginx.pid;\nerror_log {folder}/error.log;\nevents {{ worker_connections 8000; }}\n\
         http {{\naccess_log off;\nclient_body_temp_path {folder}/body;\nproxy_temp_path {folder}/proxy;\n\
         fastcgi_temp_path {folder}/fastcgi;\nuwsgi_temp_path {folder}/uwsgi;\nscgi_temp_path {folder}/scgi;\n\
         keepalive_requests 1000000;\nupstream app {{\nhash $http_{header} consistent;\n",
        header = KEY.replace('-', "_"),
    );
    for replica in setup.replicas {
        // Writing to a string cannot fail.
        let _ = writeln!(text, "server {replica};");
    }
    let _ = write!(
        text,
        "keepalive 256;\nkeepalive_requests 1000000;\n}}\n\
         server {{\nlisten {} backlog=4096;\nproxy_http_version 1.1;\nproxy_set_header Connection \"\";\n\
         proxy_connect_timeout 1s;\nlocation / {{ proxy_pass http://app; }}\n}}\n}}\n",
        setup.listen
    );
    text
}

/// `more` are further lines of the table `[key]`.
pub(super) fn slackwater(setup: &Setup<'_>, with: Mode, more: &str) -> String {
    let replicas: Vec<_> = setup.replicas.iter().map(ToString::to_string).collect();
    let policy = match with {
        Mode::Keyed => "",
        Mode::Hinted => "policy = \"prequal_sync\"\nprobe.hint = \"key\"\n",
    };
    format!(
        "listen = \"{}\"\nworkers = 1\nreplicas = {replicas:?}\nadmin.listen = \"{}\"\n\
         {policy}[key]\nby = \"header:{KEY}\"\n{more}\n",
        setup.listen, setup.admin
    )
}

/// The agents' file; `cache` is the number of keys that a replica holds.
pub(super) fn agent(mode: Mode, cache: u64) -> String {
    match mode {
        Mode::Keyed => String::new(),
        Mode::Hinted => format!("[hint]\ncache_entries = {cache}\n"),
    }
}
