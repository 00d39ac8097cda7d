//! [`Subject`]: what a command is about, and which options that leaves without a meaning.

use super::Options;
use crate::error::{Failure, Result};

/// What the clients of a command work on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Subject {
    /// The tree, whose pages the locks guard.
    Tree,
    /// The locks alone.
    Locks,
}

/// Options that are about one subject only.
macro_rules! belong {
    ($names:ident, $given:ident, $without:ident: $($option:ident,)+) => {
        /// By name.
        const $names: &[&str] = &[$(stringify!($option)),+];

        /// Which of them are given.
        fn $given(options: &Options) -> impl Iterator<Item = &'static str> {
            let is_given = [$(options.$option.is_some()),+];
            let all = $names.iter().zip(is_given);
            all.filter_map(|(name, is_given)| is_given.then_some(*name))
        }

        /// The options without them.
        fn $without(options: Options) -> Options {
            Options { $($option: None,)+ ..options }
        }
    };
}

belong! { OF_TREES, given_of_trees, without_trees:
    keys, distribution, mix, data_path, fill, page_bytes, page_format, prefill_cache, cache_budget, verify,
    search_time,
}

belong! { OF_LOCKS, given_of_locks, without_locks:
    critical_section_local, critical_section_remote, arrivals, gap,
}

impl Subject {
    /// The names, as fields, of the options that mean nothing here.
    pub fn foreign(self) -> &'static [&'static str] {
        match self {
            Self::Tree => OF_LOCKS,
            Self::Locks => OF_TREES,
        }
    }

    /// `options` without those that mean nothing here.
    #[must_use]
    pub(crate) fn own(self, options: Options) -> Options {
        match self {
            Self::Tree => without_locks(options),
            Self::Locks => without_trees(options),
        }
    }

    /// The flags of which one run has one value each, in words.
    pub(super) fn of_one_run(self) -> &'static str {
        match self {
            Self::Tree => "one --lock, one --distribution and one --data-path",
            Self::Locks => "one --lock and one --lock-count",
        }
    }

    /// Whether none of the options that were given mean nothing here.
    ///
    /// # Errors
    /// [`Failure::Usage`] naming the first that does, why, and what would be right.
    pub(crate) fn check(self, given: &Options) -> Result<()> {
        let (first, why) = match self {
            Self::Tree => (
                given_of_locks(given).next(),
                "it is for the locks alone, as dmtree lock-bench measures them; here clients work on the tree: leave it away",
            ),
            Self::Locks => (
                given_of_trees(given).next(),
                "it is about the tree, and there is none here, only locks and clients that take them: leave it away, or \
                 measure the tree by dmtree bench",
            ),
        };
        match first {
            Some(name) => Err(Failure::Usage(format!(
                "--{}: {why}",
                name.replace('_', "-")
            ))),
            None => Ok(()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::default_options;
    use super::*;

    #[test]
    fn every_option_of_the_other_subject_is_refused() {
        let locks: Options = toml::from_str(
            "critical-section-local = \"1us\"\ncritical-section-remote = \"1us\"\narrivals = \"burst:1,1\"\ngap = 1\n",
        )
        .expect("options");
        let verify: Options = toml::from_str("verify = true").expect("options");
        let all = default_options().or(locks).or(verify);
        for (subject, other) in [
            (Subject::Tree, Subject::Locks),
            (Subject::Locks, Subject::Tree),
        ] {
            assert_eq!(subject.check(&other.own(subject.own(all.clone()))), Ok(()));
            assert_eq!(subject.check(&subject.own(all.clone())), Ok(()));
            let mut left = all.clone();
            for name in subject.foreign() {
                let flag = format!("--{}: ", name.replace('_', "-"));
                let error = subject.check(&left).expect_err(name).to_string();
                assert!(error.starts_with(&flag), "{flag}: {error}");
                // The next one is told when this one is gone.
                let mut table = toml::Table::try_from(&left).expect("a table");
                table.remove(&name.replace('_', "-")).expect("it was given");
                left = table.try_into().expect("options");
            }
            assert_eq!(subject.check(&left), Ok(()));
        }
    }
}
