//! Each hazard of the protocols, committed on purpose, is caught by the monitor, a lost update or a stall, in
//! the same scenarios that the real locks survive in `torture.rs`.

use dmtree_lock::Fault;

use crate::harness::{Scenario, is_caught};

/// Scenarios until which a hazard must have shown itself. The rarest one needs about a hundred.
const SEEDS: std::ops::Range<u64> = 5000..7000;

macro_rules! caught {
    ($($test:ident: $lock:literal, $fault:ident;)*) => {
        $(
            #[test]
            fn $test() {
                is_caught($lock, Fault::$fault, SEEDS, Scenario::draw_crowded);
            }
        )*
    };
}

caught! {
    farlock_publishes_before_it_leaves: "farlock", FarlockPublishBeforeLeaving;
    farlock_tells_before_its_flag_is_down: "farlock", FarlockTellBeforeAcknowledged;
    farlock_does_not_wait_for_release: "farlock", FarlockNoReleaseHandshake;
    farlock_release_without_a_fence: "farlock", FarlockUnfencedRelease;
    farlock_leaves_without_a_fence: "farlock", FarlockUnfencedLeave;
    farlock_lets_in_before_the_write_back: "farlock", FarlockOwnerBeforeWriteBack;
    alock_does_not_look_again: "alock", AlockNoVictimRecheck;
    alock_hands_over_before_the_write_back: "alock", AlockHandoverBeforeWriteBack;
    alock_hands_over_what_the_cpu_cannot_see: "alock:20,5", HandoverUnflushed;
    sherman_hands_over_before_the_write_back: "sherman", ShermanHandoverBeforeWriteBack;
    sherman_hands_over_what_the_cpu_cannot_see: "sherman", HandoverUnflushed;
    sherman_frees_in_device_memory_what_the_cpu_cannot_see: "sherman", ShermanDeviceUnflushed;
}
