//! [`PageFormat`]: how a page tells its readers that it is whole.

use std::fmt;
use std::str::FromStr;

/// The format of a tree's pages.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum PageFormat {
    /// `sequence`: a sequence word that readers sample before and after the page: sound under the contract, see
    /// [`crate::page`].
    #[default]
    Sound,
    /// `sherman`: two-level versions as published (Wang, Lu, Shu, SIGMOD 2022, section 4.4): 4 bits at the front
    /// and the rear of a page, 4 bits at the front and the rear of each entry of a leaf. Fewer verbs, and NOT
    /// sound under the contract: what is read can be torn. To compare with, and to show that.
    Sherman,
}

impl PageFormat {
    /// All of them.
    pub const ALL: [Self; 2] = [Self::Sound, Self::Sherman];

    /// As it is written on a command line.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Sound => "sequence",
            Self::Sherman => "sherman",
        }
    }
}

impl fmt::Display for PageFormat {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// No page format is called so.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("there is no page format {0:?}: there are sequence and sherman")]
pub struct UnknownFormat(String);

impl FromStr for PageFormat {
    type Err = UnknownFormat;

    fn from_str(name: &str) -> Result<Self, UnknownFormat> {
        let found = Self::ALL.into_iter().find(|format| format.name() == name);
        found.ok_or_else(|| UnknownFormat(name.to_owned()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_name_formats() {
        for format in PageFormat::ALL {
            assert_eq!(format.to_string().parse(), Ok(format));
        }
        let message = "sound".parse::<PageFormat>().unwrap_err().to_string();
        assert!(
            message.contains("sound") && message.contains("sherman"),
            "{message}"
        );
    }
}
