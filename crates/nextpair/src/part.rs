//! The contribution of shards to a selection on files, and how to finish it.

mod file;

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use nextpair_core::{Matrix, Progress, Side};
use nextpair_data::open;
use nextpair_engine::{
    BuiltIn, Chance, Finding, FindingInputs, Partial, Picks, Problem, Selection, Settings, Shard,
    Strategy, one_each, picked_rows, steady,
};
use serde::{Deserialize, Serialize};

use crate::{Error, Files};

/// The contribution of some shards of a pool to a selection, with all that is needed to finish it
/// elsewhere: the strategy and its settings, names, and the paths of the features.
pub struct Part {
    header: Header,
    partial: Partial,
}

/// The complaint about a part of another selection.
pub(crate) const OTHER_SELECTION: &str = "they were made with different settings or files";

/// Names of the items or pairs that a part mentions.
type Names = BTreeMap<u32, String>;

/// Everything but the numbers of a part, also the header of its file.
#[derive(Serialize, Deserialize)]
struct Header {
    fingerprint: String,
    /// With its parameters.
    strategy: String,
    budget: usize,
    pool: usize,
    explain: usize,
    keep: usize,
    hard_negatives: Option<u64>,
    ids: Option<Names>,
    anchor_ids: Option<Names>,
    /// Files of the vectors of the pool and of the pairs.
    vectors: Option<(PathBuf, PathBuf)>,
    /// What chance does: items of a pool, those with a hit, picks, those above an own pair, and hubs.
    chance: Option<[usize; 5]>,
    pool_of_texts: bool,
}

impl Part {
    /// Scores one shard of the pool; nothing is computed for the others. With another part of this selection, its
    /// thresholds are taken instead of computed again. If it is to inspect, it looks for what is wrong with the pairs and
    /// the shard; what is wrong with the picks is known when all parts are [finished](Finished::inspect).
    ///
    /// # Errors
    /// For one, if the strategy cannot be split, or if the other part is of another selection.
    pub fn score(
        selection: &Selection<Files>,
        shard: Shard,
        thresholds: Option<&Part>,
        inspect: bool,
        progress: &dyn Progress,
    ) -> Result<(Part, Vec<Finding>), Error> {
        let Selection { from, strategy, budget, settings, dedupe, .. } = selection;
        strategy.check_shardable()?;
        if from.refused.is_some() {
            let what = "what annotators refused is learned from the whole pool, not from a shard";
            return Err(Error::Files(what.to_owned()));
        }
        if dedupe.is_some() {
            let what = "duplicates are found in the whole pool, not in a shard; leave them out of the \
                        pool before it is split, or select from the whole pool";
            return Err(Error::Files(what.to_owned()));
        }
        if thresholds.is_some_and(|part| !part.is_of(selection)) {
            return Err(nextpair_engine::Error::Parts(OTHER_SELECTION.to_owned()).into());
        }
        let items = shard.items(from.items());
        let (partial, chance, found) = steady(from, || {
            let problem = from.problem_of(items, strategy, settings, progress)?;
            let mut problem = problem.settings(settings.clone()).read_once(inspect).build()?;
            if let Some(part) = thresholds {
                problem = problem.with_thresholds_of(strategy, &part.partial, progress)?;
            }
            let partial = problem.score(strategy, *budget, progress)?;
            let chance = problem.chance(strategy, *budget, progress)?;
            let found =
                if inspect { problem.inspect_inputs(strategy, progress)? } else { Vec::new() };
            Ok((partial, chance, found))
        })?;
        Ok((Part::new(selection, partial, chance)?, found))
    }

