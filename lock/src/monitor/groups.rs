//! What a [`Monitor`] is told of groups, whose members have one ticket.
//!
//! A member learns that it is one after others can have acted upon it, even after the one that made it a member
//! has been granted and is gone; so who hands on tells of it, before it does, and the member confirms.

use dmtree_cluster::{ClientId, GlobalAddr};

use super::{GROUPS, Moment, Monitor, NOBODY, PETERSON};
use crate::{Cohort, Result};

impl Monitor {
    /// The client, which contends for its cohort, is about to hand its `ticket` and its place in Peterson's algorithm
    /// on to its successor `next`; `budget` is the most members of a group.
    pub(crate) fn handed_on(
        &self,
        at: Moment,
        me: GlobalAddr,
        next: GlobalAddr,
        ticket: u64,
        budget: u64,
    ) -> Result<()> {
        let mut state = self.state.borrow_mut();
        let owner = state.descriptors.hand_on(at, me, next, ticket, budget)?;
        let cohort = match state.request(owner) {
            Some(request) if request.lock == at.lock => {
                if let Some(other) = request.ticket.replace(ticket) {
                    return at.violation(GROUPS, || {
                        format!("hands ticket {ticket} on to {owner}, which has ticket {other}")
                    });
                }
                request.cohort
            }
            _ => {
                return at.violation(GROUPS, || {
                    format!("hands ticket {ticket} on to {owner}, which does not wait for it")
                });
            }
        };
        pass(
            &mut state.lock(at.lock).contender[cohort as usize],
            at,
            cohort,
            owner,
        )
    }

    /// The client has read that it is a member of the group of `ticket`, and `left` of its `budget` are left, its own
    /// grant among them.
    pub(crate) fn joined_group(
        &self,
        at: Moment,
        me: GlobalAddr,
        ticket: u64,
        left: u64,
        budget: u64,
    ) -> Result<()> {
        self.state
            .borrow_mut()
            .descriptors
            .member(at, me, ticket, left, budget)
    }

    /// The owner of `me` is about to end the turn of its ticket.
    pub(crate) fn ends_turn(&self, at: Moment, me: GlobalAddr) -> Result<()> {
        self.state.borrow_mut().descriptors.last(at, me)
    }
}

/// Makes `heir` the contender instead of the client.
fn pass(contender: &mut u32, at: Moment, cohort: Cohort, heir: ClientId) -> Result<()> {
    let found = std::mem::replace(contender, heir.0);
    if found == at.client.0 {
        return Ok(());
    }
    let who = match found {
        NOBODY => "nobody".to_owned(),
        other => ClientId(other).to_string(),
    };
    at.violation(PETERSON, || {
        format!("hands on to {heir} as the {cohort} contender, which is {who}")
    })
}

#[cfg(test)]
mod tests {
    use super::super::tests::{Bench, broken};
    use super::super::{ORDER, TICKETS};
    use super::*;

    const BUDGET: u64 = 3;

    /// Clients 0, 1, 2 in a queue, 0 with ticket 0 and still in Peterson; 3 behind them.
    fn queue() -> Result<Bench> {
        let bench = Bench::new();
        for client in 0..4u32 {
            let ahead = client.checked_sub(1);
            bench.join(client, ahead)?;
        }
        let head = bench.at(0, 1);
        bench.monitor.contends(head, Cohort::Remote)?;
        bench.monitor.ticket_taken(head, Cohort::Remote, 0)?;
        Ok(bench)
    }

    fn hand_on(bench: &Bench, from: u32, ticket: u64) -> Result<()> {
        let (me, next) = (bench.me(from), bench.me(from + 1));
        bench
            .monitor
            .handed_on(bench.at(from, 2), me, next, ticket, BUDGET)
    }

    fn join(bench: &Bench, client: u32, ticket: u64, left: u64) -> Result<()> {
        let (at, me) = (bench.at(client, 3), bench.me(client));
        bench.monitor.joined_group(at, me, ticket, left, BUDGET)
    }

    fn turn(bench: &Bench, client: u32) -> Result<()> {
        bench.monitor.granted(bench.at(client, 4), Cohort::Remote)?;
        bench.monitor.released(bench.at(client, 5))
    }

