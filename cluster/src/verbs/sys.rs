//! The verbs library, behind safe types: a device with its protection domain, registered memory, a completion queue and
//! reliable connections. Nothing else calls it.
//!
//! # Invariants
//! 1. A pointer of the library is not null and is given back once, when what owns it is dropped.
//! 2. What was made of something else keeps that alive (`Arc`, `Rc`): a device outlives its memory, queues and connections.
//! 3. Registered memory stays where it is for as long as it is registered.
//! 4. Bytes that a posted work request names stay registered until its completion has been taken, or its connection is
//!    gone.

use std::ffi::CStr;
use std::io;
use std::mem::zeroed;
use std::ptr::{self, NonNull};
use std::rc::Rc;
use std::sync::Arc;

use rdma_sys as ibv;
use serde::{Deserialize, Serialize};

/// An anonymous enumeration of <infiniband/verbs.h>, which the bindings leave out.
const LINK_LAYER_ETHERNET: u32 = 2;

/// Which device, port and GID; what is not said is found.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case", default)]
pub struct DeviceChoice {
    /// As `ibv_devices` names it; the first whose port is up where nothing is said.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub device: Option<String>,
    /// From 1 on; 1 where nothing is said.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub port: Option<u8>,
    /// Of the port's table; on Ethernet the first that is RoCE v2 over IPv4 where nothing is said.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub gid_index: Option<u8>,
}

/// Why there is no device.
#[derive(Debug, thiserror::Error)]
pub enum DeviceError {
    /// None at all.
    #[error(
        "this machine has no RDMA device; for one in software: rdma link add rxe0 type rxe netdev NAME (docs/rdma.md)"
    )]
    None,
    /// None of that name.
    #[error("no RDMA device is called {wanted:?}; there are {there}")]
    Unknown {
        /// What was asked for.
        wanted: String,
        /// All names.
        there: String,
    },
    /// It cannot be opened.
    #[error(
        "{device} cannot be opened: {error}; may this user read and write /dev/infiniband/uverbs*?"
    )]
    Closed {
        /// The device.
        device: String,
        /// Why.
        error: io::Error,
    },
    /// A port that it has not, or that is down.
    #[error("port {port} of {device} {why}")]
    Port {
        /// The device.
        device: String,
        /// The port.
        port: u8,
        /// What is wrong.
        why: String,
    },
    /// A GID that it has not.
    #[error("port {port} of {device} has no GID {index}: {why}")]
    Gid {
        /// The device.
        device: String,
        /// The port.
        port: u8,
        /// Where it was looked for.
        index: String,
        /// What is wrong.
        why: String,
    },
    /// It cannot do what locks need.
    #[error("{device} has no atomics")]
    NoAtomics {
        /// The device.
        device: String,
    },
    /// Something of the library failed.
    #[error("{what}: {error}")]
    Call {
        /// Which.
        what: &'static str,
        /// Why.
        error: io::Error,
    },
}

fn failed(what: &'static str) -> DeviceError {
    DeviceError::Call {
        what,
        error: io::Error::last_os_error(),
    }
}

/// A result of the library that is an error number.
fn check(what: &'static str, result: i32) -> Result<(), DeviceError> {
    match result {
        0 => Ok(()),
        errno => Err(DeviceError::Call {
            what,
            error: io::Error::from_raw_os_error(errno.abs()),
        }),
    }
}

/// What a device is like.
#[derive(Clone, Debug)]
pub struct DeviceInfo {
    /// Its name.
    pub name: String,
    /// Ethernet (RoCE) or InfiniBand.
    pub is_ethernet: bool,
    /// Whether RNIC atomics are atomic at all.
    pub has_atomics: bool,
    /// Whether the port is up.
    pub is_up: bool,
    /// The port's MTU in bytes.
    pub mtu: u32,
    /// READs and atomics that a connection may have on their way.
    pub rd_atomic: u8,
    /// The GIDs, with what kind each is.
    pub gids: Vec<(u8, String, String)>,
}

/// An open device and its protection domain.
#[derive(Debug)]
pub struct Device {
    context: NonNull<ibv::ibv_context>,
    domain: NonNull<ibv::ibv_pd>,
    name: String,
    port: u8,
    gid_index: u8,
    gid: [u8; 16],
    lid: u16,
    is_ethernet: bool,
    mtu: u32,
    rd_atomic: u8,
}

