//! [`LockSpec`]: a lock as it is named on the command line.

use std::collections::BTreeMap;
use std::fmt;
use std::num::NonZeroU32;
use std::str::FromStr;

use dmtree_cluster::MemoryKind;

use crate::cpu::TicketLock;
use crate::descriptor::DESCRIPTOR_BYTES;
use crate::{
    Backoff, Cohort, LockLayout, LockOptions, Release, alock, farlock, mcs, sherman, tas, ticket,
};

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
    /// `tas`.
    Tas,
    /// `ticket`.
    Ticket,
    /// `mcs`, or `mcs:cas-release`.
    Mcs(Release),
    /// `alock` (the same as `alock:1,1`) or `alock:LOCAL,REMOTE`, each also with `:cas-release` behind it.
    Alock(Option<Budgets>, Release),
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
        "tas",
        "ticket",
        "mcs",
        "mcs:cas-release",
        "alock",
        "alock:LOCAL,REMOTE",
        "alock:cas-release",
        "alock:LOCAL,REMOTE:cas-release",
        "farlock",
        "farlock-g",
        "farlock-g:LOCAL,REMOTE",
    ];

    /// The budgets of an ALock or a FARLock-G; none for other locks.
    pub fn budgets(self) -> Option<Budgets> {
        match self {
            LockSpec::Alock(budgets, _) => Some(budgets.unwrap_or(Budgets::ALTERNATE)),
            LockSpec::FarlockG(budgets) => Some(budgets.unwrap_or(Budgets::GROUPS)),
            LockSpec::Sherman
            | LockSpec::Tas
            | LockSpec::Ticket
            | LockSpec::Mcs(_)
            | LockSpec::Farlock => None,
        }
    }

    /// The same lock with all of its budgets spelled out: `alock:1,1` for `alock`.
    #[must_use]
    pub fn explicit(self) -> Self {
        match self {
            LockSpec::Alock(_, release) => LockSpec::Alock(self.budgets(), release),
            LockSpec::FarlockG(_) => LockSpec::FarlockG(self.budgets()),
            other => other,
        }
    }

    /// What a release of an MCS or an ALock does first; none for other locks.
    pub fn release(self) -> Option<Release> {
        match self {
            LockSpec::Mcs(release) | LockSpec::Alock(_, release) => Some(release),
            _ => None,
        }
    }

    /// Whether a CAS of it is tried again and again, so that [`LockOptions::backoff`] is for it.
    fn backs_off(self) -> bool {
        match self {
            LockSpec::Tas
            | LockSpec::Mcs(_)
            | LockSpec::Alock(..)
            | LockSpec::Farlock
            | LockSpec::FarlockG(_) => true,
            LockSpec::Sherman | LockSpec::Ticket => false,
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
            LockSpec::Tas => words_alone(tas::LOCK_BYTES),
            LockSpec::Ticket => words_alone(ticket::LOCK_BYTES),
            LockSpec::Mcs(_) => LockLayout {
                descriptor_bytes: DESCRIPTOR_BYTES,
                ..words_alone(mcs::LOCK_BYTES)
            },
            LockSpec::Alock(..) => LockLayout {
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
            LockSpec::Tas | LockSpec::Ticket => {}
            LockSpec::Mcs(_) | LockSpec::Alock(..) | LockSpec::Farlock | LockSpec::FarlockG(_) => {
                params.insert("descriptors", Param::Number(options.descriptors as u64));
            }
        }
        if let Some(budgets) = self.budgets() {
            params.insert("local_budget", Param::Number(budgets.of(Cohort::Local)));
            params.insert("remote_budget", Param::Number(budgets.of(Cohort::Remote)));
        }
        if let Some(release) = self.release() {
            params.insert("release", Param::Name(release.name()));
        }
        if self.backs_off() {
            match options.backoff {
                Backoff::None => {
                    params.insert("backoff", Param::Name("none"));
                }
                Backoff::Exponential { min_ns, max_ns } => {
                    params.insert("backoff", Param::Name("exp"));
                    params.insert("backoff_min_ns", Param::Number(min_ns));
                    params.insert("backoff_max_ns", Param::Number(max_ns));
                }
            }
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

/// Of a lock that is words in host memory.
fn words_alone(lock_bytes: u64) -> LockLayout {
    LockLayout {
        lock_bytes,
        memory: MemoryKind::Host,
        descriptor_bytes: 0,
        tier_bytes: 0,
    }
}

fn parse_release(lock: &str, text: &str) -> Result<Release, String> {
    if text == Release::CAS {
        return Ok(Release::Cas);
    }
    let name = Release::CAS;
    Err(format!(
        "{text:?} is no way to release; behind {lock} may stand :{name}, for a CAS with every release"
    ))
}

/// What stands behind `alock:`: budgets, a way to release, or both.
fn parse_alock(lock: &str, text: &str) -> Result<LockSpec, String> {
    let (budgets, release) = match text.split_once(':') {
        Some((budgets, release)) => (budgets, parse_release("the budgets", release)?),
        None if text == Release::CAS => return Ok(LockSpec::Alock(None, Release::Cas)),
        None => (text, Release::Look),
    };
    match parse_budgets(&format!("{lock}:20,5"), budgets) {
        Ok(budgets) => Ok(LockSpec::Alock(Some(budgets), release)),
        Err(why) if text.starts_with(|c: char| c.is_ascii_alphabetic()) => {
            let name = Release::CAS;
            Err(format!(
                "{why}; {name} stands alone, as in {lock}:{name}, or behind budgets, as in {lock}:20,5:{name}"
            ))
        }
        Err(why) => Err(why),
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
            ("tas", None) => Ok(LockSpec::Tas),
            ("ticket", None) => Ok(LockSpec::Ticket),
            ("mcs", None) => Ok(LockSpec::Mcs(Release::Look)),
            ("alock", None) => Ok(LockSpec::Alock(None, Release::Look)),
            ("farlock-g", None) => Ok(LockSpec::FarlockG(None)),
            ("mcs", Some(text)) => parse_release(lock, text).map(LockSpec::Mcs).map_err(fail),
            ("alock", Some(text)) => parse_alock(lock, text).map_err(fail),
            ("farlock-g", Some(text)) => parse_budgets("farlock-g:5,1", text)
                .map(|budgets| LockSpec::FarlockG(Some(budgets)))
                .map_err(fail),
            ("sherman" | "tas" | "ticket" | "farlock", Some(_)) => {
                Err(fail(format!("{lock} takes no parameters")))
            }
            _ => Err(fail("it does not exist".to_owned())),
        }
    }
}

impl fmt::Display for LockSpec {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            LockSpec::Sherman => f.write_str("sherman"),
            LockSpec::Tas => f.write_str("tas"),
            LockSpec::Ticket => f.write_str("ticket"),
            LockSpec::Mcs(release) => write!(f, "mcs{}", release.suffix()),
            LockSpec::Alock(None, release) => write!(f, "alock{}", release.suffix()),
            LockSpec::Alock(Some(Budgets { local, remote }), release) => {
                write!(f, "alock:{local},{remote}{}", release.suffix())
            }
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
    fn budgets_that_are_left_away_can_be_spelled_out() {
        let explicit = |name: &str| name.parse::<LockSpec>().map(LockSpec::explicit);
        for (name, same) in [
            ("alock", "alock:1,1"),
            ("alock:cas-release", "alock:1,1:cas-release"),
            ("farlock-g", "farlock-g:5,1"),
        ] {
            assert_eq!(explicit(name), explicit(same));
            assert_eq!(explicit(name), same.parse());
        }
        assert_ne!(explicit("alock"), explicit("alock:20,5"));
        assert_eq!(explicit("mcs"), "mcs".parse());
    }

    #[test]
    fn names_come_back_as_they_were_typed() {
        for name in [
            "sherman",
            "alock",
            "alock:1,1",
            "alock:20,5",
            "alock:cas-release",
            "alock:20,5:cas-release",
            "tas",
            "ticket",
            "mcs",
            "mcs:cas-release",
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
            Ok(LockSpec::Alock(Some(budgets(20, 5)), Release::Look))
        );
        assert_eq!(
            "alock:20,5:cas-release".parse(),
            Ok(LockSpec::Alock(Some(budgets(20, 5)), Release::Cas))
        );
        assert_eq!(
            "alock:cas-release"
                .parse::<LockSpec>()
                .map(LockSpec::budgets),
            Ok(Some(budgets(1, 1)))
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
            ("alock:cas", "alock:20,5:cas-release"),
            ("alock:cas-release:20,5", "is no way to release"),
            ("alock:20,5:cas", "may stand :cas-release"),
            ("alock:20,5:", "may stand :cas-release"),
            ("alock:20:cas-release", "one budget"),
            ("alock:cas-release,5", "alock:20,5:cas-release"),
            ("mcs:", "behind mcs may stand :cas-release"),
            ("mcs:5,1", "behind mcs may stand :cas-release"),
            ("mcs:cas", "behind mcs may stand :cas-release"),
            (
                "farlock-g:5,1:cas-release",
                "the remote budget \"1:cas-release\"",
            ),
            ("tas:2", "tas takes no parameters"),
            ("ticket:2", "ticket takes no parameters"),
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
        let list = LockSpec::parse_list(
            "sherman,alock:20,5,farlock,farlock-g:5,1,alock,farlock-g,tas,alock:3,2:cas-release,mcs:cas-release,ticket",
        )
        .expect("a list");
        assert_eq!(
            list.iter().map(ToString::to_string).collect::<Vec<_>>(),
            [
                "sherman",
                "alock:20,5",
                "farlock",
                "farlock-g:5,1",
                "alock",
                "farlock-g",
                "tas",
                "alock:3,2:cas-release",
                "mcs:cas-release",
                "ticket",
            ]
        );
        assert!(LockSpec::parse_list("sherman,,farlock").is_err());
        assert!(LockSpec::parse_list("sherman,5").is_err());
        assert!(LockSpec::parse_list("alock:1").is_err());
        assert!(LockSpec::parse_list("mcs:cas-release,5").is_err());
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
                ("release", Param::Name("look")),
                ("backoff", Param::Name("none")),
            ])
        );
        assert_eq!(
            params("farlock-g"),
            BTreeMap::from([
                ("slots", Param::Number(16)),
                ("descriptors", Param::Number(8)),
                ("local_budget", Param::Number(5)),
                ("remote_budget", Param::Number(1)),
                ("backoff", Param::Name("none")),
            ])
        );
        assert_eq!(
            params("farlock"),
            BTreeMap::from([
                ("slots", Param::Number(16)),
                ("descriptors", Param::Number(8)),
                ("backoff", Param::Name("none")),
            ])
        );
        assert_eq!(
            params("ticket"),
            BTreeMap::from([("slots", Param::Number(16))])
        );
        let options = LockOptions {
            backoff: Backoff::Exponential {
                min_ns: 1000,
                max_ns: 64_000,
            },
            ..options
        };
        let params = |name: &str| name.parse::<LockSpec>().expect(name).params(&options);
        let backoff = [
            ("backoff", Param::Name("exp")),
            ("backoff_min_ns", Param::Number(1000)),
            ("backoff_max_ns", Param::Number(64_000)),
        ];
        let with = |more: &[(&'static str, Param)]| {
            BTreeMap::from_iter(more.iter().chain(&backoff).cloned())
        };
        assert_eq!(params("tas"), with(&[("slots", Param::Number(16))]));
        assert_eq!(
            params("mcs:cas-release"),
            with(&[
                ("slots", Param::Number(16)),
                ("descriptors", Param::Number(8)),
                ("release", Param::Name("cas")),
            ])
        );
        assert!(!params("sherman").contains_key("backoff"));
    }
}
