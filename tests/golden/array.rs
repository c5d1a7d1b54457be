//! Arrays as numpy writes them: `.npy`, and `.npz` whose members are stored and not compressed.

use std::collections::BTreeMap;

/// An array of f32.
#[derive(Debug, PartialEq)]
pub(crate) struct Array {
    pub(crate) shape: Vec<usize>,
    pub(crate) data: Vec<f32>,
}

fn u16_at(bytes: &[u8], at: usize) -> usize {
    usize::from(u16::from_le_bytes(bytes[at..at + 2].try_into().unwrap()))
}

fn u32_at(bytes: &[u8], at: usize) -> usize {
    usize::try_from(u32::from_le_bytes(bytes[at..at + 4].try_into().unwrap())).unwrap()
}

/// Little-endian f32, one after the other.
pub(crate) fn f32s(bytes: &[u8]) -> Vec<f32> {
    let (numbers, rest) = bytes.as_chunks::<4>();
    assert!(rest.is_empty(), "whole numbers");
    numbers.iter().map(|number| f32::from_le_bytes(*number)).collect()
}

/// An `.npy` of version 1 with little-endian f32 in row-major order.
pub(crate) fn npy(bytes: &[u8]) -> Array {
    assert_eq!(&bytes[..8], b"\x93NUMPY\x01\x00");
    let data = 10 + u16_at(bytes, 8);
    let header = std::str::from_utf8(&bytes[10..data]).unwrap();
    assert!(header.contains("'descr': '<f4'") && header.contains("'fortran_order': False"), "{header}");
    let (_, shape) = header.split_once("'shape': (").unwrap();
    let (shape, _) = shape.split_once(')').unwrap();
    let shape: Vec<usize> =
        shape.split(',').map(str::trim).filter(|n| !n.is_empty()).map(|n| n.parse().unwrap()).collect();
    let data = f32s(&bytes[data..]);
    assert_eq!(data.len(), shape.iter().product::<usize>());
    Array { shape, data }
}

/// The members of an `.npz` by name, found by the directory at the end of the archive.
pub(crate) fn npz(bytes: &[u8]) -> BTreeMap<String, Array> {
    let end = bytes.len() - 22;
    assert_eq!(&bytes[end..end + 4], b"PK\x05\x06", "an archive without a comment");
    let (count, mut at) = (u16_at(bytes, end + 10), u32_at(bytes, end + 16));
    let mut arrays = BTreeMap::new();
    for _ in 0..count {
        assert_eq!(&bytes[at..at + 4], b"PK\x01\x02");
        assert_eq!(u16_at(bytes, at + 10), 0, "members are not compressed");
        let (length, local) = (u32_at(bytes, at + 24), u32_at(bytes, at + 42));
        let name_end = at + 46 + u16_at(bytes, at + 28);
        let name = std::str::from_utf8(&bytes[at + 46..name_end]).unwrap();
        let begin = local + 30 + u16_at(bytes, local + 26) + u16_at(bytes, local + 28);
        arrays.insert(name.trim_end_matches(".npy").to_owned(), npy(&bytes[begin..begin + length]));
        at = name_end + u16_at(bytes, at + 30) + u16_at(bytes, at + 32);
    }
    arrays
}
