//! [`Sampler`]: from marks to a row for each interval.

use std::collections::BTreeMap;
use std::ops::Range;

use dmtree_cluster::{ClientId, GlobalAddr, Mark, NodeId};

/// One interval. Of pairs, the first is of local clients, the second of remote ones.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Sample {
    /// Its beginning, in picoseconds.
    pub(crate) from_ps: u64,
    /// Its end, which is the next one's beginning. What happens then is the next one's.
    pub(crate) to_ps: u64,
    /// Clients that have called acquire and do not hold the lock, at the end.
    pub(crate) waiting: [u64; 2],
    /// Those of them that have taken a ticket.
    pub(crate) with_ticket: [u64; 2],
    /// Locks that are held, by their holder's cohort, at the end.
    pub(crate) holding: [u64; 2],
    /// How many wait for the lock that most wait for, at the end.
    pub(crate) longest_queue: u64,
    /// Acquires begun.
    pub(crate) acquires: [u64; 2],
    /// Tickets taken.
    pub(crate) tickets: [u64; 2],
    /// Locks granted.
    pub(crate) grants: [u64; 2],
}

impl Sample {
    /// In microseconds.
    pub(crate) fn length_us(&self) -> f64 {
        (self.to_ps - self.from_ps) as f64 / 1e6
    }
}

/// All of them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Samples {
    pub(crate) rows: Vec<Sample>,
    /// Whether the lock serves by ticket; otherwise what is told of tickets is 0 and says nothing.
    pub(crate) has_tickets: bool,
}

/// An acquire that was not granted yet.
#[derive(Clone, Copy, Debug)]
struct Wait {
    lock: GlobalAddr,
    has_ticket: bool,
}

#[derive(Clone, Debug)]
struct Client {
    node: NodeId,
    wait: Option<Wait>,
}

/// Keeps what goes on, and samples it.
#[derive(Debug)]
pub(super) struct Sampler {
    clients: Vec<Client>,
    /// How many wait for a lock; of those that anybody waits for.
    queues: BTreeMap<GlobalAddr, u64>,
    /// The interval that has not ended.
    current: Sample,
    window: Range<u64>,
    every_ps: u64,
    /// What has ended.
    samples: Samples,
}

impl Sampler {
    pub(super) fn new(
        nodes: impl Iterator<Item = NodeId>,
        window: Range<u64>,
        every_ps: u64,
    ) -> Self {
        let client = |node| Client { node, wait: None };
        let mut sampler = Self {
            clients: nodes.map(client).collect(),
            queues: BTreeMap::new(),
            current: Sample::default(),
            window,
            every_ps: every_ps.max(1),
            samples: Samples {
                rows: Vec::new(),
                has_tickets: false,
            },
        };
        sampler.begin(sampler.window.start);
        sampler
    }

    fn begin(&mut self, from_ps: u64) {
        self.current = Sample {
            from_ps,
            to_ps: from_ps.saturating_add(self.every_ps).min(self.window.end),
            acquires: [0; 2],
            tickets: [0; 2],
            grants: [0; 2],
            ..self.current
        };
    }

    /// Ends intervals up to `now_ps`.
    fn advance(&mut self, now_ps: u64) {
        while self.current.from_ps < self.window.end && self.current.to_ps <= now_ps {
            self.end();
            self.begin(self.current.to_ps);
        }
    }

    fn end(&mut self) {
        self.current.longest_queue = self.queues.values().copied().max().unwrap_or(0);
        self.samples.rows.push(self.current);
    }

    /// As [`dmtree_cluster::TraceSink::mark`]; times do not go backwards.
    pub(super) fn mark(&mut self, client: ClientId, at_ps: u64, mark: Mark) {
        self.advance(at_ps);
        let counts = u64::from(self.window.contains(&at_ps));
        let client = &mut self.clients[client.0 as usize];
        let cohort = |lock: GlobalAddr| usize::from(lock.node() != client.node);
        let now = &mut self.current;
        match mark {
            Mark::Guards { .. } => {}
            Mark::Requested { lock } => {
                let cohort = cohort(lock);
                now.waiting[cohort] += 1;
                now.acquires[cohort] += counts;
                *self.queues.entry(lock).or_insert(0) += 1;
                let has_ticket = false;
                client.wait = Some(Wait { lock, has_ticket });
            }
            Mark::Ticket { lock } => {
                let cohort = cohort(lock);
                self.samples.has_tickets = true;
                now.tickets[cohort] += counts;
                if let Some(wait) = &mut client.wait
                    && !wait.has_ticket
                {
                    wait.has_ticket = true;
                    now.with_ticket[cohort] += 1;
                }
            }
            Mark::Granted { lock } => {
                let cohort = cohort(lock);
                now.grants[cohort] += counts;
                now.holding[cohort] += 1;
                // An acquire that was not marked is no wait.
                if let Some(wait) = client.wait.take() {
                    now.waiting[cohort] -= 1;
                    now.with_ticket[cohort] -= u64::from(wait.has_ticket);
                    if let Some(queue) = self.queues.get_mut(&wait.lock) {
                        *queue -= 1;
                        if *queue == 0 {
                            self.queues.remove(&wait.lock);
                        }
                    }
                }
            }
            Mark::Released { lock } => {
                let holding = &mut now.holding[cohort(lock)];
                *holding = holding.saturating_sub(1);
            }
        }
    }

    /// Ends it at `now_ps`: within the window, a run that has failed. The last interval is then as long as it lasted.
    pub(super) fn finish(&mut self, now_ps: u64) -> Samples {
        self.advance(now_ps);
        if self.current.from_ps < now_ps.min(self.window.end) {
            self.current.to_ps = now_ps.min(self.window.end);
            self.end();
        }
        self.samples.clone()
    }
}
