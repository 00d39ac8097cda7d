//! ConnectX-3 FDR.

use super::Profile;
use super::parameter::{MissCharge, QpTable, param};

const NURDMA: &str = "measured: sss-lehigh/nurdma raw results, 2019, mlx4_0 on CloudLab Apt";
const RC_SWARM: &str = "measured: efficient/rdma_bench, rc-swarm OSDI sweep on CloudLab Apt";
const NO_DEVICE: &str = "assumed: it has no device memory; as host memory where it is given some";

impl Profile {
    /// ConnectX-3 FDR behind one switch: CloudLab Apt, the testbed of the FARLock paper.
    ///
    /// How the latencies were taken apart. Let `e` be the four engine passes of a round trip, `w` both
    /// directions of wire and switch, `p` the PCIe read and `h` the host's part (post + completion):
    /// READ = h + e + w + p = 2220, WRITE = h + e + w = 2080, hence p = 140. With one atomic outstanding a
    /// queue pair, a pipelined CAS completes every e + w + p + 361 = 1300, hence h = 2220 + 361 - 1300 = 1281.
    /// rc-swarm's 10.45 M READs/s of a machine that sends and serves are two passes of each engine a READ, 47.8 ns
    /// a pass, e = 191.4, which leaves w = 607.6.
    pub fn cx3_fdr() -> Self {
        Self {
            name: "cx3-fdr",
            post_ns: param(
                640.0,
                "derived: half of h, see above; how h splits is assumed",
            ),
            completion_ns: param(
                641.0,
                "derived: half of h, see above; how h splits is assumed",
            ),
            message_ns: param(47.85, RC_SWARM),
            small_bytes: param(136.0, RC_SWARM),
            large_bytes: param(392.0, RC_SWARM),
            // 6.5 M READs/s of 392 B: 153.8 ns a READ, of which the request takes one small pass.
            large_message_ns: param(106.0, RC_SWARM),
            // 56 Gb/s signalling, 64b/66b coding.
            link_bytes_per_ns: param(6.79, "published: FDR signalling rate of the testbed"),
            wire_ns: param(104.0, "derived: w / 2 less the switch, see above"),
            switch_ns: param(199.8, "assumed: share of the switch in w / 2"),
            loopback_ns: param(0.0, "assumed: the engines' passes without wire and switch"),
            // 2.24 us for 64 B against 2.22 us for 8 B.
            read_byte_ns: param(0.357, NURDMA),
            pcie_read_ns: param(140.0, NURDMA),
            read_address_ns: param(0.0, "assumed: no limit"),
            atomic_unit_ns: param(361.0, NURDMA),
            atomic_address_ns: param(
                361.0,
                "measured on 8 words, same source; assumed equal on one word",
            ),
            faa_address_ns: param(361.0, "assumed: as CAS"),
            atomic_response_ns: param(361.0, "assumed: the whole service"),
            atomics_per_qp: param(1, NURDMA),
            atomic_qp_ns: param(0.0, "derived: one in flight is the limit"),
            atomics_block: param(false, "assumed"),
            masked_cas: param(
                false,
                "published: the FARLock paper swaps by a loop of CAS, since RDMA has no swap",
            ),
            device_bytes: param(0, "published: ConnectX-3 has no device memory"),
            device_read_ns: param(140.0, NO_DEVICE),
            device_unit_ns: param(361.0, NO_DEVICE),
            device_address_ns: param(361.0, NO_DEVICE),
            device_faa_address_ns: param(361.0, NO_DEVICE),
            device_response_ns: param(361.0, NO_DEVICE),
            qp_cache: param(
                QpTable(vec![
                    (48, 10.45),
                    (88, 6.9),
                    (144, 3.0),
                    (176, 2.4),
                    (240, 1.95),
                    (264, 1.85),
                    (792, 1.15),
                ]),
                RC_SWARM,
            ),
            qp_window_ns: param(
                4e6,
                "assumed: tens of thousands of messages, many times the table's largest cache",
            ),
            qp_cache_on: true,
            qp_miss_charge: param(MissCharge::Chain, "assumed"),
            cpu_hit_ns: param(1.5, "assumed: L1/L2 hit"),
            cpu_transfer_ns: param(100.0, "assumed: line transfer between cores"),
            cpu_memory_ns: param(60.0, "published: Fusa, one memory access"),
            cpu_stream_line_ns: param(8.0, "assumed: 8 GB/s sequential read of one core"),
            cpu_fence_ns: param(8.0, "assumed: about 20 cycles"),
        }
    }
}
