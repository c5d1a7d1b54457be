//! Requests to the hub and to wherever it sends us.
//!
//! Redirects are followed here and not by the library, because two things hang on each hop: the token goes to the
//! hub's own origin and to no other, and a refusal means one thing when the hub says it and another when the store
//! behind it does. There is no limit on the time that a body may take, only on the time without a byte.

use std::fmt;
use std::io::{self, Read};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use ureq::http::header::{
    ACCEPT_ENCODING, AUTHORIZATION, CONTENT_ENCODING, CONTENT_LENGTH, CONTENT_RANGE, HeaderMap, HeaderName,
    LINK, LOCATION, RANGE, RETRY_AFTER,
};
use ureq::tls::{Certificate, RootCerts, TlsConfig};
use ureq::{Agent, Body};

use super::endpoint::{self, Hub, Origin};
use super::error::{Access, Error, Fault};
use super::headers::{self, ContentRange};

const MOST_HOPS: usize = 6;
/// A page of the hub's list is a fraction of this.
const MOST_TEXT: u64 = 64 << 20;
const CONNECT: Duration = Duration::from_secs(30);

/// A credential. Cannot be printed.
#[derive(Clone)]
pub struct Token(String);

impl Token {
    /// `None` for what cannot stand in a header.
    pub fn new(text: &str) -> Option<Self> {
        let text = text.trim();
        (!text.is_empty() && text.bytes().all(|byte| byte.is_ascii_graphic())).then(|| Self(text.to_owned()))
    }
}

impl fmt::Debug for Token {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Token(..)")
    }
}

/// An answer of which the headers were read.
pub(super) struct Reply {
    pub(super) status: u16,
    headers: HeaderMap,
    /// The digest that the hub names when it sends us to its store.
    pub(super) linked_digest: Option<String>,
    /// The length, likewise.
    pub(super) linked_size: Option<u64>,
    body: Body,
}

impl Reply {
    fn header(&self, name: &HeaderName) -> Option<&str> {
        self.headers.get(name)?.to_str().ok()
    }

    pub(super) fn content_range(&self) -> Option<ContentRange> {
        headers::content_range(self.header(&CONTENT_RANGE)?)
    }

    pub(super) fn content_length(&self) -> Option<u64> {
        self.header(&CONTENT_LENGTH)?.trim().parse().ok()
    }

    /// The encoding, where the bytes are not the file's own.
    pub(super) fn encoding(&self) -> Option<&str> {
        self.header(&CONTENT_ENCODING).filter(|encoding| !encoding.trim().eq_ignore_ascii_case("identity"))
    }

    pub(super) fn into_reader(self) -> impl Read {
        self.body.into_reader()
    }
}

/// Asks one hub.
pub(super) struct Client {
    agent: Agent,
    pub(super) hub: Hub,
    token: Option<Token>,
    stall: Duration,
}

impl Client {
    /// `stall` is how long to wait for a byte. Proxies come from the environment.
    pub(super) fn new(hub: Hub, token: Option<Token>, stall: Duration) -> Self {
        let mut builder = Agent::config_builder()
            .http_status_as_error(false)
            .max_redirects(0)
            .max_redirects_will_error(false)
            .tls_config(TlsConfig::builder().root_certs(authorities()).build())
            .timeout_connect(Some(CONNECT))
            .timeout_resolve(Some(CONNECT))
            .timeout_recv_response(Some(stall))
            .timeout_per_read(Some(stall))
            .timeout_per_write(Some(stall))
            .user_agent(concat!("dormouse/", env!("CARGO_PKG_VERSION")));
        if hub.origin().is_loopback() {
            // A proxy elsewhere would look for the hub on itself.
            builder = builder.proxy(None);
        }
        Self { agent: builder.build().into(), hub, token, stall }
    }

