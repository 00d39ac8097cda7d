//! The TOML config file.

use std::path::Path;

use super::Options;
use crate::error::{Failure, Result};
use crate::real::nodes::part;

/// Reads options from the TOML file at `path`.
///
/// # Errors
/// [`Failure::Usage`] naming the file, the line, what is wrong and what exists.
pub fn read_config(path: &Path) -> Result<Options> {
    let text = std::fs::read_to_string(path).map_err(|error| {
        Failure::Usage(format!(
            "cannot read the config file {}: {error}",
            path.display()
        ))
    })?;
    parse_options(&text, &path.display().to_string())
}

/// The options of `text`, which messages call `name`.
///
/// # Errors
/// [`Failure::Usage`] naming the line, what is wrong and what exists.
pub(crate) fn parse_options(text: &str, name: &str) -> Result<Options> {
    // What the file says of a cluster is for those who make one.
    parse_config(&part(text, false)).map_err(|problem| {
        Failure::Usage(format!(
            "{name}:{}: {}{}",
            problem.line,
            problem.key.map_or(String::new(), |key| format!("{key}: ")),
            problem.message
        ))
    })
}

#[derive(Debug, PartialEq)]
pub(super) struct Problem {
    line: usize,
    /// Whose value is wrong, as far as the text shows it and the message does not.
    key: Option<String>,
    message: String,
}

pub(super) fn parse_config(text: &str) -> std::result::Result<Options, Problem> {
    toml::from_str(text).map_err(|error: toml::de::Error| {
        let start = error.span().map_or(0, |span| span.start).min(text.len());
        // A syntax error's message can have several lines.
        let message = error.message().lines().collect::<Vec<_>>().join("; ");
        Problem {
            key: key_at(text, start).filter(|key| !message.contains(&format!("`{key}`"))),
            line: 1 + text.as_bytes()[..start]
                .iter()
                .filter(|byte| **byte == b'\n')
                .count(),
            message,
        }
    })
}

/// The key whose value the byte at `start` of `text` is in: that of the last line up to it that begins with one, as the
/// lines of a list do not.
fn key_at(text: &str, start: usize) -> Option<String> {
    let end = text.as_bytes()[start..]
        .iter()
        .position(|byte| *byte == b'\n')
        .map_or(text.len(), |length| start + length);
    // A span can begin within no letter; the end of a line is the end of one.
    text.get(..end)?.lines().rev().find_map(|line| {
        let (key, _) = line.split_once('=')?;
        let key = key.trim().trim_matches(['"', '\'']);
        let is_key = |letter: char| letter.is_ascii_alphanumeric() || "-_".contains(letter);
        (!key.is_empty() && key.chars().all(is_key)).then(|| key.to_owned())
    })
}

/// The options as TOML text that [`read_config`] takes.
///
/// # Errors
/// [`Failure::Work`] when a value has no TOML form; none has.
pub fn config_text(options: &Options) -> Result<String> {
    toml::to_string(options)
        .map_err(|error| Failure::Work(format!("cannot write the config as TOML: {error}")))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn problems_come_with_their_line() {
        let problem = parse_config("# a comment\nnodes = 3\nnoodles = 4\n").unwrap_err();
        assert_eq!(problem.line, 3);
        for word in ["noodles", "`nodes`", "`lock`", "`data-path`"] {
            assert!(problem.message.contains(word), "{}", problem.message);
        }
        let problem = parse_config("nodes = 3\n\nthreads = 0\n").unwrap_err();
        assert_eq!(
            (
                problem.line,
                problem.key.as_deref(),
                problem.message.as_str()
            ),
            (3, Some("threads"), "0 is out of range: from 1 to 65535")
        );
        let problem = parse_config("nodes = 3\nkeys = 10M\n").unwrap_err();
        assert_eq!((problem.line, problem.key.as_deref()), (2, Some("keys")));
        let problem = parse_config("nodes = 3\n\"threads\" = 0").unwrap_err();
        assert_eq!(problem.key.as_deref(), Some("threads"));
        let problem = parse_config("nodes = 3\nlock = [\n  # a=b\n  \"spin\",\n]\n").unwrap_err();
        assert_eq!(problem.key.as_deref(), Some("lock"), "{problem:?}");
        let problem = parse_config("noodles = 3\n").unwrap_err();
        assert_eq!(problem.key, None, "the message has it: {problem:?}");
        assert_eq!(parse_config("nodes = 3\nnodes = 4\n").unwrap_err().line, 2);
        let problem =
            parse_config("nodes = 3\ndistribution = [\"uniform\", \"normal\"]\n").unwrap_err();
        assert_eq!(problem.line, 2);
        assert!(
            problem.message.contains("zipf:THETA"),
            "{}",
            problem.message
        );
    }

    #[test]
    fn values_may_be_numbers_strings_booleans_or_lists() {
        let options = parse_config(
            "lock = [\"sherman\", \"alock:20,5\"]\nkeys = \"10M\"\nnodes = 4\nseconds = 0.5\njitter = \"2us\"\n\
             hostile = true\nfill = 0.8\nhandover-limit = \"none\"\nseed = \"18446744073709551615\"\n",
        )
        .unwrap();
        assert_eq!(
            options.lock.as_ref().unwrap().to_string(),
            "sherman,alock:20,5"
        );
        assert_eq!(options.keys.unwrap().get(), 10_000_000);
        assert_eq!(options.seconds.unwrap().get().ns, 500_000_000);
        assert!(options.hostile.unwrap().is_on());
        assert_eq!(options.seed.unwrap().get(), u64::MAX);
        let text = config_text(&options).unwrap();
        assert_eq!(parse_config(&text).unwrap(), options, "{text}");
        for line in [
            "nodes = 4",
            "hostile = true",
            "fill = 0.8",
            "lock = \"sherman,alock:20,5\"",
        ] {
            assert!(text.lines().any(|other| other == line), "{line} in {text}");
        }
    }
}
