//! Which files a command is to write.

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
            let Some((other, _)) = files[..index].iter().find(|(_, other)| other == place) else {
                continue;
            };
            let target = if place.is_stdout() {
                "standard output".to_owned()
            } else {
                place.to_string()
            };
            return Err(Failure::Usage(format!(
                "{other} {place} and {flag} {place} cannot both go to {target}"
            )));
        }
        Ok(())
    }
}
