//! How a cluster's API is reached, and with which credentials: from a kubeconfig, or from the
//! service account of the pod.
//!
//! Tokens, certificates and keys that are files are read each time they are used, because the
//! cluster replaces them. No message and no `Debug` contains anything secret: of a kubeconfig, only
//! names, paths and URLs are shown.

use crate::sections::{Endpoint, KubernetesService, KubernetesSettings};
use crate::tls::{Client, Identity, read_roots, roots_of, system_roots};
use crate::toml_reader::{Mistake, Mistakes, Place, read_bounded};
use core::fmt;
use data_encoding::BASE64;
use http::HeaderValue;
use rustls::pki_types::ServerName;
use serde::Deserialize;
use std::path::{Path, PathBuf};

/// Where a pod finds its service account.
const POD_CREDENTIALS: &str = "/var/run/secrets/kubernetes.io/serviceaccount";

/// A text in a file, or one that the kubeconfig itself contains.
#[derive(Clone, PartialEq, Eq)]
enum Content {
    File(PathBuf),
    Inline(Vec<u8>),
}

impl Content {
    fn read(&self) -> Result<Vec<u8>, String> {
        match self {
            Self::File(file) => {
                read_bounded(file).map_err(|why| format!("{}: {why}", file.display()))
            }
            Self::Inline(bytes) => Ok(bytes.clone()),
        }
    }
}

/// The servers that are trusted to be the API server.
#[derive(Clone, PartialEq, Eq)]
enum Trust {
    /// Servers with a certificate of the system's authorities.
    System,
    /// Servers with a certificate of these authorities.
    Authorities(Content),
    /// Every server.
    Any,
}

/// A certificate of the client, and its key.
#[derive(Clone, PartialEq, Eq)]
struct ClientCertificate {
    certificate: Content,
    key: Content,
}

/// A cluster's API and the credentials for it.
#[derive(Clone, PartialEq, Eq)]
pub struct ClusterAccess {
    /// The file or the directory that it is from.
    origin: PathBuf,
    /// The API server.
    pub server: Endpoint,
    /// The name that its certificate must have.
    pub server_name: ServerName<'static>,
    /// The namespace of the context or of the pod.
    pub namespace: Option<String>,
    trust: Trust,
    certificate: Option<ClientCertificate>,
    token: Option<Content>,
}

impl fmt::Debug for ClusterAccess {
    /// Omits the credentials.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ClusterAccess")
            .field("origin", &self.origin)
            .field("server", &self.server)
            .field("namespace", &self.namespace)
            .finish_non_exhaustive()
    }
}

impl ClusterAccess {
    /// Reads a kubeconfig, or the service account of this pod without one. May block.
    ///
    /// # Errors
    ///
    /// Returns what is wrong with the kubeconfig, or that there is neither.
    pub fn read(kubeconfig: Option<&Path>) -> Result<Self, Mistakes> {
        let read = match kubeconfig {
            Some(file) => Self::of_kubeconfig(file),
            None => Self::of_pod(Path::new(POD_CREDENTIALS), |name| std::env::var(name).ok()),
        };
        read.map_err(|mistake| Mistakes::new(vec![mistake]))
    }

    /// Where the access is from, for messages.
    pub fn origin(&self) -> &Path {
        &self.origin
    }

    /// The namespace of a service: its own, that of the settings, or that of this access.
    ///
    /// # Errors
    ///
    /// Returns that none of them is known.
    pub fn namespace_of(
        &self,
        service: &KubernetesService,
        settings: &KubernetesSettings,
    ) -> Result<String, Mistakes> {
        let namespaces = [&service.namespace, &settings.namespace, &self.namespace];
        let namespace = namespaces.into_iter().flatten().next();
        namespace.cloned().ok_or_else(|| {
            let message = format!(
                "names no namespace for {service}; write one before the service \
                 (\"shop/{service}\"), or set kubernetes.namespace"
            );
            Mistakes::new(vec![mistake(&self.origin, "", message)])
        })
    }

    fn of_kubeconfig(file: &Path) -> Result<Self, Mistake> {
        let whole = |message: String| mistake(file, "", message);
        let bytes = read_bounded(file).map_err(whole)?;
        let text = String::from_utf8(bytes);
        let text = text.map_err(|_| whole("is not UTF-8, expected a kubeconfig".to_owned()))?;
        let config: Kubeconfig = serde_saphyr::from_str(&text).map_err(|error| {
            // The parser's own message may quote a secret.
            let place = error.location().map_or_else(String::new, |location| {
                format!(" at line {}, column {}", location.line(), location.column())
            });
            whole(format!(
                "is no valid kubeconfig{place}; kubectl config view --kubeconfig {} shows how it is read",
                file.display()
            ))
        })?;
        config.access(file)
    }

