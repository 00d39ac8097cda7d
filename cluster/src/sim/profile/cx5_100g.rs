//! ConnectX-5, 100 Gb/s.

use super::Profile;
use super::parameter::{MissCharge, QpTable, param};

const WARM: &str = "measured: wantonsolutions/warm data, ConnectX-5";
const AS_CX3: &str = "assumed: as cx3-fdr";

impl Profile {
    /// ConnectX-5 at 100 Gb/s behind one switch: the RNIC of the Sherman paper.
    ///
    /// How the latencies were taken apart; names as at [`Profile::cx3_fdr`]. Measured with 24 clients, far from
    /// any ceiling: WRITE = h + e + w = 2180, READ of host memory = 2180 + p = 2700, of device memory = 2180 + p'
    /// = 2350, hence p = 520 and p' = 170; CAS in host memory 60 more than a READ, in device memory (2340) no more
    /// than one. A WRITE is acknowledged before it is in memory, in either. 108 M WRITEs/s are e = 4 · 9.2 = 37.
    /// Nothing tells h from w, and h decides what loopback takes: h is assumed to be that of `cx3-fdr`, 1281, which
    /// leaves w = 862. A pass of an engine holds it for 9.2 ns and is assumed to take the 47.85 ns that it takes
    /// there; the rest, 77 ns for two passes, is in `wire_ns` and `loopback_ns`.
    ///
    /// "RNIC to DRAM about 1 us" (Fusa, citing others) disagrees with p = 520; the difference of two latencies of
    /// this very RNIC was taken. One queue pair's CAS rate of 2.7 M/s is told without a kind of memory; it is taken
    /// for both. On-chip memory of 256 KB (Sherman) disagrees with users' reports of 64 KB; the latter was taken,
    /// and [`Profile::set`] can give it the former.
    pub fn cx5_100g() -> Self {
        Self {
            name: "cx5-100g",
            post_ns: param(640.0, AS_CX3),
            completion_ns: param(641.0, AS_CX3),
            message_ns: param(
                9.2,
                "measured: wantonsolutions/warm data, more than 108 M WRITEs/s; assumed to be no faster",
            ),
            small_bytes: param(
                115.0,
                "derived: from here on the link is slower than an engine",
            ),
            large_bytes: param(1024.0, "derived: at link bandwidth"),
            large_message_ns: param(82.0, "derived: at link bandwidth"),
            link_bytes_per_ns: param(12.5, "published: 100 Gb/s"),
            wire_ns: param(231.4, "derived: w / 2 less the switch, see above"),
            switch_ns: param(199.8, AS_CX3),
            loopback_ns: param(77.0, "assumed: two engine passes beyond their hold"),
            read_byte_ns: param(0.08, "assumed: PCIe 3.0 x16 stores and forwards"),
            pcie_read_ns: param(520.0, WARM),
            read_address_ns: param(
                43.3,
                "measured: wantonsolutions/warm data, 23.1 M READs/s of one address; assumed for one line",
            ),
            atomic_unit_ns: param(
                19.2,
                "measured: wantonsolutions/warm data, ~52 M CAS/s on distinct addresses; which RNIC is not told",
            ),
            atomic_address_ns: param(341.3, WARM),
            faa_address_ns: param(393.7, WARM),
            atomic_response_ns: param(60.0, WARM),
            atomics_per_qp: param(
                16,
                "assumed: as many READs and atomics as such RNICs let be outstanding",
            ),
            atomic_qp_ns: param(
                370.0,
                "measured: wantonsolutions/warm data, ~2.7 M CAS/s of one queue pair; in what memory is not told",
            ),
            atomics_block: param(false, "assumed"),
            masked_cas: param(
                true,
                "assumed: extended atomics of this RNIC; as fast as a CAS",
            ),
            device_bytes: param(
                65_536,
                "published: users' reports of what one can really get; Sherman has 256 KB",
            ),
            device_read_ns: param(170.0, WARM),
            device_unit_ns: param(
                11.0,
                "measured: wantonsolutions/warm data, ~91 M CAS/s on distinct addresses; which RNIC is not told",
            ),
            device_address_ns: param(111.5, WARM),
            device_faa_address_ns: param(129.5, WARM),
            device_response_ns: param(0.0, WARM),
            qp_cache: param(
                QpTable(vec![(1000, 54.3), (5000, 27.2)]),
                "assumed: larger than on ConnectX-3; half the rate with 5,000 queue pairs, none missed up to 1,000",
            ),
            qp_window_ns: param(4e6, AS_CX3),
            qp_cache_on: true,
            qp_miss_charge: param(MissCharge::Chain, "assumed"),
            cpu_hit_ns: param(1.5, AS_CX3),
            cpu_transfer_ns: param(100.0, AS_CX3),
            cpu_memory_ns: param(60.0, "published: Fusa, one memory access"),
            cpu_stream_line_ns: param(8.0, AS_CX3),
            cpu_fence_ns: param(8.0, AS_CX3),
        }
    }
}
