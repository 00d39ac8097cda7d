//! Values with bounds, and how every value is read from and written to TOML.

use std::fmt;
use std::path::{Path, PathBuf};
use std::str::FromStr;

use serde::de::{self, DeserializeSeed, Deserializer, SeqAccess, Visitor};
use serde::ser::{Serialize as _, Serializer};

use super::quantity::{Count, QuantityError};

/// A whole number from `LEAST` to `MOST`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Bounded<const LEAST: u64, const MOST: u64>(u64);

/// Why a text is no such number.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
pub enum BoundsError {
    /// It is no number.
    #[error(transparent)]
    Malformed(#[from] QuantityError),
    /// It is too small or too large.
    #[error("{value} is out of range: from {least} to {most}")]
    OutOfRange {
        /// The number.
        value: u64,
        /// The smallest that is taken.
        least: u64,
        /// The largest that is taken.
        most: u64,
    },
}

impl<const LEAST: u64, const MOST: u64> Bounded<LEAST, MOST> {
    /// The number, with a compile-time or start-up guarantee of its range.
    ///
    /// # Panics
    /// When it is out of range.
    pub const fn new(value: u64) -> Self {
        assert!(LEAST <= value && value <= MOST, "out of range");
        Self(value)
    }

    /// The number.
    pub const fn get(self) -> u64 {
        self.0
    }
}

impl<const LEAST: u64, const MOST: u64> FromStr for Bounded<LEAST, MOST> {
    type Err = BoundsError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let Count(value) = text.parse()?;
        if (LEAST..=MOST).contains(&value) {
            Ok(Self(value))
        } else {
            Err(BoundsError::OutOfRange {
                value,
                least: LEAST,
                most: MOST,
            })
        }
    }
}

impl<const LEAST: u64, const MOST: u64> fmt::Display for Bounded<LEAST, MOST> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

/// A share above 0, up to and including 1.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Share(f64);

/// A text that is no share.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
#[error("{0:?} is out of range: a number above 0, at most 1, for example 0.9")]
pub struct ShareError(String);

impl Share {
    /// `value`, above 0 and at most 1.
    ///
    /// # Panics
    /// When it is out of range.
    pub const fn new(value: f64) -> Self {
        assert!(value > 0.0 && value <= 1.0, "out of range");
        Self(value)
    }

    /// The number.
    pub const fn get(self) -> f64 {
        self.0
    }
}

impl FromStr for Share {
    type Err = ShareError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        match text.parse::<f64>() {
            Ok(value) if value > 0.0 && value <= 1.0 => Ok(Self(value)),
            _ => Err(ShareError(text.to_owned())),
        }
    }
}

impl fmt::Display for Share {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

/// The name of a file or directory; `-` is standard output where a file is asked for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Place(PathBuf);

/// An empty file name.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
#[error("the name is empty")]
pub struct PlaceError;

impl Place {
    /// As a path.
    pub fn path(&self) -> &Path {
        &self.0
    }

    /// Whether it stands for standard output.
    pub fn is_stdout(&self) -> bool {
        self.0.as_os_str() == "-"
    }
}

impl From<PathBuf> for Place {
    fn from(path: PathBuf) -> Self {
        Self(path)
    }
}

impl FromStr for Place {
    type Err = PlaceError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        if text.is_empty() {
            Err(PlaceError)
        } else {
            Ok(Self(PathBuf::from(text)))
        }
    }
}

impl fmt::Display for Place {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.display().fmt(f)
    }
}

/// Reads any value from TOML through the same text form that the flag has: a number, a string,
/// `true`, or a list of strings for what the flag separates by commas.
pub(super) fn from_toml<'de, D, T>(deserializer: D) -> Result<Option<T>, D::Error>
where
    D: Deserializer<'de>,
    T: FromStr,
    T::Err: fmt::Display,
{
    struct Text;

    impl<'de> Visitor<'de> for Text {
        type Value = String;

        fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
            f.write_str("a number, a string, true, false, or a list of them")
        }

        fn visit_bool<E: de::Error>(self, value: bool) -> Result<String, E> {
            Ok(if value { "on" } else { "off" }.to_owned())
        }

        fn visit_i64<E: de::Error>(self, value: i64) -> Result<String, E> {
            Ok(value.to_string())
        }

        fn visit_u64<E: de::Error>(self, value: u64) -> Result<String, E> {
            Ok(value.to_string())
        }

        fn visit_f64<E: de::Error>(self, value: f64) -> Result<String, E> {
            Ok(value.to_string())
        }

        fn visit_str<E: de::Error>(self, value: &str) -> Result<String, E> {
            Ok(value.to_owned())
        }

        fn visit_seq<A: SeqAccess<'de>>(self, mut list: A) -> Result<String, A::Error> {
            let mut items: Vec<String> = Vec::new();
            while let Some(item) = list.next_element_seed(Text)? {
                items.push(item);
            }
            Ok(items.join(","))
        }
    }

    // An item of a list may be a number, too.
    impl<'de> DeserializeSeed<'de> for Text {
        type Value = String;

        fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<String, D::Error> {
            deserializer.deserialize_any(self)
        }
    }

    let text = deserializer.deserialize_any(Text)?;
    text.parse().map(Some).map_err(de::Error::custom)
}

/// Writes a value to TOML so that [`from_toml`] reads it back: numbers as numbers, on and off as
/// booleans, the rest as strings.
pub(super) fn to_toml<S, T>(value: &Option<T>, serializer: S) -> Result<S::Ok, S::Error>
where
    S: Serializer,
    T: fmt::Display,
{
    let Some(value) = value else {
        return serializer.serialize_none();
    };
    let text = value.to_string();
    if let Ok(number) = text.parse::<i64>() {
        number.serialize(serializer)
    } else if let Some(number) = text.parse::<f64>().ok().filter(|number| number.is_finite()) {
        // A number beyond 64 signed bits would lose digits as a float: it stays a string.
        if text.contains('.') {
            number.serialize(serializer)
        } else {
            text.serialize(serializer)
        }
    } else {
        match text.as_str() {
            "on" => true.serialize(serializer),
            "off" => false.serialize(serializer),
            _ => text.serialize(serializer),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bounds_are_told() {
        type Nodes = Bounded<1, 65_535>;
        assert_eq!("10".parse::<Nodes>().map(Nodes::get), Ok(10));
        assert_eq!(
            "0".parse::<Nodes>().unwrap_err().to_string(),
            "0 is out of range: from 1 to 65535"
        );
        assert!("65536".parse::<Nodes>().is_err());
        assert!(
            "ten"
                .parse::<Nodes>()
                .unwrap_err()
                .to_string()
                .contains("whole number")
        );
    }

    #[test]
    fn shares_exclude_zero() {
        assert_eq!("0.9".parse::<Share>().map(Share::get), Ok(0.9));
        assert_eq!("1".parse::<Share>().map(Share::get), Ok(1.0));
        for bad in ["0", "1.01", "-1", "nan", "x"] {
            assert!(bad.parse::<Share>().is_err(), "{bad}");
        }
    }
}
