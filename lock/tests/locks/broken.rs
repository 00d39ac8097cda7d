//! Each hazard of the protocols, committed on purpose, is caught by the monitor, a lost update or a stall, in
//! the same scenarios that the real locks survive in `torture.rs`.

use dmtree_lock::Fault;

use crate::harness::{Scenario, is_caught};

/// Scenarios until which a hazard must have shown itself. The rarest one needs about a hundred.
const SEEDS: std::ops::Range<u64> = 5000..7000;

macro_rules! caught {
    ($($test:ident: $lock:literal, $fault:ident, $draw:ident;)*) => {
        $(
            #[test]
            fn $test() {
                is_caught($lock, Fault::$fault, SEEDS, Scenario::$draw);
            }
        )*
    };
}

caught! {
    farlock_publishes_before_it_leaves: "farlock", FarlockPublishBeforeLeaving, draw_crowded;
    farlock_tells_before_its_flag_is_down: "farlock", FarlockTellBeforeAcknowledged, draw_crowded;
    farlock_does_not_wait_for_release: "farlock", FarlockNoReleaseHandshake, draw_crowded;
    farlock_release_without_a_fence: "farlock", FarlockUnfencedRelease, draw_crowded;
    farlock_leaves_without_a_fence: "farlock", FarlockUnfencedLeave, draw_crowded;
    farlock_lets_in_before_the_write_back: "farlock", FarlockOwnerBeforeWriteBack, draw_crowded;
    alock_does_not_look_again: "alock", AlockNoVictimRecheck, draw_crowded;
    alock_hands_over_before_the_write_back: "alock", AlockHandoverBeforeWriteBack, draw_crowded;
    alock_hands_over_what_the_cpu_cannot_see: "alock:20,5", HandoverUnflushed, draw_crowded;
    alock_does_not_wait_for_its_successor: "alock", NoWaitForSuccessor, draw_crowded;
    alock_does_not_wait_after_a_cas_release: "alock:20,5:cas-release", NoWaitForSuccessor, draw_crowded;
    mcs_does_not_wait_for_its_successor: "mcs", NoWaitForSuccessor, draw_crowded;
    mcs_does_not_wait_after_a_cas_release: "mcs:cas-release", NoWaitForSuccessor, draw_crowded;
    mcs_frees_without_a_look_at_the_tail: "mcs", McsFreesUnseen, draw_crowded;
    mcs_hands_over_to_the_last: "mcs:cas-release", McsHandsToTheTail, draw_crowded;
    mcs_hands_over_before_the_write_back: "mcs", McsHandoverBeforeWriteBack, draw_crowded;
    mcs_hands_over_what_the_cpu_cannot_see: "mcs", HandoverUnflushed, draw_crowded;
    ticket_loses_an_increment: "ticket", TicketLostIncrement, draw_crowded;
    ticket_serves_before_the_write_back: "ticket", TicketServesBeforeWriteBack, draw_crowded;
    tas_frees_before_the_write_back: "tas", TasFreesBeforeWriteBack, draw_crowded;
    sherman_hands_over_before_the_write_back: "sherman", ShermanHandoverBeforeWriteBack, draw_crowded;
    sherman_hands_over_what_the_cpu_cannot_see: "sherman", HandoverUnflushed, draw_crowded;
    sherman_frees_in_device_memory_what_the_cpu_cannot_see: "sherman", ShermanDeviceUnflushed, draw_crowded;
    farlock_g_publishes_in_a_group: "farlock-g:3,3", FarlockGMemberPublishes, draw_grouped;
    farlock_g_advances_in_a_group: "farlock-g:3,3", FarlockGMemberAdvances, draw_grouped;
    farlock_g_hands_over_before_the_write_back: "farlock-g:3,3", FarlockGHandoverBeforeWriteBack, draw_grouped;
    farlock_g_hands_over_what_the_cpu_cannot_see: "farlock-g:3,3", HandoverUnflushed, draw_grouped;
    farlock_g_overdraws_its_budget: "farlock-g:2,2", FarlockGOverBudget, draw_grouped;
    farlock_g_does_not_wait_for_release: "farlock-g:5,5", FarlockGNoReleaseHandshake, draw_late_links;
    farlock_g_last_does_not_wait_for_release: "farlock-g:3,3", FarlockNoReleaseHandshake, draw_crowded;
    farlock_g_says_so_before_the_ticket_is_there: "farlock-g:3,3", FarlockGProceedBeforeGroup, draw_grouped;
    farlock_g_does_not_look_again: "farlock-g:3,3", FarlockGNoSecondLook, draw_grouped;
    farlock_g_head_publishes_before_it_leaves: "farlock-g", FarlockPublishBeforeLeaving, draw_grouped;
    farlock_g_last_lets_in_before_the_write_back: "farlock-g:3,3", FarlockOwnerBeforeWriteBack, draw_grouped;
}
