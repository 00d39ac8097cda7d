use proptest::prelude::*;

use super::*;

fn client(number: u32) -> ClientId {
    ClientId(number)
}

/// The values that key `key` can have, in order.
fn values(history: &History, key: u64) -> Vec<u64> {
    let register = history.keys.get(&key);
    let writes = register
        .into_iter()
        .flat_map(|register| register.writes().map(|write| write.value));
    let mut values: Vec<u64> = writes.collect();
    values.sort_unstable();
    values
}

#[test]
fn a_write_that_began_after_another_was_acknowledged_overwrites_it() {
    let mut history = History::new();
    history.begin(client(0), 7, 1, 10);
    history.acknowledge(client(0), 20);
    assert_eq!(values(&history, 7), [1]);
    // At the same reading of the clock, and after it.
    history.begin(client(0), 7, 2, 20);
    history.begin(client(1), 7, 3, 25);
    assert_eq!(values(&history, 7), [1], "in flight they overwrite nothing");
    history.acknowledge(client(0), 30);
    assert_eq!(values(&history, 7), [2]);
    history.acknowledge(client(1), 40);
    assert_eq!(values(&history, 7), [2, 3], "they overlap");
    assert_eq!(history.open().count(), 0);
    history.begin(client(2), 7, 4, 41);
    assert_eq!(history.open().collect::<Vec<_>>(), [(7, 4)]);
    history.acknowledge(client(2), 42);
    assert_eq!(values(&history, 7), [4]);
    assert_eq!((history.len(), values(&history, 8).len()), (1, 0));
}

#[test]
fn clocks_that_differ_overwrite_only_what_they_surely_follow() {
    let write = |number: u32, begin, end| {
        let mut history = History::new();
        history.begin(client(number), 7, u64::from(number), begin);
        history.acknowledge(client(number), end);
        history
    };
    for (skew_ns, left) in [(0, vec![1]), (9, vec![1]), (10, vec![0, 1])] {
        let mut both = write(0, 10, 20);
        both.merge(write(1, 30, 40), skew_ns);
        assert_eq!(values(&both, 7), left, "{skew_ns}");
    }
}

/// A write of key 0 or 1 as its client saw it; acknowledged or not.
#[derive(Clone, Copy, Debug)]
struct Op {
    client: u32,
    key: u64,
    value: u64,
    begin: u64,
    end: Option<u64>,
}

/// Some clients, each of which writes one after the other; the last write of each may be in flight.
fn ops() -> impl Strategy<Value = Vec<Op>> {
    let write = (0..2u64, 0..6u64, 1..30u64);
    let client = (prop::collection::vec(write, 0..12), any::<bool>());
    prop::collection::vec(client, 1..6).prop_map(|clients| {
        let mut ops = Vec::new();
        for (client, (writes, in_flight)) in (0..).zip(clients) {
            let (mut now, count) = (u64::from(client), writes.len());
            for (number, (key, pause, length)) in writes.into_iter().enumerate() {
                // Of each client times leave another remainder, so that the order of events is that of times.
                let begin = now + pause * 8 + 8;
                let end = begin + length * 8;
                ops.push(Op {
                    client,
                    key,
                    value: u64::from(client) << 32 | number as u64,
                    begin,
                    end: (!in_flight || number + 1 < count).then_some(end),
                });
                now = end;
            }
        }
        ops
    })
}

/// By definition: the acknowledged writes of `key` before which no acknowledged one has to be.
fn last(ops: &[Op], key: u64) -> Vec<u64> {
    let of_key = || ops.iter().filter(|op| op.key == key && op.end.is_some());
    let overwritten = |op: &Op| of_key().any(|other| op.end.is_some_and(|end| other.begin > end));
    let mut values: Vec<u64> = of_key()
        .filter(|op| !overwritten(op))
        .map(|op| op.value)
        .collect();
    values.sort_unstable();
    values
}

/// What is told of the clients that `of` picks, in the order of times.
fn tell(ops: &[Op], of: impl Fn(u32) -> bool) -> History {
    let mut history = History::new();
    let ops = || ops.iter().filter(|op| of(op.client));
    let begins = ops().map(|op| (op.begin, true, *op));
    let ends = ops().filter_map(|op| Some((op.end?, false, *op)));
    let mut events: Vec<_> = begins.chain(ends).collect();
    // A client's next write begins after its last one's end.
    events.sort_by_key(|(at, begins, _)| (*at, *begins));
    for (at, begins, op) in events {
        if begins {
            history.begin(client(op.client), op.key, op.value, at);
        } else {
            history.acknowledge(client(op.client), at);
        }
    }
    history
}

proptest! {
    #[test]
    fn what_is_kept_is_what_can_be_last(ops in ops()) {
        let whole = tell(&ops, |_| true);
        for key in 0..2 {
            prop_assert_eq!(values(&whole, key), last(&ops, key));
            prop_assert!(values(&whole, key).len() <= 5, "one a client");
        }
        let open = ops.iter().filter(|op| op.end.is_none()).map(|op| (op.key, op.value));
        prop_assert!(whole.open().eq(open));
    }

    /// Processes that keep histories of their own, send them, and merge them in any order, know the same.
    #[test]
    fn histories_of_several_processes_make_one(ops in ops()) {
        let whole = tell(&ops, |_| true);
        let parts = [0, 1, 2].map(|part| {
            let text = serde_json::to_string(&tell(&ops, |client| client % 3 == part));
            serde_json::from_str::<History>(&text.expect("JSON")).expect("a history")
        });
        for order in [[0usize, 1, 2], [2, 0, 1], [1, 2, 0]] {
            let mut merged = History::new();
            for part in order {
                merged.merge(parts[part].clone(), 0);
            }
            for key in 0..2 {
                prop_assert_eq!(values(&merged, key), values(&whole, key));
            }
            prop_assert!(merged.open().eq(whole.open()));
        }
    }
}
