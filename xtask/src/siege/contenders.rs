//! The proxies under attack: Slackwater, and for comparison nginx and `HAProxy`, with the same
//! number of workers before the same replicas.

use super::setup::{Protocol, Setup};
use core::fmt::Write as _;
use core::net::SocketAddr;

/// A proxy under attack.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Contender {
    Slackwater,
    Nginx,
    Haproxy,
}

impl Contender {
    pub(super) const PEERS: [Self; 2] = [Self::Nginx, Self::Haproxy];

    pub(super) const fn name(self) -> &'static str {
        match self {
            Self::Slackwater => "slackwater",
            Self::Nginx => "nginx",
            Self::Haproxy => "haproxy",
        }
    }
}

/// The listeners of a proxy.
#[derive(Clone, Copy, Debug)]
pub(super) struct Addresses {
    pub(super) http1: SocketAddr,
    /// HTTP/2 without TLS; the same as `http1` if one port supports both.
    pub(super) http2: SocketAddr,
    /// Slackwater's admin server.
    pub(super) admin: SocketAddr,
}

pub(super) fn slackwater(at: &Addresses, setup: &Setup<'_>) -> String {
    let replicas: Vec<_> = setup
        .replicas
        .iter()
        .map(|replica| format!("\"{replica}\""))
        .collect();
    let protocol = match setup.protocol {
        Protocol::Http1 => "http1",
        Protocol::H2c => "h2c",
    };
    let innocents = setup.innocents.map(|replica| {
        format!(
            "[services.innocents]\nreplicas = [\"{replica}\"]\nprobe.transport = \"none\"\n\
             [[routes]]\npath_prefix = \"/innocent\"\nservice = \"innocents\"\n[[routes]]\nservice = \"default\"\n"
        )
    });
    let services = innocents.as_deref().unwrap_or(setup.services);
    format!(
        "listen = \"{}\"\nworkers = {}\nadmin.listen = \"{}\"\n\
         timeouts.stall = \"4s\"\ntimeouts.idle = \"{}s\"\n{}\n\
         {}replicas = [{}]\nreplica.protocol = \"{protocol}\"\nprobe.transport = \"none\"\n{services}",
        at.http1,
        setup.workers,
        at.admin,
        setup.idle,
        setup.process,
        if services.is_empty() {
            ""
        } else {
            "[services.default]\n"
        },
        replicas.join(", "),
    )
}

/// The configuration of nginx, which uses HTTP/1.1 to replicas, whatever the setup's protocol.
pub(super) fn nginx(at: &Addresses, setup: &Setup<'_>, folder: &str) -> String {
    let mut text = format!(
        "daemon off;\nmaster_process off;\nworker_processes 1;\nworker_rlimit_nofile 16384;\n\
         pid {folder}/nginx.pid;\nerror_log {folder}/error.log;\nevents {{ worker_connections 8000; }}\n\
         http {{\naccess_log off;\nclient_body_temp_path {folder}/body;\nproxy_temp_path {folder}/proxy;\n\
         fastcgi_temp_path {folder}/fastcgi;\nuwsgi_temp_path {folder}/uwsgi;\nscgi_temp_path {folder}/scgi;\n\
         http2_max_concurrent_streams 256;\nclient_max_body_size 0;\nsend_timeout 4s;\nkeepalive_requests 1000000;\n\
         upstream replicas {{\n"
    );
    for replica in setup.replicas {
        // Writing to a string cannot fail.
        let _ = writeln!(text, "server {replica} max_fails=0;");
    }
    text += "keepalive 64;\n}\n";
    if let Some(replica) = setup.innocents {
        let _ = writeln!(
            text,
            "upstream innocents {{\nserver {replica};\nkeepalive 4;\n}}"
        );
    }
    let _ = writeln!(
        text,
        "server {{\nlisten {} backlog=4096;\nlisten {} http2 backlog=4096;\nproxy_http_version 1.1;\n\
         proxy_set_header Connection \"\";\nproxy_request_buffering off;\nproxy_max_temp_file_size 0;\n\
         location / {{ proxy_pass http://replicas; }}",
        at.http1, at.http2
    );
    if setup.innocents.is_some() {
        text += "location /innocent { proxy_pass http://innocents; }\n";
    }
    text += "}\n}\n";
    text
}

pub(super) fn haproxy(at: &Addresses, setup: &Setup<'_>) -> String {
    let protocol = match setup.protocol {
        Protocol::Http1 => "",
        Protocol::H2c => " proto h2",
    };
    let mut text = format!(
        "global\n  nbthread {}\n  maxconn 6000\n  tune.h2.max-concurrent-streams 256\n\
         defaults\n  mode http\n  timeout connect 1s\n  timeout client 4s\n  timeout server 60s\n\
         frontend clients\n  bind {} backlog 4096\n  bind {} proto h2 backlog 4096\n  default_backend replicas\n",
        setup.workers, at.http1, at.http2
    );
    if let Some(replica) = setup.innocents {
        let _ = writeln!(
            text,
            "  use_backend innocents if {{ path_beg /innocent }}\nbackend innocents\n  server r {replica}"
        );
    }
    text += "backend replicas\n  balance leastconn\n";
    for (index, replica) in setup.replicas.iter().enumerate() {
        let _ = writeln!(text, "  server r{index} {replica}{protocol}");
    }
    text
}
