//! [`LockSpec`]: a lock as it is named on the command line.

use std::collections::BTreeMap;
use std::fmt;
use std::num::NonZeroU32;
use std::str::FromStr;

use dmtree_cluster::MemoryKind;

use crate::cpu::TicketLock;
use crate::descriptor::DESCRIPTOR_BYTES;
use crate::{Cohort, LockLayout, LockOptions, alock, farlock, sherman};

/// How many grants in a row each cohort may have while others have asked before.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Budgets {
    /// Of the local cohort.
    pub local: NonZeroU32,
    /// Of the remote cohort.
    pub remote: NonZeroU32,
}

impl Budgets {
    /// One grant each: the cohorts alternate.
    pub const ALTERNATE: Self = Self {
        local: NonZeroU32::MIN,
        remote: NonZeroU32::MIN,
    };

    /// Groups of local clients, and single remote ones: the best of the FARLock paper's (OSDI 2026, section 5.4).
    pub const GROUPS: Self = Self {
        local: NonZeroU32::new(5).expect("not 0"),
        remote: NonZeroU32::MIN,
    };

    pub(crate) fn of(self, cohort: Cohort) -> u64 {
        u64::from(match cohort {
            Cohort::Local => self.local.get(),
            Cohort::Remote => self.remote.get(),
        })
    }
}

/// Which lock, and its parameters that are part of its name. [`fmt::Display`] gives it back as it was typed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum LockSpec {
    /// `sherman`.
    Sherman,
    /// `alock` (the same as `alock:1,1`) or `alock:LOCAL,REMOTE`.
    Alock(Option<Budgets>),
    /// `farlock`.
    Farlock,
    /// `farlock-g` (the same as `farlock-g:5,1`) or `farlock-g:LOCAL,REMOTE`: the most members of a group.
    FarlockG(Option<Budgets>),
}

/// Why a lock's name was not understood.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("no lock is called {name:?}: {why}; there are {}", LockSpec::FORMS.join(", "))]
pub struct ParseLockError {
    /// What was typed.
    pub name: String,
    /// What is wrong with it.
    pub why: String,
}

/// A parameter of a lock, as it goes into results.
#[derive(Clone, Debug, PartialEq, Eq, serde::Serialize)]
#[serde(untagged)]
pub enum Param {
    /// A number.
    Number(u64),
    /// A name.
    Name(&'static str),
}

impl LockSpec {
    /// How locks are written.
    pub const FORMS: &'static [&'static str] = &[
        "sherman",
        "alock",
        "alock:LOCAL,REMOTE",
        "farlock",
        "farlock-g",
        "farlock-g:LOCAL,REMOTE",
    ];

    /// The budgets of an ALock or a FARLock-G; none for other locks.
    pub fn budgets(self) -> Option<Budgets> {
        match self {
            LockSpec::Alock(budgets) => Some(budgets.unwrap_or(Budgets::ALTERNATE)),
            LockSpec::FarlockG(budgets) => Some(budgets.unwrap_or(Budgets::GROUPS)),
            LockSpec::Sherman | LockSpec::Farlock => None,
        }
    }

    /// What the lock needs before anything connects.
    pub fn layout(self, options: &LockOptions) -> LockLayout {
        match self {
            LockSpec::Sherman => LockLayout {
                lock_bytes: sherman::LOCK_BYTES,
                memory: options.sherman_memory,
                descriptor_bytes: 0,
                tier_bytes: TicketLock::BYTES,
            },
            LockSpec::Alock(_) => LockLayout {
                lock_bytes: alock::LOCK_BYTES,
                memory: MemoryKind::Host,
                descriptor_bytes: DESCRIPTOR_BYTES,
                tier_bytes: 0,
            },
            LockSpec::Farlock | LockSpec::FarlockG(_) => LockLayout {
                lock_bytes: farlock::LOCK_BYTES,
                memory: MemoryKind::Host,
                descriptor_bytes: DESCRIPTOR_BYTES,
                tier_bytes: 0,
            },
        }
    }

