//! What was typed. Values that the config file or the environment may hold as well stay text here, so that one parser
//! serves all three places.

use std::ffi::{OsStr, OsString};
use std::path::PathBuf;

use clap::builder::RangedU64ValueParser;
use clap::{ArgGroup, Args as ClapArgs, Parser, Subcommand, ValueEnum};

use crate::chat::Form;
use crate::config::Key;
use crate::units::Bytes;

/// Over the flags that every verb takes.
const SETTINGS: &str = "Settings";

const EXAMPLES: &str = "\
Examples:
  dormouse                              chat with the small model that comes with the program
  dormouse --model ~/k3 --memory 24GiB  chat with Kimi K3 in 24 GiB
  dormouse --continue                   chat on where you left
  dormouse setup                        from nothing to the real model
  dormouse run --prompt 'Hello!'        one answer on standard output

Settings may also stand in config.toml or in the environment: DORMOUSE_MODEL, DORMOUSE_MEMORY,
DORMOUSE_PRESET, DORMOUSE_CONTEXT, DORMOUSE_READER, DORMOUSE_STATE_DISK, DORMOUSE_THREADS, DORMOUSE_THINK,
DORMOUSE_THEME. A flag beats the environment, and that beats the file.
DORMOUSE_HOME holds everything that the program keeps, in place of the system's folders.";

const RUN_EXAMPLES: &str = "\
Examples:
  dormouse run --prompt 'Tell me a joke.'
  dormouse run --prompt-file question.txt --think high --max-tokens 500
  dormouse run --messages chat.json --json --seed 7
  dormouse run --session trip --prompt 'Where shall we go?'
  dormouse run --session trip --continue
  dormouse run --messages-dir questions --out answers --together 4
  dormouse run --ids 2051,262,2053 --temperature 0 --logits logits.f32 --json

Exit codes: 0 done, 1 a prompt of a folder was not answered, 2 usage or settings, 3 the model's files, 4 memory, disk or threads,
5 the numbers cannot be trusted, 130 stopped by the user.";

const VERIFY_HELP: &str = "\
Without a flag: files against the config, and content against the seal where there is one. A sealed model's folder holds
dormouse.manifest; delete it to run unchecked. Published digests come with `dormouse download`; what --deep has found right
is remembered beside the user's data, and nothing is written into the folder. --repair asks the hub that HF_ENDPOINT names,
with the token in HF_TOKEN.

Exit codes: 0 all is well, 1 files are damaged or missing, or there is nothing to hold them against, 2 usage or settings,
3 the files are missing or not understood, 130 stopped by the user.";

const DOCTOR_HELP: &str = "\
Exit codes: 0 nothing is in the way, 1 something does not work as asked for, 2 usage or settings, 130 stopped by the user.";

/// Chat in the terminal with Kimi K3, streamed from disk on one ordinary machine.
#[derive(Debug, Parser)]
#[command(name = "dormouse", version, after_help = EXAMPLES)]
pub(super) struct Args {
    #[command(flatten)]
    pub(super) common: Common,
    /// Chat on in the session that was written last
    #[arg(long = "continue")]
    pub(super) go_on: bool,
    /// Chat in lines, without the full screen; so it is anyway in a pipe and with TERM=dumb
    #[arg(long)]
    pub(super) inline: bool,
    #[command(subcommand)]
    pub(super) verb: Option<Verb>,
}

