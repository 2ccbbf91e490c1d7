//! More rows for existing features: by the same encoder, to the same bits.

use std::fs;
use std::path::Path;

use nextpair_data::dataset::{Dataset, FeatureSource};
use nextpair_data::import::import_scenes;
use nextpair_data::{Dtype, Side, scenes};
use nextpair_encode::{
    DatasetEncoders, Error, ImageEncoder, Output, Pooling, Preprocess, TextEncoder, TextPooling,
    TextRecipe, embed_images, embed_texts,
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
    Output { name: name.to_owned(), dtype, components, replace: false }
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
        let made = DatasetEncoders.text_rows(&dataset, set, &texts, &()).unwrap();
        let stored = features.matrix();
        assert_eq!(
            (made.rows(), made.dim(), made.dtype()),
            (texts.len(), stored.dim(), stored.dtype())
        );
        for caption in 0..texts.len() {
            let row = features.row(caption).unwrap();
            assert!(made.row_bytes(caption) == stored.row_bytes(row), "{name}: {caption}");
        }
        let none = DatasetEncoders.text_rows(&dataset, set, &[], &()).unwrap();
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

#[test]
fn new_image_rows_have_the_bits_of_embed() {
    let folder = tempfile::tempdir().unwrap();
    let mut dataset = dataset(folder.path(), &[]);
    fs::copy(fixture("image.onnx"), folder.path().join("image.onnx")).unwrap();
    let model = folder.path().join("image.onnx");
    let outputs = [
        (output("f16", Dtype::F16, None), Pooling::Pooled),
        (output("f32", Dtype::F32, None), Pooling::Regions(4)),
        (output("three", Dtype::F16, Some(3)), Pooling::Regions(4)),
        (output("two", Dtype::F32, Some(2)), Pooling::Pooled),
    ];
    for (output, pooling) in &outputs {
        let preprocess = Preprocess::parse("size = 8\nresize = \"squash\"").unwrap();
        let encoder = ImageEncoder::open(&model, preprocess, *pooling, None).unwrap();
        embed_images(&mut dataset, &encoder, output, &()).unwrap();
    }
    let files: Vec<_> =
        dataset.items().iter().map(|item| dataset.image_file(&item).unwrap()).collect();
    let files: Vec<&Path> = files.iter().map(|file| file.as_path()).collect();
    // The descriptors of scenes are the first set.
    for set in &dataset.manifest().features {
        let (_, features) = dataset.features(Side::Image, Some(&set.name)).unwrap();
        let made = DatasetEncoders.image_rows(&dataset, set, &files, &()).unwrap();
        let stored = features.matrix();
        assert_eq!(
            (made.rows(), made.locals(), made.dim(), made.dtype()),
            (files.len(), stored.locals(), stored.dim(), stored.dtype())
        );
        for item in 0..files.len() {
            let row = features.row(item).unwrap();
            assert!(made.row_bytes(item) == stored.row_bytes(row), "{}: {item}", set.name);
        }
    }
    assert_eq!(dataset.manifest().features.len(), 5);
    let (set, _) = dataset.features(Side::Image, Some("f16")).unwrap();
    let gone = folder.path().join("gone.png");
    let what = DatasetEncoders.image_rows(&dataset, set, &[&gone], &()).unwrap_err().to_string();
    assert!(what.contains("gone.png"), "{what}");
    fs::write(&model, "x").unwrap();
    let what = DatasetEncoders.check(&dataset, set).unwrap_err().to_string();
    assert!(what.contains("is another file than the image features f16 were made with"), "{what}");
}
