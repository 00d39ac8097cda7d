//! Frames: a chain on its way to its target, and what it brings back. Pure functions over bytes.
//!
//! All numbers are little-endian, everything is a multiple of 8 bytes long.
//!
//! | request | bytes |
//! |---|---|
//! | length of what follows the first 8 bytes | 4 |
//! | number of verbs, 1 to 511 | 2 |
//! | 0 | 2 |
//! | then for each verb: what it does (1 READ, 2 WRITE, 3 CAS, 4 FAA, 5 SWAP) | 1 |
//! | 0 | 3 |
//! | bytes of a READ or WRITE, 8 for atomics | 4 |
//! | offset, with the bit of device memory | 8 |
//! | CAS: expected, new; FAA: addend; SWAP: new; WRITE: payload, filled up with zeros to 8 | – |
//!
//! | response | bytes |
//! |---|---|
//! | length of what follows the first 8 bytes | 4 |
//! | the request's number of verbs | 2 |
//! | 0 | 2 |
//! | then for each READ what it has read, filled up with zeros to 8; for each atomic what the word was | – |
//!
//! Verbs take effect in the order in which they stand, so that fences need not be told.

use crate::region::{Regions, Sizes};
use crate::verb::MAX_VERBS;
use crate::{Chain, GlobalAddr, NodeId, Op};

/// Of a frame, before the verbs or results.
pub(super) const HEADER: usize = 8;
/// Of a verb, before its operands.
const VERB: usize = 16;
/// The longest frame that is taken, unless configured otherwise: a chain of the longest pages is far shorter.
pub(super) const DEFAULT_FRAME_LIMIT: usize = 8 << 20;

const READ: u8 = 1;
const WRITE: u8 = 2;
const CAS: u8 = 3;
const FAA: u8 = 4;
const SWAP: u8 = 5;

/// Why bytes are no frame of this protocol. Whoever sent them is cut off.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Malformed {
    /// It is longer than is taken.
    #[error("a frame of {length} bytes; at most {limit} are taken")]
    TooLong {
        /// Its length.
        length: usize,
        /// The limit.
        limit: usize,
    },
    /// It ends within a verb, or goes on behind the last.
    #[error("a frame whose length does not fit its verbs")]
    Length,
    /// It has no verbs, or too many.
    #[error("a chain of {0} verbs; there are 1 to {MAX_VERBS}")]
    Count(u16),
    /// A verb that does not exist.
    #[error("verb {0}, which does not exist")]
    Verb(u8),
    /// A reserved byte is not 0.
    #[error("a reserved byte that is not 0")]
    Reserved,
    /// A verb beyond the memory that is served.
    #[error("{0}")]
    Refused(String),
    /// A response to a chain that was not posted.
    #[error("a response of {found} bytes to a chain whose results have {expected}")]
    Response {
        /// Its length.
        found: usize,
        /// What it had to be.
        expected: usize,
    },
}

fn word(bytes: &[u8]) -> Option<u64> {
    let bytes = bytes.get(..8)?;
    Some(u64::from_le_bytes(bytes.try_into().ok()?))
}

/// How long the frame at the beginning of `bytes` is, its header included; none as long as the header is not whole.
///
/// # Errors
/// [`Malformed::TooLong`].
pub(super) fn frame_length(bytes: &[u8], limit: usize) -> Result<Option<usize>, Malformed> {
    let Some(header) = bytes.first_chunk::<HEADER>() else {
        return Ok(None);
    };
    let body = u32::from_le_bytes([header[0], header[1], header[2], header[3]]) as usize;
    let length = body.saturating_add(HEADER);
    if length > limit {
        return Err(Malformed::TooLong { length, limit });
    }
    Ok(Some(length))
}

