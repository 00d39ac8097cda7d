//! What a simulation tells its trace.

use std::cell::RefCell;
use std::rc::Rc;

use dmtree_cluster::sim::{Profile, Sim, SimConfig, SimStats};
use dmtree_cluster::{
    Chain, ClientId, Endpoint, GlobalAddr, Mark, MemoryKind, MemoryMap, NodeId, TraceSink,
};

#[derive(Clone, Debug, PartialEq)]
enum Told {
    /// Client, posted, completed, and of each verb its name and the first word of its result.
    Chain(u32, u64, u64, Vec<(&'static str, u64)>),
    /// Client, when, what.
    Mark(u32, u64, Mark),
}

#[derive(Debug)]
struct Record(Rc<RefCell<Vec<Told>>>);

impl TraceSink for Record {
    fn chain(&mut self, client: ClientId, posted_ps: u64, completed_ps: u64, chain: &Chain) {
        let verbs = chain.verbs().iter();
        let verbs = verbs.map(|verb| (verb.op.name(), chain.data()[verb.data_word()]));
        let told = Told::Chain(client.0, posted_ps, completed_ps, verbs.collect());
        self.0.borrow_mut().push(told);
    }

    fn mark(&mut self, client: ClientId, at_ps: u64, mark: Mark) {
        self.0.borrow_mut().push(Told::Mark(client.0, at_ps, mark));
    }
}

/// Two clients, a word that both CAS, and a mark after each; the second one also loses a future.
fn run(traced: bool) -> (Vec<Told>, SimStats, u64) {
    let mut map = MemoryMap::new(2);
    let word = map.reserve(NodeId(0), MemoryKind::Host, 64, 64);
    let config = SimConfig::new(Profile::by_name("cx3-fdr").expect("known"));
    let mut sim = Sim::new(&config, &map).expect("memory");
    let told = Rc::new(RefCell::new(Vec::new()));
    if traced {
        sim.trace(Box::new(Record(Rc::clone(&told))));
    }
    for node in [0, 1] {
        let ep = sim.endpoint(NodeId(node), 0);
        sim.spawn(&ep.clone(), async move {
            let mut chain = Chain::new();
            chain.write_words(word.word(1 + u64::from(node)), &[7]);
            let cas = chain.cas(word, 0, 1 + u64::from(node));
            ep.execute(&mut chain).await.expect("executed");
            if chain.value(cas) == 0 {
                ep.mark(Mark::Granted { lock: word });
            }
            if node == 1 {
                let mut lost = Box::pin(ep.rdma_faa(word.word(5), 1));
                let mut context = std::task::Context::from_waker(std::task::Waker::noop());
                assert!(lost.as_mut().poll(&mut context).is_pending());
                drop(lost);
                ep.sleep(100_000).await;
            }
        });
    }
    sim.run().expect("runs to its end");
    let told = told.borrow().clone();
    (told, sim.stats(), sim.now_ns())
}

#[test]
fn chains_are_told_with_their_results_and_marks_in_order() {
    let (told, stats, _) = run(true);
    let chains: Vec<_> = told
        .iter()
        .filter_map(|told| match told {
            Told::Chain(client, posted, completed, verbs) => {
                Some((*client, *posted, *completed, verbs.clone()))
            }
            Told::Mark(..) => None,
        })
        .collect();
    let verbs: usize = chains.iter().map(|(_, _, _, verbs)| verbs.len()).sum();
    assert_eq!(verbs as u64, stats.verbs, "the lost one among them");
    // One of them found the word free, and marked that at the instant of its completion.
    let winners: Vec<_> = chains
        .iter()
        .filter(|(_, _, _, verbs)| verbs.len() == 2 && verbs[1] == ("CAS", 0))
        .collect();
    assert_eq!(winners.len(), 1, "{chains:?}");
    let (client, posted, completed, verbs) = winners[0];
    assert_eq!(verbs[0], ("WRITE", 7));
    assert!(completed - posted > 1_000_000, "more than a microsecond");
    let lock = GlobalAddr::new(NodeId(0), 64);
    assert!(told.contains(&Told::Mark(*client, *completed, Mark::Granted { lock })));
    let loser = chains
        .iter()
        .find(|(other, _, _, verbs)| other != client && verbs.len() == 2)
        .expect("the other client's chain");
    assert_eq!(loser.3[1], ("CAS", 1 + u64::from(*client)));
}

#[test]
fn a_trace_changes_nothing() {
    let (told, stats, now) = run(true);
    assert_eq!(run(true), (told, stats, now));
    assert_eq!(run(false), (Vec::new(), stats, now));
}

#[test]
#[should_panic(expected = "a trace is there before clients")]
fn a_trace_that_would_miss_clients_is_refused() {
    let mut map = MemoryMap::new(1);
    map.reserve(NodeId(0), MemoryKind::Host, 64, 64);
    let config = SimConfig::new(Profile::by_name("cx3-fdr").expect("known"));
    let mut sim = Sim::new(&config, &map).expect("memory");
    sim.endpoint(NodeId(0), 0);
    sim.trace(Box::new(Record(Rc::default())));
}
