//! A dataset in the form that models take: image features, and words or vectors of captions.

use std::sync::Arc;

use nextpair_data::dataset::{DEV, Dataset, FeatureSet, Features, Items, Per, TRAIN};
use nextpair_data::text::{Vocabulary, WordCounts};
use nextpair_data::{Progress, Side, draw};
use nextpair_kernels::{Device, Resident, Tensor};
use rayon::prelude::*;
use serde::{Deserialize, Serialize};

use crate::{Error, Inputs, Texts};

/// A dataset with the features and words of its items. A clone copies none of them.
#[derive(Clone)]
pub struct Corpus {
    dataset: Dataset,
    image_set: FeatureSet,
    images: Features,
    texts: Arc<Captions>,
    /// Image features that GPUs keep.
    resident: Arc<Resident>,
    /// The items of dev, if not those of the dataset.
    dev: Option<Vec<usize>>,
}

/// Captions in the form a model takes.
#[expect(clippy::large_enum_variant, reason = "a corpus has one")]
enum Captions {
    /// Word ids of all captions, and the offset of each.
    Words { ids: Vec<u32>, offsets: Vec<usize>, known: usize },
    Vectors {
        set: FeatureSet,
        features: Features,
        /// Those that GPUs keep.
        resident: Resident,
    },
}

impl Captions {
    /// Encodes every caption with a vocabulary.
    fn read(items: &Items, vocabulary: &Vocabulary) -> Self {
        let encoded: Vec<Vec<Vec<u32>>> = (0..items.len())
            .into_par_iter()
            .map(|item| items.get(item).captions.iter().map(|c| vocabulary.encode(c)).collect())
            .collect();
        let mut offsets = vec![0];
        let mut ids = Vec::new();
        for caption in encoded.iter().flatten() {
            ids.extend_from_slice(caption);
            offsets.push(ids.len());
        }
        Captions::Words { ids, offsets, known: vocabulary.words().len() }
    }
}

/// An image and one of its captions, by their indices in the dataset.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Pair {
    /// The item.
    pub item: usize,
    /// The caption.
    pub caption: usize,
}

/// Which captions of an image make pairs.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Choice {
    /// All captions.
    #[default]
    All,
    /// One caption, drawn by the seed.
    Random,
    /// The first caption.
    First,
}

/// Purposes of the draws, which keep them apart from other draws of the same seed.
const CAPTION: u64 = 0xca;
const SHARE: u64 = 0x5a;

/// Rows of features checked together.
const CHECKED: usize = 256;

/// Rows of features sampled for a fingerprint.
const SAMPLED: usize = 64;

impl Corpus {
    /// A corpus for models that read words.
    pub fn of_words(
        dataset: Dataset,
        images: Option<&str>,
        vocabulary: &Vocabulary,
    ) -> Result<Self, Error> {
        let texts = Captions::read(dataset.items(), vocabulary);
        Self::open(dataset, images, texts)
    }

    /// The same dataset and features, for a model with this vocabulary.
    pub fn with_words(&self, vocabulary: &Vocabulary) -> Corpus {
        let texts = Arc::new(Captions::read(self.dataset.items(), vocabulary));
        Corpus { texts, ..self.clone() }
    }

    /// The same dataset with other items of dev.
    pub fn with_dev(self, dev: Vec<usize>) -> Corpus {
        Corpus { dev: Some(dev), ..self }
    }

    /// The words of the captions of some pairs, each caption once.
    pub fn words_of(&self, pairs: &[Pair]) -> WordCounts {
        let items = self.dataset.items();
        let mut captions: Vec<usize> = pairs.iter().map(|pair| pair.caption).collect();
        captions.sort_unstable();
        captions.dedup();
        let mut counts = WordCounts::default();
        let owner = |caption: &usize| items.item_of_caption(*caption);
        for of_item in captions.chunk_by(|a, b| owner(a) == owner(b)) {
            let item = owner(&of_item[0]);
            let (texts, first) = (items.get(item).captions, items.captions_of(item).start);
            for caption in of_item {
                counts.add(&texts[caption - first]);
            }
        }
        counts
    }

