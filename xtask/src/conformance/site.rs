//! The site under test: one `serve` with six listeners, plain and TLS, before an HTTP/1.1 replica
//! and two gRPC servers.

use super::replica;
use super::tools::Tools;
use crate::loopback::ports::FreePorts;
use crate::loopback::processes::{Process, Processes};
use crate::loopback::serve;
use core::fmt::Write as _;
use core::net::SocketAddr;
use core::time::Duration;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

const START_MAX: Duration = Duration::from_secs(20);
const OPENSSL_MAX: Duration = Duration::from_secs(20);

/// The name in the certificate.
pub(super) const HOST: &str = "localhost";

/// All processes and their addresses.
#[derive(Debug)]
pub(super) struct Site<'a> {
    pub(super) processes: &'a Processes,
    pub(super) tools: &'a Tools,
    pub(super) slackwater: &'a Path,
    pub(super) folder: &'a Path,
    pub(super) plain: SocketAddr,
    pub(super) tls: SocketAddr,
    pub(super) grpc: SocketAddr,
    pub(super) grpc_tls: SocketAddr,
    /// The gRPC server itself; nothing listens there if the tool is missing.
    pub(super) grpc_server: SocketAddr,
    /// The listeners before grpcurl's own server, plain and TLS.
    pub(super) reflection: SocketAddr,
    pub(super) reflection_tls: SocketAddr,
    pub(super) reflection_server: SocketAddr,
    pub(super) certificate: PathBuf,
    pub(super) key: PathBuf,
    /// Processes, which end when this is dropped.
    running: Vec<Process>,
}

impl<'a> Site<'a> {
    /// Issues a certificate, writes the configuration and starts everything.
    pub(super) fn start(
        processes: &'a Processes,
        tools: &'a Tools,
        slackwater: &'a Path,
        folder: &'a Path,
    ) -> Result<Self, String> {
        let mut ports = FreePorts::default();
        let [
            plain,
            tls,
            grpc,
            grpc_tls,
            grpc_server,
            admin,
            reflection,
            reflection_tls,
            reflection_server,
        ] = [
            ports.take()?,
            ports.take()?,
            ports.take()?,
            ports.take()?,
            ports.take()?,
            ports.take()?,
            ports.take()?,
            ports.take()?,
            ports.take()?,
        ];
        drop(ports);
        let mut site = Self {
            processes,
            tools,
            slackwater,
            folder,
            plain,
            tls,
            grpc,
            grpc_tls,
            grpc_server,
            reflection,
            reflection_tls,
            reflection_server,
            certificate: folder.join("certificate.pem"),
            key: folder.join("key.pem"),
            running: Vec::new(),
        };
        site.make_certificate()?;
        let file = folder.join("serve.toml");
        fs::write(&file, site.configuration(replica::start()?, admin))
            .map_err(|error| format!("{}: {error}", file.display()))?;
        if let Ok(server) = tools.get("interop-server") {
            let mut command = Command::new(server);
            command.args(["-port", &grpc_server.port().to_string()]);
            let process = processes.start("interop-server", &mut command)?;
            site.running.push(process);
        }
        if let Ok(server) = tools.get("testserver") {
            let mut command = Command::new(server);
            command.args(["-q", "-p", &reflection_server.port().to_string()]);
            let process = processes.start("testserver", &mut command)?;
            site.running.push(process);
        }
        let serve = serve::start(processes, slackwater, &file, (admin, START_MAX))?;
        site.running.push(serve);
        Ok(site)
    }

    fn make_certificate(&self) -> Result<(), String> {
        let mut command = Command::new(&self.tools.openssl);
        command
            .args("req -x509 -newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes -days 2".split(' '))
            .args(["-subj", "/CN=localhost", "-addext"])
            .arg(format!("subjectAltName=DNS:{HOST},IP:127.0.0.1"))
            .arg("-keyout")
            .arg(&self.key)
            .arg("-out")
            .arg(&self.certificate);
        let ended = self.processes.run("openssl", &mut command, OPENSSL_MAX)?;
        if ended.status.success() {
            Ok(())
        } else {
            Err(format!("openssl made no certificate: {}", ended.err.trim()))
        }
    }

    fn configuration(&self, replica: SocketAddr, admin: SocketAddr) -> String {
        let mut toml = format!("workers = 2\n[admin]\nlisten = \"{admin}\"\n");
        let identity = format!(
            "[listeners.tls]\ncertificates = [{{ certificate = {:?}, key = {:?} }}]\n",
            self.certificate.display().to_string(),
            self.key.display().to_string(),
        );
        for (name, address, rest) in [
            ("plain", self.plain, ""),
            ("tls", self.tls, identity.as_str()),
            ("grpc", self.grpc, ""),
            ("grpc_tls", self.grpc_tls, &identity),
            ("reflection", self.reflection, ""),
            ("reflection_tls", self.reflection_tls, &identity),
        ] {
            let _ = writeln!(
                toml,
                "[[listeners]]\nname = \"{name}\"\naddress = \"{address}\"\n{rest}"
            );
        }
        for (name, address, protocol) in [
            ("web", replica, "http1"),
            ("grpc", self.grpc_server, "h2c"),
            ("reflection", self.reflection_server, "h2c"),
        ] {
            let _ = writeln!(
                toml,
                "[services.{name}]\nreplicas = [\"{address}\"]\npolicy = \"least_loaded\"\n\
                 [services.{name}.replica]\nprotocol = \"{protocol}\"\n\
                 [services.{name}.probe]\ntransport = \"none\"\n"
            );
        }
        for (listeners, service) in [
            ("\"plain\", \"tls\"", "web"),
            ("\"grpc\", \"grpc_tls\"", "grpc"),
            ("\"reflection\", \"reflection_tls\"", "reflection"),
        ] {
            let _ = writeln!(
                toml,
                "[[routes]]\nlisteners = [{listeners}]\nservice = \"{service}\"\n"
            );
        }
        toml
    }
}
