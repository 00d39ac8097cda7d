//! The conformance suite held against fabrics that are known to be wrong: it must find each of them out.

mod common;

use std::sync::atomic::Ordering;

use common::SimBed;
use dmtree_cluster::conformance::{Memory, MustTest, Scenario, TestBed, must_tests};
use dmtree_cluster::sim::{SimEndpoint, SwapKind};
use dmtree_cluster::{
    Capabilities, Chain, ClientId, Endpoint, GlobalAddr, Line, NodeId, Op, Result, WaitBounds,
    WaitFor,
};

/// What is wrong with a fabric.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Flaw {
    Nothing,
    FencesIgnored,
    ChainsBackwards,
    ChainsInParts,
    LastByteForgotten,
    CasBlind,
    FaaInTwoSteps,
    CpuFetchAddInTwoSteps,
    CpuSwapInTwoSteps,
    CpuCopyBackwards,
    WaitsEndEarly,
    ChangesMissed,
    LimitIgnored,
    ErrorsSwallowed,
    ClockBackwards,
    SleepShort,
    RandomAlike,
}

/// The simulator with a flaw.
struct Flawed {
    inner: SimEndpoint,
    flaw: Flaw,
}

impl Flawed {
    /// Executes these verbs of `chain` in this order as one chain, with their fences if wanted, and puts
    /// the results where they belong.
    async fn rebuilt(&self, chain: &mut Chain, order: &[usize], fences: bool) -> Result<()> {
        let mut other = Chain::new();
        let mut slots = Vec::new();
        for index in order {
            let verb = chain.verbs()[*index];
            if fences && verb.fenced {
                other.fence();
            }
            slots.push(match verb.op {
                Op::Read { len } => other.read(verb.addr, len as usize),
                Op::Write { len } => {
                    let bytes: &[u8] = bytemuck::cast_slice(&chain.data()[verb.data_word()..]);
                    let forgotten = self.flaw == Flaw::LastByteForgotten && len % 8 != 0;
                    other.write(verb.addr, &bytes[..len as usize - usize::from(forgotten)])
                }
                Op::Cas { new, .. } if self.flaw == Flaw::CasBlind => {
                    let found = self.inner.read_u64(verb.addr).await?;
                    other.cas(verb.addr, found, new)
                }
                Op::Cas { expected, new } => other.cas(verb.addr, expected, new),
                Op::Faa { add } => other.faa(verb.addr, add),
                Op::Swap { new } => other.swap(verb.addr, new),
            });
        }
        self.inner.execute(&mut other).await?;
        for (index, slot) in order.iter().zip(slots) {
            let verb = chain.verbs()[*index];
            if !matches!(verb.op, Op::Write { .. }) {
                let words = other.words(slot);
                chain.data_mut()[verb.data_word()..][..words.len()].copy_from_slice(words);
            }
        }
        Ok(())
    }
}

impl Endpoint for Flawed {
    fn node(&self) -> NodeId {
        self.inner.node()
    }

    fn client(&self) -> ClientId {
        self.inner.client()
    }

    fn capabilities(&self) -> Capabilities {
        self.inner.capabilities()
    }

    fn now(&self) -> u64 {
        let now = self.inner.now();
        if self.flaw == Flaw::ClockBackwards {
            now ^ 0x40
        } else {
            now
        }
    }

    fn random(&self) -> u64 {
        let random = self.inner.random();
        if self.flaw == Flaw::RandomAlike {
            random % 16
        } else {
            random
        }
    }

    async fn execute(&self, chain: &mut Chain) -> Result<()> {
        let mut order: Vec<_> = (0..chain.verbs().len()).collect();
        match self.flaw {
            Flaw::FencesIgnored => self.rebuilt(chain, &order, false).await,
            Flaw::ChainsBackwards => {
                order.reverse();
                self.rebuilt(chain, &order, true).await
            }
            Flaw::ChainsInParts => {
                // Verb by verb, each completed: an order that is too good. But results of the first are forgotten.
                for verb in &order[1..] {
                    self.rebuilt(chain, &[*verb], true).await?;
                }
                Ok(())
            }
            Flaw::LastByteForgotten | Flaw::CasBlind if !order.is_empty() => {
                self.rebuilt(chain, &order, true).await
            }
            Flaw::FaaInTwoSteps if order.len() == 1 => {
                let verb = chain.verbs()[0];
                let Op::Faa { add } = verb.op else {
                    return self.inner.execute(chain).await;
                };
                if !verb.addr.offset().is_multiple_of(8) {
                    return self.inner.execute(chain).await;
                }
                let found = self.inner.read_u64(verb.addr).await?;
                chain.data_mut()[verb.data_word()] = found;
                self.inner
                    .write_words(verb.addr, &[found.wrapping_add(add)])
                    .await
            }
            Flaw::ErrorsSwallowed => self.inner.execute(chain).await.or(Ok(())),
            _ => self.inner.execute(chain).await,
        }
    }

    async fn load(&self, addr: GlobalAddr, order: Ordering) -> Result<u64> {
        self.inner.load(addr, order).await
    }

    async fn store(&self, addr: GlobalAddr, value: u64, order: Ordering) -> Result<()> {
        self.inner.store(addr, value, order).await
    }

    async fn swap(&self, addr: GlobalAddr, value: u64, order: Ordering) -> Result<u64> {
        if self.flaw != Flaw::CpuSwapInTwoSteps {
            return self.inner.swap(addr, value, order).await;
        }
        let found = self.inner.load(addr, order).await?;
        self.inner.work(100).await;
        self.inner.store(addr, value, order).await?;
        Ok(found)
    }

