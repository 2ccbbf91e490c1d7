//! Ranks and recall against a plain sort.

use nextpair_core::Matrix;
use nextpair_engine::{
    Embeddings, Error, KnownSimilarities, Metric, Recall, Vectors, ranks, reference,
};
use proptest::prelude::*;

proptest! {
    #![proptest_config(crate::case::config(200))]

    #[test]
    fn ranks_equal_a_plain_sort(
        images in 1usize..20,
        per_image in 1usize..6,
        seed: u64,
        steps in prop::sample::select(vec![2.0, 5.0, 1e6]),
    ) {
        let mut draws = nextpair_engine::Draws::new(seed);
        let captions = images * per_image;
        // Few steps make many ties; negative values are usual.
        let values: Vec<f64> = (0..images * captions)
            .map(|_| (draws.normal() * steps).round() / steps)
            .collect();
        let image_of: Vec<u32> = (0..captions).map(|c| (c / per_image) as u32).collect();
        let every = |n: usize| (0..n as u32).collect::<Vec<_>>();
        let given = KnownSimilarities::new(captions, values.clone()).unwrap();
        let found = ranks(&given, &every(images), &every(captions), &image_of, &()).unwrap();
        for i in 0..images {
            let order = reference::ranking(&values[i * captions..][..captions]);
            let right = order.iter().position(|&c| c / per_image == i).unwrap();
            prop_assert_eq!(found.text[i] as usize, right);
            prop_assert_eq!(found.best_text[i] as usize, order[0]);
        }
        for c in 0..captions {
            let column: Vec<f64> = (0..images).map(|i| values[i * captions + c]).collect();
            let order = reference::ranking(&column);
            let right = order.iter().position(|&i| i == c / per_image).unwrap();
            prop_assert_eq!(found.image[c] as usize, right);
            prop_assert_eq!(found.best_image[c] as usize, order[0]);
        }
    }
}

#[test]
fn many_tiles_of_embeddings_rank_as_a_plain_sort() {
    let (images, per_image, dim) = (600, 3, 12);
    let mut draws = nextpair_engine::Draws::new(1);
    let mut values =
        |n: usize| -> Vec<f32> { (0..n * dim).map(|_| draws.normal() as f32).collect() };
    let (image, text) = (values(images), values(images * per_image));
    let (image, text) = (Matrix::from_f32(dim, &image), Matrix::from_f32(dim, &text));
    let (image, text) = (Vectors::new(image, "i").unwrap(), Vectors::new(text, "t").unwrap());
    let both = Embeddings::new(image.clone(), text.clone(), Metric::Cosine).unwrap();
    let every = |n: usize| (0..n as u32).collect::<Vec<_>>();
    let image_of: Vec<u32> = (0..images * per_image).map(|c| (c / per_image) as u32).collect();
    let found = ranks(&both, &every(images), &every(text.len()), &image_of, &()).unwrap();
    let row = |v: &Vectors, i| {
        let mut x = vec![0.0; dim];
        v.matrix().read_f64(i, &mut x);
        x
    };
    for c in (0..text.len()).step_by(7) {
        let query = row(&text, c);
        let column: Vec<f64> = (0..images)
            .map(|i| reference::similarity(Metric::Cosine, &row(&image, i), &query))
            .collect();
        let order = reference::ranking(&column);
        assert_eq!(order[found.image[c] as usize], c / per_image);
        assert_eq!(found.best_image[c] as usize, order[0]);
    }
}

#[test]
fn recall_of_ranks() {
    let recall = Recall::of(&[0, 3, 4, 9, 10, 20]);
    assert_eq!(recall.at, [100.0 / 6.0, 50.0, 400.0 / 6.0]);
    assert_eq!((recall.median, recall.mean), (7.0, 46.0 / 6.0 + 1.0));
    assert_eq!(Recall::of(&[2, 0, 7]).median, 3.0);
    let recall = Recall::of(&[0, 1, 3]);
    assert!((recall.mean_reciprocal - (1.0 + 0.5 + 0.25) / 3.0).abs() < 1e-15);
    assert!((recall.mean_log - 2f64.ln()).abs() < 1e-15, "{}", recall.mean_log);
    assert_eq!((Recall::of(&[0; 4]).mean_reciprocal, Recall::of(&[0; 4]).mean_log), (1.0, 0.0));
    assert_eq!((Recall::of(&[]).mean_reciprocal, Recall::of(&[]).mean_log), (0.0, 0.0));
}

#[test]
fn captions_and_images_must_fit() {
    let given = KnownSimilarities::new(2, vec![0.1, 0.2, 0.3, 0.4]).unwrap();
    let error = ranks(&given, &[0, 1], &[0, 1], &[0, 5], &()).unwrap_err();
    assert!(matches!(error, Error::CaptionWithoutImage { caption: 1, image: 5, images: 2 }));
    let error = ranks(&given, &[0, 1], &[0, 1], &[0, 0], &()).unwrap_err();
    assert_eq!(error.to_string(), "image 1 has no caption");
}
