//! Faults of the disk and of the clock for a process that was started with `faults.c` before the C
//! library.

use std::fs::File;
use std::os::unix::fs::{FileExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result};

use crate::succeed;

/// No space is left on the device, as errno has it.
pub(super) const FULL: u64 = 28;
/// The device failed.
pub(super) const BROKEN: u64 = 5;
/// Calls that count.
pub(super) const WRITES: u64 = 1;
pub(super) const SYNCS: u64 = 2;
pub(super) const OPENS: u64 = 4;

/// The numbers of `faults.c`, by their place.
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

/// The way to tell a process what fails.
pub(super) struct Faults {
    library: PathBuf,
    path: PathBuf,
    control: File,
    files: &'static str,
}

/// Which calls fail, from the next one on.
#[derive(Clone, Copy, Debug)]
pub(super) struct Fault {
    /// The first one that does, from 1.
    pub(super) from: u64,
    /// How many.
    pub(super) calls: u64,
    pub(super) error: u64,
    pub(super) kinds: u64,
    /// The first write that fails writes its first half.
    pub(super) tear: bool,
}

impl Faults {
    /// Builds the library in a folder. Files whose path has one of `files`, parted by colons, are
    /// meant.
    pub(super) fn new(folder: &Path, files: &'static str) -> Result<Self> {
        std::fs::create_dir_all(folder)?;
        let folder = folder.canonicalize()?;
        let (library, path) = (folder.join("faults.so"), folder.join("faults"));
        let mut cc = Command::new("cc");
        cc.args(["-O2", "-shared", "-fPIC", "xtask/src/soak/faults.c", "-ldl", "-o"]);
        succeed(cc.arg(&library)).context("faults need a C compiler")?;
        std::fs::write(&path, [0; 64])?;
        // Whoever PostgreSQL runs as counts as well.
        std::fs::set_permissions(&path, PermissionsExt::from_mode(0o666))?;
        let control = File::options().read(true).write(true).open(&path)?;
        Ok(Faults { library, path, control, files })
    }

    /// What a process must have in its environment.
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

    /// Calls since the last fault was set.
    pub(super) fn calls(&self) -> Result<u64> {
        let mut bytes = [0; 8];
        self.control.read_exact_at(&mut bytes, Field::Calls as u64 * 8)?;
        Ok(u64::from_ne_bytes(bytes))
    }

    /// Lets calls fail, counted from now on.
    pub(super) fn set_fault(&self, fault: Fault) -> Result<()> {
        let Fault { from, calls, error, kinds, tear } = fault;
        // Nothing fails while the numbers do not fit together.
        self.set(Field::Kinds, 0)?;
        self.set(Field::Calls, 0)?;
        self.set(Field::From, from)?;
        self.set(Field::Until, from.saturating_add(calls))?;
        self.set(Field::Error, error)?;
        self.set(Field::Tear, u64::from(tear))?;
        self.set(Field::Kinds, kinds)
    }

    /// Nothing fails any more; calls are counted.
    pub(super) fn clear(&self) -> Result<()> {
        let kinds = WRITES | SYNCS | OPENS;
        self.set_fault(Fault { from: u64::MAX, calls: 0, error: 0, kinds, tear: false })?;
        self.set(Field::DelayMicros, 0)
    }

    /// Every sync takes longer.
    pub(super) fn delay_syncs(&self, micros: u64) -> Result<()> {
        self.set(Field::DelayMicros, micros)
    }

    /// The wall clock is ahead.
    pub(super) fn shift_clock(&self, millis: i64) -> Result<()> {
        self.set(Field::ClockMillis, millis as u64)
    }
}
