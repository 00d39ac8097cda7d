//! Bulk load and the offline check, over memory that is just words.

#![allow(clippy::unwrap_used)] // A panic is how a test fails.

use std::collections::BTreeMap;
use std::sync::Arc;

use dmtree_cluster::{ErrorKind as ClusterErrorKind, GlobalAddr, MemoryKind, MemoryMap, NodeId};
use dmtree_index::{
    Defect, Error, ErrorKind, IndexCache, LoadOptions, LoadedTree, PageLayout, PageView, Result,
    Shape, TreePlan, verify,
};

/// The host memories of a cluster.
struct Memory(BTreeMap<NodeId, Vec<u64>>);

impl Memory {
    fn new(map: &MemoryMap) -> Self {
        let words = |node| vec![0; map.bytes(node, MemoryKind::Host) as usize / 8];
        Self(
            (0..map.nodes())
                .map(NodeId)
                .map(|node| (node, words(node)))
                .collect(),
        )
    }

    fn load(&mut self, plan: &TreePlan, pairs: &[(u64, u64)]) -> Result<LoadedTree> {
        let mut sink: BTreeMap<NodeId, &mut [u64]> = self
            .0
            .iter_mut()
            .map(|(node, words)| (*node, &mut **words))
            .collect();
        plan.load(pairs.iter().copied(), &mut sink)
    }

    fn words(&mut self, addr: GlobalAddr, count: usize) -> &mut [u64] {
        &mut self.0.get_mut(&addr.node()).unwrap()[addr.offset() as usize / 8..][..count]
    }

    /// The tree's shape and its pairs, sorted within each leaf.
    fn verify(&mut self, plan: &TreePlan) -> std::result::Result<(Shape, Vec<(u64, u64)>), Defect> {
        let mut pairs = Vec::new();
        let read = |addr, words: &mut [u64]| {
            words.copy_from_slice(self.words(addr, words.len()));
            Ok(())
        };
        let shape = verify(plan.meta(), read, |key, value| pairs.push((key, value))).unwrap()?;
        Ok((shape, pairs))
    }
}

fn options(page_bytes: u32, fill: f64, chunk_bytes: u64) -> LoadOptions {
    LoadOptions {
        fill,
        page_bytes,
        chunk_bytes,
        ..LoadOptions::default()
    }
}

/// Keys that include both ends, and gaps of many sizes.
fn pairs(count: u64) -> Vec<(u64, u64)> {
    let key = |index: u64| match index {
        0 => 0,
        last if last + 1 == count => u64::MAX,
        index => index * index * 3 + 1,
    };
    (0..count).map(|index| (key(index), !index)).collect()
}

#[test]
fn trees_of_any_size_page_and_fill_hold_what_was_loaded() {
    for (page_bytes, chunk_bytes) in [
        (128, 128),
        (128, 1024),
        (192, 512),
        (1024, 4096),
        (4096, 65_536),
    ] {
        for fill in [0.01, 0.34, 0.5, 0.9, 1.0] {
            for servers in [&[NodeId(0)][..], &[NodeId(2), NodeId(0), NodeId(1)]] {
                for count in [0, 1, 2, 5, 6, 61, 62, 500, 3000] {
                    let mut map = MemoryMap::new(3);
                    let options = options(page_bytes, fill, chunk_bytes);
                    let plan = TreePlan::reserve(&mut map, servers, count, options).unwrap();
                    let mut memory = Memory::new(&map);
                    let loaded = memory.load(&plan, &pairs(count)).unwrap();
                    let case = format!("{page_bytes} {chunk_bytes} {fill} {servers:?} {count}");
                    let (shape, found) = memory.verify(&plan).expect(&case);
                    assert_eq!(found, pairs(count), "{case}");
                    assert_eq!(
                        (shape.keys, shape.height()),
                        (count, usize::from(loaded.height)),
                        "{case}"
                    );
                    assert_eq!(shape.pages[0], loaded.leaves, "{case}");
                    assert_eq!(
                        shape.pages[1..].iter().sum::<u64>(),
                        loaded.inner_pages,
                        "{case}"
                    );
                    assert_eq!(plan.bytes(), loaded.bytes(), "{case}");
                }
            }
        }
    }
}

