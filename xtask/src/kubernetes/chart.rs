//! The Helm charts: lint, values that must be refused, and the plain manifests, which are rendered
//! from them.

use super::tools;
use crate::command::{first_line, root};
use crate::folder::Folder;
use crate::output::say;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

/// Where the charts are.
const CHARTS: &str = "deploy/helm";
/// Where the plain manifests are.
const MANIFESTS: &str = "deploy/kubernetes";
/// The chart whose templates are examples of pods with an agent; its library is beside it.
const EXAMPLES: &str = "agent-examples";
const LIBRARY: &str = "slackwater-agent";
/// The examples.
pub(super) const EXAMPLE_NAMES: [&str; 3] = ["grpc", "statefulset", "web"];

/// Helm, and a copy of the examples with the library that they depend on.
#[derive(Debug)]
pub(super) struct Charts {
    helm: PathBuf,
    examples: PathBuf,
    _folder: Folder,
}

impl Charts {
    pub(super) fn new(helm: PathBuf) -> Result<Self, String> {
        let folder = Folder::new("charts", false)?;
        let examples = folder.path.join(EXAMPLES);
        copy(&chart(EXAMPLES), &examples)?;
        copy(&chart(LIBRARY), &examples.join("charts").join(LIBRARY))?;
        Ok(Self {
            helm,
            examples,
            _folder: folder,
        })
    }

    /// Renders the chart of the proxy, as a release of this name in this namespace.
    pub(super) fn proxy(&self, namespace: &str, values: &[&str]) -> Result<String, String> {
        let chart = chart("slackwater");
        let mut arguments = vec!["template", "slackwater", "--namespace", namespace];
        arguments.extend(values);
        self.helm(&arguments, &chart)
    }

    /// Renders one of the examples.
    pub(super) fn example(&self, name: &str) -> Result<String, String> {
        let template = format!("templates/{name}.yaml");
        let arguments = [
            "template",
            "shop",
            "--namespace",
            "shop",
            "--show-only",
            &template,
        ];
        self.helm(&arguments, &self.examples)
    }

    fn lint(&self, chart: &Path, values: &[&str]) -> Result<String, String> {
        self.helm(&[&["lint", "--strict"], values].concat(), chart)
    }

    fn helm(&self, arguments: &[&str], chart: &Path) -> Result<String, String> {
        let output = Command::new(&self.helm)
            .args(arguments)
            .arg(chart)
            .output()
            .map_err(|error| format!("helm: {error}"))?;
        if output.status.success() {
            return Ok(String::from_utf8_lossy(&output.stdout).into());
        }
        let said = [output.stdout, output.stderr].concat();
        let said = String::from_utf8_lossy(&said);
        Err(format!(
            "helm {} {}: {}",
            arguments.join(" "),
            chart.display(),
            said.trim()
        ))
    }

    /// The plain manifests: each path from the root, and its text.
    fn manifests(&self) -> Result<Vec<(String, String)>, String> {
        let values = root().join(MANIFESTS).join("values.yaml");
        let values = values.to_string_lossy();
        let proxy = self.proxy("slackwater", &["--values", &values])?;
        let mut manifests = vec![(
            format!("{MANIFESTS}/slackwater.yaml"),
            plain(
                &proxy,
                "deploy/helm/slackwater, by its values in values.yaml beside this file",
            ),
        )];
        for name in EXAMPLE_NAMES {
            let from = format!("deploy/helm/{EXAMPLES}/templates/{name}.yaml");
            let text = plain(&self.example(name)?, &from);
            manifests.push((format!("{MANIFESTS}/examples/{name}.yaml"), text));
        }
        Ok(manifests)
    }
}

/// Checks the charts if Helm is there; this takes seconds.
///
/// # Errors
///
/// Returns the first failure.
pub(crate) fn check() -> Result<(), String> {
    let Some(helm) = tools::helm() else {
        say(
            "skipped: the Helm charts, for Helm 4 is not installed; `cargo xtask kubernetes --charts` builds it with Go",
        );
        return Ok(());
    };
    check_with(helm)
}

