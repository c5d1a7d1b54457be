//! Where bytes live: every byte is read exactly as often as the plan says, whatever the order in which reads end, and a
//! read that fails ends a turn without spoiling the next one.
#![expect(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

#[path = "support/twin.rs"]
mod twin;

use std::collections::HashMap;
use std::path::Path;
use std::sync::Arc;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use dormouse::checkpoint::{Checkpoint, Dtype, Extent, LayerTensor, Manifest, Shape, Tensor};
use dormouse::kernels::Kernels;
use dormouse::model::{Error, Model, Observer, Rows, State, Unwatched};
use dormouse::store::{self, Access, Plan, ReaderKind, Sizes, Store, reader};
use dormouse::units::Bytes;
use twin::{Fault, Twin};

const VOCABULARY: u32 = 768;

fn checkpoint() -> Arc<Checkpoint> {
    static OPEN: OnceLock<Arc<Checkpoint>> = OnceLock::new();
    let open =
        || Checkpoint::open(&Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/fixtures/tiny")).unwrap();
    Arc::clone(OPEN.get_or_init(|| Arc::new(open())))
}

/// A plan with room for everything.
fn roomy() -> Plan {
    Plan::new(&Sizes::of(&checkpoint()), Bytes(1 << 40), Bytes(0)).unwrap()
}

/// A plan that pins nothing and has room for one expert.
fn narrow() -> Plan {
    Plan { pinned: Bytes(0), slots: 1, tiles: 2, tile_target: 8 << 10, ..roomy() }
}

fn buffered() -> Arc<dyn store::Reader> {
    reader::open(checkpoint().shards(), Some(ReaderKind::Buffered)).unwrap()
}

fn model(
    plan: &Plan,
    reader: Arc<dyn store::Reader>,
    manifest: Option<Arc<Manifest>>,
    threads: usize,
) -> Model {
    let store = Store::open(checkpoint(), plan, Access { reader, manifest }, &mut |_, _| true).unwrap();
    let pool = rayon::ThreadPoolBuilder::new().num_threads(threads).build().unwrap();
    Model::new(store, Kernels::detect().unwrap(), pool).unwrap()
}

/// Ids that wake many experts.
fn ids(count: u32) -> Vec<u32> {
    (0..count).map(|i| (i * 337 + 11) % VOCABULARY).collect()
}

/// The logits of all of `ids` as bits, in chunks of `chunk`.
fn bits(model: &mut Model, ids: &[u32], chunk: usize) -> Vec<u32> {
    let mut state = State::new(model.config());
    let logits = ids.chunks(chunk).map(|ids| model.forward(&mut state, ids, Rows::All, &Unwatched).unwrap());
    logits.flatten().map(f32::to_bits).collect()
}

/// The bits that everything must give: all in memory, one id at a time.
fn plain() -> &'static [u32] {
    static BITS: OnceLock<Vec<u32>> = OnceLock::new();
    BITS.get_or_init(|| bits(&mut model(&roomy(), buffered(), None, 1), &ids(20), 1))
}

/// Checksums of the tiny checkpoint as it is.
fn manifest() -> Arc<Manifest> {
    let checkpoint = checkpoint();
    let mut manifest = Manifest::blank(&checkpoint).unwrap();
    let read = |extent: Extent| {
        let mut bytes = vec![0; usize::try_from(extent.len).unwrap()];
        checkpoint.read(extent, &mut bytes).unwrap();
        bytes
    };
    for (tensor, _, _, extent) in checkpoint.trunk() {
        manifest.seal_rows(tensor, 0, &read(extent));
    }
    let config = checkpoint.config();
    for layer in config.dense_layers..config.layers() {
        for expert in 0..config.moe.experts {
            let parts = checkpoint.expert(layer, expert).unwrap().map(read);
            let parts: Vec<&[u8]> = parts.iter().map(Vec::as_slice).collect();
            manifest.seal_expert(&checkpoint, layer, expert, &parts);
        }
    }
    Arc::new(manifest)
}

/// A count for each layer and expert.
type ByExpert = HashMap<(usize, usize), u32>;