#[test]
fn leaves_take_chunks_in_turn_and_the_counters_say_so() {
    let mut map = MemoryMap::new(3);
    let servers = [NodeId(1), NodeId(2)];
    // Five keys a leaf, four leaves a chunk.
    let options = LoadOptions {
        spare_bytes: 1500,
        ..options(128, 1.0, 512)
    };
    let plan = TreePlan::reserve(&mut map, &servers, 60, options).unwrap();
    let mut memory = Memory::new(&map);
    let loaded = memory.load(&plan, &pairs(60)).unwrap();
    let heap = plan.meta().heap().clone();
    // Twelve leaves, three pages above them, a root: four chunks of four pages.
    assert_eq!(
        (loaded.leaves, loaded.inner_pages, loaded.height),
        (12, 4, 3)
    );
    for (leaf, chunk) in [(0, (0, 0)), (4, (1, 0)), (8, (0, 1))] {
        let addr = heap.chunk(chunk.0, chunk.1).unwrap();
        let words = memory.words(addr, 16).to_vec();
        let page = PageView::parse(*plan.meta().layout(), &words).unwrap();
        assert_eq!(
            page.low(),
            if leaf == 0 { 0 } else { pairs(60)[leaf * 5].0 }
        );
    }
    for server in 0..2 {
        assert_eq!(memory.words(heap.counter(server), 1), [2]);
        // 1500 bytes spare are three chunks: two on the first server, one on the second.
        assert!(heap.chunk(server, 3 - server as u64).is_ok());
        assert!(heap.chunk(server, 4 - server as u64).is_err());
    }
}

#[test]
fn a_kilobyte_page_takes_at_most_twenty_bytes_a_key() {
    let mut map = MemoryMap::new(1);
    let options = options(1024, 0.9, 1 << 20);
    let plan = TreePlan::reserve(&mut map, &[NodeId(0)], 100_000, options).unwrap();
    let loaded = Memory::new(&map).load(&plan, &pairs(100_000)).unwrap();
    let bytes = loaded.bytes_per_key().unwrap();
    assert!((19.0..20.0).contains(&bytes), "{bytes}");
    let empty = TreePlan::reserve(&mut map, &[NodeId(0)], 0, options).unwrap();
    assert_eq!(
        Memory::new(&map).load(&empty, &[]).unwrap().bytes_per_key(),
        None
    );
}

#[test]
fn keys_out_of_order_and_too_many_are_refused() {
    let mut map = MemoryMap::new(1);
    let plan = TreePlan::reserve(&mut map, &[NodeId(0)], 3, LoadOptions::default()).unwrap();
    let load = |keys: &[u64]| {
        let pairs: Vec<_> = keys.iter().map(|key| (*key, 0)).collect();
        Memory::new(&map)
            .load(&plan, &pairs)
            .map(|loaded| loaded.keys)
    };
    assert_eq!(
        load(&[1, 2, 2]),
        Err(ErrorKind::Unsorted {
            previous: 2,
            key: 2
        }
        .into())
    );
    assert_eq!(
        load(&[0, u64::MAX, 5]),
        Err(ErrorKind::Unsorted {
            previous: u64::MAX,
            key: 5
        }
        .into())
    );
    assert_eq!(
        load(&[1, 2, 3, 4]),
        Err(ErrorKind::MoreThanPlanned { planned: 3 }.into())
    );
    assert_eq!(load(&[1, 2]), Ok(2));
}

#[test]
fn a_sink_that_is_too_small_is_told() {
    let mut map = MemoryMap::new(1);
    let plan = TreePlan::reserve(&mut map, &[NodeId(0)], 3, LoadOptions::default()).unwrap();
    let mut sink: BTreeMap<NodeId, &mut [u64]> = BTreeMap::new();
    let failure = plan.load([(1, 1)], &mut sink).unwrap_err();
    let ErrorKind::Cluster(cause) = failure.kind() else {
        panic!("{failure}")
    };
    assert!(
        matches!(cause.kind(), ClusterErrorKind::OutOfBounds { limit: 0, .. }),
        "{failure}"
    );
}

#[test]
fn options_that_cannot_be_are_named() {
    let good = LoadOptions::default();
    let servers = [NodeId(0)];
    let refused = |servers: &[NodeId], keys, options| match TreePlan::reserve(
        &mut MemoryMap::new(2),
        servers,
        keys,
        options,
    )
    .map_err(Error::into_kind)
    {
        Err(ErrorKind::Options { option, .. }) => option,
        Err(ErrorKind::TooLarge { bytes, .. }) if bytes > 1 << 46 => "too large",
        other => panic!("{other:?}"),
    };
    for fill in [0.0, -1.0, 1.01, f64::NAN, f64::INFINITY] {
        assert_eq!(refused(&servers, 1, LoadOptions { fill, ..good }), "fill");
    }
    for page_bytes in [0, 100, 1 << 20] {
        assert_eq!(
            refused(&servers, 1, LoadOptions { page_bytes, ..good }),
            "page_bytes"
        );
    }
    for chunk_bytes in [0, 512, 1025] {
        assert_eq!(
            refused(
                &servers,
                1,
                LoadOptions {
                    chunk_bytes,
                    ..good
                }
            ),
            "chunk_bytes"
        );
    }
    for servers in [&[][..], &[NodeId(2)], &[NodeId(1), NodeId(1)]] {
        assert_eq!(refused(servers, 1, good), "servers");
    }
    assert_eq!(refused(&servers, u64::MAX, good), "too large");
    assert_eq!(
        refused(
            &servers,
            1,
            LoadOptions {
                spare_bytes: u64::MAX,
                ..good
            }
        ),
        "too large"
    );
    assert_eq!(
        refused(
            &servers,
            1,
            LoadOptions {
                chunk_bytes: 1 << 63,
                ..good
            }
        ),
        "too large"
    );
}