    fn of_pod(
        directory: &Path,
        variable: impl Fn(&str) -> Option<String>,
    ) -> Result<Self, Mistake> {
        let [host, port] = ["HOST", "PORT"]
            .map(|part| variable(&format!("KUBERNETES_SERVICE_{part}")).unwrap_or_default());
        let [token, ca, namespace] =
            ["token", "ca.crt", "namespace"].map(|name| directory.join(name));
        if host.is_empty() || !token.exists() {
            return Err(mistake(
                directory,
                "kubernetes.kubeconfig",
                "is not set, and this process has no service account of a pod (the variable \
                 KUBERNETES_SERVICE_HOST and a file token); name a kubeconfig, or set \
                 automountServiceAccountToken = true for the pod"
                    .to_owned(),
            ));
        }
        let host = if host.contains(':') {
            format!("[{host}]")
        } else {
            host
        };
        let port = if port.is_empty() { "443" } else { &port };
        let url = format!("https://{host}:{port}");
        let server = Endpoint::parse(&url).ok_or_else(|| {
            let told = format!("KUBERNETES_SERVICE_HOST and _PORT make no URL: {url}");
            mistake(directory, "", told)
        })?;
        let server_name = server.server_name();
        let server_name = server_name.map_err(|error| mistake(directory, "", error.to_string()))?;
        let namespace = read_bounded(&namespace).ok();
        let namespace = namespace.and_then(|bytes| String::from_utf8(bytes).ok());
        Ok(Self {
            origin: directory.to_owned(),
            server,
            server_name,
            namespace: namespace.map(|text| text.trim().to_owned()),
            trust: Trust::Authorities(Content::File(ca)),
            certificate: None,
            token: Some(Content::File(token)),
        })
    }

    /// Returns the field `authorization`, if there is a token. Reads the token's file. May block.
    ///
    /// # Errors
    ///
    /// Fails if the file cannot be read or holds no token.
    pub fn authorization(&self) -> Result<Option<HeaderValue>, String> {
        let Some(token) = &self.token else {
            return Ok(None);
        };
        let bytes = token.read()?;
        let text = String::from_utf8_lossy(bytes.trim_ascii());
        let value = HeaderValue::try_from(format!("Bearer {text}"));
        let Some(mut value) = value.ok().filter(|_| !text.is_empty()) else {
            let file = match token {
                Content::File(file) => file,
                Content::Inline(_) => &self.origin,
            };
            return Err(format!("{}: holds no token", file.display()));
        };
        value.set_sensitive(true);
        Ok(Some(value))
    }

    /// Returns the settings of TLS, from the files of now. May block.
    ///
    /// # Errors
    ///
    /// Fails if a certificate or a key cannot be used.
    pub fn tls(&self) -> Result<Client, String> {
        let roots = match &self.trust {
            Trust::Any => None,
            Trust::System => Some(system_roots()),
            Trust::Authorities(Content::File(file)) => Some(read_roots(file)),
            Trust::Authorities(Content::Inline(text)) => Some(roots_of(&self.origin, text)),
        };
        let roots = roots.transpose().map_err(|flaw| flaw.to_string())?;
        let identity = self.certificate.as_ref().map(|pair| {
            let [certificate, key] = [&pair.certificate, &pair.key].map(|content| {
                let file = match content {
                    Content::File(file) => file,
                    Content::Inline(_) => &self.origin,
                };
                content.read().map(|text| (file, text))
            });
            let ((one, certificate), (other, key)) = (certificate?, key?);
            Identity::of((one, &certificate), (other, &key)).map_err(|flaw| flaw.to_string())
        });
        Client::new(roots, identity.transpose()?).map_err(|flaw| flaw.to_string())
    }
}

fn mistake(file: &Path, field: &str, message: String) -> Mistake {
    Mistake {
        place: Place::File(file.to_owned()),
        field: field.to_owned(),
        message,
    }
}

/// A kubeconfig, as far as it is read. Lists may be `null`.
#[derive(Deserialize)]
struct Kubeconfig {
    #[serde(rename = "current-context", default)]
    current_context: Option<String>,
    #[serde(default)]
    contexts: Option<Vec<NamedContext>>,
    #[serde(default)]
    clusters: Option<Vec<NamedCluster>>,
    #[serde(default)]
    users: Option<Vec<NamedUser>>,
}

