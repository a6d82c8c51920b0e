//! An agent with access to the server's process reports its CPU utilization, and weighted round
//! robin uses it.
#![cfg(target_os = "linux")]

use crate::clients::Client;
use crate::proxy::{Proxy, agent, until};
use crate::replicas::Replica;
use std::path::PathBuf;
use std::process::{Child, Command};

const BY_WEIGHT: &str = "policy = \"weighted_round_robin\"\n[probe]\ntransport = \"udp\"\n\
                         [weighted_round_robin]\nsmoothing = 0\nblackout = 0\ninterval = \"100ms\"\nupdate_period = \"100ms\"";

/// A process that works on and off, and a file with its id, which the agent takes for its server.
struct Process {
    child: Child,
    pid_file: PathBuf,
}

impl Process {
    /// Starts a process that loops over this shell command. It runs at low priority.
    fn after(command: &str) -> Self {
        let script = format!("while :; do {command}; done");
        let mut shell = Command::new("nice");
        let child = shell
            .args(["-n", "19", "sh", "-c", &script])
            .spawn()
            .unwrap();
        let name = format!("slackwater-cpu-{}-{}", std::process::id(), child.id());
        let pid_file = std::env::temp_dir().join(name);
        std::fs::write(&pid_file, child.id().to_string()).unwrap();
        Self { child, pid_file }
    }

    fn key(&self) -> String {
        format!("[replica]\npid_file = \"{}\"\n", self.pid_file.display())
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
        let _ = std::fs::remove_file(&self.pid_file);
    }
}

async fn cpu_millionths(agent: &Proxy) -> Option<u64> {
    let status = agent.status().await;
    status["own_load"]["cpu_millionths"].as_u64()
}

#[tokio::test]
async fn server_with_a_busy_cpu_gets_fewer_requests() {
    let servers = [Replica::echo("busy").await, Replica::echo("idle").await];
    let processes = [Process::after(":"), Process::after("sleep 0.02")];
    let agents: Vec<_> = (servers.iter().zip(&processes))
        .map(|(server, process)| agent(server.address, &process.key()))
        .collect();
    let addresses: Vec<_> = agents.iter().map(|agent| agent.address).collect();
    let proxy = Proxy::start(&addresses, BY_WEIGHT);
    let mut client = Client::connect(proxy.address).await;
    until(
        "the idle one gets at least three times as many",
        async || {
            let mut idles = 0;
            for _ in 0..20 {
                idles += usize::from(client.get("/").await.text().starts_with("idle"));
            }
            (idles >= 15).then_some(())
        },
    )
    .await;
    let (busy, idle) = (
        cpu_millionths(&agents[0]).await,
        cpu_millionths(&agents[1]).await,
    );
    assert!(idle.is_some_and(|idle| idle > 0), "{idle:?}");
    assert!(busy > idle, "{busy:?}, {idle:?}");
}

#[tokio::test]
async fn cpu_of_an_unknown_server_process_is_not_reported() {
    let server = Replica::echo("server").await;
    let agent = agent(server.address, "");
    let mut client = Client::connect(agent.address).await;
    // The agent learns only after 32 requests.
    until("it has learned what it can", async || {
        client.get("/").await;
        let status = agent.status().await;
        let load = &status["own_load"];
        load["capacity_millirif"].is_u64().then(|| {
            assert_eq!(load["capacity_source"], "latency");
            assert!(load["cost_us"].is_u64());
            assert!(
                load["cpu_millionths"].is_null(),
                "absent is not zero: {load}"
            );
        })
    })
    .await;
}
