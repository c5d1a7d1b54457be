//! Hashing a file as it comes.

use ring::digest::{Context, SHA256};
use sha1::{Digest as _, Sha1};

use super::manifest::Digest;

/// The digest that the hub publishes, over what has come so far.
#[derive(Clone)]
pub(super) enum Hasher {
    Sha256(Box<Context>),
    GitBlob(Box<Sha1>),
    Unknown,
}

/// What the bytes say about a file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(in crate::setup) enum Judgement {
    /// The digest is the published one.
    Right,
    /// It is another: this one.
    Wrong(String),
    /// None is published.
    Unknown,
}

impl Hasher {
    /// For a file of `size` bytes that must come to `digest`.
    pub(super) fn new(digest: &Digest, size: u64) -> Self {
        match digest {
            Digest::Sha256(_) => Self::Sha256(Box::new(Context::new(&SHA256))),
            Digest::GitBlob(_) => Self::GitBlob(Box::new(Sha1::new().chain_update(format!("blob {size}\0")))),
            Digest::Unknown => Self::Unknown,
        }
    }

    pub(super) fn update(&mut self, bytes: &[u8]) {
        match self {
            Self::Sha256(hasher) => hasher.update(bytes),
            Self::GitBlob(hasher) => hasher.update(bytes),
            Self::Unknown => {}
        }
    }

    /// Holds what came against what is published.
    pub(super) fn judge(self, expected: &Digest) -> Judgement {
        let found = match self {
            Self::Sha256(hasher) => hex(hasher.finish().as_ref()),
            Self::GitBlob(hasher) => hex(&hasher.finalize()),
            Self::Unknown => return Judgement::Unknown,
        };
        match expected {
            Digest::Sha256(hex) | Digest::GitBlob(hex) if *hex == found => Judgement::Right,
            Digest::Unknown => Judgement::Unknown,
            _ => Judgement::Wrong(found),
        }
    }
}

fn hex(digest: &[u8]) -> String {
    let digits = digest.iter().flat_map(|byte| [byte >> 4, byte & 15]);
    digits.filter_map(|digit| char::from_digit(u32::from(digit), 16)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn judged(digest: &Digest, bytes: &[u8]) -> Judgement {
        let mut hasher = Hasher::new(digest, bytes.len() as u64);
        bytes.chunks(3).for_each(|chunk| hasher.update(chunk));
        hasher.judge(digest)
    }

    #[test]
    fn known_digests() {
        // From `sha256sum` and `git hash-object`.
        let sha = Digest::Sha256("b94d27b9934d3e08a52e52d7da7dabfac484efe37a5380ee9088f7ace2efcde9".into());
        assert_eq!(judged(&sha, b"hello world"), Judgement::Right);
        let blob = Digest::GitBlob("95d09f2b10159347eece71399a7e2e907ea3df4f".into());
        assert_eq!(judged(&blob, b"hello world"), Judgement::Right);
        assert_eq!(
            judged(&Digest::GitBlob("e69de29bb2d1d6434b8b29ae775ad8c2e48c5391".into()), b""),
            Judgement::Right
        );
        assert!(matches!(judged(&sha, b"hello worle"), Judgement::Wrong(found) if found != sha.label()));
        assert_eq!(judged(&Digest::Unknown, b"hello world"), Judgement::Unknown);
    }
}
