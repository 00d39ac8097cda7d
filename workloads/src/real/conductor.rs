//! What brings a node through a run: it begins its clients with those of all others, notices who is gone or was told to
//! end, and brings what was measured to node 0.
//!
//! Two programs on one connection of their own: the *pulse* looks at node 0's words every few milliseconds, whatever else
//! goes on, and the *course* goes through the run step by step. What they have in common is a [`State`].

use std::cell::{Cell, RefCell};
use std::rc::Rc;
use std::sync::Arc;
use std::time::{Duration, Instant};

use dmtree_cluster::region::Regions;
use dmtree_cluster::tcp::{ClientThread, ThreadConfig};
use dmtree_cluster::wall::Abort;
use dmtree_cluster::{ClientId, Endpoint, Error, ErrorKind, NodeId, WaitBounds};

use super::control::{Control, Go, Seen, Signals, Stop};
use super::crew::Crew;
use super::report::NodeReport;
use super::told::Told;
use crate::run::SERVER;

/// Between two beats.
const BEAT: Duration = Duration::from_millis(20);
/// Between two looks at what other threads of this process do.
const LOOK: Duration = Duration::from_millis(1);
/// How long clients get to end what they are at, when all are to stop: operations take microseconds, but behind someone
/// who is gone they never end.
const GRACE: Duration = Duration::from_secs(1);
/// How long node 0 waits for the others to say that they have seen the end.
const FAREWELL: Duration = Duration::from_secs(2);

/// How long is waited for whom.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Limits {
    /// For all nodes to come.
    pub(crate) patience: Duration,
    /// Whether node 0 waits for the first of the others for ever.
    pub(crate) is_host: bool,
    /// For a sign of life of one that has come.
    pub(crate) peer: Duration,
}

/// What a node does in the end, when no client of any node does anything any more.
pub(crate) trait Afterwards {
    /// Looks at what is its own, such as its index cache.
    fn own<E: Endpoint>(&self, ep: &E) -> impl Future<Output = Result<u64, String>>;

    /// On node 0: looks at everything, given what all have written and seen.
    fn all(&self, report: &mut NodeReport) -> Result<(), String>;

    /// Whether there is anything to be looked at.
    fn is_wanted(&self) -> bool;
}

/// What both programs know.
struct State {
    signals: Cell<Signals>,
    /// Node 0 is gone, or cannot be reached.
    lost: RefCell<Option<Error>>,
    /// On node 0: of whom nothing is heard any more.
    gone: RefCell<Vec<bool>>,
    is_over: Cell<bool>,
}

impl State {
    fn stop(&self) -> Option<Stop> {
        self.signals.get().stop
    }

    /// Why nothing is to go on, if so.
    fn broken(&self) -> Option<String> {
        let lost = self.lost.borrow().as_ref().map(ToString::to_string);
        lost.or_else(|| self.stop().map(|stop| stop.to_string()))
    }
}

/// What a node has done.
#[derive(Debug)]
pub(crate) struct Played {
    /// On node 0 what all have measured, on others what their own clients have.
    pub(crate) report: NodeReport,
    /// Whether node 0 has it.
    pub(crate) is_delivered: bool,
}

/// A connection to node 0 alone, for [`conduct`]: `config` is that of clients.
///
/// # Errors
/// Naming node 0.
pub(crate) fn connect(
    config: &ThreadConfig,
    regions: &Arc<Regions>,
) -> dmtree_cluster::Result<ClientThread> {
    let mut config = config.clone();
    for (node, peer) in config.peers.iter_mut().enumerate() {
        *peer = peer.filter(|_| node == usize::from(SERVER.0));
    }
    // What is waited for there takes as long as it takes; who is gone is noticed otherwise.
    config.waits = WaitBounds {
        report_ns: u64::MAX,
        limit_ns: u64::MAX,
    };
    // It brings the run to its end itself when somebody wants that.
    ClientThread::connect(config, Arc::clone(regions))
        .map(|thread| thread.with_abort(Abort::default()))
}

/// What is needed to go through a run.
#[derive(Clone)]
pub(crate) struct Cast {
    /// How many nodes there are.
    pub(crate) nodes: usize,
    pub(crate) regions: Arc<Regions>,
    pub(crate) control: Control,
    pub(crate) crew: Arc<Crew>,
    pub(crate) limits: Limits,
    pub(crate) told: Told,
}

