//! The file of one shard: a safetensors file, so that numbers keep every bit.

use std::collections::HashMap;
use std::io::Write;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, bail, ensure};
use nextpair_data::AtomicFile;
use nextpair_data::safetensors::SafetensorsFile;
use nextpair_engine::{Hit, Partial, Pick, Reason, StrategyName, Weight};
use safetensors::Dtype;
use safetensors::tensor::TensorView;
use serde::{Deserialize, Serialize};

use crate::inputs::PoolSide;
use crate::selection::Selection;
use crate::selection::of_files::{Files, Places};

const FORMAT: &str = "nextpair-part-1";

/// What a shard contributes, with all that `merge` needs to finish.
pub(crate) struct Part {
    pub(crate) header: Header,
    pub(crate) partial: Partial,
}

#[derive(Serialize, Deserialize)]
pub(crate) struct Header {
    pub(crate) fingerprint: String,
    strategy: String,
    pub(crate) budget: usize,
    pub(crate) pool: usize,
    by_count: bool,
    pub(crate) explain: usize,
    keep: usize,
    hard_negatives: Option<u64>,
    ids: Option<HashMap<u32, String>>,
    anchor_ids: Option<HashMap<u32, String>>,
    pool_path: PathBuf,
    paired_path: PathBuf,
    pool_of_texts: bool,
}

impl Header {
    pub(crate) fn strategy(&self) -> Result<StrategyName> {
        self.strategy.parse().map_err(anyhow::Error::msg)
    }

    pub(crate) fn weight(&self) -> Weight {
        if self.by_count { Weight::Count } else { Weight::Surplus }
    }

    pub(crate) fn places(&self) -> Places {
        Places {
            pool: self.pool_path.clone(),
            paired: self.paired_path.clone(),
            side: if self.pool_of_texts { PoolSide::Text } else { PoolSide::Image },
        }
    }

    pub(crate) fn id(&self, index: u32) -> String {
        let known = self.ids.as_ref().and_then(|ids| ids.get(&index));
        known.cloned().unwrap_or_else(|| index.to_string())
    }

    pub(crate) fn anchor_id(&self, index: u32) -> String {
        let known = self.anchor_ids.as_ref().and_then(|ids| ids.get(&index));
        known.cloned().unwrap_or_else(|| index.to_string())
    }

    /// Takes over the names that another part knows.
    pub(crate) fn learn(&mut self, other: Header) {
        for (mine, theirs) in [(&mut self.ids, other.ids), (&mut self.anchor_ids, other.anchor_ids)]
        {
            if let (Some(mine), Some(theirs)) = (mine, theirs) {
                mine.extend(theirs);
            }
        }
    }
}

impl Part {
    pub(crate) fn new(selection: &Selection, files: &Files, partial: Partial) -> Result<Self> {
        let items = partial.best.iter().map(|pick| pick.index);
        let items = items.chain(partial.hits.iter().map(|(item, _)| *item));
        let anchors = partial.anchors.iter().copied();
        let whole = |path: &Path| {
            // `merge` may run elsewhere; a name with a tensor behind it is not a file.
            std::path::absolute(path).with_context(|| path.display().to_string())
        };
        let header = Header {
            fingerprint: files.fingerprint(selection),
            strategy: selection.strategy.as_str().to_string(),
            budget: selection.budget,
            pool: selection.pool(),
            by_count: selection.settings.weight == Weight::Count,
            explain: selection.settings.explain,
            keep: partial.keep,
            hard_negatives: partial.hard_negatives,
            ids: selection.ids.as_ref().map(|_| items.map(|i| (i, selection.id(i))).collect()),
            anchor_ids: selection
                .anchor_ids
                .as_ref()
                .map(|_| anchors.map(|j| (j, selection.anchor_id(j))).collect()),
            pool_path: whole(&files.places.pool)?,
            paired_path: whole(&files.places.paired)?,
            pool_of_texts: files.places.side == PoolSide::Text,
        };
        Ok(Part { header, partial })
    }

    pub(crate) fn write(&self, mut file: AtomicFile) -> Result<()> {
        let partial = &self.partial;
        let best = &partial.best;
        let why = || best.iter().flat_map(|pick| &pick.why);
        let hits = || partial.hits.iter().flat_map(|(_, hits)| hits);
        let tensors = [
            ("items", integers(partial.items.iter().flat_map(|r| [r.start, r.end]))),
            ("anchors", integers(partial.anchors.iter().copied())),
            ("thresholds", floats(partial.thresholds.iter().copied())),
            ("best.index", integers(best.iter().map(|p| p.index))),
            ("best.score", floats(best.iter().map(|p| p.score))),
            // Zero is no count at all, so that a known count of zero differs.
            ("best.hits", integers(best.iter().map(|p| p.hits.map_or(0, |h| h + 1)))),
            ("best.reasons", integers(best.iter().map(|p| p.why.len() as u32))),
            ("why.anchor", integers(why().map(|w| w.anchor))),
            ("why.similarity", floats(why().map(|w| w.similarity))),
            ("why.threshold", floats(why().map(|w| w.threshold))),
            ("why.surplus", floats(why().map(|w| w.surplus))),
            ("hits.item", integers(partial.hits.iter().map(|(item, _)| *item))),
            ("hits.count", integers(partial.hits.iter().map(|(_, h)| h.len() as u32))),
            ("hits.position", integers(hits().map(|h| h.position))),
            ("hits.similarity", floats(hits().map(|h| h.similarity))),
        ];
        let views = tensors
            .iter()
            .map(|(name, (dtype, bytes))| {
                let count = bytes.len() / if *dtype == Dtype::F64 { 8 } else { 4 };
                Ok((*name, TensorView::new(*dtype, vec![count], bytes)?))
            })
            .collect::<Result<Vec<_>>>()?;
        let metadata = HashMap::from([
            ("format".to_string(), FORMAT.to_string()),
            ("header".to_string(), serde_json::to_string(&self.header)?),
        ]);
        file.write_all(&safetensors::serialize(views, Some(metadata))?)?;
        Ok(file.commit()?)
    }

