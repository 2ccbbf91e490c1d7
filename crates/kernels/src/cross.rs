//! Attention matching: how well an image and a caption agree, word by word or region by region.
//!
//! Every query of an item attends to the rows of a context, and is compared with its attended
//! vector. Text-to-image matching takes the words of captions as queries and the regions of images
//! as contexts; image-to-text matching swaps them. One step is stacked cross attention (SCAN,
//! <https://arxiv.org/abs/1803.08024>); several steps with a gated memory between them are the
//! recurrent attention memory of IMRAM (<https://arxiv.org/abs/2003.03772>).
//!
//! The code rearranges the published formulas without changing their meaning. It never forms
//! attended vectors. It projects attended rows through the memory once per context, and first
//! queries once per query. It skips the last refinement, which nothing uses.
//!
//! The score of a pair has the same bits, whatever else is scored with it.

mod aggregation;
mod all_pairs;
mod attention;
mod backward;
mod chunk;
mod context;
mod forward;
mod gradients;
mod lengths;
mod memory;
mod ragged;
mod reference;
mod some_pairs;
mod spans;
mod update;

pub use aggregation::Aggregation;
pub use attention::{Attention, Normaliser};
pub use gradients::PairGradients;
pub use memory::Memory;
pub use ragged::Ragged;
pub(crate) use reference::{PlainMemory, steps};

use crate::Error;
use memory::Gated;

/// Contexts whose tables are kept at a time.
const CONTEXTS: usize = 256;

/// Rows of queries whose tables are kept at a time.
const QUERIES: usize = 4096;

/// Scores pairs of a context and an item of queries.
///
/// ```
/// use nextpair_kernels::{Aggregation, Attention, Matcher, Normaliser, Ragged};
///
/// let attention = Attention {
///     temperature: 9.0,
///     normaliser: Normaliser::ClippedL2,
///     aggregation: Aggregation::Mean,
///     steps: 1,
///     normalise_memory: false,
/// };
/// let matcher = Matcher::new(2, attention, None)?;
/// // An image of two regions, an image of one, and a caption of one word.
/// let images = Ragged { dim: 2, values: &[1.0, 0.0, 0.0, 1.0, -1.0, 0.0], offsets: &[0, 2, 3] };
/// let captions = Ragged { dim: 2, values: &[1.0, 0.0], offsets: &[0, 1] };
/// let mut scores = [0.0; 2];
/// matcher.scores(images, captions, &mut scores)?;
/// assert!(scores[0] > 0.9 && scores[1] == -1.0);
/// # Ok::<(), nextpair_kernels::Error>(())
/// ```
#[derive(Debug)]
pub struct Matcher {
    dim: usize,
    attention: Attention,
    memory: Option<Gated>,
}

impl Matcher {
    /// A matcher of vectors of `dim` dimensions. More than one step needs a memory.
    pub fn new(
        dim: usize,
        attention: Attention,
        memory: Option<Memory<'_>>,
    ) -> Result<Self, Error> {
        attention.check()?;
        if dim == 0 {
            return Err(Error::ZeroDimensions);
        }
        let memory = match memory {
            Some(memory) if attention.steps > 1 => Some(Gated::new(dim, memory)?),
            None if attention.steps > 1 => {
                return Err(Error::NoMemory { steps: attention.steps });
            }
            _ => None,
        };
        Ok(Matcher { dim, attention, memory })
    }

    /// Writes the scores of all pairs to `out`: one row per context, one number per item of the
    /// queries.
    pub fn scores(
        &self,
        contexts: Ragged<'_>,
        queries: Ragged<'_>,
        out: &mut [f32],
    ) -> Result<(), Error> {
        self.check(contexts, queries)?;
        Error::check_len("the scores", out.len(), contexts.len() * queries.len())?;
        self.all_pairs(contexts, queries, |context, item, steps| {
            out[context * queries.len() + item] = steps.iter().sum::<f64>() as f32;
        });
        Ok(())
    }

    /// Writes the scores of some pairs of a context and an item of the queries to `out`; they equal
    /// those of [`Matcher::scores`].
    pub fn pair_scores(
        &self,
        contexts: Ragged<'_>,
        queries: Ragged<'_>,
        pairs: &[(u32, u32)],
        out: &mut [f32],
    ) -> Result<(), Error> {
        self.check(contexts, queries)?;
        check_pairs(contexts, queries, pairs)?;
        Error::check_len("the scores", out.len(), pairs.len())?;
        self.some_pairs(contexts, queries, pairs, out);
        Ok(())
    }

    fn check(&self, contexts: Ragged<'_>, queries: Ragged<'_>) -> Result<(), Error> {
        contexts.check("the contexts", self.dim)?;
        queries.check("the queries", self.dim)
    }
}

fn check_pairs(
    contexts: Ragged<'_>,
    queries: Ragged<'_>,
    pairs: &[(u32, u32)],
) -> Result<(), Error> {
    for (position, &(context, item)) in pairs.iter().enumerate() {
        let sides = [
            ("contexts of the pairs", context, contexts.len()),
            ("queries of the pairs", item, queries.len()),
        ];
        for (set, index, len) in sides {
            if index as usize >= len {
                let index = index as usize;
                return Err(Error::IndexOutOfRange { set, position, index, len });
            }
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests;
