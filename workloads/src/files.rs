//! Result files: checked before the work, written whole or not at all.

use std::ffi::OsStr;
use std::fs::{self, File, OpenOptions};
use std::io::{self, BufWriter, Write};
use std::path::{Path, PathBuf};
use std::time::Duration;

use crate::error::{Failure, Result};
use crate::settings::value::Place;

/// Makes sure that the file named by `flag` can be written, without writing it. Directories on the way need not be
/// there: [`make_way`] makes them.
///
/// # Errors
/// [`Failure::Usage`] naming the flag and what is wrong.
pub(crate) fn check_file(flag: &str, place: &Place) -> Result<()> {
    if place.is_stdout() {
        return Ok(());
    }
    let path = place.path();
    let fail =
        |why: String| Failure::Usage(format!("{flag}: cannot write {}: {why}", path.display()));
    if path.as_os_str().as_encoded_bytes().ends_with(b"/") {
        return Err(fail("it is the name of a directory".to_owned()));
    }
    match fs::metadata(path) {
        Ok(found) if found.is_dir() => return Err(fail("it is a directory".to_owned())),
        // A device or a pipe is written to directly; opening a pipe to try would end it for its
        // reader.
        Ok(found) if !found.is_file() => return Ok(()),
        _ => {}
    }
    let target = resolved(path);
    let mut directory = directory_of(&target);
    // Nothing is made before all outputs are known to be right.
    while fs::metadata(directory).is_err_and(|error| error.kind() == io::ErrorKind::NotFound) {
        directory = directory_of(directory);
    }
    probe(directory).map_err(|error| fail(error.to_string()))
}

/// Makes the directories that lead to the file named by `flag`, and removes what a killed process has left of it.
///
/// # Errors
/// [`Failure::Usage`] naming the flag and what is wrong.
pub(crate) fn make_way(flag: &str, place: &Place) -> Result<()> {
    let path = resolved(place.path());
    if place.is_stdout() || fs::metadata(&path).is_ok_and(|found| !found.is_file()) {
        return Ok(());
    }
    let directory = directory_of(&path);
    fs::create_dir_all(directory).map_err(|error| {
        Failure::Usage(format!(
            "{flag}: cannot make the directory {}: {error}",
            directory.display()
        ))
    })?;
    sweep(
        directory,
        path.file_name().map(OsStr::to_string_lossy).as_deref(),
    );
    Ok(())
}

/// Makes the directory named by `flag`, with those above it, and makes sure that files can be
/// written there.
///
/// # Errors
/// [`Failure::Usage`] naming the flag and what is wrong.
pub(crate) fn check_directory(flag: &str, place: &Place) -> Result<()> {
    let path = place.path();
    fs::create_dir_all(path)
        .and_then(|()| probe(path))
        .map(|()| sweep(path, None))
        .map_err(|error| {
            Failure::Usage(format!(
                "{flag}: cannot write into {}: {error}",
                path.display()
            ))
        })
}

/// Writes `text` to `path`: a reader sees the old file or the whole new one, never a part.
///
/// # Errors
/// [`Failure::Work`] naming the file and what is wrong, a full disk for example.
pub(crate) fn write_whole(path: &Path, text: &str) -> Result<()> {
    let written = (|| {
        let mut file = Growing::create(path)?;
        file.write_all(text.as_bytes())?;
        file.finish()
    })();
    written.map_err(|error| cannot_write(path, &error))
}

/// That `path` could not be written.
pub(crate) fn cannot_write(path: &Path, error: &io::Error) -> Failure {
    Failure::Work(format!("cannot write {}: {error}", path.display()))
}

/// A file that is written bit by bit, under a name of its own until it is whole; dropped before, nothing is left of
/// it. A device or a pipe is written to directly.
#[derive(Debug)]
pub(crate) struct Growing {
    file: BufWriter<File>,
    /// The name meanwhile and the one in the end; none once it is whole, and for a device.
    part: Option<(PathBuf, PathBuf)>,
}

impl Growing {
    pub(crate) fn create(path: &Path) -> io::Result<Self> {
        // Renaming onto a device or a pipe would replace it.
        if fs::metadata(path).is_ok_and(|found| !found.is_file()) {
            let file = OpenOptions::new().write(true).open(path)?;
            return Ok(Self {
                file: BufWriter::new(file),
                part: None,
            });
        }
        let path = resolved(path);
        let part = beside(&path);
        Ok(Self {
            file: BufWriter::new(File::create(&part)?),
            part: Some((part, path)),
        })
    }

