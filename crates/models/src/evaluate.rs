//! Evaluates how well a model finds captions for images and images for captions.
//!
//! Ties: of equal scores, the higher index ranks first. A NaN is an error.

use nextpair_data::Progress;
use nextpair_engine::{Recall, ranks};
use serde::{Deserialize, Serialize};

use crate::{Corpus, Encodings, Error, Model};

/// Recall in one direction.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Retrieval {
    /// Percentage of queries with a right answer at rank 1.
    pub r1: f64,
    /// Percentage within rank 5.
    pub r5: f64,
    /// Percentage within rank 10.
    pub r10: f64,
    /// The median rank, from 1.
    pub median_rank: f64,
    /// The mean rank, from 1.
    pub mean_rank: f64,
    /// The mean of `1 / rank`.
    pub mean_reciprocal_rank: f64,
    /// The mean of the natural logarithm of the rank.
    pub mean_log_rank: f64,
}

/// The rank of the right answer of every query, from 0, in the order of the evaluated items. With
/// folds, each is the rank within its fold.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct QueryRanks {
    /// For each image, the best rank among its captions.
    pub text: Vec<u32>,
    /// For each caption, the rank of its image: those of the first item, then of the second.
    pub image: Vec<u32>,
}

/// Recall in both directions, averaged over folds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Evaluation {
    /// Text retrieval: images as queries.
    pub text: Retrieval,
    /// Image retrieval: captions as queries.
    pub image: Retrieval,
    /// Sum of the six recalls.
    pub rsum: f64,
    /// Number of images.
    pub images: usize,
    /// Number of captions.
    pub captions: usize,
    /// Number of folds.
    pub folds: usize,
}

/// Images below which chance and skill cannot be told apart.
const FEWEST_IMAGES: f64 = 20.0;

impl Evaluation {
    /// Whether right answers come first no more often than by chance, and their mean rank is that of
    /// a useless model too. `None` if there are too few images to tell.
    pub fn is_near_chance(&self) -> Option<bool> {
        let (images, captions) = (self.images as f64, self.captions as f64);
        let folds = self.folds.max(1) as f64;
        if images / folds < FEWEST_IMAGES {
            return None;
        }
        let right = (self.text.r1 * images + self.image.r1 * captions) / 100.0;
        // An image has a share of its captions among those of its part, and a caption one image.
        let by_chance = folds + captions * folds / images;
        let few = right <= by_chance + 6.0 * by_chance.sqrt() + 2.0;
        Some(few && self.image.mean_rank >= 0.25 * images / folds)
    }
}

impl Retrieval {
    fn of(ranks: &[u32]) -> Self {
        let recall = Recall::of(ranks);
        let [r1, r5, r10] = recall.at;
        Retrieval {
            r1,
            r5,
            r10,
            median_rank: recall.median,
            mean_rank: recall.mean,
            mean_reciprocal_rank: recall.mean_reciprocal,
            mean_log_rank: recall.mean_log,
        }
    }

    fn numbers(&mut self) -> [&mut f64; 7] {
        let Retrieval { r1, r5, r10, median_rank, mean_rank, mean_reciprocal_rank, mean_log_rank } =
            self;
        [r1, r5, r10, median_rank, mean_rank, mean_reciprocal_rank, mean_log_rank]
    }

    fn mean(folds: &[Retrieval]) -> Self {
        let mut mean = Retrieval::default();
        for fold in folds {
            let mut fold = *fold;
            mean.numbers().into_iter().zip(fold.numbers()).for_each(|(sum, part)| *sum += *part);
        }
        // Divide once, at the end, to round once.
        mean.numbers().into_iter().for_each(|sum| *sum /= folds.len() as f64);
        mean
    }

    fn sum(&self) -> f64 {
        self.r1 + self.r5 + self.r10
    }
}

impl Evaluation {
    /// Returns recall by the ranks of queries, in one part.
    pub fn of(ranks: &QueryRanks) -> Self {
        let (text, image) = (Retrieval::of(&ranks.text), Retrieval::of(&ranks.image));
        let (images, captions) = (ranks.text.len(), ranks.image.len());
        Evaluation { text, image, rsum: text.sum() + image.sum(), images, captions, folds: 1 }
    }
}

/// Evaluates a model on items, each with all its captions. With `folds`, evaluates consecutive
/// parts of equal size separately and averages them (COCO's 1K protocol is five folds).
pub fn evaluate(
    model: &Model,
    corpus: &Corpus,
    items: &[usize],
    folds: usize,
    progress: &dyn Progress,
) -> Result<Evaluation, Error> {
    Ok(evaluate_ranks(model, corpus, items, folds, progress)?.0)
}

/// Evaluates like [`evaluate`], and returns the rank of every query as well.
pub fn evaluate_ranks(
    model: &Model,
    corpus: &Corpus,
    items: &[usize],
    folds: usize,
    progress: &dyn Progress,
) -> Result<(Evaluation, QueryRanks), Error> {
    if folds == 0 || !items.len().is_multiple_of(folds) || items.is_empty() {
        let what = format!("{} images do not divide into {folds} folds", items.len());
        return Err(Error::setting("folds", what));
    }
    let mut whole = Evaluation { images: items.len(), folds, ..Evaluation::default() };
    let (mut of_text, mut of_image) = (Vec::new(), Vec::new());
    let mut all_ranks = QueryRanks::default();
    for items in items.chunks(items.len() / folds) {
        let mut captions = Vec::new();
        let mut image_of = Vec::new();
        for (image, &item) in items.iter().enumerate() {
            let own: Vec<usize> = corpus.captions_of(item).collect();
            if own.is_empty() {
                let id = corpus.dataset().items().get(item).id;
                return Err(Error::Dataset { what: format!("item {id} has no caption") });
            }
            image_of.extend(own.iter().map(|_| image as u32));
            captions.extend(own);
        }
        let ranks = ranks_among(model, corpus, (items, &captions), &image_of, progress)?;
        of_text.push(Retrieval::of(&ranks.text));
        of_image.push(Retrieval::of(&ranks.image));
        all_ranks.text.extend(ranks.text);
        all_ranks.image.extend(ranks.image);
        whole.captions += captions.len();
    }
    whole.text = Retrieval::mean(&of_text);
    whole.image = Retrieval::mean(&of_image);
    whole.rsum = whole.text.sum() + whole.image.sum();
    Ok((whole, all_ranks))
}

/// Ranks images and captions for each other; `image_of` has the place of every caption's image.
fn ranks_among(
    model: &Model,
    corpus: &Corpus,
    (items, captions): (&[usize], &[usize]),
    image_of: &[u32],
    progress: &dyn Progress,
) -> Result<QueryRanks, Error> {
    let images = Encodings::of_images(model, corpus, items, progress)?;
    let texts = Encodings::of_texts(model, corpus, captions, progress)?;
    let similarity = model.evaluated(&images, &texts, progress)?;
    let all = |count: usize| (0..count as u32).collect::<Vec<_>>();
    let (every_image, every_caption) = (all(items.len()), all(captions.len()));
    let ranks = ranks(&*similarity, &every_image, &every_caption, image_of, progress)?;
    Ok(QueryRanks { text: ranks.text, image: ranks.image })
}
