//! Files that grow together over a long job and survive a kill at any moment.

use std::collections::BTreeMap;
use std::fs::{self, File, OpenOptions};
use std::io::{BufWriter, Seek, SeekFrom, Write};
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

use crate::{AtomicFile, Error, ordinary};

/// The recorded progress: the work done, and the length of each file at that point.
#[derive(Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Record {
    job: String,
    done: u64,
    lengths: BTreeMap<String, u64>,
}

/// Append-only files with a record of how far they are complete.
///
/// [`commit`](Self::commit) makes the appended bytes durable and writes the record. After a kill,
/// [`open`](Self::open) cuts the files back to the record and the work continues from there. The
/// same work makes the same bytes, however often it is stopped.
#[derive(Debug)]
pub struct Growing {
    record_path: PathBuf,
    record: Record,
    files: Vec<(String, PathBuf, BufWriter<File>)>,
}

impl Growing {
    /// Opens `names` in `folder`. If the record `NAME.progress` is of the same `job`, the files
    /// continue where it says; otherwise they start empty. A job is a text that names everything
    /// the bytes depend on.
    pub fn open(folder: &Path, record: &str, job: &str, names: &[&str]) -> Result<Self, Error> {
        let record_path = folder.join(format!("{record}.progress"));
        let fresh = || Record {
            job: job.to_owned(),
            done: 0,
            lengths: names.iter().map(|name| ((*name).to_owned(), 0)).collect(),
        };
        let mut record =
            read(&record_path)?.filter(|record| record.job == job).unwrap_or_else(fresh);
        let intact =
            |name: &&str| match (record.lengths.get(*name), fs::metadata(folder.join(name))) {
                (Some(&length), Ok(file)) => file.len() >= length,
                (Some(&length), Err(_)) => length == 0,
                (None, _) => false,
            };
        if !names.iter().all(intact) {
            record = fresh();
        }
        let mut files = Vec::new();
        for name in names {
            let path = folder.join(name);
            let length = record.lengths[*name];
            let options = &mut OpenOptions::new();
            let options = options.write(true).create(true).truncate(false);
            let mut file = ordinary::open_with(&path, options)?;
            let open = || {
                file.set_len(length)?;
                file.seek(SeekFrom::Start(length))?;
                Ok(BufWriter::new(file))
            };
            files.push((
                (*name).to_owned(),
                path.clone(),
                open().map_err(|e| Error::io(&path, e))?,
            ));
        }
        Ok(Growing { record_path, record, files })
    }

    /// Returns whether `folder` has a record of exactly this job.
    pub fn is_of(folder: &Path, record: &str, job: &str) -> Result<bool, Error> {
        let record = read(&folder.join(format!("{record}.progress")))?;
        Ok(record.is_some_and(|record| record.job == job))
    }

    /// Returns the job of the record in `folder` and the amount of work done, if there is one.
    pub fn recorded_in(folder: &Path, record: &str) -> Result<Option<(String, u64)>, Error> {
        let record = read(&folder.join(format!("{record}.progress")))?;
        Ok(record.map(|record| (record.job, record.done)))
    }

    /// The amount of work done.
    pub fn done(&self) -> u64 {
        self.record.done
    }

    /// Length of file number `file` at the last [`commit`](Self::commit).
    pub fn recorded(&self, file: usize) -> u64 {
        self.record.lengths[&self.files[file].0]
    }

    /// Appends to file number `file`, counted in the order of the names.
    pub fn append(&mut self, file: usize, bytes: &[u8]) -> Result<(), Error> {
        let (_, path, file) = &mut self.files[file];
        file.write_all(bytes).map_err(|e| Error::io(path, e))
    }

