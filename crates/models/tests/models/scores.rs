//! Scores of all pairs, of some pairs and of the engine's similarity are the same.

use nextpair_data::Side;
use nextpair_models::{Device, Encodings};

use crate::small;

#[test]
fn every_way_to_a_score_gives_the_same() {
    let pairs: Vec<(u32, u32)> = vec![(0, 0), (3, 1), (3, 4), (4, 2)];
    for (name, config) in small::configs() {
        let scored = |device: Device| {
            let model = small::model(&config, 1, device);
            let batch = small::batch(&config, 5, 2, device);
            let images = model.encode_images(&batch.images).unwrap();
            let texts = model.encode_texts(&batch.texts).unwrap();
            let comparison = model.comparison().unwrap();
            let some =
                comparison.pair_scores(&images, &texts, &pairs, None).unwrap().to_f32s().unwrap();
            let all = comparison.scores(&images, &texts).unwrap();
            (model, images, texts, some, all)
        };
        let (_, _, _, plain, _) = scored(Device::Reference);
        for device in Device::available() {
            let (model, images, texts, some, all) = scored(device);
            for (((image, text), some), plain) in pairs.iter().zip(&some).zip(&plain) {
                let one = all[*image as usize * 5 + *text as usize];
                assert!((one - some).abs() <= 1e-6, "{name}: {one} {some}");
                assert!((one - plain).abs() <= 4e-6, "{name} on {device}: {one} {plain}");
            }
            let (images, texts) = (Encodings::of(&images).unwrap(), Encodings::of(&texts).unwrap());
            for side in [Side::Image, Side::Text] {
                let (rows, columns) = side.own_and_other(&images, &texts);
                let similarity = model.similarity(side, rows, columns).unwrap();
                let every: Vec<u32> = (0..5).collect();
                let mut tile = vec![0.0; 25];
                similarity.tile(&every, &every, &mut tile).unwrap();
                let error = similarity.tile_error(&every, &every);
                for row in 0..5 {
                    let mut exact = [0.0; 2];
                    similarity.exact(row, &[4, 1], &mut exact).unwrap();
                    for (column, exact) in [4, 1].into_iter().zip(exact) {
                        let at = row as usize * 5 + column;
                        assert!((f64::from(tile[at]) - exact).abs() <= error, "{name} {side}");
                        let (image, text) = side.image_and_text(row as usize, column);
                        let score = f64::from(all[image * 5 + text]);
                        assert!((score - exact).abs() <= 1e-6, "{name} {side} {score} {exact}");
                    }
                }
            }
        }
    }
}