/// What every verb takes.
#[derive(Debug, Default, ClapArgs)]
pub(super) struct Common {
    /// Folder of the checkpoint; without it, the small model that comes with the program
    #[arg(long, global = true, help_heading = SETTINGS, value_name = "DIR")]
    model: Option<OsString>,
    /// Memory that the engine may use, like 24GiB or 8GB; changes the speed and never the answer
    #[arg(long, global = true, help_heading = SETTINGS, value_name = "SIZE", allow_hyphen_values = true)]
    memory: Option<OsString>,
    /// The same by a name: ultra (3 GB), laptop (8 GB), desktop (32 GB), workstation (96 GB), server (128 GB),
    /// max (224 GB) or auto, what is free with room left for others [default: auto]
    #[arg(long, global = true, value_name = "NAME")]
    preset: Option<OsString>,
    /// Positions that a conversation may have; without it, as many as an eighth of the memory holds, up to 32768
    #[arg(long, global = true, value_name = "N", allow_hyphen_values = true)]
    context: Option<OsString>,
    /// How shards are read: auto, direct, buffered or mmap; changes the speed and never the answer [default: auto]
    #[arg(long, global = true, value_name = "WAY")]
    reader: Option<OsString>,
    /// Disk for the model's state of conversations, so that they need not be read again, like 40GB; 0 for none
    /// [default: 16GiB]
    #[arg(long, global = true, help_heading = SETTINGS, value_name = "SIZE", allow_hyphen_values = true)]
    state_disk: Option<OsString>,
    /// Threads that compute; without it, one for each physical core
    #[arg(long, global = true, help_heading = SETTINGS, value_name = "N", allow_hyphen_values = true)]
    threads: Option<OsString>,
    /// How much the model thinks before it answers: off, low, high or max [default: low]
    #[arg(long, global = true, help_heading = SETTINGS, value_name = "EFFORT")]
    think: Option<OsString>,
    /// How freely tokens are drawn; 0 always takes the likeliest [default: the checkpoint's, else 1]
    #[arg(long, global = true, help_heading = SETTINGS, value_name = "X", allow_hyphen_values = true)]
    temperature: Option<OsString>,
    /// Draw from the likeliest tokens that together reach this probability [default: the checkpoint's, else 0.95]
    #[arg(long, global = true, help_heading = SETTINGS, value_name = "X", allow_hyphen_values = true)]
    top_p: Option<OsString>,
    /// Most of a turn's thinking: tokens like 300, time like 90s, 10m or 1h, or off [default: off]
    #[arg(long, global = true, value_name = "LIMIT", allow_hyphen_values = true)]
    limit_think: Option<OsString>,
    /// Most of a turn's answer, said the same way [default: off]
    #[arg(long, global = true, value_name = "LIMIT", allow_hyphen_values = true)]
    limit_answer: Option<OsString>,
    /// How the screen looks: auto, dark, light, terminal, none, or a theme of your own [default: auto]
    #[arg(long, global = true, help_heading = SETTINGS, value_name = "NAME")]
    theme: Option<OsString>,
}

impl Common {
    /// Each key with what was typed for it.
    pub(super) fn flags(&self) -> impl Iterator<Item = (Key, Option<&OsStr>)> {
        Key::ALL.into_iter().map(|key| {
            let typed = match key {
                Key::Model => &self.model,
                Key::Memory => &self.memory,
                Key::Preset => &self.preset,
                Key::Context => &self.context,
                Key::Reader => &self.reader,
                Key::StateDisk => &self.state_disk,
                Key::Threads => &self.threads,
                Key::Thinking => &self.think,
                Key::Temperature => &self.temperature,
                Key::TopP => &self.top_p,
                Key::LimitThink => &self.limit_think,
                Key::LimitAnswer => &self.limit_answer,
                Key::Theme => &self.theme,
            };
            (key, typed.as_deref())
        })
    }
}

#[derive(Debug, Subcommand)]
pub(super) enum Verb {
    /// Chat, as without a verb
    Chat {
        /// Chat on in this session
        #[arg(long, value_name = "ID")]
        session: Option<String>,
        /// Choose a session first
        #[arg(long, conflicts_with = "session")]
        pick: bool,
        /// Chat in lines, without the full screen
        #[arg(long)]
        inline: bool,
    },
    /// Generate one turn on standard output
    Run(Run),
    /// Set up the real model, step by step; can be left at any moment
    Setup(super::setup::Setup),
    /// Fetch the real model, or check it; can be left at any moment
    Download(super::download::Download),
    /// The conversations that were written down
    Sessions {
        /// What to do with them.
        #[command(subcommand)]
        action: Sessions,
    },
    /// Show how memory would be divided and what a token would cost, without loading anything
    Plan(Plan),
    /// Check a checkpoint's files, down to every byte, and repair them
    Verify(Verify),
    /// What this machine can do, and what to do next
    Doctor(Doctor),
    /// Settings: what counts, where it comes from, and changing it
    Config {
        /// What to do with them.
        #[command(subcommand)]
        action: Config,
    },
    /// Measure this machine
    #[command(subcommand)]
    Bench(Bench),
}

/// What can be done with settings.
#[derive(Debug, Subcommand)]
pub(super) enum Config {
    /// Print the value that counts
    Get {
        /// Name of the setting
        key: String,
    },
    /// Write a value into the config file; comments and order stay
    Set {
        /// Name of the setting
        key: String,
        /// What it is to be
        #[arg(allow_hyphen_values = true)]
        value: String,
    },
    /// Take a setting out of the config file
    Unset {
        /// Name of the setting
        key: String,
    },
    /// Print where the config file lies, whether there is one or not
    Path,
    /// Print every setting with its value, and where that comes from
    Show {
        /// Print one JSON list, and nothing else
        #[arg(long)]
        json: bool,
    },
}

