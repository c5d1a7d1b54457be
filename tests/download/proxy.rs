//! Proxies from the environment, and where they are not to be used.

use std::io::{BufRead, BufReader, Write};
use std::net::{TcpListener, TcpStream};
use std::process::Command;
use std::sync::{Arc, Mutex};
use std::thread;

use crate::hub::Hub;
use crate::support::{Place, model};

/// The hub by a name that nobody but the proxy knows: to one on the loopback it would go straight.
const HUB: &str = "hub.invalid:80";

/// A proxy on the loopback that opens tunnels, and what it was asked for. It ends with the test's process.
struct Proxy {
    url: String,
    asked: Arc<Mutex<Vec<String>>>,
}

impl Proxy {
    /// One that knows where the hub is.
    fn new(hub: &Hub) -> Self {
        let hub = hub.url.trim_start_matches("http://").to_owned();
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let url = format!("http://{}", listener.local_addr().unwrap());
        let asked = Arc::new(Mutex::new(Vec::new()));
        let log = Arc::clone(&asked);
        let accept = move || {
            for stream in listener.incoming().flatten() {
                let (log, hub) = (Arc::clone(&log), hub.clone());
                // A client that leaves early is nobody's fault.
                begin(move || drop(tunnel(stream, &hub, &log)));
            }
        };
        begin(accept);
        Self { url, asked }
    }

    fn asked(&self) -> Vec<String> {
        self.asked.lock().unwrap().clone()
    }
}

pub(crate) fn begin(work: impl FnOnce() + Send + 'static) {
    thread::Builder::new().spawn(work).unwrap();
}

fn tunnel(mut client: TcpStream, hub: &str, log: &Mutex<Vec<String>>) -> std::io::Result<()> {
    let mut reader = BufReader::new(client.try_clone()?);
    let mut first = String::new();
    reader.read_line(&mut first)?;
    let mut line = String::new();
    while reader.read_line(&mut line)? > 2 {
        line.clear();
    }
    log.lock().unwrap().push(first.trim().to_owned());
    let mut words = first.split(' ');
    let (Some("CONNECT"), Some(target)) = (words.next(), words.next()) else {
        return client.write_all(b"HTTP/1.1 405 No\r\nContent-Length: 0\r\n\r\n");
    };
    let mut server = TcpStream::connect(if target == HUB { hub } else { target })?;
    client.write_all(b"HTTP/1.1 200 Connected\r\n\r\n")?;
    let (mut back, mut to) = (server.try_clone()?, client.try_clone()?);
    begin(move || drop(std::io::copy(&mut back, &mut to)));
    server.write_all(reader.buffer())?;
    std::io::copy(&mut reader.into_inner(), &mut server)?;
    Ok(())
}

/// Downloads with these variables alone, of all those about proxies.
fn download(place: &Place, variables: &[(&str, &str)]) -> std::process::Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_dormouse"));
    for (name, _) in std::env::vars_os() {
        let text = name.to_string_lossy().to_ascii_uppercase();
        if text.ends_with("_PROXY") || text.starts_with("HF_") || text.starts_with("DORMOUSE_") {
            command.env_remove(name);
        }
    }
    command.arg("download").arg(&place.folder).args(["--endpoint", "http://hub.invalid"]);
    command.envs(variables.iter().copied()).output().unwrap()
}

#[test]
fn a_proxy_of_the_environment_is_used_for_every_host() {
    let hub = Hub::good(model());
    let (place, proxy) = (Place::new(), Proxy::new(&hub));
    let output = download(&place, &[("HTTP_PROXY", &proxy.url)]);
    assert_eq!(output.status.code(), Some(0), "{}", String::from_utf8_lossy(&output.stderr));
    place.assert_whole(&model());
    let hosts: std::collections::BTreeSet<String> = proxy.asked().into_iter().collect();
    assert_eq!(hosts.len(), 2, "the hub and its store: {hosts:?}");
    assert!(hosts.iter().any(|line| line.starts_with(&format!("CONNECT {HUB} "))), "{hosts:?}");
}

#[test]
fn what_stands_in_no_proxy_goes_straight_there() {
    let hub = Hub::good(model());
    let (place, proxy) = (Place::new(), Proxy::new(&hub));
    let output = download(&place, &[("HTTP_PROXY", &proxy.url), ("NO_PROXY", "hub.invalid")]);
    let text = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(3), "{text}");
    assert!(text.contains("hub.invalid"), "{text}");
    assert_eq!(proxy.asked(), Vec::<String>::new());
}

#[test]
fn a_proxy_that_is_not_there_is_a_reason_that_is_told() {
    let gone = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
    let output = download(&Place::new(), &[("HTTP_PROXY", &format!("http://{gone}"))]);
    let text = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(3), "{text}");
    assert!(text.contains("proxy"), "{text}");
}
