//! Requests over TLS, on loopback: the authority and the certificate of a kubeconfig.

use super::*;
use crate::testing::tls::server_config;
use slackwater_config::tls::testing::Authority;
use std::sync::Arc;

#[tokio::test]
async fn both_sides_are_verified_by_the_authority_of_the_kubeconfig() {
    let (authority, stranger) = (Authority::new(), Authority::new());
    let mut server = ApiServer::start_tls(Arc::new(server_config(&authority))).await;
    let port = server.address.expect("on loopback").port();
    let folder = Folder::new("cluster-tls");
    let (certificate, key) = authority.issue(&["proxy"], &rcgen::PKCS_ECDSA_P256_SHA256);
    folder.write("proxy.crt", &certificate);
    folder.write("proxy.key", &key);
    let text = format!(
        "current-context: test\n\
         contexts: [{{name: test, context: {{cluster: test, user: test, namespace: shop}}}}]\n\
         clusters: [{{name: test, cluster: {{server: \"https://127.0.0.1:{port}\",\n  \
         tls-server-name: localhost, certificate-authority: ca.crt}}}}]\n\
         users: [{{name: test, user: {{client-certificate: proxy.crt, client-key: proxy.key}}}}]\n"
    );
    let access = ClusterAccess::read(Some(&folder.write("config", &text))).expect("valid");
    let setup = KubernetesSetup {
        service: &web_service(),
        cluster: &settings(),
        zone: &own_zone(),
        replica: &ReplicaSettings::default(),
        probe_port: None,
        own: OwnAddresses::new([]),
    };
    let mut source = KubernetesSource::new(access, setup, 1).expect("a namespace");

    folder.write("ca.crt", &stranger.pem());
    let told = source.next().await.expect_err("another authority");
    assert!(
        told.contains("cannot be reached: invalid peer certificate"),
        "{told}"
    );

    // The file is read again for the next connection.
    folder.write("ca.crt", &authority.pem());
    let (fleet, _watch) = tokio::join!(source.next(), async {
        let watch = server.asked().await.send(200);
        watch.event("ADDED", &web(5, &[1]));
        watch.initial_events_end(10);
        watch
    });
    assert_eq!(names(&fleet), expected(&[1]));
}
