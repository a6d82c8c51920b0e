//! An authority with its certificates, clients with TLS, and replicas with TLS.

use crate::clients::empty;
use crate::proxy::PATIENCE;
use crate::replicas::AnyBody;
use bytes::Bytes;
use core::convert::Infallible;
use core::net::SocketAddr;
use core::sync::atomic::{AtomicU32, Ordering};
use http::{Request, Response, StatusCode};
use http_body_util::{BodyExt, Full};
use hyper::body::Incoming;
use hyper::service::service_fn;
use hyper_util::rt::{TokioExecutor, TokioIo};
use rcgen::{
    BasicConstraints, CertificateParams, CertifiedIssuer, IsCa, KeyPair, PKCS_ECDSA_P256_SHA256,
};
use rustls::crypto::aws_lc_rs::default_provider;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer, ServerName};
use rustls::server::WebPkiClientVerifier;
use rustls::{ClientConfig, HandshakeKind, RootCertStore, ServerConfig, SupportedProtocolVersion};
use std::io;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};
use tokio::net::{TcpListener, TcpStream};
use tokio::time::timeout;
use tokio_rustls::client::TlsStream;
use tokio_rustls::{TlsAcceptor, TlsConnector};

/// A directory of one test, removed when dropped.
pub(crate) struct Folder(PathBuf);

impl Folder {
    pub(crate) fn new() -> Self {
        static NEXT: AtomicU32 = AtomicU32::new(0);
        let number = NEXT.fetch_add(1, Ordering::Relaxed);
        let name = format!("slackwater-serve-tls-{}-{number}", std::process::id());
        let path = std::env::temp_dir().join(name);
        std::fs::create_dir(&path).unwrap();
        Self(path)
    }

    pub(crate) fn file(&self, name: &str) -> PathBuf {
        self.0.join(name)
    }

    pub(crate) fn write(&self, name: &str, text: &str) {
        std::fs::write(self.file(name), text).unwrap();
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

/// A certificate and its key, in PEM.
#[derive(Clone)]
pub(crate) struct Issued {
    pub(crate) certificate: String,
    pub(crate) key: String,
}

impl Issued {
    pub(crate) fn der(&self) -> CertificateDer<'static> {
        CertificateDer::from_pem_slice(self.certificate.as_bytes()).unwrap()
    }

    fn key_der(&self) -> PrivateKeyDer<'static> {
        PrivateKeyDer::from_pem_slice(self.key.as_bytes()).unwrap()
    }

    /// Writes both files, as NAME.pem and NAME.key.
    pub(crate) fn write(&self, folder: &Folder, name: &str) {
        folder.write(&format!("{name}.key"), &self.key);
        folder.write(&format!("{name}.pem"), &self.certificate);
    }
}

