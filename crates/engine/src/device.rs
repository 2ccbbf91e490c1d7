//! Where pairs of vectors are ruled out: on the CPU, or on a GPU.
//!
//! A GPU is a filter like the CPU's own [screen](crate::screen). It multiplies directions in half
//! precision and lists the pairs that the product cannot rule out; what it rounds is bounded. The
//! canonical float64 of the CPU decides about those, so answers have the same bits everywhere.

mod card;
mod codes;
mod design;
mod farthest;
mod gains;
mod search;

use std::fmt;
use std::str::FromStr;
use std::sync::{Arc, Mutex, OnceLock, PoisonError};

use crate::design::{Design, DesignPick};
use crate::directions::LANES;
use crate::screen::Source;
use crate::{Error, Progress};
use card::{Card, LONGEST};
use codes::Codes;
pub(crate) use farthest::{FarItems, Farthest};
pub(crate) use gains::{Gains, Levels};
pub(crate) use search::GpuSieve;

/// Where pairs of vectors are ruled out. Results never depend on it. Clones share a GPU.
#[derive(Clone, Default)]
pub struct Device(Choice);

#[derive(Clone, Default)]
enum Choice {
    #[default]
    Cpu,
    Auto,
    Gpu(Arc<Card>),
}

/// How a GPU cuts its work. Only the time depends on it.
#[derive(Clone, Copy, Debug)]
pub struct Tiles {
    /// Rows multiplied at once.
    pub rows: usize,
    /// Columns multiplied at once.
    pub columns: usize,
    /// Queues that work side by side: while one multiplies, others copy.
    pub lanes: usize,
    /// Pairs that a queue can list at once, or a row of all columns if that is more. Where more are
    /// found, it looks at fewer rows.
    pub found: usize,
    /// Whether vectors stay on the GPU if there is room, or are copied whenever they are needed.
    pub keep: bool,
}

impl Default for Tiles {
    fn default() -> Self {
        Tiles { rows: 8192, columns: 4096, lanes: 4, found: 1 << 22, keep: true }
    }
}

/// Multiplications that take the CPU longer than a GPU takes to start.
const WORTH_A_START: f64 = (1u64 << 39) as f64;
/// Multiplications that are worth a GPU that has started.
const WORTH_A_CALL: f64 = (1u64 << 33) as f64;
/// The CPU's time for one number of one item in a pick of a design, in multiplications of a search.
const OF_A_DIRECTION: f64 = 32.0;

impl Device {
    /// The CPU.
    pub fn cpu() -> Self {
        Device(Choice::Cpu)
    }

    /// The first GPU where there is one and the work is worth it, and the CPU otherwise.
    pub fn auto() -> Self {
        Device(Choice::Auto)
    }

    /// A GPU by its number, from 0, for everything.
    ///
    /// # Errors
    /// If it cannot be used.
    pub fn cuda(index: usize) -> Result<Self, Error> {
        Self::cuda_in(index, Tiles::default())
    }

    /// A GPU that cuts its work another way.
    ///
    /// # Errors
    /// If it cannot be used.
    pub fn cuda_in(index: usize, tiles: Tiles) -> Result<Self, Error> {
        Ok(Device(Choice::Gpu(Arc::new(Card::open(index, tiles)?))))
    }

    /// The GPU for a search of so many multiplications, if it is to be on one.
    fn card(&self, work: f64) -> Option<Arc<Card>> {
        static FIRST: OnceLock<Option<Arc<Card>>> = OnceLock::new();
        match &self.0 {
            Choice::Cpu => None,
            Choice::Gpu(card) => Some(card.clone()),
            Choice::Auto => match FIRST.get() {
                Some(card) => card.clone().filter(|_| work >= WORTH_A_CALL),
                None if work < WORTH_A_START => None,
                // No GPU, no driver or an old one: the CPU needs none.
                None => {
                    FIRST.get_or_init(|| Card::open(0, Tiles::default()).ok().map(Arc::new)).clone()
                }
            },
        }
    }

