//! [`LockBench`]: what the options say of a lock benchmark beyond what they say of any run.

use dmtree_lock::Cohort;
use sha2::{Digest, Sha256};

use super::arrivals::{Arrivals, Cluster, Script};
use super::section::{LOCAL, Lengths, REMOTE, Section};
use crate::error::{Failure, Result};
use crate::settings::Options;
use crate::settings::quantity::Time;

/// The time within which all requests of a script have begun, behind the last one's time: a client that is late makes
/// the next one later.
const BEHIND_LAST_NS: u64 = 1_000_000_000;

/// A lock benchmark that is asked for.
#[derive(Clone, Debug)]
pub struct LockBench {
    /// Numbers of locks, a run each.
    pub lock_counts: Vec<u32>,
    /// Critical sections as typed, by cohort.
    pub sections: [Section; 2],
    /// The same to be drawn, by cohort.
    pub lengths: [Lengths; 2],
    /// Requests at given times; none for the closed loop.
    pub script: Option<Script>,
    /// The flags of files, with the SHA-256 of what was read from them: what a file's name does not say.
    pub inputs: Vec<(&'static str, String)>,
}

impl Default for LockBench {
    /// The paper's: one lock, its critical sections, the closed loop.
    fn default() -> Self {
        Self {
            lock_counts: vec![1],
            sections: [Section::Fixed(LOCAL), Section::Fixed(REMOTE)],
            lengths: [Lengths::Fixed(LOCAL.ns), Lengths::Fixed(REMOTE.ns)],
            script: None,
            inputs: Vec::new(),
        }
    }
}

impl LockBench {
    /// What `options` say, for a cluster of `nodes` with `threads` each.
    ///
    /// # Errors
    /// [`Failure::Usage`] when a file cannot be read, or options contradict each other.
    pub(crate) fn of(options: &Options, nodes: u16, threads: u16) -> Result<Self> {
        const FLAGS: [&str; 2] = ["--critical-section-local", "--critical-section-remote"];
        let lock_counts = options
            .lock_count
            .as_ref()
            .map_or(vec![1], |counts| counts.0.clone());
        let sections = [
            options
                .critical_section_local
                .clone()
                .unwrap_or(Section::Fixed(LOCAL)),
            options
                .critical_section_remote
                .clone()
                .unwrap_or(Section::Fixed(REMOTE)),
        ];
        let of = |cohort: Cohort| sections[cohort as usize].lengths(FLAGS[cohort as usize]);
        let lengths = [of(Cohort::Local)?, of(Cohort::Remote)?];
        let mut inputs = Vec::new();
        for (flag, lengths) in FLAGS.into_iter().zip(&lengths) {
            if let Lengths::Listed(times) = lengths {
                inputs.push((flag, digest(times)));
            }
        }
        let script = match &options.arrivals {
            None => None,
            Some(arrivals) => {
                check_script(options)?;
                let cluster = Cluster {
                    nodes,
                    threads,
                    locks: lock_counts.iter().copied().min().unwrap_or(1),
                };
                let script =
                    Script::of(arrivals, options.gap.unwrap_or(Time::from_ns(0)), cluster)?;
                if matches!(arrivals, Arrivals::File(_)) {
                    inputs.push(("--arrivals", digest(&script)));
                }
                Some(script)
            }
        };
        Ok(Self {
            lock_counts,
            sections,
            lengths,
            script,
            inputs,
        })
    }

    /// The most locks of any run.
    pub(crate) fn most_locks(&self) -> u32 {
        self.lock_counts.iter().copied().max().unwrap_or(1)
    }

    /// What its runs have in common, for people; `measured` says so of the closed loop's window.
    pub(crate) fn conditions(&self, options: &Options, measured: &str) -> String {
        let [local, remote] = &self.sections;
        let work = match (&options.arrivals, options.gap) {
            (None, _) => measured.to_owned(),
            (Some(arrivals), Some(gap)) => format!("arrivals {arrivals}, gap {}", gap.short()),
            (Some(arrivals), None) => format!("arrivals {arrivals}"),
        };
        format!("critical sections {local} local, {remote} remote, {work}")
    }

