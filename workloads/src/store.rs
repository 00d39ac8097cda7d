//! `--resume`: finished runs, each in a file of its own, so that a command that was ended before its end goes on where
//! it was.
//!
//! A file is trusted when it is whole (its checksum says so), of a run with exactly the same settings, and written by
//! the same program, byte for byte: any other program may simulate something else. Anything else is told, and the run
//! is done again. A file gets its name when it is whole and on the disk; one that is being written when the program
//! dies has a name of its own, and the next command removes it.

mod program;
mod record;
mod resume;
#[cfg(test)]
mod tests;

pub(crate) use record::{Samples, settings_of};
pub(crate) use resume::Resume;

use std::fs::{self, File, TryLockError};
use std::io::{self, Read, Write};
use std::path::{Path, PathBuf};

use crate::error::{Failure, Result};
use crate::files::{cannot_write, check_directory, remove_parts, write_whole};
use crate::run::{RunOutcome, RunSpec};
use crate::settings::Settings;
use crate::settings::value::Place;
use record::{Record, short_hash};

/// Below the directory of the results.
const DIRECTORY: &str = "runs";
/// Locked by the command that works there.
const LOCK: &str = ".lock";
/// A file that is larger than this is not read: histograms take some ten kilobytes.
const MOST_BYTES: u64 = 16 << 20;
/// Room that must be there before the first run.
const PROBE_BYTES: usize = 1 << 20;

/// What was found of a run.
#[derive(Debug)]
pub(crate) enum Found {
    /// Its outcome.
    Run(Box<RunOutcome>),
    /// Nothing.
    Nothing,
    /// A file that is not trusted, and why, in words that name it.
    Unusable(String),
}

/// Finished runs in a directory.
#[derive(Debug)]
pub(crate) struct Store {
    directory: PathBuf,
    /// What wrote the files that are trusted.
    program: String,
}

impl Store {
    /// The store of the results in `out`, for this program. Nothing is written yet.
    ///
    /// # Errors
    /// [`Failure::Usage`] when the program cannot read itself.
    pub(crate) fn of(out: &Place) -> Result<Self> {
        let program = program::fingerprint().map_err(|error| {
            Failure::Usage(format!(
                "--resume on: cannot read this program, to know it again: {error}; --resume off does without"
            ))
        })?;
        Ok(Self::with_program(out, program))
    }

    fn with_program(out: &Place, program: String) -> Self {
        Self {
            directory: out.path().join(DIRECTORY),
            program,
        }
    }

    /// Where it is.
    pub(crate) fn directory(&self) -> &Path {
        &self.directory
    }

    /// Makes the directory, takes it for this process as long as what is returned lives, makes sure that there is some
    /// room, and removes what a process that died has left half written.
    ///
    /// # Errors
    /// [`Failure::Usage`] when it cannot be written to, or another process has it.
    pub(crate) fn take(&self) -> Result<File> {
        let refused = |why: String| {
            Failure::Usage(format!(
                "--resume on: {}: {why}; --resume off does without",
                self.directory.display()
            ))
        };
        let directory = Place::from(self.directory.clone());
        check_directory("--resume on", &directory)?;
        let lock = File::create(self.directory.join(LOCK))
            .map_err(|error| refused(format!("cannot make the lock file: {error}")))?;
        lock.try_lock().map_err(|error| {
            refused(match error {
                TryLockError::WouldBlock => "another dmtree is at work there".to_owned(),
                TryLockError::Error(error) => format!("cannot be locked: {error}"),
            })
        })?;
        // Behind the lock: whoever wrote them is gone.
        remove_parts(&self.directory)
            .map_err(|error| refused(format!("cannot be cleared: {error}")))?;
        self.probe_room()
            .map_err(|error| refused(format!("cannot be written: {error}")))?;
        Ok(lock)
    }

    /// Writes some bytes and removes them: a full disk shows now, not after the first run.
    fn probe_room(&self) -> io::Result<()> {
        let path = self
            .directory
            .join(format!(".room.{}.part", std::process::id()));
        let written = File::create(&path).and_then(|mut file| {
            file.write_all(&vec![b'.'; PROBE_BYTES])?;
            file.sync_all()
        });
        let removed = fs::remove_file(&path);
        written.and(removed)
    }

    /// What there is of the run `spec` of `settings`.
    pub(crate) fn find(&self, settings: &Settings, spec: &RunSpec) -> Result<Found> {
        let wanted = settings_of(settings, spec)?;
        let path = self.path(spec, &wanted);
        let bytes = match read(&path) {
            Ok(Some(bytes)) => bytes,
            Ok(None) => return Ok(Found::Nothing),
            Err(error) => return Ok(unusable(&path, format!("cannot be read: {error}"))),
        };
        Ok(
            match Record::of_bytes(&bytes)
                .and_then(|record| record.outcome(&self.program, &wanted, spec))
            {
                Ok(outcome) => Found::Run(Box::new(outcome)),
                Err(why) => unusable(&path, why.to_owned()),
            },
        )
    }

    /// Keeps the outcome of a run of `settings`.
    ///
    /// # Errors
    /// [`Failure::Work`] naming the file that could not be written.
    pub(crate) fn keep(&self, settings: &Settings, outcome: &RunOutcome) -> Result<()> {
        let settings = settings_of(settings, &outcome.spec)?;
        let path = self.path(&outcome.spec, &settings);
        let text = Record::new(&self.program, settings, outcome)
            .and_then(|record| record.text())
            .map_err(|why| Failure::Work(format!("cannot keep {}: {why}", path.display())))?;
        write_whole(&path, &text)?;
        sync_directory(&self.directory).map_err(|error| cannot_write(&path, &error))
    }

    /// The file of a run: named for people, and told from those of other settings.
    fn path(&self, spec: &RunSpec, settings: &serde_json::Value) -> PathBuf {
        self.directory.join(format!(
            "{}-seed-{}-{}.run",
            spec.file_name(),
            spec.seed,
            short_hash(settings)
        ))
    }
}

fn unusable(path: &Path, why: String) -> Found {
    Found::Unusable(format!("{}: {why}", path.display()))
}

/// The bytes of a file; none when there is none.
fn read(path: &Path) -> io::Result<Option<Vec<u8>>> {
    match fs::metadata(path) {
        // Opening a pipe would wait for its writer.
        Ok(found) if !found.is_file() => return Err(io::Error::other("it is no file")),
        Ok(_) => {}
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
        Err(error) => return Err(error),
    }
    let mut bytes = Vec::new();
    let read = File::open(path)?
        .take(MOST_BYTES + 1)
        .read_to_end(&mut bytes)?;
    if read as u64 > MOST_BYTES {
        return Err(io::Error::other("it is too large to be a run"));
    }
    Ok(Some(bytes))
}

/// Has a new name in `directory` survive a loss of power.
fn sync_directory(directory: &Path) -> io::Result<()> {
    // Elsewhere a directory cannot be opened as a file.
    if cfg!(unix) {
        File::open(directory)?.sync_all()
    } else {
        Ok(())
    }
}
