//! Ranks and recall of a retrieval model, from tiles.
//!
//! Ties: of equal similarities, the higher index ranks first (a stable ascending sort, reversed).

use rayon::prelude::*;

use crate::error::unless_stopped;
use crate::similarity::exact_values;
use crate::{Error, IndexSet, Progress, ROW_BLOCK, Similarity};

/// Ranks of the right answers, from 0.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Ranks {
    /// For each image, the best rank among its captions.
    pub text: Vec<u32>,
    /// For each caption, the rank of its image.
    pub image: Vec<u32>,
    /// For each image, the caption that ranks first.
    pub best_text: Vec<u32>,
    /// For each caption, the image that ranks first.
    pub best_image: Vec<u32>,
}

/// Recall in one direction.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Recall {
    /// Percentage of queries answered at rank 1, within 5 and within 10.
    pub at: [f64; 3],
    /// The median rank from 1, rounded down.
    pub median: f64,
    /// The mean rank from 1.
    pub mean: f64,
    /// The mean of `1 / rank`, ranks from 1.
    pub mean_reciprocal: f64,
    /// The mean of the natural logarithm of ranks from 1: 0 is perfect. Where recall counts only
    /// what crosses a depth, this moves with every rank.
    pub mean_log: f64,
}

impl Recall {
    /// Computes recall from ranks that count from 0. An empty list has a recall of 0.
    pub fn of(ranks: &[u32]) -> Self {
        let count = ranks.len().max(1) as f64;
        let within = |k| 100.0 * ranks.iter().filter(|&&r| r < k).count() as f64 / count;
        let mut sorted = ranks.to_vec();
        sorted.sort_unstable();
        let middle = |i: usize| sorted.get(i).map_or(0.0, |&r| r as f64);
        let half = sorted.len() / 2;
        let median = match sorted.len() % 2 {
            1 => middle(half),
            _ => (middle(half.saturating_sub(1)) + middle(half)) / 2.0,
        };
        let mean_of = |of: fn(f64) -> f64| ranks.iter().map(|&r| of(r as f64)).sum::<f64>() / count;
        let mean = mean_of(|rank| rank);
        Recall {
            at: [within(1), within(5), within(10)],
            median: median.floor() + 1.0,
            mean: mean + 1.0,
            mean_reciprocal: mean_of(|rank| 1.0 / (rank + 1.0)),
            mean_log: mean_of(f64::ln_1p),
        }
    }

    /// The sum of the three recalls; added over both directions, it is the rsum.
    pub fn sum(&self) -> f64 {
        self.at.iter().sum()
    }
}

/// One query: the right answer, how many answers are ahead of it, and the best answer so far.
#[derive(Clone, Copy)]
struct Query {
    right: Answer,
    ahead: u32,
    best: Answer,
}

#[derive(Clone, Copy, PartialEq)]
struct Answer {
    value: f64,
    index: u32,
}

impl Answer {
    fn beats(self, other: Answer) -> bool {
        self.value > other.value || (self.value == other.value && self.index > other.index)
    }
}

impl Query {
    /// Takes in one answer, whose value is between `at_least` and `at_most`. Calls `exact` if these
    /// bounds do not decide its place.
    fn meet(
        &mut self,
        index: u32,
        (at_least, at_most): (f64, f64),
        mut exact: impl FnMut() -> Result<f64, Error>,
    ) -> Result<(), Error> {
        if index == self.right.index || at_most < self.right.value {
            return Ok(());
        }
        if at_least > self.right.value && at_most < self.best.value {
            self.ahead += 1;
            return Ok(());
        }
        let answer = Answer { value: exact()?, index };
        self.ahead += u32::from(answer.beats(self.right));
        if answer.beats(self.best) {
            self.best = answer;
        }
        Ok(())
    }

    fn join(&mut self, other: &Query) {
        self.ahead += other.ahead;
        if other.best.beats(self.best) {
            self.best = other.best;
        }
    }
}

const CAPTION_BLOCK: usize = 512;

