//! A hub and the store behind it, each on a port of its own, so that they are different hosts to a client.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::io::{BufRead, BufReader, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::Duration;

use sha1::Sha1;
use sha2::{Digest, Sha256};

pub(crate) const REPO: &str = "moonshotai/Kimi-K3";

/// Zeros of which the digest is computed at most.
const MOST_HASHED: u64 = 1 << 30;

/// A file of the repository.
#[derive(Clone)]
pub(crate) struct Served {
    pub(crate) path: String,
    pub(crate) bytes: Arc<Vec<u8>>,
    /// In the store, with a SHA-256; else at the hub itself, with a blob id.
    pub(crate) large: bool,
    /// Whether a digest is published.
    pub(crate) digest: bool,
    /// Listed in place of the real length.
    pub(crate) listed: Option<u64>,
    /// So many zeros in place of the bytes.
    pub(crate) zeros: Option<u64>,
    /// The digest of these.
    sum: Option<String>,
}

impl Served {
    /// Bytes that look like chance, another sequence for each path.
    pub(crate) fn large(path: &str, len: usize) -> Self {
        let mut state = path
            .bytes()
            .fold(0x9e37_79b9_7f4a_7c15_u64, |s, b| (s ^ u64::from(b)).wrapping_mul(0x0100_0000_01b3));
        let bytes = std::iter::repeat_with(|| {
            state ^= state << 13;
            state ^= state >> 7;
            state ^= state << 17;
            state.to_le_bytes()
        });
        let bytes = bytes.flatten().take(len).collect();
        Self {
            path: path.to_owned(),
            bytes: Arc::new(bytes),
            large: true,
            digest: true,
            listed: None,
            zeros: None,
            sum: None,
        }
    }

    /// A file as it lies somewhere.
    pub(crate) fn of(file: &std::path::Path) -> Self {
        let path = file.file_name().unwrap().to_str().unwrap();
        let bytes = Arc::new(std::fs::read(file).unwrap());
        let large = path.ends_with(".safetensors");
        Self { bytes, large, ..Self::large(path, 0) }
    }

    /// So many zeros, of which none takes any room here. Of very many nobody knows the digest.
    pub(crate) fn zeros(path: &str, len: u64) -> Self {
        let sum = (len <= MOST_HASHED).then(|| {
            let (zeros, mut hasher) = (vec![0; 1 << 20], Sha256::new());
            for at in (0..len).step_by(zeros.len()) {
                hasher.update(&zeros[..zeros.len().min(usize::try_from(len - at).unwrap())]);
            }
            hex(&hasher.finalize())
        });
        Self { listed: Some(len), zeros: Some(len), sum, ..Self::large(path, 0) }
    }

    pub(crate) fn small(path: &str, text: &str) -> Self {
        let bytes = Arc::new(text.as_bytes().to_vec());
        Self {
            path: path.to_owned(),
            bytes,
            large: false,
            digest: true,
            listed: None,
            zeros: None,
            sum: None,
        }
    }

    pub(crate) fn sha256(&self) -> String {
        if let Some(sum) = &self.sum {
            return sum.clone();
        }
        hex(&Sha256::digest(&*self.bytes))
    }

    fn blob(&self) -> String {
        let mut hasher = Sha1::new();
        hasher.update(format!("blob {}\0", self.bytes.len()));
        hasher.update(&*self.bytes);
        hex(&hasher.finalize())
    }

    fn listing(&self) -> serde_json::Value {
        let size = self.listed.unwrap_or(self.bytes.len() as u64);
        let mut item = serde_json::json!({ "type": "file", "path": self.path, "size": size });
        if self.digest {
            item["oid"] = self.blob().into();
            if self.large {
                item["lfs"] = serde_json::json!({ "oid": self.sha256(), "size": size, "pointerSize": 135 });
            }
        }
        item
    }
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().fold(String::new(), |mut text, byte| {
        write!(text, "{byte:02x}").unwrap();
        text
    })
}

/// A request as it came.
#[derive(Clone, Debug)]
pub(crate) struct Request {
    /// At the store behind the hub.
    pub(crate) at_store: bool,
    /// With its query.
    pub(crate) target: String,
    /// Of the repository, if it asks for one.
    pub(crate) file: Option<String>,
    /// First byte that is asked for.
    pub(crate) from: Option<u64>,
    pub(crate) authorization: Option<String>,
    pub(crate) encoding: Option<String>,
    /// How many requests for this file came before, at this host.
    pub(crate) nth: usize,
}

