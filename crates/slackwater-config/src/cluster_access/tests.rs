//! Tests of kubeconfigs and of a pod's service account.

use super::*;
use crate::tls::testing::{Authority, Folder};
use rcgen::PKCS_ECDSA_P256_SHA256;

const NAMES: &str = "\
apiVersion: v1
kind: Config
preferences: {}
current-context: here
contexts:
- name: there
  context: {cluster: gone, user: gone}
- name: here
  context: {cluster: shop, user: proxy, namespace: shop}
";

fn kubeconfig(cluster: &str, user: &str) -> String {
    format!(
        "{NAMES}clusters:\n- name: shop\n  cluster: {{{cluster}}}\n\
         users:\n- name: other\n  user: {{exec: {{command: aws, env: null}}}}\n\
         - name: proxy\n  user: {{{user}}}\n"
    )
}

fn read(text: &str) -> Result<ClusterAccess, String> {
    let folder = Folder::new();
    let file = folder.write("config", text);
    let read = ClusterAccess::read(Some(&file)).map_err(|mistakes| mistakes.in_a_line());
    read.map_err(|told| told.replace(&format!("{}/", folder.path().display()), ""))
}

const SERVER: &str = "server: \"https://10.0.0.1:6443\"";

#[test]
fn a_kubeconfig_names_the_server_the_namespace_and_the_credentials() {
    let access = read(&kubeconfig(SERVER, "token: s3cret")).expect("valid");
    assert_eq!(access.server.authority(), "10.0.0.1:6443");
    assert_eq!(access.namespace.as_deref(), Some("shop"));
    let field = access.authorization().expect("a token").expect("a field");
    assert_eq!(field.as_bytes(), b"Bearer s3cret");
    assert!(field.is_sensitive());
    assert!(!format!("{access:?}").contains("s3cret"));

    let json = r#"{"current-context": "a", "clusters": [{"name": "c", "cluster": {"server":
        "http://127.0.0.1:8001/proxy", "tls-server-name": "api.internal"}}],
        "contexts": [{"name": "a", "context": {"cluster": "c"}}], "users": null}"#;
    let access = read(json).expect("JSON is YAML");
    assert_eq!(access.authorization(), Ok(None));
    assert_eq!(access.server.base(), "/proxy");
    assert_eq!(access.server_name.to_str(), "api.internal");
    assert_eq!(access.namespace, None);
}

#[test]
fn a_token_file_precedes_a_token_and_is_read_again() {
    let folder = Folder::new();
    folder.write("token", "one\n");
    let text = kubeconfig(SERVER, "tokenFile: token, token: old");
    let access = ClusterAccess::read(Some(&folder.write("config", &text))).expect("valid");
    let field = || access.authorization().map(|field| field.expect("a field"));
    assert_eq!(field().expect("read").as_bytes(), b"Bearer one");
    folder.write("token", "two");
    assert_eq!(field().expect("read").as_bytes(), b"Bearer two");
    folder.write("token", "");
    assert!(
        field()
            .expect_err("empty")
            .ends_with("token: holds no token")
    );
    folder.write("token", "s3\ncret");
    let told = field().expect_err("two lines");
    assert!(
        told.ends_with("token: holds no token") && !told.contains("s3"),
        "{told}"
    );
}

#[test]
fn certificates_are_files_or_data() {
    let folder = Folder::new();
    let authority = Authority::new();
    let (certificate, key) = authority.issue(&["proxy"], &PKCS_ECDSA_P256_SHA256);
    let ca = folder.write("ca.crt", &authority.pem());
    let data = |text: &str| BASE64.encode(text.as_bytes());
    let by_data = kubeconfig(
        &format!(
            "{SERVER}, certificate-authority-data: {}",
            data(&authority.pem())
        ),
        &format!(
            "client-certificate-data: {}, client-key-data: {}",
            data(&certificate),
            data(&key)
        ),
    );
    let access = read(&by_data).expect("valid");
    let tls = access.tls().expect("usable");
    assert!(tls.verifies && tls.identity.is_some());

    folder.write("proxy.crt", &certificate);
    folder.write("proxy.key", &key);
    let by_file = kubeconfig(
        &format!("{SERVER}, certificate-authority: ca.crt"),
        "client-certificate: proxy.crt, client-key: proxy.key",
    );
    let file = folder.write("config", &by_file);
    let access = ClusterAccess::read(Some(&file)).expect("valid");
    assert!(access.tls().expect("usable").identity.is_some());
    std::fs::write(&ca, "no certificate").expect("written");
    let told = access.tls().expect_err("read again");
    assert!(told.contains("ca.crt: holds no certificate"), "{told}");

    let any = kubeconfig(&format!("{SERVER}, insecure-skip-tls-verify: true"), "");
    assert!(!read(&any).expect("valid").tls().expect("usable").verifies);
}

