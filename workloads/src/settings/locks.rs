//! Lists of locks, of numbers of locks, and of distributions.

use std::fmt;
use std::str::FromStr;

use dmtree_lock::{LockSpec, ParseLockError};

use super::value::{Bounded, BoundsError};
use crate::distribution::Distribution;

/// Locks to run one after the other: `sherman,alock:20,5,farlock`.
#[derive(Clone, Debug, PartialEq)]
pub struct LockList(
    /// In the order they were typed, each once.
    pub Vec<LockSpec>,
);

/// Why a text is no list of locks.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
pub enum LockListError {
    /// One of them is no lock.
    #[error(transparent)]
    Lock(#[from] ParseLockError),
    /// A lock is there twice.
    #[error("{0} is twice in the list")]
    Twice(LockSpec),
}

impl FromStr for LockList {
    type Err = LockListError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let mut locks: Vec<LockSpec> = Vec::new();
        for spec in LockSpec::parse_list(text)? {
            if locks.contains(&spec) {
                return Err(LockListError::Twice(spec));
            }
            locks.push(spec);
        }
        Ok(Self(locks))
    }
}

impl fmt::Display for LockList {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (index, lock) in self.0.iter().enumerate() {
            write!(f, "{}{lock}", if index > 0 { "," } else { "" })?;
        }
        Ok(())
    }
}

/// Distributions to run one after the other: `uniform,zipf:0.99`.
#[derive(Clone, Debug, PartialEq)]
pub struct DistributionList(
    /// In the order they were typed, each once.
    pub Vec<Distribution>,
);

/// Why a text is no list of distributions.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
pub enum DistributionListError {
    /// One of them is no distribution.
    #[error(transparent)]
    Distribution(#[from] crate::distribution::DistributionError),
    /// One is there twice.
    #[error("{0} is twice in the list")]
    Twice(Distribution),
}

impl FromStr for DistributionList {
    type Err = DistributionListError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let mut list = Vec::new();
        for piece in text.split(',') {
            let distribution = piece.trim().parse()?;
            if list.contains(&distribution) {
                return Err(DistributionListError::Twice(distribution));
            }
            list.push(distribution);
        }
        Ok(Self(list))
    }
}

impl fmt::Display for DistributionList {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (index, distribution) in self.0.iter().enumerate() {
            write!(f, "{}{distribution}", if index > 0 { "," } else { "" })?;
        }
        Ok(())
    }
}

/// How many locks there are, of one run after the other: `1,10,30`.
#[derive(Clone, Debug, PartialEq)]
pub struct LockCounts(
    /// In the order they were typed, each once and above 0.
    pub Vec<u32>,
);

/// Why a text is no list of numbers of locks.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
pub enum LockCountsError {
    /// One of them is no number, or out of range.
    #[error(transparent)]
    Number(#[from] BoundsError),
    /// One is there twice.
    #[error("{0} is twice in the list")]
    Twice(u32),
}

impl FromStr for LockCounts {
    type Err = LockCountsError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let mut counts = Vec::new();
        for piece in text.split(',') {
            let count: Bounded<1, { u32::MAX as u64 }> = piece.trim().parse()?;
            // Within the bounds of its type.
            let count = count.get() as u32;
            if counts.contains(&count) {
                return Err(LockCountsError::Twice(count));
            }
            counts.push(count);
        }
        Ok(Self(counts))
    }
}

impl fmt::Display for LockCounts {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (index, count) in self.0.iter().enumerate() {
            write!(f, "{}{count}", if index > 0 { "," } else { "" })?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn typed(text: &str) -> Vec<String> {
        text.parse::<LockList>()
            .unwrap()
            .0
            .iter()
            .map(LockSpec::to_string)
            .collect()
    }

    #[test]
    fn parameters_of_locks_do_not_split_the_list() {
        assert_eq!(
            typed("sherman,alock:20,5,farlock"),
            ["sherman", "alock:20,5", "farlock"]
        );
        assert_eq!(
            typed("farlock-g:5,1,farlock-g,farlock"),
            ["farlock-g:5,1", "farlock-g", "farlock"]
        );
        assert_eq!(typed("alock:1,1,alock"), ["alock:1,1", "alock"]);
        assert_eq!(
            "alock:20,5,farlock"
                .parse::<LockList>()
                .unwrap()
                .to_string(),
            "alock:20,5,farlock"
        );
    }

    #[test]
    fn wrong_lists_are_refused() {
        for bad in [
            "",
            "sherman,",
            ",farlock",
            "5,farlock",
            "sherman,sherman",
            "alock:0,1",
            "farlock-g:5,0",
            "farlock-g:5",
            "spin",
        ] {
            assert!(bad.parse::<LockList>().is_err(), "{bad:?}");
        }
        let error = "sherman,spin".parse::<LockList>().unwrap_err().to_string();
        for known in ["spin", "sherman", "alock", "farlock", "farlock-g"] {
            assert!(error.contains(known), "{error}");
        }
    }

    #[test]
    fn numbers_of_locks_make_lists() {
        for (text, counts) in [("1", &[1][..]), ("1, 10,4Ki", &[1, 10, 4096])] {
            assert_eq!(text.parse::<LockCounts>().unwrap().0, counts);
        }
        assert_eq!(LockCounts(vec![1, 30]).to_string(), "1,30");
        for bad in ["", "0", "1,", "1,1", "5G", "-1", "few"] {
            assert!(bad.parse::<LockCounts>().is_err(), "{bad:?}");
        }
    }

    #[test]
    fn distributions_make_lists() {
        let list: DistributionList = "uniform,zipf:0.99".parse().unwrap();
        assert_eq!(list.0, [Distribution::Uniform, Distribution::Zipf(0.99)]);
        assert_eq!(list.to_string(), "uniform,zipf:0.99");
        assert!("uniform,uniform".parse::<DistributionList>().is_err());
        assert!("".parse::<DistributionList>().is_err());
    }
}
