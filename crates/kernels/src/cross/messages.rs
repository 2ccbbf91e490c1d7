//! Scores of CAMP for all pairs (Wang, Liu, Li, Sheng, Yan, Wang and Shao, ICCV 2019,
//! <https://arxiv.org/abs/1909.05506>): words and regions send each other messages, and take in what
//! gates let through.
//!
//! What belongs to one image or caption is projected once. A message is a weighted mean of the other
//! side's vectors, so its products, norms and projections follow from weights and tables. What is left of
//! the size of a vector for every pair is what a pooling layer makes of fused vectors, because these have
//! gone through a rectifier.

mod items;
mod pair;

use std::cell::RefCell;
use std::ops::Range;

use rayon::prelude::*;

use crate::elementwise::sigmoid_all;
use crate::packed::{Left, Packed};

use super::Ragged;
use super::aligned::repeat;
use super::chunk::cuts;
use super::rows::{dots, unit, weighted_sum};
use items::Items;
pub(crate) use items::{Pool, SideWeights};
use pair::{Pair, Seen};

/// Images whose tables are kept at a time: there are several for each.
const IMAGES: usize = 64;

/// Words that are compared with an image together.
const LANES: Range<usize> = 96..192;

/// The forms of CAMP.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MessageForm {
    /// Pooled messages are compared.
    CrossAttention,
    /// Means of messages that attend to each other are compared. A caption is padded with zeros to this
    /// many words, which take part in the mean.
    CrossAttentionNew {
        /// Words of every caption.
        padded: usize,
    },
    /// Messages are fused with what they are sent to, through gates.
    GateFusion,
    /// The same with messages that attend to each other, at unit norm.
    GateFusionNew,
}

impl MessageForm {
    /// Whether messages attend to each other.
    pub(crate) fn is_new(self) -> bool {
        matches!(self, MessageForm::CrossAttentionNew { .. } | MessageForm::GateFusionNew)
    }

    /// Whether messages are fused with what they are sent to.
    pub(crate) fn fuses(self) -> bool {
        matches!(self, MessageForm::GateFusion | MessageForm::GateFusionNew)
    }
}

/// Weights of the score of fused vectors.
pub(crate) struct ScoreWeights {
    pub(crate) hidden: Packed,
    pub(crate) hidden_bias: Vec<f32>,
    pub(crate) score: Vec<f32>,
    pub(crate) bias: f32,
}

/// Scores pairs.
pub(crate) struct Messages {
    pub(crate) dim: usize,
    pub(crate) form: MessageForm,
    pub(crate) image: SideWeights,
    pub(crate) text: SideWeights,
    pub(crate) score: Option<ScoreWeights>,
}

/// Some captions, whose words stand side by side.
struct Group {
    captions: Range<usize>,
    /// The words of each caption, from that of the first caption on.
    lanes: Vec<Range<usize>>,
    words: Packed,
    keys: Packed,
    queries: Option<Packed>,
}

/// What becomes of the rows of one side.
struct Fused {
    /// Vectors after the rectifier, one row for each row of a pair.
    rows: Vec<f32>,
    hidden: Vec<f32>,
    logits: Vec<f32>,
    /// The pooled vector of each pair.
    pooled: Vec<f32>,
}

impl Fused {
    fn new() -> Self {
        let [rows, hidden, logits, pooled] = [const { Vec::new() }; 4];
        Fused { rows, hidden, logits, pooled }
    }
}

thread_local! {
    static SCRATCH: RefCell<(Seen, [Fused; 2])> =
        RefCell::new((Seen::default(), [Fused::new(), Fused::new()]));
}

impl Messages {
    /// Writes the scores of all pairs: a row per image.
    pub(crate) fn scores(&self, images: Ragged<'_>, texts: Ragged<'_>, out: &mut [f32]) {
        let count = texts.len();
        let of_texts = Items::new(&self.text, texts);
        let groups = self.groups(&of_texts, texts);
        for first in (0..images.len()).step_by(IMAGES) {
            let end = images.len().min(first + IMAGES);
            let of_images = Items::new(&self.image, images.slice(first..end));
            let tasks: Vec<(usize, usize)> = (0..groups.len())
                .flat_map(|group| (0..end - first).map(move |image| (group, image)))
                .collect();
            let scores: Vec<Vec<f32>> = tasks
                .par_iter()
                .with_max_len(1)
                .map(|&(group, image)| {
                    SCRATCH.with_borrow_mut(|(seen, fused)| {
                        let both = (&of_images, &of_texts);
                        self.group_scores(both, image, &groups[group], seen, fused)
                    })
                })
                .collect();
            for ((group, image), scores) in tasks.into_iter().zip(scores) {
                let row = &mut out[(first + image) * count..][..count];
                row[groups[group].captions.clone()].copy_from_slice(&scores);
            }
        }
    }

    fn groups(&self, items: &Items, texts: Ragged<'_>) -> Vec<Group> {
        let rows: Vec<usize> = (0..texts.len()).map(|text| texts.rows_of(text).len()).collect();
        let dim = self.dim;
        let group = |captions: Range<usize>| {
            let (first, end) = (items.offsets[captions.start], items.offsets[captions.end]);
            let across =
                |rows: &[f32]| Packed::transposed(end - first, dim, &rows[first * dim..end * dim]);
            let lanes = captions.clone().map(|at| items.rows_of(at));
            Group {
                lanes: lanes.map(|rows| rows.start - first..rows.end - first).collect(),
                captions,
                words: across(&items.values),
                keys: across(&items.keys),
                queries: items.queries.as_deref().map(across),
            }
        };
        cuts(&rows, LANES).into_par_iter().map(group).collect()
    }

