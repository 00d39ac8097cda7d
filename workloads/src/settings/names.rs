//! Names of things that other crates define.

use std::fmt;
use std::str::FromStr;

use dmtree_cluster::sim::{Profile, UnknownProfile};

/// A profile of the simulated cluster, by its name.
#[derive(Clone, Debug, PartialEq)]
pub struct ProfileName(pub Profile);

impl FromStr for ProfileName {
    type Err = UnknownProfile;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        Profile::by_name(text).map(Self)
    }
}

impl fmt::Display for ProfileName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.0.name)
    }
}
