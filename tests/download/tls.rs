//! Hubs that prove who they are, to whom this machine trusts and to others. The key and the certificates of the tests are
//! in `tests/fixtures/tls` and prove nothing to anybody else.

use std::io::{BufRead, BufReader, Write};
use std::net::{Shutdown, TcpListener, TcpStream};
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::{ServerConfig, ServerConnection, StreamOwned};

use crate::hub::{Hub, Served};
use crate::program::{command, stderr};
use crate::proxy::begin;
use crate::support::{Place, model};

const FOLDER: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/fixtures/tls");

/// What stands in front of a hub and speaks TLS for it. It ends with the test's process.
struct Front {
    url: String,
    connections: Arc<AtomicUsize>,
}

impl Front {
    fn new(hub: &Hub) -> Self {
        let certificate = CertificateDer::from_pem_file(Path::new(FOLDER).join("hub.pem")).unwrap();
        let key = PrivateKeyDer::from_pem_file(Path::new(FOLDER).join("hub.key")).unwrap();
        let config = ServerConfig::builder_with_provider(Arc::new(rustls::crypto::ring::default_provider()))
            .with_safe_default_protocol_versions()
            .unwrap()
            .with_no_client_auth()
            .with_single_cert(vec![certificate], key)
            .unwrap();
        let config = Arc::new(config);
        let hub = hub.url.trim_start_matches("http://").to_owned();
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let url = format!("https://localhost:{}", listener.local_addr().unwrap().port());
        let connections = Arc::new(AtomicUsize::new(0));
        let count = Arc::clone(&connections);
        begin(move || {
            for stream in listener.incoming().flatten() {
                count.fetch_add(1, Ordering::Relaxed);
                let (config, hub) = (Arc::clone(&config), hub.clone());
                // A client that leaves early is nobody's fault.
                begin(move || drop(pass_on(stream, config, &hub)));
            }
        });
        Self { url, connections }
    }
}

/// One request and its answer: the hub closes after each.
fn pass_on(stream: TcpStream, config: Arc<ServerConfig>, hub: &str) -> std::io::Result<()> {
    let connection = ServerConnection::new(config).map_err(std::io::Error::other)?;
    let mut client = BufReader::new(StreamOwned::new(connection, stream));
    let mut head = Vec::new();
    while client.read_until(b'\n', &mut head)? > 2 {}
    let mut server = TcpStream::connect(hub)?;
    server.write_all(&head)?;
    let mut client = client.into_inner();
    std::io::copy(&mut server, &mut client)?;
    client.conn.send_close_notify();
    client.flush()?;
    client.sock.shutdown(Shutdown::Write)
}

/// A model that the hub gives out itself: to a store without TLS nobody lets himself be sent.
fn at_the_hub() -> Vec<Served> {
    let mut files = model();
    for file in &mut files {
        file.large = false;
    }
    files
}

#[test]
fn a_hub_of_an_authority_that_is_trusted_is_used() {
    let hub = Hub::good(at_the_hub());
    let (front, place) = (Front::new(&hub), Place::new());
    let mut command = command("download --endpoint");
    command.arg(&front.url).arg(&place.folder);
    command.env("SSL_CERT_FILE", Path::new(FOLDER).join("authority.pem"));
    let output = command.output().unwrap();
    assert_eq!(output.status.code(), Some(0), "{}", stderr(&output));
    place.assert_whole(&at_the_hub());
}

#[test]
fn a_hub_that_nobody_vouches_for_is_refused_at_once() {
    let hub = Hub::good(model());
    let (front, place) = (Front::new(&hub), Place::new());
    let mut command = command("download --endpoint");
    command.arg(&front.url).arg(&place.folder).env("HF_TOKEN", "hf_not_for_strangers");
    let output = command.env_remove("SSL_CERT_FILE").env_remove("SSL_CERT_DIR").output().unwrap();
    let text = stderr(&output);
    assert_eq!(output.status.code(), Some(3), "{text}");
    assert!(text.contains("cannot prove") && text.contains("SSL_CERT_FILE"), "{text}");
    assert_eq!(
        front.connections.load(Ordering::Relaxed),
        1,
        "nothing that another attempt would better: {text}"
    );
    assert!(hub.log().is_empty(), "it was told nothing, and no token");
}