    /// How long requests may begin, of a script, in nanoseconds.
    pub(crate) fn script_ns(&self) -> Option<u64> {
        let script = self.script.as_ref()?;
        Some(script.last_ns() + BEHIND_LAST_NS)
    }
}

fn digest(what: &impl std::fmt::Debug) -> String {
    let digest = Sha256::digest(format!("{what:?}"));
    digest.iter().map(|byte| format!("{byte:02x}")).collect()
}

/// Whether `options` with `--arrivals` leave alone what that takes the place of, and those without what needs it.
///
/// # Errors
/// [`Failure::Usage`] naming the flags.
pub(crate) fn check_given(given: &Options) -> Result<()> {
    let refuse = |flag: &str, why: &str| Err(Failure::Usage(format!("{flag}: {why}")));
    let Some(arrivals) = &given.arrivals else {
        return match given.gap {
            Some(gap) => refuse(
                &format!("--gap {gap}"),
                "it is between the local and the remote requests of --arrivals burst:LOCAL,REMOTE: give that too",
            ),
            None => Ok(()),
        };
    };
    if let (Arrivals::File(place), Some(gap)) = (arrivals, given.gap) {
        return refuse(
            &format!("--gap {gap}"),
            &format!(
                "--arrivals {place} has the time of each request itself; --gap is for burst:LOCAL,REMOTE"
            ),
        );
    }
    for (flag, is_given) in [
        ("--seconds", given.seconds.is_some()),
        ("--warmup", given.warmup.is_some()),
        ("--stagger", given.stagger.is_some()),
        ("--timeline", given.timeline.is_some()),
    ] {
        if is_given {
            return refuse(
                flag,
                "the closed loop has a warm-up, a measured window and a staggered start; with --arrivals requests begin \
                 at the times that it gives, and all count",
            );
        }
    }
    Ok(())
}

fn check_script(options: &Options) -> Result<()> {
    match options.coroutines {
        Some(coroutines) if coroutines.get() > 1 => Err(Failure::Usage(format!(
            "--coroutines {coroutines}: --arrivals is of threads, a client each; leave it away"
        ))),
        _ => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_gap_and_a_window_are_refused_where_they_say_nothing() {
        for (text, words) in [
            ("gap = \"5us\"", &["--gap", "--arrivals burst"][..]),
            (
                "gap = \"5us\"\narrivals = \"requests.txt\"",
                &["--gap", "requests.txt"],
            ),
            (
                "arrivals = \"burst:1,1\"\nseconds = 1",
                &["--seconds", "closed loop"],
            ),
            ("arrivals = \"burst:1,1\"\nwarmup = 1", &["--warmup"]),
            ("arrivals = \"burst:1,1\"\nstagger = 1", &["--stagger"]),
            (
                "arrivals = \"burst:1,1\"\ntimeline = \"x.svg\"",
                &["--timeline"],
            ),
        ] {
            let given: Options = toml::from_str(text).expect("options");
            let error = check_given(&given).expect_err(text).to_string();
            for word in words {
                assert!(error.contains(word), "{text}: {word} is not in {error}");
            }
        }
        let given: Options =
            toml::from_str("gap = \"5us\"\narrivals = \"burst:1,1\"").expect("options");
        assert_eq!(check_given(&given), Ok(()));
    }

    #[test]
    fn files_are_known_by_what_they_say() {
        let directory = tempfile::tempdir().expect("a directory");
        let path = directory.path().join("times");
        let inputs = |text: &str| {
            std::fs::write(&path, text).expect("written");
            let options = Options {
                critical_section_local: Some(Section::File(path.clone().into())),
                ..Options::default()
            };
            LockBench::of(&options, 2, 2).expect("a bench").inputs
        };
        let one = inputs("1us\n");
        assert_eq!((one.len(), one[0].0), (1, "--critical-section-local"));
        assert_eq!(one, inputs("# the same\n0.000001\n"));
        assert_ne!(one, inputs("2us\n"));
        assert_eq!(
            LockBench::of(&Options::default(), 2, 2)
                .expect("a bench")
                .inputs,
            []
        );
    }
}
