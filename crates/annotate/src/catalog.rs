//! The items that people see: images of the dataset, of a folder beside it, uploaded images, and
//! texts.
//!
//! Files are only ever read by id: the id is looked up, and its file is the one that the dataset
//! gives, or one found in the folder beside it. Opening a dataset refuses names that lead out of
//! its folder.

use std::collections::{BTreeMap, HashMap};
use std::fs::File;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::path::{Path, PathBuf};

use nextpair_data::dataset::{Dataset, FOLDER, ImageTwins, Item, TRAIN, UPLOAD};
use nextpair_data::escape::url_part;
use nextpair_data::picture::{self, Format};
use nextpair_data::{Side, open_file};

use crate::error::{Error, Refusal};
use crate::log::Log;
use crate::settings::Settings;

/// Extensions of image files.
const ENDINGS: [&str; 6] = ["jpg", "jpeg", "png", "webp", "gif", "bmp"];

/// The items that people see.
pub(crate) struct Catalog {
    dataset: Dataset,
    pool: Side,
    /// The folders of uploaded images.
    uploads: Vec<PathBuf>,
    /// Images of a folder beside the dataset that texts may be paired with, by id.
    beside: BTreeMap<String, PathBuf>,
    /// Items by the hash of their ids. Ids with the same hash are compared.
    by_hash: HashMap<u64, Vec<u32>>,
    /// Finds images of the dataset among those from elsewhere.
    twins: ImageTwins,
}

impl Catalog {
    pub(crate) fn new(dataset: Dataset, pool: Side, settings: &Settings) -> Result<Self, Error> {
        let mut by_hash: HashMap<u64, Vec<u32>> = HashMap::new();
        for (at, item) in dataset.items().iter().enumerate() {
            by_hash.entry(hash(&item.id)).or_default().push(at as u32);
        }
        let uploads: Vec<PathBuf> =
            settings.uploads.iter().chain(&settings.taken_uploads).cloned().collect();
        let is_open = pool == Side::Text && (!uploads.is_empty() || settings.images.is_some());
        let twins = if is_open { ImageTwins::of(&dataset) } else { ImageTwins::default() };
        let mut found = FolderImages::default();
        if let Some(images) = &settings.images {
            found.look(images, FOLDER)?;
            found.log_odd(&settings.log);
            if found.images.is_empty() {
                return Err(Error::Settings(format!("{}: no images in it", images.display())));
            }
        }
        Ok(Catalog { dataset, pool, uploads, beside: found.images, by_hash, twins })
    }

    /// The ids of all images that a text can be paired with, except uploads.
    pub(crate) fn candidates(&self) -> impl Iterator<Item = String> {
        let items = self.dataset.items().iter().filter(|item| self.check_item(item).is_ok());
        items.map(|item| item.id).chain(self.beside.keys().cloned())
    }

    pub(crate) fn dataset(&self) -> &Dataset {
        &self.dataset
    }

    /// The side of the pool.
    pub(crate) fn pool(&self) -> Side {
        self.pool
    }

    /// The id of an upload, by the name of its file.
    pub(crate) fn upload(name: &str) -> String {
        format!("{UPLOAD}{name}")
    }

    /// The item of this id.
    pub(crate) fn item(&self, id: &str) -> Option<Item> {
        let candidates = self.by_hash.get(&hash(id))?;
        let mut items = candidates.iter().map(|&at| self.dataset.items().get(at as usize));
        items.find(|item| item.id == id)
    }

    /// The URL of an item's image, if there is a file.
    pub(crate) fn url(&self, id: &str) -> Option<String> {
        let has_file = match self.item(id) {
            Some(item) => self.dataset.image_file(&item).is_some(),
            None => self.elsewhere(id).is_some(),
        };
        // Browsers resolve such a path segment, however it is escaped.
        let is_a_way = id == "." || id == "..";
        (has_file && !is_a_way).then(|| format!("/api/images/{}", url_part(id)))
    }

    /// For pools of texts: the texts to find an image for.
    pub(crate) fn texts(&self, id: &str) -> Vec<String> {
        match self.pool {
            Side::Image => Vec::new(),
            Side::Text => self.item(id).map(|item| item.captions).unwrap_or_default(),
        }
    }

