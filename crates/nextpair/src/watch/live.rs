//! An experiment under observation: what is in its folder, and the page that was made of it.

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::{Duration, Instant, SystemTime};

use axum::body::Bytes;
use nextpair_report::{Error, LiveReport, Options, live_news};
use nextpair_scenario::{Activity, Study};
use serde_json::Value;
use tokio::sync::watch;

/// After a page was made, no other is begun for this many times as long: the experiment needs the machine more.
const REST: u32 = 4;
/// The longest rest.
const LONGEST_REST: Duration = Duration::from_secs(60);

/// An experiment under observation.
pub(super) struct Live {
    folder: PathBuf,
    report: LiveReport,
    /// The experiment as it was read last.
    read: Mutex<(Stamp, Arc<Study>)>,
    making: Mutex<Making>,
    made: watch::Sender<Option<Arc<Page>>>,
}

/// A page.
#[derive(Clone)]
pub(super) struct Page {
    version: u64,
    of: Stamp,
    pub(super) html: Bytes,
    /// What its browser lets in.
    pub(super) policy: String,
    /// Why there is no newer one.
    failed: Option<String>,
}

impl Page {
    fn new(version: u64, of: Stamp, html: String, failed: Option<String>) -> Self {
        let policy = nextpair_report::page::policy(&html).unwrap_or("default-src 'none'");
        let policy = format!("{policy}; frame-ancestors 'none'");
        Page { version, of, html: html.into(), policy, failed }
    }
}

/// Whether a page is being made, and until when not to begin with one.
#[derive(Default)]
struct Making {
    busy: bool,
    rest: Option<Instant>,
}

/// Sizes and times of the files that results come from.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Stamp([Option<(u64, Option<SystemTime>)>; 2]);

impl Stamp {
    fn of(study: &Study) -> Self {
        let file = |path: PathBuf| {
            let file = fs::metadata(path).ok()?;
            Some((file.len(), file.modified().ok()))
        };
        Stamp([file(study.folder.rounds()), file(study.folder.experiment())])
    }
}

impl Live {
    pub(super) fn open(folder: &Path, options: Options) -> Result<Self, Error> {
        let study = Study::open(folder)?;
        let read = Mutex::new((Stamp::of(&study), Arc::new(Study::open(folder)?)));
        let (report, making) = (LiveReport::new(options), Mutex::default());
        let (made, _) = watch::channel(None);
        Ok(Live { folder: folder.to_path_buf(), report, read, making, made })
    }

    /// Returns what is going on, and has a new page made if there is news for it.
    pub(super) async fn look(self: &Arc<Self>) -> Result<Value, String> {
        let live = Arc::clone(self);
        let looked = tokio::task::spawn_blocking(move || live.look_here()).await;
        looked.map_err(|error| error.to_string())?.map_err(|error| error.to_string())
    }

    /// Returns the last page, as soon as there is one.
    pub(super) async fn page(&self) -> Option<Arc<Page>> {
        let mut made = self.made.subscribe();
        made.wait_for(Option::is_some).await.ok().and_then(|page| page.clone())
    }

    fn look_here(self: &Arc<Self>) -> Result<Value, Error> {
        let (stamp, study) = self.study()?;
        let standing = study.standing();
        let finished = standing.activity == Activity::Finished;
        let page = self.made.borrow().clone();
        let up_to_date = page.as_ref().is_some_and(|page| page.of == stamp);
        if !up_to_date {
            self.make_in_turn(stamp, &study, finished);
        }
        let version = page.as_ref().map_or(0, |page| page.version);
        let mut news = live_news(&study, &standing, version, finished && up_to_date);
        if let Some(failed) = page.as_ref().and_then(|page| page.failed.as_ref()) {
            news["now"] = format!("The report could not be made anew: {failed}").into();
        }
        Ok(news)
    }

    /// Returns the experiment, read anew if its files have changed.
    fn study(&self) -> Result<(Stamp, Arc<Study>), Error> {
        let mut read = self.read.lock().unwrap_or_else(PoisonError::into_inner);
        let stamp = Stamp::of(&read.1);
        if read.0 != stamp {
            *read = (stamp, Arc::new(Study::open(&self.folder)?));
        }
        Ok(read.clone())
    }

    fn making(&self) -> MutexGuard<'_, Making> {
        self.making.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Makes a page on a thread of its own, unless one is being made or it is too early.
    fn make_in_turn(self: &Arc<Self>, stamp: Stamp, study: &Arc<Study>, at_once: bool) {
        let mut making = self.making();
        let early = making.rest.is_some_and(|rest| Instant::now() < rest);
        if making.busy || early && !at_once {
            return;
        }
        making.busy = true;
        drop(making);
        let make = {
            let (live, study, stamp) = (Arc::clone(self), Arc::clone(study), stamp.clone());
            move || live.make(stamp, &study)
        };
        // Not a task of the runtime: whoever ends the server does not wait for it.
        if thread::Builder::new().spawn(make).is_err() {
            // Somebody waits for this page, so it is made here.
            self.make(stamp, study);
        }
    }

    fn make(&self, of: Stamp, study: &Study) {
        let turn = Turn { live: self, began: Instant::now() };
        let page = self.page_of(of, study);
        self.made.send_replace(Some(Arc::new(page)));
        drop(turn);
    }

    fn page_of(&self, of: Stamp, study: &Study) -> Page {
        let last = self.made.borrow().clone();
        let version = last.as_ref().map_or(1, |page| page.version + 1);
        match (self.report.page(study, version), last) {
            (Ok(html), _) => Page::new(version, of, html, None),
            (Err(error), Some(last)) => {
                Page { of, failed: Some(error.to_string()), ..(*last).clone() }
            }
            (Err(error), None) => {
                let what = format!("The report could not be made: {error}");
                let html = nextpair_report::page::page("nextpair", "", &paragraph(&what));
                Page::new(version, of, html, Some(error.to_string()))
            }
        }
    }
}

fn paragraph(text: &str) -> String {
    format!("<p>{}</p>", nextpair_report::page::escaped(text))
}

/// The right to make a page. It ends with a rest, even after a panic.
struct Turn<'a> {
    live: &'a Live,
    began: Instant,
}

impl Drop for Turn<'_> {
    fn drop(&mut self) {
        let rest = (REST * self.began.elapsed()).min(LONGEST_REST);
        *self.live.making() = Making { busy: false, rest: Some(Instant::now() + rest) };
    }
}