// SAFETY: the library's objects may be used by any thread, and by several at once (ibv_reg_mr(3), ibv_create_qp(3): all of
// its functions are thread safe).
unsafe impl Send for Device {}
// SAFETY: as above.
unsafe impl Sync for Device {}

/// The devices' list, given back when it is dropped.
struct List {
    first: *mut *mut ibv::ibv_device,
    count: usize,
}

impl List {
    fn get() -> Self {
        let mut count = 0;
        // SAFETY: it writes how many there are; a null list has none.
        let first = unsafe { ibv::ibv_get_device_list(&raw mut count) };
        Self {
            first,
            count: if first.is_null() { 0 } else { count as usize },
        }
    }

    fn devices(&self) -> impl Iterator<Item = (*mut ibv::ibv_device, String)> + '_ {
        (0..self.count).map(|at| {
            // SAFETY: the list has `count` entries, each of which is a device for as long as the list is kept; a name is a
            // C string.
            unsafe {
                let device = *self.first.add(at);
                let name = CStr::from_ptr(ibv::ibv_get_device_name(device));
                (device, name.to_string_lossy().into_owned())
            }
        })
    }
}

impl Drop for List {
    fn drop(&mut self) {
        if !self.first.is_null() {
            // SAFETY: invariant 1.
            unsafe { ibv::ibv_free_device_list(self.first) };
        }
    }
}

/// What the kernel says of a GID: `RoCE v2`, `IB/RoCE v1`.
fn gid_type(device: &str, port: u8, index: u8) -> Option<String> {
    let path = format!("/sys/class/infiniband/{device}/ports/{port}/gid_attrs/types/{index}");
    std::fs::read_to_string(path)
        .ok()
        .map(|text| text.trim().to_owned())
}

fn is_ipv4(gid: &[u8; 16]) -> bool {
    gid[..10] == [0; 10] && gid[10..12] == [0xff; 2]
}

fn gid_text(gid: &[u8; 16]) -> String {
    std::net::Ipv6Addr::from(*gid).to_string()
}

fn mtu_bytes(mtu: u32) -> u32 {
    // 1 is 256 bytes, each next one twice as many.
    128 << mtu
}

fn query(
    context: NonNull<ibv::ibv_context>,
    device: &str,
    port: u8,
) -> Result<(ibv::ibv_port_attr, ibv::ibv_device_attr), DeviceError> {
    // SAFETY: both are structures of numbers, for which zeros are valid, and the library fills them.
    unsafe {
        let mut attributes: ibv::ibv_device_attr = zeroed();
        check(
            "the device cannot be asked what it can",
            ibv::ibv_query_device(context.as_ptr(), &raw mut attributes),
        )?;
        let mut port_attributes: ibv::ibv_port_attr = zeroed();
        let asked = ibv::___ibv_query_port(context.as_ptr(), port, &raw mut port_attributes);
        if asked != 0 {
            return Err(DeviceError::Port {
                device: device.to_owned(),
                port,
                why: format!("is not there: it has {}", attributes.phys_port_cnt),
            });
        }
        Ok((port_attributes, attributes))
    }
}

fn gid_at(context: NonNull<ibv::ibv_context>, port: u8, index: u8) -> Option<[u8; 16]> {
    // SAFETY: a GID is 16 bytes of any value; the library fills it when it answers 0.
    unsafe {
        let mut gid: ibv::ibv_gid = zeroed();
        let asked = ibv::ibv_query_gid(context.as_ptr(), port, i32::from(index), &raw mut gid);
        (asked == 0 && gid.raw != [0; 16]).then_some(gid.raw)
    }
}

/// The context of a device, closed when it is dropped.
struct Opened(NonNull<ibv::ibv_context>);

impl Drop for Opened {
    fn drop(&mut self) {
        // SAFETY: invariant 1.
        unsafe { ibv::ibv_close_device(self.0.as_ptr()) };
    }
}