    /// The scores of an image with the captions of a group.
    fn group_scores(
        &self,
        (images, texts): (&Items, &Items),
        image: usize,
        group: &Group,
        seen: &mut Seen,
        [of_image, of_text]: &mut [Fused; 2],
    ) -> Vec<f32> {
        let (dim, regions) = (self.dim, images.rows_of(image));
        let scale = 1.0 / (dim as f32).sqrt();
        let rows = |table: &'_ [f32]| table[regions.start * dim..regions.end * dim].to_vec();
        let wide = regions.len() * group.words.columns();
        let product = |right: &Packed, left: &[f32]| {
            let mut out = vec![0.0; wide];
            right.multiply(Left::rows(left, dim), &mut out);
            out
        };
        let values = rows(&images.values);
        let products = product(&group.words, &values);
        // Regions ask words, and words ask regions.
        let (to_words, to_regions) = match (&images.queries, &group.queries) {
            (Some(of_image), Some(of_text)) => {
                (product(&group.keys, &rows(of_image)), Some(product(of_text, &rows(&images.keys))))
            }
            _ => (product(&group.keys, &rows(&images.keys)), None),
        };
        let to_regions = to_regions.as_ref().unwrap_or(&to_words);
        let (mut scores, mut factors) = (Vec::new(), [Vec::new(), Vec::new()]);
        of_image.rows.clear();
        of_text.rows.clear();
        for (lanes, caption) in group.lanes.iter().zip(group.captions.clone()) {
            let wide = (group.words.columns(), lanes.clone());
            seen.take(regions.len(), wide, (&products, &to_words, to_regions), scale);
            let pair = Pair { form: self.form, images, texts, image, caption, scale };
            match self.form {
                MessageForm::CrossAttentionNew { padded } => {
                    scores.push(pair.of_means(seen, padded));
                }
                MessageForm::CrossAttention => {
                    scores.push(pair.of_pools(seen, (&self.image, &self.text)));
                }
                _ => {
                    pair.fuse(
                        seen,
                        (&self.image, &self.text),
                        &mut of_image.rows,
                        &mut of_text.rows,
                    );
                    factors[0].push(regions.len());
                    factors[1].push(lanes.len());
                }
            }
        }
        let Some(score) = &self.score else { return scores };
        let [of_regions, of_words] = factors;
        let each = |captions: Range<usize>| captions.map(|_| regions.clone()).collect::<Vec<_>>();
        let whole: Vec<Range<usize>> = each(group.captions.clone());
        let words: Vec<Range<usize>> = group.captions.clone().map(|at| texts.rows_of(at)).collect();
        self.pool(&self.image, (images, &whole), &of_regions, of_image);
        self.pool(&self.text, (texts, &words), &of_words, of_text);
        self.scored(score, &of_image.pooled, &of_text.pooled)
    }

    /// Pools the fused rows of one side: `places` has the rows of each item among all of its side.
    fn pool(
        &self,
        weights: &SideWeights,
        (items, places): (&Items, &[Range<usize>]),
        counts: &[usize],
        fused: &mut Fused,
    ) {
        let dim = self.dim;
        let Fused { rows, hidden, logits, pooled } = fused;
        let pool = weights.pool.as_ref().expect("forms that fuse also pool");
        let table = items.pooled.as_ref().expect("forms that fuse also pool");
        hidden.clear();
        for place in places {
            hidden.extend_from_slice(&table[place.start * dim..place.end * dim]);
        }
        pool.first.multiply_add(Left::rows(rows, dim), hidden);
        hidden.iter_mut().for_each(|x| *x = x.max(0.0));
        logits.resize(rows.len() / dim * pool.heads, 0.0);
        pool.second.multiply(Left::rows(hidden, dim), logits);
        // What was fused, with what it was added to.
        let mut at = 0;
        for place in places {
            let own = &items.values[place.start * dim..place.end * dim];
            rows[at..].iter_mut().zip(own).for_each(|(x, v)| *x += v);
            at += own.len();
        }
        pooled.resize(counts.len() * dim, 0.0);
        let mut first = 0;
        for (&count, out) in counts.iter().zip(pooled.chunks_exact_mut(dim)) {
            let shares =
                pair::shares(&logits[first * pool.heads..][..count * pool.heads], pool.heads);
            weighted_sum(&rows[first * dim..(first + count) * dim], &shares, out);
            first += count;
        }
        if self.form == MessageForm::GateFusionNew {
            unit(pooled, dim);
        }
    }

    fn scored(&self, score: &ScoreWeights, of_image: &[f32], of_text: &[f32]) -> Vec<f32> {
        let dim = self.dim;
        let both = of_image.chunks_exact(dim).zip(of_text.chunks_exact(dim));
        let both: Vec<f32> = both.flat_map(|(a, b)| a.iter().chain(b)).copied().collect();
        let mut hidden = Vec::new();
        repeat(&score.hidden_bias, both.len() / (2 * dim), &mut hidden);
        score.hidden.multiply_add(Left::rows(&both, 2 * dim), &mut hidden);
        hidden.iter_mut().for_each(|x| *x = x.max(0.0));
        let mut scores = Vec::new();
        dots(&score.score, &hidden, &mut scores);
        scores.iter_mut().for_each(|x| *x += score.bias);
        sigmoid_all(&mut scores);
        scores
    }
}