    /// Text from the hub, with the address of its next page if there is one.
    pub(super) fn text(&self, url: &str, what: &str) -> Result<(String, Option<String>), Fault> {
        let reply = self.get(url, None, what)?;
        if reply.status != 200 {
            return Err(Fault::Again(format!("{} answered {}", endpoint::without_query(url), reply.status)));
        }
        let next = match reply.header(&LINK).and_then(headers::next_link) {
            None => None,
            Some(link) => {
                let next = endpoint::follow(url, link);
                // The list must come from where it began.
                let same = next.as_deref().and_then(Origin::of).as_ref() == Some(self.hub.origin());
                let stray = || Error::Protocol("the hub's list goes on at another host".to_owned());
                Some(next.filter(|_| same).ok_or_else(stray)?)
            }
        };
        let mut text = String::new();
        let mut reader = reply.into_reader().take(MOST_TEXT);
        reader.read_to_string(&mut text).map_err(|error| Fault::Again(self.trouble(url, &error)))?;
        Ok((text, next))
    }

    /// Asks for `url`, from byte `from` on if that is given, and follows where it leads. An answer that comes back is
    /// a success or 416; `what` says what is not there if it is not.
    pub(super) fn get(&self, url: &str, from: Option<u64>, what: &str) -> Result<Reply, Fault> {
        let mut url = url.to_owned();
        let (mut linked_digest, mut linked_size) = (None, None);
        for _ in 0..MOST_HOPS {
            let response = self.ask(&url, from)?;
            let at_hub = Origin::of(&url).as_ref() == Some(self.hub.origin());
            let status = response.status().as_u16();
            let header = |name: &str| response.headers().get(name).and_then(|value| value.to_str().ok());
            if at_hub {
                linked_digest =
                    header("x-linked-etag").map(|tag| headers::etag(tag).to_owned()).or(linked_digest);
                linked_size =
                    header("x-linked-size").and_then(|size| size.trim().parse().ok()).or(linked_size);
            }
            if (300..400).contains(&status) && status != 304 {
                let location = header(LOCATION.as_str()).and_then(|to| endpoint::follow(&url, to));
                let next = location.ok_or_else(|| {
                    let from = endpoint::without_query(&url);
                    Fault::Again(format!("{from} answered {status} and did not say where to go"))
                })?;
                if self.hub.origin().is_encrypted() && !Origin::of(&next).is_some_and(|o| o.is_encrypted()) {
                    return Err(
                        Error::Protocol("the hub sends us to a place without encryption".into()).into()
                    );
                }
                url = next;
                continue;
            }
            if (200..300).contains(&status) || status == 416 {
                let (parts, body) = response.into_parts();
                return Ok(Reply { status, headers: parts.headers, linked_digest, linked_size, body });
            }
            let wait = header(RETRY_AFTER.as_str()).and_then(|text| headers::retry_after(text, now()));
            return Err(if at_hub {
                self.refused(status, wait, what)
            } else {
                store_refused(&url, status, wait)
            });
        }
        Err(Fault::Again(format!("{} sends us around in circles", self.hub.origin())))
    }

    fn ask(&self, url: &str, from: Option<u64>) -> Result<ureq::http::Response<Body>, Fault> {
        let mut request = self.agent.get(url).header(ACCEPT_ENCODING, "identity");
        if let Some(from) = from {
            request = request.header(RANGE, format!("bytes={from}-"));
        }
        if let Some(Token(token)) = &self.token
            && Origin::of(url).as_ref() == Some(self.hub.origin())
        {
            request = request.header(AUTHORIZATION, format!("Bearer {token}"));
        }
        request.call().map_err(|error| {
            let error = error.into_io();
            match distrust(&error) {
                Some(_) => Error::Certificate(self.trouble(url, &error)).into(),
                None => Fault::Again(self.trouble(url, &error)),
            }
        })
    }

    /// What the hub itself means by a refusal.
    fn refused(&self, status: u16, wait: Option<Duration>, what: &str) -> Fault {
        let access = |access| Error::Access { access, page: self.hub.page() }.into();
        match status {
            401 | 403 if self.token.is_none() => access(Access::NoToken),
            401 => access(Access::BadToken),
            403 => access(Access::Terms),
            404 | 410 => Error::NotFound(what.to_owned()).into(),
            _ => overload(status, wait, &self.hub.origin().to_string()).unwrap_or_else(|| {
                Error::Protocol(format!("{} answered {status} for {what}", self.hub.origin())).into()
            }),
        }
    }