fn open(device: *mut ibv::ibv_device, name: &str) -> Result<Opened, DeviceError> {
    // SAFETY: the device is of a list that the caller keeps.
    let context = unsafe { ibv::ibv_open_device(device) };
    NonNull::new(context)
        .map(Opened)
        .ok_or_else(|| DeviceError::Closed {
            device: name.to_owned(),
            error: io::Error::last_os_error(),
        })
}

fn is_up(port: &ibv::ibv_port_attr) -> bool {
    port.state == ibv::ibv_port_state::IBV_PORT_ACTIVE
}

/// All devices of this machine, by their first port.
///
/// # Errors
/// One that cannot be opened or asked.
pub fn devices() -> Result<Vec<DeviceInfo>, DeviceError> {
    let list = List::get();
    let mut found = Vec::new();
    for (device, name) in list.devices() {
        let opened = open(device, &name)?;
        let (port, attributes) = query(opened.0, &name, 1)?;
        let gids = (0..port.gid_tbl_len.clamp(0, 255) as u8).filter_map(|index| {
            let gid = gid_at(opened.0, 1, index)?;
            Some((
                index,
                gid_text(&gid),
                gid_type(&name, 1, index).unwrap_or_default(),
            ))
        });
        found.push(DeviceInfo {
            is_ethernet: u32::from(port.link_layer) == LINK_LAYER_ETHERNET,
            has_atomics: attributes.atomic_cap != ibv::ibv_atomic_cap::IBV_ATOMIC_NONE,
            is_up: is_up(&port),
            mtu: mtu_bytes(port.active_mtu),
            rd_atomic: attributes.max_qp_rd_atom.clamp(1, 16) as u8,
            gids: gids.collect(),
            name,
        });
    }
    Ok(found)
}

impl Device {
    /// Opens the device of `choice`.
    ///
    /// # Errors
    /// What is wrong, and what would be right.
    pub fn open(choice: &DeviceChoice) -> Result<Self, DeviceError> {
        let list = List::get();
        let port = choice.port.unwrap_or(1);
        let names: Vec<String> = list.devices().map(|(_, name)| name).collect();
        if names.is_empty() {
            return Err(DeviceError::None);
        }
        if let Some(wanted) = &choice.device
            && !names.contains(wanted)
        {
            return Err(DeviceError::Unknown {
                wanted: wanted.clone(),
                there: names.join(", "),
            });
        }
        let mut down = None;
        for (device, name) in list.devices() {
            if choice.device.as_ref().is_some_and(|wanted| *wanted != name) {
                continue;
            }
            let opened = open(device, &name)?;
            let (attributes, abilities) = query(opened.0, &name, port)?;
            if !is_up(&attributes) {
                down.get_or_insert(DeviceError::Port {
                    device: name,
                    port,
                    why: "is down: ip link set NAME up, or look at its cable and switch".to_owned(),
                });
                continue;
            }
            if abilities.atomic_cap == ibv::ibv_atomic_cap::IBV_ATOMIC_NONE {
                return Err(DeviceError::NoAtomics { device: name });
            }
            return Self::with(opened, name, port, choice.gid_index, attributes, abilities);
        }
        Err(down.unwrap_or(DeviceError::None))
    }

    fn with(
        opened: Opened,
        name: String,
        port: u8,
        gid_index: Option<u8>,
        attributes: ibv::ibv_port_attr,
        abilities: ibv::ibv_device_attr,
    ) -> Result<Self, DeviceError> {
        let context = opened.0;
        let is_ethernet = u32::from(attributes.link_layer) == LINK_LAYER_ETHERNET;
        let gid_of = |index| gid_at(context, port, index);
        let refused = |index: String, why: &str| DeviceError::Gid {
            device: name.clone(),
            port,
            index,
            why: why.to_owned(),
        };
        let (gid_index, gid) = match gid_index {
            Some(index) => {
                let gid = gid_of(index).ok_or_else(|| {
                    refused(
                        index.to_string(),
                        "dmtree doctor lists those that there are",
                    )
                })?;
                (index, gid)
            }
            None if is_ethernet => (0..attributes.gid_tbl_len.clamp(0, 255) as u8)
                .filter_map(|index| Some((index, gid_of(index)?)))
                .find(|(index, gid)| {
                    is_ipv4(gid)
                        && gid_type(&name, port, *index).is_none_or(|kind| kind.ends_with("v2"))
                })
                .ok_or_else(|| {
                    refused(
                        "of RoCE v2 over IPv4".to_owned(),
                        "give its interface an address, or say --gid-index",
                    )
                })?,
            // By LID.
            None => (0, gid_of(0).unwrap_or_default()),
        };
        // SAFETY: an open context.
        let domain = unsafe { ibv::ibv_alloc_pd(context.as_ptr()) };
        let domain = NonNull::new(domain).ok_or_else(|| failed("no protection domain"))?;
        // It is closed by `Device` from here on.
        std::mem::forget(opened);
        Ok(Self {
            context,
            domain,
            port,
            gid_index,
            gid,
            lid: attributes.lid,
            is_ethernet,
            mtu: attributes.active_mtu,
            rd_atomic: abilities.max_qp_rd_atom.clamp(1, 16) as u8,
            name,
        })
    }

