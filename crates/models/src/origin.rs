//! The origin of numbers: versions of the program, vector units and GPUs do not mix unnoticed.

use std::fmt;
use std::path::Path;

use nextpair_kernels::{Device, vector_unit};
use serde::{Deserialize, Serialize};

use crate::Error;

/// A version and a vector unit, on which the last digits of weights and scores depend.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Origin {
    /// The version of nextpair.
    pub version: String,
    /// The vector unit, as [`vector_unit`] calls it, or the GPU and its precision.
    pub unit: String,
}

/// Whether to continue work that another origin began.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mixing {
    /// Fail.
    Refuse,
    /// Continue, and record it.
    Accept,
}

/// The origins that have worked on a model so far.
#[derive(Clone, Copy, Debug)]
pub struct Makers<'a> {
    /// The version that began it.
    pub version: &'a str,
    /// The vector unit that began it.
    pub unit: &'a str,
    /// Origins that were admitted later.
    pub continued_by: &'a [Origin],
}

/// How a process is admitted to continue the work.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Admission {
    /// Its origin has worked on the model before.
    Known,
    /// Its origin is new and must be recorded. The text is a note for the user.
    New(String),
}

impl Origin {
    /// This program on a device of this machine.
    pub fn of(device: Device) -> Self {
        let unit = match device {
            Device::Cpu => vector_unit().to_owned(),
            other => other.describe(),
        };
        Origin { version: env!("CARGO_PKG_VERSION").to_owned(), unit }
    }
}

impl fmt::Display for Origin {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(out, "nextpair {} on {}", self.version, self.unit)
    }
}

impl Makers<'_> {
    /// Whether `origin` may continue the work in `folder`.
    pub fn admit(
        &self,
        origin: &Origin,
        mixing: Mixing,
        folder: &Path,
    ) -> Result<Admission, Error> {
        let began = self.version == origin.version && self.unit == origin.unit;
        if began || self.continued_by.contains(origin) {
            return Ok(Admission::Known);
        }
        match mixing {
            Mixing::Refuse => Err(Error::Mixed {
                folder: folder.to_path_buf(),
                made_by: self.to_string(),
                here: origin.clone(),
            }),
            Mixing::Accept => Ok(Admission::New(format!(
                "{}: made by {self}, continued by {origin}: the results are mixed, and its folder says so",
                folder.display()
            ))),
        }
    }
}

impl fmt::Display for Makers<'_> {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(out, "nextpair {} on {}", self.version, self.unit)?;
        self.continued_by.iter().try_for_each(|origin| write!(out, ", then {origin}"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn origin(version: &str, unit: &str) -> Origin {
        Origin { version: version.to_owned(), unit: unit.to_owned() }
    }

    #[test]
    fn only_those_who_have_worked_on_it_go_on_unsaid() {
        let (old, new) = (origin("0.1.0", "x86-64-v3"), origin("0.1.0", "x86-64-v4"));
        let newer = origin("0.2.0", "x86-64-v3");
        let path = Path::new("run");
        let admit = |unit, continued_by: &[Origin], origin: &Origin, mixing| {
            Makers { version: "0.1.0", unit, continued_by }.admit(origin, mixing, path)
        };
        let known = |admitted| matches!(admitted, Ok(Admission::Known));
        let noted = |admitted| matches!(admitted, Ok(Admission::New(_)));
        let refused = |admitted: Result<_, _>| matches!(admitted, Err(Error::Mixed { .. }));
        let unit = "x86-64-v3";
        assert!(known(admit(unit, &[], &old, Mixing::Refuse)));
        for other in [&new, &newer] {
            assert!(refused(admit(unit, &[], other, Mixing::Refuse)));
            assert!(noted(admit(unit, &[], other, Mixing::Accept)));
            let let_in = [other.clone()];
            assert!(known(admit(unit, &let_in, other, Mixing::Refuse)));
            assert!(known(admit(unit, &let_in, &old, Mixing::Refuse)));
        }
        assert!(refused(admit(unit, std::slice::from_ref(&new), &newer, Mixing::Refuse)));
        let what = admit(unit, &[], &newer, Mixing::Refuse).unwrap_err().to_string();
        let says =
            "run: made by nextpair 0.1.0 on x86-64-v3, and this is nextpair 0.2.0 on x86-64-v3";
        assert!(what.starts_with(says), "{what}");
        assert!(what.contains("--mixed"), "{what}");
    }

    #[test]
    fn here_is_this_program() {
        let here = Origin::of(Device::Cpu);
        assert_eq!(here.version, env!("CARGO_PKG_VERSION"));
        assert!(!here.unit.is_empty());
        assert_eq!(
            serde_json::from_str::<Origin>(&serde_json::to_string(&here).unwrap()).unwrap(),
            here
        );
    }
}
