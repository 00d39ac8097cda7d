//! What happens to a client that drops, loses or mixes up what it holds: an error, and never a hang of its own.

use std::cell::RefCell;
use std::future::{Future, poll_fn};
use std::pin::pin;
use std::rc::Rc;
use std::task::Poll;

use dmtree_cluster::sim::{Profile, Sim, SimConfig, SimEndpoint};
use dmtree_cluster::{ClientId, Endpoint, GlobalAddr, MemoryMap, NodeId};
use dmtree_lock::{
    AnyLock, DataPath, Error, ErrorKind, LockOptions, LockPlan, LockProtocol, Monitor, WriteBack,
};

const LOCKS: [&str; 8] = [
    "sherman",
    "tas",
    "ticket",
    "mcs",
    "alock",
    "alock:cas-release",
    "farlock",
    "farlock-g",
];

/// A client on node 1 (and one on node 0) with the first locks of node 0.
struct Bench {
    sim: Sim,
    plan: LockPlan,
    monitor: Rc<Monitor>,
    /// Endpoints of client 0, on node 0, and client 1, on node 1.
    eps: [SimEndpoint; 2],
}

impl Bench {
    fn new(name: &str) -> Self {
        let mut map = MemoryMap::new(2);
        let options = LockOptions {
            slots: 4,
            descriptors: 2,
            ..LockOptions::default()
        };
        let nodes = [NodeId(0), NodeId(1)];
        let plan = LockPlan::reserve(
            name.parse().expect(name),
            options,
            &mut map,
            &nodes[..1],
            &nodes,
        );
        let profile = Profile::by_name("cx3-fdr").expect("a profile");
        let mut sim = Sim::new(&SimConfig::new(profile), &map).expect("memory");
        let monitor = Rc::new(Monitor::new(plan.table()));
        let eps = nodes.map(|node| sim.endpoint(node, 0));
        Self {
            sim,
            plan,
            monitor,
            eps,
        }
    }

    fn lock(&self, client: u32) -> AnyLock {
        self.plan
            .client(ClientId(client), Some(Rc::clone(&self.monitor)))
    }

    fn slot(&self, slot: u32) -> GlobalAddr {
        self.plan.table().lock(NodeId(0), slot)
    }

    /// Runs `program` as `client` to its end.
    fn run<T: 'static>(&mut self, client: usize, program: impl Future<Output = T> + 'static) -> T {
        let result = Rc::new(RefCell::new(None));
        let slot = Rc::clone(&result);
        self.sim.spawn(&self.eps[client], async move {
            let value = program.await;
            *slot.borrow_mut() = Some(value);
        });
        self.sim.run().expect("nobody waits for ever");
        result.take().expect("it has ended")
    }
}

/// Lets a future run for `ns` of virtual time, and drops it then.
async fn give_up_after<F: Future>(ep: &SimEndpoint, ns: u64, future: F) -> Option<F::Output> {
    let (mut future, mut timer) = (pin!(future), pin!(ep.sleep(ns)));
    poll_fn(|context| match future.as_mut().poll(context) {
        Poll::Ready(value) => Poll::Ready(Some(value)),
        Poll::Pending => timer.as_mut().poll(context).map(|()| None),
    })
    .await
}

#[test]
fn a_dropped_guard_poisons() {
    for name in LOCKS {
        for client in [0, 1] {
            let mut bench = Bench::new(name);
            let (ep, mut lock) = (bench.eps[client].clone(), bench.lock(client as u32));
            let [first, second] = [0, 1].map(|slot| bench.slot(slot));
            let (again, at_last) = bench.run(client, async move {
                drop(lock.acquire(&ep, first).await.expect("granted"));
                (lock.acquire(&ep, second).await.map(|_| ()), lock.poisoned())
            });
            let client = ClientId(client as u32);
            let poisoned: Error = ErrorKind::Poisoned {
                client,
                what: "a guard",
                lock: first,
            }
            .into();
            assert_eq!(
                (again, at_last),
                (Err(poisoned.clone()), Some(poisoned)),
                "{name}"
            );
            let text = bench.monitor.describe(first);
            assert!(
                text.contains(&format!("something of {client} got lost")),
                "{text}"
            );
        }
    }
}

#[test]
fn a_dropped_acquire_poisons() {
    // At its first verb, and in the middle of the wait for somebody who holds the lock.
    for (held, patience_ns) in [(false, 200), (true, 50_000)] {
        for name in LOCKS {
            let mut bench = Bench::new(name);
            let at = bench.slot(0);
            if held {
                let (ep, mut lock) = (bench.eps[0].clone(), bench.lock(0));
                bench.sim.spawn(&ep.clone(), async move {
                    let guard = lock.acquire(&ep, at).await.expect("granted");
                    ep.work(100_000).await;
                    lock.release(&ep, guard, WriteBack::NONE)
                        .await
                        .expect("released");
                });
            }
            let (ep, mut lock) = (bench.eps[1].clone(), bench.lock(1));
            let (again, at_last) = bench.run(1, async move {
                ep.sleep(10_000).await;
                assert!(
                    give_up_after(&ep, patience_ns, lock.acquire(&ep, at))
                        .await
                        .is_none()
                );
                // The verbs that are on their way end by themselves.
                ep.sleep(100_000).await;
                (lock.acquire(&ep, at).await.map(|_| ()), lock.poisoned())
            });
            let poisoned: Error = ErrorKind::Poisoned {
                client: ClientId(1),
                what: "an acquire",
                lock: at,
            }
            .into();
            assert_eq!(
                (again, at_last),
                (Err(poisoned.clone()), Some(poisoned)),
                "{name}"
            );
            assert!(
                bench.monitor.describe(at).contains("0 waiting"),
                "it waits no more"
            );
        }
    }
}

