//! How much memory runs need, and how many fit at once.

use sysinfo::{MemoryRefreshKind, RefreshKind, System};

use crate::error::{Failure, Result};
use crate::settings::quantity::bytes_text;

/// Memory that is left to the rest of the machine.
const SPARE_BYTES: u64 = 256 << 20;

/// Bytes that this process may still use: what the machine, or the container that it runs in, has
/// free. Without bound where the operating system does not tell; it then refuses an allocation
/// itself.
pub(crate) fn available_bytes() -> u64 {
    let kind = RefreshKind::nothing().with_memory(MemoryRefreshKind::nothing().with_ram());
    let Ok(system) = System::new_with_specifics(kind) else {
        return u64::MAX;
    };
    let free = system.available_memory();
    system
        .cgroup_limits()
        .map_or(free, |limits| limits.free_memory.min(free))
}

/// How many runs, each of which needs `bytes_a_run`, may go on at once: at most `wanted`, as many
/// as fit. `advice` says what would fit into so many bytes, when one run does not.
///
/// # Errors
/// [`Failure::Usage`] when not even one fits: how much is needed, how much there is, and the advice.
pub(crate) fn runs_that_fit(
    bytes_a_run: u128,
    available: u64,
    wanted: usize,
    advice: impl FnOnce(u64) -> String,
) -> Result<usize> {
    let usable = available.saturating_sub(SPARE_BYTES);
    let fit = u128::from(usable) / bytes_a_run.max(1);
    if fit == 0 {
        return Err(Failure::Usage(format!(
            "a run needs {} of memory, and the machine has {} free; {}",
            bytes_text(bytes_a_run),
            bytes_text(u128::from(usable)),
            advice(usable),
        )));
    }
    Ok(wanted
        .min(usize::try_from(fit).unwrap_or(usize::MAX))
        .max(1))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fewer_runs_when_not_all_fit_and_none_when_one_does_not() {
        let gib = 1u64 << 30;
        let none = |_| unreachable!("it fits");
        assert_eq!(runs_that_fit(u128::from(gib), 8 * gib, 2, none), Ok(2));
        assert_eq!(runs_that_fit(u128::from(3 * gib), 8 * gib, 4, none), Ok(2));
        assert_eq!(runs_that_fit(0, 8 * gib, 4, none), Ok(4));
        let error = runs_that_fit(u128::from(20 * gib), 8 * gib, 4, |usable| {
            format!("less than {usable}")
        })
        .unwrap_err()
        .to_string();
        assert!(
            error.contains("20.0 GiB")
                && error.contains("7.8 GiB")
                && error.contains("less than 8321499136"),
            "{error}"
        );
    }

    #[test]
    fn the_machine_has_some_memory() {
        assert!(available_bytes() > 16 << 20);
    }
}
