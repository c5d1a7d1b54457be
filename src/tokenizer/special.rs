//! The reserved ids behind the ranks, and their names.

use std::collections::HashMap;
use std::fmt;
use std::ops::Range;
use std::path::Path;

use fancy_regex::Regex;
use serde::Deserialize;
use serde::de::{MapAccess, Visitor};

use super::RESERVED;
use super::error::{Error, excerpt};

/// Begins a tag that opens.
pub const OPEN: &str = "<|open|>";
/// Begins a tag that closes.
pub const CLOSE: &str = "<|close|>";
/// Ends a tag.
pub const SEP: &str = "<|sep|>";
/// Ends a message, and the model's turn.
pub const END_OF_MESSAGE: &str = "<|end_of_msg|>";

/// Names of all reserved ids.
#[derive(Debug)]
pub(super) struct Specials {
    first: u32,
    /// By id, from `first` on.
    names: Vec<String>,
    ids: HashMap<String, u32>,
    search: Regex,
}

/// The part of `tokenizer_config.json` that is used.
#[derive(Deserialize)]
struct Config {
    added_tokens_decoder: Entries,
}

/// An object's entries in the order of the file, repeated keys included.
struct Entries(Vec<(String, Entry)>);

#[derive(Deserialize)]
struct Entry {
    content: String,
}

impl<'de> Deserialize<'de> for Entries {
    fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct EntriesVisitor;
        impl<'de> Visitor<'de> for EntriesVisitor {
            type Value = Entries;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("an object of tokens by id")
            }

            fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Entries, A::Error> {
                let mut entries = Vec::new();
                while let Some(entry) = map.next_entry()? {
                    entries.push(entry);
                }
                Ok(Entries(entries))
            }
        }
        deserializer.deserialize_map(EntriesVisitor)
    }
}

impl Specials {
    /// Reads `added_tokens_decoder`, whose keys must lie in the 256 ids from `first` on. An id without an entry is
    /// called `<|reserved_token_ID|>`.
    pub(super) fn parse(path: &Path, text: &[u8], first: u32) -> Result<Self, Error> {
        let config: Config =
            serde_json::from_slice(text).map_err(|source| Error::Json { path: path.to_owned(), source })?;
        let refuse = |key: &str, expected: String, found: String| Error::Reserved {
            path: path.to_owned(),
            key: key.chars().take(40).collect(),
            expected,
            found,
        };
        let mut names = vec![None; RESERVED];
        for (key, Entry { content }) in config.added_tokens_decoder.0 {
            let id = key.parse().ok().filter(|id: &u32| id.to_string() == key);
            let place =
                id.and_then(|id| id.checked_sub(first)).and_then(|place| names.get_mut(place as usize));
            let Some(place) = place else {
                let expected = format!("an id of the reserved block, {first} to {}", u64::from(first) + 255);
                return Err(refuse(&key, expected, excerpt(key.as_bytes())));
            };
            if content.is_empty() {
                return Err(refuse(&key, "a `content` that is not empty".to_owned(), excerpt(b"")));
            }
            if place.is_some() {
                return Err(refuse(&key, "each id once".to_owned(), "it again".to_owned()));
            }
            *place = Some(content);
        }
        let named = (first..).zip(names);
        let names: Vec<String> =
            named.map(|(id, name)| name.unwrap_or_else(|| format!("<|reserved_token_{id}|>"))).collect();
        let mut ids = HashMap::with_capacity(RESERVED);
        for (id, name) in (first..).zip(&names) {
            if let Some(other) = ids.insert(name.clone(), id) {
                let found = format!("{}, which {other} has too", excerpt(name.as_bytes()));
                return Err(refuse(&id.to_string(), "each `content` once".to_owned(), found));
            }
        }
        for marker in [OPEN, CLOSE, SEP, END_OF_MESSAGE] {
            if !ids.contains_key(marker) {
                return Err(Error::MissingMarker { path: path.to_owned(), marker });
            }
        }
        // The first alternative that matches counts, so the longer of two names must come first.
        let mut longest: Vec<&String> = names.iter().collect();
        longest.sort_by_key(|name| std::cmp::Reverse(name.len()));
        let alternatives: Vec<_> = longest.iter().map(|name| fancy_regex::escape(name)).collect();
        let search = Regex::new(&alternatives.join("|"))?;
        Ok(Self { first, names, ids, search })
    }

