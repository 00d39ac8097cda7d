//! What a [`super::Monitor`] knows of one lock.

use dmtree_cluster::ClientId;

use crate::Cohort;

/// What happened to a lock so far, or to several of them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct LockCounters {
    pub(super) grants: [u64; 2],
    pub(super) longest: [u32; 2],
}

impl LockCounters {
    /// How often it was granted to `cohort`.
    pub fn grants(&self, cohort: Cohort) -> u64 {
        self.grants[cohort as usize]
    }

    /// The longest run of grants to `cohort` without one to the other between.
    pub fn longest_run(&self, cohort: Cohort) -> u32 {
        self.longest[cohort as usize]
    }
}

/// No client.
pub(super) const NOBODY: u32 = u32::MAX;

/// One cache line, because a run may go through thousands of locks.
#[derive(Clone, Debug)]
#[repr(align(64))]
pub(super) struct LockState {
    /// When the last grant or release happened.
    pub(super) progress_ns: u64,
    /// The next ticket to be granted.
    pub(super) served: u64,
    /// Which of the 64 tickets from `served` on are taken; requests know of those beyond.
    pub(super) pending: u64,
    /// By cohort: the low half of the ticket taken last; of ticket -1 at first.
    pub(super) taken: [u32; 2],
    pub(super) holder: u32,
    /// By cohort.
    pub(super) contender: [u32; 2],
    /// By cohort.
    pub(super) grants: [u32; 2],
    pub(super) longest: [u32; 2],
    /// The cohort granted last (the highest bit) and how often in a row.
    pub(super) run: u32,
}

const _: () = assert!(size_of::<LockState>() == 64);

impl LockState {
    pub(super) const NEW: Self = Self {
        progress_ns: 0,
        served: 0,
        pending: 0,
        taken: [u32::MAX; 2],
        holder: NOBODY,
        contender: [NOBODY; 2],
        grants: [0; 2],
        longest: [0; 2],
        run: 0,
    };

    pub(super) fn holder(&self) -> Option<ClientId> {
        (self.holder != NOBODY).then_some(ClientId(self.holder))
    }

    pub(super) fn count(&mut self, cohort: Cohort) {
        let base = (cohort as u32) << 31;
        self.run = if self.run & 1 << 31 == base {
            self.run + 1
        } else {
            base + 1
        };
        self.grants[cohort as usize] += 1;
        let longest = &mut self.longest[cohort as usize];
        *longest = (self.run - base).max(*longest);
    }

    pub(super) fn counters(&self) -> LockCounters {
        LockCounters {
            grants: self.grants.map(u64::from),
            longest: self.longest,
        }
    }
}