/// Goes through the run, by a connection that [`connect`] has made.
///
/// # Errors
/// In words, before anything could be measured.
pub(crate) fn conduct(
    mut thread: ClientThread,
    cast: Cast,
    afterwards: impl Afterwards + 'static,
) -> Result<Played, String> {
    let crew = Arc::clone(&cast.crew);
    let state = Rc::new(State {
        signals: Cell::default(),
        lost: RefCell::new(None),
        gone: RefCell::new(vec![false; cast.nodes]),
        is_over: Cell::new(false),
    });
    // No client of the workload has these numbers.
    let pulse = thread.endpoint(ClientId(u32::MAX));
    let course = thread.endpoint(ClientId(u32::MAX - 1));
    let beating = Pulse {
        ep: pulse.clone(),
        cast: cast.clone(),
        state: Rc::clone(&state),
    };
    thread.spawn(&pulse, beating.run());
    let played = Rc::new(RefCell::new(None));
    let program = Course {
        ep: course.clone(),
        cast,
        afterwards,
        state: Rc::clone(&state),
    };
    let found = Rc::clone(&played);
    thread.spawn(&course, async move {
        let result = program.run().await;
        program.state.is_over.set(true);
        *found.borrow_mut() = Some(result);
    });
    let ran = thread.run();
    // Whoever still waits for the beginning is not needed any more.
    crew.dismiss();
    ran.map_err(|error| error.to_string())?;
    played
        .take()
        .unwrap_or_else(|| Err("the run was not gone through".to_owned()))
}

/// Tells that the node is there, and hears what all are to do.
struct Pulse<E> {
    ep: E,
    cast: Cast,
    state: Rc<State>,
}

/// When a node was last seen to change its beat.
#[derive(Clone, Copy)]
struct LastSeen {
    beat: u64,
    at: Instant,
}

impl<E: Endpoint> Pulse<E> {
    async fn run(self) {
        let mut beat = 0;
        let mut stopped_at = None;
        let mut seen: Vec<Option<LastSeen>> = vec![None; self.state.gone.borrow().len()];
        let mut last_look = Instant::now();
        while !self.state.is_over.get() {
            beat += 1;
            if let Err(error) = self.once(beat, &mut seen, &mut last_look).await {
                // Their waits would never end: who was to answer them is gone.
                self.cast.crew.abort(error.clone());
                *self.state.lost.borrow_mut() = Some(error);
                return;
            }
            if let Some(stop) = self.state.stop() {
                self.cast.crew.stop();
                let since = *stopped_at.get_or_insert_with(Instant::now);
                if since.elapsed() > GRACE {
                    let why = stop.to_string();
                    self.cast.crew.abort(ErrorKind::Aborted { why }.into());
                }
            }
            self.ep.sleep(BEAT.as_nanos() as u64).await;
        }
    }

    async fn once(
        &self,
        beat: u64,
        seen: &mut [Option<LastSeen>],
        last_look: &mut Instant,
    ) -> Result<(), Error> {
        let own = self.ep.node();
        if self.cast.told.is_told() && self.state.stop().is_none() {
            self.cast.control.stop(&self.ep, Stop::Told(own)).await?;
        }
        let signals = self.cast.control.beat(&self.ep, beat).await?;
        self.state.signals.set(signals);
        if own != SERVER {
            return Ok(());
        }
        // Who has been asleep itself cannot tell how long the others have been quiet.
        let was_asleep = last_look.elapsed() > self.cast.limits.peer / 2;
        *last_look = Instant::now();
        for (number, now) in self
            .cast
            .control
            .see(&self.ep)
            .await?
            .into_iter()
            .enumerate()
        {
            let fresh = LastSeen {
                beat: now.beat,
                at: Instant::now(),
            };
            match &mut seen[number] {
                // It has not come yet.
                None if now.beat == 0 => {}
                Some(last) if last.beat == now.beat && !was_asleep => {
                    let is_gone = last.at.elapsed() > self.cast.limits.peer && !now.heard;
                    if is_gone && !self.state.gone.borrow()[number] {
                        let gone = NodeId(number as u16);
                        tracing::warn!(node = %gone, limit = ?self.cast.limits.peer, "nothing is heard of a node any more");
                        self.cast.control.stop(&self.ep, Stop::Gone(gone)).await?;
                        // The word may have said another reason before; the next look tells.
                        let mut signals = self.state.signals.get();
                        signals.stop.get_or_insert(Stop::Gone(gone));
                        self.state.signals.set(signals);
                        self.state.gone.borrow_mut()[number] = true;
                    }
                }
                last => *last = Some(fresh),
            }
        }
        Ok(())
    }
}