/// What can be done with sessions.
#[derive(Debug, Subcommand)]
pub(super) enum Sessions {
    /// List all, the one that was written last first
    List,
    /// Show a conversation
    Show {
        /// Name of the session
        id: String,
        /// All its branches, not only the one that is gone on with
        #[arg(long)]
        all: bool,
    },
    /// Give a session another title
    Rename {
        /// Name of the session
        id: String,
        /// How it is to be called
        title: String,
    },
    /// Write a conversation to standard output
    Export {
        /// Name of the session
        id: String,
        /// Markdown, messages as OpenAI has them, or one line of generated ids for each turn
        #[arg(long, value_enum, default_value_t = ExportFormat::Markdown)]
        format: ExportFormat,
        /// All its branches, one after another, and not only the one that is gone on with
        #[arg(long)]
        all: bool,
    },
    /// Delete a session for good
    Delete {
        /// Name of the session
        id: String,
    },
}

/// Forms in which a session is exported.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(super) enum ExportFormat {
    Markdown,
    #[value(name = "messages", alias = "openai")]
    Openai,
    Ids,
}

impl ExportFormat {
    /// The form that it names.
    pub(super) const fn form(self) -> Form {
        match self {
            Self::Markdown => Form::Markdown,
            Self::Openai => Form::Messages,
            Self::Ids => Form::Ids,
        }
    }
}

/// What memory would be used for.
#[derive(Debug, Default, ClapArgs)]
pub(super) struct Plan {
    /// Conversations that are to share each pass, as `dormouse run --messages-dir` takes them [default: 1]
    #[arg(long, value_name = "N", value_parser = conversations())]
    pub(super) together: Option<usize>,
    /// Print one JSON object, and nothing else
    #[arg(long)]
    pub(super) json: bool,
}

/// A look at the machine.
#[derive(Debug, Default, ClapArgs)]
#[command(after_help = DOCTOR_HELP)]
pub(super) struct Doctor {
    /// Where the real model is to go, or is; without it, the model that counts [default: Kimi-K3 among the user's models]
    #[arg(long, value_name = "DIR")]
    pub(super) target: Option<PathBuf>,
    /// Do not measure the disk
    #[arg(long)]
    pub(super) no_disk: bool,
    /// Print one JSON object, and nothing else
    #[arg(long)]
    pub(super) json: bool,
    /// Folder in which /proc and /sys lie
    #[arg(long, value_name = "DIR", hide = true)]
    pub(super) root: Option<PathBuf>,
}

/// A look at all files.
#[derive(Debug, Default, ClapArgs)]
#[command(after_help = VERIFY_HELP, group = ArgGroup::new("depth").multiple(false))]
#[expect(clippy::struct_excessive_bools, reason = "one flag each, of which one may be given")]
pub(super) struct Verify {
    /// Only look at files, headers and sizes, also where there are checksums
    #[arg(long, group = "depth")]
    pub(super) quick: bool,
    /// Hold every byte against the digests that were published; goes on where it was stopped
    #[arg(long, group = "depth")]
    pub(super) deep: bool,
    /// The same, and fetch the files that are damaged or missing, and no others
    #[arg(long, group = "depth")]
    pub(super) repair: bool,
    /// Read everything and write down its checksums, so that every later read can be held against them
    #[arg(long, group = "depth")]
    pub(super) seal: bool,
    /// Print one JSON object, and nothing else
    #[arg(long)]
    pub(super) json: bool,
}

/// What is measured.
#[derive(Debug, Subcommand)]
pub(super) enum Bench {
    /// How fast a disk reads, past the page cache: pieces of several sizes, several at once
    Disk(BenchDisk),
    /// How fast the model decodes, what it reads for a token, and how long it waits for that
    Decode(BenchDecode),
    /// What a token takes after many others, and the memory of the model's state
    Context(BenchContext),
    /// How fast the arithmetic is, on one thread and on all, beside how fast memory can be read
    Kernels(BenchKernels),
}

/// A few tokens late in a long context.
#[derive(Debug, Default, ClapArgs)]
pub(super) struct BenchContext {
    /// Positions before the token, one after another
    #[arg(long, value_name = "LIST", value_delimiter = ',', default_value = "0,1024,8192,32768")]
    pub(super) positions: Vec<usize>,
    /// Tokens to measure at each
    #[arg(long, value_name = "N", default_value = "5", value_parser = some_tokens)]
    pub(super) tokens: usize,
    /// Print one JSON object, and nothing else
    #[arg(long)]
    pub(super) json: bool,
}

