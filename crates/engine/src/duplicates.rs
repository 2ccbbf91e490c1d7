//! Duplicates: items with the same numbers, or of nearly the same direction.

mod copies;
mod near;

use nextpair_core::Matrix;

use crate::{Error, Progress, Vectors};
pub(crate) use copies::{copies_among, first_copies, stored_print};
pub(crate) use near::Search;

/// When two items count as duplicates.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Alike {
    /// All their numbers are equal.
    Exact,
    /// The cosine of their vectors is at least this, or all their numbers are equal.
    Cosine(f64),
}

impl Alike {
    /// Fails unless the cosine is above 0 and at most 1.
    pub fn check(self) -> Result<(), Error> {
        match self {
            Alike::Cosine(value) if !(value > 0.0 && value <= 1.0) => {
                Err(Error::NotACosine { value })
            }
            _ => Ok(()),
        }
    }
}

/// A pool without its duplicates.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Distinct {
    /// The items that are left, ascending: the first of every group of duplicates.
    pub kept: Vec<u32>,
    /// Items left out that are like a paired one.
    pub like_paired: usize,
    /// Items left out that are like an earlier one of the pool.
    pub like_earlier: usize,
}

impl Distinct {
    /// Items left out.
    pub fn left_out(&self) -> usize {
        self.like_paired + self.like_earlier
    }
}

impl std::str::FromStr for Alike {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        if text == "exact" {
            return Ok(Alike::Exact);
        }
        let wrong = |why: String| format!("{why}; duplicates are `exact`, or told by a cosine");
        let cosine = text.parse().map_err(|_| wrong(format!("'{text}' is not a number")))?;
        let alike = Alike::Cosine(cosine);
        alike.check().map(|()| alike).map_err(|error| wrong(error.to_string()))
    }
}

/// Names of the two in errors.
const POOL: &str = "the pool items";
const PAIRED: &str = "the paired items";

/// Deduplicates the pool in order: drops every item like a paired one or like an earlier item that was kept. The answer
/// is the same for any number of threads.
///
/// # Errors
/// For one, if items have several vectors or none of a direction and a cosine is asked for.
pub fn distinct(
    pool: &Matrix,
    paired: &Matrix,
    alike: Alike,
    progress: &dyn Progress,
) -> Result<Distinct, Error> {
    alike.check()?;
    for (what, rows) in [(POOL, pool.rows()), (PAIRED, paired.rows())] {
        if u32::try_from(rows).is_err() {
            return Err(Error::TooManyRows { what, rows });
        }
    }
    let pairs = paired.rows();
    let first = first_copies(&[paired, pool], progress)?;
    let mut state = near::State::new(pool.rows());
    // Equal items are like the same others, so that this comes first whatever is asked for.
    for (item, &first) in first[pairs..].iter().enumerate() {
        match first {
            first if first < pairs => state.drop_like_paired(item as u32),
            first if first < pairs + item => state.drop_like_earlier(item as u32),
            _ => {}
        }
    }
    if let Alike::Cosine(cosine) = alike {
        let distinct_pairs: Vec<u32> =
            (0..pairs as u32).filter(|&pair| first[pair as usize] == pair as usize).collect();
        let pool = Vectors::new(pool.clone(), POOL)?;
        let paired = Vectors::new(paired.clone(), PAIRED)?;
        state.thin_out(&pool, (&paired, &distinct_pairs), cosine, progress)?;
    }
    Ok(state.into_distinct())
}