/// How often each byte of the trunk's matrices was read, by tensor; and how often each expert.
fn census(log: &[Extent]) -> (HashMap<Tensor, Vec<u32>>, ByExpert) {
    let checkpoint = checkpoint();
    let mut matrices = HashMap::new();
    for (tensor, dtype, shape, extent) in checkpoint.trunk() {
        let vector = matches!(
            tensor,
            Tensor::Embedding
                | Tensor::OutputResProj
                | Tensor::Layer(_, LayerTensor::AttnResProj | LayerTensor::MlpResProj)
        );
        if dtype == Dtype::Bf16 && matches!(shape, Shape::Matrix(..)) && !vector {
            let mut counts = vec![0; usize::try_from(extent.len).unwrap()];
            for read in log.iter().filter(|read| read.shard == extent.shard) {
                let begin = read.offset.max(extent.offset);
                let end = (read.offset + read.len).min(extent.offset + extent.len);
                for byte in begin..end.max(begin) {
                    counts[usize::try_from(byte - extent.offset).unwrap()] += 1;
                }
            }
            matrices.insert(tensor, counts);
        }
    }
    let config = checkpoint.config();
    let mut experts = HashMap::new();
    for layer in config.dense_layers..config.layers() {
        for expert in 0..config.moe.experts {
            let [first, ..] = checkpoint.expert(layer, expert).unwrap();
            let same = |read: &&Extent| read.shard == first.shard && read.offset == first.offset;
            let count = u32::try_from(log.iter().filter(same).count()).unwrap();
            experts.insert((layer, expert), count);
        }
    }
    (matrices, experts)
}

/// The first pass reads everything once and what lies ahead; the second reads what is streamed once more, and nothing
/// that is pinned.
#[test]
fn every_streamed_byte_is_read_once_in_each_pass_and_no_pinned_one_again() {
    let whole = roomy().pinned.0;
    let ids = ids(4);
    for (tiles, tile_target) in [(1, 4 << 10), (2, 16 << 10), (3, 64 << 10), (16, 1 << 20)] {
        for step in 0..=6 {
            // Small tiles take more memory than large ones: for all of them there is no limit.
            let pinned = Bytes(if step == 6 { 1 << 30 } else { whole * step / 6 });
            let plan = Plan { pinned, tiles, tile_target, slots: 1, ..roomy() };
            let twin = Twin::new(buffered());
            let mut model = model(&plan, Arc::clone(&twin) as _, None, 2);
            let mut state = State::new(model.config());
            let mut passes = Vec::new();
            for id in &ids {
                model.forward(&mut state, &[*id], Rows::Last, &Unwatched).unwrap();
                passes.push(model.store().counters());
            }
            // What is read ahead for the pass after the last one is under way or done; it is known when all is dropped.
            drop(model);
            let (matrices, _) = census(&twin.take_log());
            let (mut streamed, mut once, mut ahead) = (0u64, 0u64, 0u64);
            for count in matrices.values().flatten() {
                match *count {
                    1 => once += 1,
                    4 => streamed += 1,
                    5 => ahead += 1,
                    count => unreachable!("a byte was read {count} times in 4 passes with {plan:?}"),
                }
            }
            // A tile cannot be larger than one of the buffers, and there are so many of them.
            assert!(ahead <= tiles as u64 * 200_000, "{ahead} bytes ahead with {plan:?}");
            if step == 0 {
                assert_eq!(once, 0, "{plan:?}");
            } else if step == 6 {
                assert_eq!(streamed + ahead, 0, "{plan:?}");
            } else {
                assert!(once > 0 && streamed + ahead > 0, "{plan:?}");
                assert!(once <= plan.pinned.0, "{plan:?}");
            }
        }
    }
}

