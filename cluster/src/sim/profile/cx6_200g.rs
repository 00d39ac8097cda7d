//! ConnectX-6, 200 Gb/s.

use super::Profile;
use super::parameter::{MissCharge, QpTable, param};

const WARM: &str = "measured: wantonsolutions/warm data, ConnectX-6";
const MIDDLE: &str =
    "measured: wantonsolutions/warm data, ConnectX-6; the middle of the range of rates";
const AS_CX3: &str = "assumed: as cx3-fdr";
const AS_CX5: &str = "assumed: as cx5-100g";

impl Profile {
    /// ConnectX-6 at 200 Gb/s behind one switch.
    ///
    /// Its latencies are told nowhere: they are those of [`Profile::cx5_100g`], which tells how they were taken
    /// apart. Its rates are its own.
    ///
    /// CAS on distinct addresses of host memory: 42.3 M/s (Fusa, 128 threads, stride 8 B, ConnectX-6) and 52 M/s
    /// (wantonsolutions/warm, which RNIC is not told). The former was taken, being of this RNIC. Fusa's 14.4 M/s
    /// with PCIe atomics are another mode of it: `atomic_unit_ns` = 69.4.
    pub fn cx6_200g() -> Self {
        Self {
            name: "cx6-200g",
            post_ns: param(640.0, AS_CX3),
            completion_ns: param(641.0, AS_CX3),
            message_ns: param(
                9.0,
                "measured: SMART artifact's raw data, ~111 M READs/s of 8 B",
            ),
            small_bytes: param(
                225.0,
                "derived: from here on the link is slower than an engine",
            ),
            large_bytes: param(1024.0, "derived: at link bandwidth"),
            large_message_ns: param(41.0, "derived: at link bandwidth"),
            link_bytes_per_ns: param(25.0, "published: 200 Gb/s"),
            wire_ns: param(231.4, AS_CX5),
            switch_ns: param(199.8, AS_CX3),
            loopback_ns: param(77.0, AS_CX5),
            read_byte_ns: param(0.04, "assumed: PCIe 4.0 x16 stores and forwards"),
            pcie_read_ns: param(520.0, AS_CX5),
            read_address_ns: param(43.3, AS_CX5),
            atomic_unit_ns: param(
                23.6,
                "measured: Fusa, 42.3 M CAS/s of 128 threads at a stride of 8 B",
            ),
            atomic_address_ns: param(490.2, WARM),
            faa_address_ns: param(460.8, WARM),
            atomic_response_ns: param(60.0, AS_CX5),
            atomics_per_qp: param(16, AS_CX5),
            atomic_qp_ns: param(370.0, AS_CX5),
            atomics_block: param(false, "assumed"),
            masked_cas: param(
                true,
                "assumed: extended atomics of this RNIC; as fast as a CAS",
            ),
            device_bytes: param(
                131_072,
                "published: users' reports of what one can really get",
            ),
            device_read_ns: param(170.0, AS_CX5),
            device_unit_ns: param(
                11.0,
                "measured: wantonsolutions/warm data, ~91 M CAS/s on distinct addresses; which RNIC is not told",
            ),
            device_address_ns: param(130.3, MIDDLE),
            device_faa_address_ns: param(142.9, MIDDLE),
            device_response_ns: param(0.0, AS_CX5),
            qp_cache: param(QpTable(vec![(1000, 55.5), (5000, 27.8)]), AS_CX5),
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