/// Ranks `images` (rows of the similarity) and `captions` (columns) against each other;
/// `image_of[caption]` is the row of a caption's image. Results follow the order of the lists.
pub fn ranks(
    similarity: &dyn Similarity,
    images: &[u32],
    captions: &[u32],
    image_of: &[u32],
    progress: &dyn Progress,
) -> Result<Ranks, Error> {
    progress.start("ranks", images.len() as u64 * captions.len() as u64);
    let (mut by_image, by_caption) = queries(similarity, images, captions, image_of, progress)?;
    let by_caption = images
        .par_chunks(ROW_BLOCK)
        .zip(by_image.par_chunks_mut(ROW_BLOCK))
        .try_fold(
            || by_caption.clone(),
            |mut by_caption, (images, by_image)| {
                unless_stopped(progress)?;
                meet_block(similarity, images, captions, by_image, &mut by_caption)?;
                progress.advance(images.len() as u64 * captions.len() as u64);
                Ok::<_, Error>(by_caption)
            },
        )
        .try_reduce(
            || by_caption.clone(),
            |mut all, part| {
                all.iter_mut().zip(&part).for_each(|(all, part)| all.join(part));
                Ok(all)
            },
        )?;
    Ok(Ranks {
        text: by_image.iter().map(|q| q.ahead).collect(),
        image: by_caption.iter().map(|q| q.ahead).collect(),
        best_text: by_image.iter().map(|q| q.best.index).collect(),
        best_image: by_caption.iter().map(|q| q.best.index).collect(),
    })
}

/// The queries of both directions, each with its right answer.
fn queries(
    similarity: &dyn Similarity,
    images: &[u32],
    captions: &[u32],
    image_of: &[u32],
    progress: &dyn Progress,
) -> Result<(Vec<Query>, Vec<Query>), Error> {
    let in_range =
        |set, indices: &[u32], len: usize| match indices.iter().position(|&i| i as usize >= len) {
            Some(position) => {
                let index = indices[position] as usize;
                Err(Error::IndexOutOfRange { set, position, index, len })
            }
            None => Ok(()),
        };
    in_range(IndexSet::Images, images, similarity.rows())?;
    in_range(IndexSet::Captions, captions, similarity.columns().min(image_of.len()))?;
    let mut place = vec![None; similarity.rows()];
    for (position, &image) in images.iter().enumerate() {
        place[image as usize] = Some(position);
    }
    let mut own: Vec<Vec<usize>> = vec![Vec::new(); images.len()];
    for (position, &caption) in captions.iter().enumerate() {
        let image = image_of[caption as usize];
        match place.get(image as usize).copied().flatten() {
            Some(of) => own[of].push(position),
            None => {
                let (caption, image) = (caption as usize, image as usize);
                return Err(Error::CaptionWithoutImage { caption, image, images: images.len() });
            }
        }
    }
    let start = |answer| Query { right: answer, ahead: 0, best: answer };
    let nothing = start(Answer { value: f64::NEG_INFINITY, index: 0 });
    let mut by_caption = vec![nothing; captions.len()];
    let mut by_image = Vec::with_capacity(images.len());
    for (&image, own) in images.iter().zip(&own) {
        unless_stopped(progress)?;
        let wanted: Vec<u32> = own.iter().map(|&p| captions[p]).collect();
        let values = exact_values(similarity, image, &wanted)?;
        let mut best: Option<Answer> = None;
        for ((&position, &caption), &value) in own.iter().zip(&wanted).zip(&values) {
            by_caption[position] = start(Answer { value, index: image });
            let answer = Answer { value, index: caption };
            best = Some(best.filter(|&best| !answer.beats(best)).unwrap_or(answer));
        }
        by_image.push(start(best.ok_or(Error::ImageWithoutCaption { image: image as usize })?));
    }
    Ok((by_image, by_caption))
}

/// Compares every query with the answers of one block of images.
fn meet_block(
    similarity: &dyn Similarity,
    images: &[u32],
    captions: &[u32],
    by_image: &mut [Query],
    by_caption: &mut [Query],
) -> Result<(), Error> {
    let mut tile = vec![0.0; images.len() * CAPTION_BLOCK.min(captions.len())];
    for (captions, by_caption) in
        captions.chunks(CAPTION_BLOCK).zip(by_caption.chunks_mut(CAPTION_BLOCK))
    {
        let tile = &mut tile[..images.len() * captions.len()];
        similarity.tile(images, captions, tile)?;
        let error = similarity.tile_error(images, captions);
        for ((values, &image), by_image) in
            tile.chunks_exact(captions.len()).zip(images).zip(by_image.iter_mut())
        {
            for ((&value, &caption), by_caption) in
                values.iter().zip(captions).zip(&mut *by_caption)
            {
                // A value that overflows single precision bounds nothing: the exact one decides.
                let bounds = if value.is_finite() {
                    (value as f64 - error, value as f64 + error)
                } else {
                    (f64::NEG_INFINITY, f64::INFINITY)
                };
                let exact = || Ok(exact_values(similarity, image, &[caption])?[0]);
                by_image.meet(caption, bounds, exact)?;
                by_caption.meet(image, bounds, exact)?;
            }
        }
    }
    Ok(())
}