    /// Every parameter that the lock has, in force: for results.
    pub fn params(self, options: &LockOptions) -> BTreeMap<&'static str, Param> {
        let mut params = BTreeMap::new();
        params.insert("slots", Param::Number(u64::from(options.slots)));
        match self {
            LockSpec::Sherman => {
                let handover = match options.sherman_handover.unwrap_or(0) {
                    sherman::UNLIMITED.. => Param::Name("unlimited"),
                    limit => Param::Number(u64::from(limit)),
                };
                params.insert("handover", handover);
                let memory = match options.sherman_memory {
                    MemoryKind::Host => "host",
                    MemoryKind::Device => "device",
                };
                params.insert("memory", Param::Name(memory));
            }
            LockSpec::Alock(_) | LockSpec::Farlock | LockSpec::FarlockG(_) => {
                params.insert("descriptors", Param::Number(options.descriptors as u64));
            }
        }
        if let Some(budgets) = self.budgets() {
            params.insert("local_budget", Param::Number(budgets.of(Cohort::Local)));
            params.insert("remote_budget", Param::Number(budgets.of(Cohort::Remote)));
        }
        params
    }

    /// Reads a list of locks separated by commas, `sherman,alock:20,5,farlock`: a number belongs to the lock
    /// before it.
    ///
    /// # Errors
    /// When a lock of the list is not understood.
    pub fn parse_list(list: &str) -> Result<Vec<Self>, ParseLockError> {
        let mut names: Vec<String> = Vec::new();
        for part in list.split(',') {
            match names.last_mut() {
                Some(last)
                    if last.contains(':') && part.starts_with(|c: char| c.is_ascii_digit()) =>
                {
                    last.push(',');
                    last.push_str(part);
                }
                _ => names.push(part.to_owned()),
            }
        }
        names.iter().map(|name| name.parse()).collect()
    }
}

/// `example` is a lock as it is written right.
fn parse_budgets(example: &str, text: &str) -> Result<Budgets, String> {
    let Some((local, remote)) = text.split_once(',') else {
        return Err(format!(
            "{text:?} is one budget, it takes a local and a remote one, as in {example}"
        ));
    };
    let parse = |which: &str, text: &str| match text.parse::<u32>().map(NonZeroU32::new) {
        Ok(Some(budget)) => Ok(budget),
        Ok(None) => Err(format!(
            "the {which} budget is 0, and a cohort without a grant would wait for ever"
        )),
        Err(error) => Err(format!(
            "the {which} budget {text:?} is no number from 1 to {}: {error}",
            u32::MAX
        )),
    };
    Ok(Budgets {
        local: parse("local", local)?,
        remote: parse("remote", remote)?,
    })
}

impl FromStr for LockSpec {
    type Err = ParseLockError;

    fn from_str(name: &str) -> Result<Self, ParseLockError> {
        let fail = |why: String| ParseLockError {
            name: name.to_owned(),
            why,
        };
        let (lock, parameters) = match name.split_once(':') {
            Some((lock, parameters)) => (lock, Some(parameters)),
            None => (name, None),
        };
        match (lock, parameters) {
            ("sherman", None) => Ok(LockSpec::Sherman),
            ("farlock", None) => Ok(LockSpec::Farlock),
            ("alock", None) => Ok(LockSpec::Alock(None)),
            ("farlock-g", None) => Ok(LockSpec::FarlockG(None)),
            ("alock", Some(text)) => parse_budgets("alock:20,5", text)
                .map(|budgets| LockSpec::Alock(Some(budgets)))
                .map_err(fail),
            ("farlock-g", Some(text)) => parse_budgets("farlock-g:5,1", text)
                .map(|budgets| LockSpec::FarlockG(Some(budgets)))
                .map_err(fail),
            ("sherman" | "farlock", Some(_)) => Err(fail(format!("{lock} takes no parameters"))),
            _ => Err(fail("it does not exist".to_owned())),
        }
    }
}

