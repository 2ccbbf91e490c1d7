//! Asking the engine with a trained model: the pairs it learned from, and what else there is.

use std::collections::HashMap;
use std::ops::Range;

use nextpair_data::dataset::Items;
use nextpair_data::{Matrix, Progress, Side};
use nextpair_engine::{Features, Matching, Question, Rule, StrategyName, group_labels};
use nextpair_models::{Corpus, Encodings, Model, Pair, Rows, with_similarity};

use crate::{Error, ItemFeatures, ItemVectors};

/// A model, the pairs it learned from, and a pool.
pub struct Selection<'a> {
    /// Where pairs and pool are from.
    pub corpus: &'a Corpus,
    /// The model.
    pub model: &'a Model,
    /// The half that the pool has.
    pub side: Side,
    /// Items, or captions where the pool is of texts.
    pub pool: &'a [usize],
    /// What is paired.
    pub pairs: &'a [Pair],
    /// For strategies that look at distances of images.
    pub vectors: &'a ItemVectors,
}

/// What a strategy looks at, and how.
#[derive(Clone, Copy)]
pub struct Ask<'a> {
    /// The strategy.
    pub strategy: StrategyName,
    /// For strategies that look at hits.
    pub rule: Option<&'a Rule>,
    /// For strategies that look at distances.
    pub features: ItemFeatures,
    /// Of every draw.
    pub seed: u64,
}

impl Selection<'_> {
    /// Asks `work` the question, about some of the pool. An error if the dataset changed meanwhile.
    pub fn ask<T, E: From<Error>>(
        &self,
        ask: Ask<'_>,
        items: Range<u32>,
        progress: &dyn Progress,
        work: impl FnOnce(&Question<'_>) -> Result<T, E>,
    ) -> Result<T, E> {
        // What the work says is kept aside: the corpus has errors of its own.
        let answered =
            self.corpus.steady(|| Ok::<_, Error>(self.answer(ask, items, progress, work)));
        answered?
    }

    fn answer<T, E: From<Error>>(
        &self,
        ask: Ask<'_>,
        items: Range<u32>,
        progress: &dyn Progress,
        work: impl FnOnce(&Question<'_>) -> Result<T, E>,
    ) -> Result<T, E> {
        self.check_unread(ask.rule, progress)?;
        let features = match ask.strategy.needs().features {
            true => Some(self.features(ask, progress)?),
            false => None,
        };
        let question = Question {
            pool: items.len(),
            matching: None,
            features: features.as_ref().map(|(pool, paired)| Features { pool, paired }),
            seed: ask.seed,
            progress,
        };
        let Some(rule) = ask.rule else { return work(&question) };
        let (scorer, rows) = (&self.model.scorer().map_err(Error::from)?, rows_of(self.side));
        let shard = &self.pool[items.start as usize..items.end as usize];
        let pool = self.encode(rows, shard, progress)?;
        let rivals = self.encode_pairs(self.side, rule, progress)?;
        let anchors = self.encode_pairs(other(self.side), rule, progress)?;
        // What the work says is kept aside: the similarity has errors of its own.
        let answered = with_similarity(scorer, (&pool, rows), &anchors, |pool| {
            with_similarity(scorer, (&rivals, rows), &anchors, |paired| {
                let matching = Some(Matching { pool, paired, rule });
                Ok::<_, nextpair_models::Error>(work(&Question { matching, ..question }))
            })
        });
        answered.map_err(Error::from)?
    }

    /// Looks at the numbers that nobody else does, of what the selection is about: a NaN or an
    /// infinity must not pass in silence because of who is asked. Encoding looks at the others: the
    /// pool and the pairs that take part, where hits are looked for.
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
        match images.is_empty() && texts.is_empty() {
            true => Ok(()),
            false => Ok(self.corpus.check_finite(images, texts, progress)?),
        }
    }

    fn encode(
        &self,
        what: Rows,
        which: &[usize],
        progress: &dyn Progress,
    ) -> Result<Encodings, Error> {
        Ok(match what {
            Rows::Images => Encodings::of_images(self.model, self.corpus, which, progress)?,
            Rows::Texts => Encodings::of_texts(self.model, self.corpus, which, progress)?,
        })
    }

    /// One half of every pair, encoded. What several pairs share is encoded once, and pairs that
    /// take no part are not at all: the first that does stands for them, and nobody looks.
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
        Ok(self.encode(rows_of(side), &distinct, progress)?.arranged(order))
    }

    /// One vector per item of the pool, and per half of the pairs on its side.
    fn features(&self, ask: Ask<'_>, progress: &dyn Progress) -> Result<(Matrix, Matrix), Error> {
        let mut paired: Vec<usize> = self.pairs.iter().map(|pair| half(pair, self.side)).collect();
        paired.sort_unstable();
        paired.dedup();
        let stored = match self.side {
            Side::Image => Some(self.corpus.image_features()),
            Side::Text => self.corpus.text_features(),
        };
        let Some(stored) = stored else {
            if ask.features == ItemFeatures::Bow {
                let what = "bow is for images; captions have the mean of their encoded words";
                return Err(Error::setting("features", what));
            }
            let means = |which: &[usize]| -> Result<Matrix, Error> {
                Ok(self.encode(Rows::Texts, which, progress)?.means()?)
            };
            return Ok((means(self.pool)?, means(&paired)?));
        };
        let which = (self.pool, &paired[..]);
        self.vectors.of(stored, ask.features, which, ask.seed, progress)
    }
}

/// Pairs that share an image or a text are never rivals: one label per pair, `None` where every
/// pair is alone. Texts are the same where their characters are, as captions stand in the dataset:
/// an import takes blanks around them away and leaves the rest as it was written.
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

fn other(side: Side) -> Side {
    match side {
        Side::Image => Side::Text,
        Side::Text => Side::Image,
    }
}

/// The half of a pair on a side: its item or its caption.
fn half(pair: &Pair, side: Side) -> usize {
    match side {
        Side::Image => pair.item,
        Side::Text => pair.caption,
    }
}

/// What the model encodes on a side.
fn rows_of(side: Side) -> Rows {
    match side {
        Side::Image => Rows::Images,
        Side::Text => Rows::Texts,
    }
}