    /// As `ibv_devices` names it.
    pub fn name(&self) -> &str {
        &self.name
    }
}

impl Drop for Device {
    fn drop(&mut self) {
        // SAFETY: invariants 1 and 2: nothing of it is left.
        unsafe {
            ibv::ibv_dealloc_pd(self.domain.as_ptr());
            ibv::ibv_close_device(self.context.as_ptr());
        }
    }
}

/// Memory that a device may access.
#[derive(Debug)]
pub(super) struct Registered {
    region: NonNull<ibv::ibv_mr>,
    start: u64,
    bytes: u64,
    _device: Arc<Device>,
}

// SAFETY: as for `Device`.
unsafe impl Send for Registered {}
// SAFETY: as for `Device`.
unsafe impl Sync for Registered {}

impl Registered {
    /// Registers `bytes` at `start`, for the device and, if `is_remote`, for all who are connected to it.
    ///
    /// # Safety
    /// The bytes are the caller's to give away, may be written at any time by the device, and stay where they are until this
    /// is dropped (invariant 3).
    pub(super) unsafe fn new(
        device: &Arc<Device>,
        start: *mut u8,
        bytes: usize,
        is_remote: bool,
    ) -> Result<Self, DeviceError> {
        let mut access = ibv::ibv_access_flags::IBV_ACCESS_LOCAL_WRITE;
        if is_remote {
            // Not relaxed ordering: WRITEs of a connection become visible in order.
            access = access
                | ibv::ibv_access_flags::IBV_ACCESS_REMOTE_READ
                | ibv::ibv_access_flags::IBV_ACCESS_REMOTE_WRITE
                | ibv::ibv_access_flags::IBV_ACCESS_REMOTE_ATOMIC;
        }
        // SAFETY: by this function's contract.
        let region = unsafe {
            ibv::ibv_reg_mr(device.domain.as_ptr(), start.cast(), bytes, access.0 as i32)
        };
        let region = NonNull::new(region).ok_or_else(|| DeviceError::Call {
            what: "memory cannot be registered (is the limit of locked memory too small? ulimit -l unlimited)",
            error: io::Error::last_os_error(),
        })?;
        Ok(Self {
            region,
            start: start as u64,
            bytes: bytes as u64,
            _device: Arc::clone(device),
        })
    }

    /// As others reach it.
    pub(super) fn served(&self) -> Served {
        Served {
            // SAFETY: invariant 1.
            remote_key: unsafe { self.region.as_ref().rkey },
            start: self.start,
            bytes: self.bytes,
        }
    }

    fn local_key(&self) -> u32 {
        // SAFETY: invariant 1.
        unsafe { self.region.as_ref().lkey }
    }
}

impl Drop for Registered {
    fn drop(&mut self) {
        // SAFETY: invariant 1.
        unsafe { ibv::ibv_dereg_mr(self.region.as_ptr()) };
    }
}

/// Where completions of a thread's connections come.
#[derive(Debug)]
pub(super) struct CompletionQueue {
    queue: NonNull<ibv::ibv_cq>,
    device: Arc<Device>,
}

// SAFETY: as for `Device`.
unsafe impl Send for CompletionQueue {}

/// A completion.
#[derive(Clone, Copy, Debug)]
pub(super) struct Completion {
    pub(super) id: u64,
    pub(super) connection: u32,
    /// None when it was done.
    pub(super) failure: Option<&'static str>,
}

