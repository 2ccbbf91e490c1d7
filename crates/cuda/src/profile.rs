//! Where the time of a device goes, by kernel and product.
//!
//! While a profile is taken, every launch is waited for: what is measured is the work itself, not
//! how well it overlaps.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use crate::{Error, Gpu};

static ON: AtomicBool = AtomicBool::new(false);
static SPENT: Mutex<BTreeMap<String, (u64, Duration)>> = Mutex::new(BTreeMap::new());

/// Begins a profile of all queues.
pub fn start_profile() {
    spent().clear();
    ON.store(true, Ordering::Relaxed);
}

/// Ends it. Returns the name, the number of launches and the time of each kind of work, the longest
/// first.
pub fn end_profile() -> Vec<(String, u64, Duration)> {
    ON.store(false, Ordering::Relaxed);
    let spent = std::mem::take(&mut *spent());
    let mut all: Vec<_> = spent.into_iter().map(|(name, (n, time))| (name, n, time)).collect();
    all.sort_by_key(|&(_, _, time)| std::cmp::Reverse(time));
    all
}

fn spent() -> std::sync::MutexGuard<'static, BTreeMap<String, (u64, Duration)>> {
    SPENT.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Gpu {
    /// Runs `work`, which launches something, and adds its time to a profile that is being taken.
    pub(crate) fn profiled(
        &self,
        name: impl FnOnce() -> String,
        work: impl FnOnce() -> Result<(), Error>,
    ) -> Result<(), Error> {
        if !ON.load(Ordering::Relaxed) {
            return work();
        }
        self.wait()?;
        let start = Instant::now();
        work()?;
        self.wait()?;
        let mut spent = spent();
        let (count, time) = spent.entry(name()).or_default();
        *count += 1;
        *time += start.elapsed();
        Ok(())
    }
}
