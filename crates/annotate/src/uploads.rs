//! Uploaded images: received in small pieces, decoded as a check, and stored under a name that
//! derives from their bytes.
//!
//! An upload that is not allowed is refused before any of it is read: where there are no uploads,
//! where a person or all together have uploaded enough, and where the disk is nearly full. Answers
//! are stored on that disk as well, and they come first.

use std::collections::HashMap;
use std::fs::{self, OpenOptions};
use std::future::poll_fn;
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::pin::Pin;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, SystemTime};

use axum::body::{Body, Bytes};
use hyper::body::Body as HttpBody;
use nextpair_data::dataset::name_of_image;
use nextpair_data::{picture, system};
use sha2::{Digest, Sha256};
use tempfile::NamedTempFile;
use tokio::task::spawn_blocking;
use tokio::time::{Instant, timeout_at};

use crate::error::{Error, Refusal};
use crate::event::PersonId;
use crate::log::Log;
use crate::settings::{Quota, Settings};
use crate::state::State;

/// Largest image in bytes.
pub(crate) const LARGEST: u64 = 32 << 20;
/// Most images received at once.
const AT_ONCE: usize = 8;
/// Most images received at once from one person.
const AT_ONCE_OF_PERSON: usize = 2;
/// Prefix of the names of unfinished files. Those of killed processes are removed in time.
const UNFINISHED: &str = ".nextpair-";
const STALE: Duration = Duration::from_secs(3600);

/// The folder of uploaded images.
pub(crate) struct Uploads {
    folder: PathBuf,
    quota: Quota,
    log: Log,
    /// Bytes in the folder that no event records.
    unrecorded: AtomicU64,
    pub(crate) timeouts: Timeouts,
    coming: Arc<Mutex<HashMap<PersonId, Vec<u64>>>>,
}

/// Time limits on receiving an image.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Timeouts {
    /// From its first byte to its last.
    pub(crate) whole: Duration,
    /// Between two bytes.
    pub(crate) stall: Duration,
}

/// The bytes that a person, and that all people, have uploaded.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct UploadedBytes {
    pub(crate) by_person: u64,
    pub(crate) by_all: u64,
}

/// Reserved room for an image that is being received: its bytes count as if they were stored.
pub(crate) struct Reservation {
    all: Arc<Mutex<HashMap<PersonId, Vec<u64>>>>,
    person: PersonId,
    bytes: u64,
    /// Bytes of the disk that must be free.
    wanted: u64,
}

/// A received image, as an unfinished file.
pub(crate) struct ReceivedImage {
    file: NamedTempFile,
    hash: Sha256,
    pub(crate) bytes: u64,
}

/// A stored image.
pub(crate) struct StoredImage {
    /// The name of its file.
    pub(crate) name: String,
    pub(crate) bytes: u64,
    /// Whether it was not there before.
    pub(crate) is_new: bool,
}

impl Uploads {
    /// Counts the bytes in the folder, which need not exist yet.
    pub(crate) fn open(folder: &Path, settings: &Settings, known: &State) -> Result<Self, Error> {
        let unrecorded = unrecorded(folder, known);
        let unrecorded =
            unrecorded.map_err(|e| Error::Settings(format!("{}: {e}", folder.display())))?;
        Ok(Uploads {
            folder: folder.to_path_buf(),
            quota: settings.quota,
            log: settings.log.clone(),
            unrecorded: AtomicU64::new(unrecorded),
            timeouts: Timeouts { whole: Duration::from_secs(300), stall: Duration::from_secs(30) },
            coming: Arc::default(),
        })
    }

    /// Reserves room for an image of at most `bytes`, or refuses it.
    pub(crate) fn begin(
        &self,
        person: PersonId,
        bytes: u64,
        brought: UploadedBytes,
    ) -> Result<Reservation, Refusal> {
        let mut coming = self.coming.lock().expect("nothing panics with it in hand");
        let own = coming.get(&person).map_or(&[][..], Vec::as_slice);
        let all = coming.values().map(Vec::len).sum::<usize>();
        if own.len() >= AT_ONCE_OF_PERSON || all >= AT_ONCE {
            return Err(Refusal::unavailable("too many images at once; try again"));
        }
        let sum = |numbers: &[u64]| numbers.iter().fold(0, |sum: u64, n| sum.saturating_add(*n));
        if sum(&[brought.by_person, sum(own), bytes]) > self.quota.per_person {
            let most = self.quota.per_person >> 20;
            let message = format!("everybody may bring images of {most} MiB, and you have");
            return Err(Refusal::conflict("quota", message));
        }
        let on_their_way = coming.values().map(|of_one| sum(of_one)).sum();
        let unrecorded = self.unrecorded.load(Ordering::Relaxed);
        if sum(&[brought.by_all, unrecorded, on_their_way, bytes]) > self.quota.in_all {
            return Err(Refusal::full("no more images are taken: there is no room for them"));
        }
        coming.entry(person).or_default().push(bytes);
        let wanted = sum(&[self.quota.keep_free, on_their_way, bytes]);
        Ok(Reservation { all: Arc::clone(&self.coming), person, bytes, wanted })
    }