    #[test]
    fn a_group_has_one_turn_and_the_next_ticket_comes_after_it() -> Result<()> {
        let bench = queue()?;
        hand_on(&bench, 0, 0)?;
        // The head may be through before its successor knows anything.
        turn(&bench, 0)?;
        join(&bench, 1, 0, 2)?;
        hand_on(&bench, 1, 0)?;
        join(&bench, 2, 0, 1)?;
        bench.monitor.decided(bench.at(2, 3), Cohort::Remote)?;
        bench.monitor.contends(bench.at(3, 3), Cohort::Remote)?;
        bench
            .monitor
            .ticket_taken(bench.at(3, 3), Cohort::Remote, 1)?;
        turn(&bench, 1)?;
        turn(&bench, 2)?;
        bench.monitor.ends_turn(bench.at(2, 5), bench.me(2))?;
        turn(&bench, 3)
    }

    #[test]
    fn another_ticket_within_a_group_is_seen() -> Result<()> {
        let bench = queue()?;
        hand_on(&bench, 0, 0)?;
        let local = bench.on(0, 9, 3);
        bench.monitor.requested(local, Cohort::Local)?;
        bench.monitor.ticket_taken(local, Cohort::Local, 1)?;
        turn(&bench, 0)?;
        broken(
            bench.monitor.granted(local, Cohort::Local),
            TICKETS,
            "ticket 1, the next one is 0",
        );
        Ok(())
    }

    #[test]
    fn members_are_granted_in_the_order_of_the_queue() -> Result<()> {
        let bench = queue()?;
        hand_on(&bench, 0, 0)?;
        hand_on(&bench, 1, 0)?;
        turn(&bench, 0)?;
        broken(turn(&bench, 2), ORDER, "before client 1");
        Ok(())
    }

    #[test]
    fn a_group_ends_with_its_budget() -> Result<()> {
        let bench = queue()?;
        hand_on(&bench, 0, 0)?;
        hand_on(&bench, 1, 0)?;
        broken(hand_on(&bench, 2, 0), GROUPS, "beyond the budget of 3");
        Ok(())
    }

    #[test]
    fn a_member_hands_on_its_own_ticket_and_once() -> Result<()> {
        broken(hand_on(&queue()?, 0, 7), GROUPS, "does not have");
        broken(hand_on(&queue()?, 1, 0), GROUPS, "does not have");
        let bench = queue()?;
        hand_on(&bench, 0, 0)?;
        broken(hand_on(&bench, 0, 0), GROUPS, "for a second time");
        Ok(())
    }

    #[test]
    fn a_member_takes_no_ticket_and_does_not_contend() -> Result<()> {
        let bench = queue()?;
        hand_on(&bench, 0, 0)?;
        let at = bench.at(1, 3);
        broken(
            bench.monitor.ticket_taken(at, Cohort::Remote, 1),
            TICKETS,
            "took ticket 1, and has 0",
        );
        broken(
            bench.monitor.contends(at, Cohort::Remote),
            PETERSON,
            "client 1 of the remote cohort contends already",
        );
        Ok(())
    }

    #[test]
    fn who_has_left_peterson_hands_nothing_on() -> Result<()> {
        let bench = queue()?;
        bench.monitor.decided(bench.at(0, 2), Cohort::Remote)?;
        broken(hand_on(&bench, 0, 0), PETERSON, "which is nobody");
        Ok(())
    }

    #[test]
    fn what_a_member_reads_is_what_was_handed_on() -> Result<()> {
        for (ticket, left, good) in [(0, 2, true), (1, 2, false), (0, 3, false), (0, 1, false)] {
            let bench = queue()?;
            hand_on(&bench, 0, 0)?;
            let outcome = join(&bench, 1, ticket, left);
            if good {
                outcome?;
            } else {
                broken(outcome, GROUPS, "and not Some(0) with 1 ahead of it");
            }
        }
        broken(join(&queue()?, 0, 0, 3), GROUPS, "with 0 ahead of it");
        Ok(())
    }

    #[test]
    fn only_the_last_ends_the_turn() -> Result<()> {
        let bench = queue()?;
        hand_on(&bench, 0, 0)?;
        let outcome = bench.monitor.ends_turn(bench.at(0, 5), bench.me(0));
        broken(outcome, GROUPS, "handed on");
        Ok(())
    }
}
