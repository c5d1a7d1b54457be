//! The header of one shard (the safetensors format), read as a stream: no map of its names is kept.
//!
//! Eight bytes of length, then JSON that gives each tensor a type, a shape and a range of the bytes that follow. As the
//! format demands, the ranges cover those bytes exactly: each tensor begins where another ends, none overlap, and the
//! last ends with the file. A file that is shorter or longer than its header says is therefore always refused.

use std::borrow::Cow;
use std::fmt;
use std::hash::{BuildHasher, RandomState};

use serde::de::{DeserializeSeed, Deserializer, Error as _, IgnoredAny, MapAccess, SeqAccess, Visitor};
use serde::{Deserialize, de};

use super::error::{self, Error, shown};
use crate::sys::file::Source;

/// Longest header: the released ones have about 0.82 MB.
const HEADER_LIMIT: u64 = 256 << 20;

/// Bytes of the length in front of the header.
const LENGTH_BYTES: u64 = 8;

/// Most dimensions of a tensor.
const MAX_DIMS: usize = 8;

/// Key of the remarks, which are no tensor.
const METADATA: &str = "__metadata__";

/// Names and bits of the types that the format knows. Only three of them are the language model's, but others may
/// stand in parts that are skipped, and their ranges are checked all the same.
const TYPES: [(&str, u64); 20] = [
    ("BF16", 16),
    ("F32", 32),
    ("U8", 8),
    ("BOOL", 8),
    ("F4", 4),
    ("F6_E2M3", 6),
    ("F6_E3M2", 6),
    ("I8", 8),
    ("F8_E5M2", 8),
    ("F8_E4M3", 8),
    ("F8_E8M0", 8),
    ("I16", 16),
    ("U16", 16),
    ("F16", 16),
    ("I32", 32),
    ("U32", 32),
    ("F64", 64),
    ("I64", 64),
    ("U64", 64),
    ("C64", 64),
];

/// One tensor, as the header describes it. Type, shape and range fit each other, and the range lies in the file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Entry<'a> {
    /// Its name.
    pub(super) name: &'a str,
    /// Name of the type of its elements.
    pub(super) dtype: &'static str,
    /// Its dimensions.
    pub(super) shape: &'a [u64],
    /// Where it begins in the file.
    pub(super) offset: u64,
    /// Its bytes.
    pub(super) len: u64,
}