    /// The id of a name.
    pub(super) fn id(&self, name: &str) -> Option<u32> {
        self.ids.get(name).copied()
    }

    /// The name of a reserved id.
    pub(super) fn name(&self, id: u32) -> Option<&str> {
        self.names.get(id.checked_sub(self.first)? as usize).map(String::as_str)
    }

    /// Every name in `text`, from left to right.
    pub(super) fn find_all<'a>(&'a self, text: &'a str) -> impl Iterator<Item = (Range<usize>, u32)> + 'a {
        // Literals alone: the search has nothing to backtrack over, and so cannot fail.
        let found = self.search.find_iter(text).map_while(Result::ok);
        found.filter_map(|found| Some((found.range(), self.id(found.as_str())?)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MARKERS: &str = r#""258":{"content":"<|end_of_msg|>"},"259":{"content":"<|open|>","special":false},
        "260":{"content":"<|close|>"},"261":{"content":"<|sep|>"}"#;

    fn parse(entries: &str) -> Result<Specials, Error> {
        let text = format!(r#"{{"bos_token":"[BOS]","added_tokens_decoder":{{{entries}}}}}"#);
        Specials::parse(Path::new("tokenizer_config.json"), text.as_bytes(), 256)
    }

    #[test]
    fn all_256_ids_have_a_name() {
        let specials = parse(MARKERS).unwrap();
        for id in 256..512 {
            assert_eq!(specials.id(specials.name(id).unwrap()), Some(id));
        }
        assert_eq!((specials.name(259), specials.name(300)), (Some(OPEN), Some("<|reserved_token_300|>")));
        assert_eq!((specials.name(255), specials.name(512)), (None, None));
    }

    #[test]
    fn the_longer_name_counts() {
        let specials =
            parse(&format!(r#"{MARKERS},"300":{{"content":"<|open|>!"}},"299":{{"content":"(a.)"}}"#))
                .unwrap();
        let found: Vec<_> = specials.find_all("<|open|>!<|open|>?(a.)(ab)<|reserved_token_511|>").collect();
        assert_eq!(found, [(0..9, 300), (9..17, 259), (18..22, 299), (26..48, 511)]);
    }

    #[test]
    fn damage_is_refused_with_its_place() {
        let with = |entry: &str| format!("{MARKERS},{entry}");
        for (entries, message) in [
            (
                with(r#""255":{"content":"x"}"#),
                "key \"255\": expected an id of the reserved block, 256 to 511",
            ),
            (
                with(r#""512":{"content":"x"}"#),
                "key \"512\": expected an id of the reserved block, 256 to 511",
            ),
            (with(r#""0300":{"content":"x"}"#), "key \"0300\": expected an id of the reserved block"),
            (with(r#""x":{"content":"x"}"#), "key \"x\": expected an id of the reserved block"),
            (
                with(r#""300":{"content":"<|sep|>"}"#),
                "key \"300\": expected each `content` once, found \"<|sep|>\", which 261 has too",
            ),
            (
                with(r#""300":{"content":"<|reserved_token_301|>"}"#),
                "key \"301\": expected each `content` once",
            ),
            (with(r#""258":{"content":"x"}"#), "key \"258\": expected each id once"),
            (
                with(r#""300":{"content":""}"#),
                "key \"300\": expected a `content` that is not empty, found \"\"",
            ),
            (with(r#""300":{}"#), "missing field `content` at line 2"),
            (with(r#""300":{"content":7}"#), "invalid type: integer `7`, expected a string at line 2"),
            (with("oops"), "expected JSON"),
            (
                MARKERS.replace("<|open|>", "<|opens|>"),
                "expected an entry with the content \"<|open|>\", found none",
            ),
            (String::new(), "expected an entry with the content \"<|open|>\", found none"),
        ] {
            let error = parse(&entries).unwrap_err().to_string();
            assert!(
                error.starts_with("tokenizer_config.json") && error.contains(message),
                "{error}\nnot: {message}"
            );
        }
        for text in ["", "[]", "{}", "{\"added_tokens_decoder\":[]}", "null"] {
            let error =
                Specials::parse(Path::new("tokenizer_config.json"), text.as_bytes(), 256).unwrap_err();
            assert!(matches!(error, Error::Json { .. }), "{text}: {error}");
        }
    }
}
