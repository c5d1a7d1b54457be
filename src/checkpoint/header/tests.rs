//! The header parser on its own: by hand, and against the `safetensors` crate.

use proptest::prelude::*;
use safetensors::SafeTensors;
use safetensors::tensor::{Dtype, TensorView};

use super::*;

/// A tensor as the parser showed it.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Seen {
    name: String,
    dtype: &'static str,
    shape: Vec<u64>,
    offset: u64,
    len: u64,
}

/// All tensors of a shard that is held in memory, by name.
fn parse_all(header: &[u8], data_len: u64) -> Result<Vec<Seen>, Error> {
    let mut seen = Vec::new();
    parse("s.safetensors", header, 0, data_len, |entry| {
        let Entry { name, dtype, shape, offset, len } = entry;
        seen.push(Seen { name: name.to_owned(), dtype, shape: shape.to_vec(), offset, len });
        Ok(())
    })?;
    seen.sort();
    Ok(seen)
}

fn refusal(header: &str, data_len: u64) -> String {
    parse_all(header.as_bytes(), data_len).unwrap_err().to_string()
}

#[test]
fn entries_are_shown_with_their_place_in_the_file() {
    let header = br#"{"__metadata__":{"format":"pt"},"b":{"dtype":"U8","shape":[3],"data_offsets":[8,11]},
        "a":{"data_offsets":[0,8],"shape":[2,1,2],"dtype":"BF16"},"e":{"dtype":"F32","shape":[0,7],"data_offsets":[8,8]},
        "s":{"dtype":"I32","shape":[],"data_offsets":[11,15]}}   "#;
    let seen = parse_all(header, 15).unwrap();
    let got: Vec<_> =
        seen.iter().map(|s| (s.name.as_str(), s.dtype, s.shape.as_slice(), s.offset, s.len)).collect();
    let expected: [(&str, &str, &[u64], u64, u64); 4] = [
        ("a", "BF16", &[2, 1, 2], 0, 8),
        ("b", "U8", &[3], 8, 3),
        ("e", "F32", &[0, 7], 8, 0),
        ("s", "I32", &[], 11, 4),
    ];
    assert_eq!(got, expected);
}

