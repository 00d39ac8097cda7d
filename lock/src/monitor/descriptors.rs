//! The lives of descriptors, as a [`super::Monitor`] knows them.

use dmtree_cluster::{ClientId, GlobalAddr, LINE_BYTES};

use super::{DESCRIPTORS, GROUPS, Moment, ORDER};
use crate::Result;

/// Who has a descriptor on loan.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Side {
    /// The predecessor of its owner's request, who will grant.
    Ahead,
    /// The successor, who links itself.
    Behind,
}

/// One life of one descriptor.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Key {
    /// Which of [`Descriptors::lives`].
    index: u32,
    generation: u32,
}

/// The permission to access a descriptor in one of its lives.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Borrow {
    key: Key,
    side: Side,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
enum Loan {
    #[default]
    None,
    To(ClientId),
    Ended,
}

/// A descriptor's present life, or its last one.
#[derive(Clone, Copy, Debug, Default)]
struct Life {
    generation: u32,
    /// Whose request for which lock it is; nothing when its owner has taken it back.
    linked: Option<(ClientId, GlobalAddr)>,
    predecessor: Option<Key>,
    /// By side.
    loans: [Loan; 2],
    ticket: Option<u64>,
    granted: bool,
    /// How many of its group are ahead of it.
    place: u32,
    /// Whether it has handed its ticket on to its successor.
    handed_on: bool,
}

/// Descriptors that lie one after the other.
#[derive(Debug)]
struct Run {
    first_line: u64,
    count: u64,
    /// Whose life is the first one's.
    first: usize,
}

impl Run {
    fn end(&self) -> (u64, usize) {
        (
            self.first_line + self.count,
            self.first + self.count as usize,
        )
    }
}

/// All descriptors.
#[derive(Debug, Default)]
pub(super) struct Descriptors {
    /// By node, in the order of addresses.
    nodes: Vec<Vec<Run>>,
    lives: Vec<Life>,
    /// By life.
    addresses: Vec<GlobalAddr>,
}

fn line(addr: GlobalAddr) -> u64 {
    addr.offset() / LINE_BYTES as u64
}

impl Descriptors {
    pub(super) fn add(&mut self, start: GlobalAddr, count: usize) {
        let node = usize::from(start.node().0);
        if self.nodes.len() <= node {
            self.nodes.resize_with(node + 1, Vec::new);
        }
        let (first_line, first) = (line(start), self.lives.len());
        self.lives.resize(first + count, Life::default());
        let lines = (0..count as u64).map(|nth| start.add(nth * LINE_BYTES as u64));
        self.addresses.extend(lines);
        let runs = &mut self.nodes[node];
        let place = runs.partition_point(|run| run.first_line < first_line);
        match runs[..place].last_mut() {
            Some(before) if before.end() == (first_line, first) => before.count += count as u64,
            _ => runs.insert(
                place,
                Run {
                    first_line,
                    count: count as u64,
                    first,
                },
            ),
        }
    }

    #[inline]
    fn find(&self, addr: GlobalAddr) -> Option<usize> {
        if addr.is_device() || !addr.offset().is_multiple_of(LINE_BYTES as u64) {
            return None;
        }
        let (line, runs) = (line(addr), self.nodes.get(usize::from(addr.node().0))?);
        let run = match runs.as_slice() {
            // Clients of one node mostly have theirs side by side.
            [run] => run,
            runs => {
                let behind = runs.partition_point(|run| run.first_line <= line);
                &runs[behind.checked_sub(1)?]
            }
        };
        let nth = line.wrapping_sub(run.first_line);
        (nth < run.count).then(|| run.first + nth as usize)
    }

    /// The descriptor at `addr`; whoever read that address reads something else than a descriptor's.
    #[inline]
    fn life(&mut self, at: Moment, addr: GlobalAddr) -> Result<(Key, &mut Life)> {
        match self
            .find(addr)
            .and_then(|index| Some((index, self.lives.get_mut(index)?)))
        {
            Some((index, life)) => {
                let key = Key {
                    index: index as u32,
                    generation: life.generation,
                };
                Ok((key, life))
            }
            None => at.violation(DESCRIPTORS, move || format!("{addr} is no descriptor")),
        }
    }

