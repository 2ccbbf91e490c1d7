//! What was bought and is not learned from, and the command that changes it.

use std::path::Path;

use crate::data::Side;
use crate::models::Unused;

use crate::program::numbers::grouped;
use crate::program::typed;

/// Warns of captions that make no pairs.
pub(crate) fn warn(unused: &[Unused], dataset: &Path) {
    unused.iter().for_each(|unused| alert!("warning: {}", text(unused, dataset)));
}

fn text(unused: &Unused, dataset: &Path) -> String {
    let (captions, items) = (grouped(unused.captions), grouped(unused.items));
    let Unused { side, set, .. } = unused;
    let what = match side {
        Side::Image => format!("their images have no features {set}"),
        Side::Text => format!("they have no vectors in the text features {set}"),
    };
    let (dataset, name) = (typed::path(dataset), typed::quoted(set));
    let command = match unused.has_encoder {
        true => format!("--{side}-model ENCODER.onnx --name {name} --replace"),
        false => format!("--{side}-vectors FILE --ids IDS --name {name}"),
    };
    format!(
        "{captions} captions of {items} items are not learned from: {what}. `nextpair embed {dataset} \
         {command}` adds them"
    )
}
