//! Rate limits.

use std::collections::HashMap;
use std::hash::Hash;
use std::net::IpAddr;
use std::sync::Mutex;

use crate::error::Refusal;
use crate::event::{Millis, PersonId};

/// Number of buckets at which those that are full again are dropped.
const MOST_BUCKETS: usize = 10_000;

/// Rate limits per person, or per address.
pub(crate) struct Limits {
    /// Requests of a signed-in person; more than our pages make.
    requests: Buckets<PersonId>,
    /// Image requests: a page shows many images at once.
    images: Buckets<PersonId>,
    /// Uploads of images.
    uploads: Buckets<PersonId>,
    /// Sign-outs: each is stored until the session would have ended.
    sign_outs: Buckets<PersonId>,
    /// Failed attempts to sign in, by address.
    failures: Buckets<IpAddr>,
}

impl Limits {
    pub(crate) fn new() -> Self {
        Limits {
            requests: Buckets::new(200.0, 50.0),
            images: Buckets::new(600.0, 100.0),
            uploads: Buckets::new(20.0, 0.2),
            sign_outs: Buckets::new(30.0, 0.01),
            failures: Buckets::new(60.0, 0.5),
        }
    }

    /// Counts a request that is not for an image.
    pub(crate) fn request(&self, person: PersonId, now: Millis) -> Result<(), Refusal> {
        self.requests.take(person, now)
    }

    /// Counts a request for an image.
    pub(crate) fn image(&self, person: PersonId, now: Millis) -> Result<(), Refusal> {
        self.images.take(person, now)
    }

    /// Counts an upload.
    pub(crate) fn upload(&self, person: PersonId, now: Millis) -> Result<(), Refusal> {
        self.uploads.take(person, now)
    }

    /// Counts a sign-out.
    pub(crate) fn sign_out(&self, person: PersonId, now: Millis) -> Result<(), Refusal> {
        self.sign_outs.take(person, now)
    }

    /// Counts a failed attempt to sign in.
    pub(crate) fn failure(&self, from: IpAddr, now: Millis) -> Result<(), Refusal> {
        self.failures.take(from, now)
    }
}

/// Token buckets, one per person or address: each holds `size` tokens and gains `per_second`.
struct Buckets<Who> {
    size: f64,
    per_second: f64,
    levels: Mutex<HashMap<Who, (f64, Millis)>>,
}

impl<Who: Eq + Hash> Buckets<Who> {
    fn new(size: f64, per_second: f64) -> Self {
        Buckets { size, per_second, levels: Mutex::new(HashMap::new()) }
    }

    fn take(&self, who: Who, now: Millis) -> Result<(), Refusal> {
        let mut levels = self.levels.lock().expect("nothing panics with the levels in hand");
        let filled = |(level, at): (f64, Millis)| {
            let seconds = (now - at).max(0) as f64 / 1000.0;
            (level + seconds * self.per_second).min(self.size)
        };
        if levels.len() >= MOST_BUCKETS {
            levels.retain(|_, &mut level| filled(level) < self.size);
        }
        let level = levels.get(&who).map_or(self.size, |&level| filled(level));
        if level < 1.0 {
            let seconds = ((1.0 - level) / self.per_second).ceil() as u64;
            return Err(Refusal::too_many(seconds.max(1)));
        }
        levels.insert(who, (level - 1.0, now));
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn buckets_empty_and_fill() {
        let buckets = Buckets::new(3.0, 0.5);
        for _ in 0..3 {
            buckets.take("eve", 1000).unwrap();
        }
        assert_eq!(buckets.take("eve", 1000).unwrap_err().retry_after, Some(2));
        buckets.take("ann", 1000).unwrap();
        buckets.take("eve", 3000).unwrap();
        assert!(buckets.take("eve", 3001).is_err());
        // A clock that goes back takes no tokens away.
        buckets.take("ann", 0).unwrap();
    }

    #[test]
    fn full_buckets_are_forgotten() {
        let buckets = Buckets::new(1.0, 1000.0);
        for who in 0..3 * MOST_BUCKETS {
            buckets.take(who, who as Millis * 10).unwrap();
        }
        assert!(buckets.levels.lock().unwrap().len() <= MOST_BUCKETS);
    }
}