    /// Gives the file its name.
    pub(crate) fn finish(mut self) -> io::Result<()> {
        self.file.flush()?;
        if let Some((part, path)) = &self.part {
            // Without this a full disk may show only after the rename.
            self.file.get_ref().sync_all()?;
            fs::rename(part, path)?;
        }
        self.part = None;
        Ok(())
    }
}

impl Write for Growing {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.file.write(bytes)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.file.flush()
    }
}

impl Drop for Growing {
    fn drop(&mut self) {
        if let Some((part, _)) = &self.part {
            // What went wrong is told already.
            let _ = fs::remove_file(part);
        }
    }
}

/// What `path` stands for when it is a link: a rename would replace the link, not the file.
fn resolved(path: &Path) -> PathBuf {
    fs::canonicalize(path).unwrap_or_else(|_| path.to_owned())
}

fn directory_of(path: &Path) -> &Path {
    match path.parent() {
        Some(parent) if !parent.as_os_str().is_empty() => parent,
        _ => Path::new("."),
    }
}

/// A hidden name in the same directory (a rename must not cross file systems), of this process
/// alone.
fn beside(path: &Path) -> PathBuf {
    let name = path
        .file_name()
        .map(|name| name.to_string_lossy().into_owned())
        .unwrap_or_default();
    directory_of(path).join(format!(".{name}.{}.part", std::process::id()))
}

/// Removes what processes that died have left in `directory`, which nobody else works in: see [`beside`].
pub(crate) fn remove_parts(directory: &Path) -> io::Result<()> {
    for entry in fs::read_dir(directory)? {
        let entry = entry?;
        let is_part = entry
            .file_name()
            .to_str()
            .is_some_and(|name| part_of(name).is_some());
        if is_part && entry.file_type()?.is_file() {
            fs::remove_file(entry.path())?;
        }
    }
    Ok(())
}

/// Removes from `directory` what processes that are no more have left of the file `name`, or of any: its parts. What
/// cannot be removed stays, and does no harm.
fn sweep(directory: &Path, name: Option<&str>) {
    let Ok(entries) = fs::read_dir(directory) else {
        return;
    };
    for entry in entries.flatten() {
        let file = entry.file_name();
        let Some((of, process)) = file.to_str().and_then(part_of) else {
            continue;
        };
        let is_asked_for = name.is_none_or(|name| name == of);
        if is_asked_for && is_stale(process, &entry) {
            let _ = fs::remove_file(entry.path());
        }
    }
}

/// Of which file the file called `name` is a part, and of which process: see [`beside`].
fn part_of(name: &str) -> Option<(&str, u32)> {
    let (of, process) = name
        .strip_prefix('.')?
        .strip_suffix(".part")?
        .rsplit_once('.')?;
    Some((of, process.parse().ok()?))
}

/// Whether nobody writes a part any more: its process is gone, where the system tells; nothing was written for a day,
/// where it does not.
fn is_stale(process: u32, part: &fs::DirEntry) -> bool {
    if cfg!(target_os = "linux") && Path::new("/proc/self").exists() {
        return !Path::new("/proc").join(process.to_string()).exists();
    }
    let written = part.metadata().and_then(|found| found.modified());
    written.is_ok_and(|at| at.elapsed().is_ok_and(|ago| ago > Duration::from_hours(24)))
}

