//! Preprocessing: from a picture to the input of an image encoder.
//!
//! The settings come from a small TOML file beside the model (`model.onnx`, `model.toml`), or from
//! a preset by name. A file may start from a preset and override parts of it:
//!
//! ```toml
//! preset = "imagenet"             # optional: imagenet, clip, siglip or efficientnet-lite
//! size = 224                      # or [height, width]
//! resize = "short-side"           # squash, crop, short-side or pad
//! crop = 0.875                    # for "crop": the part of the short side that is kept
//! resize_to = 256                 # for "short-side": the short side before the crop to size
//! fill = [0, 0, 0]                # for "pad": the colour beside the picture
//! filter = "bilinear"             # nearest, bilinear, bicubic or lanczos, antialiased
//! scale = 255                     # value = (pixel / scale - mean) / std
//! mean = [0.485, 0.456, 0.406]    # red, green, blue
//! std = [0.229, 0.224, 0.225]
//! channels = "rgb"                # or "bgr"
//! layout = "nchw"                 # or "nhwc"
//! ```

mod preset;
mod resize;
mod spec;

use std::path::Path;

use nextpair_data::ordinary;
use nextpair_data::picture::{MAX_PIXELS, Picture};
use serde::{Deserialize, Serialize};

use crate::Error;
use spec::Spec;

/// Checked settings; the module describes the fields of the file. Pairs are height, width.
#[derive(Clone, Debug, PartialEq)]
pub struct Preprocess {
    size: (u32, u32),
    resize: Resize,
    filter: Filter,
    channels: Channels,
    layout: Layout,
    /// The value of every possible byte, for red, green and blue.
    values: Box<[[f32; 256]; 3]>,
    spec: Spec,
}

/// How a picture of any shape is fitted to the input size.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Resize {
    /// Stretch the whole picture.
    Squash,
    /// Cut out a centred square, this share of the short side, and resize it. Its side is rounded
    /// down; if it cannot be centred it lies half a pixel right and down.
    Crop(f64),
    /// Resize the short side to this and cut out the centre, as torchvision does.
    ShortSide(u32),
    /// Resize the whole picture to fit, centred on this colour.
    Pad([u8; 3]),
}

/// Interpolation filter. All but `Nearest` average over the source area of a pixel.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Filter {
    /// No interpolation.
    Nearest,
    /// A triangle filter.
    Bilinear,
    /// A cubic with a = -0.5 (Catmull-Rom), Pillow's BICUBIC.
    Bicubic,
    /// Lanczos over three lobes.
    Lanczos,
}

/// The order of the colours.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Channels {
    /// Red first.
    Rgb,
    /// Blue first, as in OpenCV and Caffe.
    Bgr,
}

/// The order of the axes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Layout {
    /// One plane per colour.
    Nchw,
    /// Three numbers per pixel.
    Nhwc,
}

impl Preprocess {
    /// The names of the presets.
    pub const PRESETS: [&str; 4] = ["imagenet", "clip", "siglip", "efficientnet-lite"];

    /// Reads and checks a TOML file.
    pub fn read(path: &Path) -> Result<Self, Error> {
        let text = ordinary::read_text(path)?;
        Self::parse(&text).map_err(|what| Error::file(path, what))
    }

    /// The settings of a family of models; `None` for an unknown name.
    pub fn preset(name: &str) -> Option<Self> {
        // The tests check the presets.
        preset::spec(name).and_then(|spec| spec.validate().ok())
    }

    /// Checks the text of a TOML file.
    pub fn parse(text: &str) -> Result<Self, String> {
        let spec: Spec = toml::from_str(text).map_err(|e| e.to_string().trim_end().to_string())?;
        let base = match &spec.preset {
            Some(name) => preset::spec(name).ok_or_else(|| {
                format!("preset '{name}' is unknown; there are {}", Self::PRESETS.join(", "))
            })?,
            None => Spec::default(),
        };
        spec.over(base).validate()
    }

    /// The settings as a file without a preset would state them.
    pub fn to_table(&self) -> toml::Table {
        toml::Table::try_from(&self.spec).expect("settings are numbers, lists and words")
    }

    /// Height and width of the model's input.
    pub fn size(&self) -> (u32, u32) {
        self.size
    }

    /// The order of the axes.
    pub fn layout(&self) -> Layout {
        self.layout
    }

    /// The shape of one prepared picture, with a batch of one in front.
    pub fn shape(&self) -> [usize; 4] {
        let (height, width) = (self.size.0 as usize, self.size.1 as usize);
        match self.layout {
            Layout::Nchw => [1, 3, height, width],
            Layout::Nhwc => [1, height, width, 3],
        }
    }

