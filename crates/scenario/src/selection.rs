//! Selection with a trained model, from pairs and a pool of its dataset.

use std::borrow::Cow;
use std::collections::HashMap;
use std::sync::Arc;

use nextpair_data::dataset::{FeatureSet, Features, Items};
use nextpair_data::{Matrix, Progress, Side};
use nextpair_engine::{
    BuiltIn, Candidates, FEWEST_REFUSED, ItemFeatures, ItemNumbers, Problem, ProblemBuilder,
    Queries, Refused, Rule, Settings, Similarity, Strategy, group_labels,
};
use nextpair_models::{Corpus, Encodings, Model, Pair, Texts};

use crate::item_vectors::rows_of;
use crate::{Error, ItemVectors};

/// Items of a dataset as a model sees them.
#[derive(Clone)]
pub struct ModelCandidates<'a> {
    /// The dataset of pairs and pool.
    pub corpus: &'a Corpus,
    /// The model.
    pub model: Cow<'a, Model>,
    /// The side of the pool.
    pub side: Side,
    /// Items, or captions if the pool holds texts.
    pub pool: Cow<'a, [usize]>,
    /// The training pairs.
    pub pairs: &'a [Pair],
    /// Item vectors, for strategies based on distances of images.
    pub vectors: &'a ItemVectors,
    /// Items, or captions, that annotators refused: nothing that looks like them is picked.
    pub refused: Option<&'a [usize]>,
    /// What people search for, for strategies that cover points of a pool of images.
    pub queries: Option<&'a Texts>,
}

impl Candidates for ModelCandidates<'_> {
    type Error = Error;

    fn items(&self) -> usize {
        self.pool.len()
    }

    fn only(&self, kept: &[u32]) -> Self {
        let pool: Vec<usize> = kept.iter().map(|&at| self.pool[at as usize]).collect();
        ModelCandidates { pool: pool.into(), refused: None, ..self.clone() }
    }

    fn check_unchanged(&self) -> Result<(), Error> {
        Ok(self.corpus.check_unchanged()?)
    }

    /// All encoding happens here.
    fn problem(
        &self,
        strategy: &BuiltIn,
        settings: &Settings,
        progress: &dyn Progress,
    ) -> Result<ProblemBuilder, Error> {
        let needs = strategy.needs();
        let rule =
            needs.matching.map(|hits| Rule::new(hits, settings, self.pairs.len())).transpose()?;
        self.check_unread(rule.as_ref(), progress)?;
        let features =
            needs.features.map(|kind| self.features(kind, settings, progress)).transpose()?;
        let mut problem = match rule {
            Some(rule) => self.compared(&rule, progress)?,
            None => Problem::of_pool(self.pool.len()),
        };
        if let Some((pool, paired)) = features {
            problem = problem.features(pool, paired);
        }
        Ok(match self.queries {
            Some(queries) => problem.query_similarities(self.asked(queries, progress)?),
            None => problem,
        })
    }

    fn features(
        &self,
        kind: ItemFeatures,
        settings: &Settings,
        progress: &dyn Progress,
    ) -> Result<(Matrix, Matrix), Error> {
        self.vectors_of((&self.pool, &self.paired()), kind, settings.seed, progress)
    }

    fn refused(&self, progress: &dyn Progress) -> Result<Option<Refused>, Error> {
        let Some(refused) = self.refused else { return Ok(None) };
        let vectors = match refused.len() < FEWEST_REFUSED {
            true => None,
            false => {
                Some(self.vectors_of((refused, &refused[..1]), ItemFeatures::Mean, 0, progress)?.0)
            }
        };
        Ok(Some(Refused { in_pool: Vec::new(), vectors }))
    }

    fn pairs_of_rows(&self) -> Option<Vec<u32>> {
        let mut first = HashMap::new();
        for (at, pair) in (0..).zip(self.pairs) {
            first.entry(half(pair, self.side)).or_insert(at);
        }
        Some(self.paired().iter().map(|half| first[half]).collect())
    }

    fn numbers(&self) -> Result<ItemNumbers, Error> {
        // Captions that are words have no vectors of their own.
        let Some(stored) = self.stored_features() else { return Ok(ItemNumbers::default()) };
        let halves: Vec<usize> = self.pairs.iter().map(|pair| half(pair, self.side)).collect();
        let (pool, paired) = (rows_of(stored, &self.pool)?, rows_of(stored, &halves)?);
        Ok(ItemNumbers { rows: Some(pool.clone()), vectors: Some((pool, paired)), anchors: None })
    }

    /// A score may be farther from single precision than a sample led to expect. Single precision itself needs no such
    /// bound, and its picks are the same by definition.
    fn more_exact(&self, error: &Error) -> Option<Self> {
        let model = || Cow::Owned(self.model.in_single_precision());
        error.is_too_rough().then(|| ModelCandidates { model: model(), ..self.clone() })
    }
}

impl ModelCandidates<'_> {
    /// Returns the stored features on the side of the pool.
    fn stored_features(&self) -> Option<(&FeatureSet, &Features)> {
        match self.side {
            Side::Image => Some(self.corpus.image_features()),
            Side::Text => self.corpus.text_features(),
        }
    }

    /// Compares pool and rivals with the anchors, by the similarity of the model.
    fn compared(&self, rule: &Rule, progress: &dyn Progress) -> Result<ProblemBuilder, Error> {
        let pool = self.encode(self.side, &self.pool, progress)?;
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
        Ok(Queries { pool: against(&self.pool)?, paired: against(&self.paired())? })
    }

    /// Checks the features that the selection does not read: NaN or infinity must be an error for
    /// every strategy. Encoding checks the others, which are the pool and the pairs in scope of
    /// strategies that use hits.
    fn check_unread(&self, rule: Option<&Rule>, progress: &dyn Progress) -> Result<(), Error> {
        let mut unread = vec![true; self.pairs.len()];
        let (anchors, rivals) = rule.map_or((&[][..], &[][..]), |r| (r.anchors(), r.rivals()));
        anchors.iter().chain(rivals).for_each(|&pair| unread[pair as usize] = false);
        let pool: &[usize] = if rule.is_none() { &self.pool } else { &[] };
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
            Side::Image => Encodings::of_images(&self.model, self.corpus, which, progress)?,
            Side::Text => Encodings::of_texts(&self.model, self.corpus, which, progress)?,
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

    /// Returns one vector for each of two lists of items, or of captions.
    fn vectors_of(
        &self,
        (some, others): (&[usize], &[usize]),
        kind: ItemFeatures,
        seed: u64,
        progress: &dyn Progress,
    ) -> Result<(Matrix, Matrix), Error> {
        let encoded = |which: &[usize]| -> Result<Matrix, Error> {
            Ok(self.encode(self.side, which, progress)?.means()?)
        };
        match (self.stored_features(), kind) {
            (Some(stored), ItemFeatures::Mean | ItemFeatures::Bow) => {
                let bags = kind == ItemFeatures::Bow;
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
