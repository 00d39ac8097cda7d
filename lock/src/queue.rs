//! Joining a queue of descriptors: what MCS, ALock, FARLock and FARLock-G do alike.

use std::rc::Rc;
use std::sync::atomic::Ordering;

use dmtree_cluster::{Endpoint, GlobalAddr};

use crate::descriptor::Pool;
use crate::held::Held;
use crate::member::Member;
use crate::monitor::Borrow;
use crate::side::{Tail, by_cpu, rnic_swap};
use crate::{Cohort, Result};

/// A place in a queue.
pub(crate) struct Place {
    pub(crate) held: Held,
    /// The own descriptor.
    pub(crate) me: GlobalAddr,
    /// Who is ahead, and the loan of that descriptor.
    pub(crate) ahead: Option<(GlobalAddr, Option<Borrow>)>,
}

/// Sets a descriptor of `pool` up as `initial` and puts it at the end of the queue whose tail is `tail`.
///
/// The descriptor is set up before the swap makes it known: by CPU the swap releases the stores before it, and
/// CPU stores before a post precede that verb. Whoever learns its address from the tail writes after that.
// By the number of words, each protocol has its own, which is compiled into its acquire.
pub(crate) async fn join<E: Endpoint, T: Tail, const N: usize>(
    member: &Rc<Member>,
    pool: &mut Pool,
    ep: &E,
    lock: GlobalAddr,
    tail: T,
    initial: [u64; N],
) -> Result<Place> {
    let watch = member.watch(ep, lock);
    watch.asks();
    let me = pool.next()?;
    ep.store_words(me, &initial).await?;
    pool.take();
    let held = Held::arm(member, lock);
    watch.tell(|monitor, at| {
        monitor.requested(at, Cohort::of(ep.node(), lock))?;
        monitor.linked(at, me)
    })?;
    // `SeqCst` on the CPU: what the joined queue's head does next must not pass it.
    let (tail, new) = (tail.addr(), me.to_bits());
    let found = if !T::SHARED && by_cpu(ep, tail) {
        ep.swap(tail, new, Ordering::SeqCst).await?
    } else {
        rnic_swap(ep, tail, new, member).await?
    };
    let found = GlobalAddr::from_bits(found);
    let ahead = if found.is_null() {
        None
    } else {
        let loan = watch.tell(|monitor, at| monitor.queued(at, me, found))?;
        Some((found, loan))
    };
    Ok(Place { held, me, ahead })
}