impl CompletionQueue {
    pub(super) fn new(device: &Arc<Device>, entries: u32) -> Result<Self, DeviceError> {
        // SAFETY: an open context; no channel, no vector of its own.
        let queue = unsafe {
            ibv::ibv_create_cq(
                device.context.as_ptr(),
                entries as i32,
                ptr::null_mut(),
                ptr::null_mut(),
                0,
            )
        };
        let queue = NonNull::new(queue).ok_or_else(|| failed("no completion queue"))?;
        Ok(Self {
            queue,
            device: Arc::clone(device),
        })
    }

    /// Takes what has come, no more than 16 at once.
    pub(super) fn poll(&self, into: &mut Vec<Completion>) {
        // SAFETY: completions are structures of numbers, for which zeros are valid; the library fills as many as it says.
        let (found, count) = unsafe {
            let mut found: [ibv::ibv_wc; 16] = zeroed();
            let count = ibv::ibv_poll_cq(self.queue.as_ptr(), 16, found.as_mut_ptr());
            (found, count)
        };
        for done in found.iter().take(count.max(0) as usize) {
            let failure = (done.status != ibv::ibv_wc_status::IBV_WC_SUCCESS).then(|| {
                // SAFETY: it answers a C string that lives for ever, for any status.
                let text = unsafe { CStr::from_ptr(ibv::ibv_wc_status_str(done.status)) };
                text.to_str().unwrap_or("a status without a name")
            });
            into.push(Completion {
                id: done.wr_id,
                connection: done.qp_num,
                failure,
            });
        }
    }
}

impl Drop for CompletionQueue {
    fn drop(&mut self) {
        // SAFETY: invariants 1 and 2.
        unsafe { ibv::ibv_destroy_cq(self.queue.as_ptr()) };
    }
}

/// What the other end of a connection has to know.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Contact {
    pub(super) number: u32,
    pub(super) sequence: u32,
    pub(super) lid: u16,
    pub(super) gid: [u8; 16],
    pub(super) mtu: u32,
    /// Of the memories that are served, host and device, if any are.
    pub(super) memories: [Served; 2],
}

/// A memory that is served.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Served {
    pub(super) remote_key: u32,
    pub(super) start: u64,
    pub(super) bytes: u64,
}

/// One work request.
#[derive(Clone, Copy, Debug)]
pub(super) struct Work {
    pub(super) op: WorkOp,
    /// Where its bytes are in the buffer, and how many.
    pub(super) offset: usize,
    pub(super) bytes: u32,
    pub(super) remote: u64,
    pub(super) remote_key: u32,
    pub(super) is_fenced: bool,
    pub(super) id: u64,
}

#[derive(Clone, Copy, Debug)]
pub(super) enum WorkOp {
    Read,
    Write,
    Cas { expected: u64, new: u64 },
    Faa { add: u64 },
}

/// A reliable connection.
#[derive(Debug)]
pub(super) struct Connection {
    pair: NonNull<ibv::ibv_qp>,
    queue: Rc<CompletionQueue>,
    sequence: u32,
    inline_bytes: u32,
}

// SAFETY: as for `Device`; its completion queue is shared within one thread, or with nobody.
unsafe impl Send for Connection {}

/// WRITEs of no more bytes travel within their work request.
const INLINE_BYTES: u32 = 64;