/// Reads the header of `source`, called `shard` in messages, into `buffer`, and shows `visit` each tensor.
///
/// Overlaps, holes and double names are known only after the last tensor: what `visit` has gathered counts for nothing
/// if this fails.
pub(super) fn read(
    source: &Source,
    shard: &str,
    buffer: &mut Vec<u8>,
    visit: impl FnMut(Entry<'_>) -> Result<(), Error>,
) -> Result<(), Error> {
    let refuse = |what, expected: String, found: u64| {
        Err(Error::Header { shard: shard.to_owned(), what, expected, found: found.to_string() })
    };
    let Some(rest) = source.len().checked_sub(LENGTH_BYTES) else {
        return refuse("length of the file", format!("at least {LENGTH_BYTES} bytes"), source.len());
    };
    let mut length = [0; 8];
    source.read_exact_at(&mut length, 0)?;
    let length = u64::from_le_bytes(length);
    // Not even an empty object is shorter than two bytes.
    let limit = rest.min(HEADER_LIMIT);
    let header_len = match usize::try_from(length) {
        Ok(len) if (2..=limit).contains(&length) => len,
        _ => return refuse("length of the header", format!("from 2 to {limit} bytes"), length),
    };
    buffer.resize(header_len, 0);
    source.read_exact_at(buffer, LENGTH_BYTES)?;
    parse(shard, buffer, LENGTH_BYTES + length, rest - length, visit)
}

/// Parses the JSON of a header. `base` is where the data begins in the file, `data_len` how long it is.
fn parse(
    shard: &str,
    header: &[u8],
    base: u64,
    data_len: u64,
    mut visit: impl FnMut(Entry<'_>) -> Result<(), Error>,
) -> Result<(), Error> {
    let mut scan = Scan {
        shard,
        base,
        data_len,
        visit: &mut visit,
        ranges: Ranges::default(),
        refused: None,
        place: None,
    };
    let mut json = serde_json::Deserializer::from_slice(header);
    let parsed = (&mut scan).deserialize(&mut json).and_then(|()| json.end());
    if let Some(refused) = scan.refused {
        return Err(refused);
    }
    parsed.map_err(|problem| {
        let place =
            scan.place.map_or_else(|| "the header: ".to_owned(), |name| format!("{}: ", shown(&name)));
        error::json(shard.to_owned(), place, &problem)
    })?;
    scan.ranges.check(shard, header, data_len)
}

/// Where each tensor's bytes lie and, in place of its name, a hash of it.
#[derive(Default)]
struct Ranges {
    hasher: RandomState,
    /// Begin, end, and the how-manieth name it is.
    spans: Vec<(u64, u64, u32)>,
    /// Hash of the name, and the how-manieth it is. The remarks are counted too.
    names: Vec<(u64, u32)>,
}

impl Ranges {
    /// Counts a name.
    fn name<E: de::Error>(&mut self, name: &str) -> Result<u32, E> {
        let ordinal = u32::try_from(self.names.len()).map_err(E::custom)?;
        self.names.push((self.hasher.hash_one(name), ordinal));
        Ok(ordinal)
    }

    /// Looks for double names, overlaps and holes.
    fn check(mut self, shard: &str, header: &[u8], data_len: u64) -> Result<(), Error> {
        self.names.sort_unstable();
        for (&(hash, first), &(next, second)) in self.names.iter().zip(self.names.iter().skip(1)) {
            if hash == next {
                let (first, second) = (name_at(header, first), name_at(header, second));
                if first == second {
                    let shard = shard.to_owned();
                    return Err(Error::Duplicate {
                        tensor: shown(&first),
                        first: shard.clone(),
                        second: shard,
                    });
                }
            }
        }
        self.spans.sort_unstable();
        let mut end = 0;
        let mut before = None;
        for &(begin, next_end, ordinal) in &self.spans {
            if begin != end {
                let place = match before.map(|before| name_at(header, before)) {
                    Some(before) => format!("{end}, where {} ends", shown(&before)),
                    None => "0".to_owned(),
                };
                return Err(Error::Tensor {
                    shard: shard.to_owned(),
                    tensor: shown(&name_at(header, ordinal)),
                    expected: format!("data_offsets that begin at {place}"),
                    found: format!(
                        "{} at {begin}",
                        if begin < end { "an overlap" } else { "a hole, up to its begin" }
                    ),
                });
            }
            (end, before) = (next_end, Some(ordinal));
        }
        if end != data_len {
            return Err(Error::Header {
                shard: shard.to_owned(),
                what: "bytes after the header",
                expected: format!("{end}, where the last tensor ends"),
                found: data_len.to_string(),
            });
        }
        Ok(())
    }
}

/// The name with number `ordinal` in a header that has been parsed before. Only a refusal needs it.
fn name_at(header: &[u8], ordinal: u32) -> String {
    struct Find(u32);

    impl<'de> Visitor<'de> for Find {
        type Value = String;

        fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
            f.write_str("an object")
        }

        fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<String, A::Error> {
            let mut found = String::new();
            let mut ordinal = 0;
            while let Some((name, IgnoredAny)) = map.next_entry::<String, IgnoredAny>()? {
                if ordinal == self.0 {
                    found = name;
                }
                ordinal += 1;
            }
            Ok(found)
        }
    }

    serde_json::Deserializer::from_slice(header).deserialize_map(Find(ordinal)).unwrap_or_default()
}

/// The walk through a header.
struct Scan<'s, F> {
    shard: &'s str,
    base: u64,
    data_len: u64,
    visit: &'s mut F,
    ranges: Ranges,
    /// A refusal of ours, which serde would turn into text.
    refused: Option<Error>,
    /// The tensor whose entry is malformed.
    place: Option<String>,
}

#[derive(Deserialize)]
struct Key<'a>(#[serde(borrow)] Cow<'a, str>);

#[derive(Deserialize)]
struct Info<'a> {
    #[serde(borrow)]
    dtype: Cow<'a, str>,
    shape: Dims,
    data_offsets: (u64, u64),
}

