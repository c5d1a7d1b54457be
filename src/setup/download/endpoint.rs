//! Addresses: of the hub, of what it holds, and of where it sends us.

use std::fmt;

/// Scheme, host and port. A credential belongs to one of these and goes nowhere else.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Origin {
    scheme: String,
    host: String,
    port: u16,
}

impl Origin {
    /// That of an absolute `http` or `https` address; `None` for anything else, and for one that holds a name and a
    /// password, which would end up in messages.
    pub(super) fn of(url: &str) -> Option<Self> {
        let (scheme, rest) = url.split_once("://")?;
        let scheme = scheme.to_ascii_lowercase();
        let default = match scheme.as_str() {
            "http" => 80,
            "https" => 443,
            _ => return None,
        };
        let authority = rest.split(['/', '?', '#']).next().unwrap_or_default();
        if authority.contains('@') {
            return None;
        }
        // The colons of an IPv6 address stand in brackets.
        let digits = authority.rsplit_once(':').filter(|(_, port)| !port.contains(']'));
        let (host, port) = match digits {
            Some((host, port)) => (host, port.parse().ok()?),
            None => (authority, default),
        };
        let clean = |c: char| c.is_ascii_alphanumeric() || matches!(c, '.' | '-' | '_' | ':' | '[' | ']');
        if host.is_empty() || !host.chars().all(clean) {
            return None;
        }
        Some(Self { scheme, host: host.to_ascii_lowercase(), port })
    }

    pub(super) fn is_encrypted(&self) -> bool {
        self.scheme == "https"
    }

    /// Whether it is this machine itself, by a name that needs no look-up.
    pub(super) fn is_loopback(&self) -> bool {
        let address = self.host.trim_start_matches('[').trim_end_matches(']');
        self.host == "localhost" || address.parse().is_ok_and(|ip: std::net::IpAddr| ip.is_loopback())
    }
}

impl fmt::Display for Origin {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}://{}", self.scheme, self.host)?;
        match (self.scheme.as_str(), self.port) {
            ("http", 80) | ("https", 443) => Ok(()),
            (_, port) => write!(f, ":{port}"),
        }
    }
}

/// A repository on a hub.
#[derive(Clone, Debug)]
pub(super) struct Hub {
    /// Without a slash at its end.
    base: String,
    origin: Origin,
    repo: String,
}

impl Hub {
    /// `None` if `base` is no address or `repo` no `owner/name`.
    pub(super) fn new(base: &str, repo: &str) -> Option<Self> {
        let base = base.trim().trim_end_matches('/');
        let origin = Origin::of(base)?;
        let part = |text: &str| {
            !text.is_empty()
                && !text.starts_with('.')
                && text.chars().all(|c| c.is_ascii_alphanumeric() || matches!(c, '.' | '-' | '_'))
        };
        let (owner, name) = repo.split_once('/')?;
        let sound = part(owner) && part(name) && !base.contains(['?', '#', ' ']);
        sound.then(|| Self { base: base.to_owned(), origin, repo: repo.to_owned() })
    }

    pub(super) const fn origin(&self) -> &Origin {
        &self.origin
    }

    /// The page of the repository, for people.
    pub(super) fn page(&self) -> String {
        format!("{}/{}", self.base, self.repo)
    }

    /// Tells which commit a revision is.
    pub(super) fn revision(&self, revision: &str) -> String {
        format!("{}/api/models/{}/revision/{}", self.base, self.repo, escape(revision, false))
    }

    /// Lists the files of a commit.
    pub(super) fn tree(&self, commit: &str) -> String {
        format!("{}/api/models/{}/tree/{}?recursive=true", self.base, self.repo, escape(commit, false))
    }

    /// The content of a file.
    pub(super) fn file(&self, commit: &str, path: &str) -> String {
        format!("{}/{}/resolve/{}/{}", self.base, self.repo, escape(commit, false), escape(path, true))
    }
}

