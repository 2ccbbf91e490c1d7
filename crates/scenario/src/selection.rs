//! Selection with a trained model, from pairs and a pool of its dataset.

use std::collections::HashMap;
use std::sync::Arc;

use nextpair_data::dataset::{FeatureSet, Features, Items};
use nextpair_data::{Matrix, Progress, Side};
use nextpair_engine::{
    Alike, Distinct, FEWEST_REFUSED, Finding, ItemFeatures, Known, Picks, Problem, ProblemBuilder,
    Queries, Rule, Settings, Similarity, StrategyName, Usability, distinct, group_labels,
    mean_features,
};
use nextpair_models::{Corpus, Encodings, Model, Pair, Texts};

use crate::item_vectors::rows_of;
use crate::{Error, ItemVectors};

/// A model, its training pairs, a pool, and the settings of a selection.
pub struct Selection<'a> {
    /// The dataset of pairs and pool.
    pub corpus: &'a Corpus,
    /// The model.
    pub model: &'a Model,
    /// The side of the pool.
    pub side: Side,
    /// Items, or captions if the pool holds texts.
    pub pool: &'a [usize],
    /// The training pairs.
    pub pairs: &'a [Pair],
    /// Item vectors, for strategies based on distances of images.
    pub vectors: &'a ItemVectors,
    /// The strategy.
    pub strategy: StrategyName,
    /// Scope, weights of hits, and seed.
    pub settings: &'a Settings,
    /// The kind of item vectors, for strategies based on distances.
    pub features: ItemFeatures,
    /// Items, or captions, that annotators refused: nothing that looks like them is picked.
    pub refused: Option<&'a [usize]>,
    /// When pool items count as duplicates of each other or of something paired, if they are not to be
    /// picked.
    pub dedupe: Option<Alike>,
    /// What people search for, for strategies that cover points of a pool of images.
    pub queries: Option<&'a Texts>,
}