    /// A corpus for models that take vectors on both sides.
    pub fn of_vectors(
        dataset: Dataset,
        images: Option<&str>,
        texts: Option<&str>,
    ) -> Result<Self, Error> {
        let (set, features) = dataset.features(Side::Text, texts)?;
        if set.per != Per::Caption || features.matrix().locals() != 1 {
            return Err(Error::Dataset {
                what: format!(
                    "the text features {} are not one vector per caption; `nextpair import embeddings \
                     --captions FILE` gives the captions of imported vectors, and `nextpair embed \
                     --text-vectors FILE` adds vectors of captions",
                    set.name
                ),
            });
        }
        let resident = resident(dataset.items().captions(), &features);
        let texts = Captions::Vectors { set: set.clone(), features, resident };
        Self::open(dataset, images, texts)
    }

    fn open(dataset: Dataset, images: Option<&str>, texts: Captions) -> Result<Self, Error> {
        let (set, images) = dataset.features(Side::Image, images)?;
        if set.per != Per::Item {
            return Err(Error::Dataset {
                what: format!("the image features {} are not one row per item", set.name),
            });
        }
        if images.matrix().locals() == 0 || images.matrix().dim() == 0 {
            return Err(Error::NoRegions { what: format!("the feature set {}", set.name) });
        }
        let image_set = set.clone();
        let resident = Arc::new(resident(dataset.items().len(), &images));
        Ok(Corpus { dataset, image_set, images, texts: Arc::new(texts), resident, dev: None })
    }

    /// The dataset.
    pub fn dataset(&self) -> &Dataset {
        &self.dataset
    }

    /// The image features in use.
    pub fn image_features(&self) -> (&FeatureSet, &Features) {
        (&self.image_set, &self.images)
    }

    /// The text features in use, unless captions are words.
    pub fn text_features(&self) -> Option<(&FeatureSet, &Features)> {
        match &*self.texts {
            Captions::Words { .. } => None,
            Captions::Vectors { set, features, .. } => Some((set, features)),
        }
    }

    /// Inputs of a model for this corpus.
    pub fn inputs(&self) -> Inputs {
        let text = match &*self.texts {
            Captions::Words { known, .. } => *known,
            Captions::Vectors { features, .. } => features.matrix().dim(),
        };
        Inputs { image: self.images.matrix().dim(), text }
    }

    /// Whether captions are words, rather than vectors.
    pub(crate) fn reads_words(&self) -> bool {
        matches!(&*self.texts, Captions::Words { .. })
    }

    /// Whether models can learn from both together: they have the same features, and what models take
    /// has the same size.
    pub fn shares_features(&self, other: &Corpus) -> bool {
        let texts = self.reads_words() || Arc::ptr_eq(&self.texts, &other.texts);
        let images = Arc::ptr_eq(&self.resident, &other.resident);
        images && texts && self.inputs() == other.inputs()
    }

    /// Regions per image.
    pub fn regions(&self) -> usize {
        self.images.matrix().locals()
    }

    /// Whether an item has image features.
    pub fn has_image(&self, item: usize) -> bool {
        self.images.row(item).is_some()
    }

    /// Whether a caption is available: as words, or with features.
    pub fn has_text(&self, caption: usize) -> bool {
        match &*self.texts {
            Captions::Words { .. } => true,
            Captions::Vectors { features, .. } => features.row(caption).is_some(),
        }
    }

