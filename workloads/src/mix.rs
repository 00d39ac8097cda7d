//! Which operations a workload consists of.

use std::fmt;
use std::str::FromStr;

use rand::{Rng, RngExt};

/// One operation on the tree.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Operation {
    /// Gives a key that is there a new value.
    Update,
    /// Adds a key next to one that was loaded.
    Insert,
    /// Asks for a key's value.
    Get,
}

impl Operation {
    const ALL: [Operation; 3] = [Operation::Update, Operation::Insert, Operation::Get];

    /// Its word on the command line.
    pub const fn name(self) -> &'static str {
        match self {
            Operation::Update => "update",
            Operation::Insert => "insert",
            Operation::Get => "get",
        }
    }
}

/// Operations and their shares: `update`, `insert`, `get`, `update:50,get:50`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Mix {
    /// Shares in the order they were typed; their sum is above 0.
    parts: Vec<(Operation, u32)>,
    total: u32,
}

/// Why a text is no mix.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
pub enum MixError {
    /// An operation that does not exist.
    #[error("no operation is called {0:?}; there are update, insert and get")]
    Unknown(String),
    /// A share that is no number, or a mix of nothing.
    #[error(
        "{0:?} is no mix; write for example update, insert, get or update:50,get:50 (shares above 0)"
    )]
    Malformed(String),
    /// An operation is there twice.
    #[error("{0} is twice in the mix")]
    Twice(&'static str),
}

impl FromStr for Mix {
    type Err = MixError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let malformed = || MixError::Malformed(text.to_owned());
        let mut parts: Vec<(Operation, u32)> = Vec::new();
        let single = !text.contains(',');
        for part in text.split(',') {
            let (name, share) = match part.split_once(':') {
                Some((name, share)) => (name, share.parse().map_err(|_| malformed())?),
                None if single => (part, 100),
                None => return Err(malformed()),
            };
            let operation = Operation::ALL
                .into_iter()
                .find(|operation| operation.name() == name)
                .ok_or_else(|| MixError::Unknown(name.to_owned()))?;
            if parts.iter().any(|(other, _)| *other == operation) {
                return Err(MixError::Twice(operation.name()));
            }
            parts.push((operation, share));
        }
        let total = parts
            .iter()
            .try_fold(0u32, |sum, (_, share)| sum.checked_add(*share));
        match total {
            Some(total) if parts.iter().all(|(_, share)| *share > 0) => Ok(Self { parts, total }),
            _ => Err(malformed()),
        }
    }
}

impl fmt::Display for Mix {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let [(operation, _)] = self.parts[..] {
            return f.write_str(operation.name());
        }
        for (index, (operation, share)) in self.parts.iter().enumerate() {
            let comma = if index > 0 { "," } else { "" };
            write!(f, "{comma}{}:{share}", operation.name())?;
        }
        Ok(())
    }
}

impl Mix {
    /// Updates only.
    pub fn update() -> Self {
        Self {
            parts: vec![(Operation::Update, 100)],
            total: 100,
        }
    }

    /// Which part of the operations is `operation`, from 0 to 1.
    pub fn share(&self, operation: Operation) -> f64 {
        let part = self.parts.iter().find(|(other, _)| *other == operation);
        part.map_or(0.0, |(_, share)| f64::from(*share) / f64::from(self.total))
    }

    /// The next operation.
    pub fn draw<R: Rng + ?Sized>(&self, rng: &mut R) -> Operation {
        if let [(operation, _)] = self.parts[..] {
            return operation;
        }
        let mut at = rng.random_range(0..self.total);
        for (operation, share) in &self.parts {
            if at < *share {
                return *operation;
            }
            at -= share;
        }
        unreachable!("the shares sum up to the total")
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::distribution::client_rng;

    #[test]
    fn mixes_are_read_and_written() {
        for text in [
            "update",
            "insert",
            "get",
            "update:50,get:50",
            "get:95,update:5",
        ] {
            assert_eq!(text.parse::<Mix>().unwrap().to_string(), text);
        }
        assert_eq!("update:7".parse::<Mix>().unwrap().to_string(), "update");
        for bad in [
            "",
            "update,get",
            "update:0",
            "update:x,get:1",
            "update:1,get:0",
            "update:4294967295,get:1",
        ] {
            assert!(
                matches!(
                    bad.parse::<Mix>(),
                    Err(MixError::Malformed(_) | MixError::Unknown(_))
                ),
                "{bad}"
            );
        }
        assert_eq!("get:1,get:2".parse::<Mix>(), Err(MixError::Twice("get")));
        let error = "remove".parse::<Mix>().unwrap_err().to_string();
        assert!(
            error.contains("remove") && error.contains("update, insert and get"),
            "{error}"
        );
    }

    #[test]
    fn operations_come_in_their_shares() {
        let mix: Mix = "update:30,get:70".parse().unwrap();
        let shares = [Operation::Update, Operation::Insert, Operation::Get];
        assert_eq!(
            shares.map(|operation| mix.share(operation)),
            [0.3, 0.0, 0.7]
        );
        let mut rng = client_rng(1, 0);
        let updates = (0..100_000)
            .filter(|_| mix.draw(&mut rng) == Operation::Update)
            .count();
        // 30,000 expected, standard deviation 145.
        assert!(updates.abs_diff(30_000) < 600, "{updates}");
    }
}
