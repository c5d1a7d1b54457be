//! MXFP4 against real bytes of the release. The file is not part of the repository: `DORMOUSE_MXFP4_FIXTURE` names it.

use std::io::Write;

use dormouse::kernels::Mxfp4;
use serde::Deserialize;

const VARIABLE: &str = "DORMOUSE_MXFP4_FIXTURE";

#[derive(Deserialize)]
struct Released {
    logical_width: usize,
    packed: Bytes,
    scales: Bytes,
    expected: Values,
    expected_swapped_nibbles: Swapped,
}

#[derive(Deserialize)]
struct Bytes {
    data: Vec<u8>,
}

#[derive(Deserialize)]
struct Values {
    data: Vec<f32>,
}

#[derive(Deserialize)]
struct Swapped {
    first64: Vec<f32>,
}

#[test]
fn released_bytes_decode_exactly() {
    let Some(path) = std::env::var_os(VARIABLE).filter(|path| !path.is_empty()) else {
        // Past the harness, which keeps what a passing test prints to itself.
        writeln!(std::io::stderr(), "released_bytes_decode_exactly: SKIPPED, {VARIABLE} is not set").unwrap();
        return;
    };
    let text = std::fs::read(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
    let released: Released = serde_json::from_slice(&text).unwrap();
    let decode =
        |packed: &[u8]| Mxfp4::new(packed, &released.scales.data, released.logical_width).unwrap().decode();
    let ours = decode(&released.packed.data);
    assert_eq!(ours.len(), 64 * 3584);
    assert_eq!(ours, released.expected.data);

    let swapped: Vec<u8> = released.packed.data.iter().map(|byte| byte.rotate_left(4)).collect();
    let swapped = decode(&swapped);
    assert_eq!(swapped[..64], released.expected_swapped_nibbles.first64);
    assert_ne!(swapped, released.expected.data);
}
