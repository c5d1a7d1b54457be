//! Shards are numbered: `model-00007-of-000096.safetensors`. From those that are there follow those that are not.

/// The parts of a numbered name.
struct Numbered<'a> {
    stem: &'a str,
    number: &'a str,
    total: &'a str,
}

const EXTENSION: &str = ".safetensors";
const OF: &str = "-of-";

/// Longest series that is worked out: more digits would be no checkpoint's.
const LIMIT: usize = super::index::MAX_SHARDS;

fn numbered(name: &str) -> Option<Numbered<'_>> {
    let (rest, total) = name.strip_suffix(EXTENSION)?.rsplit_once(OF)?;
    let (stem, number) = rest.rsplit_once('-')?;
    let digits = |text: &str| !text.is_empty() && text.bytes().all(|b| b.is_ascii_digit());
    (digits(number) && digits(total)).then_some(Numbered { stem, number, total })
}

/// The names missing from the series that the first numbered name belongs to, in order.
pub(super) fn missing(names: &[String]) -> Vec<String> {
    let Some(Numbered { stem, number, total }) = names.iter().find_map(|name| numbered(name)) else {
        return Vec::new();
    };
    let Ok(count @ 1..=LIMIT) = total.parse::<usize>() else { return Vec::new() };
    let width = number.len();
    (1..=count)
        .map(|number| format!("{stem}-{number:0width$}{OF}{total}{EXTENSION}"))
        .filter(|name| !names.contains(name))
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn missing_of(names: &[&str]) -> Vec<String> {
        missing(&names.iter().map(|&name| name.to_owned()).collect::<Vec<_>>())
    }

    #[test]
    fn gaps_of_a_series_are_named_as_the_release_names_them() {
        let names = ["model-00001-of-000004.safetensors", "model-00003-of-000004.safetensors"];
        assert_eq!(
            missing_of(&names),
            ["model-00002-of-000004.safetensors", "model-00004-of-000004.safetensors"]
        );
    }

    #[test]
    fn other_names_say_nothing() {
        for name in [
            "model.safetensors",
            "model-00001-of-99999999999999999999.safetensors",
            "model-00001-of-000000.safetensors",
            "model-one-of-two.safetensors",
        ] {
            assert!(missing_of(&[name]).is_empty(), "{name}");
        }
    }
}