/// A pass whose logits nobody wants does without the head, and the passes around it lose nothing by that.
#[test]
fn a_pass_without_logits_does_not_read_the_head() {
    let ids = ids(4);
    for (tiles, tile_target) in [(1, 4 << 10), (2, 16 << 10), (3, 64 << 10)] {
        let plan = Plan { pinned: Bytes(0), tiles, tile_target, slots: 1, ..roomy() };
        let twin = Twin::new(buffered());
        let mut model = model(&plan, Arc::clone(&twin) as _, None, 2);
        let mut state = State::new(model.config());
        let wanted = [Rows::Last, Rows::None, Rows::None, Rows::Last];
        for (id, rows) in ids.iter().zip(wanted) {
            let logits = model.forward(&mut state, &[*id], rows, &Unwatched).unwrap();
            assert_eq!(logits.is_empty(), rows == Rows::None);
            if rows == Rows::Last {
                let place = state.len() - 1;
                let bits: Vec<u32> = logits.into_iter().map(f32::to_bits).collect();
                assert_eq!(bits, plain()[place * VOCABULARY as usize..][..VOCABULARY as usize]);
            }
        }
        drop(model);
        let (matrices, _) = census(&twin.take_log());
        for (tensor, counts) in matrices {
            let expected = if tensor == Tensor::LmHead { 2..=2 } else { 4..=5 };
            assert!(counts.iter().all(|count| expected.contains(count)), "{tensor:?} with {plan:?}");
        }
    }
    // With everything pinned the head comes with the first pass that wants it.
    let mut model = model(&Plan { pinned: Bytes(1 << 30), ..roomy() }, buffered(), None, 2);
    let mut state = State::new(model.config());
    model.forward(&mut state, &ids[..3], Rows::None, &Unwatched).unwrap();
    let last = model.forward(&mut state, &ids[3..], Rows::Last, &Unwatched).unwrap();
    let bits: Vec<u32> = last.into_iter().map(f32::to_bits).collect();
    assert_eq!(bits, plain()[3 * VOCABULARY as usize..][..VOCABULARY as usize]);
}

#[test]
fn each_needed_expert_is_read_once_for_a_layer_and_chunk() {
    let ids = ids(24);
    for slots in [1, 3, 4, 16] {
        let twin = Twin::new(buffered());
        let plan = Plan { slots, ..roomy() };
        let mut model = model(&plan, Arc::clone(&twin) as _, None, 2);
        let mut state = State::new(model.config());
        model.forward(&mut state, &ids, Rows::Last, &Unwatched).unwrap();
        let counters = model.store().counters();
        let (_, experts) = census(&twin.take_log());
        assert!(experts.values().all(|count| *count <= 1), "{slots} slots");
        let read: u32 = experts.values().sum();
        assert_eq!(u64::from(read), counters.reads);
        assert_eq!(counters.requests, counters.reads, "no expert was there before the first pass");
        assert_eq!(counters.resident, 0);
        // The second pass finds what the slots still hold, and counts only that as resident.
        model.forward(&mut state, &ids[..1], Rows::Last, &Unwatched).unwrap();
        let after = model.store().counters();
        assert_eq!(after.requests - counters.requests, 12 * 4);
        assert_eq!(after.resident + (after.reads - counters.reads), 12 * 4);
    }
}

#[test]
fn budgets_readers_and_manifests_change_no_bit() {
    let sizes = Sizes::of(&checkpoint());
    let smallest = Plan::smallest(&sizes, Bytes(0));
    let ids = ids(20);
    let extras = [0, 50_000, 500_000, 2 << 20, 4 << 20, 6 << 20, 1 << 30];
    for (i, extra) in extras.into_iter().enumerate() {
        let plan = Plan::new(&sizes, Bytes(smallest.0 + extra), Bytes(0)).unwrap();
        for kind in [None, Some(ReaderKind::Buffered), Some(ReaderKind::Mmap), Some(ReaderKind::Direct)] {
            // Direct reads are not to be had on every file system.
            let Ok(reader) = reader::open(checkpoint().shards(), kind) else { continue };
            let checked = i.is_multiple_of(2).then(manifest);
            let (chunk, threads) = [(1, 1), (16, 2), (7, 2), (64, 1)][i % 4];
            let found = bits(&mut model(&plan, reader, checked, threads), &ids, chunk);
            assert!(found == plain(), "{extra} more bytes, {kind:?}, chunks of {chunk}, {threads} threads");
        }
    }
}

#[test]
fn reads_that_end_in_any_order_change_no_bit() {
    let ids = ids(20);
    for (slots, tiles) in [(1, 1), (4, 3), (16, 16)] {
        let twin = Twin::new(buffered());
        twin.delay(300);
        let plan = Plan { pinned: Bytes(1 << 20), slots, tiles, tile_target: 32 << 10, ..roomy() };
        let found = bits(&mut model(&plan, Arc::clone(&twin) as _, None, 2), &ids, 10);
        assert!(found == plain(), "{slots} slots, {tiles} tiles");
    }
}

