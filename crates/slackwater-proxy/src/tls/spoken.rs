//! The current TLS configuration for connections to replicas: the newest files, with earlier
//! sessions as long as they are valid.

use rustls::{ClientConfig, HandshakeKind};
use slackwater_config::tls::Client;
use slackwater_config::tls::HttpVersion;
use slackwater_config::tls::Validity;
use std::sync::Arc;
use std::time::SystemTime;
use tokio::sync::watch;

/// The TLS configuration of one worker for a replica, or of a prober for a fleet.
pub(super) struct Spoken {
    client: watch::Receiver<Client>,
    protocol: HttpVersion,
    /// Number of replicas whose sessions are kept.
    replicas: usize,
    config: Arc<ClientConfig>,
    /// Validity of the certificate that expires first among those with which kept sessions started;
    /// `None` if there are no sessions.
    ends_first: Option<Validity>,
}

impl core::fmt::Debug for Spoken {
    /// Leaves out keys.
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        f.debug_struct("Spoken")
            .field("protocol", &self.protocol)
            .field("ends_first", &self.ends_first)
            .finish_non_exhaustive()
    }
}

impl Spoken {
    pub(super) fn new(
        mut client: watch::Receiver<Client>,
        protocol: HttpVersion,
        replicas: usize,
    ) -> Self {
        let config = client.borrow_and_update().with_sessions(protocol, replicas);
        Self {
            client,
            protocol,
            replicas,
            config,
            ends_first: None,
        }
    }

    /// Returns the current configuration.
    pub(super) fn config(&mut self, now: SystemTime) -> Arc<ClientConfig> {
        // An error means that the publisher is gone; the current value stays in use.
        let has_changed = self.client.has_changed().unwrap_or(false);
        if has_changed
            || self
                .ends_first
                .is_some_and(|validity| validity.is_over(now))
        {
            // Sessions are discarded with the old configuration: they may belong to an identity or
            // to authorities that are no longer valid, and a resumed session is not verified again.
            let client = self.client.borrow_and_update();
            self.config = client.with_sessions(self.protocol, self.replicas);
            self.ends_first = None;
        }
        Arc::clone(&self.config)
    }

    /// Records a completed handshake, whose session may be resumed.
    pub(super) fn note(&mut self, session: &rustls::ClientConnection) {
        if session.handshake_kind() == Some(HandshakeKind::Resumed)
            || !self.client.borrow().verifies
        {
            return;
        }
        let leaf = session.peer_certificates().and_then(|chain| chain.first());
        let validity = leaf.and_then(|leaf| Validity::of(leaf));
        let all = self.ends_first.into_iter().chain(validity);
        self.ends_first = all.min_by_key(|validity| validity.not_after_s);
    }
}

#[cfg(test)]
mod tests {
    use super::super::live::Secrets;
    use super::*;
    use core::time::Duration;
    use rustls::pki_types::ServerName;
    use rustls::{ClientConnection, ServerConfig, ServerConnection};
    use slackwater_config::tls::ClientTls;
    use slackwater_config::tls::testing::{Authority, Folder};
    use std::time::UNIX_EPOCH;

    /// Performs a handshake, and exchanges the messages after it.
    fn shake_hands(config: Arc<ClientConfig>, server: &Arc<ServerConfig>) -> ClientConnection {
        let name = ServerName::try_from("a.test").expect("a name");
        let mut client = ClientConnection::new(config, name).expect("a client");
        let mut server = ServerConnection::new(Arc::clone(server)).expect("a server");
        for _ in 0..4 {
            let mut wire = Vec::new();
            while client.wants_write() {
                client.write_tls(&mut wire).expect("into memory");
            }
            server.read_tls(&mut &wire[..]).expect("from memory");
            server.process_new_packets().expect("understood");
            let mut wire = Vec::new();
            while server.wants_write() {
                server.write_tls(&mut wire).expect("into memory");
            }
            if !wire.is_empty() {
                client.read_tls(&mut &wire[..]).expect("from memory");
                client.process_new_packets().expect("understood");
            }
        }
        assert!(!client.is_handshaking());
        client
    }

    #[test]
    fn sessions_end_when_their_certificate_expires() {
        let (folder, authority) = (Folder::new(), Authority::new());
        let identity = authority.identity(&["a.test"]);
        let until = Validity::of(&identity.certified.cert[0]).expect("dates");
        let mut server =
            ServerConfig::builder_with_provider(Arc::clone(slackwater_config::tls::provider()))
                .with_safe_default_protocol_versions()
                .expect("versions")
                .with_no_client_auth()
                .with_cert_resolver(Arc::new(rustls::sign::SingleCertAndKey::from(Arc::clone(
                    &identity.certified,
                ))));
        server.alpn_protocols = vec![b"http/1.1".to_vec()];
        let server = Arc::new(server);
        let settings = ClientTls {
            ca: Some(folder.write("ca.pem", &authority.pem())),
            server_name: None,
            identity: None,
            verify: true,
        };
        let client = Secrets::default().follow_client(&settings, "here");
        let mut spoken = Spoken::new(client.expect("well-formed"), HttpVersion::Http1, 1);
        let last = UNIX_EPOCH + Duration::from_secs(until.not_after_s.try_into().expect("later"));
        for (now, expected) in [
            (last, HandshakeKind::Full),
            (last, HandshakeKind::Resumed),
            (last + Duration::from_secs(1), HandshakeKind::Full),
        ] {
            let session = shake_hands(spoken.config(now), &server);
            assert_eq!(session.handshake_kind(), Some(expected));
            spoken.note(&session);
        }
    }
}
