//! Options whose values are words.

use std::fmt;
use std::str::FromStr;

use dmtree_lock::DataPath;

/// A text that is none of an option's values.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
#[error("no {what} is called {text:?}; {}", existing(.known))]
pub struct UnknownChoice {
    what: &'static str,
    text: String,
    known: &'static [&'static str],
}

fn existing(known: &[&str]) -> String {
    match known {
        [only] => format!("there is only {only}"),
        _ => format!("there are {}", known.join(", ")),
    }
}

/// Defines an option as an enum with a word for each value.
macro_rules! choice {
    (
        $(#[$meta:meta])* $name:ident($what:literal) {
            $($(#[$variant_meta:meta])* $variant:ident = $word:literal,)+
        }
    ) => {
        $(#[$meta])*
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        pub enum $name {
            $($(#[$variant_meta])* $variant,)+
        }

        impl FromStr for $name {
            type Err = UnknownChoice;

            fn from_str(text: &str) -> Result<Self, Self::Err> {
                match text {
                    $($word => Ok(Self::$variant),)+
                    _ => Err(UnknownChoice { what: $what, text: text.to_owned(), known: &[$($word),+] }),
                }
            }
        }

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str(match self { $(Self::$variant => $word,)+ })
            }
        }
    };
}

choice! {
    /// What carries the verbs.
    Fabric("fabric") {
        /// The simulated cluster, in virtual time.
        Sim = "sim",
        /// Nodes as processes, in real time.
        Tcp = "tcp",
        /// The same, whose clients' verbs go by RDMA.
        Verbs = "verbs",
    }
}

choice! {
    /// How a remote swap is made.
    Swap("kind of swap") {
        /// A loop of CAS: guess, retry with what came back.
        Cas = "cas",
        /// One verb, where the RNIC has masked CAS.
        Native = "native",
    }
}

choice! {
    /// Where the words of Sherman's lock lie.
    LockMemory("memory") {
        /// In device memory where the profile's RNIC has enough of it, else in host memory.
        Auto = "auto",
        /// In host memory.
        Host = "host",
        /// In device memory, or the run is refused.
        Device = "device",
    }
}

choice! {
    /// How clients on the page's own node reach page data.
    DataPaths("data path") {
        /// By CPU loads and stores.
        Cpu = "cpu",
        /// By verbs through their own RNIC.
        Loopback = "loopback",
        /// One run of each.
        Both = "both",
    }
}

impl DataPaths {
    /// The paths to run, in the order of the results.
    pub fn each(self) -> &'static [DataPath] {
        match self {
            Self::Cpu => &[DataPath::Cpu],
            Self::Loopback => &[DataPath::Loopback],
            // The longest runs, those of local clients at the speed of CPUs, begin first.
            Self::Both => &[DataPath::Cpu, DataPath::Loopback],
        }
    }
}

/// The word for a data path.
pub fn path_name(path: DataPath) -> &'static str {
    match path {
        DataPath::Cpu => "cpu",
        DataPath::Loopback => "loopback",
    }
}

choice! {
    /// How a page shows a lock-free reader that it was changed meanwhile.
    PageFormat("page format") {
        /// A sequence word, read before and after the page (see [`dmtree_index::page`]).
        Sequence = "sequence",
        /// Sherman's two-level versions, not sound under the contract (see [`dmtree_index::PageFormat`]).
        Sherman = "sherman",
    }
}

impl From<PageFormat> for dmtree_index::PageFormat {
    fn from(format: PageFormat) -> Self {
        match format {
            PageFormat::Sequence => Self::Sound,
            PageFormat::Sherman => Self::Sherman,
        }
    }
}

choice! {
    /// On or off.
    Switch("switch position") {
        /// On.
        On = "on",
        /// Off.
        Off = "off",
    }
}

impl Switch {
    /// Whether it is on.
    pub fn is_on(self) -> bool {
        self == Self::On
    }
}

impl From<bool> for Switch {
    fn from(on: bool) -> Self {
        if on { Self::On } else { Self::Off }
    }
}

/// How many times in a row a lock may be handed over within a compute server.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct HandoverLimit(
    /// The limit; none means no limit.
    pub Option<u32>,
);

/// A text that is no hand-over limit.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
#[error(
    "{0:?} is no hand-over limit; write a number such as 8 (0: never hand over), or none for no limit"
)]
pub struct HandoverLimitError(String);

impl FromStr for HandoverLimit {
    type Err = HandoverLimitError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        if text == "none" {
            return Ok(Self(None));
        }
        text.parse()
            .map(|limit| Self(Some(limit)))
            .map_err(|_| HandoverLimitError(text.to_owned()))
    }
}

impl fmt::Display for HandoverLimit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0 {
            Some(limit) => limit.fmt(f),
            None => f.write_str("none"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn unknown_words_are_told_what_exists() {
        let error = "shm".parse::<Fabric>().unwrap_err().to_string();
        assert_eq!(
            error,
            "no fabric is called \"shm\"; there are sim, tcp, verbs"
        );
        let error = "dma".parse::<DataPaths>().unwrap_err().to_string();
        assert_eq!(
            error,
            "no data path is called \"dma\"; there are cpu, loopback, both"
        );
    }

    #[test]
    fn words_are_read_and_written() {
        assert_eq!("native".parse::<Swap>().unwrap().to_string(), "native");
        assert_eq!("both".parse::<DataPaths>().unwrap().each().len(), 2);
        assert_eq!("none".parse(), Ok(HandoverLimit(None)));
        assert_eq!("4".parse::<HandoverLimit>().unwrap().to_string(), "4");
        assert!("few".parse::<HandoverLimit>().is_err());
    }
}