/// Checks the charts.
pub(super) fn check_with(helm: PathBuf) -> Result<(), String> {
    say(&format!(
        "helm {}",
        first_line(&helm, &["version", "--short"])
    ));
    let charts = Charts::new(helm)?;
    let values = root().join(MANIFESTS).join("values.yaml");
    let values = values.to_string_lossy();
    charts.lint(&chart("slackwater"), &["--values", &values])?;
    charts.lint(&chart(LIBRARY), &[])?;
    charts.lint(&charts.examples, &[])?;
    refusals(&charts, &values)?;
    derived(&charts)?;
    for (path, text) in charts.manifests()? {
        let found = fs::read_to_string(root().join(&path)).unwrap_or_default();
        if found != text {
            return Err(format!(
                "{path} is not what the charts render; `cargo xtask kubernetes --write` writes it"
            ));
        }
    }
    say("the Helm charts: passed");
    Ok(())
}

/// Writes the plain manifests.
pub(super) fn write(helm: PathBuf) -> Result<(), String> {
    let folder = root().join(MANIFESTS).join("examples");
    fs::create_dir_all(&folder).map_err(|error| format!("{}: {error}", folder.display()))?;
    for (path, text) in Charts::new(helm)?.manifests()? {
        fs::write(root().join(&path), text).map_err(|error| format!("{path}: {error}"))?;
        say(&format!("wrote {path}"));
    }
    Ok(())
}

/// Values that the chart must refuse, and what the error says.
fn refusals(charts: &Charts, values: &str) -> Result<(), String> {
    let valid = ["--values", values];
    for (set, expected) in [
        ("replics=3", "replics"),
        ("image.digest=latest", "/image/digest"),
        ("config=", "config is empty"),
        ("config=listen =", "config is not TOML"),
        ("config=workers = 2", "config has no listener"),
        (
            "config=listen = \"127.0.0.1:8080\"",
            "where only the pod itself reaches it",
        ),
        (
            "metrics.serviceMonitor.enabled=true",
            "needs metrics.enabled",
        ),
        (
            "config=[[listeners]]\naddress = \"0.0.0.0:8080\"\n[[listeners]]\naddress = \"[::]:80\"",
            "two listeners would have port 80 of the service",
        ),
    ] {
        let outcome = charts.proxy("edge", &[&valid[..], &["--set", set]].concat());
        match outcome {
            Err(said) if said.contains(expected) => (),
            other => {
                return Err(format!(
                    "--set {set}: expected an error with {expected:?}, found {other:?}"
                ));
            }
        }
    }
    Ok(())
}

