//! The chat format: rendering, parsing, transcript.
