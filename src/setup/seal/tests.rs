use std::fs;
use std::os::unix::fs::FileExt;
use std::path::Path;

use super::*;
use crate::checkpoint::{ExpertPart, LayerTensor};
use crate::store::reader;

/// A copy of the tiny checkpoint that a test may damage.
struct Copy(tempfile::TempDir);

impl Copy {
    fn new() -> Self {
        let dir = tempfile::tempdir().unwrap();
        let tiny = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/fixtures/tiny");
        for entry in fs::read_dir(tiny).unwrap() {
            let entry = entry.unwrap();
            if entry.file_type().unwrap().is_file() {
                fs::copy(entry.path(), dir.path().join(entry.file_name())).unwrap();
            }
        }
        Self(dir)
    }

    fn open(&self) -> Checkpoint {
        Checkpoint::open(self.0.path()).unwrap()
    }

    fn seal(&self) -> u64 {
        let checkpoint = self.open();
        let reader = reader::open(checkpoint.shards(), None).unwrap();
        let (path, bytes) = seal(&checkpoint, reader.as_ref(), &mut |_, _| true).unwrap();
        assert_eq!(path, self.manifest());
        bytes
    }

    fn manifest(&self) -> PathBuf {
        self.0.path().join(Manifest::FILE)
    }

    /// Changes one byte, and sets the time of change back as if nothing had happened.
    fn flip(&self, extent: Extent, at: u64) {
        let checkpoint = self.open();
        let path = checkpoint.shards()[usize::from(extent.shard)].path();
        let file = fs::File::options().read(true).write(true).open(path).unwrap();
        let changed = file.metadata().unwrap().modified().unwrap();
        let mut byte = [0];
        file.read_exact_at(&mut byte, extent.offset + at).unwrap();
        file.write_all_at(&[byte[0] ^ 0x10], extent.offset + at).unwrap();
        file.set_modified(changed).unwrap();
    }

    fn check(&self) -> Findings {
        let checkpoint = self.open();
        let reader = reader::open(checkpoint.shards(), None).unwrap();
        let manifest = Manifest::read(&checkpoint).unwrap().unwrap();
        check(&checkpoint, &manifest, reader.as_ref(), &mut |_, _| true).unwrap()
    }

    /// What reading the manifest complains of.
    fn refused(&self) -> String {
        let error = Manifest::read(&self.open()).unwrap_err();
        assert!(error.hint().contains("dormouse verify --seal"));
        error.to_string()
    }
}

#[test]
fn pieces_are_all_bytes_once_and_as_large_as_they_may_be() {
    let checkpoint = Copy::new().open();
    let pieces = pieces(&checkpoint);
    assert_eq!(pieces.iter().map(Piece::len).sum::<u64>(), checkpoint.tensor_bytes());
    let mut places: Vec<_> =
        pieces.iter().flat_map(|piece| &piece.extents).map(|(extent, _)| *extent).collect();
    places.sort_by_key(|extent| (extent.shard, extent.offset));
    for [before, after] in places.array_windows() {
        assert!(
            before.shard < after.shard || before.offset + before.len <= after.offset,
            "{before:?} {after:?}"
        );
    }
}

#[test]
fn what_was_sealed_is_found_unchanged() {
    let copy = Copy::new();
    assert_eq!(Manifest::read(&copy.open()).unwrap().map(|_| ()), None);
    let bytes = copy.seal();
    assert_eq!(bytes, copy.open().tensor_bytes());
    assert_eq!(copy.check(), Findings { bytes, bad: 0, first: Vec::new() });
    // Sealed again, the same files give the same manifest.
    let before = fs::read(copy.manifest()).unwrap();
    copy.seal();
    assert!(fs::read(copy.manifest()).unwrap() == before);
}

#[test]
fn a_flipped_byte_is_named_by_shard_tensor_and_offset() {
    let layer = 1;
    let tensors = [
        ("a vector", Tensor::Layer(layer, LayerTensor::InputNorm), 3),
        ("a matrix", Tensor::Layer(layer, LayerTensor::Output), 777),
        ("a row of the embedding", Tensor::Embedding, 12_345),
        ("the head", Tensor::LmHead, 54_321),
    ];
    for (what, tensor, at) in tensors {
        let copy = Copy::new();
        copy.seal();
        let checkpoint = copy.open();
        let extent = checkpoint.locate(tensor).unwrap();
        copy.flip(extent, at);
        let findings = copy.check();
        assert_eq!(findings.bad, 1, "{what}");
        let found = &findings.first[0];
        assert_eq!(found.what, checkpoint.describe(tensor), "{what}");
        let path = checkpoint.shards()[usize::from(extent.shard)].path();
        assert!(path.ends_with(&found.shard), "{what}: {}", found.shard);
        let place = extent.offset + at;
        assert!((found.offset..found.offset + found.len).contains(&place), "{what}: {found:?}");
        // What the store does with one read comes to the same.
        let manifest = Manifest::read(&checkpoint).unwrap().unwrap();
        let mut bytes = vec![0; usize_of(extent.len)];
        checkpoint.read(extent, &mut bytes).unwrap();
        let error = manifest.check_rows(&checkpoint, tensor, 0, &bytes).unwrap_err().to_string();
        assert_eq!(error, found.problem, "{what}");
        assert!(
            error.contains(&format!("offset {}", found.offset)) && error.contains(&found.what),
            "{error}"
        );
    }
}

