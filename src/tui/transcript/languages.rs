//! The languages that code is coloured in: how each writes comments and strings, and which words are its own.

/// What begins and ends a string.
#[derive(Debug)]
pub(super) struct Quote {
    pub(super) mark: &'static str,
    /// Whether a backslash takes the meaning of what follows it.
    pub(super) escapes: bool,
    /// Whether it goes on over the end of a line.
    pub(super) lines: bool,
}

const fn quote(mark: &'static str) -> Quote {
    Quote { mark, escapes: true, lines: false }
}

const fn long(mark: &'static str) -> Quote {
    Quote { mark, escapes: true, lines: true }
}

const fn raw(mark: &'static str) -> Quote {
    Quote { mark, escapes: false, lines: true }
}

/// A language.
#[derive(Debug)]
pub(super) struct Language {
    /// What a fence may call it, in lower case.
    pub(super) names: &'static [&'static str],
    /// What begins a comment that ends with its line.
    pub(super) comments: &'static [&'static str],
    /// What begins and ends a comment.
    pub(super) blocks: &'static [(&'static str, &'static str)],
    /// The longest marks come first.
    pub(super) quotes: &'static [Quote],
    /// Whether single quotes hold one character each, and stand alone elsewhere.
    pub(super) has_characters: bool,
    keywords: &'static str,
    ignores_case: bool,
    /// Whether the first character of a line says what the line is.
    pub(super) is_diff: bool,
}

impl Language {
    /// Whether a word is one of the language's own.
    pub(super) fn has_keyword(&self, word: &str) -> bool {
        self.keywords
            .split_ascii_whitespace()
            .any(|known| known == word || (self.ignores_case && known.eq_ignore_ascii_case(word)))
    }
}

const NONE: Language = Language {
    names: &[],
    comments: &[],
    blocks: &[],
    quotes: &[],
    has_characters: false,
    keywords: "",
    ignores_case: false,
    is_diff: false,
};

const SLASHES: &[&str] = &["//"];
const STARS: &[(&str, &str)] = &[("/*", "*/")];
const HASH: &[&str] = &["#"];
const BOTH: &[Quote] = &[quote("\""), quote("'")];

