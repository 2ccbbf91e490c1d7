//! Scores of all pairs, of some pairs and of the engine's similarity are one thing.

use nextpair_models::{Encodings, Rows, similarity};

use crate::small;

#[test]
fn every_way_to_a_score_gives_the_same() {
    for (name, config) in small::configs() {
        let model = small::model(&config, 1);
        let (images, texts) = small::batch(&config, 5, 2);
        let images = model.encode_images(&images).unwrap();
        let texts = model.encode_texts(&texts).unwrap();
        let scorer = model.scorer().unwrap();
        let all = scorer.scores(&images, &texts).unwrap();
        let pairs: Vec<(u32, u32)> = vec![(0, 0), (3, 1), (3, 4), (4, 2)];
        let some = scorer.pair_scores(&images, &texts, &pairs).unwrap().to_vec1::<f32>().unwrap();
        let plain = scorer.composed_pair_scores(&images, &texts, &pairs).unwrap();
        let plain = plain.to_vec1::<f32>().unwrap();
        for (((image, text), some), plain) in pairs.iter().zip(&some).zip(&plain) {
            let one = all[*image as usize * 5 + *text as usize];
            assert!((one - some).abs() <= 1e-6, "{name}: {one} {some}");
            assert!((one - plain).abs() <= 4e-6, "{name}: {one} {plain}");
        }
        let (images, texts) = (Encodings::of(&images).unwrap(), Encodings::of(&texts).unwrap());
        for which in [Rows::Images, Rows::Texts] {
            let (rows, columns) = match which {
                Rows::Images => (&images, &texts),
                Rows::Texts => (&texts, &images),
            };
            let similarity = similarity(&scorer, which, rows, columns).unwrap();
            let every: Vec<u32> = (0..5).collect();
            let mut tile = vec![0.0; 25];
            similarity.tile(&every, &every, &mut tile).unwrap();
            let error = similarity.tile_error(&every, &every);
            for row in 0..5 {
                let mut exact = [0.0; 2];
                similarity.exact(row, &[4, 1], &mut exact).unwrap();
                for (column, exact) in [4, 1].into_iter().zip(exact) {
                    let at = row as usize * 5 + column;
                    assert!((f64::from(tile[at]) - exact).abs() <= error, "{name} {which:?}");
                    let (image, text) = match which {
                        Rows::Images => (row as usize, column),
                        Rows::Texts => (column, row as usize),
                    };
                    let score = f64::from(all[image * 5 + text]);
                    assert!((score - exact).abs() <= 1e-6, "{name} {which:?} {score} {exact}");
                }
            }
        }
    }
}
