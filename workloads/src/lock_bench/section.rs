//! [`Section`]: how long a critical section takes.
//!
//! The paper's microbenchmark has fixed ones, 300 cycles for local clients and 15,000 for remote ones at 2.6 GHz. The
//! threshold beyond which FARLock's local clients queue behind remote ones depends on their mean and their spread, so
//! that both can be chosen.

use std::fmt;
use std::path::Path;
use std::str::FromStr;
use std::sync::Arc;

use rand::{Rng, RngExt};
use rand_distr::{Distribution as _, Exp};

use crate::error::{Failure, Result};
use crate::settings::quantity::{QuantityError, Time};
use crate::settings::value::Place;

/// 300 cycles at 2.6 GHz (FARLock, section 5.1).
pub const LOCAL: Time = Time::from_ns(115);
/// 15,000 cycles at 2.6 GHz (FARLock, section 5.1).
pub const REMOTE: Time = Time::from_ns(5_769);

/// How long critical sections take, as typed.
#[derive(Clone, Debug, PartialEq)]
pub enum Section {
    /// All the same: `5us`.
    Fixed(Time),
    /// Any time from the first to the second with equal probability: `5us..7.5us`.
    Uniform(Time, Time),
    /// Exponentially distributed with this mean: `exp:5us`.
    Exponential(Time),
    /// Those of a file, one a line, again and again from a line on that each client draws: `file:NAME`.
    File(Place),
}

/// Why a text is no critical section.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
pub enum SectionError {
    /// A time in it is none.
    #[error("{0}; or a range 5us..7.5us, exp:MEAN, file:NAME")]
    Time(#[from] QuantityError),
    /// A range that ends before it begins.
    #[error("{0:?} ends before it begins; write the shorter time first, for example 5us..7.5us")]
    Backwards(String),
    /// A mean of 0.
    #[error("{0:?}: the mean must be above 0, for example exp:5us")]
    NoMean(String),
    /// No file is named.
    #[error("{0:?} names no file; write file:NAME")]
    NoFile(String),
}

impl FromStr for Section {
    type Err = SectionError;

    fn from_str(text: &str) -> std::result::Result<Self, Self::Err> {
        let owned = || text.to_owned();
        if let Some(name) = text.strip_prefix("file:") {
            let place = name.parse().map_err(|_| SectionError::NoFile(owned()))?;
            return Ok(Self::File(place));
        }
        if let Some(mean) = text.strip_prefix("exp:") {
            let mean: Time = mean.parse()?;
            if mean.ns == 0 {
                return Err(SectionError::NoMean(owned()));
            }
            return Ok(Self::Exponential(mean));
        }
        if let Some((least, most)) = text.split_once("..") {
            let (least, most): (Time, Time) = (least.trim().parse()?, most.trim().parse()?);
            return if least > most {
                Err(SectionError::Backwards(owned()))
            } else {
                Ok(Self::Uniform(least, most))
            };
        }
        Ok(Self::Fixed(text.parse()?))
    }
}

impl fmt::Display for Section {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Fixed(time) => f.write_str(&time.short()),
            Self::Uniform(least, most) => write!(f, "{}..{}", least.short(), most.short()),
            Self::Exponential(mean) => write!(f, "exp:{}", mean.short()),
            Self::File(place) => write!(f, "file:{place}"),
        }
    }
}

/// Critical sections that can be drawn.
#[derive(Clone, Debug)]
pub enum Lengths {
    /// Always so many nanoseconds.
    Fixed(u64),
    /// From the first to the second, both included.
    Uniform(u64, u64),
    /// With a mean.
    Exponential(Exp<f64>),
    /// One after the other, again and again.
    Listed(Arc<[u64]>),
}

/// One client's critical sections.
#[derive(Clone, Debug)]
pub struct Sections {
    lengths: Lengths,
    /// Of the list.
    next: usize,
}

impl Section {
    /// Reads the file, if it is one; `flag` is named when that fails.
    ///
    /// # Errors
    /// [`Failure::Usage`] with the file, the line, what is wrong and what would be right.
    pub fn lengths(&self, flag: &str) -> Result<Lengths> {
        Ok(match self {
            Self::Fixed(time) => Lengths::Fixed(time.ns),
            Self::Uniform(least, most) => Lengths::Uniform(least.ns, most.ns),
            // Above 0, which is all that is asked of it.
            Self::Exponential(mean) => Exp::new(1.0 / mean.ns as f64)
                .map(Lengths::Exponential)
                .map_err(|error| Failure::Usage(format!("{flag} {self}: {error}")))?,
            Self::File(place) => Lengths::Listed(read(flag, place.path())?.into()),
        })
    }
}

