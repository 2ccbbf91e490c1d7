//! The tensors of a contribution to a selection, so that numbers keep every bit: what the files of
//! [`Part`](crate::Part) and of [`Partial`] share.

use std::path::Path;

use nextpair_core::AtomicFile;
use nextpair_data::safetensors::{SafetensorsFile, sealed};
use nextpair_engine::{Hit, Partial, Pick, Reason};
use safetensors::Dtype;
use safetensors::tensor::TensorView;
use serde::Serialize;
use serde::de::DeserializeOwned;

use crate::Error;

/// Why a file is not what it should be.
pub(crate) type Wrong = Box<dyn std::error::Error + Send + Sync>;

/// The complaint about items that cannot be.
pub(crate) const DAMAGED_ITEMS: &str = "its items are damaged";

/// What the scores in a file may be.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Scores {
    /// Finite, as those of our strategies are.
    Finite,
    /// Whatever a strategy gave.
    Any,
}

/// The numbers of a contribution that are no tensors; the header of a file has them.
pub(crate) struct Counts {
    pub(crate) keep: usize,
    pub(crate) hard_negatives: Option<u64>,
}

/// Writes a safetensors file of this format, whole or not at all.
pub(crate) fn save(
    path: &Path,
    format: &str,
    header: &impl Serialize,
    partial: &Partial,
) -> Result<(), Error> {
    let bytes = bytes(format, header, partial)
        .map_err(|what| nextpair_core::Error::format(path, format!("cannot be written: {what}")))?;
    Ok(AtomicFile::write_whole(path, &bytes)?)
}

/// Opens a file of this format and reads its header.
pub(crate) fn open<H: DeserializeOwned>(
    path: &Path,
    format: &str,
) -> Result<(SafetensorsFile, H), Wrong> {
    let file = SafetensorsFile::open(path)?;
    let header = header(&file, format)?;
    Ok((file, header))
}

/// Reads the header of a file of this format, which must be whole to the bit.
pub(crate) fn header<H: DeserializeOwned>(
    file: &SafetensorsFile,
    format: &str,
) -> Result<H, Wrong> {
    let metadata = file.metadata();
    let header = metadata.get(format).ok_or_else(|| format!("its format is not {format}"))?;
    file.check_sealed()?;
    Ok(serde_json::from_str(header)?)
}

/// The bytes of a file of this format.
pub(crate) fn bytes(
    format: &str,
    header: &impl Serialize,
    partial: &Partial,
) -> Result<Vec<u8>, Wrong> {
    let best = &partial.best;
    let why = || best.iter().flat_map(|pick| &pick.why);
    let hits = || partial.hits.iter().flat_map(|(_, hits)| hits);
    let tensors = [
        ("items", integers(partial.items.iter().flat_map(|r| [r.start, r.end]))),
        ("anchors", integers(partial.anchors.iter().copied())),
        ("thresholds", floats(partial.thresholds.iter().copied())),
        ("own", floats(partial.own.iter().copied())),
        ("best.index", integers(best.iter().map(|p| p.index))),
        ("best.score", floats(best.iter().map(|p| p.score))),
        // Zero means no count, so that a known count of zero differs.
        ("best.hits", integers(best.iter().map(|p| p.hits.map_or(0, |h| h + 1)))),
        ("best.reasons", integers(best.iter().map(|p| p.why.len() as u32))),
        ("why.anchor", integers(why().map(|w| w.anchor))),
        ("why.similarity", floats(why().map(|w| w.similarity))),
        ("why.threshold", floats(why().map(|w| w.threshold))),
        ("why.surplus", floats(why().map(|w| w.surplus))),
        ("why.own", floats(why().map(|w| w.own))),
        ("hits.item", integers(partial.hits.iter().map(|(item, _)| *item))),
        ("hits.count", integers(partial.hits.iter().map(|(_, h)| h.len() as u32))),
        ("hits.position", integers(hits().map(|h| h.position))),
        ("hits.similarity", floats(hits().map(|h| h.similarity))),
    ];
    let mut views = Vec::with_capacity(tensors.len());
    for (name, (dtype, bytes)) in &tensors {
        let count = bytes.len() / if *dtype == Dtype::F64 { 8 } else { 4 };
        views.push((*name, TensorView::new(*dtype, vec![count], bytes)?));
    }
    Ok(sealed(views, (format, serde_json::to_string(header)?))?)
}

