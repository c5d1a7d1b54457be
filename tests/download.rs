//! Downloads from a hub of our own on the loopback that misbehaves on command. A test that bears a number shows that one
//! known fault of other programs is not ours.

#![expect(clippy::unwrap_used, clippy::panic, reason = "what fails here fails a test")]

#[path = "download/access.rs"]
mod access;
#[path = "download/content.rs"]
mod content;
#[path = "download/disk.rs"]
mod disk;
#[path = "download/hub.rs"]
mod hub;
#[path = "download/program.rs"]
mod program;
#[path = "download/proxy.rs"]
mod proxy;
#[path = "download/released.rs"]
mod released;
#[path = "download/resume.rs"]
mod resume;
#[path = "download/support.rs"]
mod support;
#[path = "download/throughput.rs"]
mod throughput;
#[path = "download/tls.rs"]
mod tls;
#[path = "download/verify.rs"]
mod verify;
#[path = "download/waiting.rs"]
mod waiting;
