//! The network of a run: a network namespace for xtask and the control plane, and one for each pod,
//! connected by a bridge. Nothing in it reaches the machine's own network.

use core::net::Ipv4Addr;
use core::time::Duration;
use nix::sched::{CloneFlags, unshare};
use rustix::process::Pid;
use std::process::Command;

use crate::loopback::processes::{Process, Processes, wait_for};

/// The control plane's address. The API server refuses endpoints at loopback addresses.
pub(super) const HOST: Ipv4Addr = Ipv4Addr::new(10, 98, 0, 1);
/// Length of the prefix of all addresses.
const PREFIX: u8 = 16;
/// Time for a pod's namespace to be there.
const START_MAX: Duration = Duration::from_secs(10);

/// Moves this thread, and all that it starts, into a network namespace of its own with the bridge.
///
/// # Errors
///
/// Fails without the right to do so.
pub(super) fn enter() -> Result<(), String> {
    if !rustix::process::geteuid().is_root() {
        return Err(
            "kubernetes runs as root only: it makes network namespaces for pods".to_owned(),
        );
    }
    unshare(CloneFlags::CLONE_NEWNET).map_err(|error| format!("a network namespace: {error}"))?;
    shell(&format!(
        "ip link set lo up
         ip link add pods type bridge
         ip address add {HOST}/{PREFIX} dev pods
         ip link set pods up"
    ))
}

/// The address of the pod with this number: 10.98.1.0 and up.
pub(super) fn address(number: u32) -> Ipv4Addr {
    Ipv4Addr::from_bits(Ipv4Addr::new(10, 98, 1, 0).to_bits() + number)
}

/// Starts a process that holds a pod's network namespace, and connects that to the bridge. The
/// namespace ends with the last process in it.
pub(super) fn sandbox(processes: &Processes, name: &str, number: u32) -> Result<Process, String> {
    let mut command = Command::new("unshare");
    command.args(["--net", "sleep", "infinity"]);
    let mut process = processes.start(&format!("sandbox-{name}"), &mut command)?;
    let pid = process.pid();
    wait_for("a network namespace", START_MAX, || {
        process.check_running()?;
        Ok((namespace(pid)? != own_namespace()?).then_some(()))
    })?;
    let (pid, address) = (pid.as_raw_nonzero(), address(number));
    shell(&format!(
        "ip link add pod{number} type veth peer name eth0 netns {pid}
         ip link set pod{number} master pods up
         nsenter --net=/proc/{pid}/ns/net sh -e <<-END
         ip link set lo up
         ip address add {address}/{PREFIX} dev eth0
         ip link set eth0 up
         END
         "
    ))?;
    Ok(process)
}

/// The file of a process's network namespace.
pub(super) fn file(pid: Pid) -> String {
    format!("/proc/{}/ns/net", pid.as_raw_nonzero())
}

fn namespace(pid: Pid) -> Result<std::path::PathBuf, String> {
    let file = file(pid);
    std::fs::read_link(&file).map_err(|error| format!("{file}: {error}"))
}

fn own_namespace() -> Result<std::path::PathBuf, String> {
    let file = "/proc/thread-self/ns/net";
    std::fs::read_link(file).map_err(|error| format!("{file}: {error}"))
}

/// Runs a script whose first failure ends it.
fn shell(script: &str) -> Result<(), String> {
    let script: Vec<_> = script.lines().map(str::trim_start).collect();
    let output = Command::new("sh")
        .args(["-e", "-c", &script.join("\n")])
        .output()
        .map_err(|error| format!("sh: {error}"))?;
    if output.status.success() {
        return Ok(());
    }
    let said = String::from_utf8_lossy(&output.stderr);
    Err(format!("a network of pods: {}", said.trim()))
}