#[test]
fn an_acquire_that_never_began_poisons_nothing() {
    for name in LOCKS {
        let mut bench = Bench::new(name);
        let (ep, mut lock) = (bench.eps[1].clone(), bench.lock(1));
        let at = bench.slot(0);
        let outcome = bench.run(1, async move {
            drop(lock.acquire(&ep, at));
            let guard = lock.acquire(&ep, at).await?;
            lock.release(&ep, guard, WriteBack::NONE).await?;
            Ok::<_, Error>(lock.poisoned())
        });
        assert_eq!(outcome, Ok(None), "{name}");
    }
}

#[test]
fn a_failed_release_counts_as_held() {
    for name in LOCKS {
        let mut bench = Bench::new(name);
        let (ep, mut lock) = (bench.eps[1].clone(), bench.lock(1));
        let at = bench.slot(0);
        let (release, at_last) = bench.run(1, async move {
            let guard = lock.acquire(&ep, at).await.expect("granted");
            let beyond = GlobalAddr::new(NodeId(0), 1 << 40);
            let writes: [(GlobalAddr, &[u64]); 1] = [(beyond, &[1])];
            let write_back = WriteBack {
                path: DataPath::Loopback,
                writes: &writes,
            };
            (lock.release(&ep, guard, write_back).await, lock.poisoned())
        });
        let failure = release.unwrap_err();
        let ErrorKind::Cluster(cause) = failure.kind() else {
            panic!("{name}: {failure}")
        };
        assert!(
            matches!(cause.kind(), dmtree_cluster::ErrorKind::OutOfBounds { .. }),
            "{name}: {failure}"
        );
        let poisoned: Error = ErrorKind::Poisoned {
            client: ClientId(1),
            what: "a release",
            lock: at,
        }
        .into();
        assert_eq!(at_last, Some(poisoned), "{name}");
    }
}

#[test]
fn descriptors_run_out_and_come_back() {
    for name in ["mcs", "alock", "farlock", "farlock-g:3,3"] {
        let mut bench = Bench::new(name);
        let (ep, mut lock) = (bench.eps[1].clone(), bench.lock(1));
        let [first, second, third] = [0, 1, 2].map(|slot| bench.slot(slot));
        let (too_many, at_last) = bench.run(1, async move {
            let one = lock.acquire(&ep, first).await.expect("granted");
            let two = lock.acquire(&ep, second).await.expect("granted");
            let too_many = lock.acquire(&ep, third).await.map(|_| ());
            lock.release(&ep, one, WriteBack::NONE)
                .await
                .expect("released");
            let three = lock.acquire(&ep, third).await.expect("granted");
            for guard in [three, two] {
                lock.release(&ep, guard, WriteBack::NONE)
                    .await
                    .expect("released");
            }
            (too_many, lock.poisoned())
        });
        assert_eq!(
            too_many,
            Err(ErrorKind::TooManyGuards {
                client: ClientId(1),
                held: 2
            }
            .into()),
            "{name}"
        );
        assert_eq!(at_last, None, "{name}: it is no reason to be poisoned");
    }
}

#[test]
fn a_guard_of_another_client_is_refused() {
    for name in LOCKS {
        let mut bench = Bench::new(name);
        let (eps, mut owner, mut other) = (bench.eps.clone(), bench.lock(1), bench.lock(0));
        let at = bench.slot(0);
        let (outcome, poisoned) = bench.run(1, async move {
            let guard = owner.acquire(&eps[1], at).await.expect("granted");
            assert_eq!(guard.lock(), at);
            let outcome = other.release(&eps[0], guard, WriteBack::NONE).await;
            (
                outcome,
                (owner.poisoned().is_some(), other.poisoned().is_some()),
            )
        });
        assert_eq!(
            outcome,
            Err(ErrorKind::ForeignGuard {
                client: ClientId(0),
                lock: at
            }
            .into()),
            "{name}"
        );
        assert_eq!(poisoned, (true, false), "{name}");
    }
}

#[test]
fn a_guard_of_another_protocol_is_refused() {
    let (mut bench, other) = (Bench::new("farlock"), Bench::new("alock"));
    let (ep, mut owner, mut alock) = (bench.eps[1].clone(), bench.lock(1), other.lock(1));
    let at = bench.slot(0);
    let (outcome, poisoned) = bench.run(1, async move {
        let guard = owner.acquire(&ep, at).await.expect("granted");
        (
            alock.release(&ep, guard, WriteBack::NONE).await,
            owner.poisoned().is_some(),
        )
    });
    assert_eq!(
        outcome,
        Err(ErrorKind::ForeignGuard {
            client: ClientId(1),
            lock: at
        }
        .into())
    );
    assert!(poisoned);
}