    /// Takes the best items of a design, if that is to be on a GPU and fits there.
    pub(crate) fn design(
        &self,
        design: &Design,
        budget: usize,
        progress: &dyn Progress,
    ) -> Result<Option<(Vec<DesignPick>, f64)>, Error> {
        // A pick reads all directions from memory, which takes the CPU as long as many multiplications of a search.
        let work = (design.directions.groups.len() * LANES * budget) as f64 * OF_A_DIRECTION;
        let Some(card) = self.card(work) else { return Ok(None) };
        if_it_fits(design.take_on(&card, budget, progress))
    }

    /// The GPU for a search between two sides, if it is to be on one.
    pub(crate) fn for_search(
        rows: &dyn Source,
        columns: &dyn Source,
        (row_count, column_count): (usize, usize),
    ) -> Option<Arc<Card>> {
        if rows.dim() > LONGEST {
            return None;
        }
        let device = [rows, columns].map(|side| &side.residence().device);
        let chosen = device.into_iter().find(|device| !matches!(device.0, Choice::Cpu))?;
        chosen.card(row_count as f64 * column_count as f64 * rows.dim() as f64)
    }
}

/// Nothing if a GPU has no room: the CPU does the work, or what is left of it.
pub(crate) fn if_it_fits<T>(result: Result<T, Error>) -> Result<Option<T>, Error> {
    match result {
        Err(Error::Gpu(error)) if error.is_out_of_memory() => Ok(None),
        result => result.map(Some),
    }
}

/// Parses `cpu`, `cuda`, `cuda:N` or `auto`.
impl FromStr for Device {
    type Err = Error;

    fn from_str(name: &str) -> Result<Self, Error> {
        match name.split_once(':') {
            None if name == "cpu" => Ok(Device::cpu()),
            None if name == "auto" => Ok(Device::auto()),
            None if name == "cuda" => Device::cuda(0),
            Some(("cuda", number)) if number.parse::<usize>().is_ok() => {
                Device::cuda(number.parse().expect("a number, as was looked at"))
            }
            _ => Err(Error::NoSuchDevice { name: name.to_owned() }),
        }
    }
}

impl fmt::Display for Device {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.0 {
            Choice::Cpu => f.write_str("cpu"),
            Choice::Auto => f.write_str("auto"),
            Choice::Gpu(card) => write!(f, "cuda:{} ({})", card.queue.index(), card.queue.name()),
        }
    }
}

impl fmt::Debug for Device {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

/// Where vectors are searched, and their codes if a GPU has them.
#[derive(Default)]
pub(crate) struct Residence {
    device: Device,
    codes: Mutex<Option<Arc<Codes>>>,
}

impl Residence {
    pub(crate) fn new(device: &Device) -> Arc<Self> {
        Arc::new(Residence { device: device.clone(), codes: Mutex::default() })
    }

    pub(crate) fn device(&self) -> &Device {
        &self.device
    }

    /// The codes of `source`, whose residence this is, on a GPU.
    fn codes(&self, card: &Arc<Card>, source: &dyn Source) -> Result<Arc<Codes>, Error> {
        let mut codes = self.codes.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(codes) = codes.as_ref().filter(|codes| codes.is_on(card)) {
            return Ok(codes.clone());
        }
        let made = Arc::new(Codes::new(card, source)?);
        *codes = Some(made.clone());
        Ok(made)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_of_devices() {
        assert_eq!("cpu".parse::<Device>().unwrap().to_string(), "cpu");
        assert_eq!("auto".parse::<Device>().unwrap().to_string(), "auto");
        for name in ["gpu", "cuda:x", "cpu:1", "cuda:", "CUDA", ""] {
            let error = name.parse::<Device>().unwrap_err().to_string();
            assert_eq!(error, format!("device {name}: there are cpu, cuda, cuda:N and auto"));
        }
        let beyond = "cuda:4096".parse::<Device>().unwrap_err();
        assert!(matches!(beyond, Error::Gpu(_)), "{beyond}");
    }
}