impl Connection {
    /// Not connected yet. `depth` work requests may be on their way.
    pub(super) fn new(
        queue: &Rc<CompletionQueue>,
        depth: u32,
        sequence: u32,
    ) -> Result<Self, DeviceError> {
        let device = &queue.device;
        let (pair, inline_bytes) = [INLINE_BYTES, 0]
            .into_iter()
            .find_map(|inline_bytes| {
                // SAFETY: a structure of numbers and pointers, for which zeros are valid; the queue is open.
                unsafe {
                    let mut wanted: ibv::ibv_qp_init_attr = zeroed();
                    wanted.send_cq = queue.queue.as_ptr();
                    wanted.recv_cq = queue.queue.as_ptr();
                    wanted.qp_type = ibv::ibv_qp_type::IBV_QPT_RC;
                    wanted.cap.max_send_wr = depth;
                    wanted.cap.max_recv_wr = 1;
                    wanted.cap.max_send_sge = 1;
                    wanted.cap.max_recv_sge = 1;
                    wanted.cap.max_inline_data = inline_bytes;
                    let pair = ibv::ibv_create_qp(device.domain.as_ptr(), &raw mut wanted);
                    NonNull::new(pair).map(|pair| (pair, inline_bytes))
                }
            })
            .ok_or_else(|| failed("no queue pair"))?;
        let connection = Self {
            pair,
            queue: Rc::clone(queue),
            sequence,
            inline_bytes,
        };
        connection.change(ibv::ibv_qp_state::IBV_QPS_INIT, |attributes| {
            attributes.port_num = device.port;
            attributes.qp_access_flags = (ibv::ibv_access_flags::IBV_ACCESS_REMOTE_READ
                | ibv::ibv_access_flags::IBV_ACCESS_REMOTE_WRITE
                | ibv::ibv_access_flags::IBV_ACCESS_REMOTE_ATOMIC)
                .0;
            ibv::ibv_qp_attr_mask::IBV_QP_PKEY_INDEX
                | ibv::ibv_qp_attr_mask::IBV_QP_PORT
                | ibv::ibv_qp_attr_mask::IBV_QP_ACCESS_FLAGS
        })?;
        Ok(connection)
    }

    fn change(
        &self,
        state: ibv::ibv_qp_state::Type,
        fill: impl FnOnce(&mut ibv::ibv_qp_attr) -> ibv::ibv_qp_attr_mask,
    ) -> Result<(), DeviceError> {
        // SAFETY: a structure of numbers, for which zeros are valid; the library reads those of the mask.
        unsafe {
            let mut attributes: ibv::ibv_qp_attr = zeroed();
            attributes.qp_state = state;
            let mask = fill(&mut attributes) | ibv::ibv_qp_attr_mask::IBV_QP_STATE;
            check(
                "a queue pair cannot be connected",
                ibv::ibv_modify_qp(self.pair.as_ptr(), &raw mut attributes, mask.0 as i32),
            )
        }
    }

    pub(super) fn number(&self) -> u32 {
        // SAFETY: invariant 1.
        unsafe { self.pair.as_ref().qp_num }
    }

    /// What the other end has to know; `memories` are what is served.
    pub(super) fn contact(&self, memories: [Served; 2]) -> Contact {
        let device = &self.queue.device;
        Contact {
            number: self.number(),
            sequence: self.sequence,
            lid: device.lid,
            gid: device.gid,
            mtu: device.mtu,
            memories,
        }
    }

    /// Connects it to the other end.
    pub(super) fn connect(&self, other: &Contact) -> Result<(), DeviceError> {
        let device = &self.queue.device;
        self.change(ibv::ibv_qp_state::IBV_QPS_RTR, |attributes| {
            attributes.path_mtu = device.mtu.min(other.mtu);
            attributes.dest_qp_num = other.number;
            attributes.rq_psn = other.sequence;
            attributes.max_dest_rd_atomic = device.rd_atomic;
            // 0.64 ms between attempts of a receiver that is not ready; there are no receives here.
            attributes.min_rnr_timer = 12;
            attributes.ah_attr.port_num = device.port;
            attributes.ah_attr.dlid = other.lid;
            if device.is_ethernet || other.lid == 0 {
                attributes.ah_attr.is_global = 1;
                attributes.ah_attr.grh.dgid = ibv::ibv_gid { raw: other.gid };
                attributes.ah_attr.grh.sgid_index = device.gid_index;
                attributes.ah_attr.grh.hop_limit = 64;
            }
            ibv::ibv_qp_attr_mask::IBV_QP_AV
                | ibv::ibv_qp_attr_mask::IBV_QP_PATH_MTU
                | ibv::ibv_qp_attr_mask::IBV_QP_DEST_QPN
                | ibv::ibv_qp_attr_mask::IBV_QP_RQ_PSN
                | ibv::ibv_qp_attr_mask::IBV_QP_MAX_DEST_RD_ATOMIC
                | ibv::ibv_qp_attr_mask::IBV_QP_MIN_RNR_TIMER
        })?;
        self.change(ibv::ibv_qp_state::IBV_QPS_RTS, |attributes| {
            // 67 ms; with 6 attempts a peer that is dead is known to be within half a second. 7 would be for ever.
            attributes.timeout = 14;
            attributes.retry_cnt = 6;
            attributes.rnr_retry = 6;
            attributes.sq_psn = self.sequence;
            attributes.max_rd_atomic = device.rd_atomic;
            ibv::ibv_qp_attr_mask::IBV_QP_TIMEOUT
                | ibv::ibv_qp_attr_mask::IBV_QP_RETRY_CNT
                | ibv::ibv_qp_attr_mask::IBV_QP_RNR_RETRY
                | ibv::ibv_qp_attr_mask::IBV_QP_SQ_PSN
                | ibv::ibv_qp_attr_mask::IBV_QP_MAX_QP_RD_ATOMIC
        })
    }

