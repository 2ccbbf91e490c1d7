//! Settings shared by whole families of models.

use super::Filter;
use super::spec::{Mode, Size, Spec};

/// The settings of this name.
pub(super) fn spec(name: &str) -> Option<Spec> {
    let square = Spec { size: Some(Size::Square(224)), ..Spec::default() };
    Some(match name {
        // torchvision and timm models with their usual evaluation transform.
        "imagenet" => Spec {
            resize: Some(Mode::ShortSide),
            resize_to: Some(256),
            filter: Some(Filter::Bilinear),
            mean: Some([0.485, 0.456, 0.406]),
            std: Some([0.229, 0.224, 0.225]),
            ..square
        },
        // OpenAI's CLIP and models trained like it.
        "clip" => Spec {
            resize: Some(Mode::ShortSide),
            filter: Some(Filter::Bicubic),
            mean: Some([0.481_454_66, 0.457_827_5, 0.408_210_73]),
            std: Some([0.268_629_54, 0.261_302_58, 0.275_777_11]),
            ..square
        },
        // SigLIP: the whole picture, to -1..1.
        "siglip" => Spec {
            resize: Some(Mode::Squash),
            filter: Some(Filter::Bicubic),
            mean: Some([0.5; 3]),
            std: Some([0.5; 3]),
            ..square
        },
        // EfficientNet-Lite as trained in TensorFlow: 7/8 of the short side, about -1..1.
        "efficientnet-lite" => Spec {
            resize: Some(Mode::Crop),
            crop: Some(0.875),
            filter: Some(Filter::Bicubic),
            scale: Some(1.0),
            mean: Some([127.0; 3]),
            std: Some([128.0; 3]),
            ..square
        },
        _ => return None,
    })
}
