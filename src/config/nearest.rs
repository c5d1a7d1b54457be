//! What somebody may have meant.

/// The one of `known` that is spelled most like `word`, if any is close enough to be what was meant.
pub fn nearest<'a>(word: &str, known: impl IntoIterator<Item = &'a str>) -> Option<&'a str> {
    let word = word.to_lowercase();
    let distance = |name: &str| strsim::damerau_levenshtein(&word, &name.to_lowercase());
    let cut =
        |name: &str| name.chars().count() > word.chars().count() && name.to_lowercase().starts_with(&word);
    known
        .into_iter()
        .map(|name| (distance(name), name))
        // A third of the letters may be wrong; of a word that ends too early any number is missing.
        .filter(|(distance, name)| {
            *distance * 3 <= name.chars().count() || (word.chars().count() > 2 && cut(name))
        })
        .min_by_key(|(distance, _)| *distance)
        .map(|(_, name)| name)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn slips_are_understood_and_other_words_are_not() {
        let known = ["memory", "model", "temperature", "top_p"];
        for (word, meant) in [
            ("memmory", Some("memory")),
            ("Model", Some("model")),
            ("moedl", Some("model")),
            ("temper", Some("temperature")),
            ("colour", None),
            ("m", None),
            ("", None),
        ] {
            assert_eq!(nearest(word, known), meant, "{word}");
        }
    }
}