/// Percent-encodes all but what needs none; `/` stays where it divides folders.
fn escape(text: &str, keep_slashes: bool) -> String {
    let mut out = String::with_capacity(text.len());
    for byte in text.bytes() {
        match byte {
            b'A'..=b'Z' | b'a'..=b'z' | b'0'..=b'9' | b'-' | b'.' | b'_' | b'~' => out.push(char::from(byte)),
            b'/' if keep_slashes => out.push('/'),
            other => {
                out.push('%');
                for digit in [other >> 4, other & 15] {
                    out.extend(char::from_digit(u32::from(digit), 16).map(|c| c.to_ascii_uppercase()));
                }
            }
        }
    }
    out
}

/// Where a `Location` or a link leads that was read at `from`.
pub(super) fn follow(from: &str, to: &str) -> Option<String> {
    let origin = Origin::of(from)?;
    if let Some(rest) = to.strip_prefix("//") {
        return Some(format!("{}://{rest}", origin.scheme));
    }
    if to.starts_with('/') {
        return Some(format!("{origin}{to}"));
    }
    // Relative addresses of other kinds are not part of the hub's protocol.
    Origin::of(to).map(|_| to.to_owned())
}

/// `scheme://host/path` of an address: the query of a signed link is as good as a password, so it is never shown.
pub(super) fn without_query(url: &str) -> &str {
    url.split(['?', '#']).next().unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn origins_are_compared_by_scheme_host_and_port() {
        let same = |a: &str, b: &str| Origin::of(a).unwrap() == Origin::of(b).unwrap();
        assert!(same("https://Hub.example/a", "https://hub.example:443/b?c"));
        assert!(!same("https://hub.example", "http://hub.example"));
        assert!(!same("http://hub.example:8080", "http://hub.example"));
        assert!(!same("https://hub.example", "https://hub.example.evil.com"));
        assert_eq!(Origin::of("http://[::1]:90/x").unwrap().to_string(), "http://[::1]:90");
        assert_eq!(Origin::of("http://[::1]").unwrap().port, 80);
    }

    #[test]
    fn what_is_no_address_is_none() {
        for text in [
            "",
            "hub",
            "ftp://a",
            "https://",
            "https://a:b",
            "https://a:99999",
            "http://u:p@a",
            "https://a\u{1b}[2J",
        ] {
            assert_eq!(Origin::of(text), None, "{text}");
        }
        assert!(Hub::new("https://a", "../x").is_none());
        assert!(Hub::new("https://a", "owner").is_none());
        assert!(Hub::new("https://a?x=1", "o/n").is_none());
    }

    #[test]
    fn this_machine_is_told_from_others() {
        for (url, loopback) in [
            ("http://127.0.0.1:1", true),
            ("http://localhost", true),
            ("http://[::1]:1", true),
            ("http://10.0.0.1", false),
            ("http://localhost.evil.com", false),
        ] {
            assert_eq!(Origin::of(url).unwrap().is_loopback(), loopback, "{url}");
        }
    }

    #[test]
    fn addresses_are_built_and_escaped() {
        let hub = Hub::new("https://hub.example/mirror/", "o/n").unwrap();
        assert_eq!(
            hub.revision("refs/pr/1"),
            "https://hub.example/mirror/api/models/o/n/revision/refs%2Fpr%2F1"
        );
        assert_eq!(hub.file("c", "a b/è?"), "https://hub.example/mirror/o/n/resolve/c/a%20b/%C3%A8%3F");
        assert_eq!(hub.tree("c"), "https://hub.example/mirror/api/models/o/n/tree/c?recursive=true");
    }

    #[test]
    fn redirects_may_be_relative() {
        let at = "https://hub.example/a/b";
        assert_eq!(follow(at, "/c?d").as_deref(), Some("https://hub.example/c?d"));
        assert_eq!(follow(at, "//cdn.example/c").as_deref(), Some("https://cdn.example/c"));
        assert_eq!(follow(at, "http://cdn.example/c").as_deref(), Some("http://cdn.example/c"));
        assert_eq!(follow(at, "file:///etc/passwd"), None);
        assert_eq!(without_query("https://a/b?secret"), "https://a/b");
    }
}