    pub(crate) fn read(path: &Path) -> Result<Self> {
        Self::parse(path).with_context(|| format!("{} is not a part of `score`", path.display()))
    }

    fn parse(path: &Path) -> Result<Self> {
        let file = SafetensorsFile::open(path)?;
        let metadata = file.metadata();
        ensure!(metadata.get("format") == Some(&FORMAT), "its format is not {FORMAT}");
        let header: Header =
            serde_json::from_str(metadata.get("header").context("it has no header")?)?;
        let floats = |name: &str| -> Result<Vec<f64>> {
            let numbers = file.f64s(name)?.1;
            match numbers.iter().position(|number| !number.is_finite()) {
                Some(at) => bail!("{name}: number {at} is {}", numbers[at]),
                None => Ok(numbers),
            }
        };
        let integers = |name: &str| -> Result<Vec<u32>> {
            let numbers = file.i64s(name)?.1.into_iter().map(u32::try_from);
            numbers.collect::<Result<_, _>>().with_context(|| name.to_string())
        };
        let ranges = integers("items")?;
        let items = ranges.chunks_exact(2).map(|pair| pair[0]..pair[1]).collect();

        let reasons: Vec<Reason> = zip4(
            integers("why.anchor")?,
            floats("why.similarity")?,
            floats("why.threshold")?,
            floats("why.surplus")?,
        )?
        .map(|(anchor, similarity, threshold, surplus)| Reason {
            anchor,
            similarity,
            threshold,
            surplus,
        })
        .collect();
        let why = split(reasons, &integers("best.reasons")?)?;
        let best =
            zip4(integers("best.index")?, floats("best.score")?, integers("best.hits")?, why)?
                .map(|(index, score, hits, why)| Pick {
                    index,
                    score,
                    hits: hits.checked_sub(1),
                    why,
                })
                .collect();

        let positions = integers("hits.position")?;
        let similarities = floats("hits.similarity")?;
        ensure!(positions.len() == similarities.len(), "its hits are damaged");
        let hits = positions
            .into_iter()
            .zip(similarities)
            .map(|(position, similarity)| Hit { position, similarity })
            .collect();
        let items_hit = integers("hits.item")?;
        let hits = split(hits, &integers("hits.count")?)?;
        ensure!(items_hit.len() == hits.len(), "its hits are damaged");
        let partial = Partial {
            items,
            keep: header.keep,
            best,
            hard_negatives: header.hard_negatives,
            anchors: integers("anchors")?,
            thresholds: floats("thresholds")?,
            hits: items_hit.into_iter().zip(hits).collect(),
        };
        let anchors = partial.anchors.len();
        let mut positions = partial.hits.iter().flat_map(|(_, hits)| hits);
        ensure!(
            partial.thresholds.len() == anchors
                && positions.all(|h| (h.position as usize) < anchors),
            "its anchors are damaged"
        );
        let pool = header.pool as u64;
        ensure!(
            ranges.len() % 2 == 0
                && partial.items.iter().all(|r| r.start <= r.end && u64::from(r.end) <= pool)
                && partial.best.iter().all(|pick| u64::from(pick.index) < pool),
            "its items are damaged"
        );
        Ok(Part { header, partial })
    }
}

fn integers(values: impl Iterator<Item = u32>) -> (Dtype, Vec<u8>) {
    (Dtype::U32, values.flat_map(u32::to_le_bytes).collect())
}

fn floats(values: impl Iterator<Item = f64>) -> (Dtype, Vec<u8>) {
    (Dtype::F64, values.flat_map(f64::to_le_bytes).collect())
}

/// Four lists of one length, side by side.
fn zip4<A, B, C, D>(
    a: Vec<A>,
    b: Vec<B>,
    c: Vec<C>,
    d: Vec<D>,
) -> Result<impl Iterator<Item = (A, B, C, D)>> {
    if a.len() != b.len() || a.len() != c.len() || a.len() != d.len() {
        bail!("its lists differ in length");
    }
    Ok(a.into_iter().zip(b).zip(c).zip(d).map(|(((a, b), c), d)| (a, b, c, d)))
}

/// Consecutive runs of the given lengths.
fn split<T>(values: Vec<T>, lengths: &[u32]) -> Result<Vec<Vec<T>>> {
    let total: u64 = lengths.iter().map(|&l| l as u64).sum();
    ensure!(total == values.len() as u64, "its lists differ in length");
    let mut values = values.into_iter();
    Ok(lengths.iter().map(|&l| values.by_ref().take(l as usize).collect()).collect())
}
