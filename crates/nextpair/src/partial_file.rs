//! Files of [`Partial`]: the contribution of some items in numbers alone, of any similarity and any
//! strategy.

use std::ops::Range;
use std::path::Path;

use nextpair_data::safetensors::SafetensorsFile;
use nextpair_engine::Partial;
use serde::{Deserialize, Serialize};

use crate::Error;
use crate::tensors::{self, Counts, DAMAGED_ITEMS, Scores, Wrong, check};

const FORMAT: &str = "nextpair-partial-3";

/// Moves a [`Partial`] from one process to another, as a file or as bytes. They have no word of the problem, the
/// strategy and the budget: whoever loads them must know these. A [`Part`](crate::Part), of a
/// selection on files, has them all.
pub trait PartialFile: Sized {
    /// Writes it, whole or not at all.
    fn save(&self, path: &Path) -> Result<(), Error>;

    /// Reads and checks what [`save`](PartialFile::save) wrote, to the bit.
    fn load(path: &Path) -> Result<Self, Error>;

    /// The bytes of such a file.
    fn to_bytes(&self) -> Result<Vec<u8>, Error>;

    /// Reads and checks such bytes.
    fn from_bytes(bytes: Vec<u8>) -> Result<Self, Error>;
}

/// What errors call bytes that are in no file.
const IN_MEMORY: &str = "what was received";

#[derive(Serialize, Deserialize)]
struct Header {
    keep: usize,
    hard_negatives: Option<u64>,
}

impl PartialFile for Partial {
    fn save(&self, path: &Path) -> Result<(), Error> {
        tensors::save(path, FORMAT, &checked_header(self, path)?, self)
    }

    fn load(path: &Path) -> Result<Self, Error> {
        let file = SafetensorsFile::open(path).map_err(Wrong::from);
        let partial = file.and_then(|file| parse(&file));
        partial.map_err(|what| Error::not_a_partial(path, what))
    }

    fn to_bytes(&self) -> Result<Vec<u8>, Error> {
        let path = Path::new(IN_MEMORY);
        let header = checked_header(self, path)?;
        tensors::bytes(FORMAT, &header, self).map_err(|what| Error::not_a_partial(path, what))
    }

    fn from_bytes(bytes: Vec<u8>) -> Result<Self, Error> {
        let path = Path::new(IN_MEMORY);
        let file = SafetensorsFile::from_bytes(path, bytes);
        let partial = file.map_err(Wrong::from).and_then(|file| parse(&file));
        partial.map_err(|what| Error::not_a_partial(path, what))
    }
}

/// The header of a partial that [`parse`] would take: others are not worth writing.
fn checked_header(partial: &Partial, path: &Path) -> Result<Header, Error> {
    check_sound(partial).map_err(|what| Error::not_a_partial(path, what))?;
    Ok(Header { keep: partial.keep, hard_negatives: partial.hard_negatives })
}

fn parse(file: &SafetensorsFile) -> Result<Partial, Wrong> {
    let Header { keep, hard_negatives } = tensors::header(file, FORMAT)?;
    let partial = tensors::read(file, Counts { keep, hard_negatives }, Scores::Any)?;
    check_sound(&partial)?;
    Ok(partial)
}

/// Fails unless the items are ascending, and every number that they explain is there and finite.
fn check_sound(partial: &Partial) -> Result<(), Wrong> {
    let Partial { items, best, anchors, thresholds, own, hits, .. } = partial;
    let covered = |item: u32| {
        let after = items.partition_point(|range| range.start <= item);
        after.checked_sub(1).is_some_and(|at| items[at].contains(&item))
    };
    let apart = |pair: &[Range<u32>]| pair[0].end <= pair[1].start;
    check(
        items.iter().all(|range| range.start <= range.end)
            && items.windows(2).all(apart)
            && best.iter().all(|pick| covered(pick.index))
            && hits.iter().all(|(item, _)| covered(*item)),
        DAMAGED_ITEMS,
    )?;
    let all_hits = || hits.iter().flat_map(|(_, hits)| hits);
    check(
        thresholds.len() == anchors.len()
            && own.len() == anchors.len()
            && all_hits().all(|hit| (hit.position as usize) < anchors.len()),
        "its anchors are damaged",
    )?;
    let why = best.iter().flat_map(|pick| &pick.why);
    let why =
        why.flat_map(|reason| [reason.similarity, reason.threshold, reason.surplus, reason.own]);
    let mut numbers = thresholds
        .iter()
        .chain(own)
        .copied()
        .chain(all_hits().map(|hit| hit.similarity))
        .chain(why);
    check(numbers.all(f64::is_finite), "a similarity or a threshold is not finite")
}

