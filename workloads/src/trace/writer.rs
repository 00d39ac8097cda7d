//! [`Writer`]: from what a fabric tells of a run to the events of the file.

use std::io::{self, Write};
use std::ops::Range;
use std::path::Path;

use dmtree_cluster::{Chain, ClientId, GlobalAddr, Mark, NodeId};

use super::event::{ChainArgs, Event, Interrupted, LockArgs, Micros, Naming, Phase, chain_name};
use super::{About, Place, TraceSummary};
use crate::files::Growing;

/// Numbers of threads begin here, so that none is a process's number as well: a thread of its process's number is
/// taken for its main thread.
const FIRST_THREAD: u32 = 1000;

/// What a slice is of.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    Wait,
    CriticalSection,
}

/// A wait or a critical section that has not ended.
#[derive(Clone, Copy, Debug)]
struct Open {
    kind: Kind,
    lock: GlobalAddr,
    page: Option<GlobalAddr>,
    since_ps: u64,
    /// Its begin is in the file.
    written: bool,
}

impl Open {
    fn name(&self) -> String {
        let what = match self.kind {
            Kind::Wait => "wait",
            Kind::CriticalSection => "hold",
        };
        match self.page {
            Some(page) => format!("{what}: lock {}, page {page}", self.lock),
            None => format!("{what}: lock {}", self.lock),
        }
    }

    fn category(&self) -> &'static str {
        match self.kind {
            Kind::Wait => "lock-wait",
            Kind::CriticalSection => "critical-section",
        }
    }
}

#[derive(Clone, Debug)]
struct Client {
    process: u32,
    /// What its next lock is to guard.
    page: Option<GlobalAddr>,
    /// The outermost first.
    open: Vec<Open>,
}

/// Turns what it is told into events, and writes those of the window.
#[derive(Debug)]
pub(super) struct Writer {
    /// The file, or what went wrong first: then nothing more is written and nothing is left.
    file: io::Result<Growing>,
    window: Range<u64>,
    /// Nothing was later so far.
    latest_ps: u64,
    clients: Vec<Client>,
    summary: TraceSummary,
}

/// What the file says of itself.
#[derive(serde::Serialize)]
struct OtherData<'a> {
    about: &'a About,
    window_us: (Micros, Micros),
    written: &'a TraceSummary,
}

impl Writer {
    pub(super) fn new(file: Growing, path: &Path, window: Range<u64>) -> Self {
        let mut writer = Self {
            file: Ok(file),
            window,
            latest_ps: 0,
            clients: Vec::new(),
            summary: TraceSummary {
                path: path.to_owned(),
                events: 0,
                chains: 0,
                verbs: 0,
                waits: 0,
                critical_sections: 0,
            },
        };
        writer.put(b"{\"displayTimeUnit\":\"ns\",\"traceEvents\":[");
        writer
    }

    pub(super) fn path(&self) -> &Path {
        &self.summary.path
    }

    pub(super) fn summary(&self) -> TraceSummary {
        self.summary.clone()
    }

    fn put(&mut self, bytes: &[u8]) {
        if let Ok(file) = &mut self.file
            && let Err(error) = file.write_all(bytes)
        {
            self.file = Err(error);
        }
    }

    fn event(&mut self, event: &Event<'_, impl serde::Serialize>) {
        // One a line, for line tools.
        let comma: &[u8] = if self.summary.events == 0 {
            b"\n"
        } else {
            b",\n"
        };
        self.summary.events += 1;
        match serde_json::to_vec(event) {
            Ok(text) => {
                self.put(comma);
                self.put(&text);
            }
            Err(error) => self.file = Err(error.into()),
        }
    }

    /// Names nodes and clients, who are numbered in the order of `places`.
    pub(super) fn name_all(&mut self, places: impl Iterator<Item = Place>, server: NodeId) {
        let mut named = None;
        for (number, place) in places.enumerate() {
            self.name(number as u32, place, server, &mut named);
        }
    }

    /// Names client `number`, and its node if that is not the one `named` last.
    fn name(&mut self, number: u32, place: Place, server: NodeId, named: &mut Option<NodeId>) {
        let process = u32::from(place.node.0) + 1;
        let tid = FIRST_THREAD + number;
        if *named != Some(place.node) {
            *named = Some(place.node);
            let role = if place.node == server {
                "memory and compute server"
            } else {
                "compute server"
            };
            let name = Naming::Name(format!("{}, {role}", place.node));
            self.metadata("process_name", process, tid, name);
            let order = Naming::SortIndex(process);
            self.metadata("process_sort_index", process, tid, order);
        }
        let coroutine = place.coroutine.map_or(String::new(), |coroutine| {
            format!(", coroutine {coroutine}")
        });
        let client = ClientId(number);
        let name = Naming::Name(format!("thread {}{coroutine}, {client}", place.thread));
        self.metadata("thread_name", process, tid, name);
        self.metadata("thread_sort_index", process, tid, Naming::SortIndex(number));
        self.clients.push(Client {
            process,
            page: None,
            open: Vec::new(),
        });
    }

    fn metadata(&mut self, name: &'static str, pid: u32, tid: u32, args: Naming) {
        self.event(&Event {
            ph: Phase::Metadata,
            name,
            cat: None,
            ts: Micros(0),
            dur: None,
            pid,
            tid,
            args: Some(args),
        });
    }

