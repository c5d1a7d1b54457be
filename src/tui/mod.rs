//! The full-screen chat.
