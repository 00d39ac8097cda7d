//! Numbers and times as people write them.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};

/// A whole number that may carry a unit: `10M`, `1.5k`, `4Ki`, `1_000_000`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Count(
    /// The number.
    pub u64,
);

/// Why a text is no quantity.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
#[error("{text:?} is no {kind}; write for example {example}")]
pub struct QuantityError {
    text: String,
    kind: &'static str,
    example: &'static str,
}

const UNITS: [(&str, u64); 7] = [
    // The binary ones first: "Ki" also ends in nothing else, but "k" must not take "Mi" apart.
    ("Ki", 1 << 10),
    ("Mi", 1 << 20),
    ("Gi", 1 << 30),
    ("k", 1_000),
    ("K", 1_000),
    ("M", 1_000_000),
    ("G", 1_000_000_000),
];

impl FromStr for Count {
    type Err = QuantityError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let error = || QuantityError {
            text: text.to_owned(),
            kind: "whole number",
            example: "1000, 10M or 4Ki",
        };
        let plain = text.replace('_', "");
        let unit = UNITS
            .iter()
            .find_map(|(name, factor)| Some((plain.strip_suffix(name)?, *factor)));
        let (digits, factor) = unit.unwrap_or((&plain, 1));
        if digits.is_empty()
            || !digits
                .bytes()
                .all(|byte| byte.is_ascii_digit() || byte == b'.')
        {
            return Err(error());
        }
        let (whole, fraction) = digits.split_once('.').unwrap_or((digits, ""));
        let whole: u64 = whole.parse().map_err(|_| error())?;
        let mut value = whole.checked_mul(factor).ok_or_else(error)?;
        // 1.5M is 1,500,000; what would not be a whole number is refused.
        let mut step = factor;
        for digit in fraction.bytes() {
            if !digit.is_ascii_digit() || step % 10 != 0 {
                return Err(error());
            }
            step /= 10;
            value = value
                .checked_add(u64::from(digit - b'0') * step)
                .ok_or_else(error)?;
        }
        Ok(Self(value))
    }
}

impl fmt::Display for Count {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

impl Count {
    /// In the shortest form that is exact: `10M`, `32768`.
    pub fn short(self) -> String {
        for (unit, factor) in [("G", 1_000_000_000), ("M", 1_000_000), ("k", 1_000)] {
            if self.0 >= factor && self.0.is_multiple_of(factor) {
                return format!("{}{unit}", self.0 / factor);
            }
        }
        self.0.to_string()
    }
}

/// The longest time that is taken: sums of a few of them must fit 64 bits, and no run takes 11
/// days.
const LONGEST_NS: u64 = 1_000_000_000_000_000;

/// A length of time: seconds as a plain number (`0.5`) or a number with a unit (`500ms`, `2us`).
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Time {
    /// In nanoseconds.
    pub ns: u64,
}

impl Time {
    /// `ns` nanoseconds.
    pub const fn from_ns(ns: u64) -> Self {
        Self { ns }
    }

    /// In seconds.
    pub fn seconds(self) -> f64 {
        self.ns as f64 / 1e9
    }

    /// With one unit, exactly: `115ns`, `5.769us`.
    pub fn short(self) -> String {
        let (unit, factor) = TIME_UNITS
            .into_iter()
            .rev()
            .find(|(_, factor)| self.ns >= *factor)
            .unwrap_or(("s", 1_000_000_000));
        let (whole, rest) = (self.ns / factor, self.ns % factor);
        let digits = factor.ilog10() as usize;
        let fraction = format!("{rest:0digits$}");
        match fraction.trim_end_matches('0') {
            "" => format!("{whole}{unit}"),
            fraction => format!("{whole}.{fraction}{unit}"),
        }
    }
}

/// Units that a number with a fraction may have, in nanoseconds.
const TIME_UNITS: [(&str, u64); 4] = [
    ("ns", 1),
    ("us", 1_000),
    ("ms", 1_000_000),
    ("s", 1_000_000_000),
];

/// `7.5us` in nanoseconds.
fn with_fraction(text: &str) -> Option<f64> {
    let (unit, factor) = TIME_UNITS
        .into_iter()
        .find(|(unit, _)| text.ends_with(unit))?;
    let number = text.strip_suffix(unit)?.trim_end();
    // Only what people write: no exponents, no "inf".
    let is_digit = |letter: char| letter.is_ascii_digit() || letter == '.';
    let number = number.chars().all(is_digit).then_some(number)?;
    Some((number.parse::<f64>().ok()? * factor as f64).round())
}

impl FromStr for Time {
    type Err = QuantityError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let error = || QuantityError {
            text: text.to_owned(),
            kind: "time",
            example: "0.5 (seconds), 500ms or 2us",
        };
        let ns = match text.parse::<f64>() {
            Ok(seconds) => (seconds * 1e9).round(),
            Err(_) => match with_fraction(text) {
                Some(ns) => ns,
                None => humantime::parse_duration(text)
                    .map_err(|_| error())?
                    .as_nanos() as f64,
            },
        };
        if (0.0..=LONGEST_NS as f64).contains(&ns) {
            Ok(Self { ns: ns as u64 })
        } else if ns > 0.0 {
            Err(QuantityError {
                kind: "time that is taken (at most 1,000,000 s)",
                ..error()
            })
        } else {
            Err(error())
        }
    }
}

