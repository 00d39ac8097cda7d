//! What a [`Monitor`] says of locks on which nothing happens.

use std::fmt::Write as _;

use dmtree_cluster::{ClientId, GlobalAddr};

use super::{Monitor, Request, State};

/// Waiters that are named before the rest is only counted.
const NAMED: usize = 16;

impl State {
    fn describe(&self, lock: GlobalAddr) -> String {
        let state = &self.locks[self.table.index_of(lock)];
        let mut text = format!("lock {lock}: ");
        // Writing to a String cannot fail.
        let _ = match state.holder() {
            Some(holder) => write!(text, "held by {holder}"),
            None => write!(text, "held by nobody"),
        };
        let _ = write!(text, ", last progress at {} ns", state.progress_ns);
        for (_, client) in self.lost.iter().filter(|(of, _)| *of == lock) {
            let _ = write!(text, ", something of {client} got lost");
        }
        let mut waiting: Vec<(ClientId, Request)> = self
            .requests
            .iter()
            .enumerate()
            .filter_map(|(client, request)| Some((ClientId(client as u32), (*request)?)))
            .filter(|(_, request)| request.lock == lock)
            .collect();
        waiting.sort_by_key(|(client, request)| (request.since_ns, *client));
        let _ = write!(text, ", {} waiting", waiting.len());
        for (client, request) in waiting.iter().take(NAMED) {
            let _ = write!(
                text,
                "; {client} ({}) since {} ns",
                request.cohort, request.since_ns
            );
            if let Some(ticket) = request.ticket {
                let _ = write!(text, " with ticket {ticket}");
            }
        }
        if waiting.len() > NAMED {
            text.push_str("; …");
        }
        text
    }
}

impl Monitor {
    /// Who holds `lock`, who waits for it and since when.
    ///
    /// # Panics
    /// When it is none of the table's.
    pub fn describe(&self, lock: GlobalAddr) -> String {
        self.state.borrow().describe(lock)
    }

    /// A description of each lock for which somebody has waited longer than `bound_ns` while no grant and no
    /// release of it happened; `now_ns` is the fabric's clock. Nothing when all is well. Ask from time to time:
    /// the cost is one look at each client.
    pub fn stalled(&self, now_ns: u64, bound_ns: u64) -> Option<String> {
        let state = self.state.borrow();
        let mut stalled: Vec<GlobalAddr> = state
            .requests
            .iter()
            .flatten()
            .filter(|request| {
                let progress_ns = state.locks[state.table.index_of(request.lock)].progress_ns;
                now_ns.saturating_sub(progress_ns.max(request.since_ns)) > bound_ns
            })
            .map(|request| request.lock)
            .collect();
        stalled.sort_unstable();
        stalled.dedup();
        if stalled.is_empty() {
            return None;
        }
        let lines: Vec<String> = stalled
            .into_iter()
            .map(|lock| state.describe(lock))
            .collect();
        Some(format!(
            "no progress for {bound_ns} ns at {now_ns} ns: {}",
            lines.join("\n")
        ))
    }
}