#[test]
fn a_prefilled_cache_leads_to_the_leaf_of_every_key_and_shares_its_pages() {
    let mut map = MemoryMap::new(1);
    let plan = TreePlan::reserve(&mut map, &[NodeId(0)], 500, options(128, 0.8, 4096)).unwrap();
    let mut memory = Memory::new(&map);
    let loaded = memory.load(&plan, &pairs(500)).unwrap();
    let caches = [0, 1].map(|_| IndexCache::prefilled(loaded.index.clone()));
    assert_eq!(caches[0].len() as u64, loaded.inner_pages);
    assert_eq!(Arc::strong_count(&loaded.index), 3);
    for (key, value) in pairs(500) {
        let hit = caches[0].lookup(key, 0).unwrap();
        assert_eq!(hit.child_level, 0);
        let words = memory.words(hit.child, 16).to_vec();
        let leaf = PageView::parse(*plan.meta().layout(), &words)
            .unwrap()
            .leaf()
            .unwrap();
        assert_eq!(leaf.find(key).map(|slot| leaf.value(slot)), Some(value));
        // And from further up, as a separator's insertion will need.
        assert_eq!(caches[0].lookup(key, 1).unwrap().child_level, 1);
    }
    assert_eq!(caches[0].root(), Some((loaded.root, loaded.height - 1)));
    // A change is the changed cache's own affair.
    let hit = caches[0].lookup(7, 0).unwrap();
    let bytes = caches[0].bytes();
    assert!(caches[0].invalidate(&hit.parent) && !caches[0].invalidate(&hit.parent));
    assert!(caches[0].bytes() < bytes);
    assert_eq!(
        (caches[1].bytes(), caches[1].lookup(7, 0)),
        (bytes, Some(hit))
    );
    // One level up now; the bytes are back when the page is.
    let above = caches[0].lookup(7, 0).unwrap();
    assert_eq!(above.child_level, 1);
    let words = memory.words(above.child, 16).to_vec();
    let page = PageView::parse(*plan.meta().layout(), &words).unwrap();
    assert_eq!(caches[0].insert(above.child, &page), Some(hit.parent));
    assert_eq!(
        (caches[0].bytes(), caches[0].lookup(7, 0)),
        (bytes, Some(hit))
    );
}

/// Every kind of damage that the check looks for is found, at its page.
#[test]
fn the_check_finds_damage() {
    let mut map = MemoryMap::new(1);
    let plan = TreePlan::reserve(&mut map, &[NodeId(0)], 100, options(128, 0.8, 4096)).unwrap();
    let mut sound = Memory::new(&map);
    let loaded = sound.load(&plan, &pairs(100)).unwrap();
    assert_eq!(sound.verify(&plan).unwrap().0.keys, 100);
    let layout: PageLayout = *plan.meta().layout();
    let first_leaf = plan.meta().heap().chunk(0, 0).unwrap();
    let second_leaf = first_leaf.add(layout.page_bytes());
    // Header words as the table at `page` has them.
    let (tag, low, high, right, occupancy, slots) = (1, 2, 3, 4, 5, 6);
    let damage: &[(&str, GlobalAddr, usize, u64)] = &[
        ("tag", first_leaf, tag, 0),
        (
            "level",
            loaded.root,
            tag,
            sound.words(loaded.root, 2)[1] + 1,
        ),
        ("odd", second_leaf, 0, 7),
        ("low fence", second_leaf, low, 1),
        ("high fence", first_leaf, high, 5),
        ("right sibling", first_leaf, right, loaded.root.to_bits()),
        ("right sibling", loaded.root, right, first_leaf.to_bits()),
        ("not within its fences", second_leaf, slots, u64::MAX),
        ("twice", second_leaf, slots, pairs(100)[5].0),
        ("entries", loaded.root, occupancy, 99),
        ("first separator", loaded.root, slots, 1),
        ("ascend", loaded.root, slots + 2, 0),
        ("memory", loaded.root, slots + 1, 64),
        ("memory", loaded.root, slots + 1, u64::MAX),
        (
            "in the tree twice",
            loaded.root,
            slots + 1,
            loaded.root.to_bits(),
        ),
    ];
    for (what, page, word, value) in damage {
        let mut memory = Memory(sound.0.clone());
        memory.words(*page, 16)[*word] = *value;
        let defect = memory.verify(&plan).expect_err(what);
        assert!(defect.to_string().contains(what), "{what}: {defect}");
    }
    let mut memory = Memory(sound.0.clone());
    memory.words(plan.meta().root_word(), 1)[0] = 0;
    assert_eq!(memory.verify(&plan).unwrap_err().page, GlobalAddr::NULL);
}