    fn new(
        selection: &Selection<Files>,
        partial: Partial,
        chance: Option<Chance>,
    ) -> Result<Self, Error> {
        let items = partial.best.iter().map(|pick| pick.index);
        let items = items.chain(partial.hits.iter().map(|(item, _)| *item));
        let anchors = partial.anchors.iter().copied();
        let whole = |path: &Path| {
            // Absolute, because the part may be finished elsewhere. Not canonical: a name with a
            // tensor behind it is not a file.
            std::path::absolute(path).map_err(|e| nextpair_core::Error::io(path, e))
        };
        let files = &selection.from;
        let header = Header {
            fingerprint: fingerprint(selection),
            strategy: selection.strategy.to_string(),
            budget: selection.budget,
            pool: files.items(),
            explain: selection.settings.explain,
            keep: partial.keep,
            hard_negatives: partial.hard_negatives,
            ids: files.pool_ids().map(|_| items.map(|i| (i, files.pool_id(i))).collect()),
            anchor_ids: files.pair_ids().map(|_| anchors.map(|j| (j, files.pair_id(j))).collect()),
            vectors: match files.vector_paths() {
                Some((pool, paired)) => Some((whole(pool)?, whole(paired)?)),
                None => None,
            },
            chance: chance.map(|it| [it.pool, it.hit, it.picks, it.above_own, it.hubs]),
            pool_of_texts: files.pool_side() == Side::Text,
        };
        Ok(Part { header, partial })
    }

    /// Loads parts and merges them, in any order.
    ///
    /// # Errors
    /// If there are none, or if they come from different selections.
    pub fn load_all<P: AsRef<Path>>(paths: &[P]) -> Result<Part, Error> {
        let mut paths = paths.iter().map(AsRef::as_ref);
        let Some(first) = paths.next() else { return Err(Error::Files("no parts".into())) };
        let mut whole = Part::load(first)?;
        for path in paths {
            let part = Part::load(path)?;
            if !whole.belongs_with(&part) {
                let (first, path) = (first.display(), path.display());
                let what = format!("{first} and {path} were made with different settings or files");
                return Err(Error::Files(what));
            }
            whole = whole
                .merge(part)
                .map_err(|source| Error::Misfit { path: path.to_path_buf(), source })?;
        }
        Ok(whole)
    }

    /// Whether both parts have the same settings and files.
    pub fn belongs_with(&self, other: &Part) -> bool {
        (&self.header.fingerprint, self.header.pool)
            == (&other.header.fingerprint, other.header.pool)
    }

    /// Whether it is a part of this selection.
    pub fn is_of(&self, selection: &Selection<Files>) -> bool {
        (&self.header.fingerprint, self.header.pool)
            == (&fingerprint(selection), selection.from.items())
    }

    /// Merges two parts into one.
    ///
    /// # Errors
    /// If they overlap, or come from different selections.
    pub fn merge(self, other: Part) -> Result<Part, nextpair_engine::Error> {
        if !self.belongs_with(&other) {
            return Err(nextpair_engine::Error::Parts(OTHER_SELECTION.into()));
        }
        let Part { mut header, partial } = self;
        let partial = partial.merge(other.partial)?;
        header.learn(other.header);
        Ok(Part { header, partial })
    }

    /// The contribution in numbers.
    pub fn partial(&self) -> &Partial {
        &self.partial
    }

    /// The strategy of the selection.
    pub fn strategy(&self) -> Result<BuiltIn, Error> {
        self.header.strategy.parse().map_err(Error::Files)
    }

    /// The picks, once the part covers every item of the pool.
    pub fn finish(self, progress: &dyn Progress) -> Result<Finished, Error> {
        let strategy = self.strategy()?;
        let Part { header, partial } = self;
        let settings = Settings { explain: header.explain, ..Settings::default() };
        let mut problem = Problem::of_pool(header.pool).settings(settings);
        if strategy.needs().features.is_some() {
            let missing = || nextpair_engine::Error::NoFeatures { strategy: strategy.name() };
            let (pool, paired) = header.features()?.ok_or_else(missing)?;
            problem = problem.features(pool, paired);
        }
        let picks = problem.build()?.finish(&strategy, partial, header.budget, progress)?;
        Ok(Finished { picks, strategy, header })
    }
}

/// A selection finished from parts.
pub struct Finished {
    /// The picks.
    pub picks: Picks,
    /// The strategy that picked.
    pub strategy: BuiltIn,
    header: Header,
}

impl Finished {
    /// The side of the pool.
    pub fn pool_side(&self) -> Side {
        self.header.side()
    }