#[derive(Deserialize)]
struct NamedContext {
    name: String,
    #[serde(default)]
    context: Option<Context>,
}

#[derive(Default, Deserialize)]
struct Context {
    #[serde(default)]
    cluster: Option<String>,
    #[serde(default)]
    user: Option<String>,
    #[serde(default)]
    namespace: Option<String>,
}

#[derive(Deserialize)]
struct NamedCluster {
    name: String,
    #[serde(default)]
    cluster: Option<Cluster>,
}

#[derive(Default, Deserialize)]
#[serde(rename_all = "kebab-case")]
struct Cluster {
    #[serde(default)]
    server: Option<String>,
    #[serde(default)]
    tls_server_name: Option<String>,
    #[serde(default)]
    insecure_skip_tls_verify: Option<bool>,
    #[serde(default)]
    certificate_authority: Option<String>,
    #[serde(default)]
    certificate_authority_data: Option<String>,
    #[serde(default)]
    proxy_url: Option<String>,
}

#[derive(Deserialize)]
struct NamedUser {
    name: String,
    #[serde(default)]
    user: Option<User>,
}

#[derive(Default, Deserialize)]
struct User {
    #[serde(default)]
    token: Option<String>,
    #[serde(rename = "tokenFile", default)]
    token_file: Option<String>,
    #[serde(rename = "client-certificate", default)]
    certificate: Option<String>,
    #[serde(rename = "client-certificate-data", default)]
    certificate_data: Option<String>,
    #[serde(rename = "client-key", default)]
    key: Option<String>,
    #[serde(rename = "client-key-data", default)]
    key_data: Option<String>,
    #[serde(default)]
    exec: Option<serde::de::IgnoredAny>,
    #[serde(rename = "auth-provider", default)]
    auth_provider: Option<serde::de::IgnoredAny>,
    #[serde(default)]
    username: Option<serde::de::IgnoredAny>,
}

impl Kubeconfig {
    fn access(self, file: &Path) -> Result<ClusterAccess, Mistake> {
        let shown = file.display();
        let name = filled(self.current_context).ok_or_else(|| {
            let told =
                format!("is missing; kubectl config use-context NAME --kubeconfig {shown} sets it");
            mistake(file, "current-context", told)
        })?;
        let absent = |field: &str, name: &str| {
            let told = format!("there is no entry with the name {name:?}");
            mistake(file, field, told)
        };
        let mut contexts = self.contexts.unwrap_or_default().into_iter();
        let context = contexts.find(|it| it.name == name);
        let context = context.ok_or_else(|| absent("contexts", &name))?.context;
        let context = context.unwrap_or_default();
        let at = format!("contexts[{name}].context");
        let name = filled(context.cluster)
            .ok_or_else(|| mistake(file, &format!("{at}.cluster"), "is missing".to_owned()))?;
        let mut clusters = self.clusters.unwrap_or_default().into_iter();
        let cluster = clusters.find(|it| it.name == name);
        let cluster = cluster.ok_or_else(|| absent("clusters", &name))?.cluster;
        let cluster = cluster.unwrap_or_default();
        let cluster_at = format!("clusters[{name}].cluster");
        let (user, user_at) = match filled(context.user) {
            None => (User::default(), String::new()),
            Some(name) => {
                let mut users = self.users.unwrap_or_default().into_iter();
                let user = users.find(|it| it.name == name);
                let user = user.ok_or_else(|| absent("users", &name))?.user;
                (user.unwrap_or_default(), format!("users[{name}].user"))
            }
        };
        let in_file = InFile { file };
        let (server, server_name, trust) = cluster.target(&in_file, &cluster_at)?;
        let (token, certificate) = user.credentials(&in_file, &user_at)?;
        if token.is_some() && !server.is_secure() && !is_loopback(server.host()) {
            return Err(mistake(
                file,
                &format!("{cluster_at}.server"),
                format!("{server} would get the token without TLS, expected https"),
            ));
        }
        Ok(ClusterAccess {
            origin: file.to_owned(),
            server,
            server_name,
            namespace: filled(context.namespace),
            trust,
            certificate,
            token,
        })
    }
}

fn is_loopback(host: &str) -> bool {
    let ip = host.parse::<core::net::IpAddr>();
    host == "localhost" || ip.is_ok_and(|ip| ip.is_loopback())
}