/// Goes through the run.
struct Course<E, A> {
    ep: E,
    cast: Cast,
    afterwards: A,
    state: Rc<State>,
}

impl<E: Endpoint, A: Afterwards> Course<E, A> {
    fn is_first(&self) -> bool {
        self.ep.node() == SERVER
    }

    async fn look(&self) {
        self.ep.sleep(LOOK.as_nanos() as u64).await;
    }

    async fn run(&self) -> Result<Played, String> {
        let say = |error: Error| error.to_string();
        if let Err(why) = self.gather().await {
            // The others are not to wait for this one.
            let stop = Stop::Failed(self.ep.node());
            drop(self.cast.control.stop(&self.ep, stop).await);
            if self.is_first() {
                self.farewell().await;
            } else {
                self.cast.control.heard(&self.ep).await;
            }
            return Err(why);
        }
        tracing::info!(node = %self.ep.node(), "all nodes are ready, and their clients begin");
        self.cast.crew.begin(&self.ep);
        while !self.cast.crew.are_done() {
            if self.cast.crew.has_failed() && self.state.stop().is_none() {
                let stop = Stop::Failed(self.ep.node());
                // Where this fails the pulse notices as well.
                drop(self.cast.control.stop(&self.ep, stop).await);
            }
            self.look().await;
        }
        let mut report = self.cast.crew.take_report();
        self.tell_why(&mut report);
        if let Some(lost) = &*self.state.lost.borrow() {
            report.failure = Some(lost.to_string());
        }
        if self.is_first() {
            let report = self.collect(report).await;
            self.farewell().await;
            return Ok(Played {
                report,
                is_delivered: true,
            });
        }
        let sent = async {
            let bytes = report.to_bytes()?;
            self.cast
                .control
                .send(&self.ep, &bytes)
                .await
                .map_err(say)?;
            self.finish().await
        };
        let is_delivered = match sent.await {
            Ok(()) => true,
            Err(why) => {
                report.failure.get_or_insert(why);
                false
            }
        };
        Ok(Played {
            report,
            is_delivered,
        })
    }

    /// Until all nodes are ready.
    async fn gather(&self) -> Result<(), String> {
        let say = |error: Error| error.to_string();
        self.wait_for(Go::Connect, |seen| seen.beat > 0).await?;
        self.cast.crew.connect();
        while !self.cast.crew.is_connected() {
            if let Some(why) = self.cast.crew.failure().or_else(|| self.state.broken()) {
                return Err(why);
            }
            self.look().await;
        }
        self.cast.control.ready(&self.ep).await.map_err(say)?;
        self.wait_for(Go::Begin, |seen| seen.ready).await
    }

    /// Until all may do `what`: node 0 says so when it sees all others to be `so`.
    async fn wait_for(&self, what: Go, so: impl Fn(&Seen) -> bool) -> Result<(), String> {
        let say = |error: Error| error.to_string();
        let limits = self.cast.limits;
        let mut since = Instant::now();
        while self.state.signals.get().go < what {
            if let Some(why) = self.state.broken() {
                return Err(why);
            }
            if self.is_first() {
                let seen = self.cast.control.see(&self.ep).await.map_err(say)?;
                let missing: Vec<NodeId> = (0..seen.len())
                    .filter(|node| !so(&seen[*node]))
                    .map(|node| NodeId(node as u16))
                    .collect();
                let Some(first) = missing.first() else {
                    return self.cast.control.go(&self.ep, what).await.map_err(say);
                };
                if limits.is_host && missing.len() == seen.len() - 1 {
                    since = Instant::now();
                }
                if since.elapsed() > limits.patience {
                    let stop = Stop::Missing(*first);
                    self.cast.control.stop(&self.ep, stop).await.map_err(say)?;
                    let names: Vec<String> = missing.iter().map(ToString::to_string).collect();
                    return Err(format!(
                        "after {:?} these nodes are missing: {}; start them, or wait longer with --patience",
                        limits.patience,
                        names.join(", ")
                    ));
                }
            }
            self.look().await;
        }
        Ok(())
    }