    /// The life, if it is not over.
    #[inline]
    fn living(&self, key: Key) -> Option<&Life> {
        self.lives
            .get(key.index as usize)
            .filter(|life| life.generation == key.generation && life.linked.is_some())
    }

    #[inline]
    fn living_mut(&mut self, key: Key) -> Option<&mut Life> {
        self.lives
            .get_mut(key.index as usize)
            .filter(|life| life.generation == key.generation && life.linked.is_some())
    }

    #[inline]
    pub(super) fn link(&mut self, at: Moment, me: GlobalAddr) -> Result<Key> {
        let (key, life) = self.life(at, me)?;
        if let Some((client, lock)) = life.linked {
            let detail = move || {
                format!("links its descriptor {me}, which is {client}'s for the lock at {lock}")
            };
            return at.violation(DESCRIPTORS, detail);
        }
        let generation = key.generation.wrapping_add(1);
        *life = Life {
            generation,
            linked: Some((at.client, at.lock)),
            ..Life::default()
        };
        Ok(Key { generation, ..key })
    }

    pub(super) fn queue(
        &mut self,
        at: Moment,
        me: GlobalAddr,
        ahead: GlobalAddr,
    ) -> Result<Borrow> {
        let (key, life) = self.life(at, ahead)?;
        let owner = match life.linked {
            Some((client, lock)) if lock == at.lock && ahead != me => client,
            Some((client, lock)) => {
                let detail = move || {
                    format!(
                        "found descriptor {ahead} ahead, which is {client}'s for the lock at {lock}"
                    )
                };
                return at.violation(DESCRIPTORS, detail);
            }
            None => {
                let detail = move || {
                    format!("found descriptor {ahead} ahead, which its owner has taken back")
                };
                return at.violation(DESCRIPTORS, detail);
            }
        };
        let behind = life.loans[Side::Behind as usize];
        if behind != Loan::None {
            let detail = move || {
                format!("found descriptor {ahead} ahead, which has a successor: {behind:?}")
            };
            return at.violation(DESCRIPTORS, detail);
        }
        life.loans[Side::Behind as usize] = Loan::To(at.client);
        let (_, mine) = self.life(at, me)?;
        mine.predecessor = Some(key);
        mine.loans[Side::Ahead as usize] = Loan::To(owner);
        Ok(Borrow {
            key,
            side: Side::Behind,
        })
    }

    pub(super) fn learn(&mut self, at: Moment, me: GlobalAddr, next: GlobalAddr) -> Result<Borrow> {
        let (mine, _) = self.life(at, me)?;
        let (key, life) = self.life(at, next)?;
        if life.linked.is_none_or(|(_, lock)| lock != at.lock) || life.predecessor != Some(mine) {
            let detail = move || {
                format!("has {next} for a successor of {me}, which is not behind it: {life:?}")
            };
            return at.violation(DESCRIPTORS, detail);
        }
        Ok(Borrow {
            key,
            side: Side::Ahead,
        })
    }

    pub(super) fn touch(&self, at: Moment, borrow: Borrow) -> Result<()> {
        let Borrow { key, side } = borrow;
        match self.living(key) {
            Some(life) if life.loans[side as usize] == Loan::To(at.client) => Ok(()),
            life => {
                let addr = self.addresses[key.index as usize];
                let what = if life.is_some() {
                    "after its last access to it"
                } else {
                    "its owner has taken it back"
                };
                at.violation(DESCRIPTORS, move || {
                    format!("touches descriptor {addr}: {what}")
                })
            }
        }
    }

    pub(super) fn give_back(&mut self, borrow: Borrow) {
        // The owner may have seen the last access before, and be done with that life.
        if let Some(life) = self.living_mut(borrow.key) {
            life.loans[borrow.side as usize] = Loan::Ended;
        }
    }

    pub(super) fn done(&mut self, at: Moment, me: GlobalAddr, side: Side) -> Result<()> {
        let (_, life) = self.life(at, me)?;
        if life.loans[side as usize] == Loan::None {
            return at.violation(DESCRIPTORS, move || {
                format!("{me} heard from {side:?}, where nobody is")
            });
        }
        life.loans[side as usize] = Loan::Ended;
        Ok(())
    }