    /// Opens an image file; returns it with its media type.
    pub(crate) fn open(&self, id: &str) -> Result<(File, &'static str), Refusal> {
        let none = || Refusal::not_found("there is no image of this item");
        let path = match self.item(id) {
            Some(item) => self.dataset.image_file(&item),
            None => self.elsewhere(id),
        };
        let path = path.ok_or_else(none)?;
        let file = open_file(&path).map_err(|_| none())?;
        let header = picture::probe_from(&path, &file);
        let header = header.map_err(|_| Refusal::not_found("the file is not a whole image"))?;
        Ok((file, media_type(header.format)))
    }

    /// Returns an error unless a text can be paired with the image of this id.
    pub(crate) fn check_image(&self, id: &str) -> Result<(), String> {
        match self.item(id) {
            Some(item) => self.check_item(&item),
            None => {
                let path = self.elsewhere(id).ok_or("there is no such image")?;
                // The same image under another name must not get around the check.
                match self.twins.find(&self.dataset, &path) {
                    Some(item) => self.check_item(&item),
                    None => Ok(()),
                }
            }
        }
    }

    fn check_item(&self, item: &Item) -> Result<(), String> {
        if !self.has_file(item) {
            return Err("the item has no image".to_owned());
        }
        // Evaluation data must not be trained on.
        match item.split.as_deref().filter(|&split| split != TRAIN) {
            Some(split) => Err(format!("the image is of the split {split}, not {TRAIN}")),
            None => Ok(()),
        }
    }

    fn has_file(&self, item: &Item) -> bool {
        self.dataset.has_image_files() && item.image.is_some()
    }

    /// The file of an image outside the dataset: one of the folder, or an upload. We name uploads
    /// ourselves: letters, digits and one dot.
    fn elsewhere(&self, id: &str) -> Option<PathBuf> {
        if let Some(path) = self.beside.get(id) {
            return Some(path.clone());
        }
        let name = id.strip_prefix(UPLOAD)?;
        let (stem, ending) = name.split_once('.')?;
        let plain = |part: &str| part.bytes().all(|byte| byte.is_ascii_alphanumeric());
        let mut files = self.uploads.iter().map(|folder| folder.join(name));
        files.find(|path| plain(stem) && plain(ending) && path.is_file())
    }
}

/// Images of a folder.
#[derive(Default)]
struct FolderImages {
    images: BTreeMap<String, PathBuf>,
    /// Image files that cannot be offered, with the reason.
    odd: Vec<(PathBuf, &'static str)>,
}

impl FolderImages {
    /// Collects the images in a folder and its subfolders, named by `prefix` and their paths.
    fn look(&mut self, folder: &Path, prefix: &str) -> Result<(), Error> {
        let wrong = |e: std::io::Error| Error::Settings(format!("{}: {e}", folder.display()));
        for entry in std::fs::read_dir(folder).map_err(wrong)? {
            let entry = entry.map_err(wrong)?;
            let (path, name) = (entry.path(), entry.file_name());
            let Some(name) = name.to_str().filter(|name| !name.starts_with('.')) else { continue };
            let ending = path.extension().and_then(|ending| ending.to_str()).unwrap_or_default();
            if entry.file_type().map_err(wrong)?.is_dir() {
                self.look(&path, &format!("{prefix}{name}/"))?;
            } else if ENDINGS.contains(&ending.to_ascii_lowercase().as_str()) {
                let id = format!("{prefix}{name}");
                match () {
                    // In files of answers, an id is on one line.
                    () if id.chars().any(char::is_control) => {
                        self.odd.push((path, "a name with control characters"));
                    }
                    // A link to a pipe or a device is not a picture, and reading it may block
                    // forever.
                    () if !path.is_file() => self.odd.push((path, "no ordinary file")),
                    () => drop(self.images.insert(id, path)),
                }
            }
        }
        Ok(())
    }

    /// Logs the first file that is not offered.
    fn log_odd(&self, log: &Log) {
        if let Some((path, why)) = self.odd.first() {
            let more = self.odd.len() - 1;
            log.line(format_args!(
                "{path:?}: {why}, so it is not offered (and {more} more like it)"
            ));
        }
    }
}

fn hash(id: &str) -> u64 {
    let mut hasher = DefaultHasher::new();
    id.hash(&mut hasher);
    hasher.finish()
}

fn media_type(format: Format) -> &'static str {
    match format {
        Format::Jpeg => "image/jpeg",
        Format::Png => "image/png",
        Format::WebP => "image/webp",
        Format::Gif => "image/gif",
        Format::Bmp => "image/bmp",
    }
}
