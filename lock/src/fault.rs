//! Protocols broken on purpose: what the tests must catch. Not compiled into production builds.

use std::future::{Future, poll_fn};
use std::pin::pin;
use std::task::Poll;

/// A step that a protocol leaves out or makes too early.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub enum Fault {
    /// FARLock publishes its ticket after taking it and before it has left Peterson.
    FarlockPublishBeforeLeaving,
    /// FARLock tells its successor to proceed while the clearing of its flag is still on its way.
    FarlockTellBeforeAcknowledged,
    /// FARLock takes its descriptor back without waiting for its successor's `release`.
    FarlockNoReleaseHandshake,
    /// FARLock's `release` WRITE may overtake the READ of the ticket before it.
    FarlockUnfencedRelease,
    /// FARLock's WRITE that clears its flag may overtake the FAA of `next_ticket` before it.
    FarlockUnfencedLeave,
    /// FARLock advances `ticket_owner` before it writes back.
    FarlockOwnerBeforeWriteBack,
    /// FARLock-G publishes its ticket although it hands it on.
    FarlockGMemberPublishes,
    /// FARLock-G advances `ticket_owner` although others of the group come after it.
    FarlockGMemberAdvances,
    /// FARLock-G hands over within a group before its write-back has completed.
    FarlockGHandoverBeforeWriteBack,
    /// FARLock-G hands on as many grants as it was handed, and tells nobody what it was handed.
    FarlockGOverBudget,
    /// FARLock-G takes its descriptor back within a group without waiting for its successor's `release`.
    FarlockGNoReleaseHandshake,
    /// FARLock-G says that it has handed its ticket on before the ticket is there.
    FarlockGProceedBeforeGroup,
    /// FARLock-G's last member does not look again for a successor after it has published its ticket.
    FarlockGNoSecondLook,
    /// ALock's leader looks at the other cohort before it has made itself the victim, and not again.
    AlockNoVictimRecheck,
    /// ALock hands over before its write-back has completed.
    AlockHandoverBeforeWriteBack,
    /// ALock or MCS whose CAS of the tail has failed goes without waiting for who joined to link itself.
    NoWaitForSuccessor,
    /// MCS writes the tail to 0 when `next` is not set, whoever may have joined since.
    McsFreesUnseen,
    /// MCS hands over to who is last in the queue instead of who is next.
    McsHandsToTheTail,
    /// MCS hands over before its write-back has completed.
    McsHandoverBeforeWriteBack,
    /// The ticket lock draws by READ and WRITE, so that an increment can get lost.
    TicketLostIncrement,
    /// The ticket lock serves the next one before it writes back.
    TicketServesBeforeWriteBack,
    /// The test-and-set lock frees its word before it writes back.
    TasFreesBeforeWriteBack,
    /// Sherman hands over before its write-back has completed.
    ShermanHandoverBeforeWriteBack,
    /// Sherman frees a lock in device memory before the write-back is visible to the lock node's CPU.
    ShermanDeviceUnflushed,
    /// A hand-over follows the write-back's completion, but nothing has made the write-back visible to the
    /// lock node's CPU.
    HandoverUnflushed,
}

/// Runs two futures of one client at a time, to have a verb on its way while another is made.
pub(crate) async fn both<A, B>(a: impl Future<Output = A>, b: impl Future<Output = B>) -> (A, B) {
    let (mut a, mut b) = (pin!(a), pin!(b));
    let (mut first, mut second) = (None, None);
    poll_fn(|context| {
        if first.is_none()
            && let Poll::Ready(value) = a.as_mut().poll(context)
        {
            first = Some(value);
        }
        if second.is_none()
            && let Poll::Ready(value) = b.as_mut().poll(context)
        {
            second = Some(value);
        }
        match (first.take(), second.take()) {
            (Some(first), Some(second)) => Poll::Ready((first, second)),
            (one, other) => {
                (first, second) = (one, other);
                Poll::Pending
            }
        }
    })
    .await
}