    #[inline]
    pub(super) fn retire(&mut self, at: Moment, me: GlobalAddr) -> Result<()> {
        let (_, life) = self.life(at, me)?;
        if life.linked != Some((at.client, at.lock)) {
            return at.violation(DESCRIPTORS, move || {
                format!("takes back descriptor {me}, which is {:?}", life.linked)
            });
        }
        for loan in life.loans {
            if let Loan::To(client) = loan {
                let detail = move || {
                    format!("takes back its descriptor {me}, which {client} may still touch")
                };
                return at.violation(DESCRIPTORS, detail);
            }
        }
        life.linked = None;
        Ok(())
    }

    /// Checks that the predecessor has its ticket.
    #[inline]
    pub(super) fn ticket(&mut self, at: Moment, key: Key, ticket: u64) -> Result<()> {
        let predecessor = self.living_mut(key).and_then(|life| {
            life.ticket = Some(ticket);
            life.predecessor
        });
        // A predecessor whose life is over had one.
        if let Some(Life {
            ticket: None,
            linked: Some((other, _)),
            ..
        }) = predecessor.and_then(|key| self.living(key))
        {
            let detail = move || {
                format!("took ticket {ticket} before {other}, which is ahead of it, took any")
            };
            return at.violation(ORDER, detail);
        }
        Ok(())
    }

    /// Checks that the predecessor was granted the lock; returns whether it ends its ticket's turn.
    #[inline]
    pub(super) fn grant(&mut self, at: Moment, key: Key) -> Result<bool> {
        let mut last = true;
        let predecessor = self.living_mut(key).and_then(|life| {
            life.granted = true;
            last = !life.handed_on;
            life.predecessor
        });
        if let Some(Life {
            granted: false,
            linked: Some((other, _)),
            ..
        }) = predecessor.and_then(|key| self.living(key))
        {
            return at.violation(ORDER, move || {
                format!("granted before {other}, which is ahead of it")
            });
        }
        Ok(last)
    }

    /// The owner of `me` makes `next` the member after it of a group of at most `budget`; returns whose that is.
    pub(super) fn hand_on(
        &mut self,
        at: Moment,
        me: GlobalAddr,
        next: GlobalAddr,
        ticket: u64,
        budget: u64,
    ) -> Result<ClientId> {
        let (_, mine) = self.life(at, me)?;
        let place = mine.place + 1;
        let mistake = if mine.linked != Some((at.client, at.lock)) || mine.ticket != Some(ticket) {
            Some(format!("which it does not have: {mine:?}"))
        } else if mine.handed_on {
            Some("for a second time".to_owned())
        } else if u64::from(place) >= budget {
            Some(format!("to a member beyond the budget of {budget}"))
        } else {
            None
        };
        if let Some(mistake) = mistake {
            return at.violation(GROUPS, || format!("hands ticket {ticket} on, {mistake}"));
        }
        mine.handed_on = true;
        let (_, life) = self.life(at, next)?;
        let Some((owner, _)) = life.linked else {
            return at.violation(GROUPS, || {
                format!("hands ticket {ticket} on to {next}, which is taken back")
            });
        };
        life.ticket = Some(ticket);
        life.place = place;
        Ok(owner)
    }

    /// Checks that the owner of `me` was made a member of the group of `ticket`, with `left` of its `budget` left.
    pub(super) fn member(
        &mut self,
        at: Moment,
        me: GlobalAddr,
        ticket: u64,
        left: u64,
        budget: u64,
    ) -> Result<()> {
        let (_, life) = self.life(at, me)?;
        let Life {
            ticket: handed,
            place,
            ..
        } = *life;
        if place > 0 && handed == Some(ticket) && u64::from(place) + left == budget {
            return Ok(());
        }
        at.violation(GROUPS, || {
            format!(
                "was handed ticket {ticket} with {left} of {budget} left, and not {handed:?} with {place} ahead of it"
            )
        })
    }

    /// Checks that no member of its group comes after `me`.
    pub(super) fn last(&mut self, at: Moment, me: GlobalAddr) -> Result<()> {
        let (_, life) = self.life(at, me)?;
        if !life.handed_on {
            return Ok(());
        }
        let ticket = life.ticket;
        at.violation(GROUPS, || {
            format!("ends the turn of {ticket:?}, which it has handed on")
        })
    }
}