/// Appends `chain` as a request.
pub(super) fn encode(chain: &Chain, into: &mut Vec<u8>) {
    let begin = into.len();
    into.extend_from_slice(&[0; HEADER]);
    for verb in chain.verbs() {
        let (code, len) = match verb.op {
            Op::Read { len } => (READ, len),
            Op::Write { len } => (WRITE, len),
            Op::Cas { .. } => (CAS, 8),
            Op::Faa { .. } => (FAA, 8),
            Op::Swap { .. } => (SWAP, 8),
        };
        into.extend_from_slice(&[code, 0, 0, 0]);
        into.extend_from_slice(&len.to_le_bytes());
        // The node is that of the connection.
        let place = verb.addr.to_bits() & ((1 << 48) - 1);
        into.extend_from_slice(&place.to_le_bytes());
        match verb.op {
            Op::Read { .. } => {}
            Op::Write { len } => {
                let words = &chain.data()[verb.data_word()..][..(len as usize).div_ceil(8)];
                let bytes: &[u8] = bytemuck::cast_slice(words);
                into.extend_from_slice(&bytes[..len as usize]);
                into.resize(into.len() + bytes.len() - len as usize, 0);
            }
            Op::Cas { expected, new } => {
                into.extend_from_slice(&expected.to_le_bytes());
                into.extend_from_slice(&new.to_le_bytes());
            }
            Op::Faa { add } => into.extend_from_slice(&add.to_le_bytes()),
            Op::Swap { new } => into.extend_from_slice(&new.to_le_bytes()),
        }
    }
    put_header(into, begin, chain.verbs().len() as u16);
}

fn put_header(frame: &mut [u8], begin: usize, count: u16) {
    let body = (frame.len() - begin - HEADER) as u32;
    frame[begin..begin + 4].copy_from_slice(&body.to_le_bytes());
    frame[begin + 4..begin + 6].copy_from_slice(&count.to_le_bytes());
}

/// How long a request of `chain` is, in bytes.
pub(super) fn request_length(chain: &Chain) -> usize {
    let verbs = chain.verbs().iter().map(|verb| {
        VERB + match verb.op {
            Op::Read { .. } => 0,
            Op::Write { len } => (len as usize).next_multiple_of(8),
            Op::Cas { .. } => 16,
            Op::Faa { .. } | Op::Swap { .. } => 8,
        }
    });
    HEADER + verbs.sum::<usize>()
}

/// How long the response to `chain` is, in bytes.
pub(super) fn response_length(chain: &Chain) -> usize {
    let results = chain.verbs().iter().map(|verb| result_length(verb.op));
    HEADER + results.sum::<usize>()
}

fn result_length(op: Op) -> usize {
    match op {
        Op::Read { len } => (len as usize).next_multiple_of(8),
        Op::Write { .. } => 0,
        Op::Cas { .. } | Op::Faa { .. } | Op::Swap { .. } => 8,
    }
}

/// One verb of a request.
struct Decoded<'a> {
    op: Op,
    addr: GlobalAddr,
    payload: &'a [u8],
}

/// The verbs of a request's body.
struct Verbs<'a> {
    rest: &'a [u8],
}

impl<'a> Verbs<'a> {
    fn take(&mut self, bytes: usize) -> Result<&'a [u8], Malformed> {
        let (taken, rest) = self.rest.split_at_checked(bytes).ok_or(Malformed::Length)?;
        self.rest = rest;
        Ok(taken)
    }

    fn operand(&mut self) -> Result<u64, Malformed> {
        word(self.take(8)?).ok_or(Malformed::Length)
    }

    fn next(&mut self, node: NodeId) -> Result<Decoded<'a>, Malformed> {
        let head = self.take(VERB)?;
        if head[1..4] != [0; 3] {
            return Err(Malformed::Reserved);
        }
        let len = u32::from_le_bytes([head[4], head[5], head[6], head[7]]);
        let place = word(&head[8..]).ok_or(Malformed::Length)?;
        if place >> 48 != 0 {
            return Err(Malformed::Reserved);
        }
        let mut payload: &[u8] = &[];
        let op = match head[0] {
            READ => Op::Read { len },
            WRITE => {
                let whole = (len as usize).next_multiple_of(8);
                payload = &self.take(whole)?[..len as usize];
                Op::Write { len }
            }
            code @ (CAS | FAA | SWAP) => {
                if len != 8 {
                    return Err(Malformed::Length);
                }
                let first = self.operand()?;
                match code {
                    CAS => Op::Cas {
                        expected: first,
                        new: self.operand()?,
                    },
                    FAA => Op::Faa { add: first },
                    _ => Op::Swap { new: first },
                }
            }
            code => return Err(Malformed::Verb(code)),
        };
        Ok(Decoded {
            op,
            addr: GlobalAddr::from_bits(u64::from(node.0) << 48 | place),
            payload,
        })
    }
}

