//! Bytes to whole characters, as they come.

/// Turns a stream of bytes into text, and never shows half a character.
///
/// A character that is cut at the end of a push waits for its other bytes (at most 3 are held). U+FFFD stands only for
/// bytes that no continuation can make valid, or for what is still incomplete at [`Decoder::finish`]. However the
/// bytes are cut, the text is that of [`String::from_utf8_lossy`] over all of them.
#[derive(Clone, Debug, Default)]
pub struct Decoder {
    held: Vec<u8>,
}

impl Decoder {
    /// The characters that `bytes` complete.
    pub fn push(&mut self, bytes: &[u8]) -> String {
        self.held.extend_from_slice(bytes);
        let mut text = String::with_capacity(self.held.len());
        let mut done = 0;
        for chunk in self.held.utf8_chunks() {
            text.push_str(chunk.valid());
            done += chunk.valid().len();
            let invalid = chunk.invalid();
            if done + invalid.len() == self.held.len() && may_go_on(invalid) {
                break;
            }
            if !invalid.is_empty() {
                text.push(char::REPLACEMENT_CHARACTER);
                done += invalid.len();
            }
        }
        self.held.drain(..done);
        text
    }

    /// What is left: U+FFFD if a character was begun, else nothing. The decoder is as new.
    pub fn finish(&mut self) -> String {
        let text = String::from_utf8_lossy(&self.held).into_owned();
        self.held.clear();
        text
    }
}

/// Whether `bytes` begin a character and only lack its end.
fn may_go_on(bytes: &[u8]) -> bool {
    std::str::from_utf8(bytes).is_err_and(|error| error.error_len().is_none())
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// Pushes `bytes` cut at every place of `cuts`, and finishes.
    fn decode(bytes: &[u8], mut cuts: Vec<usize>) -> String {
        let mut decoder = Decoder::default();
        let mut text = String::new();
        cuts.sort_unstable();
        let mut start = 0;
        for cut in cuts.into_iter().chain([bytes.len()]) {
            text += &decoder.push(&bytes[start..cut]);
            assert!(decoder.held.len() <= 3);
            start = cut;
        }
        text + &decoder.finish()
    }

    #[test]
    fn no_cut_ever_shows_half_a_character() {
        let text = "aé你🎉👩‍🚀 e\u{301}\u{feff}z";
        for cut in 0..=text.len() {
            let mut decoder = Decoder::default();
            let first = decoder.push(&text.as_bytes()[..cut]);
            assert!(text.starts_with(&first) && !first.contains('\u{fffd}'), "{first:?} at {cut}");
            assert_eq!(first + &decoder.push(&text.as_bytes()[cut..]), text);
            assert_eq!(decoder.finish(), "");
        }
    }

    #[test]
    fn only_what_no_byte_can_mend_is_replaced_at_once() {
        let mut decoder = Decoder::default();
        assert_eq!(decoder.push(b"\xf0\x9f\x8e"), "");
        assert_eq!(decoder.push(b"x"), "\u{fffd}x");
        assert_eq!(decoder.push(b"\xff\xe4\xbd"), "\u{fffd}");
        assert_eq!(decoder.finish(), "\u{fffd}");
        assert_eq!(decoder.push(b"ok"), "ok");
    }

    proptest! {
        #![proptest_config(super::super::repeatable())]

        #[test]
        fn cuts_change_nothing(
            bytes in prop::collection::vec(prop_oneof![any::<u8>(), 0x80_u8..=0xbf, 0xc2_u8..=0xf5], 0..24),
            cuts in prop::collection::vec(any::<prop::sample::Index>(), 0..8),
        ) {
            let cuts = cuts.iter().map(|cut| cut.index(bytes.len() + 1)).collect();
            prop_assert_eq!(decode(&bytes, cuts), String::from_utf8_lossy(&bytes));
        }
    }
}