    /// What went wrong on the way, without the query of the address and with the stall called by its name.
    pub(super) fn trouble(&self, url: &str, error: &io::Error) -> String {
        let place = Origin::of(url).map_or_else(String::new, |origin| origin.to_string());
        let inner = error.get_ref().and_then(|inner| inner.downcast_ref::<ureq::Error>());
        match inner {
            Some(ureq::Error::Timeout(ureq::Timeout::PerRead | ureq::Timeout::RecvResponse)) => {
                format!("{place} sent no byte for {} s; the connection is dropped", self.stall.as_secs_f64())
            }
            Some(ureq::Error::HostNotFound) => format!("{place} cannot be found"),
            // Names of settings and addresses with their queries may stand in the others' texts.
            Some(ureq::Error::BadUri(_) | ureq::Error::Http(_)) => {
                format!("{place}: the address is malformed")
            }
            _ => format!("{place}: {error}"),
        }
    }
}

/// Whom this machine trusts: what its owner has set up, also by `SSL_CERT_FILE`, else what browsers come with.
fn authorities() -> RootCerts {
    let own = rustls_native_certs::load_native_certs().certs;
    if own.is_empty() {
        return RootCerts::WebPki;
    }
    own.iter().map(|certificate| Certificate::from_der(certificate).to_owned()).into()
}

/// What is wrong with the other side's certificate, if that is what failed.
fn distrust(error: &io::Error) -> Option<&rustls::CertificateError> {
    match error.get_ref()?.downcast_ref()? {
        rustls::Error::InvalidCertificate(problem) => Some(problem),
        _ => None,
    }
}

/// What the store behind the hub means: its links run out, and the hub gives new ones for the asking.
fn store_refused(url: &str, status: u16, wait: Option<Duration>) -> Fault {
    let place = Origin::of(url).map_or_else(String::new, |origin| origin.to_string());
    match status {
        400 | 401 | 403 | 404 | 410 => Fault::Again(format!(
            "{place} answered {status}: the link has run out, and the hub is asked for a new one"
        )),
        _ => overload(status, wait, &place)
            .unwrap_or_else(|| Fault::Again(format!("{place} answered {status}"))),
    }
}

/// Answers that are about load and faults of the server, at either.
fn overload(status: u16, wait: Option<Duration>, place: &str) -> Option<Fault> {
    match status {
        429 => Some(Fault::Busy(wait, format!("{place} answered 429: too many requests"))),
        503 if wait.is_some() => Some(Fault::Busy(wait, format!("{place} answered 503: busy"))),
        408 | 425 | 500..600 => Some(Fault::Again(format!("{place} answered {status}"))),
        _ => None,
    }
}

fn now() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |time| time.as_secs())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn client(token: Option<&str>) -> Client {
        let hub = Hub::new("https://hub.example", "o/n").unwrap();
        Client::new(hub, token.and_then(Token::new), Duration::from_secs(30))
    }

    #[test]
    fn d29_three_refusals_are_told_apart() {
        let access = |token, status| match client(token).refused(status, None, "x") {
            Fault::Fatal(Error::Access { access, page }) => {
                assert_eq!(page, "https://hub.example/o/n");
                access
            }
            other => panic!("{other:?}"),
        };
        assert_eq!(access(None, 401), Access::NoToken);
        assert_eq!(access(Some("t"), 401), Access::BadToken);
        assert_eq!(access(Some("t"), 403), Access::Terms);
    }

    #[test]
    fn d30_a_token_cannot_be_printed() {
        let token = Token::new("hf_secret").unwrap();
        assert!(!format!("{token:?}").contains("secret"));
        assert!(Token::new("a\nb").is_none() && Token::new(" ").is_none());
    }

    #[test]
    fn d31_a_refusal_by_the_store_is_a_link_that_ran_out() {
        let url = "https://cdn.example/x?Signature=secret";
        let Fault::Again(text) = store_refused(url, 403, None) else { panic!("it must be tried again") };
        assert!(text.contains("a new one") && !text.contains("secret"), "{text}");
    }

    #[test]
    fn d28_being_told_to_wait_is_not_a_failure() {
        let wait = Some(Duration::from_secs(7));
        assert!(matches!(overload(429, wait, "x"), Some(Fault::Busy(Some(_), _))));
        assert!(matches!(overload(503, wait, "x"), Some(Fault::Busy(Some(_), _))));
        assert!(matches!(overload(503, None, "x"), Some(Fault::Again(_))));
        assert!(overload(418, None, "x").is_none());
    }
}
