//! [`Crew`]: the threads of a node's clients, as those who conduct them see them.

use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, mpsc};
use std::time::{Duration, Instant};

use dmtree_cluster::wall::Abort;
use dmtree_cluster::{Endpoint, Error};

use super::report::NodeReport;
use crate::driver::Schedule;
use crate::run::nanos;

/// Between the signal to begin and the first client: all threads have heard of it by then.
const AHEAD: Duration = Duration::from_millis(20);

/// What a thread is told.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Order {
    /// To connect.
    Connect,
    /// To begin.
    Begin(Schedule),
}

/// How long clients work.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Times {
    pub(crate) stagger: Duration,
    pub(crate) warmup: Duration,
    pub(crate) window: Duration,
}

/// The threads of a node's clients.
#[derive(Debug)]
pub(crate) struct Crew {
    origin: Instant,
    times: Times,
    threads: usize,
    orders: Mutex<Vec<mpsc::Sender<Order>>>,
    connected: AtomicUsize,
    done: AtomicUsize,
    /// When the measured window begins, and the clients were told to stop; 0 as long as that is not known.
    window_start_ns: AtomicU64,
    stopped_ns: AtomicU64,
    is_stopped: Arc<AtomicBool>,
    abort: Abort,
    report: Mutex<NodeReport>,
}

impl Crew {
    /// One whose threads hear what to do by the receivers.
    pub(crate) fn new(
        origin: Instant,
        times: Times,
        threads: usize,
    ) -> (Self, Vec<mpsc::Receiver<Order>>) {
        let (orders, receivers) = (0..threads).map(|_| mpsc::channel()).unzip();
        let crew = Self {
            origin,
            times,
            threads,
            orders: Mutex::new(orders),
            connected: AtomicUsize::new(0),
            done: AtomicUsize::new(0),
            window_start_ns: AtomicU64::new(0),
            stopped_ns: AtomicU64::new(0),
            is_stopped: Arc::default(),
            abort: Abort::default(),
            report: Mutex::default(),
        };
        (crew, receivers)
    }

    /// What a thread that panics leaves is as whole as each of its steps.
    fn report(&self) -> MutexGuard<'_, NodeReport> {
        self.report.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Of a thread: it has its connections.
    pub(crate) fn has_connected(&self) {
        self.connected.fetch_add(1, Ordering::AcqRel);
    }

    /// Of a thread: it has ended.
    pub(crate) fn has_done(&self, report: NodeReport) {
        if report.failure.is_some() {
            // Nobody goes on as if nothing had happened.
            self.stop();
        }
        self.report().merge(report);
        // Who sees it sees the report.
        self.done.fetch_add(1, Ordering::AcqRel);
    }

    /// What ends its clients between two operations.
    pub(crate) fn stopping(&self) -> Arc<AtomicBool> {
        Arc::clone(&self.is_stopped)
    }

    /// What ends its clients in the middle of one.
    pub(crate) fn aborting(&self) -> Abort {
        self.abort.clone()
    }

    /// Whether all threads have their connections.
    pub(crate) fn is_connected(&self) -> bool {
        self.connected.load(Ordering::Acquire) == self.threads
    }

    /// Why a thread has failed, if one has.
    pub(crate) fn failure(&self) -> Option<String> {
        self.report().failure.clone()
    }

    /// Whether a thread has failed.
    pub(crate) fn has_failed(&self) -> bool {
        self.report().failure.is_some()
    }

    /// Begins; the clock is that of `ep`.
    pub(crate) fn begin(&self, ep: &impl Endpoint) {
        let schedule = Schedule::new(
            ep.now() + nanos(AHEAD),
            nanos(self.times.stagger),
            nanos(self.times.warmup),
            nanos(self.times.window),
        );
        self.window_start_ns
            .store(schedule.window_start_ns, Ordering::Release);
        self.order(Order::Begin(schedule));
    }

    /// Lets its threads connect.
    pub(crate) fn connect(&self) {
        self.order(Order::Connect);
    }

    fn order(&self, order: Order) {
        for thread in self.senders().iter() {
            // One that has ended has told why.
            let _ = thread.send(order);
        }
    }

    fn senders(&self) -> MutexGuard<'_, Vec<mpsc::Sender<Order>>> {
        self.orders.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Lets threads that still wait for an order end.
    pub(crate) fn dismiss(&self) {
        self.senders().clear();
    }

    /// Lets clients end when they have done what they are at.
    pub(crate) fn stop(&self) {
        if !self.is_stopped.swap(true, Ordering::AcqRel) {
            let now = nanos(self.origin.elapsed());
            self.stopped_ns.store(now, Ordering::Release);
        }
    }

    /// Lets clients end in the middle of what they are at.
    pub(crate) fn abort(&self, why: Error) {
        self.stop();
        self.abort.ask(why);
    }

    /// Whether all threads have ended.
    pub(crate) fn are_done(&self) -> bool {
        self.done.load(Ordering::Acquire) == self.threads
    }

    /// What they have measured, when they have ended.
    pub(crate) fn take_report(&self) -> NodeReport {
        let mut report = std::mem::take(&mut *self.report());
        let start = self.window_start_ns.load(Ordering::Acquire);
        let measured = match self.stopped_ns.load(Ordering::Acquire) {
            0 => u64::MAX,
            stopped => stopped.saturating_sub(start),
        };
        report.measured_ns = measured.min(nanos(self.times.window));
        report
    }
}