    /// Receives an image into an unfinished file, if the disk has room for it.
    pub(crate) async fn receive(
        &self,
        mut body: Body,
        coming: &Reservation,
    ) -> Result<ReceivedImage, Refusal> {
        let Timeouts { whole, stall } = self.timeouts;
        let end = Instant::now() + whole;
        let (folder, wanted) = (self.folder.clone(), coming.wanted);
        let begun = spawn_blocking(move || ReceivedImage::new(&folder, wanted)).await;
        let begun = begun.map_err(|_| not_kept())?.map_err(|e| self.failed(&e))?;
        let mut received = begun.ok_or_else(|| self.disk_full())?;
        loop {
            let next = poll_fn(|context| Pin::new(&mut body).poll_frame(context));
            let now = Instant::now();
            // A steady trickle of bytes never stalls, but the whole has a deadline.
            let next = timeout_at(end.min(now + stall), next).await.ok().filter(|_| now < end);
            let Some(frame) = next.ok_or_else(Refusal::slow)? else { return Ok(received) };
            let frame = frame.map_err(|e| Refusal::malformed(e.to_string()))?;
            let Ok(bytes) = frame.into_data() else { continue };
            if received.bytes + bytes.len() as u64 > coming.bytes {
                return Err(Refusal::too_large("more than an image may have, or than was said"));
            }
            let written = spawn_blocking(move || received.append(bytes)).await;
            received = written.map_err(|_| not_kept())?.map_err(|e| self.failed(&e))?;
        }
    }

    /// Decodes a received file, and gives it its name if it is an image. Slow.
    pub(crate) fn keep(&self, received: ReceivedImage) -> Result<StoredImage, Refusal> {
        let ReceivedImage { file, hash, bytes } = received;
        // Not its path, which would appear in error messages.
        let called = Path::new("the image");
        let unreadable = |e| Refusal::unsupported(format!("this is not an image we can read: {e}"));
        let header = picture::probe_from(called, file.as_file()).map_err(unreadable)?;
        picture::decode_from(called, file.as_file()).map_err(unreadable)?;
        let name = name_of_image(&hash.finalize(), header.format);
        let is_new = self.name(file, &name).map_err(|e| self.failed(&e))?;
        Ok(StoredImage { name, bytes, is_new })
    }

    /// Gives a file its name; returns false if a file of this name exists.
    fn name(&self, file: NamedTempFile, name: &str) -> io::Result<bool> {
        let path = self.folder.join(name);
        let is_new = !path.is_file();
        if is_new {
            file.as_file().sync_all()?;
            file.persist(&path).map_err(|e| e.error)?;
        }
        // The name is stored in the folder, not in the file. Sync also for an existing file: its
        // upload may have failed before this point.
        system::sync_folder(&self.folder)?;
        Ok(is_new)
    }

    /// Counts bytes of an image that is stored, but not recorded by an event.
    pub(crate) fn not_recorded(&self, bytes: u64) {
        self.unrecorded.fetch_add(bytes, Ordering::Relaxed);
    }

    fn disk_full(&self) -> Refusal {
        let folder = self.folder.display();
        self.log.line(format_args!("{folder}: the disk is nearly full; no images are taken"));
        Refusal::full("no images are taken: the disk is nearly full")
    }

    fn failed(&self, error: &io::Error) -> Refusal {
        let folder = self.folder.display();
        self.log.line(format_args!("{folder}: an image could not be kept: {error}"));
        not_kept()
    }
}

impl ReceivedImage {
    /// Creates an empty file in a folder; `None` if less than `wanted` is free on its disk.
    fn new(folder: &Path, wanted: u64) -> io::Result<Option<Self>> {
        fs::create_dir_all(folder)?;
        if system::free_space(folder)? < wanted {
            return Ok(None);
        }
        // We create the file ourselves: tempfile makes it readable by its owner alone.
        let open =
            |path: &Path| OpenOptions::new().read(true).write(true).create_new(true).open(path);
        let file = tempfile::Builder::new().prefix(UNFINISHED).make_in(folder, open)?;
        Ok(Some(ReceivedImage { file, hash: Sha256::new(), bytes: 0 }))
    }

    fn append(mut self, bytes: Bytes) -> io::Result<Self> {
        self.file.write_all(&bytes)?;
        self.hash.update(&bytes);
        self.bytes += bytes.len() as u64;
        Ok(self)
    }
}

impl Drop for Reservation {
    fn drop(&mut self) {
        let mut all = self.all.lock().expect("nothing panics with it in hand");
        if let Some(own) = all.get_mut(&self.person) {
            if let Some(at) = own.iter().position(|bytes| *bytes == self.bytes) {
                own.swap_remove(at);
            }
            if own.is_empty() {
                all.remove(&self.person);
            }
        }
    }
}

/// The bytes in a folder that no event records. Removes unfinished files.
fn unrecorded(folder: &Path, known: &State) -> io::Result<u64> {
    let entries = match fs::read_dir(folder) {
        Ok(entries) => entries,
        Err(e) if e.kind() == io::ErrorKind::NotFound => return Ok(0),
        Err(e) => return Err(e),
    };
    let mut unrecorded = 0;
    for entry in entries {
        let entry = entry?;
        let (name, file) = (entry.file_name(), entry.metadata()?);
        let name = name.to_string_lossy();
        let age = file.modified().ok().and_then(|at| SystemTime::now().duration_since(at).ok());
        if name.starts_with(UNFINISHED) && age.is_some_and(|age| age > STALE) {
            fs::remove_file(entry.path())?;
        } else if file.is_file() && !known.uploads.contains_key(&*name) {
            unrecorded += file.len();
        }
    }
    Ok(unrecorded)
}

fn not_kept() -> Refusal {
    Refusal::unavailable("the image could not be kept; try again")
}
