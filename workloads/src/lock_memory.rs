//! Where the words of Sherman's lock lie, and what people are told about it.

use dmtree_cluster::sim::Profile;
use dmtree_cluster::{LINE_BYTES, MemoryKind};
use dmtree_lock::{LockOptions, LockSpec};

use crate::error::{Failure, Result};
use crate::settings::choice::LockMemory;
use crate::settings::quantity::bytes_text;

/// Bytes that a table of `slots` locks of Sherman's takes of a memory server.
fn table_bytes(slots: u32) -> u64 {
    let lock_bytes = LockSpec::Sherman.layout(&LockOptions::default()).lock_bytes;
    (u64::from(slots) * lock_bytes).next_multiple_of(LINE_BYTES as u64)
}

fn device_bytes(profile: &Profile) -> u64 {
    u64::from(profile.device_bytes.value)
}

/// As many slots as the profile's device memory has room for.
fn slots_that_fit(profile: &Profile) -> u64 {
    let lock_bytes = LockSpec::Sherman.layout(&LockOptions::default()).lock_bytes;
    device_bytes(profile) / LINE_BYTES as u64 * LINE_BYTES as u64 / lock_bytes
}

/// The memory of Sherman's lock words, a table of `slots` on an RNIC of `profile`; host memory where none of
/// `locks` is Sherman's.
///
/// Left to choose, device memory is taken where the whole table fits: never for a part of it, and never with
/// fewer slots than were asked for.
///
/// # Errors
/// [`Failure::Usage`] when device memory is asked for and does not suffice: what would; and when no lock uses it.
pub(crate) fn choose(
    asked: LockMemory,
    locks: &[LockSpec],
    slots: u32,
    profile: &Profile,
) -> Result<MemoryKind> {
    if !locks.contains(&LockSpec::Sherman) {
        return match asked {
            LockMemory::Auto | LockMemory::Host => Ok(MemoryKind::Host),
            LockMemory::Device => Err(Failure::Usage(format!(
                "--lock-memory device is for sherman's lock words alone, and sherman is not among the locks: CPUs use the \
                 words of {}, and do not reach device memory; leave it away, or add sherman to --lock",
                locks
                    .iter()
                    .map(ToString::to_string)
                    .collect::<Vec<_>>()
                    .join(",")
            ))),
        };
    }
    let (needed, has) = (table_bytes(slots), device_bytes(profile));
    match asked {
        LockMemory::Host => Ok(MemoryKind::Host),
        LockMemory::Auto if needed > has => Ok(MemoryKind::Host),
        LockMemory::Auto => Ok(MemoryKind::Device),
        LockMemory::Device if needed <= has => Ok(MemoryKind::Device),
        LockMemory::Device if slots_that_fit(profile) == 0 => Err(Failure::Usage(format!(
            "--lock-memory device: an RNIC of profile {} has no device memory; take --lock-memory host, or a \
             profile that has some",
            profile.name
        ))),
        LockMemory::Device => Err(Failure::Usage(format!(
            "--lock-memory device: {slots} locks of sherman's take {}, and an RNIC of profile {} has {} of device \
             memory; at most --lock-count {} fits, or take --lock-memory host",
            bytes_text(needed.into()),
            profile.name,
            bytes_text(has.into()),
            slots_that_fit(profile)
        ))),
    }
}

/// One line about what [`choose`] has chosen, and why; none where none of `locks` is Sherman's.
pub(crate) fn note(
    asked: LockMemory,
    chosen: MemoryKind,
    locks: &[LockSpec],
    slots: u32,
    profile: &Profile,
) -> Option<String> {
    if !locks.contains(&LockSpec::Sherman) {
        return None;
    }
    let needed = bytes_text(table_bytes(slots).into());
    let has = bytes_text(device_bytes(profile).into());
    let name = profile.name;
    Some(match (chosen, asked) {
        (MemoryKind::Device, _) => {
            format!("sherman's lock words are in device memory: {needed} of {has}")
        }
        (MemoryKind::Host, LockMemory::Auto) if slots_that_fit(profile) == 0 => {
            format!("sherman's lock words are in host memory: {name} has no device memory")
        }
        (MemoryKind::Host, LockMemory::Auto) => format!(
            "sherman's lock words are in host memory: {needed} do not fit the {has} of device memory of {name} \
             (--lock-count {} would)",
            slots_that_fit(profile)
        ),
        (MemoryKind::Host, _) => "sherman's lock words are in host memory".to_owned(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn all(asked: LockMemory, slots: u32, profile: &str) -> (Result<MemoryKind>, String) {
        let profile = Profile::by_name(profile).unwrap();
        let locks = [LockSpec::Farlock, LockSpec::Sherman];
        let chosen = choose(asked, &locks, slots, &profile);
        let note = chosen
            .clone()
            .map(|chosen| note(asked, chosen, &locks, slots, &profile).unwrap());
        (chosen, note.unwrap_or_else(|error| error.to_string()))
    }

    #[test]
    fn the_table_goes_to_device_memory_where_it_fits_as_a_whole() {
        use MemoryKind::{Device, Host};
        for (profile, slots, expected, words) in [
            ("cx3-fdr", 8, Host, "cx3-fdr has no device memory"),
            ("cx5-100g", 8192, Device, "64.0 KiB of 64.0 KiB"),
            ("cx5-100g", 8193, Host, "--lock-count 8192"),
            ("cx6-200g", 16_384, Device, "128.0 KiB of 128.0 KiB"),
            (
                "cx6-200g",
                32_768,
                Host,
                "256.0 KiB do not fit the 128.0 KiB",
            ),
        ] {
            let (chosen, note) = all(LockMemory::Auto, slots, profile);
            assert_eq!(chosen, Ok(expected), "{profile}, {slots}");
            assert!(note.contains(words), "{note}");
            let (chosen, note) = all(LockMemory::Host, slots, profile);
            assert_eq!(chosen, Ok(Host));
            assert!(!note.contains("device"), "{note}");
            let (chosen, _) = all(LockMemory::Device, slots, profile);
            assert_eq!(chosen.ok(), (expected == Device).then_some(Device));
        }
    }

    #[test]
    fn too_much_is_refused_with_what_would_fit() {
        for (profile, slots, words) in [
            ("cx3-fdr", 1, &["cx3-fdr", "no device memory", "host"][..]),
            (
                "cx5-100g",
                32_768,
                &["256.0 KiB", "64.0 KiB", "--lock-count 8192", "cx5-100g"],
            ),
        ] {
            let (refused, error) = all(LockMemory::Device, slots, profile);
            assert!(matches!(refused, Err(Failure::Usage(_))), "{error}");
            for word in words {
                assert!(error.contains(word), "{word:?} is not in {error:?}");
            }
        }
    }

    #[test]
    fn other_locks_have_nothing_to_do_with_it() {
        let profile = Profile::cx5_100g();
        let locks = [LockSpec::Farlock];
        for asked in [LockMemory::Auto, LockMemory::Host] {
            let chosen = choose(asked, &locks, u32::MAX, &profile);
            assert_eq!(chosen, Ok(MemoryKind::Host));
            assert_eq!(note(asked, MemoryKind::Host, &locks, 1, &profile), None);
        }
        // Asked for what it has no part in, it would be a setting that does nothing.
        let refused = choose(LockMemory::Device, &locks, 1, &profile).unwrap_err();
        assert!(
            matches!(&refused, Failure::Usage(text) if text.contains("farlock") && text.contains("sherman")),
            "{refused}"
        );
    }
}
