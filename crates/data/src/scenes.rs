//! A generated world: pictures of simple shapes with true captions, for trying everything out on
//! a machine that has no data.
//!
//! **It is synthetic.** Numbers measured on it say how the software behaves, not how a method
//! does on photographs. It imitates three properties of real data. There are common and rare
//! things: all attributes are drawn with weights 1, 1/2, 1/3, ..., and shapes have favourite
//! colours, so combinations are rarer still. Each of several captions tells a part of the truth in
//! its own words. And there are near-duplicates: scenes that repeat an earlier one with one
//! attribute of one object changed, in another light.
//!
//! Every scene is a function of the [`Settings`] and its index, so a world of any size needs no
//! memory and can be made in any order, on any number of threads, with the same bytes everywhere.
//!
//! ```
//! use nextpair_data::scenes::{Settings, World, describe, encode_png};
//!
//! let world = World::new(Settings { images: 3000, ..Settings::default() })?;
//! let scene = world.scene(17);
//! let picture = scene.render();
//! let (png, regions) = (encode_png(&picture)?, describe(&picture));
//! let captions = scene.captions();
//! # assert!(png.len() > 1000 && regions.len() == 36 * 64 && captions.len() == 5);
//! # Ok::<(), nextpair_data::Error>(())
//! ```

mod attributes;
mod captions;
mod compose;
mod describe;
mod outline;
mod png;
mod render;
#[cfg(test)]
mod tests;
mod words;

use crate::draw::draw_of;
use crate::{Draws, Error};

pub use attributes::{Backdrop, Colour, Place, Shape, Size, Texture};
pub use compose::{Attribute, Object, Origin, Scene};
pub use describe::{DESCRIPTORS, MADE_BY, REGIONS, describe, describe_picture};
pub use png::encode_png;
pub use render::SIDE;

/// Purposes of the random draws.
mod purpose {
    pub const CONTENT: u64 = 0x7363_0001;
    pub const REPEATS: u64 = 0x7363_0002;
    pub const ORIGINAL: u64 = 0x7363_0003;
    pub const CHANGE: u64 = 0x7363_0004;
    pub const APPEARANCE: u64 = 0x7363_0005;
}

/// Most images of dev and of test.
const LARGEST_EVALUATION: usize = 5000;

/// Number of earlier scenes tried before a near-duplicate falls back on the first of its split.
const TRIES: usize = 32;

/// The settings of a world.
#[derive(Clone, Debug, PartialEq)]
pub struct Settings {
    /// The seed of the world. Worlds of different seeds have nothing in common.
    pub seed: u64,
    /// Number of scenes.
    pub images: usize,
    /// The probability that a scene repeats an earlier one of its split with one attribute changed.
    /// The first scene of a split never does.
    pub near_duplicates: f64,
}

impl Default for Settings {
    /// 3,000 images, a quarter of them near-duplicates.
    fn default() -> Self {
        Settings { seed: 0, images: 3000, near_duplicates: 0.25 }
    }
}

/// The split of a scene.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Split {
    /// For training: the first scenes.
    Train,
    /// For choosing among models: after train.
    Dev,
    /// For the final evaluation: the last scenes.
    Test,
}

/// All scenes of some settings, generated on demand.
#[derive(Clone, Debug)]
pub struct World {
    settings: Settings,
}

impl World {
    /// Checks the settings and returns their world.
    pub fn new(settings: Settings) -> Result<Self, Error> {
        let refused = |name, what: String| Err(Error::Argument { name, what });
        if settings.images == 0 {
            return refused("images", "a world needs at least one".into());
        }
        if !(0.0..=1.0).contains(&settings.near_duplicates) {
            let what = format!("{} is not a rate from 0 to 1", settings.near_duplicates);
            return refused("near-duplicates", what);
        }
        Ok(World { settings })
    }

    /// The settings of this world.
    pub fn settings(&self) -> &Settings {
        &self.settings
    }

    /// The split of a scene: train, then dev, then test. Dev and test have a tenth of the images
    /// each, rounded down and at most 5,000.
    pub fn split(&self, index: usize) -> Split {
        match self.starts() {
            [_, test] if index >= test => Split::Test,
            [dev, _] if index >= dev => Split::Dev,
            _ => Split::Train,
        }
    }

    /// Generates one scene. Nothing is cached, and scenes past the last one exist too.
    pub fn scene(&self, index: usize) -> Scene {
        let scene = match self.original(index) {
            None => self.content(index),
            Some(original) => {
                let mut draws = self.draws(purpose::CHANGE, index);
                self.content(original).changed(original, &mut draws)
            }
        };
        scene.seen(self.draws(purpose::APPEARANCE, index).bits())
    }

    /// The scene that this one repeats. That one repeats none itself.
    fn original(&self, index: usize) -> Option<usize> {
        if !self.repeats(index) {
            return None;
        }
        let start = self.start(index);
        let mut draws = self.draws(purpose::ORIGINAL, index);
        let mut earlier = (0..TRIES).map(|_| start + draws.below(index - start));
        Some(earlier.find(|&candidate| !self.repeats(candidate)).unwrap_or(start))
    }

    fn repeats(&self, index: usize) -> bool {
        let unit = self.draws(purpose::REPEATS, index).unit();
        index != self.start(index) && unit < self.settings.near_duplicates
    }

    /// The first scene of the split of `index`.
    fn start(&self, index: usize) -> usize {
        let [dev, test] = self.starts();
        match self.split(index) {
            Split::Train => 0,
            Split::Dev => dev,
            Split::Test => test,
        }
    }

    /// The first scenes of dev and of test.
    fn starts(&self) -> [usize; 2] {
        let images = self.settings.images;
        let evaluation = (images / 10).min(LARGEST_EVALUATION);
        [images - 2 * evaluation, images - evaluation]
    }

    fn content(&self, index: usize) -> Scene {
        Scene::composed(&mut self.draws(purpose::CONTENT, index))
    }

    fn draws(&self, purpose: u64, index: usize) -> Draws {
        Draws::new(draw_of(self.settings.seed, purpose, index as u64))
    }
}
