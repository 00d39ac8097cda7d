//! `--backoff`: pauses between the attempts of a CAS.

use std::fmt;
use std::str::FromStr;

use dmtree_lock::Backoff;

use super::quantity::{QuantityError, Time};

/// `none`, or `exp:MIN,MAX` with two times.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BackoffChoice(
    /// What it stands for.
    pub Backoff,
);

/// A longer pause is refused: nobody would try for a free lock so long that its clients count as stuck.
const LONGEST: Time = Time::from_ns(100_000_000);

/// Why a text is no backoff.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
pub enum BackoffError {
    /// It is another word, or has no two times.
    #[error(
        "{0:?} is no backoff; write none, or exp:MIN,MAX for random pauses up to a bound that doubles from MIN to MAX, \
         such as exp:2us,64us"
    )]
    Unknown(String),
    /// One of the times is none.
    #[error("a bound of exp:MIN,MAX: {0}")]
    Time(#[from] QuantityError),
    /// They are not in order or out of range.
    #[error(
        "exp:{min},{max} is out of range: MIN is above 0 and at most MAX, MAX at most {LONGEST}, such as exp:2us,64us"
    )]
    Range {
        /// The first bound.
        min: Time,
        /// The greatest.
        max: Time,
    },
}

impl FromStr for BackoffChoice {
    type Err = BackoffError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        if text == "none" {
            return Ok(Self(Backoff::None));
        }
        let bounds = text.strip_prefix("exp:");
        let Some((min, max)) = bounds.and_then(|bounds| bounds.split_once(',')) else {
            return Err(BackoffError::Unknown(text.to_owned()));
        };
        let (min, max): (Time, Time) = (min.parse()?, max.parse()?);
        if min.ns == 0 || min > max || max > LONGEST {
            return Err(BackoffError::Range { min, max });
        }
        Ok(Self(Backoff::Exponential {
            min_ns: min.ns,
            max_ns: max.ns,
        }))
    }
}

impl fmt::Display for BackoffChoice {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0 {
            Backoff::None => f.write_str("none"),
            Backoff::Exponential { min_ns, max_ns } => {
                write!(f, "exp:{},{}", Time::from_ns(min_ns), Time::from_ns(max_ns))
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn backoffs_are_read_and_written() {
        for (text, backoff) in [
            ("none", Backoff::None),
            (
                "exp:2us,64us",
                Backoff::Exponential {
                    min_ns: 2000,
                    max_ns: 64_000,
                },
            ),
            (
                "exp:1us 500ns,100ms",
                Backoff::Exponential {
                    min_ns: 1500,
                    max_ns: 100_000_000,
                },
            ),
        ] {
            let read: BackoffChoice = text.parse().unwrap();
            assert_eq!(read, BackoffChoice(backoff));
            assert_eq!(read.to_string(), text);
        }
    }

    #[test]
    fn errors_say_what_would_be_right() {
        for (text, words) in [
            ("", &["exp:MIN,MAX", "none"][..]),
            ("exp", &["\"exp\"", "exp:2us,64us"]),
            ("exp:2us", &["\"exp:2us\"", "exp:2us,64us"]),
            ("linear:1us,2us", &["linear", "none"]),
            ("exp:x,2us", &["\"x\"", "time", "2us"]),
            ("exp:0,2us", &["exp:0s,2us", "above 0"]),
            ("exp:3us,2us", &["exp:3us,2us", "at most MAX"]),
            ("exp:3us,1", &["exp:3us,1s", "at most 100ms"]),
        ] {
            let error = text.parse::<BackoffChoice>().unwrap_err().to_string();
            for word in words {
                assert!(error.contains(word), "{text}: {word:?} is not in {error:?}");
            }
        }
    }
}
