//! What a peer can send, as functions of bytes: for the fuzz targets in `cluster/fuzz`, and for the test that goes through
//! what they have found. Each one ends with an error or without, and never otherwise.

use super::handshake::{Answerer, Caller, Cluster, GREETING, Hello, message};
use super::key::Key;
use super::server::serve_frames;
use super::wire::{check, decode_response, frame_length, response_length};
use crate::region::{Regions, Sizes};
use crate::{Chain, GlobalAddr, MemoryKind, MemoryMap, NodeId};

const NODE: NodeId = NodeId(1);
const HOST_BYTES: u64 = 4096;
const DEVICE_BYTES: u64 = 512;
/// Frames here are short: so a long one is soon made.
const LIMIT: usize = 1 << 16;

fn regions() -> Option<Regions> {
    let mut map = MemoryMap::new(2);
    map.reserve(NODE, MemoryKind::Host, HOST_BYTES, 64);
    map.reserve(NODE, MemoryKind::Device, DEVICE_BYTES, 64);
    Regions::zeroed(NODE, &map).ok()
}

/// A client that was let in sends `bytes`.
///
/// # Panics
/// When a response is no frame, or memory was touched though the first frame is not one.
pub fn requests(bytes: &[u8]) {
    let Some(regions) = regions() else { return };
    let mut output = Vec::new();
    let served = serve_frames(bytes, &regions, LIMIT, &mut output);
    let mut rest = output.as_slice();
    while !rest.is_empty() {
        let length = frame_length(rest, LIMIT);
        let Ok(Some(length)) = length else {
            panic!("a response that is no frame: {length:?}");
        };
        rest = &rest[length..];
    }
    let first = frame_length(bytes, LIMIT).ok().flatten();
    let first = first.and_then(|length| bytes.get(..length));
    let is_good = first.is_some_and(|frame| check(frame, NODE, regions.sizes(), LIMIT).is_ok());
    if !is_good {
        assert!(output.is_empty(), "an answer to no frame: {served:?}");
        let mut touched = Vec::new();
        regions.read(
            GlobalAddr::new(NODE, 0),
            regions.sizes().host as usize,
            &mut touched,
        );
        assert!(touched.iter().all(|byte| *byte == 0), "memory was touched");
    }
}

/// A server answers a chain, which the first bytes make, with the others.
///
/// # Panics
/// When an answer of another length than the chain's is taken.
pub fn responses(bytes: &[u8]) {
    let Some((count, bytes)) = bytes.split_first() else {
        return;
    };
    let count = usize::from(count % 8) + 1;
    let Some((verbs, frame)) = bytes.split_at_checked(count * 2) else {
        return;
    };
    let mut chain = Chain::new();
    for verb in verbs.chunks(2) {
        let addr = GlobalAddr::new(NODE, u64::from(verb[1]) * 8);
        match verb[0] % 5 {
            0 => chain.read(addr, usize::from(verb[1])),
            1 => chain.write(addr, &[7; 40][..usize::from(verb[1] % 40)]),
            2 => chain.cas(addr, 1, 2),
            3 => chain.faa(addr, 3),
            _ => chain.swap(addr, 4),
        };
    }
    let expected = response_length(&chain);
    if decode_response(frame, &mut chain).is_ok() {
        assert_eq!(frame.len(), expected);
    }
}

/// Somebody connects and sends `bytes`: at once, or behind a first message that is as it should be; and somebody answers a
/// client with them.
pub fn handshakes(bytes: &[u8]) {
    let key = Key::of_bytes([7; 32]);
    let cluster = Cluster::new("fuzz", 1);
    let sizes = Sizes {
        host: HOST_BYTES,
        device: DEVICE_BYTES,
    };
    let hello = Hello::of(NODE, NODE, &cluster, sizes);
    let rest = bytes.strip_prefix(&GREETING[..]).unwrap_or(bytes);
    let Ok(Some(body)) = message(rest) else {
        return;
    };
    let answerer = || Answerer::new(&key, hello.clone(), &[0; 32]);
    if let Ok(answerer) = answerer()
        && let Ok((_, answered)) = answerer.answer(body)
    {
        drop(answered.finish(body));
    }
    let Ok((caller, first)) = Caller::new(&key, hello.clone(), &[0; 32]) else {
        return;
    };
    let first = message(&first[GREETING.len()..]).ok().flatten();
    if let (Some(first), Ok(answerer)) = (first, answerer())
        && let Ok((_, answered)) = answerer.answer(first)
    {
        assert!(answered.finish(body).is_err(), "a stranger is let in");
    }
    assert!(
        caller.answer(body).is_err(),
        "a stranger is taken for a server"
    );
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    /// What the fuzzers have found to be different, once more.
    #[test]
    fn nothing_that_was_found_breaks_anything() {
        type Target = fn(&[u8]);
        let targets: [(&str, Target); 3] = [
            ("requests", super::requests),
            ("responses", super::responses),
            ("handshakes", super::handshakes),
        ];
        for (name, target) in targets {
            let corpus = Path::new(env!("CARGO_MANIFEST_DIR"))
                .join("fuzz/corpus")
                .join(name);
            let mut files = 0;
            for file in std::fs::read_dir(&corpus).unwrap() {
                target(&std::fs::read(file.unwrap().path()).unwrap());
                files += 1;
            }
            assert!(files >= 10, "{}: {files} files", corpus.display());
        }
    }
}