impl fmt::Display for LockSpec {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            LockSpec::Sherman => f.write_str("sherman"),
            LockSpec::Alock(None) => f.write_str("alock"),
            LockSpec::Alock(Some(Budgets { local, remote })) => write!(f, "alock:{local},{remote}"),
            LockSpec::Farlock => f.write_str("farlock"),
            LockSpec::FarlockG(None) => f.write_str("farlock-g"),
            LockSpec::FarlockG(Some(Budgets { local, remote })) => {
                write!(f, "farlock-g:{local},{remote}")
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn budgets(local: u32, remote: u32) -> Budgets {
        let budget = |n| NonZeroU32::new(n).expect("not 0");
        Budgets {
            local: budget(local),
            remote: budget(remote),
        }
    }

    #[test]
    fn names_come_back_as_they_were_typed() {
        for name in [
            "sherman",
            "alock",
            "alock:1,1",
            "alock:20,5",
            "farlock",
            "farlock-g",
            "farlock-g:5,1",
            "farlock-g:5,5",
        ] {
            let spec: LockSpec = name.parse().expect(name);
            assert_eq!(spec.to_string(), name);
        }
        assert_eq!(
            "alock:20,5".parse(),
            Ok(LockSpec::Alock(Some(budgets(20, 5))))
        );
        assert_eq!(
            "alock".parse::<LockSpec>().map(LockSpec::budgets),
            Ok(Some(budgets(1, 1)))
        );
        assert_eq!(
            "farlock-g".parse::<LockSpec>().map(LockSpec::budgets),
            Ok(Some(budgets(5, 1)))
        );
        assert_eq!(
            "farlock-g:2,3".parse(),
            Ok(LockSpec::FarlockG(Some(budgets(2, 3))))
        );
        assert_eq!(
            "farlock".parse::<LockSpec>().map(LockSpec::budgets),
            Ok(None)
        );
    }

    #[test]
    fn errors_say_what_is_wrong_and_what_exists() {
        for (name, why) in [
            ("farlok", "does not exist"),
            ("", "does not exist"),
            ("Farlock", "does not exist"),
            ("alock:", "one budget"),
            ("alock:5", "as in alock:20,5"),
            ("alock:0,5", "the local budget is 0"),
            ("alock:5,0", "the remote budget is 0"),
            ("alock:5,x", "the remote budget \"x\""),
            ("alock:5, 5", "the remote budget \" 5\""),
            ("alock:1,2,3", "the remote budget \"2,3\""),
            ("alock:4294967296,1", "the local budget \"4294967296\""),
            ("farlock:5,1", "takes no parameters"),
            ("farlock-g:", "as in farlock-g:"),
            ("farlock-g:5", "as in farlock-g:5,1"),
            ("farlock-g:0,1", "the local budget is 0"),
            ("farlock-g:5,0", "the remote budget is 0"),
            ("farlock-g:-1,1", "the local budget \"-1\""),
            ("farlock_g", "does not exist"),
            ("farlock-G:5,1", "does not exist"),
            ("sherman:4", "takes no parameters"),
        ] {
            let error = name.parse::<LockSpec>().expect_err(name);
            let text = error.to_string();
            assert!(text.contains(why), "{name}: {text}");
            assert!(
                text.contains(&format!("{name:?}"))
                    && text.contains(", alock:LOCAL,REMOTE,")
                    && text.contains("farlock-g:LOCAL,REMOTE"),
                "{text}"
            );
        }
    }

    #[test]
    fn lists_keep_budgets_with_their_lock() {
        let list = LockSpec::parse_list("sherman,alock:20,5,farlock,farlock-g:5,1,alock,farlock-g")
            .expect("a list");
        assert_eq!(
            list.iter().map(ToString::to_string).collect::<Vec<_>>(),
            [
                "sherman",
                "alock:20,5",
                "farlock",
                "farlock-g:5,1",
                "alock",
                "farlock-g"
            ]
        );
        assert!(LockSpec::parse_list("sherman,,farlock").is_err());
        assert!(LockSpec::parse_list("sherman,5").is_err());
        assert!(LockSpec::parse_list("alock:1").is_err());
    }

    #[test]
    fn parameters_tell_what_is_in_force() {
        let options = LockOptions {
            slots: 16,
            ..LockOptions::default()
        };
        let params = |name: &str| name.parse::<LockSpec>().expect(name).params(&options);
        assert_eq!(
            params("sherman"),
            BTreeMap::from([
                ("slots", Param::Number(16)),
                ("handover", Param::Number(4)),
                ("memory", Param::Name("host")),
            ])
        );
        assert_eq!(
            params("alock:20,5"),
            BTreeMap::from([
                ("slots", Param::Number(16)),
                ("descriptors", Param::Number(8)),
                ("local_budget", Param::Number(20)),
                ("remote_budget", Param::Number(5)),
            ])
        );
        assert_eq!(
            params("farlock-g"),
            BTreeMap::from([
                ("slots", Param::Number(16)),
                ("descriptors", Param::Number(8)),
                ("local_budget", Param::Number(5)),
                ("remote_budget", Param::Number(1)),
            ])
        );
        assert_eq!(
            params("farlock"),
            BTreeMap::from([
                ("slots", Param::Number(16)),
                ("descriptors", Param::Number(8)),
            ])
        );
    }
}