/// Matrices of the released model's shapes.
#[derive(Debug, Default, ClapArgs)]
pub(super) struct BenchKernels {
    /// How often each is measured
    #[arg(long, value_name = "N", default_value = "9", value_parser = RangedU64ValueParser::<usize>::new().range(1..=1000))]
    pub(super) repeats: usize,
    /// Print one JSON object, and nothing else
    #[arg(long)]
    pub(super) json: bool,
}

/// A sweep over one disk.
#[derive(Debug, Default, ClapArgs)]
pub(super) struct BenchDisk {
    /// Read a file of random bytes that is written into this folder and deleted again, in place of a model's shards
    #[arg(long, value_name = "DIR")]
    pub(super) target: Option<PathBuf>,
    /// Size of that file
    #[arg(long, value_name = "SIZE", default_value = "2GiB", requires = "target")]
    pub(super) size: Bytes,
    /// About how many seconds it all may take
    #[arg(long, value_name = "N", default_value = "20", value_parser = seconds)]
    pub(super) seconds: f64,
    /// Print one JSON object, and nothing else
    #[arg(long)]
    pub(super) json: bool,
}

/// Some tokens, with a watch.
#[derive(Debug, Default, ClapArgs)]
pub(super) struct BenchDecode {
    /// Tokens to decode, after a prompt that is always the same
    #[arg(long, value_name = "N", default_value = "16", value_parser = some_tokens)]
    pub(super) tokens: usize,
    /// Tokens of that prompt
    #[arg(long, value_name = "N", default_value = "16", value_parser = some_tokens)]
    pub(super) prompt: usize,
    /// Read the prompt once before it counts, so that all is in memory that the budget holds
    #[arg(long)]
    pub(super) warm: bool,
    /// Afterwards as many tokens again in turns with the bare disk, and their time against what it gives at best
    #[arg(long)]
    pub(super) disk: bool,
    /// Print one JSON object, and nothing else
    #[arg(long)]
    pub(super) json: bool,
}

/// One turn for a script.
#[derive(Debug, Default, ClapArgs)]
#[command(after_help = RUN_EXAMPLES, group = ArgGroup::new("input").required(true).multiple(false))]
pub(super) struct Run {
    /// One turn of the user
    #[arg(long, value_name = "TEXT", group = "input", allow_hyphen_values = true)]
    pub(super) prompt: Option<String>,
    /// The same from a file; - is standard input
    #[arg(long, value_name = "F", group = "input")]
    pub(super) prompt_file: Option<PathBuf>,
    /// Token ids as they are, like 1,2,3
    #[arg(long, value_name = "LIST", group = "input", allow_hyphen_values = true)]
    pub(super) ids: Option<String>,
    /// A conversation, as a JSON list in the form of OpenAI's chat messages
    #[arg(long, value_name = "F.json", group = "input")]
    pub(super) messages: Option<PathBuf>,
    /// All prompts of a folder, one after another: a .json file is a conversation as --messages takes it, a .txt file one
    /// turn of the user; the same command again goes on with what is unfinished
    #[arg(
        long,
        value_name = "DIR",
        group = "input",
        requires = "out",
        conflicts_with_all = ["session", "raw", "logits"]
    )]
    pub(super) messages_dir: Option<PathBuf>,
    /// Where the answers of --messages-dir go: for each prompt the object of --json, and a journal
    #[arg(long, value_name = "DIR", requires = "messages_dir", conflicts_with_all = ALONE)]
    pub(super) out: Option<PathBuf>,
    /// Conversations of --messages-dir that share every pass over the weights; takes memory for each, and never changes an
    /// answer [default: 1]
    #[arg(long, value_name = "N", requires = "messages_dir", conflicts_with_all = ALONE, value_parser = conversations())]
    pub(super) together: Option<usize>,
    /// Finish the last turn of the session, which was cut, to the answer that it would have become
    #[arg(
        id = "continue",
        long = "continue",
        group = "input",
        requires = "session",
        conflicts_with_all = ["seed", "max_tokens"]
    )]
    pub(super) go_on: bool,
    /// Write the turn down in this session, after the turns before it; a new name makes a new session
    #[arg(long, value_name = "ID", conflicts_with_all = ["ids", "messages", "raw"])]
    pub(super) session: Option<String>,
    /// Take the text of --prompt or --prompt-file as it is, without the chat format
    #[arg(long, conflicts_with_all = ["ids", "messages"])]
    pub(super) raw: bool,
    /// Most tokens to generate; without it, up to the context limit
    #[arg(long, value_name = "N")]
    pub(super) max_tokens: Option<usize>,
    /// Makes a run repeatable; drawn at random without it
    #[arg(long, value_name = "N")]
    pub(super) seed: Option<u64>,
    /// Prompt tokens that one pass computes together; never changes the answer
    #[arg(long, value_name = "N", value_parser = chunk)]
    pub(super) prefill_chunk: Option<usize>,
    /// Print one JSON object at the end, and nothing else; with --messages-dir one for each prompt
    #[arg(long)]
    pub(super) json: bool,
    /// Write the logits of each step to a file, as little-endian f32
    #[arg(long, value_name = "FILE")]
    pub(super) logits: Option<PathBuf>,
}