#[cfg(test)]
mod tests {
    use std::error::Error as _;
    use std::fs;

    use nextpair_core::{Draws, Matrix, Side};
    use nextpair_engine::{BuiltIn, Coverage, HardNegative, Metric, Problem, Settings, Shard};

    use super::*;

    fn problem() -> Problem {
        let mut draws = Draws::new(7);
        let mut matrix = |rows: usize| {
            Matrix::from_vec(4, (0..4 * rows).map(|_| draws.normal() as f32).collect::<Vec<_>>())
        };
        let (images, texts, pool) = (matrix(12), matrix(12), matrix(30));
        Problem::of_embeddings(images, texts, pool, Side::Image)
            .metric(Metric::Cosine)
            .settings(Settings { explain: 2, ..Settings::default() })
            .build()
            .unwrap()
    }

    #[test]
    fn shards_that_went_through_files_give_the_same_selection() {
        let (folder, problem) = (tempfile::tempdir().unwrap(), problem());
        for strategy in [BuiltIn::from(HardNegative::default()), Coverage::default().into()] {
            let part = |index| {
                let shard = problem.shard(Shard::new(index, 2).unwrap()).unwrap();
                let scored = shard.score(&strategy, 5, &()).unwrap();
                let path = folder.path().join(format!("{index}"));
                scored.save(&path).unwrap();
                let loaded = Partial::load(&path).unwrap();
                assert_eq!(loaded, scored);
                for bytes in [scored.to_bytes().unwrap(), fs::read(&path).unwrap()] {
                    assert_eq!(Partial::from_bytes(bytes).unwrap(), scored);
                }
                loaded
            };
            let whole = part(1).merge(part(0)).unwrap();
            let picks = problem.finish(&strategy, whole, 5, &()).unwrap();
            assert_eq!(picks, problem.select(&strategy, 5, &()).unwrap());
        }
    }

    #[test]
    fn scores_of_any_kind_come_back_to_the_bit() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("partial");
        let mut scored = problem().score(&HardNegative::default(), 5, &()).unwrap();
        for (pick, score) in scored.best.iter_mut().zip([f64::NAN, f64::INFINITY, -0.0]) {
            pick.score = score;
        }
        scored.save(&path).unwrap();
        let bits = |partial: &Partial| -> Vec<u64> {
            partial.best.iter().map(|pick| pick.score.to_bits()).collect()
        };
        assert_eq!(bits(&Partial::load(&path).unwrap()), bits(&scored));
    }

    #[test]
    fn damaged_files_are_refused() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("partial");
        let scored = problem().score(&Coverage::default(), 5, &()).unwrap();
        let refused = |damaged: &Partial, says: &str| {
            // Straight to the tensors: `save` refuses it too.
            let header = Header { keep: damaged.keep, hard_negatives: damaged.hard_negatives };
            tensors::save(&path, FORMAT, &header, damaged).unwrap();
            let error = Partial::load(&path).unwrap_err();
            let source = error.source().unwrap().to_string();
            assert!(source.contains(says), "{source}");
            assert!(damaged.save(&folder.path().join("never")).is_err(), "{says}");
            assert!(!folder.path().join("never").exists());
        };
        let (below, above) = (0..10, 20..30);
        let crossed = vec![above.clone(), below.clone()];
        refused(&Partial { items: crossed, ..scored.clone() }, DAMAGED_ITEMS);
        refused(&Partial { items: vec![below], ..scored.clone() }, DAMAGED_ITEMS);
        let mut damaged = scored.clone();
        damaged.thresholds.pop();
        refused(&damaged, "anchors are damaged");
        let mut damaged = scored.clone();
        damaged.thresholds[3] = f64::NAN;
        refused(&damaged, "thresholds: number 3 is NaN");

        scored.save(&path).unwrap();
        let whole = fs::read(&path).unwrap();
        for length in [0, 7, whole.len() / 2, whole.len() - 1] {
            fs::write(&path, &whole[..length]).unwrap();
            let error = Partial::load(&path).unwrap_err().to_string();
            assert!(error.ends_with("is not a partial selection"), "{error}");
            let error = Partial::from_bytes(whole[..length].to_vec()).unwrap_err().to_string();
            assert_eq!(error, "what was received is not a partial selection");
        }
        tensors::save(&path, "nextpair-part-3", &(), &scored).unwrap();
        let error = Partial::load(&path).unwrap_err();
        let source = error.source().unwrap().to_string();
        assert_eq!(source, "its format is not nextpair-partial-3");
    }
}