impl Selection<'_> {
    /// Picks `budget` items. Returns an error if the dataset changed meanwhile.
    pub fn select(&self, budget: usize, progress: &dyn Progress) -> Result<Picks, Error> {
        Ok(self.answer(budget, false, progress)?.0)
    }

    /// Picks `budget` items, and looks for what is wrong with them and with the model. Returns an error
    /// if the dataset changed meanwhile.
    pub fn select_inspected(
        &self,
        budget: usize,
        progress: &dyn Progress,
    ) -> Result<(Picks, Vec<Finding>), Error> {
        self.answer(budget, true, progress)
    }

    fn answer(
        &self,
        budget: usize,
        inspect: bool,
        progress: &dyn Progress,
    ) -> Result<(Picks, Vec<Finding>), Error> {
        let only = |kept: &[u32]| -> Vec<usize> {
            kept.iter().map(|&at| self.pool[at as usize]).collect()
        };
        let placed = |(picks, found): (Picks, Vec<Finding>), kept: &[u32]| {
            let found: Vec<_> = found.into_iter().map(|finding| finding.among(kept)).collect();
            (picks.among(kept), found)
        };
        if let Some(refused) = self.refused {
            let kept = self.corpus.steady(|| self.usable(refused, budget, progress))?;
            let usable = Selection { pool: &only(&kept), refused: None, ..*self };
            let (picks, found) = placed(usable.answer(budget, inspect, progress)?, &kept);
            let left_out = Some(self.pool.len() - kept.len());
            return Ok((Picks { left_out, ..picks }, found));
        }
        if let Some(alike) = self.dedupe {
            let distinct = self.corpus.steady(|| self.distinct(alike, budget, progress))?;
            let kept = &distinct.kept;
            let others = Selection { pool: &only(kept), dedupe: None, ..*self };
            let (picks, found) = placed(others.answer(budget, inspect, progress)?, kept);
            return Ok((Picks { duplicates: Some(distinct.left_out()), ..picks }, found));
        }
        match self.answer_once(budget, inspect, progress) {
            // A score was farther from single precision than a sample led to expect. Single precision needs no
            // such bound, and its picks are the same by definition.
            Err(error) if error.is_too_rough() => {
                let exact = self.model.in_single_precision();
                Selection { model: &exact, ..*self }.answer_once(budget, inspect, progress)
            }
            answer => answer,
        }
    }

    fn answer_once(
        &self,
        budget: usize,
        inspect: bool,
        progress: &dyn Progress,
    ) -> Result<(Picks, Vec<Finding>), Error> {
        self.corpus.steady(|| {
            let problem = self.problem(progress)?;
            let picks = problem.select(self.strategy, budget, progress)?;
            let found = match inspect {
                true => self.known(&problem, &picks, progress)?.inspect(&picks, progress)?,
                false => Vec::new(),
            };
            Ok((picks, found))
        })
    }

    /// Returns what guards can look at. Captions that are words have no vectors of their own.
    fn known<'a>(
        &self,
        problem: &'a Problem,
        picks: &Picks,
        progress: &dyn Progress,
    ) -> Result<Known<'a>, Error> {
        let mut known = Known { problem: Some(problem), ..Known::default() };
        let Some(stored) = self.stored() else { return Ok(known) };
        let one_each = |which: &[usize]| -> Result<Matrix, Error> {
            let rows = rows_of(stored, which)?;
            Ok(if rows.locals() == 1 { rows } else { mean_features(&rows, progress)? })
        };
        let picked: Vec<usize> =
            picks.picks.iter().map(|pick| self.pool[pick.index as usize]).collect();
        let halves = self.paired();
        let place = |pair: &Pair| halves.partition_point(|&other| other < half(pair, self.side));
        known.pool = Some(rows_of(stored, self.pool)?);
        known.picked = Some(one_each(&picked)?);
        known.paired = Some(one_each(&halves)?.view(self.pairs.iter().map(place)));
        Ok(known)
    }

    /// Returns the stored features on the side of the pool.
    fn stored(&self) -> Option<(&FeatureSet, &Features)> {
        match self.side {
            Side::Image => Some(self.corpus.image_features()),
            Side::Text => self.corpus.text_features(),
        }
    }

    /// Returns the pool without its duplicates.
    fn distinct(
        &self,
        alike: Alike,
        budget: usize,
        progress: &dyn Progress,
    ) -> Result<Distinct, Error> {
        let (pool, paired) =
            self.vectors(ItemFeatures::Mean, (self.pool, &self.paired()), progress)?;
        let distinct = distinct(&pool, &paired, alike, progress)?;
        let left = distinct.kept.len();
        if budget > left {
            let what = format!(
                "the budget is {budget}, but without its duplicates the pool has only {left} of {} \
                 items",
                self.pool.len()
            );
            return Err(Error::setting("dedupe", what));
        }
        Ok(distinct)
    }

    /// Returns the places of the pool items that do not look like the refused ones, ascending.
    fn usable(
        &self,
        refused: &[usize],
        budget: usize,
        progress: &dyn Progress,
    ) -> Result<Vec<u32>, Error> {
        if refused.len() < FEWEST_REFUSED {
            return Ok((0..self.pool.len() as u32).collect());
        }
        let accepted = self.paired();
        let (pool, accepted) =
            self.vectors(ItemFeatures::Mean, (self.pool, &accepted), progress)?;
        let (refused, _) = self.vectors(ItemFeatures::Mean, (refused, &refused[..1]), progress)?;
        let (of, seed) = ((&accepted, &refused), self.settings.seed);
        Ok(Usability::choose_from(&pool, of, budget, seed, progress)?)
    }

    /// Returns the problem with all inputs of the strategy. All encoding happens here.
    pub fn problem(&self, progress: &dyn Progress) -> Result<Problem, Error> {
        let needs = self.strategy.needs();
        let rule =
            needs.matching.then(|| Rule::new(self.settings, self.pairs.len())).transpose()?;
        self.check_unread(rule.as_ref(), progress)?;
        let features = needs.features.then(|| self.features(progress)).transpose()?;
        let mut problem = match rule {
            Some(rule) => self.compared(&rule, progress)?,
            None => Problem::of_pool(self.pool.len()),
        };
        if let Some((pool, paired)) = features {
            problem = problem.features(pool, paired);
        }
        if let Some(queries) = self.queries {
            problem = problem.query_similarities(self.asked(queries, progress)?);
        }
        Ok(problem.settings(self.settings.clone()).build()?)
    }

    /// Compares pool and rivals with the anchors, by the similarity of the model.
    fn compared(&self, rule: &Rule, progress: &dyn Progress) -> Result<ProblemBuilder, Error> {
        let pool = self.encode(self.side, self.pool, progress)?;
        let rivals = self.encode_pairs(self.side, rule, progress)?;
        let anchors = self.encode_pairs(self.side.other(), rule, progress)?;
        let pool = self.model.similarity(self.side, &pool, &anchors)?;
        let paired = self.model.similarity(self.side, &rivals, &anchors)?;
        Ok(Problem::of_similarities(pool.into(), paired.into()))
    }

    /// Compares pool and paired items with what people search for.
    fn asked(&self, queries: &Texts, progress: &dyn Progress) -> Result<Queries, Error> {
        let queries = Encodings::of(&self.model.encode_texts(queries)?)?;
        let against = |which: &[usize]| -> Result<Arc<dyn Similarity>, Error> {
            let own = self.encode(self.side, which, progress)?;
            Ok(self.model.similarity(self.side, &own, &queries)?.into())
        };
        Ok(Queries { pool: against(self.pool)?, paired: against(&self.paired())? })
    }

    /// Checks the features that the selection does not read: NaN or infinity must be an error for
    /// every strategy. Encoding checks the others, which are the pool and the pairs in scope of
    /// strategies that use hits.
    fn check_unread(&self, rule: Option<&Rule>, progress: &dyn Progress) -> Result<(), Error> {
        let mut unread = vec![true; self.pairs.len()];
        let (anchors, rivals) = rule.map_or((&[][..], &[][..]), |r| (r.anchors(), r.rivals()));
        anchors.iter().chain(rivals).for_each(|&pair| unread[pair as usize] = false);
        let pool = if rule.is_none() { self.pool } else { &[] };
        let unread = || self.pairs.iter().zip(&unread).filter(|(_, unread)| **unread);
        let [images, texts] = [Side::Image, Side::Text].map(|side| {
            let own = pool.iter().copied().filter(|_| side == self.side);
            unread().map(|(pair, _)| half(pair, side)).chain(own).collect::<Vec<usize>>()
        });
        if images.is_empty() && texts.is_empty() {
            Ok(())
        } else {
            Ok(self.corpus.check_finite(images, texts, progress)?)
        }
    }

    fn encode(
        &self,
        side: Side,
        which: &[usize],
        progress: &dyn Progress,
    ) -> Result<Encodings, Error> {
        Ok(match side {
            Side::Image => Encodings::of_images(self.model, self.corpus, which, progress)?,
            Side::Text => Encodings::of_texts(self.model, self.corpus, which, progress)?,
        })
    }

    /// Encodes one half of every pair. Halves that several pairs share are encoded once. Pairs out
    /// of scope are not encoded: their rows are those of the first pair in scope, and are never
    /// read.
    fn encode_pairs(
        &self,
        side: Side,
        rule: &Rule,
        progress: &dyn Progress,
    ) -> Result<Encodings, Error> {
        let mut places = HashMap::new();
        let mut distinct = Vec::new();
        let mut order = vec![0; self.pairs.len()];
        for &pair in rule.anchors().iter().chain(rule.rivals()) {
            let half = half(&self.pairs[pair as usize], side);
            order[pair as usize] = *places.entry(half).or_insert_with(|| {
                distinct.push(half);
                distinct.len() as u32 - 1
            });
        }
        Ok(self.encode(side, &distinct, progress)?.arranged(order))
    }

    /// Returns the distinct halves of the pairs on the side of the pool, ascending.
    fn paired(&self) -> Vec<usize> {
        let mut paired: Vec<usize> = self.pairs.iter().map(|pair| half(pair, self.side)).collect();
        paired.sort_unstable();
        paired.dedup();
        paired
    }

    /// Returns one vector per pool item, and one per distinct half of the pairs on its side.
    fn features(&self, progress: &dyn Progress) -> Result<(Matrix, Matrix), Error> {
        self.vectors(self.features, (self.pool, &self.paired()), progress)
    }

    /// Returns one vector for each of two lists of items, or of captions.
    fn vectors(
        &self,
        kind: ItemFeatures,
        (some, others): (&[usize], &[usize]),
        progress: &dyn Progress,
    ) -> Result<(Matrix, Matrix), Error> {
        let encoded = |which: &[usize]| -> Result<Matrix, Error> {
            Ok(self.encode(self.side, which, progress)?.means()?)
        };
        match (self.stored(), kind) {
            (Some(stored), ItemFeatures::Mean | ItemFeatures::Bow) => {
                let (bags, seed) = (kind == ItemFeatures::Bow, self.settings.seed);
                self.vectors.of(stored, bags, (some, others), seed, progress)
            }
            (None, ItemFeatures::Bow) => {
                let what = "bow is for images; captions have the mean of their encoded words";
                Err(Error::setting("features", what))
            }
            (None, ItemFeatures::Mean) | (_, ItemFeatures::Encoded) => {
                Ok((encoded(some)?, encoded(others)?))
            }
        }
    }
}