/// Inputs of a single turn. What only many prompts take conflicts with each: clap drops a requirement that the input given
/// rules out.
const ALONE: [&str; 5] = ["prompt", "prompt_file", "ids", "messages", "continue"];

/// A pass has a token of each, and this many tokens of a prompt in a pass are planned for anyway.
const MOST_TOGETHER: u64 = 64;

fn conversations() -> RangedU64ValueParser<usize> {
    RangedU64ValueParser::new().range(1..=MOST_TOGETHER)
}

fn some_tokens(text: &str) -> Result<usize, String> {
    match text.parse() {
        Ok(0) => Err("at least one token must be decoded".to_owned()),
        Ok(count) => Ok(count),
        Err(error) => Err(format!("{error}")),
    }
}

fn seconds(text: &str) -> Result<f64, String> {
    match text.parse() {
        Ok(seconds) if (1.0..=3600.0).contains(&seconds) => Ok(seconds),
        Ok(_) => Err("it must lie between 1 and 3600".to_owned()),
        Err(error) => Err(format!("{error}")),
    }
}

fn chunk(text: &str) -> Result<usize, String> {
    match text.parse() {
        Ok(0) => Err("a pass needs at least one token".to_owned()),
        Ok(count) => Ok(count),
        Err(error) => Err(format!("{error}")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(arguments: &str) -> Result<Args, clap::Error> {
        Args::try_parse_from(std::iter::once("dormouse").chain(arguments.split_whitespace()))
    }

    fn typed(args: &Args, key: Key) -> Option<String> {
        args.common.flags().find(|(k, _)| *k == key).and_then(|(_, v)| Some(v?.to_str()?.to_owned()))
    }

    #[test]
    fn the_definition_is_sound() {
        use clap::CommandFactory;
        Args::command().debug_assert();
    }

    #[test]
    fn settings_stand_before_or_after_the_verb() {
        for line in [
            "--model k3 --threads 3",
            "--model k3 run --threads 3 --prompt a",
            "run --prompt a --model k3 --threads 3",
        ] {
            let args = parse(line).unwrap();
            assert_eq!(typed(&args, Key::Model).as_deref(), Some("k3"), "{line}");
            assert_eq!(typed(&args, Key::Threads).as_deref(), Some("3"), "{line}");
            assert_eq!(typed(&args, Key::Memory), None, "{line}");
        }
    }

    #[test]
    fn a_run_has_exactly_one_input() {
        assert!(parse("run").is_err());
        assert!(parse("run --prompt a --ids 1").is_err());
        assert!(parse("run --messages a --prompt-file b").is_err());
        assert!(parse("run --raw --ids 1").is_err());
        assert!(parse("run --raw --prompt-file b").is_ok());
        assert!(parse("run --messages-dir a --out b --together 4 --json").is_ok());
        for line in [
            "--messages-dir a",
            "--prompt a --out b",
            "--prompt a --together 2",
            "--messages-dir a --out b --together 0",
            "--messages-dir a --out b --together 65",
            "--messages-dir a --out b --session c",
            "--messages-dir a --out b --prompt c",
        ] {
            assert!(parse(&format!("run {line}")).is_err(), "{line}");
        }
    }

    #[test]
    fn text_may_begin_with_a_hyphen() {
        let args = parse("run --prompt -1+1 --temperature -1").unwrap();
        let Some(Verb::Run(run)) = &args.verb else { panic!("a run was typed") };
        assert_eq!(run.prompt.as_deref(), Some("-1+1"));
        assert_eq!(typed(&args, Key::Temperature).as_deref(), Some("-1"));
    }

    #[test]
    fn numbers_must_be_numbers() {
        for line in ["--max-tokens abc", "--max-tokens -1", "--seed 1.5", "--prefill-chunk 0"] {
            assert!(parse(&format!("run --prompt a {line}")).is_err(), "{line}");
        }
    }
}
