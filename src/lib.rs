//! Dormouse runs Kimi K3, a mixture-of-experts language model of 2.78 trillion parameters, on one ordinary
//! machine, and lets you chat with it in the terminal. The experts sleep on disk and are woken token by token;
//! memory is a dial that changes the speed and never the answer.
//!
//! # The map of the house
//!
//! | room | what lives there |
//! | --- | --- |
//! | [`units`] | sizes, rates and shares: parsed and printed in one way everywhere |
//! | [`protocol`] | the only types that the screen and the engine share |
//! | [`sys`] | what the operating system knows: memory and its limits, processors, disks, processes, signals; buffers and reads |
//! | [`config`] | settings: defaults, then file, then environment, then flags; where files live |
//! | [`kernels`] | arithmetic under one contract: a scalar reference, and one dispatch table |
//! | [`checkpoint`] | safetensors headers, the index of all shards, the model's config, the manifest of checksums |
//! | [`tokenizer`] | byte-pair ranks, the pre-tokenizer's pattern, reserved ids, incremental decoding |
//! | [`chat`] | rendering a conversation to segments, parsing the model's output, the transcript |
//! | [`store`] | where bytes live: the plan of weights, the trunk's tiles, the experts' slots, readers |
//! | [`model`] | the forward pass: KDA, gated MLA, residual mixes, router, experts |
//! | [`engine`] | the thread that owns model and state: the plan of all memory, turns alone and together, states kept in memory and on disk, sampling, telemetry |
//! | [`session`] | conversations on disk: a journal for each |
//! | [`setup`] | the doctor, the wizard, laying out the small model, fetching the real one, sealing and checking a checkpoint, measuring disks |
//! | [`tui`] | the chat: on the whole screen, or line by line where there is none; keys, themes, commands |
//! | [`cli`] | arguments as typed, one file for each verb |
//!
//! # Who may use whom
//!
//! `tests/layering.rs` reads this table and the `crate::` paths of every file, and fails on any other arrow.
//!
//! | room | may use |
//! | --- | --- |
//! | `units` | |
//! | `sys` | |
//! | `protocol` | `units` |
//! | `config` | `sys`, `units` |
//! | `kernels` | `sys` |
//! | `checkpoint` | `sys`, `units` |
//! | `tokenizer` | `sys`, `checkpoint` |
//! | `chat` | `tokenizer`, `protocol` |
//! | `store` | `sys`, `units`, `checkpoint` |
//! | `model` | `kernels`, `store`, `checkpoint` |
//! | `engine` | `model`, `store`, `chat`, `protocol`, `kernels`, `checkpoint`, `tokenizer`, `sys`, `units` |
//! | `session` | `sys`, `units`, `protocol` |
//! | `setup` | `sys`, `units`, `config`, `checkpoint`, `store`, `kernels`, `tokenizer` |
//! | `tui` | `protocol`, `units`, `config`, `chat`, `session`, `setup` |
//! | `cli` | everything |
//!
//! The engine never names a widget, the screen never names a tensor.

pub mod chat;
pub mod checkpoint;
pub mod cli;
pub mod config;
pub mod engine;
pub mod kernels;
pub mod model;
pub mod protocol;
pub mod session;
pub mod setup;
pub mod store;
pub mod sys;
pub mod tokenizer;
pub mod tui;
pub mod units;
