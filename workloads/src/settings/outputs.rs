//! Which files a command is to write.

use std::path::{Component, Path, PathBuf};

use super::value::Place;
use super::{Options, Settings};
use crate::error::{Failure, Result};

impl Settings {
    /// The flags of single files that are to be written, with their places.
    pub(crate) fn files(&self) -> impl Iterator<Item = (&'static str, &Place)> {
        let trace = self.trace.as_ref().map(|trace| &trace.place);
        let timeline = self.timeline.as_ref().map(|timeline| &timeline.place);
        given([self.json.as_ref(), self.csv.as_ref(), trace, timeline])
    }
}

/// The flags of files, in this order.
const FLAGS: [&str; 4] = ["--json", "--csv", "--trace", "--timeline"];

fn given(places: [Option<&Place>; 4]) -> impl Iterator<Item = (&'static str, &Place)> {
    let named = FLAGS.into_iter().zip(places);
    named.filter_map(|(flag, place)| Some((flag, place?)))
}

/// Where a path leads, whatever it is called: what of it exists in its true form, the rest without `.` and `..`.
fn target(path: &Path) -> PathBuf {
    let whole = std::path::absolute(path).unwrap_or_else(|_| path.to_owned());
    let mut target = PathBuf::new();
    for part in whole.components() {
        match part {
            Component::ParentDir => _ = target.pop(),
            Component::CurDir => {}
            part => {
                target.push(part);
                if let Ok(true_form) = target.canonicalize() {
                    target = true_form;
                }
            }
        }
    }
    target
}

impl Settings {
    /// Whether no single file is one of those that `--out` writes for a command whose files are called `name`.
    ///
    /// # Errors
    /// [`Failure::Usage`] naming the flags.
    pub(crate) fn check_out_differs(&self, name: &str) -> Result<()> {
        let Some(out) = &self.out else { return Ok(()) };
        let directory = target(out.path());
        for (flag, place) in self.files().filter(|(_, place)| !place.is_stdout()) {
            let file = target(place.path());
            let (Some(parent), Some(file)) = (file.parent(), file.file_name()) else {
                continue;
            };
            let file = file.to_string_lossy();
            // The same contents under the same name do no harm.
            let is_itself = match flag {
                "--json" => file == format!("{name}.json"),
                "--csv" => file == format!("{name}.csv"),
                _ => false,
            };
            let is_of_out = file.ends_with(".hgrm")
                || file
                    .strip_prefix(name)
                    .is_some_and(|rest| rest.starts_with(['.', '-']));
            if parent == directory && is_of_out && !is_itself {
                return Err(Failure::Usage(format!(
                    "{flag} {place}: --out {out} writes a file of such a name itself; give another name"
                )));
            }
        }
        Ok(())
    }
}

impl Options {
    /// The flags of single files that were given, with their places.
    fn files(&self) -> impl Iterator<Item = (&'static str, &Place)> {
        let places = [&self.json, &self.csv, &self.trace, &self.timeline];
        given(places.map(Option::as_ref))
    }

    /// Whether each file is written by one flag only.
    ///
    /// # Errors
    /// [`Failure::Usage`] naming the flags.
    pub(super) fn check_files_differ(&self) -> Result<()> {
        let files: Vec<_> = self.files().collect();
        for (index, (flag, place)) in files.iter().enumerate() {
            let same = |other: &Place| match (other.is_stdout(), place.is_stdout()) {
                (false, false) => target(other.path()) == target(place.path()),
                both => both == (true, true),
            };
            let Some((other, at)) = files[..index].iter().find(|(_, other)| same(other)) else {
                continue;
            };
            let both = if place.is_stdout() {
                "standard output".to_owned()
            } else {
                place.to_string()
            };
            return Err(Failure::Usage(format!(
                "{other} {at} and {flag} {place} cannot both go to {both}"
            )));
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn place(path: PathBuf) -> Option<Place> {
        Some(path.display().to_string().parse().expect("a place"))
    }

    #[test]
    fn one_file_under_two_names_is_one_file() {
        let directory = tempfile::tempdir().expect("a directory");
        let at = |path: &str| place(directory.path().join(path));
        for (json, trace, differ) in [
            ("a.json", "b.json", true),
            ("a.json", "a.json", false),
            ("a.json", "./a.json", false),
            ("a.json", "../a.json", true),
            ("new/a.json", "new/../new/a.json", false),
        ] {
            let options = Options {
                json: at(json),
                trace: at(trace),
                ..Options::default()
            };
            assert_eq!(
                options.check_files_differ().is_ok(),
                differ,
                "{json}, {trace}"
            );
        }
        #[cfg(unix)]
        {
            std::os::unix::fs::symlink(directory.path(), directory.path().join("link"))
                .expect("a link");
            let options = Options {
                csv: at("link/a"),
                timeline: at("a"),
                ..Options::default()
            };
            let error = options.check_files_differ().unwrap_err().to_string();
            assert!(
                error.contains("--csv") && error.contains("--timeline"),
                "{error}"
            );
        }
    }

    #[test]
    fn files_of_out_are_written_by_nobody_else() {
        let directory = tempfile::tempdir().expect("a directory");
        let at = |path: &str| place(directory.path().join(path));
        for (trace, differs) in [
            ("out/bench.json", false),
            ("out/../out/bench-cpu.svg", false),
            ("out/sherman.hgrm", false),
            ("out/trace.json", true),
            ("bench.json", true),
        ] {
            let settings = Settings::of(Options {
                out: at("out"),
                json: at("out/bench.json"),
                trace: at(trace).filter(|_| trace != "out/bench.json"),
                csv: at(trace).filter(|_| trace == "out/bench.json"),
                ..Options::default()
            });
            let checked = settings.and_then(|settings| settings.check_out_differs("bench"));
            assert_eq!(checked.is_ok(), differs, "{trace}");
        }
    }
}