/// What the chart takes from the configuration.
fn derived(charts: &Charts) -> Result<(), String> {
    const CONFIG: &str = r#"config=[[listeners]]
address = "0.0.0.0:8443"
[[listeners]]
address = "[::]:8080"
[services.a.discovery]
kubernetes = "shop/a:http"
[services.b.discovery]
kubernetes = "b:http"
[services.c]
replicas = ["10.0.0.1:80"]
[timeouts]
drain = "1m1.5s"
[admin]
listen = "127.0.0.1:9911""#;
    let rendered = charts.proxy("edge", &["--set-literal", CONFIG])?;
    for expected in [
        "containerPort: 8443",
        "name: http-2",
        "terminationGracePeriodSeconds: 80",
        "drain_delay = \"10s\"",
        "\"--admin=127.0.0.1:9911\"",
        "automountServiceAccountToken: true",
        "name: slackwater.edge\n  namespace: shop",
        "name: slackwater\n  namespace: edge",
    ] {
        if !rendered.contains(expected) {
            return Err(format!(
                "the chart does not render {expected:?} for\n{CONFIG}"
            ));
        }
    }
    let recreated = ["--set-literal", CONFIG, "--set", "strategy.type=Recreate"];
    let recreated = charts.proxy("edge", &recreated)?;
    if !recreated.contains("type: Recreate") || recreated.contains("rollingUpdate") {
        return Err("strategy.type=Recreate is not rendered alone".to_owned());
    }
    let monitored = charts.proxy(
        "edge",
        &[
            "--set-literal",
            CONFIG,
            "--set",
            "metrics.enabled=true,metrics.serviceMonitor.enabled=true",
        ],
    )?;
    if !monitored.contains("honorLabels: true") {
        return Err("Prometheus would replace the label `service` of metrics".to_owned());
    }
    addresses(charts)?;
    ports(charts)?;
    let annotation = |config: &str| {
        let rendered = charts.proxy("edge", &["--set-literal", &format!("config={config}")])?;
        if rendered.contains("kind: Role")
            || rendered.contains("automountServiceAccountToken: true")
        {
            return Err(format!("rights without discovery, for\n{config}"));
        }
        let line = rendered
            .lines()
            .find(|line| line.contains("slackwater/restart:"));
        line.map(str::to_owned)
            .ok_or_else(|| "no annotation slackwater/restart".to_owned())
    };
    // Only what a reload cannot change replaces the pods.
    let base = "listen = \"0.0.0.0:80\"\nreplicas = [\"10.0.0.1:80\"]\n";
    let before = annotation(base)?;
    let is_kept = |more: &str| Ok::<_, String>(annotation(&format!("{base}{more}"))? == before);
    let reloaded = is_kept("policy = \"random\"\n[tracing]\nsample = 0.5")?;
    let restarted = !is_kept("workers = 3")? && !is_kept("limits.connections_max = 9")?;
    if reloaded && restarted && !is_kept("[log]\nformat = \"json\"")? {
        return Ok(());
    }
    Err("the annotation slackwater/restart does not follow what needs a restart".to_owned())
}

/// What depends on the listeners: the name of the `ConfigMap`, so that old pods keep their ports,
/// and the address of the admin server with metrics.
fn addresses(charts: &Charts) -> Result<(), String> {
    let lines = |config: &str| {
        let set = format!("config={config}\nreplicas = [\"10.0.0.1:80\"]");
        let more = ["--set", "metrics.enabled=true", "--set-literal", &set];
        let rendered = charts.proxy("edge", &more)?;
        let documents = rendered.split("\n---\n");
        let mut maps = documents.filter(|document| document.contains("kind: ConfigMap"));
        let map = maps.next().ok_or("no ConfigMap")?;
        let name = map.lines().find(|line| line.starts_with("  name: "));
        let name = name.ok_or("a ConfigMap without a name")?.trim().to_owned();
        if !rendered.contains(&format!("configMap:\n            {name}\n")) {
            return Err(format!("no volume of the ConfigMap with {name}"));
        }
        let admin = rendered.lines().find(|line| line.contains("- --admin="));
        let admin = admin.ok_or("no --admin")?.trim().to_owned();
        Ok::<_, String>((name, admin))
    };
    let four = lines("listen = \"0.0.0.0:8080\"")?;
    let six = lines("listen = [\"[::]:8080\"]\nworkers = 2")?;
    let other = lines("listen = [\"0.0.0.0:8080\", \"0.0.0.0:8081\"]")?;
    if four.0 == six.0 && four.0 != other.0 {
        let expected = ["- --admin=0.0.0.0:9900", "- --admin=[::]:9900"];
        if [four.1.as_str(), six.1.as_str()] == expected {
            return Ok(());
        }
    }
    Err(format!(
        "the ConfigMap's name must follow the ports, and --admin the listeners' family: found \
         {four:?}, {six:?}, {other:?}"
    ))
}

