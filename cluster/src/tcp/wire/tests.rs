use proptest::prelude::*;

use super::*;
use crate::{MemoryKind, MemoryMap};

const WORDS: u64 = 32;

fn regions() -> (Regions, GlobalAddr) {
    let mut map = MemoryMap::new(1);
    let at = map.reserve(NodeId(0), MemoryKind::Host, WORDS * 8, 64);
    (Regions::zeroed(NodeId(0), &map).unwrap(), at)
}

/// The bytes of a request, executed; the response.
fn answer(frame: &[u8], regions: &Regions) -> Result<Vec<u8>, Malformed> {
    let count = check(frame, NodeId(0), regions.sizes(), DEFAULT_FRAME_LIMIT)?;
    let mut response = Vec::new();
    execute(frame, count, regions, &mut response);
    Ok(response)
}

/// A verb of a chain: what, where in bytes, and two operands.
type Step = (u8, u64, u64, u64);

fn build(chain: &mut Chain, at: GlobalAddr, steps: &[Step]) {
    for (kind, place, one, other) in steps {
        let word = at.word(place % WORDS);
        let length = (one % 40 + 1) as usize;
        let room = (WORDS * 8 - length as u64) + 1;
        let bytes = at.add(place % room);
        match kind % 5 {
            0 => _ = chain.read(bytes, length),
            1 => _ = chain.write(bytes, &[*other as u8; 40][..length]),
            2 => _ = chain.cas(word, one % 3, *other),
            3 => _ = chain.faa(word, *other),
            _ => _ = chain.swap(word, *other),
        }
    }
}

/// The same on plain bytes.
fn model(memory: &mut [u8], steps: &[Step]) -> Vec<Vec<u8>> {
    let mut results = Vec::new();
    for (kind, place, one, other) in steps {
        let word = (place % WORDS * 8) as usize;
        let length = (one % 40 + 1) as usize;
        let bytes = (place % ((WORDS * 8 - length as u64) + 1)) as usize;
        let found = u64::from_ne_bytes(memory[word..word + 8].try_into().unwrap());
        let changed = match kind % 5 {
            0 => {
                results.push(memory[bytes..bytes + length].to_vec());
                continue;
            }
            1 => {
                memory[bytes..bytes + length].fill(*other as u8);
                results.push(vec![*other as u8; length]);
                continue;
            }
            2 if found == one % 3 => *other,
            2 => found,
            3 => found.wrapping_add(*other),
            _ => *other,
        };
        memory[word..word + 8].copy_from_slice(&changed.to_ne_bytes());
        results.push(found.to_ne_bytes().to_vec());
    }
    results
}

proptest! {
    #[test]
    fn chains_do_what_they_say(
        steps in prop::collection::vec((any::<u8>(), any::<u64>(), any::<u64>(), any::<u64>()), 1..40)
    ) {
        let (regions, at) = regions();
        let mut chain = Chain::new();
        build(&mut chain, at, &steps);
        let mut request = Vec::new();
        encode(&chain, &mut request);
        prop_assert_eq!(request.len(), request_length(&chain));
        prop_assert_eq!(frame_length(&request, DEFAULT_FRAME_LIMIT), Ok(Some(request.len())));
        let response = answer(&request, &regions).unwrap();
        prop_assert_eq!(response.len(), response_length(&chain));
        decode_response(&response, &mut chain).unwrap();
        let mut memory = vec![0; WORDS as usize * 8];
        let expected = model(&mut memory, &steps);
        for (index, expected) in expected.iter().enumerate() {
            let slot = crate::Slot::of(index as u32);
            prop_assert_eq!(chain.bytes(slot), &expected[..]);
        }
        let mut found = Vec::new();
        regions.read(at, memory.len(), &mut found);
        prop_assert_eq!(found, memory);
    }

    #[test]
    fn nonsense_is_refused_and_touches_nothing(bytes in prop::collection::vec(any::<u8>(), 0..200)) {
        let (regions, at) = regions();
        if answer(&bytes, &regions).is_err() {
            let mut found = Vec::new();
            regions.read(at, WORDS as usize * 8, &mut found);
            prop_assert!(found.iter().all(|byte| *byte == 0));
        }
    }

    #[test]
    fn a_damaged_request_is_never_half_executed(
        steps in prop::collection::vec((any::<u8>(), any::<u64>(), any::<u64>(), 1u64..), 1..8),
        at_byte in any::<prop::sample::Index>(),
        value in any::<u8>(),
    ) {
        let (regions, at) = regions();
        let mut chain = Chain::new();
        build(&mut chain, at, &steps);
        let mut request = Vec::new();
        encode(&chain, &mut request);
        let index = at_byte.index(request.len());
        request[index] = value;
        // Whatever it is now, it is refused as a whole or makes sense as a whole.
        if answer(&request, &regions).is_err() {
            let mut found = Vec::new();
            regions.read(at, WORDS as usize * 8, &mut found);
            prop_assert!(found.iter().all(|byte| *byte == 0));
        }
        let _ = decode_response(&request, &mut chain);
    }
}

#[test]
fn each_fault_has_its_name() {
    let (regions, at) = regions();
    let mut chain = Chain::new();
    chain.faa(at, 1);
    let mut good = Vec::new();
    encode(&chain, &mut good);
    let with = |at: usize, value: u8| {
        let mut bad = good.clone();
        bad[at] = value;
        answer(&bad, &regions).unwrap_err()
    };
    assert_eq!(with(4, 0), Malformed::Count(0));
    assert_eq!(with(5, 2), Malformed::Count(513));
    assert_eq!(with(6, 1), Malformed::Reserved);
    assert_eq!(with(8, 9), Malformed::Verb(9));
    assert_eq!(with(9, 1), Malformed::Reserved);
    assert_eq!(with(12, 16), Malformed::Length);
    assert_eq!(with(4, 2), Malformed::Length, "a second verb is not there");
    assert_eq!(with(23, 1), Malformed::Reserved, "a node in an offset");
    let misaligned = with(16, 65);
    assert!(matches!(misaligned, Malformed::Refused(why) if why.contains("not aligned")));
    let outside = with(18, 1);
    assert!(matches!(outside, Malformed::Refused(why) if why.contains("outside")));
    let longer = [&good[..], &[0; 8]].concat();
    assert_eq!(answer(&longer, &regions).unwrap_err(), Malformed::Length);
    assert_eq!(
        answer(&good[..20], &regions).unwrap_err(),
        Malformed::Length
    );
    let huge = [0xff; 8];
    assert!(matches!(
        frame_length(&huge, 1 << 20),
        Err(Malformed::TooLong { .. })
    ));
    assert_eq!(frame_length(&huge[..7], 1 << 20), Ok(None));
    let mut found = Vec::new();
    regions.read(at, 8, &mut found);
    assert_eq!(found, [0; 8]);
    answer(&good, &regions).unwrap();
}

#[test]
fn short_requests_for_long_answers_are_refused() {
    let mut map = MemoryMap::new(1);
    let at = map.reserve(NodeId(0), MemoryKind::Host, 1 << 16, 64);
    let regions = Regions::zeroed(NodeId(0), &map).unwrap();
    let mut chain = Chain::new();
    for _ in 0..200 {
        chain.read(at, 1 << 16);
    }
    let mut request = Vec::new();
    encode(&chain, &mut request);
    let refused = answer(&request, &regions).unwrap_err();
    assert!(matches!(refused, Malformed::TooLong { .. }), "{refused}");
}