impl fmt::Display for Time {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        humantime::format_duration(std::time::Duration::from_nanos(self.ns)).fmt(f)
    }
}

/// A length of time above 0.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct PositiveTime(Time);

/// Why a text is no time above 0.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
pub enum PositiveTimeError {
    /// It is no time.
    #[error(transparent)]
    Malformed(#[from] QuantityError),
    /// It is 0.
    #[error("{0:?} is out of range: it must be above 0")]
    Zero(String),
}

impl PositiveTime {
    /// `ns` nanoseconds.
    ///
    /// # Panics
    /// When that is 0.
    pub const fn from_ns(ns: u64) -> Self {
        assert!(ns > 0, "above 0");
        Self(Time::from_ns(ns))
    }

    /// The time.
    pub const fn get(self) -> Time {
        self.0
    }
}

impl TryFrom<String> for PositiveTime {
    type Error = PositiveTimeError;

    fn try_from(text: String) -> Result<Self, Self::Error> {
        text.parse()
    }
}

impl From<PositiveTime> for String {
    fn from(time: PositiveTime) -> Self {
        time.to_string()
    }
}

impl FromStr for PositiveTime {
    type Err = PositiveTimeError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let time: Time = text.parse()?;
        if time.ns == 0 {
            Err(PositiveTimeError::Zero(text.to_owned()))
        } else {
            Ok(Self(time))
        }
    }
}

impl fmt::Display for PositiveTime {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

/// `bytes` for people: `1.9 GiB`.
pub fn bytes_text(bytes: u128) -> String {
    let units = ["bytes", "KiB", "MiB", "GiB", "TiB", "PiB", "EiB"];
    let mut value = bytes as f64;
    let mut unit = 0;
    while value >= 1024.0 && unit + 1 < units.len() {
        value /= 1024.0;
        unit += 1;
    }
    if unit == 0 {
        format!("{bytes} bytes")
    } else {
        format!("{value:.1} {}", units[unit])
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counts_are_read() {
        for (text, value) in [
            ("0", 0),
            ("10M", 10_000_000),
            ("1.5k", 1_500),
            ("4Ki", 4096),
            ("2Mi", 2 << 20),
            ("1_000_000", 1_000_000),
            ("0.25G", 250_000_000),
            ("18446744073709551615", u64::MAX),
        ] {
            assert_eq!(text.parse::<Count>(), Ok(Count(value)), "{text}");
        }
        for bad in [
            "",
            "-1",
            "1.5",
            "1.0005k",
            "M",
            "10MB",
            "1e6",
            "20G000",
            "99999999999G",
            "1.1Ki",
        ] {
            assert!(bad.parse::<Count>().is_err(), "{bad}");
        }
        assert_eq!(Count(10_000_000).short(), "10M");
        assert_eq!(Count(32_768).short(), "32768");
        assert_eq!(Count(0).short(), "0");
    }

    #[test]
    fn times_are_read_and_written() {
        for (text, ns) in [
            ("0.5", 500_000_000),
            ("3", 3_000_000_000),
            ("2us", 2_000),
            ("0", 0),
            ("1s 1ms", 1_001_000_000),
            ("7.5us", 7_500),
            ("0.25 ms", 250_000),
            (".5s", 500_000_000),
        ] {
            let time: Time = text.parse().unwrap();
            assert_eq!(time.ns, ns, "{text}");
            assert_eq!(time.to_string().parse(), Ok(time));
        }
        for (ns, text) in [
            (0, "0s"),
            (115, "115ns"),
            (5_769, "5.769us"),
            (5_000, "5us"),
            (1_001_000, "1.001ms"),
            (2_500_000_000, "2.5s"),
        ] {
            assert_eq!(Time::from_ns(ns).short(), text);
            assert_eq!(text.parse(), Ok(Time::from_ns(ns)));
        }
        assert!("0".parse::<PositiveTime>().is_err());
        for bad in [
            "",
            "-1",
            "2 parsecs",
            "nan",
            "inf",
            "1e30",
            "us",
            "1.2.3us",
            "1e3us",
            "-1.5us",
        ] {
            assert!(bad.parse::<Time>().is_err(), "{bad}");
        }
    }

    #[test]
    fn byte_sizes_are_readable() {
        assert_eq!(bytes_text(17), "17 bytes");
        assert_eq!(bytes_text(3 << 29), "1.5 GiB");
    }
}