    /// Prepares one picture of any shape. Returns [`Error::Picture`] unless it has pixels, three
    /// bytes each, and no more than [`MAX_PIXELS`].
    pub fn prepare(&self, picture: &Picture) -> Result<Vec<f32>, Error> {
        let &Picture { width, height, ref pixels } = picture;
        let count = u64::from(width) * u64::from(height);
        if !(1..=MAX_PIXELS).contains(&count) || pixels.len() as u64 != 3 * count {
            return Err(Error::Picture { width, height, bytes: pixels.len() });
        }
        let pixels = resize::resize(picture, self.size, self.resize, self.filter);
        let (pixels, _) = pixels.as_chunks::<3>();
        let order = match self.channels {
            Channels::Rgb => [0, 1, 2],
            Channels::Bgr => [2, 1, 0],
        };
        let mut prepared = Vec::with_capacity(3 * pixels.len());
        match self.layout {
            Layout::Nchw => order.into_iter().for_each(|colour| {
                let values = &self.values[colour];
                prepared.extend(pixels.iter().map(|pixel| values[usize::from(pixel[colour])]));
            }),
            Layout::Nhwc => pixels.iter().for_each(|pixel| {
                prepared
                    .extend(order.map(|colour| self.values[colour][usize::from(pixel[colour])]));
            }),
        }
        Ok(prepared)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_says_everything_or_starts_from_a_preset() {
        let whole = "size = [2, 3]\nresize = \"squash\"\nfilter = \"nearest\"\nscale = 1\n\
                     mean = [1, 2, 3]\nstd = [2, 2, 2]\nchannels = \"bgr\"\nlayout = \"nhwc\"";
        let settings = Preprocess::parse(whole).unwrap();
        assert_eq!((settings.size(), settings.shape()), ((2, 3), [1, 2, 3, 3]));
        let clip = Preprocess::preset("clip").unwrap();
        assert_eq!(Preprocess::parse("preset = \"clip\"").unwrap(), clip);
        let squashed = Preprocess::parse("preset = \"clip\"\nresize = \"squash\"").unwrap();
        assert_eq!((squashed.resize, squashed.filter), (Resize::Squash, clip.filter));
        let again = toml::to_string(&squashed.to_table()).unwrap();
        assert_eq!(Preprocess::parse(&again).unwrap(), squashed);
        for name in Preprocess::PRESETS {
            assert_eq!(Preprocess::preset(name).unwrap().shape(), [1, 3, 224, 224], "{name}");
        }
        assert!(Preprocess::preset("vgg").is_none());
    }

    #[test]
    fn wrong_settings_are_named() {
        for (text, expected) in [
            ("", "size is missing"),
            ("size = 8", "resize is missing"),
            ("size = 0\nresize = \"squash\"", "size 0 x 0; accepted are 1 to 4096"),
            ("size = 8\nresize = \"squash\"\ncrop = 0.5", "crop does not go with this resize"),
            ("size = 8\nresize = \"crop\"\ncrop = nan", "crop = NaN; accepted is more than 0"),
            ("size = 8\nresize = \"short-side\"\nresize_to = 7", "accepted are 8 to 8192"),
            ("size = 8\nresize = \"squash\"\nstd = [1, 0, 1]", "std must be above 0"),
            ("size = 8\nresize = \"squash\"\nmean = [1, inf, 1]", "mean must be of finite"),
            ("size = 8\nresize = \"stretch\"", "unknown variant `stretch`"),
            ("size = 8\nwidth = 9", "unknown field `width`"),
            ("preset = \"vgg\"", "preset 'vgg' is unknown; there are imagenet, clip"),
            ("size = ", "TOML parse error at line 1"),
        ] {
            let what = Preprocess::parse(text).unwrap_err();
            assert!(what.contains(expected), "{what}");
        }
    }

    #[test]
    fn channels_layout_and_values() {
        let picture = Picture { width: 2, height: 1, pixels: vec![0, 10, 20, 30, 40, 50] };
        let prepared = |rest: &str| {
            let text = format!(
                "size = [1, 2]\nresize = \"squash\"\nfilter = \"nearest\"\nscale = 10\n\
                 mean = [1, 2, 3]\nstd = [1, 2, 4]\n{rest}"
            );
            Preprocess::parse(&text).unwrap().prepare(&picture).unwrap()
        };
        assert_eq!(prepared(""), [-1.0, 2.0, -0.5, 1.0, -0.25, 0.5]);
        assert_eq!(prepared("channels = \"bgr\""), [-0.25, 0.5, -0.5, 1.0, -1.0, 2.0]);
        assert_eq!(prepared("layout = \"nhwc\""), [-1.0, -0.5, -0.25, 2.0, 1.0, 0.5]);
    }
}
