//! Third-party replicas that require a PROXY header: nginx and `HAProxy` report the client's
//! address.

use super::site::Site;
use crate::loopback::ports::FreePorts;
use crate::loopback::processes::wait_for;
use crate::loopback::serve;
use crate::report::{Outcome, Report};
use core::net::SocketAddr;
use core::time::Duration;
use std::fs;
use std::net::TcpStream;
use std::path::PathBuf;
use std::process::Command;

const STEP: &str = "PROXY header";
const START_MAX: Duration = Duration::from_secs(20);

pub(super) fn run(site: &Site<'_>, report: &mut Report) {
    for version in ["v1", "v2"] {
        for replica in ["nginx", "haproxy"] {
            let what = format!("{version} to {replica}");
            match site.tools.get(replica) {
                Err(why) => report.add(STEP, &what, Outcome::NotRun(why)),
                Ok(_) => report.add(STEP, &what, ask(site, version, replica)),
            }
        }
    }
}

/// Sends two requests through `serve`, and checks the client's address that the replica reports.
fn ask(site: &Site<'_>, version: &str, replica: &'static str) -> Result<String, String> {
    let mut ports = FreePorts::default();
    let [listen, admin, at] = [ports.take()?, ports.take()?, ports.take()?];
    drop(ports);
    let folder = site.folder.join(format!("proxied-{replica}-{version}"));
    fs::create_dir(&folder).map_err(|error| format!("{}: {error}", folder.display()))?;
    let write = |name: &str, text: String| -> Result<PathBuf, String> {
        let file = folder.join(name);
        fs::write(&file, text).map_err(|error| format!("{}: {error}", file.display()))?;
        Ok(file)
    };
    let mut command = Command::new(site.tools.get(replica)?);
    if replica == "nginx" {
        let file = write("nginx.conf", nginx(at, &folder.display().to_string()))?;
        command.arg("-p").arg(&folder).arg("-c").arg(file);
        command.arg("-e").arg(folder.join("error.log"));
    } else {
        command.arg("-f").arg(write("haproxy.cfg", haproxy(at))?);
    }
    let mut server = site.processes.start(replica, &mut command)?;
    wait_for("the replica to listen", START_MAX, || {
        server.check_running()?;
        Ok(TcpStream::connect(at).ok().map(drop))
    })?;
    let toml = format!(
        "listen = \"{listen}\"\nworkers = 1\npolicy = \"random\"\nreplicas = [\"{at}\"]\n\
         replica.proxy_protocol = \"{version}\"\nprobe.transport = \"none\"\nadmin.listen = \"{admin}\"\n"
    );
    let file = write("serve.toml", toml)?;
    // Ends with this function.
    let _serve = serve::start(site.processes, site.slackwater, &file, (admin, START_MAX))?;
    for _ in 0..2 {
        // From an address that no other process uses.
        let mut curl = Command::new(&site.tools.curl);
        curl.args([
            "-sS",
            "--interface",
            "127.0.0.77",
            &format!("http://{listen}/"),
        ]);
        let ended = site.processes.run("curl", &mut curl, START_MAX)?;
        if ended.out.trim() != "client 127.0.0.77" {
            return Err(format!("{:?} {}", ended.out, ended.err.trim()));
        }
    }
    Ok("it names the client's own address".to_owned())
}

fn nginx(at: SocketAddr, folder: &str) -> String {
    format!(
        "daemon off;\nmaster_process off;\nworker_processes 1;\npid {folder}/nginx.pid;\nerror_log {folder}/error.log;\n\
         events {{}}\nhttp {{\naccess_log off;\nclient_body_temp_path {folder}/body;\nproxy_temp_path {folder}/proxy;\n\
         fastcgi_temp_path {folder}/fastcgi;\nuwsgi_temp_path {folder}/uwsgi;\nscgi_temp_path {folder}/scgi;\n\
         server {{\nlisten {at} proxy_protocol;\nlocation / {{ return 200 \"client $proxy_protocol_addr\\n\"; }}\n}}\n}}\n"
    )
}

fn haproxy(at: SocketAddr) -> String {
    format!(
        "defaults\n  mode http\n  timeout client 10s\n  timeout server 10s\n  timeout connect 1s\n\
         frontend in\n  bind {at} accept-proxy\n  http-request return status 200 content-type text/plain \
         lf-string \"client %[src]\"\n"
    )
}