    /// As [`dmtree_cluster::TraceSink::chain`].
    pub(super) fn chain(
        &mut self,
        client: ClientId,
        posted_ps: u64,
        completed_ps: u64,
        chain: &Chain,
    ) {
        self.latest_ps = completed_ps;
        if posted_ps >= self.window.end || completed_ps < self.window.start {
            return;
        }
        self.begin_open(client);
        self.summary.chains += 1;
        self.summary.verbs += chain.verbs().len() as u64;
        self.event(&Event {
            ph: Phase::Complete,
            name: &chain_name(chain),
            cat: Some("verbs"),
            ts: Micros(posted_ps),
            dur: Some(Micros(completed_ps - posted_ps)),
            pid: self.clients[client.0 as usize].process,
            tid: FIRST_THREAD + client.0,
            args: Some(ChainArgs::new(chain)),
        });
    }

    /// As [`dmtree_cluster::TraceSink::mark`].
    pub(super) fn mark(&mut self, client: ClientId, at_ps: u64, mark: Mark) {
        self.latest_ps = at_ps;
        match mark {
            Mark::Guards { page } => self.clients[client.0 as usize].page = Some(page),
            Mark::Requested { lock } => {
                let page = self.clients[client.0 as usize].page.take();
                self.begin(client, at_ps, Kind::Wait, lock, page);
            }
            // Within the wait; nothing of its own.
            Mark::Ticket { .. } => {}
            Mark::Granted { lock } => {
                let page = self.end_slice(client, at_ps, Kind::Wait, lock);
                self.begin(client, at_ps, Kind::CriticalSection, lock, page);
            }
            Mark::Released { lock } => {
                self.end_slice(client, at_ps, Kind::CriticalSection, lock);
            }
        }
    }

    fn begin(
        &mut self,
        client: ClientId,
        since_ps: u64,
        kind: Kind,
        lock: GlobalAddr,
        page: Option<GlobalAddr>,
    ) {
        self.clients[client.0 as usize].open.push(Open {
            kind,
            lock,
            page,
            since_ps,
            written: false,
        });
        if self.window.contains(&since_ps) {
            self.begin_open(client);
        }
    }

    /// Writes the begin of every slice that the client is in and that has none in the file. Those from before the
    /// window get theirs when something within the window turns up, in the order of time.
    fn begin_open(&mut self, client: ClientId) {
        for depth in 0..self.clients[client.0 as usize].open.len() {
            let open = &mut self.clients[client.0 as usize].open[depth];
            if open.written || open.since_ps >= self.window.end {
                continue;
            }
            open.written = true;
            let open = *open;
            match open.kind {
                Kind::Wait => self.summary.waits += 1,
                Kind::CriticalSection => self.summary.critical_sections += 1,
            }
            let args = LockArgs::new(open.lock, open.page);
            self.edge(client, Phase::Begin, open.since_ps, &open, Some(args));
        }
    }

    fn edge(
        &mut self,
        client: ClientId,
        ph: Phase,
        at_ps: u64,
        open: &Open,
        args: Option<impl serde::Serialize>,
    ) {
        self.event(&Event {
            ph,
            name: &open.name(),
            cat: Some(open.category()),
            ts: Micros(at_ps),
            dur: None,
            pid: self.clients[client.0 as usize].process,
            tid: FIRST_THREAD + client.0,
            args,
        });
    }

    /// Ends a slice of the client; gives the page back that it was of. Slices of a thread nest: those within it are
    /// ended and begun anew, which a client that holds several locks can bring about.
    fn end_slice(
        &mut self,
        client: ClientId,
        at_ps: u64,
        kind: Kind,
        lock: GlobalAddr,
    ) -> Option<GlobalAddr> {
        let open = &self.clients[client.0 as usize].open;
        let depth = open
            .iter()
            .rposition(|open| (open.kind, open.lock) == (kind, lock))?;
        if at_ps >= self.window.start {
            self.begin_open(client);
        }
        let within = self.clients[client.0 as usize].open.split_off(depth + 1);
        for open in within.iter().rev().filter(|open| open.written) {
            let goes_on = Some(Interrupted::GoesOn(true));
            self.edge(client, Phase::End, at_ps, open, goes_on);
        }
        let ended = self.clients[client.0 as usize].open.pop()?;
        if ended.written {
            self.edge(client, Phase::End, at_ps, &ended, None::<()>);
        }
        for open in &within {
            if open.written {
                let goes_on = Some(Interrupted::GoesOn(true));
                self.edge(client, Phase::Begin, at_ps, open, goes_on);
            }
        }
        self.clients[client.0 as usize].open.extend(within);
        ended.page
    }

    /// Ends what is open, at `now_ps`, and the file.
    pub(super) fn finish(&mut self, now_ps: u64, about: &About) -> io::Result<()> {
        // The caller's clock may be coarser.
        let now_ps = now_ps.max(self.latest_ps);
        for number in 0..self.clients.len() {
            let client = ClientId(number as u32);
            if now_ps >= self.window.start {
                self.begin_open(client);
            }
            while let Some(open) = self.clients[number].open.pop() {
                if open.written {
                    let unfinished = Some(Interrupted::Unfinished(true));
                    self.edge(client, Phase::End, now_ps, &open, unfinished);
                }
            }
        }
        let other = serde_json::to_string(&OtherData {
            about,
            window_us: (Micros(self.window.start), Micros(self.window.end)),
            written: &self.summary,
        })?;
        self.put(format!("\n],\"otherData\":{other}}}\n").as_bytes());
        let over = io::Error::other("the trace has ended already");
        std::mem::replace(&mut self.file, Err(over))?.finish()
    }
}