    /// The captions of an item that are available.
    pub fn captions_of(&self, item: usize) -> impl Iterator<Item = usize> + '_ {
        self.dataset.items().captions_of(item).filter(|&caption| self.has_text(caption))
    }

    /// The image features of some items: images by regions by numbers.
    pub fn features(&self, items: &[usize], device: Device) -> Result<Tensor, Error> {
        let matrix = self.images.matrix();
        let (regions, dim) = (matrix.locals(), matrix.dim());
        let shape = [items.len(), regions, dim];
        self.on_device(&self.resident, &self.images, (items, "image"), &shape, device)
    }

    /// For each of some images whose features were asked for, how many regions come before those
    /// that are all zeros, if the device knows.
    pub(crate) fn filled_regions(&self, items: &[usize], device: Device) -> Option<Vec<usize>> {
        let dim = self.images.matrix().dim();
        let numbers = self.resident.filled(device, items)?;
        Some(numbers.into_iter().map(|numbers| numbers.div_ceil(dim)).collect())
    }

    /// The captions as a model takes them.
    pub fn texts(&self, captions: &[usize], device: Device) -> Result<Texts, Error> {
        match &*self.texts {
            Captions::Words { ids, offsets, .. } => {
                let words = |&caption: &usize| &ids[offsets[caption]..offsets[caption + 1]];
                Texts::words(&captions.iter().map(words).collect::<Vec<_>>())
            }
            Captions::Vectors { features, resident, .. } => {
                let shape = [captions.len(), features.matrix().dim()];
                let which = (captions, "caption");
                Ok(Texts::Vectors(self.on_device(resident, features, which, &shape, device)?))
            }
        }
    }

    /// Rows of features on a device, with every number checked.
    fn on_device(
        &self,
        resident: &Resident,
        features: &Features,
        (which, what): (&[usize], &str),
        shape: &[usize],
        device: Device,
    ) -> Result<Tensor, Error> {
        if which.iter().any(|&index| features.row(index).is_none()) || device == Device::Cpu {
            // The error names the first that is missing.
            return Ok(Tensor::new(self.gather(features, which, what)?, shape, device)?);
        }
        resident.gather(device, which, shape, |which| self.gather(features, which, what))
    }

    /// Rows of features, with every number checked.
    fn gather(&self, features: &Features, which: &[usize], what: &str) -> Result<Vec<f32>, Error> {
        let matrix = features.matrix();
        let width = matrix.locals() * matrix.dim();
        let mut values = vec![0.0; which.len() * width];
        values.par_chunks_mut(width).zip(which).try_for_each(|(values, &index)| {
            let name = || {
                let items = self.dataset.items();
                let item = if what == "image" { index } else { items.item_of_caption(index) };
                format!("the {what} features of item {}", items.get(item).id)
            };
            let row = features.row(index);
            let row =
                row.ok_or_else(|| Error::Dataset { what: format!("{} are missing", name()) })?;
            matrix.read_f32(row, values);
            if values.iter().all(|value| value.is_finite()) {
                Ok(())
            } else {
                Err(Error::NotFinite { what: format!("{} hold NaN or infinity", name()) })
            }
        })?;
        Ok(values)
    }

    /// Checks every number that training will read, so that it does not fail in the middle.
    pub(crate) fn check_numbers(
        &self,
        pairs: &[Pair],
        whole: &[usize],
        progress: &dyn Progress,
    ) -> Result<(), Error> {
        let items = pairs.iter().map(|pair| pair.item).chain(whole.iter().copied());
        let captions = whole.iter().flat_map(|&item| self.captions_of(item));
        let captions = pairs.iter().map(|pair| pair.caption).chain(captions);
        self.check_finite(items.collect(), captions.collect(), progress)
    }

    /// Checks every number of the features of some images, given as items, and captions.
    ///
    /// # Errors
    /// If one is NaN or infinite, or features are missing.
    pub fn check_finite(
        &self,
        mut items: Vec<usize>,
        mut captions: Vec<usize>,
        progress: &dyn Progress,
    ) -> Result<(), Error> {
        for which in [&mut items, &mut captions] {
            which.sort_unstable();
            which.dedup();
        }
        progress.start("features", items.len() as u64);
        for items in items.chunks(CHECKED) {
            self.gather(&self.images, items, "image")?;
            progress.advance(items.len() as u64);
        }
        match &*self.texts {
            Captions::Words { .. } => Ok(()),
            Captions::Vectors { features, .. } => captions
                .chunks(CHECKED)
                .try_for_each(|captions| self.gather(features, captions, "caption").map(drop)),
        }
    }

    /// Runs `work`, which reads this corpus, and fails if a file changed meanwhile. The change
    /// comes first, because it may have caused an error of `work`.
    pub fn steady<T, E: From<Error>>(&self, work: impl FnOnce() -> Result<T, E>) -> Result<T, E> {
        let result = work();
        self.check_unchanged()?;
        result
    }

    /// Fails if a file of the dataset changed since it was opened.
    pub fn check_unchanged(&self) -> Result<(), Error> {
        self.dataset.items().check_unchanged()?;
        self.images.matrix().check_unchanged()?;
        match &*self.texts {
            Captions::Words { .. } => Ok(()),
            Captions::Vectors { features, .. } => Ok(features.matrix().check_unchanged()?),
        }
    }

    /// Contents of the pairs for a fingerprint: their captions, and a sample of their features.
    pub(crate) fn sample(&self, pairs: &[Pair]) -> Vec<u8> {
        let items = self.dataset.items();
        let mut bytes = Vec::new();
        let owner = |pair: &Pair| items.item_of_caption(pair.caption);
        for of_item in pairs.chunk_by(|a, b| owner(a) == owner(b)) {
            let item = owner(&of_item[0]);
            let (captions, first) = (items.get(item).captions, items.captions_of(item).start);
            for pair in of_item {
                bytes.extend_from_slice(captions[pair.caption - first].as_bytes());
                bytes.push(b'\n');
            }
        }
        for pair in pairs.iter().step_by(pairs.len().div_ceil(SAMPLED).max(1)) {
            if let Some(row) = self.images.row(pair.item) {
                bytes.extend_from_slice(self.images.matrix().row_bytes(row));
            }
            if let Captions::Vectors { features, .. } = &*self.texts
                && let Some(row) = features.row(pair.caption)
            {
                bytes.extend_from_slice(features.matrix().row_bytes(row));
            }
        }
        bytes
    }

    /// Items to train on: those of the split `train`, or, in a dataset that has no such split,
    /// those without a split.
    pub fn training_items(&self) -> Vec<usize> {
        training_items(self.dataset.items())
    }

    /// Items of the split `dev` that can be evaluated, at most `limit`.
    pub fn dev_items(&self, limit: usize) -> Vec<usize> {
        let of_dataset = || self.dataset.items().in_split(Some(DEV));
        let mut items = self.dev.clone().unwrap_or_else(of_dataset);
        items.retain(|&item| self.is_whole(item));
        items.truncate(limit);
        items
    }

    /// Whether an item has an image and a caption.
    pub fn is_whole(&self, item: usize) -> bool {
        self.has_image(item) && self.captions_of(item).next().is_some()
    }

    /// Draws `floor(share * N)` of the `N` items that have both halves. With the same seed, a
    /// larger share contains a smaller one.
    pub fn drawn_share(&self, items: &[usize], share: f64, seed: u64) -> Vec<usize> {
        let whole: Vec<usize> = items.iter().copied().filter(|&item| self.is_whole(item)).collect();
        // Rounding must not push a whole number below itself.
        drawn(&whole, (share * whole.len() as f64 + 1e-9) as usize, seed)
    }

    /// The pairs of some items. Items that lack a half have none.
    pub fn pairs(&self, items: &[usize], choice: Choice, seed: u64) -> Vec<Pair> {
        let whole = items.iter().copied().filter(|&item| self.has_image(item));
        whole.flat_map(|item| self.chosen(item, choice, seed)).collect()
    }

    /// The captions of an item that `choice` takes, as pairs.
    pub fn chosen(&self, item: usize, choice: Choice, seed: u64) -> Vec<Pair> {
        let captions: Vec<usize> = self.captions_of(item).collect();
        let chosen = match (choice, captions.len()) {
            (_, 0) => &[],
            (Choice::All, _) => &captions[..],
            (Choice::First, _) => &captions[..1],
            (Choice::Random, count) => {
                let at = (draw::draw_of(seed, CAPTION, item as u64) % count as u64) as usize;
                &captions[at..=at]
            }
        };
        chosen.iter().map(|&caption| Pair { item, caption }).collect()
    }
}

/// Room on GPUs for the features of so many items or captions.
fn resident(count: usize, features: &Features) -> Resident {
    let matrix = features.matrix();
    Resident::new(count, matrix.locals() * matrix.dim())
}

/// Draws `count` of the items by the seed; they keep their order. A larger draw of the same seed
/// contains a smaller one.
pub fn drawn(items: &[usize], count: usize, seed: u64) -> Vec<usize> {
    let drawn = draw::sample(seed, SHARE, items.len(), count);
    drawn.into_iter().map(|at| items[at as usize]).collect()
}

/// See [`Corpus::training_items`].
pub(crate) fn training_items(items: &Items) -> Vec<usize> {
    let named = items.splits().any(|split| split == Some(TRAIN));
    items.in_split(named.then_some(TRAIN))
}