fn filled(text: Option<String>) -> Option<String> {
    text.filter(|text| !text.is_empty())
}

/// The kubeconfig whose values are read.
struct InFile<'f> {
    file: &'f Path,
}

impl InFile<'_> {
    fn mistake(&self, at: &str, key: &str, message: impl Into<String>) -> Mistake {
        mistake(self.file, &format!("{at}.{key}"), message.into())
    }

    /// The content of `key-data`, which takes precedence, or of the file in `key`.
    fn content(
        &self,
        at: &str,
        key: &str,
        data: Option<String>,
        file: Option<String>,
    ) -> Result<Option<Content>, Mistake> {
        if let Some(data) = filled(data) {
            let compact: Vec<u8> = data
                .bytes()
                .filter(|it| !it.is_ascii_whitespace())
                .collect();
            let decoded = BASE64.decode(&compact);
            let decoded =
                decoded.map_err(|_| self.mistake(at, &format!("{key}-data"), "is not base64"))?;
            return Ok(Some(Content::Inline(decoded)));
        }
        Ok(filled(file).map(|file| Content::File(self.path(&file))))
    }

    /// A relative path starts from the kubeconfig's directory.
    fn path(&self, written: &str) -> PathBuf {
        let base = self.file.parent();
        base.map_or_else(|| PathBuf::from(written), |base| base.join(written))
    }
}

impl Cluster {
    fn target(
        self,
        config: &InFile<'_>,
        at: &str,
    ) -> Result<(Endpoint, ServerName<'static>, Trust), Mistake> {
        const EXPECTED: &str = "expected a URL such as https://10.0.0.1:6443";
        if filled(self.proxy_url).is_some() {
            return Err(config.mistake(at, "proxy-url", "is not supported; remove it"));
        }
        let written = filled(self.server)
            .ok_or_else(|| config.mistake(at, "server", format!("is missing, {EXPECTED}")))?;
        let server = Endpoint::parse(&written).ok_or_else(|| {
            // Before an `@` there may be a password.
            let told = if written.contains('@') {
                format!("has a user, {EXPECTED}")
            } else {
                format!("found {written:?}, {EXPECTED}")
            };
            config.mistake(at, "server", told)
        })?;
        let name = filled(self.tls_server_name);
        let name = name.unwrap_or_else(|| server.host().to_owned());
        let name = ServerName::try_from(name.clone()).map_err(|_| {
            let told = format!("found {name:?}, expected a name that a certificate can have");
            config.mistake(at, "tls-server-name", told)
        })?;
        let authorities = config.content(
            at,
            "certificate-authority",
            self.certificate_authority_data,
            self.certificate_authority,
        )?;
        let trust = match authorities {
            _ if self.insecure_skip_tls_verify == Some(true) => Trust::Any,
            Some(authorities) => Trust::Authorities(authorities),
            None => Trust::System,
        };
        Ok((server, name, trust))
    }
}

impl User {
    fn credentials(
        self,
        config: &InFile<'_>,
        at: &str,
    ) -> Result<(Option<Content>, Option<ClientCertificate>), Mistake> {
        let unsupported = [
            ("exec", self.exec.is_some()),
            ("auth-provider", self.auth_provider.is_some()),
            ("username", self.username.is_some()),
        ];
        if let Some((key, _)) = unsupported.into_iter().find(|(_, is_set)| *is_set) {
            return Err(config.mistake(
                at,
                key,
                "is not supported, because it runs a program or sends a password; give the user a \
                 tokenFile, a token (kubectl create token NAME) or a client certificate",
            ));
        }
        let certificate = config.content(
            at,
            "client-certificate",
            self.certificate_data,
            self.certificate,
        )?;
        let key = config.content(at, "client-key", self.key_data, self.key)?;
        let certificate = match (certificate, key) {
            (Some(certificate), Some(key)) => Some(ClientCertificate { certificate, key }),
            (None, None) => None,
            (Some(_), None) => {
                return Err(config.mistake(at, "client-key", "is missing beside the certificate"));
            }
            (None, Some(_)) => {
                return Err(config.mistake(at, "client-certificate", "is missing beside the key"));
            }
        };
        // kubectl, too, prefers a file, which may be replaced by a newer token.
        let file = filled(self.token_file).map(|file| Content::File(config.path(&file)));
        let token = filled(self.token).map(|token| Content::Inline(token.into_bytes()));
        Ok((file.or(token), certificate))
    }
}

#[cfg(test)]
mod tests;
