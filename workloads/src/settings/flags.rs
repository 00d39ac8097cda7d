//! Options as the flags that say them.

use serde_json::{Map, Value};

use super::Options;
use crate::error::{Failure, Result};

/// The flags by which `options` differ from `others`, both complete.
///
/// # Errors
/// [`Failure::Work`] when the options have no JSON form; they have.
pub(crate) fn difference(options: &Options, others: &Options) -> Result<Vec<String>> {
    let (ours, theirs) = (object(options)?, object(others)?);
    let mut flags = Vec::new();
    for (name, value) in &ours {
        if theirs.get(name) == Some(value) {
            continue;
        }
        match value {
            // The only list is that of parameters, a flag each.
            Value::Array(items) => flags.extend(items.iter().map(|item| flag(name, item))),
            value => flags.push(flag(name, value)),
        }
    }
    Ok(flags)
}

fn object(options: &Options) -> Result<Map<String, Value>> {
    match serde_json::to_value(options) {
        Ok(Value::Object(object)) => Ok(object),
        Ok(_) => Err(Failure::Work("the options are no object".to_owned())),
        Err(error) => Err(Failure::Work(format!(
            "cannot write the options as flags: {error}"
        ))),
    }
}

fn flag(name: &str, value: &Value) -> String {
    match value {
        // A switch takes its position behind `=` only.
        Value::Bool(on) => format!("--{name}={}", if *on { "on" } else { "off" }),
        Value::String(text) if text.contains(' ') => format!("--{name} '{text}'"),
        Value::String(text) => format!("--{name} {text}"),
        other => format!("--{name} {other}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::settings::{Settings, default_options};

    #[test]
    fn only_what_differs_is_said() {
        let options = |text: &str| {
            let given: Options = toml::from_str(text).unwrap();
            Settings::of(given).unwrap().options
        };
        let plain = options("");
        assert_eq!(difference(&plain, &plain).unwrap(), [""; 0]);
        let other = options(
            "keys = \"1M\"\nhostile = true\nlock = \"sherman,alock:20,5\"\nseconds = 0.25\n\
             set = [\"wire_ns=5\", \"post_ns=6\"]\n",
        );
        let mut flags = difference(&other, &plain).unwrap();
        flags.sort();
        assert_eq!(
            flags,
            [
                "--hostile=on",
                "--keys 1000000",
                "--lock sherman,alock:20,5",
                "--seconds 250ms",
                "--set post_ns=6",
                "--set wire_ns=5",
            ]
        );
        assert_eq!(plain.keys, default_options().keys);
    }
}