impl<F: FnMut(Entry<'_>) -> Result<(), Error>> Scan<'_, F> {
    /// Holds one entry against the file and itself, then hands it on.
    fn entry(&mut self, name: &str, info: &Info<'_>) -> Result<(u64, u64), Error> {
        let refuse = |expected: String, found: String| {
            Err(Error::Tensor { shard: self.shard.to_owned(), tensor: shown(name), expected, found })
        };
        let Some(&(dtype, bits)) = TYPES.iter().find(|(dtype, _)| *dtype == info.dtype) else {
            return refuse("a known dtype".to_owned(), shown(&info.dtype));
        };
        let (begin, end) = info.data_offsets;
        if begin > end || end > self.data_len {
            let expected = format!("data_offsets within the {} bytes after the header", self.data_len);
            return refuse(expected, format!("[{begin}, {end}]"));
        }
        let shape = info.shape.as_slice();
        let total = shape.iter().try_fold(bits, |product, &dim| product.checked_mul(dim));
        let len = end - begin;
        if total != len.checked_mul(8) {
            let size = total.map_or_else(
                || "more bytes than a file can have".to_owned(),
                |bits| format!("{} bytes", bits.div_ceil(8)),
            );
            return refuse(
                format!("{size} for {dtype} {shape:?}"),
                format!("{len} bytes at [{begin}, {end}]"),
            );
        }
        let Some(offset) = self.base.checked_add(begin) else {
            return refuse("an offset of 64 bits".to_owned(), begin.to_string());
        };
        (self.visit)(Entry { name, dtype, shape, offset, len })?;
        Ok((begin, end))
    }
}

impl<'de, F: FnMut(Entry<'_>) -> Result<(), Error>> DeserializeSeed<'de> for &mut Scan<'_, F> {
    type Value = ();

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<(), D::Error> {
        deserializer.deserialize_map(self)
    }
}

impl<'de, F: FnMut(Entry<'_>) -> Result<(), Error>> Visitor<'de> for &mut Scan<'_, F> {
    type Value = ();

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("an object with an entry for each tensor")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<(), A::Error> {
        while let Some(Key(name)) = map.next_key::<Key<'de>>()? {
            let ordinal = self.ranges.name(&name)?;
            if name == METADATA {
                map.next_value::<Remarks>().inspect_err(|_| self.place = Some(METADATA.to_owned()))?;
                continue;
            }
            let info = map
                .next_value::<Info<'de>>()
                .inspect_err(|_| self.place = Some(name.clone().into_owned()))?;
            match self.entry(&name, &info) {
                Ok((begin, end)) => self.ranges.spans.push((begin, end, ordinal)),
                Err(refused) => {
                    self.refused = Some(refused);
                    return Err(A::Error::custom("refused"));
                }
            }
        }
        Ok(())
    }
}

/// Dimensions in place: a header has thousands of them.
struct Dims {
    dims: [u64; MAX_DIMS],
    len: usize,
}

impl Dims {
    fn as_slice(&self) -> &[u64] {
        self.dims.get(..self.len).unwrap_or_default()
    }
}

impl<'de> Deserialize<'de> for Dims {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct List;

        impl<'de> Visitor<'de> for List {
            type Value = Dims;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                write!(f, "a list of at most {MAX_DIMS} dimensions")
            }

            fn visit_seq<A: SeqAccess<'de>>(self, mut seq: A) -> Result<Dims, A::Error> {
                let mut out = Dims { dims: [0; MAX_DIMS], len: 0 };
                while let Some(dim) = seq.next_element()? {
                    *out.dims
                        .get_mut(out.len)
                        .ok_or_else(|| A::Error::invalid_length(out.len + 1, &self))? = dim;
                    out.len += 1;
                }
                Ok(out)
            }
        }

        deserializer.deserialize_seq(List)
    }
}

/// The remarks: text by text, of which nothing is kept.
struct Remarks;

impl<'de> Deserialize<'de> for Remarks {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Texts;

        impl<'de> Visitor<'de> for Texts {
            type Value = Remarks;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("an object of texts")
            }

            fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Remarks, A::Error> {
                while map.next_entry::<Key<'de>, Key<'de>>()?.is_some() {}
                Ok(Remarks)
            }
        }

        deserializer.deserialize_map(Texts)
    }
}

#[cfg(test)]
mod tests;
