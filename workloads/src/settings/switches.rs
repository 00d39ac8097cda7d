//! Flags of `on` and `off`, wherever flags are read.

use std::ffi::OsString;

/// Flags that are on without a value, and take one all the same.
pub(crate) const SWITCHES: [&str; 7] = [
    "--hostile",
    "--paper",
    "--prefill-cache",
    "--qp-cache",
    "--quick",
    "--resume",
    "--verify",
];

/// `--verify on` as `--verify=on`: so a switch takes its value from the next argument, but for what is a flag or, as in
/// `figure --quick 12`, a number.
pub(crate) fn joined(args: impl Iterator<Item = OsString>) -> Vec<OsString> {
    let mut joined: Vec<OsString> = Vec::new();
    for arg in args {
        let is_value = arg
            .to_str()
            .is_some_and(|text| !text.starts_with('-') && text.parse::<f64>().is_err());
        match joined.last_mut() {
            Some(last) if is_value && SWITCHES.iter().any(|switch| *last == **switch) => {
                last.push("=");
                last.push(arg);
            }
            _ => joined.push(arg),
        }
    }
    joined
}
