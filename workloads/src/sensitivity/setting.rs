//! The settings of the study: the base, and each variation of it.

use clap::Parser;
use dmtree_cluster::MemoryKind;

use super::variations::{Variation, variations};
use crate::error::{Failure, Result};
use crate::settings::choice::DataPaths;
use crate::settings::switches::joined;
use crate::settings::{Options, Settings};

/// The name of the base among the settings.
pub const BASE: &str = "base";

/// One setting, with everything that a run of it needs.
#[derive(Clone, Debug)]
pub struct Setting {
    /// The parameter that is varied, in words; [`BASE`] for the base.
    pub parameter: &'static str,
    /// Its value, in words; empty for the base.
    pub value: String,
    /// The flags that make it out of the base.
    pub flags: Vec<String>,
    /// What comes of them.
    pub settings: Settings,
}

impl Setting {
    /// Its name, by which results refer to it: `threads a node: 4`.
    pub fn name(&self) -> String {
        if self.value.is_empty() {
            self.parameter.to_owned()
        } else {
            format!("{}: {}", self.parameter, self.value)
        }
    }

    /// Whether it is the base.
    pub fn is_base(&self) -> bool {
        self.parameter == BASE
    }
}

/// Reads flags as the command line does.
#[derive(Debug, Parser)]
#[command(no_binary_name = true, args_override_self = true)]
struct Flags {
    #[command(flatten)]
    options: Options,
}

impl Flags {
    fn read(flags: &[impl AsRef<str>]) -> std::result::Result<Options, clap::Error> {
        let flags = flags.iter().map(|flag| flag.as_ref().into());
        Ok(Self::try_parse_from(joined(flags))?.options)
    }
}

/// The base that `options` describe, and its variations; what would only repeat the base is left out.
///
/// # Errors
/// [`Failure::Usage`] naming the flags when the base or one of its variations is impossible.
pub fn settings_of(options: &Options) -> Result<Vec<Setting>> {
    let base = Settings::of(options.clone())?;
    if base.data_paths == DataPaths::Both {
        return Err(Failure::Usage(
            "--data-path both: the study starts from one path and varies it; say cpu or loopback"
                .to_owned(),
        ));
    }
    let mut settings = vec![Setting {
        parameter: BASE,
        value: String::new(),
        flags: Vec::new(),
        settings: base.clone(),
    }];
    for variation in variations(&base) {
        let setting = setting(options, &base, variation)?;
        if !is_same(&setting.settings, &base) {
            settings.push(setting);
        }
    }
    Ok(settings)
}

fn setting(options: &Options, base: &Settings, variation: Variation) -> Result<Setting> {
    let Variation {
        parameter,
        value,
        flags,
    } = variation;
    let because = |why: &dyn std::fmt::Display| {
        Failure::Usage(format!(
            "the setting {parameter}: {value} ({}) is impossible here: {why}",
            flags.join(" ")
        ))
    };
    let read = Flags::read(&flags).map_err(|error| because(&error))?;
    let settings = Settings::of(read.or(options.clone())).map_err(|error| because(&error))?;
    // With --lock-memory auto Sherman's lock words move where another table or RNIC has room for them, or has none: a
    // second difference, which has to be seen.
    let is_said = flags.iter().any(|flag| flag == "--lock-memory");
    if settings.lock_memory != base.lock_memory && !is_said {
        let memory = match settings.lock_memory {
            MemoryKind::Host => "host",
            MemoryKind::Device => "device",
        };
        let more = ["--lock-memory", memory].map(String::from);
        let variation = Variation {
            parameter,
            value: format!("{value}, locks in {memory} memory"),
            flags: flags.into_iter().chain(more).collect(),
        };
        return setting(options, base, variation);
    }
    Ok(Setting {
        parameter,
        value,
        flags,
        settings,
    })
}

/// Whether runs of both give the same results, as far as the options tell.
fn is_same(one: &Settings, other: &Settings) -> bool {
    // A parameter that is set to the value it has anyway changes nothing.
    let options = |settings: &Settings| Options {
        set: Vec::new(),
        ..settings.options.clone()
    };
    let parameters = |settings: &Settings| {
        let rows = settings.profile.rows().into_iter();
        rows.map(|(name, value, _)| (name, value))
            .collect::<Vec<_>>()
    };
    options(one) == options(other) && parameters(one) == parameters(other)
}

#[cfg(test)]
mod tests;