/// Groups pairs that share an image or a text: they are never rivals. Returns one label per pair,
/// or `None` if every pair is alone. Texts are compared as stored: the import has trimmed them and
/// left the rest as written.
pub fn groups(items: &Items, pairs: &[Pair]) -> Result<Option<Vec<u32>>, Error> {
    let mut texts: HashMap<String, u32> = HashMap::new();
    let mut labels = Vec::with_capacity(pairs.len());
    let owner = |pair: &Pair| items.item_of_caption(pair.caption);
    for of_item in pairs.chunk_by(|a, b| owner(a) == owner(b)) {
        let item = owner(&of_item[0]);
        let (captions, first) = (items.get(item).captions, items.captions_of(item).start);
        for pair in of_item {
            let next = texts.len() as u32;
            let text = &captions[pair.caption - first];
            labels.push(*texts.entry(text.clone()).or_insert(next));
        }
    }
    let images: Vec<u32> = pairs.iter().map(|pair| pair.item as u32).collect();
    let groups = group_labels(pairs.len(), [&images[..], &labels])?;
    let alone = (0..).zip(&groups).all(|(pair, &first)| pair == first);
    Ok((!alone).then_some(groups))
}

/// Returns the half of a pair on a side: its item or its caption.
fn half(pair: &Pair, side: Side) -> usize {
    match side {
        Side::Image => pair.item,
        Side::Text => pair.caption,
    }
}