/// How to answer a request for a file's bytes.
#[derive(Clone, Debug)]
pub(crate) enum Act {
    Well,
    /// No bytes of the file at all.
    Status(u16, Vec<(&'static str, String)>, &'static str),
    /// 200 and the whole file, whatever was asked for.
    Whole,
    /// 206, from another byte on than was asked for.
    Elsewhere(u64),
    /// The connection ends after that many bytes.
    Cut(u64),
    /// No byte comes after that many, and the connection stays.
    Stall(u64),
    /// One bit is wrong, at this byte of the file.
    Flip(u64),
    /// That many bytes at a time, with a rest after each.
    Slow(usize, Duration),
    /// No length is told, and that many bytes too many come.
    Longer(usize),
    /// More headers, beside the right ones.
    With(Vec<(&'static str, String)>),
}

type Behaviour = Box<dyn Fn(&Request) -> Act + Send + Sync>;

struct Inner {
    files: Mutex<Vec<Served>>,
    commit: Mutex<String>,
    /// Files of commits that a revision has moved away from.
    older: Mutex<BTreeMap<String, Vec<Served>>>,
    log: Mutex<Vec<Request>>,
    behaviour: Behaviour,
    /// Files on one page of the list.
    page: usize,
    store: SocketAddr,
    links: AtomicU64,
    stopped: AtomicBool,
}

/// Both hosts; they end with it.
pub(crate) struct Hub {
    pub(crate) url: String,
    addresses: [SocketAddr; 2],
    inner: Arc<Inner>,
}

impl Hub {
    pub(crate) fn new(
        files: Vec<Served>,
        behaviour: impl Fn(&Request) -> Act + Send + Sync + 'static,
    ) -> Self {
        let listeners = [0, 1].map(|_| TcpListener::bind("127.0.0.1:0").unwrap());
        let addresses = [0, 1].map(|i: usize| listeners[i].local_addr().unwrap());
        let inner = Arc::new(Inner {
            files: Mutex::new(files),
            commit: Mutex::new("a".repeat(40)),
            older: Mutex::default(),
            log: Mutex::default(),
            behaviour: Box::new(behaviour),
            page: 2,
            store: addresses[1],
            links: AtomicU64::new(0),
            stopped: AtomicBool::new(false),
        });
        for (listener, at_store) in listeners.into_iter().zip([false, true]) {
            let inner = Arc::clone(&inner);
            let accept = move || {
                for stream in listener.incoming() {
                    if inner.stopped.load(Ordering::Relaxed) {
                        return;
                    }
                    let inner = Arc::clone(&inner);
                    let Ok(stream) = stream else { continue };
                    // A client that leaves early leaves a broken pipe behind, which is as it should be.
                    thread::Builder::new().spawn(move || drop(inner.serve(stream, at_store))).unwrap();
                }
            };
            thread::Builder::new().spawn(accept).unwrap();
        }
        Self { url: format!("http://{}", addresses[0]), addresses, inner }
    }

    /// One that does as it should.
    pub(crate) fn good(files: Vec<Served>) -> Self {
        Self::new(files, |_| Act::Well)
    }

    /// The main branch moves to another commit with other files.
    pub(crate) fn moves_on(&self, commit: &str, files: Vec<Served>) {
        let mut now = self.inner.files.lock().unwrap();
        let mut name = self.inner.commit.lock().unwrap();
        self.inner.older.lock().unwrap().insert(name.clone(), now.clone());
        (*now, *name) = (files, commit.to_owned());
    }

    /// The address of the store behind it.
    pub(crate) const fn store(&self) -> SocketAddr {
        self.addresses[1]
    }

    pub(crate) fn log(&self) -> Vec<Request> {
        self.inner.log.lock().unwrap().clone()
    }

    /// Requests for bytes of files, where the bytes are.
    pub(crate) fn fetches(&self) -> Vec<Request> {
        let large = |path: &str| self.inner.files.lock().unwrap().iter().any(|f| f.path == path && f.large);
        let is_fetch = |r: &Request| r.file.as_deref().is_some_and(|path| r.at_store == large(path));
        self.log().into_iter().filter(is_fetch).collect()
    }
}

impl Drop for Hub {
    fn drop(&mut self) {
        self.inner.stopped.store(true, Ordering::Relaxed);
        for address in self.addresses {
            drop(TcpStream::connect(address));
        }
    }
}

impl Inner {
    fn serve(&self, stream: TcpStream, at_store: bool) -> std::io::Result<()> {
        let mut reader = BufReader::new(stream.try_clone()?);
        let mut stream = stream;
        // One request for each connection: a connection that was cut must not be used again.
        let Some(request) = self.read(&mut reader, at_store)? else { return Ok(()) };
        let act = (self.behaviour)(&request);
        if let Act::Status(status, headers, body) = act {
            return answer(&mut stream, status, &headers, body.as_bytes());
        }
        match request.file.clone() {
            Some(path) => self.serve_file(&mut stream, &request, &path, act),
            None => self.serve_api(&mut stream, &request.target),
        }
    }

    fn read(&self, reader: &mut impl BufRead, at_store: bool) -> std::io::Result<Option<Request>> {
        let mut line = String::new();
        if reader.read_line(&mut line)? == 0 {
            return Ok(None);
        }
        let target = line.split(' ').nth(1).unwrap_or_default().to_owned();
        let mut headers = BTreeMap::new();
        loop {
            let mut line = String::new();
            reader.read_line(&mut line)?;
            match line.trim_end().split_once(':') {
                Some((name, value)) => headers.insert(name.to_ascii_lowercase(), value.trim().to_owned()),
                None => break,
            };
        }
        let path = target.split('?').next().unwrap_or_default();
        let begin = format!("/{REPO}/resolve/");
        let file = path.strip_prefix(&begin).and_then(|rest| rest.split_once('/')).map(|(_, f)| unescape(f));
        let range =
            headers.get("range").and_then(|r| r.strip_prefix("bytes=")?.strip_suffix('-')?.parse().ok());
        let mut log = self.log.lock().unwrap();
        let nth = log.iter().filter(|r| r.at_store == at_store && r.file == file).count();
        let request = Request {
            at_store,
            target,
            file,
            from: range,
            authorization: headers.get("authorization").cloned(),
            encoding: headers.get("accept-encoding").cloned(),
            nth,
        };
        log.push(request.clone());
        Ok(Some(request))
    }

    fn serve_api(&self, stream: &mut TcpStream, target: &str) -> std::io::Result<()> {
        let commit = self.commit.lock().unwrap().clone();
        if let Some(revision) = target.strip_prefix(&format!("/api/models/{REPO}/revision/")) {
            let known = revision == "main" || revision == commit || self.files_of(revision).is_some();
            if !known {
                return answer(stream, 404, &[], b"{}");
            }
            let sha = if revision == "main" { &commit } else { revision };
            return answer(stream, 200, &[], format!(r#"{{"sha":"{sha}"}}"#).as_bytes());
        }
        let Some(rest) = target.strip_prefix(&format!("/api/models/{REPO}/tree/")) else {
            return answer(stream, 404, &[], b"{}");
        };
        let (commit, query) = rest.split_once('?').unwrap_or((rest, ""));
        let Some(files) = self.files_of(commit) else { return answer(stream, 404, &[], b"{}") };
        let begin: usize = query.split_once("cursor=").map_or(0, |(_, cursor)| cursor.parse().unwrap());
        let end = files.len().min(begin + self.page);
        let page: Vec<_> = files[begin..end].iter().map(Served::listing).collect();
        let mut headers = Vec::new();
        if end < files.len() {
            let path = format!("/api/models/{REPO}/tree/{commit}?recursive=true&cursor={end}");
            headers.push(("Link", format!("<{path}>; rel=\"next\"")));
        }
        answer(stream, 200, &headers, serde_json::to_string(&page).unwrap().as_bytes())
    }

    fn files_of(&self, commit: &str) -> Option<Vec<Served>> {
        if *self.commit.lock().unwrap() == commit {
            return Some(self.files.lock().unwrap().clone());
        }
        self.older.lock().unwrap().get(commit).cloned()
    }

    fn serve_file(
        &self,
        stream: &mut TcpStream,
        request: &Request,
        path: &str,
        act: Act,
    ) -> std::io::Result<()> {
        let commit = request.target.split('/').nth(4).unwrap_or_default();
        let files = self.files_of(commit).unwrap_or_default();
        let Some(file) = files.into_iter().find(|file| file.path == path) else {
            return answer(stream, 404, &[], b"Entry not found");
        };
        if file.large && !request.at_store {
            let link = self.links.fetch_add(1, Ordering::Relaxed);
            let target = request.target.split('?').next().unwrap_or_default();
            let to = format!("http://{}{target}?Signature=secret-link-{link}", self.store);
            let mut headers = vec![("Location", to)];
            if let Act::With(more) = act {
                headers.extend(more);
            } else if file.digest {
                headers.push(("X-Linked-Etag", format!("\"{}\"", file.sha256())));
            }
            return answer(stream, 302, &headers, b"moved");
        }
        self.serve_bytes(stream, &file, request.from, act)
    }

    fn serve_bytes(
        &self,
        stream: &mut TcpStream,
        file: &Served,
        from: Option<u64>,
        act: Act,
    ) -> std::io::Result<()> {
        if let Some(len) = file.zeros {
            return self.serve_zeros(stream, len, from.unwrap_or(0), &act);
        }
        let len = file.bytes.len();
        let asked = usize::try_from(from.unwrap_or(0)).unwrap();
        if asked >= len && len > 0 {
            let range = ("Content-Range", format!("bytes */{len}"));
            return answer(stream, 416, &[range], b"the range is not there");
        }
        let mut bytes = file.bytes.as_ref().clone();
        let (mut from, mut told) = (from.map(|_| asked), true);
        let (mut most, mut chunk, mut rest) = (usize::MAX, 64 << 10, Duration::ZERO);
        let (mut stall, mut more) = (false, Vec::new());
        match act {
            Act::Well | Act::Status(..) => {}
            Act::Whole => from = None,
            Act::Elsewhere(at) => from = from.map(|_| usize::try_from(at).unwrap()),
            Act::Cut(after) => most = usize::try_from(after).unwrap(),
            Act::Stall(after) => (most, stall) = (usize::try_from(after).unwrap(), true),
            Act::Flip(at) => bytes[usize::try_from(at).unwrap()] ^= 1,
            Act::Slow(bytes, pause) => (chunk, rest) = (bytes, pause),
            Act::Longer(extra) => {
                bytes.extend(std::iter::repeat_n(b'x', extra));
                told = false;
            }
            Act::With(headers) => more = headers,
        }
        let begin = from.unwrap_or(0);
        let mut head = match from {
            None => "HTTP/1.1 200 OK\r\n".to_owned(),
            Some(begin) => {
                format!("HTTP/1.1 206 Partial Content\r\nContent-Range: bytes {begin}-{}/{len}\r\n", len - 1)
            }
        };
        if told {
            write!(head, "Content-Length: {}\r\n", bytes.len() - begin).unwrap();
        }
        for (name, value) in &more {
            write!(head, "{name}: {value}\r\n").unwrap();
        }
        stream.write_all(format!("{head}Connection: close\r\n\r\n").as_bytes())?;
        let end = bytes.len().min(begin.saturating_add(most));
        for piece in bytes[begin..end].chunks(chunk) {
            stream.write_all(piece)?;
            if !rest.is_zero() {
                thread::sleep(rest);
            }
        }
        while stall && !self.stopped.load(Ordering::Relaxed) {
            thread::sleep(Duration::from_millis(10));
        }
        Ok(())
    }
}

impl Inner {
    fn serve_zeros(&self, stream: &mut TcpStream, len: u64, from: u64, act: &Act) -> std::io::Result<()> {
        let (chunk, rest) = match act {
            Act::Slow(bytes, pause) => (*bytes, *pause),
            _ => (1 << 20, Duration::ZERO),
        };
        let (status, range) = match from {
            0 => ("200 OK", String::new()),
            from => ("206 Partial Content", format!("Content-Range: bytes {from}-{}/{len}\r\n", len - 1)),
        };
        let head = format!(
            "HTTP/1.1 {status}\r\n{range}Content-Length: {}\r\nConnection: close\r\n\r\n",
            len - from
        );
        stream.write_all(head.as_bytes())?;
        let zeros = vec![0; chunk];
        let mut left = len - from;
        while left > 0 && !self.stopped.load(Ordering::Relaxed) {
            let piece = usize::try_from(left).unwrap().min(chunk);
            stream.write_all(&zeros[..piece])?;
            left -= piece as u64;
            thread::sleep(rest);
        }
        Ok(())
    }
}

fn answer(
    stream: &mut TcpStream,
    status: u16,
    headers: &[(&str, String)],
    body: &[u8],
) -> std::io::Result<()> {
    let mut head =
        format!("HTTP/1.1 {status} Whatever\r\nContent-Length: {}\r\nConnection: close\r\n", body.len());
    for (name, value) in headers {
        write!(head, "{name}: {value}\r\n").unwrap();
    }
    stream.write_all(head.as_bytes())?;
    stream.write_all(b"\r\n")?;
    stream.write_all(body)
}

fn unescape(text: &str) -> String {
    let mut bytes = Vec::new();
    let mut rest = text.bytes();
    while let Some(byte) = rest.next() {
        if byte == b'%' {
            let digits: Vec<u8> = rest.by_ref().take(2).collect();
            let digits = String::from_utf8(digits).unwrap();
            bytes.push(u8::from_str_radix(&digits, 16).unwrap());
        } else {
            bytes.push(byte);
        }
    }
    String::from_utf8(bytes).unwrap()
}
