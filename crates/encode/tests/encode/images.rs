use std::thread;

use nextpair_data::picture::Picture;
use nextpair_encode::{Error, ImageEncoder, Pooling, Preprocess, Worker};

use super::{assert_close, expected, fixture, numbers};

fn preprocess(size: u32) -> Preprocess {
    let text = format!(
        "size = {size}\nresize = \"squash\"\nscale = 1\nmean = [127, 127, 127]\nstd = [128, 128, 128]"
    );
    Preprocess::parse(&text).unwrap()
}

fn open(pooling: Pooling, output: Option<&str>) -> Result<ImageEncoder, Error> {
    ImageEncoder::open(&fixture("image.onnx"), preprocess(8), pooling, output)
}

#[test]
fn vectors_and_regions_are_those_of_numpy() {
    let all = expected();
    let (image, worker) = (&all["image"], Worker::new());
    for (pooling, output, used, name) in [
        (Pooling::Pooled, None, "pooled", "pooled"),
        (Pooling::Pooled, Some("grid"), "grid", "pooled"),
        (Pooling::Regions(9), None, "grid", "regions9"),
        (Pooling::Regions(1), None, "grid", "pooled"),
    ] {
        let encoder = open(pooling, output).unwrap();
        let expected = numbers(&image[name]);
        assert_eq!((encoder.output(), encoder.dim()), (used, 6));
        assert_eq!(encoder.locals() * encoder.dim(), expected.len());
        let row = encoder.encode_prepared(&worker, numbers(&image["pixels"])).unwrap();
        assert_close(&row, &expected, 1e-5);
    }
}

#[test]
fn a_row_depends_on_its_picture_alone() {
    let encoder = open(Pooling::Pooled, None).unwrap();
    let pictures: Vec<Picture> = (1..9u32)
        .map(|n| Picture {
            width: n,
            height: 9 - n,
            pixels: (0..3 * n * (9 - n)).map(|i| (i * 37 * n % 256) as u8).collect(),
        })
        .collect();
    let encode = |worker: &Worker, picture| encoder.encode(worker, picture).unwrap();
    let worker = Worker::new();
    let alone: Vec<_> = pictures.iter().map(|picture| encode(&worker, picture)).collect();
    let together: Vec<_> = thread::scope(|scope| {
        let threads: Vec<_> = pictures
            .iter()
            .rev()
            .map(|picture| scope.spawn(move || encode(&Worker::new(), picture)))
            .collect();
        threads.into_iter().rev().map(|thread| thread.join().unwrap()).collect()
    });
    assert_eq!(alone, together);
}

#[test]
fn what_does_not_fit_is_explained() {
    let model = fixture("image.onnx");
    let open_with = |text: &str| {
        ImageEncoder::open(&model, Preprocess::parse(text).unwrap(), Pooling::Pooled, None)
    };
    for (result, expected) in [
        (open(Pooling::Pooled, Some("logits")), "no output 'logits'; there are grid, pooled"),
        (
            open(Pooling::Regions(9), Some("pooled")),
            "output 'pooled' has shape [1, 6]; expected the grid of one picture",
        ),
        (
            open(Pooling::Regions(25), None),
            "output 'grid' has shape [1, 6, 4, 4]; 25 regions are 5 x 5, the grid is 4 x 4",
        ),
        (
            open_with("preset = \"clip\""),
            "input 'pixels' has shape [0, 3, 8, 8]; the preprocessing makes [1, 3, 224, 224]",
        ),
        (
            open_with("preset = \"clip\"\nsize = 8\nlayout = \"nhwc\""),
            "the preprocessing makes [1, 8, 8, 3]",
        ),
        (
            ImageEncoder::open(&fixture("text.onnx"), preprocess(8), Pooling::Pooled, None),
            "2 inputs (input_ids, attention_mask); an image encoder has one",
        ),
    ] {
        let what = result.unwrap_err().to_string();
        assert!(what.contains(expected), "{what}");
    }
    let encoder = open(Pooling::Pooled, None).unwrap();
    let what = encoder.encode_prepared(&Worker::new(), vec![0.0; 5]).unwrap_err().to_string();
    assert!(what.contains("5 numbers for an input of shape [1, 3, 8, 8]"), "{what}");
}
