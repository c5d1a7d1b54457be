//! `dormouse download`: fetches the real model, or checks it.

mod show;

use std::path::PathBuf;

use clap::Args;

use super::{Done, no_resource};
use crate::config::Paths;
use crate::protocol::{ExitCode, UserError};
use crate::setup::download::{self, Access, ENDPOINT, Error, JOBS, Options, Summary, Token};
use crate::sys::signals::StopSignal;
use crate::units::Bytes;
pub(super) use show::Show;

/// The variable that holds the hub's address, in the hub's own tools as well.
const ENDPOINT_VARIABLE: &str = "HF_ENDPOINT";
/// The one that holds the token.
const TOKEN_VARIABLE: &str = "HF_TOKEN";
const ENDPOINT_HELP: &str = "Address of the hub [default: that in HF_ENDPOINT, else https://huggingface.co]";
const TOKEN_HELP: &str = "Variable of the environment that holds the hub's token [default: HF_TOKEN]";
/// Name of the real model's folder.
pub(super) const NAME: &str = "Kimi-K3";

const HELP: &str = "\
Stop it whenever you like, with Ctrl-C or by pulling the plug: the same command goes on where it was. \
A file has its final name only when its digest is the published one. Over a complete folder the \
command checks every byte and fetches what is damaged; a file of the same name that is another one is \
replaced.

Proxies come from ALL_PROXY, HTTPS_PROXY, HTTP_PROXY and NO_PROXY.";

/// What was typed.
#[derive(Debug, Default, Args)]
#[command(after_help = HELP)]
pub(super) struct Download {
    /// Where the files go [default: Kimi-K3 among the user's models]
    #[arg(value_name = "DIR")]
    dir: Option<PathBuf>,
    #[command(flatten)]
    hub: Hub,
    /// Only files whose path is like this, with * and ?; may be given several times
    #[arg(long, value_name = "PATTERN")]
    only: Vec<String>,
    /// Print one JSON object for each event on standard output
    #[arg(long)]
    json: bool,
}

/// Where from, and how.
#[derive(Debug, Args)]
pub(super) struct Hub {
    #[arg(long, value_name = "URL", help = ENDPOINT_HELP)]
    endpoint: Option<String>,
    /// Branch, tag or commit [default: that of the folder, else main]
    #[arg(long, value_name = "REV")]
    revision: Option<String>,
    #[arg(long, value_name = "NAME", help = TOKEN_HELP)]
    token_env: Option<String>,
    /// Files that are fetched at once
    #[arg(long, value_name = "N", default_value_t = JOBS as u64, value_parser = clap::value_parser!(u64).range(1..=64))]
    jobs: u64,
    /// Most bytes in a second, like 20MB
    #[arg(long, value_name = "RATE", value_parser = rate)]
    limit: Option<Bytes>,
    /// Bytes that are made safe at once
    #[arg(long, value_name = "SIZE", hide = true, value_parser = rate)]
    block: Option<Bytes>,
}

impl Default for Hub {
    fn default() -> Self {
        Self { endpoint: None, revision: None, token_env: None, jobs: JOBS as u64, limit: None, block: None }
    }
}

impl Hub {
    /// The real model into `folder`, from the hub and with the token that were typed or that the environment names.
    pub(super) fn options(&self, folder: PathBuf) -> Result<Options, UserError> {
        let token = token(self.token_env.as_deref())?;
        Ok(Options { token, ..self.without_token(folder) })
    }

    /// The same, as somebody whom the hub does not know.
    pub(super) fn without_token(&self, folder: PathBuf) -> Options {
        let defaults = Options::new(folder);
        let endpoint = self.endpoint.clone().or_else(|| variable(ENDPOINT_VARIABLE));
        Options {
            endpoint: endpoint.unwrap_or_else(|| ENDPOINT.to_owned()),
            revision: self.revision.clone(),
            jobs: usize::try_from(self.jobs).unwrap_or(JOBS),
            limit: self.limit.map(|limit| limit.0),
            block: self.block.map_or(defaults.block, |block| block.0),
            ..defaults
        }
    }
}

/// A size that is not zero, with or without `/s`.
fn rate(text: &str) -> Result<Bytes, String> {
    match text.trim().trim_end_matches("/s").parse::<Bytes>() {
        Ok(Bytes(0)) => Err("it must be more than nothing".to_owned()),
        Ok(rate) => Ok(rate),
        Err(error) => Err(error.to_string()),
    }
}

/// Runs it.
pub(super) fn run(args: &Download) -> Result<Done, UserError> {
    let options = options(args)?;
    let stop = StopSignal::watch(ExitCode::Stopped as u8).map_err(|error| no_resource("signals", &error))?;
    let mut show = Show::new(args.json);
    let ended = download::run(&options, &|| stop.is_set(), &mut |event| show.event(&event));
    match ended {
        Ok(summary) => {
            show.done(&summary, &next(args, &summary));
            Ok(Done::Well)
        }
        Err(Error::Stopped) => {
            show.stopped();
            Ok(Done::Stopped)
        }
        Err(error) => {
            show.failed(&error);
            Err(error.into())
        }
    }
}

/// The real model into `folder`, from the hub and with the token that the environment names.
pub(super) fn from_environment(folder: PathBuf) -> Result<Options, UserError> {
    Hub::default().options(folder)
}

