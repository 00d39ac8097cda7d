//! READs and WRITEs of any length at any byte.

use super::{MustTest, Outcome, Scenario, Shared, TestBed};
use crate::{Chain, Endpoint, GlobalAddr};

pub(super) fn tests<B: TestBed>() -> Vec<MustTest<B>> {
    vec![MustTest {
        name: "READs and WRITEs of bytes",
        contract: "READ and WRITE copy exactly their bytes, whatever their length and alignment",
        run: bytes,
    }]
}

const AREA: usize = 2048;

/// Random WRITEs and READs of one area against a copy of it, which is returned.
async fn random_copies(ep: &impl Endpoint, area: GlobalAddr, rounds: u64) -> Outcome<Vec<u8>> {
    let mut model = vec![0u8; AREA];
    let mut chain = Chain::new();
    for _ in 0..rounds {
        // Mostly a few words, sometimes much of the area.
        let longest = if ep.random().is_multiple_of(4) {
            1500
        } else {
            40
        };
        let len = 1 + ep.random() as usize % longest;
        let start = ep.random() as usize % (AREA - len + 1);
        let payload: Vec<u8> = (0..len).map(|_| ep.random() as u8).collect();
        let from = ep.random() as usize % (AREA - longest);
        chain.clear();
        chain.write(area.add(start as u64), &payload);
        let read = chain.read(area.add(from as u64), longest);
        ep.execute(&mut chain).await?;
        model[start..start + len].copy_from_slice(&payload);
        let found = chain.bytes(read);
        let wrong = (0..longest).find(|byte| found[*byte] != model[from + byte]);
        ensure!(
            wrong.is_none(),
            "after a WRITE of {len} bytes at {start}, a READ of {longest} bytes at {from} has byte {wrong:?} wrong"
        );
    }
    Ok(model)
}

fn bytes<B: TestBed>(bed: &B) -> Outcome {
    let mut scenario = Scenario::new(bed, 2);
    let words = AREA as u64 / 8;
    let hosts = [scenario.host(0, words), scenario.host(1, words)];
    let areas = [hosts[0], hosts[1], scenario.device(0, words)];
    let models = Shared::<Vec<(GlobalAddr, Vec<u8>)>>::default();
    let rounds = bed.rounds().min(200);
    for (thread, area) in areas.into_iter().enumerate() {
        let models = models.clone();
        scenario.client(1, thread as u16, move |ep| async move {
            let model = random_copies(&ep, area, rounds).await?;
            models.with(|all| all.push((area, model)));
            Ok(())
        });
    }
    let memory = scenario.run(bed)?;
    for (area, model) in models.take() {
        if !area.is_device() {
            let found: &[u8] = bytemuck::cast_slice(memory.words(area, AREA / 8));
            ensure!(
                found == model,
                "{area} does not hold in the end what was written"
            );
        }
    }
    Ok(())
}