    /// Records that `done` of the work is complete with the bytes appended so far.
    pub fn commit(&mut self, done: u64) -> Result<(), Error> {
        for (name, path, file) in &mut self.files {
            let mut sync = || {
                file.flush()?;
                file.get_ref().sync_data()?;
                file.stream_position()
            };
            let length = sync().map_err(|e| Error::io(path, e))?;
            self.record.lengths.insert(name.clone(), length);
        }
        self.record.done = done;
        let mut file = AtomicFile::create(&self.record_path)?;
        let written = serde_json::to_writer(&mut file, &self.record);
        written.map_err(|e| Error::io(&self.record_path, e.into()))?;
        file.commit()
    }

    /// Overwrites the first bytes of a file, for headers that are known only at the end.
    pub fn rewrite_start(&mut self, file: usize, bytes: &[u8]) -> Result<(), Error> {
        let (_, path, file) = &mut self.files[file];
        let mut rewrite = || {
            file.flush()?;
            let end = file.stream_position()?;
            file.seek(SeekFrom::Start(0))?;
            file.write_all(bytes)?;
            file.seek(SeekFrom::Start(end))?;
            file.get_ref().sync_data()
        };
        rewrite().map_err(|e| Error::io(path, e))
    }

    /// Ends the work: keeps the files and removes the record.
    pub fn finish(mut self) -> Result<(), Error> {
        for (_, path, file) in &mut self.files {
            let synced = file.flush().and_then(|()| file.get_ref().sync_all());
            synced.map_err(|e| Error::io(path, e))?;
        }
        match fs::remove_file(&self.record_path) {
            Err(e) if e.kind() != std::io::ErrorKind::NotFound => {
                Err(Error::io(&self.record_path, e))
            }
            _ => Ok(()),
        }
    }
}

/// Reads the record. Without a readable one the work starts anew.
fn read(path: &Path) -> Result<Option<Record>, Error> {
    let bytes = ordinary::read_if_there(path)?;
    Ok(bytes.and_then(|bytes| serde_json::from_slice(&bytes).ok()))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Does ten steps, of which the process survives `survive`, and returns the bytes on disk.
    fn work(folder: &Path, job: &str, survive: u64) -> Option<Vec<u8>> {
        let mut growing = Growing::open(folder, "work", job, &["a", "b"]).unwrap();
        for step in growing.done()..10 {
            growing.append(0, &[step as u8; 3]).unwrap();
            growing.append(1, &[step as u8; 1]).unwrap();
            if step == survive {
                // Part of a step reached the disk before the kill.
                growing.files[0].2.flush().unwrap();
                return None;
            }
            growing.commit(step + 1).unwrap();
        }
        growing.rewrite_start(0, b"head").unwrap();
        growing.finish().unwrap();
        Some([fs::read(folder.join("a")).unwrap(), fs::read(folder.join("b")).unwrap()].concat())
    }

    #[test]
    fn stopped_work_ends_the_same() {
        let whole = tempfile::tempdir().unwrap();
        let expected = work(whole.path(), "job", 10).unwrap();
        assert!(expected.starts_with(b"head\x01"));
        let stopped = tempfile::tempdir().unwrap();
        for survive in [0, 3, 3, 7] {
            assert!(work(stopped.path(), "job", survive).is_none());
        }
        assert_eq!(work(stopped.path(), "job", 10).unwrap(), expected);
        assert!(!stopped.path().join("work.progress").exists());
    }

    #[test]
    fn another_job_or_a_damaged_record_starts_anew() {
        let expected = work(tempfile::tempdir().unwrap().path(), "job", 10).unwrap();
        let folder = tempfile::tempdir().unwrap();
        assert!(work(folder.path(), "other", 5).is_none());
        assert_eq!(Growing::open(folder.path(), "work", "job", &["a", "b"]).unwrap().done(), 0);
        assert!(work(folder.path(), "job", 5).is_none());
        fs::write(folder.path().join("work.progress"), "{").unwrap();
        assert_eq!(work(folder.path(), "job", 10).unwrap(), expected);
        assert!(work(folder.path(), "job", 5).is_none());
        fs::write(folder.path().join("a"), "").unwrap();
        assert_eq!(work(folder.path(), "job", 10).unwrap(), expected);
    }
}
