//! Disk and clock faults for processes that preload `faults.c`.

use std::fs::File;
use std::os::unix::fs::{FileExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result};

use crate::succeed;

/// `ENOSPC`: no space left on the device.
pub(super) const FULL: u64 = 28;
/// `EIO`: the device failed.
pub(super) const BROKEN: u64 = 5;
/// Kinds of calls, as bits.
pub(super) const WRITES: u64 = 1;
pub(super) const SYNCS: u64 = 2;
pub(super) const OPENS: u64 = 4;

/// The fields of `faults.c`, by index.
#[derive(Clone, Copy)]
enum Field {
    Calls,
    From,
    Until,
    Error,
    Kinds,
    Tear,
    DelayMicros,
    ClockMillis,
}

/// Controls the faults of a process.
pub(super) struct Faults {
    library: PathBuf,
    path: PathBuf,
    control: File,
    files: &'static str,
}

/// Faults of the next calls.
#[derive(Clone, Copy, Debug)]
pub(super) struct Fault {
    /// The first failing call, from 1.
    pub(super) from: u64,
    /// Number of failing calls.
    pub(super) calls: u64,
    pub(super) error: u64,
    pub(super) kinds: u64,
    /// Whether the first failing write writes its first half.
    pub(super) tear: bool,
}

impl Faults {
    /// Builds the library in a folder. It affects files whose path contains one of `files`,
    /// separated by colons.
    pub(super) fn new(folder: &Path, files: &'static str) -> Result<Self> {
        std::fs::create_dir_all(folder)?;
        let folder = folder.canonicalize()?;
        let (library, path) = (folder.join("faults.so"), folder.join("faults"));
        let mut cc = Command::new("cc");
        cc.args(["-O2", "-shared", "-fPIC", "xtask/src/soak/faults.c", "-ldl", "-o"]);
        succeed(cc.arg(&library)).context("faults need a C compiler")?;
        std::fs::write(&path, [0; 64])?;
        // The user that PostgreSQL runs as writes here too.
        std::fs::set_permissions(&path, PermissionsExt::from_mode(0o666))?;
        let control = File::options().read(true).write(true).open(&path)?;
        Ok(Faults { library, path, control, files })
    }

    /// Returns the environment variables of the process.
    pub(super) fn environment(&self) -> Vec<(String, String)> {
        let path = |path: &Path| path.display().to_string();
        vec![
            ("LD_PRELOAD".to_owned(), path(&self.library)),
            ("NEXTPAIR_FAULTS".to_owned(), path(&self.path)),
            ("NEXTPAIR_FAULTS_FILES".to_owned(), self.files.to_owned()),
        ]
    }

    fn set(&self, field: Field, value: u64) -> Result<()> {
        Ok(self.control.write_all_at(&value.to_ne_bytes(), field as u64 * 8)?)
    }

    /// Returns the number of calls since the last fault was set.
    pub(super) fn calls(&self) -> Result<u64> {
        let mut bytes = [0; 8];
        self.control.read_exact_at(&mut bytes, Field::Calls as u64 * 8)?;
        Ok(u64::from_ne_bytes(bytes))
    }

    /// Makes calls fail, counted from now on.
    pub(super) fn set_fault(&self, fault: Fault) -> Result<()> {
        let Fault { from, calls, error, kinds, tear } = fault;
        // Disable faults while the fields are inconsistent.
        self.set(Field::Kinds, 0)?;
        self.set(Field::Calls, 0)?;
        self.set(Field::From, from)?;
        self.set(Field::Until, from.saturating_add(calls))?;
        self.set(Field::Error, error)?;
        self.set(Field::Tear, u64::from(tear))?;
        self.set(Field::Kinds, kinds)
    }

    /// Removes all faults and restarts the count.
    pub(super) fn clear(&self) -> Result<()> {
        let kinds = WRITES | SYNCS | OPENS;
        self.set_fault(Fault { from: u64::MAX, calls: 0, error: 0, kinds, tear: false })?;
        self.set(Field::DelayMicros, 0)
    }

    /// Delays every sync.
    pub(super) fn delay_syncs(&self, micros: u64) -> Result<()> {
        self.set(Field::DelayMicros, micros)
    }

    /// Shifts the wall clock ahead.
    pub(super) fn shift_clock(&self, millis: i64) -> Result<()> {
        self.set(Field::ClockMillis, millis as u64)
    }
}