    /// What ended the run comes before what came of that; of a failure the words of the one who failed are best.
    fn tell_why(&self, report: &mut NodeReport) {
        match self.state.stop() {
            Some(Stop::Failed(_)) if report.failure.is_some() => {}
            Some(stop) => report.failure = Some(stop.to_string()),
            None => {}
        }
    }

    /// On node 0: what all have measured, and whether what they left is right.
    async fn collect(&self, mut report: NodeReport) -> NodeReport {
        for (node, bytes) in self.messages().await {
            match bytes.and_then(|bytes| NodeReport::from_bytes(&bytes)) {
                Ok(mut other) => {
                    if self.state.stop() == Some(Stop::Failed(node)) {
                        report.failure = other.failure.take();
                    }
                    report.merge(other);
                }
                Err(why) => {
                    report.failure.get_or_insert(format!("{node}: {why}"));
                }
            }
        }
        self.tell_why(&mut report);
        if !self.afterwards.is_wanted() || report.failure.is_some() {
            return report;
        }
        if let Err(error) = self.cast.control.quiet(&self.ep).await {
            report.failure = Some(error.to_string());
            return report;
        }
        match self.afterwards.all(&mut report) {
            Ok(()) => {}
            Err(why) => report.failure = Some(why),
        }
        for (node, bytes) in self.messages().await {
            let verdict = bytes.and_then(|bytes| {
                let verdict: Result<u64, String> =
                    serde_json::from_slice(&bytes).map_err(|error| error.to_string())?;
                verdict
            });
            match (verdict, &mut report.verified) {
                (Ok(cached), Some(verified)) => verified.cached += cached,
                (Ok(_), None) => {}
                (Err(why), _) => {
                    report.failure.get_or_insert(format!("{node}: {why}"));
                }
            }
        }
        report
    }

    /// A message of every other node; of one that is gone, why it does not come.
    async fn messages(&self) -> Vec<(NodeId, Result<Vec<u8>, String>)> {
        let nodes = self.state.gone.borrow().len() as u16;
        let mut waiting: Vec<(NodeId, Vec<u8>)> =
            (1..nodes).map(|node| (NodeId(node), Vec::new())).collect();
        let mut come = Vec::new();
        while !waiting.is_empty() {
            waiting.retain_mut(|(node, message)| {
                if self
                    .cast
                    .control
                    .receive(&self.cast.regions, *node, message)
                {
                    come.push((*node, Ok(std::mem::take(message))));
                    return false;
                }
                if self.state.gone.borrow()[usize::from(node.0)] {
                    let why = "it is gone, and what it has measured with it".to_owned();
                    come.push((*node, Err(why)));
                    return false;
                }
                true
            });
            if let Some(lost) = &*self.state.lost.borrow() {
                come.extend(
                    waiting
                        .drain(..)
                        .map(|(node, _)| (node, Err(lost.to_string()))),
                );
            }
            self.look().await;
        }
        come.sort_by_key(|(node, _)| *node);
        come
    }

    /// On all other nodes: what they do when nobody does anything any more, until the end.
    async fn finish(&self) -> Result<(), String> {
        let mut has_looked = false;
        loop {
            let signals = self.state.signals.get();
            if signals.end {
                self.cast.control.heard(&self.ep).await;
                return Ok(());
            }
            if let Some(lost) = &*self.state.lost.borrow() {
                return Err(lost.to_string());
            }
            if signals.quiet && !has_looked {
                has_looked = true;
                let verdict = self.afterwards.own(&self.ep).await;
                let bytes = serde_json::to_vec(&verdict).map_err(|error| error.to_string())?;
                let sent = self.cast.control.send(&self.ep, &bytes).await;
                sent.map_err(|error| error.to_string())?;
            }
            self.look().await;
        }
    }

    /// Lets the others end, and waits until they ask for nothing more.
    async fn farewell(&self) {
        if self.cast.control.end(&self.ep).await.is_err() {
            return;
        }
        let until = Instant::now() + FAREWELL;
        while Instant::now() < until {
            let Ok(seen) = self.cast.control.see(&self.ep).await else {
                return;
            };
            let gone = self.state.gone.borrow().clone();
            let waits = |(node, seen): (usize, &Seen)| {
                node != 0 && seen.beat > 0 && !seen.heard && !gone[node]
            };
            if !seen.iter().enumerate().any(waits) {
                return;
            }
            self.look().await;
        }
    }
}
