//! More rows for existing features: by the same encoder, to the same bits.

use std::fs;
use std::path::Path;

use nextpair_data::dataset::{Dataset, TextSource};
use nextpair_data::import::import_scenes;
use nextpair_data::{Dtype, Side, scenes};
use nextpair_encode::{
    DatasetEncoders, Error, Output, TextEncoder, TextPooling, TextRecipe, embed_texts,
};

use super::fixture;

/// Twelve scenes, and an encoder for their captions beside them.
fn dataset(folder: &Path, outputs: &[Output]) -> Dataset {
    for name in ["text.onnx", "tokenizer.json"] {
        fs::copy(fixture(name), folder.join(name)).unwrap();
    }
    let settings = scenes::Settings { images: 12, ..scenes::Settings::default() };
    import_scenes(&settings, &folder.join("ds"), &()).unwrap();
    let mut dataset = Dataset::open(&folder.join("ds")).unwrap();
    let (model, tokenizer) = (folder.join("text.onnx"), folder.join("tokenizer.json"));
    let encoder = TextEncoder::open(&model, &tokenizer, TextPooling::Mean, true, None).unwrap();
    for output in outputs {
        embed_texts(&mut dataset, &encoder, output, &()).unwrap();
    }
    dataset
}

fn output(name: &str, dtype: Dtype, components: Option<usize>) -> Output {
    Output { name: name.to_owned(), dtype, components, replace: false, resume: false }
}

#[test]
fn new_rows_have_the_bits_of_embed() {
    let folder = tempfile::tempdir().unwrap();
    let outputs = [
        output("f16", Dtype::F16, None),
        output("f32", Dtype::F32, None),
        output("three", Dtype::F16, Some(3)),
        output("two", Dtype::F32, Some(2)),
    ];
    let dataset = dataset(folder.path(), &outputs);
    let captions: Vec<String> = dataset.items().iter().flat_map(|item| item.captions).collect();
    let texts: Vec<&str> = captions.iter().map(String::as_str).collect();
    for Output { name, .. } in &outputs {
        let (set, features) = dataset.features(Side::Text, Some(name)).unwrap();
        let made = DatasetEncoders.rows(&dataset, set, &texts, &()).unwrap();
        let stored = features.matrix();
        assert_eq!(
            (made.rows(), made.dim(), made.dtype()),
            (texts.len(), stored.dim(), stored.dtype())
        );
        for caption in 0..texts.len() {
            let row = features.row(caption).unwrap();
            assert!(made.row_bytes(caption) == stored.row_bytes(row), "{name}: {caption}");
        }
        let none = DatasetEncoders.rows(&dataset, set, &[], &()).unwrap();
        assert_eq!((none.rows(), none.dim()), (0, stored.dim()));
    }
}

#[test]
fn what_is_missing_is_named() {
    let folder = tempfile::tempdir().unwrap();
    let dataset = dataset(folder.path(), &[output("t", Dtype::F16, None)]);
    let (set, _) = dataset.features(Side::Text, None).unwrap();
    DatasetEncoders.check(&dataset, set).unwrap();
    let refused = |set| TextRecipe::open(&dataset, set).err().unwrap();
    let unknown = nextpair_data::dataset::FeatureSet { made_by: None, ..set.clone() };
    assert!(matches!(refused(&unknown), Error::NoRecipe { side: Side::Text, .. }));
    let tokenizer = folder.path().join("tokenizer.json");
    fs::write(&tokenizer, "{}").unwrap();
    assert!(
        matches!(refused(set), Error::Changed { path, .. } if path.ends_with("tokenizer.json"))
    );
    fs::remove_file(folder.path().join("text.onnx")).unwrap();
    assert!(matches!(refused(set), Error::Gone { path, .. } if path.ends_with("text.onnx")));
    assert!(DatasetEncoders.check(&dataset, set).is_err());
}