pub(crate) struct Authority(CertifiedIssuer<'static, KeyPair>);

impl Authority {
    pub(crate) fn new() -> Self {
        static NEXT: AtomicU32 = AtomicU32::new(0);
        let mut params = CertificateParams::new(Vec::new()).unwrap();
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        // Two authorities in one test must not have the same name.
        let name = format!("authority {}", NEXT.fetch_add(1, Ordering::Relaxed));
        (params.distinguished_name).push(rcgen::DnType::CommonName, name);
        let key = KeyPair::generate().unwrap();
        Self(CertifiedIssuer::self_signed(params, key).unwrap())
    }

    pub(crate) fn pem(&self) -> String {
        self.0.pem()
    }

    pub(crate) fn issue(&self, names: &[&str]) -> Issued {
        let names: Vec<_> = names.iter().map(ToString::to_string).collect();
        let key = KeyPair::generate_for(&PKCS_ECDSA_P256_SHA256).unwrap();
        let params = CertificateParams::new(names).unwrap();
        let certificate = params.signed_by(&key, &self.0).unwrap().pem();
        Issued {
            certificate,
            key: key.serialize_pem(),
        }
    }

    fn roots(&self) -> Arc<RootCertStore> {
        let mut roots = RootCertStore::empty();
        roots.add(self.0.der().clone()).unwrap();
        Arc::new(roots)
    }

    /// A client that trusts this authority.
    pub(crate) fn client(&self) -> TlsClient {
        TlsClient {
            roots: self.roots(),
            versions: rustls::ALL_VERSIONS.to_vec(),
            shows: None,
            alpn: Vec::new(),
        }
    }
}

/// The TLS settings of a client.
#[derive(Clone)]
pub(crate) struct TlsClient {
    roots: Arc<RootCertStore>,
    versions: Vec<&'static SupportedProtocolVersion>,
    shows: Option<Issued>,
    alpn: Vec<Vec<u8>>,
}

pub(crate) type Secured = TlsStream<TcpStream>;

impl TlsClient {
    pub(crate) fn version(self, version: &'static SupportedProtocolVersion) -> Self {
        Self {
            versions: vec![version],
            ..self
        }
    }

    pub(crate) fn shows(self, issued: &Issued) -> Self {
        Self {
            shows: Some(issued.clone()),
            ..self
        }
    }

    pub(crate) fn alpn(self, protocols: &[&str]) -> Self {
        let alpn = protocols.iter().map(|name| name.as_bytes().to_vec());
        Self {
            alpn: alpn.collect(),
            ..self
        }
    }

    pub(crate) fn config(&self) -> Arc<ClientConfig> {
        let builder = ClientConfig::builder_with_provider(Arc::new(default_provider()))
            .with_protocol_versions(&self.versions)
            .unwrap()
            .with_root_certificates(Arc::clone(&self.roots));
        let mut config = match &self.shows {
            None => builder.with_no_client_auth(),
            Some(issued) => builder
                .with_client_auth_cert(vec![issued.der()], issued.key_der())
                .unwrap(),
        };
        config.alpn_protocols.clone_from(&self.alpn);
        Arc::new(config)
    }

    pub(crate) async fn connect(&self, address: SocketAddr, name: &str) -> io::Result<Secured> {
        connect(&self.config(), address, name).await
    }
}

/// Connects with `config`. With the same `config` again, sessions are resumed.
pub(crate) async fn connect(
    config: &Arc<ClientConfig>,
    address: SocketAddr,
    name: &str,
) -> io::Result<Secured> {
    let stream = TcpStream::connect(address).await.unwrap();
    let name = ServerName::try_from(name.to_owned()).unwrap();
    let connecting = TlsConnector::from(Arc::clone(config)).connect(name, stream);
    timeout(PATIENCE, connecting)
        .await
        .expect("the handshake hangs")
}

/// Sends a request by HTTP/1.1 on a new connection, which ends with it.
pub(crate) async fn ask(stream: Secured, head: &str) -> io::Result<String> {
    use tokio::io::{AsyncReadExt, AsyncWriteExt};
    let mut stream = stream;
    let exchange = async {
        let request = format!("{head}\r\nhost: test\r\nconnection: close\r\n\r\n");
        stream.write_all(request.as_bytes()).await?;
        let mut answer = String::new();
        stream.read_to_string(&mut answer).await?;
        Ok(answer)
    };
    timeout(PATIENCE, exchange)
        .await
        .expect("no answer in time")
}

pub(crate) fn get(path: &str) -> Request<AnyBody> {
    let uri = format!("https://test{path}");
    Request::get(uri).body(empty()).unwrap()
}

/// What a replica received of one request.
#[derive(Clone, Debug)]
pub(crate) struct Seen {
    pub(crate) head: String,
    pub(crate) handshake: HandshakeKind,
    pub(crate) asked_for: Option<String>,
    pub(crate) shown: Option<CertificateDer<'static>>,
}

/// A replica over TLS that echoes the requests, with the negotiated protocol.
pub(crate) struct TlsReplica {
    pub(crate) address: SocketAddr,
    seen: Arc<Mutex<Vec<Seen>>>,
    task: tokio::task::JoinHandle<()>,
}

impl TlsReplica {
    /// Starts a replica. If `clients` is given, it requires client certificates of that authority.
    pub(crate) async fn start(issued: &Issued, alpn: &[&str], clients: Option<&Authority>) -> Self {
        let provider = Arc::new(default_provider());
        let builder = ServerConfig::builder_with_provider(Arc::clone(&provider))
            .with_safe_default_protocol_versions()
            .unwrap();
        let builder = match clients {
            None => builder.with_no_client_auth(),
            Some(authority) => builder.with_client_cert_verifier(
                WebPkiClientVerifier::builder_with_provider(authority.roots(), provider)
                    .build()
                    .unwrap(),
            ),
        };
        let mut config = builder
            .with_single_cert(vec![issued.der()], issued.key_der())
            .unwrap();
        config.alpn_protocols = alpn.iter().map(|name| name.as_bytes().to_vec()).collect();
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let seen = Arc::new(Mutex::new(Vec::new()));
        let task = tokio::spawn(accept(
            listener,
            TlsAcceptor::from(Arc::new(config)),
            Arc::clone(&seen),
        ));
        Self {
            address,
            seen,
            task,
        }
    }

    pub(crate) fn seen(&self) -> Vec<Seen> {
        self.seen.lock().unwrap().clone()
    }
}

impl Drop for TlsReplica {
    fn drop(&mut self) {
        self.task.abort();
    }
}

async fn accept(listener: TcpListener, acceptor: TlsAcceptor, seen: Arc<Mutex<Vec<Seen>>>) {
    while let Ok((stream, _)) = listener.accept().await {
        let (acceptor, seen) = (acceptor.clone(), Arc::clone(&seen));
        tokio::spawn(async move {
            let Ok(stream) = acceptor.accept(stream).await else {
                return;
            };
            let session = stream.get_ref().1;
            let told = Seen {
                head: String::new(),
                handshake: session.handshake_kind().unwrap(),
                asked_for: session.server_name().map(str::to_owned),
                shown: (session.peer_certificates()).map(|chain| chain[0].clone().into_owned()),
            };
            let is_http2 = session.alpn_protocol() == Some(b"h2");
            let answer = move |request: Request<Incoming>| {
                let (mut told, seen) = (told.clone(), Arc::clone(&seen));
                async move {
                    told.head = format!("{:?} {:?}", request.uri(), request.headers());
                    seen.lock().unwrap().push(told);
                    Ok::<_, Infallible>(echo(request).await)
                }
            };
            let io = TokioIo::new(stream);
            let _ = if is_http2 {
                hyper::server::conn::http2::Builder::new(TokioExecutor::new())
                    .serve_connection(io, service_fn(answer))
                    .await
            } else {
                hyper::server::conn::http1::Builder::new()
                    .serve_connection(io, service_fn(answer))
                    .await
            };
        });
    }
}

async fn echo(request: Request<Incoming>) -> Response<Full<Bytes>> {
    if let Ok(body) = request.into_body().collect().await {
        return Response::new(Full::new(body.to_bytes()));
    }
    let mut answer = Response::new(Full::default());
    *answer.status_mut() = StatusCode::BAD_REQUEST;
    answer
}

/// The TLS section of a listener with these certificates, and more keys.
pub(crate) fn tls_section(folder: &Folder, names: &[&str], more: &str) -> String {
    let pair = |name: &&str| {
        let path = |end: &str| quoted(&folder.file(&format!("{name}.{end}")));
        format!("{{ certificate = {}, key = {} }}", path("pem"), path("key"))
    };
    let pairs: Vec<_> = names.iter().map(pair).collect();
    format!("[tls]\ncertificates = [{}]\n{more}\n", pairs.join(", "))
}

pub(crate) fn quoted(path: &Path) -> String {
    format!("{:?}", path.to_str().unwrap())
}
