//! Parameters of a profile by name: their text form, bounds and errors.

use std::fmt;
use std::str::FromStr;

/// A parameter and its source.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Param<T> {
    /// The value.
    pub value: T,
    /// Where it comes from; starts with `assumed` when it has no source.
    pub source: &'static str,
}

pub(super) const fn param<T>(value: T, source: &'static str) -> Param<T> {
    Param { value, source }
}

/// What a fetch of queue-pair state that the RNIC's cache misses is charged to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MissCharge {
    /// The first verb of a chain: the rest of it finds the state cached.
    Chain,
    /// Every verb.
    Verb,
}

/// Queue-pair state cache: how many READs a machine that sends and serves makes, by active queue pairs of its RNIC.
/// Without rows nothing is ever missed.
///
/// Its text form is `48:10.45,88:6.9`: active queue pairs and M READs/s.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct QpTable(
    /// (active queue pairs, M READs/s), by queue pairs.
    pub Vec<(u32, f64)>,
);

/// A parameter that cannot be set as asked for.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ParameterError {
    /// No parameter has this name.
    #[error("no parameter is called {name:?}; there are {}", super::Profile::PARAMETERS.join(", "))]
    Unknown {
        /// What was asked for.
        name: String,
    },
    /// The text is no value of the parameter.
    #[error("{text:?} is no value of {name}: {expected}")]
    Value {
        /// The parameter.
        name: &'static str,
        /// What was given.
        text: String,
        /// What would be right.
        expected: String,
    },
}

/// The least and the greatest number that a parameter can be.
#[derive(Clone, Copy, Debug)]
pub(super) struct Bounds(pub(super) f64, pub(super) f64);

/// For parameters that are no numbers.
pub(super) const ANY: Bounds = Bounds(0.0, 0.0);
/// Times in nanoseconds: up to a millisecond, hundreds of times what any part of an RNIC takes.
pub(super) const NS: Bounds = Bounds(0.0, 1e6);
/// Times that may not vanish, since a client that repeats what takes none would stop the clock.
pub(super) const SOME_NS: Bounds = Bounds(0.1, 1e6);

/// The type of a parameter.
pub(super) trait Value: Sized {
    /// Reads it; what would be right when the text is not.
    fn read(text: &str, bounds: Bounds) -> Result<Self, String>;

    /// Writes it as `read` takes it.
    fn text(&self) -> String;
}

fn number<T: FromStr + PartialOrd>(
    text: &str,
    bounds: Bounds,
    kind: &str,
    as_f64: impl Fn(&T) -> f64,
) -> Result<T, String> {
    text.parse()
        .ok()
        .filter(|value| (bounds.0..=bounds.1).contains(&as_f64(value)))
        .ok_or_else(|| format!("a {kind} from {} to {}", bounds.0, bounds.1))
}

impl Value for f64 {
    fn read(text: &str, bounds: Bounds) -> Result<Self, String> {
        number(text, bounds, "number", |value| *value)
    }

    fn text(&self) -> String {
        self.to_string()
    }
}

impl Value for u32 {
    fn read(text: &str, bounds: Bounds) -> Result<Self, String> {
        number(text, bounds, "whole number", |value| f64::from(*value))
    }

    fn text(&self) -> String {
        self.to_string()
    }
}

impl Value for bool {
    fn read(text: &str, _: Bounds) -> Result<Self, String> {
        match text {
            "on" | "true" => Ok(true),
            "off" | "false" => Ok(false),
            _ => Err("on or off".to_owned()),
        }
    }

    fn text(&self) -> String {
        if *self { "on" } else { "off" }.to_owned()
    }
}

impl Value for MissCharge {
    fn read(text: &str, _: Bounds) -> Result<Self, String> {
        match text {
            "chain" => Ok(Self::Chain),
            "verb" => Ok(Self::Verb),
            _ => Err("chain or verb".to_owned()),
        }
    }

    fn text(&self) -> String {
        match self {
            Self::Chain => "chain",
            Self::Verb => "verb",
        }
        .to_owned()
    }
}

impl Value for QpTable {
    fn read(text: &str, _: Bounds) -> Result<Self, String> {
        let row = |piece: &str| {
            let (active, rate) = piece.split_once(':')?;
            let (active, rate): (u32, f64) = (active.parse().ok()?, rate.parse().ok()?);
            (1e-3..=1e3).contains(&rate).then_some((active, rate))
        };
        let rows: Option<Vec<_>> = if text == "none" {
            Some(Vec::new())
        } else {
            text.split(',').map(row).collect()
        };
        rows.filter(|rows| {
            rows.windows(2)
                .all(|pair| pair[0].0 < pair[1].0 && pair[0].1 >= pair[1].1)
        })
        .map(Self)
        .ok_or_else(|| {
            "active queue pairs and M READs/s (0.001 to 1000), more and more of the former and never more of the \
             latter, as in 48:10.45,88:6.9, or none"
                .to_owned()
        })
    }

    fn text(&self) -> String {
        self.to_string()
    }
}

impl fmt::Display for QpTable {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.0.is_empty() {
            return f.write_str("none");
        }
        for (index, (active, rate)) in self.0.iter().enumerate() {
            let comma = if index > 0 { "," } else { "" };
            write!(f, "{comma}{active}:{rate}")?;
        }
        Ok(())
    }
}