#[test]
fn each_mistake_names_the_file_the_key_and_a_way_out() {
    for (text, expected) in [
        (
            "current-context: a\n  b: [".to_owned(),
            "config: is no valid kubeconfig at line 2, column",
        ),
        (
            "users: s3cret".to_owned(),
            "config: is no valid kubeconfig at line 1, column",
        ),
        (
            "kind: Config".to_owned(),
            "config: current-context: is missing; kubectl config use-context",
        ),
        (
            NAMES.to_owned(),
            "config: clusters: there is no entry with the name \"shop\"",
        ),
        (
            NAMES.replace("current-context: here", "current-context: elsewhere"),
            "config: contexts: there is no entry with the name \"elsewhere\"",
        ),
        (
            kubeconfig("", ""),
            "config: clusters[shop].cluster.server: is missing, expected a URL",
        ),
        (
            kubeconfig("server: 10.0.0.1", ""),
            "config: clusters[shop].cluster.server: found \"10.0.0.1\", expected a URL",
        ),
        (
            kubeconfig("server: \"http://10.0.0.1\"", "token: s3cret"),
            "config: clusters[shop].cluster.server: http://10.0.0.1/ would get the token without TLS",
        ),
        (
            kubeconfig(&format!("{SERVER}, proxy-url: \"http://p\""), ""),
            "config: clusters[shop].cluster.proxy-url: is not supported",
        ),
        (
            kubeconfig(&format!("{SERVER}, certificate-authority-data: \"?\""), ""),
            "config: clusters[shop].cluster.certificate-authority-data: is not base64",
        ),
        (
            kubeconfig(SERVER, "exec: {command: aws, args: null}"),
            "config: users[proxy].user.exec: is not supported, because it runs a program",
        ),
        (
            kubeconfig(SERVER, "client-certificate: a"),
            "config: users[proxy].user.client-key: is missing beside the certificate",
        ),
        (
            kubeconfig(SERVER, "client-key: a"),
            "config: users[proxy].user.client-certificate: is missing beside the key",
        ),
    ] {
        let told = read(&text).expect_err(expected);
        assert!(told.starts_with(expected), "{told}");
        assert!(!told.contains("s3cret"), "{told}");
    }
    let missing = ClusterAccess::read(Some(Path::new("/nowhere/config"))).expect_err("missing");
    assert!(missing.in_a_line().contains("/nowhere/config"), "{missing}");
}

#[test]
fn a_pod_has_its_access_in_variables_and_files() {
    let folder = Folder::new();
    let directory = folder.path();
    let variable = |name: &str| {
        let value = match name {
            "KUBERNETES_SERVICE_HOST" => "fd00::1",
            "KUBERNETES_SERVICE_PORT" => "6443",
            _ => return None,
        };
        Some(value.to_owned())
    };
    let told = ClusterAccess::of_pod(directory, variable).expect_err("no token");
    assert_eq!(told.field, "kubernetes.kubeconfig");
    assert!(told.message.contains("no service account of a pod"));
    assert!(told.message.contains("name a kubeconfig"));
    folder.write("token", "abc");
    folder.write("namespace", "shop\n");
    assert!(
        ClusterAccess::of_pod(directory, |_| None).is_err(),
        "no variable"
    );
    let access = ClusterAccess::of_pod(directory, variable).expect("a pod");
    assert_eq!(access.server.to_string(), "https://[fd00::1]:6443/");
    assert_eq!(access.server.host(), "fd00::1");
    assert_eq!(access.namespace.as_deref(), Some("shop"));
    let told = access.tls().expect_err("no authority");
    assert!(told.contains("ca.crt"), "{told}");
}