    async fn compare_exchange(
        &self,
        addr: GlobalAddr,
        expected: u64,
        new: u64,
        order: Ordering,
    ) -> Result<std::result::Result<u64, u64>> {
        self.inner
            .compare_exchange(addr, expected, new, order)
            .await
    }

    async fn fetch_add(&self, addr: GlobalAddr, add: u64, order: Ordering) -> Result<u64> {
        if self.flaw != Flaw::CpuFetchAddInTwoSteps {
            return self.inner.fetch_add(addr, add, order).await;
        }
        let found = self.inner.load(addr, order).await?;
        self.inner.work(100).await;
        self.inner
            .store(addr, found.wrapping_add(add), order)
            .await?;
        Ok(found)
    }

    async fn load_words(&self, addr: GlobalAddr, words: &mut [u64]) -> Result<()> {
        self.inner.load_words(addr, words).await
    }

    async fn store_words(&self, addr: GlobalAddr, words: &[u64]) -> Result<()> {
        if self.flaw != Flaw::CpuCopyBackwards {
            return self.inner.store_words(addr, words).await;
        }
        for (word, value) in words.iter().enumerate().rev() {
            self.inner
                .store(addr.word(word as u64), *value, Ordering::Release)
                .await?;
            self.inner.work(30).await;
        }
        Ok(())
    }

    async fn wait_until<P: FnMut(&[u64]) -> bool>(
        &self,
        addr: GlobalAddr,
        count: usize,
        wait: WaitFor,
        mut predicate: P,
    ) -> Result<Line> {
        let mut looks = 0;
        let early = self.flaw == Flaw::WaitsEndEarly;
        let missed = self.flaw == Flaw::ChangesMissed;
        let limit = self.flaw == Flaw::LimitIgnored;
        let outcome = self
            .inner
            .wait_until(addr, count, wait, |words| {
                looks += 1;
                // Any change ends the wait, or none does.
                let holds = predicate(words);
                holds && !(missed && looks > 1) || early && looks > 1
            })
            .await;
        if limit && outcome.is_err() {
            Ok(Line::default())
        } else {
            outcome
        }
    }

    async fn work(&self, ns: u64) {
        self.inner.work(ns).await;
    }

    async fn sleep(&self, ns: u64) {
        self.inner
            .sleep(if self.flaw == Flaw::SleepShort {
                ns / 2
            } else {
                ns
            })
            .await;
    }

    fn wait_bounds(&self) -> WaitBounds {
        self.inner.wait_bounds()
    }

    fn take_chain(&self) -> Chain {
        self.inner.take_chain()
    }

    fn put_chain(&self, chain: Chain) {
        self.inner.put_chain(chain);
    }
}

struct FlawedBed {
    sim: SimBed,
    flaw: Flaw,
}

impl TestBed for FlawedBed {
    type Endpoint = Flawed;

    fn run(&self, scenario: Scenario<Flawed>) -> std::result::Result<Memory, String> {
        self.sim.run_wrapped(scenario, |inner| Flawed {
            inner,
            flaw: self.flaw,
        })
    }
}

/// The tests among those with these names that find a flaw within a few seeds.
fn found_by(flaw: Flaw, names: impl Fn(&str) -> bool) -> Vec<&'static str> {
    let fails = |test: &MustTest<FlawedBed>| {
        (0..6).any(|seed| {
            let hostile = seed % 2 == 1;
            let sim = SimBed {
                profile: "cx3-fdr",
                seed,
                jitter_ns: 2_000,
                hostile,
                swap: SwapKind::Native,
                quick: false,
            };
            (test.run)(&FlawedBed { sim, flaw }).is_err()
        })
    };
    let tests = must_tests().into_iter().filter(|test| names(test.name));
    tests.filter(fails).map(|test| test.name).collect()
}

#[test]
fn every_flaw_is_found() {
    assert_eq!(found_by(Flaw::Nothing, |_| true), Vec::<&str>::new());
    for (flaw, test) in [
        (Flaw::FencesIgnored, "READ→fenced WRITE"),
        (Flaw::FencesIgnored, "READ→fenced atomic"),
        (Flaw::FencesIgnored, "atomic→fenced WRITE"),
        (Flaw::ChainsBackwards, "WRITE→READ, own result"),
        (Flaw::ChainsBackwards, "WRITE→WRITE, seen by the host's CPU"),
        (Flaw::ChainsInParts, "each verb's result"),
        (Flaw::LastByteForgotten, "READs and WRITEs of bytes"),
        (Flaw::CasBlind, "CAS excludes"),
        (Flaw::FaaInTwoSteps, "CAS and FAA on one word"),
        (
            Flaw::CpuFetchAddInTwoSteps,
            "CPU fetch-adds, swaps and CASes are atomic",
        ),
        (
            Flaw::CpuSwapInTwoSteps,
            "CPU fetch-adds, swaps and CASes are atomic",
        ),
        (
            Flaw::CpuCopyBackwards,
            "CPU copies ascend, as other CPUs see them",
        ),
        (
            Flaw::WaitsEndEarly,
            "wait_until ends on its predicate alone",
        ),
        (Flaw::ChangesMissed, "wait_until misses no change"),
        (Flaw::LimitIgnored, "the wait limit"),
        (Flaw::ErrorsSwallowed, "verbs out of bounds"),
        (Flaw::ErrorsSwallowed, "verbs that make no sense"),
        (Flaw::ClockBackwards, "the clock"),
        (Flaw::SleepShort, "the clock"),
        (Flaw::RandomAlike, "random numbers"),
    ] {
        let found = found_by(flaw, |name| name == test);
        assert_eq!(found, [test], "{flaw:?} passes");
    }
}