/// Reads the numbers of a contribution, and checks that its lists fit each other.
pub(crate) fn read(
    file: &SafetensorsFile,
    counts: Counts,
    scores: Scores,
) -> Result<Partial, Wrong> {
    let any = |name: &str| -> Result<Vec<f64>, Wrong> { Ok(file.f64s(name)?.1) };
    let floats = |name: &str| -> Result<Vec<f64>, Wrong> {
        let numbers = any(name)?;
        match numbers.iter().position(|number| !number.is_finite()) {
            Some(at) => Err(format!("{name}: number {at} is {}", numbers[at]).into()),
            None => Ok(numbers),
        }
    };
    let integers = |name: &str| -> Result<Vec<u32>, Wrong> {
        let numbers = file.i64s(name)?.1.into_iter().map(u32::try_from);
        numbers.collect::<Result<_, _>>().map_err(|error| format!("{name}: {error}").into())
    };
    let ranges = integers("items")?;
    check(ranges.len().is_multiple_of(2), DAMAGED_ITEMS)?;
    let items = ranges.chunks_exact(2).map(|pair| pair[0]..pair[1]).collect();

    let reasons: Vec<Reason> = zip4(
        integers("why.anchor")?,
        floats("why.similarity")?,
        floats("why.threshold")?,
        floats("why.surplus")?.into_iter().zip(floats("why.own")?).collect(),
    )?
    .map(|(anchor, similarity, threshold, (surplus, own))| Reason {
        anchor,
        similarity,
        threshold,
        surplus,
        own,
    })
    .collect();
    let why = split(reasons, &integers("best.reasons")?)?;
    let scores = match scores {
        Scores::Finite => floats("best.score")?,
        Scores::Any => any("best.score")?,
    };
    let best = zip4(integers("best.index")?, scores, integers("best.hits")?, why)?
        .map(|(index, score, hits, why)| Pick {
            hits: hits.checked_sub(1),
            why,
            ..Pick::new(index, score)
        })
        .collect();

    let (positions, similarities) = (integers("hits.position")?, floats("hits.similarity")?);
    check(positions.len() == similarities.len(), "its hits are damaged")?;
    let hits = positions.into_iter().zip(similarities);
    let hits = hits.map(|(position, similarity)| Hit { position, similarity }).collect();
    let items_hit = integers("hits.item")?;
    let hits = split(hits, &integers("hits.count")?)?;
    check(items_hit.len() == hits.len(), "its hits are damaged")?;
    let partial = Partial {
        items,
        keep: counts.keep,
        best,
        hard_negatives: counts.hard_negatives,
        anchors: integers("anchors")?,
        thresholds: floats("thresholds")?,
        own: floats("own")?,
        hits: items_hit.into_iter().zip(hits).collect(),
    };
    let anchors = partial.anchors.len();
    let mut positions = partial.hits.iter().flat_map(|(_, hits)| hits);
    check(
        partial.thresholds.len() == anchors
            && partial.own.len() == anchors
            && positions.all(|h| (h.position as usize) < anchors),
        "its anchors are damaged",
    )?;
    Ok(partial)
}

pub(crate) fn check(right: bool, what: &str) -> Result<(), Wrong> {
    if right { Ok(()) } else { Err(what.into()) }
}

fn integers(values: impl Iterator<Item = u32>) -> (Dtype, Vec<u8>) {
    (Dtype::U32, values.flat_map(u32::to_le_bytes).collect())
}

fn floats(values: impl Iterator<Item = f64>) -> (Dtype, Vec<u8>) {
    (Dtype::F64, values.flat_map(f64::to_le_bytes).collect())
}

/// Zips four lists of the same length.
fn zip4<A, B, C, D>(
    a: Vec<A>,
    b: Vec<B>,
    c: Vec<C>,
    d: Vec<D>,
) -> Result<impl Iterator<Item = (A, B, C, D)>, Wrong> {
    let same = a.len() == b.len() && a.len() == c.len() && a.len() == d.len();
    check(same, "its lists differ in length")?;
    Ok(a.into_iter().zip(b).zip(c).zip(d).map(|(((a, b), c), d)| (a, b, c, d)))
}

/// Cuts values into consecutive runs of these lengths.
fn split<T>(values: Vec<T>, lengths: &[u32]) -> Result<Vec<Vec<T>>, Wrong> {
    let total: u64 = lengths.iter().map(|&l| u64::from(l)).sum();
    check(total == values.len() as u64, "its lists differ in length")?;
    let mut values = values.into_iter();
    Ok(lengths.iter().map(|&l| values.by_ref().take(l as usize).collect()).collect())
}