    /// Posts `works` with one doorbell; their bytes are in `buffer`. The last one's completion comes when all are done.
    ///
    /// # Safety
    /// `buffer` stays registered until that completion has been taken, or this connection is gone (invariant 4), and nobody
    /// else accesses what the works name meanwhile.
    pub(super) unsafe fn post(
        &self,
        works: &[Work],
        buffer: &Registered,
    ) -> Result<(), DeviceError> {
        let mut pieces: Vec<ibv::ibv_sge> = works
            .iter()
            .map(|work| ibv::ibv_sge {
                addr: buffer.start + work.offset as u64,
                length: work.bytes,
                lkey: buffer.local_key(),
            })
            .collect();
        let last = works.len() - 1;
        let mut requests: Vec<ibv::ibv_send_wr> = works
            .iter()
            .enumerate()
            .map(|(at, work)| {
                let mut flags = 0;
                if at == last {
                    flags |= ibv::ibv_send_flags::IBV_SEND_SIGNALED.0;
                }
                if work.is_fenced {
                    flags |= ibv::ibv_send_flags::IBV_SEND_FENCE.0;
                }
                let rdma = ibv::wr_t {
                    rdma: ibv::rdma_t {
                        remote_addr: work.remote,
                        rkey: work.remote_key,
                    },
                };
                let atomic = |compare_add, swap| ibv::wr_t {
                    atomic: ibv::atomic_t {
                        remote_addr: work.remote,
                        compare_add,
                        swap,
                        rkey: work.remote_key,
                    },
                };
                let (opcode, wr) = match work.op {
                    WorkOp::Read => (ibv::ibv_wr_opcode::IBV_WR_RDMA_READ, rdma),
                    WorkOp::Write => {
                        if work.bytes <= self.inline_bytes {
                            flags |= ibv::ibv_send_flags::IBV_SEND_INLINE.0;
                        }
                        (ibv::ibv_wr_opcode::IBV_WR_RDMA_WRITE, rdma)
                    }
                    WorkOp::Cas { expected, new } => (
                        ibv::ibv_wr_opcode::IBV_WR_ATOMIC_CMP_AND_SWP,
                        atomic(expected, new),
                    ),
                    WorkOp::Faa { add } => (
                        ibv::ibv_wr_opcode::IBV_WR_ATOMIC_FETCH_AND_ADD,
                        atomic(add, 0),
                    ),
                };
                // SAFETY: a structure of numbers and pointers, for which zeros are valid.
                let mut request: ibv::ibv_send_wr = unsafe { zeroed() };
                request.wr_id = work.id;
                request.sg_list = &raw mut pieces[at];
                request.num_sge = i32::from(work.bytes > 0);
                request.opcode = opcode;
                request.send_flags = flags;
                request.wr = wr;
                request
            })
            .collect();
        for at in 0..last {
            requests[at].next = &raw mut requests[at + 1];
        }
        let mut bad = ptr::null_mut();
        // SAFETY: the list and its pieces live until the call returns, which copies them; the buffer is as the caller says.
        let posted =
            unsafe { ibv::ibv_post_send(self.pair.as_ptr(), requests.as_mut_ptr(), &raw mut bad) };
        check("work requests cannot be posted", posted)
    }
}

impl Drop for Connection {
    fn drop(&mut self) {
        // SAFETY: invariants 1 and 2.
        unsafe { ibv::ibv_destroy_qp(self.pair.as_ptr()) };
    }
}