#[test]
fn each_fault_names_the_tensor_with_expected_and_found() {
    let entry = |name: &str, dtype: &str, shape: &str, offsets: &str| {
        format!(r#""{name}":{{"dtype":"{dtype}","shape":{shape},"data_offsets":{offsets}}}"#)
    };
    let a = entry("a", "U8", "[4]", "[0,4]");
    let one = |entry: &str| format!("{{{entry}}}");
    let two = |entry: &str| format!("{{{a},{entry}}}");
    let cases = [
        (
            two(&entry("b", "U8", "[4]", "[2,6]")),
            6,
            "s.safetensors: b: expected data_offsets that begin at 4, where a ends, found an overlap at 2",
        ),
        (
            two(&entry("b", "U8", "[2]", "[6,8]")),
            8,
            "s.safetensors: b: expected data_offsets that begin at 4, where a ends, found a hole, up to its begin at 6",
        ),
        (
            one(&entry("b", "U8", "[4]", "[1,5]")),
            5,
            "s.safetensors: b: expected data_offsets that begin at 0, found a hole, up to its begin at 1",
        ),
        (
            two(&entry("a", "U8", "[4]", "[4,8]")),
            8,
            "a: expected once, found in s.safetensors and again in s.safetensors",
        ),
        (
            one(&a),
            5,
            "s.safetensors: bytes after the header: expected 4, where the last tensor ends, found 5",
        ),
        (
            one(&a),
            3,
            "s.safetensors: a: expected data_offsets within the 3 bytes after the header, found [0, 4]",
        ),
        (
            one(&entry("b", "U8", "[4]", "[4,0]")),
            4,
            "s.safetensors: b: expected data_offsets within the 4 bytes after the header, found [4, 0]",
        ),
        (
            one(&entry("b", "BF16", "[4]", "[0,4]")),
            4,
            "s.safetensors: b: expected 8 bytes for BF16 [4], found 4 bytes at [0, 4]",
        ),
        (
            one(&entry("b", "F4", "[3]", "[0,1]")),
            1,
            "s.safetensors: b: expected 2 bytes for F4 [3], found 1 bytes at [0, 1]",
        ),
        (
            one(&entry("b", "U8", "[4294967296,4294967296]", "[0,4]")),
            4,
            "s.safetensors: b: expected more bytes than a file can have for U8 [4294967296, 4294967296], found 4 bytes",
        ),
        (
            one(&entry("b", "Q4\\u001b", "[4]", "[0,4]")),
            4,
            "s.safetensors: b: expected a known dtype, found Q4\\u{1b}",
        ),
        (
            one(&entry("b", "U8", "[-1]", "[0,4]")),
            4,
            "s.safetensors: b: invalid value: integer `-1`, expected u64 at line 1 column",
        ),
        (
            one(&entry("b", "U8", "[1,1,1,1,1,1,1,1,4]", "[0,4]")),
            4,
            "s.safetensors: b: invalid length 9, expected a list of at most 8 dimensions",
        ),
        (one(&entry("b", "U8", "[4]", "[0,4,8]")), 4, "s.safetensors: b: "),
        (one(r#""b":{"dtype":"U8","shape":[4]}"#), 4, "s.safetensors: b: missing field `data_offsets`"),
        (one(r#""__metadata__":{"format":1}"#), 0, "s.safetensors: __metadata__: invalid type"),
        ("[]".to_owned(), 0, "s.safetensors: the header: invalid type: sequence"),
        ("{} x".to_owned(), 0, "s.safetensors: the header: trailing characters at line 1 column 4"),
        (r#"{"a":"#.to_owned(), 0, "s.safetensors: a: EOF while parsing"),
    ];
    for (header, data_len, message) in cases {
        let found = refusal(&header, data_len);
        assert!(found.starts_with(message), "{header}\n expected {message}\n found    {found}");
    }
}

#[test]
fn messages_stay_short_and_free_of_control_characters() {
    let name = format!("\\u001b[2J{}", "x".repeat(100_000));
    for header in [
        format!(r#"{{"{name}":{{"dtype":"U8","shape":[4],"data_offsets":[0,9]}}}}"#),
        format!(r#"{{"a":{{"dtype":"{name}","shape":[4],"data_offsets":[0,4]}}}}"#),
        format!(r#"{{"a":{{"dtype":"U8","shape":"{name}","data_offsets":[0,4]}}}}"#),
        format!(r#"{{"a":{{"dtype":"U8","shape":[4],"data_offsets":[0,4],"dtype":"{name}"}}}}"#),
    ] {
        let message = refusal(&header, 4);
        assert!(message.len() < 500 && !message.contains(char::is_control), "{message}");
    }
}

/// Types that both sides know, with whole bytes.
const BOTH: [(Dtype, &str); 6] = [
    (Dtype::U8, "U8"),
    (Dtype::BF16, "BF16"),
    (Dtype::F32, "F32"),
    (Dtype::I64, "I64"),
    (Dtype::BOOL, "BOOL"),
    (Dtype::F8_E4M3, "F8_E4M3"),
];

prop_compose! {
    /// A shard as the crate writes it: names that may need escapes, types, shapes with zeros and ones.
    fn shard()(tensors in prop::collection::btree_map(
        "[a-z.\"\\\\\u{e9}\u{1f600}]{1,12}",
        (0..BOTH.len(), prop::collection::vec(0_usize..4, 0..4)),
        0..8,
    ), remark in any::<bool>()) -> Vec<u8> {
        let zeros = vec![0; 4096];
        let views = tensors.iter().map(|(name, (kind, shape))| {
            let dtype = BOTH[*kind].0;
            let len = shape.iter().product::<usize>() * dtype.bitsize() / 8;
            (name, TensorView::new(dtype, shape.clone(), &zeros[..len]).unwrap())
        });
        let remark = remark.then(|| [("format".to_owned(), "pt".to_owned())].into());
        safetensors::serialize(views, remark).unwrap()
    }
}

/// Splits a shard into its header and the length of its data.
fn split(file: &[u8]) -> (&[u8], u64) {
    let (length, rest) = file.split_first_chunk().unwrap();
    let (header, data) = rest.split_at(usize::try_from(u64::from_le_bytes(*length)).unwrap());
    (header, data.len() as u64)
}

/// What the crate finds in a shard with this header and so many bytes of data.
fn by_the_crate(header: &[u8], data_len: u64) -> Option<Vec<Seen>> {
    let mut file = (header.len() as u64).to_le_bytes().to_vec();
    file.extend_from_slice(header);
    let data = file.len();
    file.resize(data + usize::try_from(data_len).unwrap(), 0);
    let parsed = SafeTensors::deserialize(&file).ok()?;
    let mut seen: Vec<Seen> = parsed
        .iter()
        .map(|(name, view)| Seen {
            name: name.to_owned(),
            dtype: TYPES
                .iter()
                .map(|(name, _)| *name)
                .find(|name| *name == view.dtype().to_string())
                .unwrap(),
            shape: view.shape().iter().map(|&dim| dim as u64).collect(),
            offset: (view.data().as_ptr() as usize - file.as_ptr() as usize - data) as u64,
            len: view.data().len() as u64,
        })
        .collect();
    seen.sort();
    Some(seen)
}

/// A number that a damaged header may hold in place of another.
fn odd_number() -> impl Strategy<Value = u64> {
    prop_oneof![0_u64..64, Just(1 << 60), Just(u64::MAX), Just(u64::MAX / 8 + 1)]
}

proptest! {
    #[test]
    fn what_the_crate_writes_is_read_as_the_crate_reads_it(file in shard()) {
        let (header, data_len) = split(&file);
        let ours = parse_all(header, data_len).unwrap();
        prop_assert_eq!(Some(ours), by_the_crate(header, data_len));
    }

    /// One byte replaced, removed or added: no panic, and nothing is read that the crate would not read, or read
    /// otherwise.
    #[test]
    fn a_damaged_byte_is_refused_or_harmless(
        file in shard(), at in any::<prop::sample::Index>(), byte in any::<u8>(), what in 0..3,
    ) {
        let (header, data_len) = split(&file);
        let mut header = header.to_vec();
        let at = at.index(header.len());
        match what {
            0 => header[at] = byte,
            1 => { header.remove(at); }
            _ => header.insert(at, byte),
        }
        if let Ok(ours) = parse_all(&header, data_len) {
            prop_assert_eq!(Some(ours), by_the_crate(&header, data_len));
        }
    }

    /// Ranges and shapes drawn at random: what is accepted lies in the file and shares no byte.
    #[test]
    fn accepted_ranges_never_overlap_or_leave_the_file(
        mut tensors in prop::collection::vec((0_u64..24, 0_u64..8, any::<bool>()), 1..4),
        odd in prop::option::of((any::<prop::sample::Index>(), odd_number(), 0_usize..3)),
        data_len in 0_u64..32,
    ) {
        // Half of them begin where the one before ends, or nothing would ever be accepted.
        let mut end = 0;
        for (begin, len, follows) in &mut tensors {
            if *follows { *begin = end; }
            end = *begin + *len;
        }
        let data_len = if data_len % 2 == 0 { end } else { data_len };
        let mut entries: Vec<[u64; 3]> = tensors.iter().map(|&(begin, len, _)| [len, begin, begin + len]).collect();
        if let Some((which, value, field)) = odd {
            let which = which.index(entries.len());
            entries[which][field] = value;
        }
        let entries: Vec<String> = entries
            .iter()
            .enumerate()
            .map(|(n, [dim, begin, end])| format!(r#""t{n}":{{"dtype":"U8","shape":[{dim}],"data_offsets":[{begin},{end}]}}"#))
            .collect();
        let header = format!("{{{}}}", entries.join(","));
        let crates = by_the_crate(header.as_bytes(), data_len);
        match parse_all(header.as_bytes(), data_len) {
            Ok(mut ours) => {
                prop_assert_eq!(Some(&ours), crates.as_ref());
                ours.sort_by_key(|seen| (seen.offset, seen.len));
                let mut end = 0;
                for seen in ours {
                    prop_assert!(seen.offset >= end, "overlap");
                    end = seen.offset + seen.len;
                }
                prop_assert_eq!(end, data_len);
            }
            Err(error) => prop_assert!(crates.is_none(), "the crate accepts what we refuse: {}", error),
        }
    }
}
