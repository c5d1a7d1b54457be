//! How fast a download is, beside the two things that bound it: reading from the network, and hashing. Everything shares
//! this machine's processors, the server too.

use std::io::{Read, Write};
use std::net::TcpStream;
use std::thread;
use std::time::Instant;

use ring::digest::{Context, SHA256};

use crate::hub::{Hub, REPO, Served};
use crate::support::Place;

const JOBS: usize = 2;
/// Bytes of each file.
const SIZE: u64 = 1 << 30;
const CHUNK: usize = 256 << 10;

/// Bytes in a second that so many threads do together, each of them `SIZE` bytes.
fn rate(work: impl Fn(usize) + Sync) -> f64 {
    let began = Instant::now();
    thread::scope(|scope| {
        for job in 0..JOBS {
            let work = &work;
            thread::Builder::new().spawn_scoped(scope, move || work(job)).unwrap();
        }
    });
    (JOBS as u64 * SIZE) as f64 / began.elapsed().as_secs_f64()
}

#[test]
#[ignore = "prints timings, and wants the machine for itself"]
fn throughput() {
    let name = |job: usize| format!("model-{:05}-of-00002.safetensors", job + 1);
    let files: Vec<Served> = (0..JOBS).map(|job| Served::zeros(&name(job), SIZE)).collect();
    let hub = Hub::good(files);
    let hash = rate(|_| {
        let (zeros, mut hasher) = (vec![0; CHUNK], Context::new(&SHA256));
        for _ in 0..SIZE / CHUNK as u64 {
            hasher.update(&zeros);
        }
        assert_eq!(hasher.finish().as_ref().len(), 32);
    });
    let store = hub.store();
    let read = rate(|job| {
        let mut stream = TcpStream::connect(store).unwrap();
        let path = format!("/{REPO}/resolve/{}/{}", "a".repeat(40), name(job));
        stream.write_all(format!("GET {path} HTTP/1.1\r\n\r\n").as_bytes()).unwrap();
        let (mut buffer, mut total) = (vec![0; CHUNK], 0);
        loop {
            match stream.read(&mut buffer).unwrap() {
                0 => break,
                count => total += count as u64,
            }
        }
        assert!(total > SIZE);
    });
    let place = Place::new();
    let outcome = place.fetch_with(&hub, |options| {
        options.jobs = JOBS;
        options.block = dormouse::setup::download::BLOCK;
    });
    let summary = outcome.summary();
    let whole = summary.bytes as f64 / summary.seconds;
    let gb = 1e9;
    println!("{JOBS} connections, {} bytes in {:.2} s", summary.bytes, summary.seconds);
    println!("reading from the loopback: {:.2} GB/s", read / gb);
    println!("SHA-256 on {JOBS} threads:    {:.2} GB/s", hash / gb);
    println!(
        "download, hashed:          {:.2} GB/s, {:.0} % of the lesser",
        whole / gb,
        100.0 * whole / read.min(hash)
    );
}