fn options(args: &Download) -> Result<Options, UserError> {
    let folder = match &args.dir {
        Some(dir) => dir.clone(),
        None => Paths::of_user()?.models().join(NAME),
    };
    Ok(Options { only: args.only.clone(), ..args.hub.options(folder)? })
}

fn variable(name: &str) -> Option<String> {
    std::env::var(name).ok().filter(|value| !value.trim().is_empty())
}

/// The token in the variable of this name, or in the usual one.
fn token(typed: Option<&str>) -> Result<Option<Token>, UserError> {
    let name = typed.unwrap_or(TOKEN_VARIABLE);
    // Whatever is wrong with it: its text is never shown.
    let bad = |problem: &str| {
        let detail = format!("the variable {name} {problem}");
        UserError::new(ExitCode::Usage, "There is no usable token", detail)
    };
    match variable(name) {
        Some(text) => Token::new(&text).map(Some).ok_or_else(|| bad("holds what cannot be a token")),
        None if typed.is_some() => Err(bad("is not set")),
        None => Ok(None),
    }
}

/// What to do when all is there.
fn next(args: &Download, summary: &Summary) -> String {
    if args.only.is_empty() {
        format!("chat with it: dormouse --model {}", quoted(&summary.folder.display().to_string()))
    } else {
        "without --only the other files come as well".to_owned()
    }
}

/// As a shell wants it.
pub(super) fn quoted(text: &str) -> String {
    let plain = |c: char| c.is_alphanumeric() || matches!(c, '/' | '.' | '-' | '_' | '~' | '+');
    if text.chars().all(plain) { text.to_owned() } else { format!("'{}'", text.replace('\'', r"'\''")) }
}

impl From<Error> for UserError {
    fn from(error: Error) -> Self {
        Self::from(&error)
    }
}

impl From<&Error> for UserError {
    fn from(error: &Error) -> Self {
        let (code, title, hint) = match error {
            Error::Access { access: Access::NoToken, .. } => (
                ExitCode::Usage,
                "The hub wants a token",
                "Make one in the settings of your account there, and put it into HF_TOKEN.",
            ),
            Error::Access { access: Access::BadToken, .. } => (
                ExitCode::Usage,
                "The hub does not accept the token",
                "It may have run out or been withdrawn: make a new one in the settings of your account there.",
            ),
            Error::Access { access: Access::Terms, .. } => (
                ExitCode::Usage,
                "The terms are not accepted yet",
                "Open the page while signed in as the token's owner, accept, and run this again.",
            ),
            Error::Setting { .. } => (ExitCode::Usage, "Bad settings", ""),
            Error::NothingWanted { .. } => (ExitCode::Usage, "Nothing to fetch", ""),
            Error::NotFound(_) => (
                ExitCode::Usage,
                "The hub does not have it",
                "Look at --revision, and at --endpoint and HF_ENDPOINT.",
            ),
            Error::Locked { .. } => (
                ExitCode::Resources,
                "Another download has this folder",
                "Wait for it, stop it, or name another folder.",
            ),
            Error::NoSpace { .. } => (
                ExitCode::Resources,
                "There is not enough room",
                "Make room, or name a folder on another disk. What is there is kept.",
            ),
            Error::Io { .. } | Error::File(_) => (ExitCode::Resources, "The system refuses", ""),
            Error::Manifest(_) | Error::Protocol(_) => {
                (ExitCode::ModelFiles, "The hub's answer cannot be used", "")
            }
            Error::Certificate(_) => (
                ExitCode::ModelFiles,
                "Whoever answers cannot prove to be the hub",
                "Where a company's proxy puts its own certificate in between, name the file of its authority in \
                 SSL_CERT_FILE. Else see whether the clock is right, and trust nothing that comes from there.",
            ),
            Error::GaveUp { .. } => (
                ExitCode::ModelFiles,
                "The hub cannot be reached",
                "Look at the network, and at the proxy in the environment. The same command goes on.",
            ),
            Error::Incomplete { .. } => (
                ExitCode::ModelFiles,
                "The model is not complete",
                "The same command fetches only what is missing.",
            ),
            Error::Stopped => (ExitCode::Stopped, "Stopped", ""),
        };
        Self::new(code, title, error.to_string()).with_hint(hint)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rates_may_end_in_per_second() {
        assert_eq!(rate("20MB/s"), Ok(Bytes(20_000_000)));
        assert_eq!(rate("1MiB"), Ok(Bytes(1 << 20)));
        assert!(rate("0").is_err() && rate("fast").is_err());
    }

    #[test]
    fn a_command_to_copy_survives_the_shell() {
        assert_eq!(quoted("/data/k3"), "/data/k3");
        assert_eq!(quoted("/my models/k3 'è'"), r"'/my models/k3 '\''è'\'''");
    }

    #[test]
    fn every_refusal_names_a_way_out() {
        for access in [Access::NoToken, Access::BadToken, Access::Terms] {
            let error = UserError::from(Error::Access { access, page: "https://hub.example/o/n".into() });
            assert_eq!(error.code, ExitCode::Usage);
            assert!(!error.hint.is_empty() && error.detail.contains("https://hub.example/o/n"), "{error}");
        }
    }
}