/// A time a line; empty lines, and what is behind a `#`, say nothing.
fn read(flag: &str, path: &Path) -> Result<Vec<u64>> {
    let refused = |why: String| Failure::Usage(format!("{flag} file:{}{why}", path.display()));
    let text = std::fs::read_to_string(path)
        .map_err(|error| refused(format!(": cannot be read: {error}")))?;
    let mut times = Vec::new();
    for (index, line) in text.lines().enumerate() {
        let line = line.split('#').next().unwrap_or_default().trim();
        if line.is_empty() {
            continue;
        }
        let time: Time = line
            .parse()
            .map_err(|error| refused(format!(":{}: {error}", index + 1)))?;
        times.push(time.ns);
    }
    if times.is_empty() {
        return Err(refused(
            ": it has no time; write one a line, for example 5us".to_owned(),
        ));
    }
    Ok(times)
}

impl Sections {
    /// Those of a client with the random numbers `rng`.
    pub fn new(lengths: Lengths, rng: &mut impl Rng) -> Self {
        let next = match &lengths {
            Lengths::Listed(times) => rng.random_range(0..times.len()),
            _ => 0,
        };
        Self { lengths, next }
    }

    /// The next one, in nanoseconds.
    #[inline]
    pub fn draw(&mut self, rng: &mut impl Rng) -> u64 {
        match &self.lengths {
            Lengths::Fixed(ns) => *ns,
            Lengths::Uniform(least, most) => rng.random_range(*least..=*most),
            Lengths::Exponential(times) => times.sample(rng).round() as u64,
            Lengths::Listed(times) => {
                let ns = times[self.next];
                self.next = (self.next + 1) % times.len();
                ns
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::distribution::client_rng;

    fn drawn(text: &str, count: usize) -> Vec<u64> {
        let section: Section = text.parse().unwrap();
        let mut rng = client_rng(1, 2);
        let lengths = section.lengths("--critical-section-remote").unwrap();
        let mut sections = Sections::new(lengths, &mut rng);
        (0..count).map(|_| sections.draw(&mut rng)).collect()
    }

    #[test]
    fn texts_are_read_and_written() {
        for text in [
            "115ns",
            "5.769us",
            "5us..7.5us",
            "exp:5us",
            "file:a b.txt",
            "0s",
            "1s",
        ] {
            assert_eq!(text.parse::<Section>().unwrap().to_string(), text);
        }
        assert_eq!("0.000005".parse(), Ok(Section::Fixed(Time::from_ns(5_000))));
        for (bad, words) in [
            ("soon", &["soon", "5us..7.5us", "exp:MEAN", "file:NAME"][..]),
            ("7us..5us", &["7us..5us", "5us..7.5us"]),
            ("5us..", &["time"]),
            ("exp:0", &["exp:5us"]),
            ("exp:", &["time"]),
            ("file:", &["file:NAME"]),
            ("-1us", &["time"]),
        ] {
            let error = bad.parse::<Section>().unwrap_err().to_string();
            for word in words {
                assert!(error.contains(word), "{bad}: {word} is not in {error}");
            }
        }
    }

    #[test]
    fn draws_have_their_mean_and_stay_within() {
        assert_eq!(drawn("115ns", 3), [115; 3]);
        let uniform = drawn("5us..7.5us", 100_000);
        assert!(uniform.iter().all(|ns| (5_000..=7_500).contains(ns)));
        let mean = |times: &[u64]| times.iter().sum::<u64>() as f64 / times.len() as f64;
        // Standard deviation of the mean: 2500 / √12 / √100000 = 2.3.
        assert!((mean(&uniform) - 6_250.0).abs() < 10.0);
        let exponential = drawn("exp:5us", 100_000);
        assert!((mean(&exponential) - 5_000.0).abs() < 65.0);
        // e^-2 of them are longer than twice the mean.
        let long = exponential.iter().filter(|ns| **ns > 10_000).count() as f64;
        assert!((long / 100_000.0 - (-2f64).exp()).abs() < 0.005);
    }

    #[test]
    fn files_are_cycled_and_bad_lines_named() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("times");
        std::fs::write(&path, "# measured\n1us\n\n2us # slow\n0.000003\n").unwrap();
        let place = Place::from(path.clone());
        let times = drawn(&format!("file:{place}"), 9);
        assert_eq!(times[..3], times[3..6]);
        let mut sorted = times[..3].to_vec();
        sorted.sort_unstable();
        assert_eq!(sorted, [1_000, 2_000, 3_000]);
        for (text, words) in [
            ("1us\n2 parsecs\n", &[":2:", "2 parsecs"][..]),
            ("# nothing\n", &["no time"]),
        ] {
            std::fs::write(&path, text).unwrap();
            let error = Section::File(place.clone()).lengths("--critical-section-local");
            let Err(Failure::Usage(error)) = error else {
                panic!("{error:?}");
            };
            for word in [&["--critical-section-local", "times"], words].concat() {
                assert!(error.contains(word), "{word} is not in {error}");
            }
        }
        assert!(
            Section::File(Place::from(directory.path().to_owned()))
                .lengths("--x")
                .is_err()
        );
    }
}