/// Creates and removes a file in `directory`.
fn probe(directory: &Path) -> io::Result<()> {
    let path = beside(&directory.join("probe"));
    File::create(&path)?;
    fs::remove_file(&path)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn place(path: &Path) -> Place {
        path.to_str().unwrap().parse().unwrap()
    }

    #[test]
    fn files_are_replaced_and_nothing_else_is_left() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("result.json");
        check_file("--json", &place(&path)).unwrap();
        assert_eq!(
            fs::read_dir(dir.path()).unwrap().count(),
            0,
            "the check leaves nothing"
        );
        write_whole(&path, "first").unwrap();
        write_whole(&path, "second").unwrap();
        assert_eq!(fs::read_to_string(&path).unwrap(), "second");
        assert_eq!(fs::read_dir(dir.path()).unwrap().count(), 1);
    }

    #[test]
    fn places_that_cannot_be_written_are_found_beforehand() {
        let dir = tempfile::tempdir().unwrap();
        let file = dir.path().join("file");
        fs::write(&file, "").unwrap();
        for (flag, path) in [
            ("--json", file.join("below")),
            ("--json", dir.path().to_owned()),
            ("--json", dir.path().join("no-such/")),
        ] {
            let error = check_file(flag, &place(&path)).unwrap_err();
            assert!(
                matches!(&error, Failure::Usage(text) if text.starts_with(flag)),
                "{error}"
            );
        }
        let error = check_directory("--out", &place(&file.join("below"))).unwrap_err();
        assert!(
            matches!(&error, Failure::Usage(text) if text.starts_with("--out")),
            "{error}"
        );
        check_directory("--out", &place(&dir.path().join("a/b"))).unwrap();
        assert!(dir.path().join("a/b").is_dir());
    }

    #[test]
    fn what_is_not_finished_leaves_nothing() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("trace.json");
        fs::write(&path, "old").unwrap();
        let mut file = Growing::create(&path).unwrap();
        file.write_all(&[b'x'; 100_000]).unwrap();
        assert_eq!(fs::read_dir(dir.path()).unwrap().count(), 2, "beside it");
        assert_eq!(fs::read_to_string(&path).unwrap(), "old");
        drop(file);
        assert_eq!(fs::read_dir(dir.path()).unwrap().count(), 1);
        assert_eq!(fs::read_to_string(&path).unwrap(), "old");
    }

    #[test]
    fn directories_on_the_way_are_made_when_all_is_known_to_be_right() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("no/such/result.json");
        check_file("--json", &place(&path)).unwrap();
        assert_eq!(fs::read_dir(dir.path()).unwrap().count(), 0, "not yet");
        make_way("--json", &place(&path)).unwrap();
        write_whole(&path, "text").unwrap();
    }

    #[test]
    fn what_a_killed_process_left_is_removed_and_nothing_else() {
        let dir = tempfile::tempdir().unwrap();
        let own = std::process::id();
        // No process has such a number: the largest that a system gives is 2^22.
        let names = [
            ".r.json.4200000000.part".to_owned(),
            format!(".r.json.{own}.part"),
            ".other.json.4200000000.part".to_owned(),
            ".r.json.part".to_owned(),
            "r.json.4200000000.part".to_owned(),
            ".r.json.x4.part".to_owned(),
        ];
        for name in &names {
            fs::write(dir.path().join(name), "").unwrap();
        }
        let there = |name: &String| dir.path().join(name).exists();
        make_way("--json", &place(&dir.path().join("r.json"))).unwrap();
        let left: Vec<bool> = names.iter().map(there).collect();
        assert_eq!(
            left,
            [!cfg!(target_os = "linux"), true, true, true, true, true]
        );
        // All results of a directory are its own.
        check_directory("--out", &place(dir.path())).unwrap();
        let left: Vec<bool> = names.iter().map(there).collect();
        assert_eq!(
            left[1..],
            [true, !cfg!(target_os = "linux"), true, true, true]
        );
    }

    #[cfg(unix)]
    #[test]
    fn a_link_is_written_through() {
        let dir = tempfile::tempdir().unwrap();
        let (target, link) = (dir.path().join("target"), dir.path().join("link"));
        fs::write(&target, "old").unwrap();
        std::os::unix::fs::symlink(&target, &link).unwrap();
        write_whole(&link, "new").unwrap();
        assert_eq!(fs::read_to_string(&target).unwrap(), "new");
        assert!(fs::symlink_metadata(&link).unwrap().is_symlink());
    }

    #[cfg(target_os = "linux")]
    #[test]
    fn a_full_disk_is_told() {
        let error = write_whole(Path::new("/dev/full"), "text").unwrap_err();
        assert!(
            matches!(&error, Failure::Work(text) if text.contains("/dev/full") && text.contains("space")),
            "{error}"
        );
        assert!(
            fs::metadata("/dev/full").is_ok_and(|found| !found.is_file()),
            "still the device"
        );
    }
}
