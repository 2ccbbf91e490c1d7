//! The settings file as written, and its validation.

use serde::{Deserialize, Serialize};

use super::{Channels, Filter, Layout, Preprocess, Resize};

/// The settings file as written.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Spec {
    pub(super) preset: Option<String>,
    pub(super) size: Option<Size>,
    pub(super) resize: Option<Mode>,
    pub(super) crop: Option<f64>,
    pub(super) resize_to: Option<u32>,
    pub(super) fill: Option<[u8; 3]>,
    pub(super) filter: Option<Filter>,
    pub(super) scale: Option<f64>,
    pub(super) mean: Option<[f64; 3]>,
    pub(super) std: Option<[f64; 3]>,
    pub(super) channels: Option<Channels>,
    pub(super) layout: Option<Layout>,
}

#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(untagged)]
pub(super) enum Size {
    Square(u32),
    HeightWidth([u32; 2]),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(super) enum Mode {
    Squash,
    Crop,
    ShortSide,
    Pad,
}

impl Spec {
    /// These settings, with those of `base` as defaults.
    pub(super) fn over(self, base: Spec) -> Spec {
        // The numbers of one resize mode have no meaning for another.
        let same = self.resize.is_none() || self.resize == base.resize;
        Spec {
            preset: None,
            size: self.size.or(base.size),
            resize: self.resize.or(base.resize),
            crop: self.crop.or(base.crop.filter(|_| same)),
            resize_to: self.resize_to.or(base.resize_to.filter(|_| same)),
            fill: self.fill.or(base.fill.filter(|_| same)),
            filter: self.filter.or(base.filter),
            scale: self.scale.or(base.scale),
            mean: self.mean.or(base.mean),
            std: self.std.or(base.std),
            channels: self.channels.or(base.channels),
            layout: self.layout.or(base.layout),
        }
    }

    pub(super) fn validate(self) -> Result<Preprocess, String> {
        let size = match self.size.ok_or("size is missing")? {
            Size::Square(side) => (side, side),
            Size::HeightWidth([height, width]) => (height, width),
        };
        if !(1..=4096).contains(&size.0) || !(1..=4096).contains(&size.1) {
            return Err(format!("size {} x {}; accepted are 1 to 4096", size.0, size.1));
        }
        let mode = self.resize.ok_or("resize is missing")?;
        for (given, name, of) in [
            (self.crop.is_some(), "crop", Mode::Crop),
            (self.resize_to.is_some(), "resize_to", Mode::ShortSide),
            (self.fill.is_some(), "fill", Mode::Pad),
        ] {
            if given && mode != of {
                return Err(format!("{name} does not go with this resize"));
            }
        }
        let resize = match mode {
            Mode::Squash => Resize::Squash,
            Mode::Crop => {
                let part = self.crop.unwrap_or(1.0);
                if !(part > 0.0 && part <= 1.0) {
                    return Err(format!("crop = {part}; accepted is more than 0, up to 1"));
                }
                Resize::Crop(part)
            }
            Mode::ShortSide => {
                let side = self.resize_to.unwrap_or(size.0.max(size.1));
                if side < size.0.max(size.1) || side > 8192 {
                    let largest = size.0.max(size.1);
                    return Err(format!("resize_to = {side}; accepted are {largest} to 8192"));
                }
                Resize::ShortSide(side)
            }
            Mode::Pad => Resize::Pad(self.fill.unwrap_or_default()),
        };
        let (scale, mean) = (self.scale.unwrap_or(255.0), self.mean.unwrap_or([0.0; 3]));
        let std = self.std.unwrap_or([1.0; 3]);
        for (name, numbers) in [("scale", [scale; 3]), ("std", std)] {
            if !numbers.iter().all(|&number| number.is_finite() && number > 0.0) {
                return Err(format!("{name} must be above 0"));
            }
        }
        if !mean.iter().all(|number| number.is_finite()) {
            return Err("mean must be of finite numbers".into());
        }
        let value = |colour: usize, byte: usize| {
            ((byte as f64 / scale - mean[colour]) / std[colour]) as f32
        };
        Ok(Preprocess {
            size,
            resize,
            filter: self.filter.unwrap_or(Filter::Bilinear),
            channels: self.channels.unwrap_or(Channels::Rgb),
            layout: self.layout.unwrap_or(Layout::Nchw),
            values: Box::new([0, 1, 2].map(|c| std::array::from_fn(|byte| value(c, byte)))),
            spec: self,
        })
    }
}