/// Whether a whole frame is a request to memory of these sizes, and what its response is no longer than.
///
/// # Errors
/// [`Malformed`]; nothing of the frame may be executed then.
pub(super) fn check(
    frame: &[u8],
    node: NodeId,
    sizes: Sizes,
    limit: usize,
) -> Result<u16, Malformed> {
    let header = frame.first_chunk::<HEADER>().ok_or(Malformed::Length)?;
    let count = u16::from_le_bytes([header[4], header[5]]);
    if header[6..] != [0; 2] {
        return Err(Malformed::Reserved);
    }
    if count == 0 || usize::from(count) > MAX_VERBS {
        return Err(Malformed::Count(count));
    }
    let mut verbs = Verbs {
        rest: &frame[HEADER..],
    };
    let mut length = HEADER;
    for _ in 0..count {
        let verb = verbs.next(node)?;
        sizes
            .check_verb(verb.op, verb.addr)
            .map_err(|error| Malformed::Refused(error.to_string()))?;
        length += result_length(verb.op);
        // Many READs fit into a short request.
        if length > limit {
            return Err(Malformed::TooLong { length, limit });
        }
    }
    if verbs.rest.is_empty() {
        Ok(count)
    } else {
        Err(Malformed::Length)
    }
}

/// Executes a frame that was checked, and appends its response.
pub(super) fn execute(frame: &[u8], count: u16, regions: &Regions, into: &mut Vec<u8>) {
    let begin = into.len();
    into.extend_from_slice(&[0; HEADER]);
    let mut verbs = Verbs {
        rest: &frame[HEADER..],
    };
    let mut behind_write = false;
    for _ in 0..count {
        // It was checked.
        let Ok(verb) = verbs.next(regions.node()) else {
            break;
        };
        match verb.op {
            Op::Write { .. } => {
                regions.write(verb.addr, verb.payload);
                behind_write = true;
                continue;
            }
            _ if behind_write => {
                Regions::settle();
                behind_write = false;
            }
            _ => {}
        }
        match verb.op {
            Op::Read { len } => regions.read(verb.addr, len as usize, into),
            op => {
                let found = regions.atomic(verb.addr, op);
                into.extend_from_slice(&found.to_le_bytes());
            }
        }
    }
    if behind_write {
        // The next frame of this queue pair may begin with a READ.
        Regions::settle();
    }
    put_header(into, begin, count);
}

/// Brings the results of a whole response into `chain`, whose request it answers.
///
/// # Errors
/// [`Malformed::Response`].
pub(super) fn decode_response(frame: &[u8], chain: &mut Chain) -> Result<(), Malformed> {
    let expected = response_length(chain);
    let count = frame
        .get(4..6)
        .map(|count| u16::from_le_bytes([count[0], count[1]]));
    if frame.len() != expected || count.map(usize::from) != Some(chain.verbs().len()) {
        let found = frame.len();
        return Err(Malformed::Response { found, expected });
    }
    let mut rest = &frame[HEADER..];
    let (verbs, data) = chain.parts_mut();
    for verb in verbs {
        let (result, later) = rest.split_at(result_length(verb.op));
        rest = later;
        let words = &mut data[verb.data_word()..];
        match verb.op {
            Op::Read { .. } => {
                // Bytes stand as they do in memory, whatever they mean.
                let bytes: &mut [u8] = bytemuck::cast_slice_mut(words);
                bytes[..result.len()].copy_from_slice(result);
            }
            Op::Write { .. } => {}
            _ => words[0] = word(result).unwrap_or(0),
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests;