/// Places in the checkpoint that a pass reads: a tile in the middle, the head, an embedding row, an expert.
fn places(expert: usize) -> Vec<(&'static str, Extent)> {
    let checkpoint = checkpoint();
    let locate = |tensor| checkpoint.locate(tensor).unwrap();
    let row =
        Extent { offset: locate(Tensor::Embedding).offset + 11 * 256, len: 256, ..locate(Tensor::Embedding) };
    vec![
        ("tile", locate(Tensor::Layer(5, LayerTensor::SharedDown))),
        ("head", locate(Tensor::LmHead)),
        ("embedding", row),
        ("expert", checkpoint.expert(7, expert).unwrap()[0]),
    ]
}

/// An expert that the first of our ids wakes in layer 7.
fn woken() -> usize {
    let twin = Twin::new(buffered());
    let mut model = model(&narrow(), Arc::clone(&twin) as _, None, 1);
    bits(&mut model, &ids(1), 1);
    let (_, experts) = census(&twin.take_log());
    (0..16).find(|expert| experts[&(7, *expert)] > 0).unwrap()
}

#[test]
fn a_read_that_fails_ends_the_turn_and_not_the_program() {
    let ids = ids(20);
    let manifest = manifest();
    for (what, extent) in places(woken()) {
        for fault in [Fault::Broken, Fault::Short, Fault::Flipped] {
            let twin = Twin::new(buffered());
            let mut model = model(&narrow(), Arc::clone(&twin) as _, Some(Arc::clone(&manifest)), 2);
            twin.harm(extent, fault);
            let mut state = State::new(model.config());
            let error = model.forward(&mut state, &ids, Rows::Last, &Unwatched).unwrap_err();
            let text = error.to_string();
            let expected = match fault {
                Fault::Broken => "Input/output error",
                Fault::Short => "ends early",
                Fault::Flipped => "have changed since the manifest was written",
            };
            assert!(text.contains(expected), "{what}, {fault:?}: {text}");
            if what == "expert" {
                assert!(text.contains("layer 7, expert"), "{what}, {fault:?}: {text}");
            }
            // The state that saw half a pass refuses to go on; a new one gives the right bits once the disk is well.
            let again = model.forward(&mut state, &ids, Rows::Last, &Unwatched).unwrap_err();
            assert!(matches!(again, Error::BrokenState), "{again}");
            twin.heal();
            assert!(bits(&mut model, &ids, 5) == plain(), "{what}, {fault:?}");
        }
    }
}

/// Without a manifest a flipped byte is not noticed: the test above would not fail if nothing were checked.
#[test]
fn a_flipped_byte_gives_other_bits_where_nothing_is_checked() {
    let twin = Twin::new(buffered());
    let mut model = model(&narrow(), Arc::clone(&twin) as _, None, 2);
    let (_, head) = places(0)[1];
    twin.harm(head, Fault::Flipped);
    assert!(bits(&mut model, &ids(20), 20) != plain());
}

/// Stops as soon as it is told to.
struct Stop(AtomicBool);

impl Observer for Stop {
    fn cancelled(&self) -> bool {
        self.0.load(Ordering::Relaxed)
    }
}

#[test]
fn a_wait_for_the_disk_can_be_stopped() {
    let ids = ids(20);
    let twin = Twin::new(buffered());
    let mut model = model(&Plan { slots: 4, tiles: 4, ..narrow() }, Arc::clone(&twin) as _, None, 2);
    for _ in 0..3 {
        let stop = Stop(AtomicBool::new(false));
        twin.delay(2000);
        let mut state = State::new(model.config());
        let took = std::thread::scope(|scope| {
            let stopper = scope.spawn(|| {
                std::thread::sleep(Duration::from_millis(30));
                // From now on no read ends at all.
                twin.held.store(true, Ordering::Relaxed);
                std::thread::sleep(Duration::from_millis(30));
                stop.0.store(true, Ordering::Relaxed);
                Instant::now()
            });
            let error = loop {
                match model.forward(&mut state, &ids[..1], Rows::Last, &stop) {
                    // The embedding is read where it is needed, without a queue: let it come.
                    Ok(_) => {}
                    Err(error) => break error,
                }
                if stop.0.load(Ordering::Relaxed) {
                    twin.held.store(false, Ordering::Relaxed);
                }
            };
            let took = stopper.join().unwrap().elapsed();
            twin.held.store(false, Ordering::Relaxed);
            assert!(matches!(error, Error::Cancelled), "{error}");
            took
        });
        assert!(took < Duration::from_secs(1), "{took:?}");
        twin.delay(0);
        assert!(bits(&mut model, &ids, 20) == plain(), "after a stop");
    }
}
