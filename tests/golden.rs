//! The arithmetic against numbers that others computed: each operator against a float64 reference (`scripts/reference`),
//! the whole model against the released code, MXFP4 against bytes of the release.
#![expect(clippy::unwrap_used, clippy::panic, reason = "a test that cannot go on has failed")]

#[path = "golden/array.rs"]
mod array;
#[path = "golden/fixture.rs"]
mod fixture;
#[path = "golden/layers.rs"]
mod layers;
#[path = "golden/operators.rs"]
mod operators;
#[path = "golden/oracle.rs"]
mod oracle;
#[path = "golden/released.rs"]
mod released;
#[path = "support/tiny.rs"]
mod tiny;