/// What depends on the numbers of ports: low ones need a sysctl, and a `NetworkPolicy` has none,
/// because old pods keep theirs.
fn ports(charts: &Charts) -> Result<(), String> {
    let render = |port: u16, admin: u16| {
        let set = format!(
            "config=listen = [\"0.0.0.0:{port}\", \"0.0.0.0:1{port}\"]\nadmin.listen = \"127.0.0.1:{admin}\"\n\
             replicas = [\"10.0.0.1:80\"]"
        );
        let policy = "metrics.enabled=true,networkPolicy.enabled=true,\
                      networkPolicy.metrics[0].podSelector.matchLabels.app=prometheus";
        let rendered = charts.proxy("edge", &["--set", policy, "--set-literal", &set])?;
        let has_sysctl = rendered.contains("name: net.ipv4.ip_unprivileged_port_start");
        let mut documents = rendered.split("\n---\n");
        let policy = documents.find(|document| document.contains("kind: NetworkPolicy"));
        let policy = policy.ok_or("no NetworkPolicy")?.to_owned();
        Ok::<_, String>((policy, has_sysctl))
    };
    let high = render(8080, 9900)?;
    let low = render(443, 9911)?;
    if high.0 != low.0 || !low.0.contains("- port: admin") {
        return Err(format!(
            "a NetworkPolicy depends on ports: {high:?}, {low:?}"
        ));
    }
    if high.1 || !low.1 || !render(8080, 990)?.1 {
        return Err("the sysctl for ports below 1024 must follow the ports".to_owned());
    }
    Ok(())
}

/// A rendered chart as a manifest for kubectl: without the lines that only Helm needs.
fn plain(rendered: &str, from: &str) -> String {
    let head =
        format!("# Rendered from {from}.\n# `cargo xtask kubernetes --write` writes this file.\n");
    let lines = rendered.lines().filter(|line| {
        !line.starts_with("# Source: ") && line.trim() != "app.kubernetes.io/managed-by: Helm"
    });
    let text: Vec<_> = lines.map(str::trim_end).collect();
    format!("{head}{}\n", text.join("\n").trim_end())
}

fn chart(name: &str) -> PathBuf {
    root().join(CHARTS).join(name)
}

/// Copies a folder.
fn copy(from: &Path, to: &Path) -> Result<(), String> {
    let wrong = |error: std::io::Error| format!("{}: {error}", from.display());
    fs::create_dir_all(to).map_err(wrong)?;
    for entry in fs::read_dir(from).map_err(wrong)? {
        let entry = entry.map_err(wrong)?;
        let (from, to) = (entry.path(), to.join(entry.file_name()));
        if from.is_dir() {
            copy(&from, &to)?;
        } else {
            fs::copy(&from, &to).map_err(wrong)?;
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn charts_have_the_version_of_the_program() {
        let version = env!("CARGO_PKG_VERSION");
        let has = |file: &str, line: &str| {
            let text = fs::read_to_string(root().join(CHARTS).join(file)).unwrap();
            assert!(
                text.lines().any(|found| found.trim() == line),
                "{file}: {line}"
            );
        };
        for name in ["slackwater", LIBRARY] {
            has(
                &format!("{name}/Chart.yaml"),
                &format!("appVersion: {version}"),
            );
            has(
                &format!("{name}/Chart.yaml"),
                &format!("version: {version}"),
            );
        }
        has(
            &format!("{LIBRARY}/values.yaml"),
            &format!("tag: {version}"),
        );
        has(
            &format!("{EXAMPLES}/Chart.yaml"),
            &format!("version: {version}"),
        );
    }

    #[test]
    fn schemas_are_json_and_refuse_unknown_values() {
        for name in ["slackwater", LIBRARY] {
            let file = chart(name).join("values.schema.json");
            let text = fs::read_to_string(&file).unwrap();
            let schema: serde_json::Value = serde_json::from_str(&text).unwrap();
            assert_eq!(schema["additionalProperties"], false, "{name}");
        }
    }

    #[test]
    fn lines_for_helm_are_left_out_of_plain_manifests() {
        let rendered =
            "---\n# Source: a/b.yaml\nkind: A\n    app.kubernetes.io/managed-by: Helm\n  x: \n\n";
        assert!(plain(rendered, "here").ends_with("file.\n---\nkind: A\n  x:\n"));
    }
}
