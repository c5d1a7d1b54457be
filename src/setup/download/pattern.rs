//! Which files are wanted: `*` and `?`, as a shell has them, over whole paths.

/// Whether `path` is of the form of `pattern`: `*` stands for any number of characters (slashes too), `?` for one.
pub(super) fn matches(pattern: &str, path: &str) -> bool {
    let pattern: Vec<char> = pattern.chars().collect();
    let path: Vec<char> = path.chars().collect();
    let (mut p, mut t) = (0, 0);
    // Where to go on when a guess of how much the last star stands for was too small.
    let mut star = None;
    while t < path.len() {
        match pattern.get(p) {
            Some('*') => {
                star = Some((p, t));
                p += 1;
            }
            Some(c) if *c == '?' || *c == path[t] => {
                p += 1;
                t += 1;
            }
            _ => match star {
                Some((at, taken)) => {
                    star = Some((at, taken + 1));
                    p = at + 1;
                    t = taken + 1;
                }
                None => return false,
            },
        }
    }
    pattern[p..].iter().all(|c| *c == '*')
}

#[cfg(test)]
mod tests {
    use super::matches;

    #[test]
    fn stars_and_question_marks() {
        for (pattern, path, expected) in [
            ("*", "", true),
            ("*.json", "config.json", true),
            ("*.json", "config.jsonl", false),
            ("model-0000?-of-*.safetensors", "model-00001-of-000096.safetensors", true),
            ("model-0000?-of-*.safetensors", "model-00010-of-000096.safetensors", false),
            ("a*b*c", "aXbYbZc", true),
            ("a*b*c", "aXbYbZ", false),
            ("config.json", "sub/config.json", false),
            ("*/config.json", "sub/config.json", true),
            ("", "a", false),
        ] {
            assert_eq!(matches(pattern, path), expected, "{pattern} {path}");
        }
    }
}