/// All of them.
pub(super) const TABLE: &[Language] = &[
    Language {
        names: &["rust", "rs"],
        comments: SLASHES,
        blocks: STARS,
        quotes: &[long("\"")],
        has_characters: true,
        keywords: "as async await break const continue crate dyn else enum extern false fn for if impl in let loop \
                   match mod move mut pub ref return self Self static struct super trait true type unsafe use where while",
        ..NONE
    },
    Language {
        names: &["python", "py", "python3", "pycon"],
        comments: HASH,
        quotes: &[long("\"\"\""), long("'''"), quote("\""), quote("'")],
        keywords: "and as assert async await break case class continue def del elif else except False finally for from \
                   global if import in is lambda match None nonlocal not or pass raise return True try while with yield",
        ..NONE
    },
    Language {
        names: &["javascript", "js", "jsx", "typescript", "ts", "tsx", "mjs"],
        comments: SLASHES,
        blocks: STARS,
        quotes: &[quote("\""), quote("'"), long("`")],
        keywords: "abstract as async await break case catch class const continue default delete do else enum export \
                   extends false finally for from function get if implements import in instanceof interface let new null \
                   of private protected public readonly return set static super switch this throw true try type typeof \
                   undefined var void while yield",
        ..NONE
    },
    Language {
        names: &["go", "golang"],
        comments: SLASHES,
        blocks: STARS,
        quotes: &[quote("\""), quote("'"), raw("`")],
        keywords: "break case chan const continue default defer else fallthrough false for func go goto if import \
                   interface map nil package range return select struct switch true type var",
        ..NONE
    },
    Language {
        names: &["c", "h", "cpp", "c++", "cc", "cxx", "hpp", "objc", "cuda"],
        comments: SLASHES,
        blocks: STARS,
        quotes: BOTH,
        keywords: "auto bool break case catch char class const constexpr continue default define delete do double else \
                   endif enum explicit extern false float for friend goto if ifdef ifndef include inline int long \
                   namespace new noexcept nullptr operator override private protected public return short signed sizeof \
                   static struct switch template this throw true try typedef typename union unsigned using virtual void \
                   volatile while",
        ..NONE
    },
    Language {
        names: &["java", "kotlin", "kt", "csharp", "cs", "c#", "scala", "swift", "dart"],
        comments: SLASHES,
        blocks: STARS,
        quotes: &[long("\"\"\""), quote("\""), quote("'")],
        keywords: "abstract as async await bool boolean break byte case catch char class const continue default def do \
                   double else enum extends extension false final finally float for foreach fun func get guard if \
                   implements import in init instanceof int interface internal is let long namespace new nil null object \
                   override package private protected public readonly record return sealed self set short static string \
                   struct super switch this throw throws trait true try type using val var virtual void when where while",
        ..NONE
    },
    Language {
        names: &["bash", "sh", "shell", "zsh", "console", "fish", "dockerfile", "makefile", "make"],
        comments: HASH,
        quotes: &[long("\""), raw("'")],
        keywords: "alias case cd declare do done echo elif else esac eval exec exit export fi for function if in local \
                   read readonly return set shift source sudo test then trap unset until while ADD CMD COPY ENTRYPOINT \
                   ENV EXPOSE FROM RUN USER WORKDIR",
        ..NONE
    },
    Language {
        names: &["sql", "postgres", "postgresql", "mysql", "sqlite"],
        comments: &["--"],
        blocks: STARS,
        quotes: &[raw("'"), quote("\"")],
        keywords: "add all alter and as asc begin between by case check column commit constraint create cross default \
                   delete desc distinct drop else end exists foreign from full group having if in index inner insert into \
                   is join key left like limit not null offset on or order outer primary references right rollback select \
                   set table then union unique update using values view when where with",
        ignores_case: true,
        ..NONE
    },
    Language {
        names: &["json", "jsonc", "json5", "jsonl"],
        comments: SLASHES,
        blocks: STARS,
        quotes: &[quote("\"")],
        keywords: "true false null",
        ..NONE
    },
    Language {
        names: &["toml", "yaml", "yml", "ini", "conf", "properties"],
        comments: HASH,
        quotes: &[long("\"\"\""), quote("\""), quote("'")],
        keywords: "true false null yes no on off",
        ..NONE
    },
    Language {
        names: &["ruby", "rb", "perl", "pl", "elixir", "ex", "r"],
        comments: HASH,
        quotes: BOTH,
        keywords: "alias and begin break case class def defmodule defp do else elsif end ensure false fn for foreach if \
                   in include last library lambda module my next nil not or package puts raise redo require rescue retry \
                   return self sub super then true undef unless until use when while yield function TRUE FALSE NULL",
        ..NONE
    },
    Language {
        names: &["lua", "haskell", "hs"],
        comments: &["--"],
        blocks: &[("--[[", "]]"), ("{-", "-}")],
        quotes: &[quote("\"")],
        keywords: "and break case class data deriving do else elseif end false for function goto if import in instance \
                   let local module newtype nil not of or repeat return then true type until where while",
        ..NONE
    },
    Language {
        names: &["php"],
        comments: &["//", "#"],
        blocks: STARS,
        quotes: BOTH,
        keywords: "abstract and array as break case catch class const continue default do echo else elseif extends false \
                   final finally fn for foreach function if implements interface match namespace new null or private \
                   protected public return static switch this throw trait true try use var while yield",
        ..NONE
    },
    Language {
        names: &["html", "xml", "svg", "vue", "xhtml"],
        blocks: &[("<!--", "-->")],
        quotes: &[long("\"")],
        ..NONE
    },
    Language { names: &["css", "scss", "less"], blocks: STARS, quotes: BOTH, ..NONE },
    Language { names: &["diff", "patch"], is_diff: true, ..NONE },
];

/// The language that the info string of a fence names, if it is known.
pub(super) fn find(info: &str) -> Option<&'static Language> {
    let name = info.trim().trim_start_matches(['{', '.']);
    let name = name.split([' ', ',', '}', ':']).next().unwrap_or_default().to_lowercase();
    TABLE.iter().find(|language| language.names.contains(&name.as_str()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_is_of_one_language() {
        let names: Vec<_> = TABLE.iter().flat_map(|language| language.names).collect();
        for (number, name) in names.iter().enumerate() {
            assert_eq!(name.to_lowercase(), **name);
            assert!(!names[..number].contains(name), "{name}");
        }
    }

    #[test]
    fn info_strings_are_understood() {
        for info in ["rust", " Rust ", "rust,no_run", "rust title=\"a\"", "{.rust}", "rs:main.rs"] {
            assert!(find(info).is_some_and(|language| language.names.contains(&"rust")), "{info}");
        }
        assert!(find("").is_none() && find("text").is_none());
    }
}