    /// Whether the pool items have names.
    pub fn has_ids(&self) -> bool {
        self.header.ids.is_some()
    }

    /// The name of a pool item, or else its index.
    pub fn pool_id(&self, index: u32) -> String {
        name_of(self.header.ids.as_ref(), index)
    }

    /// The name of a pair, or else its index.
    pub fn pair_id(&self, index: u32) -> String {
        name_of(self.header.anchor_ids.as_ref(), index)
    }

    /// Looks for what is wrong with the picks, as far as the parts and the files of vectors tell: the
    /// files may be elsewhere, and then picks are compared neither with each other nor with pairs.
    pub fn inspect(&self, progress: &dyn Progress) -> Result<Vec<Finding>, Error> {
        let chance = self.header.chance;
        let chance = chance.map(|[pool, hit, picks, above_own, hubs]| Chance {
            pool,
            hit,
            picks,
            above_own,
            hubs,
        });
        let mut known = FindingInputs { chance, ..FindingInputs::default() };
        if let Ok(Some((pool, paired))) = self.header.features() {
            known.picked = Some(one_each(&picked_rows(&pool, &self.picks.indices()), progress)?);
            known.paired = Some(one_each(&paired, progress)?);
            let found = known.inspect(&self.picks, progress)?;
            [&pool, &paired].into_iter().try_for_each(|matrix| matrix.check_unchanged())?;
            return Ok(found);
        }
        Ok(known.inspect(&self.picks, progress)?)
    }
}

impl Header {
    /// Takes over the names of another part.
    fn learn(&mut self, other: Header) {
        for (mine, theirs) in [(&mut self.ids, other.ids), (&mut self.anchor_ids, other.anchor_ids)]
        {
            if let (Some(mine), Some(theirs)) = (mine, theirs) {
                mine.extend(theirs);
            }
        }
    }

    fn side(&self) -> Side {
        if self.pool_of_texts { Side::Text } else { Side::Image }
    }

    /// The vectors of the pool, which must still have the same number of items, and of its paired
    /// side, if there are any.
    fn features(&self) -> Result<Option<(Matrix, Matrix)>, Error> {
        let Some((pool_path, paired_path)) = &self.vectors else { return Ok(None) };
        let side = self.side();
        let pool = open(pool_path, side)?.matrix;
        if pool.rows() != self.pool {
            let (path, rows, items) = (pool_path.display(), pool.rows(), self.pool);
            let what =
                format!("{path}: {rows} items, but it had {items} when the parts were scored");
            return Err(Error::Files(what));
        }
        Ok(Some((pool, open(paired_path, side)?.matrix)))
    }
}

fn name_of(ids: Option<&Names>, index: u32) -> String {
    ids.and_then(|ids| ids.get(&index)).cloned().unwrap_or_else(|| index.to_string())
}

/// A fingerprint that parts of one selection share: of the settings, and of a sample of the
/// numbers.
fn fingerprint(selection: &Selection<Files>) -> String {
    let Selection { from: files, strategy, budget, settings, .. } = selection;
    let chosen = (strategy, budget, files.pool_side(), files.metric, settings);
    let dims: Vec<usize> = files.matrices().map(Matrix::dim).collect();
    let named = (files.pool_ids().is_some(), files.pair_ids().is_some(), dims);
    let mut hash = Fnv::new();
    hash.add(format!("{chosen:?} {named:?}").as_bytes());
    for matrix in files.matrices() {
        let sampled = || (0..matrix.rows()).step_by(matrix.rows().div_ceil(64).max(1));
        sampled().for_each(|row| matrix.will_need(row..row + 1));
        sampled().for_each(|row| hash.add(matrix.row_bytes(row)));
    }
    format!("{:016x}", hash.0)
}

/// The FNV-1a hash: the same on every machine, which the standard library does not promise.
struct Fnv(u64);

impl Fnv {
    fn new() -> Self {
        Fnv(0xcbf2_9ce4_8422_2325)
    }

    fn add(&mut self, bytes: &[u8]) {
        for &byte in bytes {
            self.0 = (self.0 ^ u64::from(byte)).wrapping_mul(0x0000_0100_0000_01b3);
        }
    }
}