#[test]
fn a_flipped_byte_of_an_expert_is_named_whichever_part_it_is_in() {
    let copy = Copy::new();
    copy.seal();
    let checkpoint = copy.open();
    let manifest = Manifest::read(&checkpoint).unwrap().unwrap();
    for (expert, part) in ExpertPart::ALL.into_iter().enumerate() {
        let extents = checkpoint.expert(2, expert).unwrap();
        copy.flip(extents[part as usize], extents[part as usize].len - 1);
        let read = |extent: &Extent| {
            let mut bytes = vec![0; usize_of(extent.len)];
            checkpoint.read(*extent, &mut bytes).unwrap();
            bytes
        };
        let parts: Vec<Vec<u8>> = extents.iter().map(read).collect();
        let parts: Vec<&[u8]> = parts.iter().map(Vec::as_slice).collect();
        let error = manifest.check_expert(&checkpoint, 2, expert, &parts).unwrap_err().to_string();
        assert!(error.contains(&format!("expert {expert} of layer 2")), "{error}");
        // In one part or in six: the same checksum.
        let whole = parts.concat();
        assert_eq!(manifest.check_expert(&checkpoint, 2, expert, &[&whole]).unwrap_err().to_string(), error);
    }
    let findings = copy.check();
    assert_eq!(findings.bad, ExpertPart::ALL.len() as u64);
    assert_eq!(findings.first.len(), ExpertPart::ALL.len());
    assert!(findings.first.is_sorted_by_key(|found| (found.shard.clone(), found.offset)));
}

#[test]
fn a_manifest_belongs_to_the_files_that_it_was_written_for() {
    let copy = Copy::new();
    copy.seal();
    let shard = copy.open().shards()[0].path().to_owned();
    let file = fs::File::options().write(true).open(&shard).unwrap();
    let changed = file.metadata().unwrap().modified().unwrap();
    file.set_modified(changed + Duration::from_secs(1)).unwrap();
    assert!(copy.refused().contains("files that have changed since"), "{}", copy.refused());
    file.set_modified(changed).unwrap();
    assert!(Manifest::read(&copy.open()).unwrap().is_some());
    // A config that says the same in other words is another config.
    let config = copy.0.path().join("config.json");
    let text = fs::read_to_string(&config).unwrap();
    fs::write(&config, format!("{text} ")).unwrap();
    assert!(copy.refused().contains("files that have changed since"), "{}", copy.refused());
}

#[test]
fn a_damaged_manifest_is_refused() {
    let copy = Copy::new();
    copy.seal();
    let whole = fs::read(copy.manifest()).unwrap();
    for len in [0, 7, whole.len() / 2, whole.len() - 1] {
        fs::write(copy.manifest(), &whole[..len]).unwrap();
        assert!(copy.refused().contains(&format!("found {len} bytes")), "{}", copy.refused());
    }
    for at in [0, 9, 15, 25, 100, whole.len() - 1] {
        let mut bytes = whole.clone();
        bytes[at] ^= 1;
        fs::write(copy.manifest(), bytes).unwrap();
        assert!(copy.refused().contains("one that was damaged"), "{at}: {}", copy.refused());
    }
    fs::write(copy.manifest(), [whole.clone(), vec![0]].concat()).unwrap();
    assert!(Manifest::read(&copy.open()).is_err());
    fs::write(copy.manifest(), &whole).unwrap();
    assert!(Manifest::read(&copy.open()).unwrap().is_some());
}

#[test]
fn a_shard_that_is_cut_short_meanwhile_is_no_seal_and_no_clean_bill() {
    let copy = Copy::new();
    copy.seal();
    let checkpoint = copy.open();
    let manifest = Manifest::read(&checkpoint).unwrap().unwrap();
    let reader = reader::open(checkpoint.shards(), None).unwrap();
    let shard = checkpoint.shards()[3].path().to_owned();
    let len = fs::metadata(&shard).unwrap().len();
    fs::File::options().write(true).open(&shard).unwrap().set_len(len / 2).unwrap();
    let findings = check(&checkpoint, &manifest, reader.as_ref(), &mut |_, _| true).unwrap();
    assert!(findings.bad > 0 && findings.first[0].problem.contains("ends early"), "{findings:?}");
    let before = fs::read(copy.manifest()).unwrap();
    assert!(seal(&checkpoint, reader.as_ref(), &mut |_, _| true).is_err());
    assert!(fs::read(copy.manifest()).unwrap() == before, "the old manifest is left alone");
}

#[test]
fn it_stops_when_it_is_told_to() {
    let copy = Copy::new();
    let checkpoint = copy.open();
    let reader = reader::open(checkpoint.shards(), None).unwrap();
    let stopped = seal(&checkpoint, reader.as_ref(), &mut |_, _| false);
    assert!(matches!(stopped, Err(Error::Stopped)));
    assert!(!copy.manifest().exists());
}
